//! Small levels for the tests of this module and of `compaction`.

use std::sync::Arc;

use super::edit::{Domain, Edit, Identity, TableAdded, TableMoved, TableRemoved};
use super::state::ManifestState;
use super::table_meta::{KeyRange, TableMeta};
use super::version::{KeyspaceLevels, Place, Version};
use crate::key::KeyspaceId;

pub fn identity() -> Identity {
    Identity {
        store_id: 0x0123_4567_89ab_cdef,
        hash_seed: 42,
        domain: Domain::CrashSafe,
    }
}

/// Returns a new store's state.
pub fn new_state() -> ManifestState {
    ManifestState::begin(&ManifestState::first_edit(identity())).unwrap()
}

pub fn meta(number: u64, smallest: &str, largest: &str) -> TableMeta {
    TableMeta {
        number,
        identity: u128::from(number) << 64,
        keyspace: KeyspaceId::DEFAULT,
        size_bytes: 100,
        entries: 10,
        tombstones: 1,
        range_tombstones: 0,
        oldest_tombstone_seconds: None,
        superseded: None,
        bounds: KeyRange::inclusive(smallest, largest),
        narrowed: false,
        min_sequence: number,
        max_sequence: number + 1,
        assigned: false,
        tier: 1,
    }
}

/// Returns the place in level 0 of the flush with this name, each younger than those before.
pub fn flush_place(name: u64) -> Place {
    Place {
        level: 0,
        sub_level: super::FIRST_SUB_LEVEL_NUMBER + name,
        age: super::FIRST_FLUSH_AGE + name,
    }
}

/// Returns the place below level 0 of a sub-level whose oldest flush has this name.
pub fn sub_level_place(level: u8, name: u64) -> Place {
    let flush = flush_place(name);
    Place {
        level,
        sub_level: flush.sub_level + 1000 * u64::from(level),
        age: flush.age - u64::from(level),
    }
}

pub fn added(place: Place, number: u64, smallest: &str, largest: &str) -> TableAdded {
    TableAdded {
        place,
        table: meta(number, smallest, largest),
    }
}

pub fn removed(number: u64) -> TableRemoved {
    TableRemoved {
        keyspace: KeyspaceId::DEFAULT,
        number,
    }
}

pub fn moved(number: u64, to: Place) -> TableMoved {
    TableMoved {
        keyspace: KeyspaceId::DEFAULT,
        number,
        to,
    }
}

/// Returns an edit that removes and adds tables.
pub fn replace(numbers: &[u64], tables: Vec<TableAdded>) -> Edit {
    Edit {
        tables_removed: numbers.iter().copied().map(removed).collect(),
        tables_added: tables,
        ..Edit::default()
    }
}

/// Returns a version that holds just these tables of the default keyspace.
pub fn version(tables: Vec<TableAdded>) -> Version {
    let edit = Edit {
        tables_added: tables,
        ..ManifestState::first_edit(identity())
    };
    let state = ManifestState::begin(&edit).unwrap();
    (*state.version).clone()
}

pub fn levels(version: &Version) -> &Arc<KeyspaceLevels> {
    version.keyspace(KeyspaceId::DEFAULT).unwrap()
}
