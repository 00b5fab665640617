//! Adds a tier.

use std::path::Path;

use serde_json::json;
use terrace::{Db, TierOptions};
use terrace_tools::inspect;

use crate::arguments::TierAdd;
use crate::failure::Result;
use crate::output::{print, print_json_line};
use crate::report::{by_owners, bytes};
use crate::store;
use crate::text::{escape, json_path, shown};

pub fn run(arguments: &TierAdd) -> Result<()> {
    let TierAdd {
        maintenance,
        name,
        directory,
        capacity,
        reserve,
    } = arguments;
    let tier = TierOptions {
        capacity_bytes: *capacity,
        reserve_bytes: *reserve,
        ..TierOptions::new(name, directory)
    };
    let by_owner = |store: &Path| inspect::add_tier(store, &tier);
    let found = store::maintain(&maintenance.store, by_owner)?;
    let ((), by_owner) = store::change(found, |db: &Db| db.add_tier(&tier))?;
    if maintenance.json {
        let mut told = json!({
            "tier": name,
            "capacity_bytes": capacity,
            "reserve_bytes": reserve,
            "by_owner": by_owner,
        });
        json_path(&mut told, "path", Some(directory));
        return print_json_line(&told);
    }
    let limit = capacity.map_or("as much as its file system has".to_owned(), bytes);
    let (name, path) = (escape(name.as_bytes()), shown(directory));
    let owner = by_owners(by_owner);
    print(format!("added tier {name}{owner}: {limit} in {path}\n"))
}
