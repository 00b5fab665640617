//! Takes a tier from a store, or gives a missing one up.

use std::path::Path;

use serde_json::json;
use terrace::Db;
use terrace_tools::inspect::{self, tiers};

use crate::arguments::TierRemove;
use crate::failure::Result;
use crate::output::{print, print_json_line};
use crate::report::{by_owners, things};
use crate::store;
use crate::text::escape;

pub fn run(arguments: &TierRemove) -> Result<()> {
    let TierRemove {
        maintenance,
        name,
        accept_loss,
    } = arguments;
    let options = store::options_to_write(&maintenance.store)?;
    let options = match accept_loss {
        // The store cannot open without the tables that it is to give up.
        true => store::with_tier_loss(options),
        false => options,
    };
    let is_in_options = options.tiers.iter().any(|tier| tier.name == *name);
    let by_owner = |store: &Path| inspect::remove_tier(store, name, *accept_loss);
    let found = store::maintain_by(&maintenance.store, options, by_owner)?;
    let here = |db: &Db| tiers::remove(db, name, *accept_loss);
    let (lost_tables, by_owner) = store::change(found, here)?;
    if maintenance.json {
        return print_json_line(&json!({
            "tier": name,
            "lost_tables": lost_tables,
            "is_in_options": is_in_options,
            "by_owner": by_owner,
        }));
    }
    let (name, owner) = (escape(name.as_bytes()), by_owners(by_owner));
    let mut text = match lost_tables {
        0 => format!("removed tier {name}{owner}\n"),
        lost => format!(
            "removed tier {name}{owner}; {} lost\n\
             OLDER VERSIONS OF THEIR KEYS, AND KEYS THAT THEY DELETED, MAY SHOW NOW\n",
            things(lost, "table")
        ),
    };
    if is_in_options {
        text.push_str("the options still name it: the next opening by them makes it again\n");
    }
    print(text)
}
