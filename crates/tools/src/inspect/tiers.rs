//! Tiers of an open store, as its owner and the shell look at them and change them.

use serde::{Deserialize, Serialize};
use terrace::{Db, Error, PlacedTable, Result};

/// The tables of a keyspace, each with the reason for its tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspacePlacement {
    /// The keyspace's name.
    pub keyspace: String,
    /// Its tables, from the top level.
    pub tables: Vec<PlacedTable>,
}

/// Returns the tables of a keyspace, or of all without a name, each with the reason for its tier.
///
/// ```
/// use terrace::{Db, Options, TierOptions};
/// use terrace_tools::inspect::tiers::placed_tables;
///
/// let db = Db::open("/store", Options::in_memory())?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let placed = placed_tables(&db, None)?;
/// assert_eq!(placed[0].keyspace, "default");
/// assert_eq!(placed[0].tables[0].tier, "store");
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoKeyspace`] if there is none with the name.
pub fn placed_tables(db: &Db, keyspace: Option<&str>) -> Result<Vec<KeyspacePlacement>> {
    let keyspaces = match keyspace {
        Some(name) => vec![db.keyspace(name)?],
        None => db.keyspaces(),
    };
    let mut placed = Vec::new();
    for found in keyspaces {
        match db.placed_tables(&found) {
            Ok(tables) => placed.push(KeyspacePlacement {
                keyspace: found.name(),
                tables,
            }),
            // It was dropped since the list was made.
            Err(Error::NoKeyspace { .. }) if keyspace.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(placed)
}

/// Takes a tier from a store. With `accept_loss`, a missing one is given up with the tables in it:
/// **older versions of their keys, and keys that they deleted, may show then.** Returns the number of
/// tables that are lost.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is no such tier, if it holds files, or if it is missing with
/// tables and the loss is not accepted; those of the manifest.
pub fn remove(db: &Db, name: &str, accept_loss: bool) -> Result<u64> {
    let tiers = db.tiers();
    let lost = tiers
        .iter()
        .find(|tier| tier.name == name && tier.state == LOST);
    match lost {
        Some(_) if accept_loss => Ok(db.give_up_tier(name)? as u64),
        Some(lost) if lost.tables > 0 => Err(Error::invalid(format!(
            "tier {name:?} is missing with {} tables; bring it back and drain it, or accept the loss \
             (--accept-loss)",
            lost.tables
        ))),
        _ => db.remove_tier(name).map(|()| 0),
    }
}

/// The state of a tier whose directory is missing.
const LOST: &str = "lost";
