//! Adds a tier.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::json;
use terrace::{Db, DeviceProfile, TierOptions};
use terrace_tools::inspect;
use terrace_tools::probe::read_profile;

use crate::arguments::TierAdd;
use crate::failure::{Failure, Result};
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
        profile,
    } = arguments;
    let profile = profile.as_deref().map(profile_of).transpose()?;
    let tier = TierOptions {
        capacity_bytes: *capacity,
        reserve_bytes: *reserve,
        profile,
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
            "profile": profile,
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

/// Returns the profile of a known device, or the one in a file.
pub(super) fn profile_of(given: &Path) -> Result<DeviceProfile> {
    if let Some(known) = given.to_str().and_then(DeviceProfile::named) {
        return Ok(known);
    }
    let text = fs::read_to_string(given).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::Usage(format!(
            "--profile: there is no file {}, and the known devices are {}",
            shown(given),
            DeviceProfile::PRESETS.map(|(name, _)| name).join(", "),
        )),
        _ => Failure::file(given, error),
    })?;
    read_profile(&text)
        .map_err(|reason| Failure::Usage(format!("--profile: {}: {reason}", shown(given))))
}
