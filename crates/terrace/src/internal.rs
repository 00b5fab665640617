//! For this workspace's own tests and fuzzers; not part of the interface, and free to change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_storage::Purpose;
use xxhash_rust::xxh3::xxh3_64;

use crate::key::{Kind, Tag};
use crate::levels::{Edit, KeyspaceCreated, check_age_rule};
use crate::table::CursorOptions;
use crate::write_buffer::index::{Entry, Index, KeyBytes};
use crate::write_buffer::memtable::MemTable;
use crate::{Db, DbIterator, IterOptions, KeyspaceId, Result, Snapshot, Value, WriteBatch};

pub use crate::levels::fuzz::{fuzz_current, fuzz_edit, fuzz_manifest};
pub use crate::table::fuzz::{fuzz_block, fuzz_table};
pub use crate::write_buffer::fuzz::{fuzz_arena, fuzz_record};

/// A keyspace beside the default one.
pub const SECOND: KeyspaceId = KeyspaceId(2);

/// Creates [`SECOND`] if the store does not have it.
pub fn create_second(db: &Db) -> Result<()> {
    let store = db.store();
    if store.view.load().version.keyspace(SECOND).is_some() {
        return Ok(());
    }
    let created = KeyspaceCreated {
        id: SECOND,
        name: "second".to_owned(),
    };
    store.install_edit(Edit {
        keyspaces_created: vec![created],
        ..Edit::default()
    })
}

/// [`WriteBatch::put`] in a keyspace.
pub fn put(batch: &mut WriteBatch, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> Result<()> {
    batch.push(Kind::Put, keyspace, key, value)
}

/// [`WriteBatch::delete`] in a keyspace.
pub fn delete(batch: &mut WriteBatch, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
    batch.push(Kind::Delete, keyspace, key, &[])
}

/// [`Db::get`] or [`Db::get_at`] in a keyspace.
pub fn get(
    db: &Db,
    keyspace: KeyspaceId,
    key: &[u8],
    snapshot: Option<&Snapshot>,
) -> Result<Option<Value>> {
    db.store()
        .get(keyspace, key, snapshot.map(Snapshot::sequence))
}

/// [`Db::iter`] in a keyspace.
pub fn iter(db: &Db, keyspace: KeyspaceId, options: IterOptions) -> Result<DbIterator> {
    DbIterator::new(Arc::clone(db.store()), keyspace, options)
}

/// Walks every version in the tables and checks that ages order them.
pub fn check_ages(db: &Db) -> std::result::Result<(), String> {
    let store = db.store();
    let version = Arc::clone(&store.view.load().version);
    let options = CursorOptions::uncached(Purpose::Other);
    match check_age_rule(&version, store.opener(options)) {
        Ok(None) => Ok(()),
        Ok(Some(violation)) => Err(violation.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The time that `threads` inserters together take for `entries` random 24-byte keys.
pub fn index_insert_time(entries: u64, threads: u64) -> Duration {
    struct Keys(Vec<u8>);
    impl KeyBytes for Keys {
        fn key_bytes(&self, offset: u32, length: u32) -> &[u8] {
            self.0
                .get(offset as usize..(offset + length) as usize)
                .unwrap_or_default()
        }
    }
    const KEY_BYTES: u64 = 24;
    let mut keys = Vec::new();
    for entry in 0..entries {
        let hash = xxh3_64(&entry.to_le_bytes());
        keys.extend_from_slice(format!("{hash:0>24x}").as_bytes().split_at(8).1);
        keys.extend_from_slice(&hash.to_le_bytes());
    }
    let keys = Keys(keys);
    let index = Index::new(MemTable::index_bytes_for(entries));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (index, keys) = (&index, &keys);
            scope.spawn(move || {
                for number in (thread..entries).step_by(threads as usize) {
                    let entry = Entry {
                        keyspace: 1,
                        tag: Tag::new(number + 1, Kind::Put),
                        key_offset: (number * KEY_BYTES) as u32,
                        key_bytes: KEY_BYTES as u32,
                        value_bytes: 0,
                    };
                    // The budget holds them all.
                    let _ = index.insert(entry, keys);
                }
            });
        }
    });
    began.elapsed()
}

/// Poisons the store as a failed sync would.
pub fn poison(db: &Db) {
    db.store().poison(crate::Error::Closed);
}
