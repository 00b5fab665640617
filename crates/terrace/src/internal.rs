//! For this workspace's own tests and fuzzers; not part of the interface, and free to change.

use std::path::Path;
use std::sync::Arc;

use terrace_lsm::compaction::estimates::Duplicates;
use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Reason};
use terrace_lsm::key::Kind;
use terrace_lsm::levels::{KeyRange, check_age_rule};
use terrace_lsm::sync::atomic::Ordering;
use terrace_lsm::table::CursorOptions;
use terrace_storage::{Clock, Purpose};

use crate::db::jobs::Ended;
use crate::{
    Db, DbIterator, IterOptions, KeyspaceId, Options, ReadOptions, Result, Snapshot, Value,
    WriteBatch,
};

pub use crate::db::region_home::fuzz_region;
pub use crate::db::tiers::cache::format::fuzz_cache;
pub use crate::db::tiers::home::fuzz_tier;
pub use crate::randomness::Randomness;
pub use crate::write_buffer::bench::IndexBench;
pub use crate::write_buffer::fuzz::{fuzz_arena, fuzz_record};
pub use terrace_lsm::levels::fuzz::{fuzz_current, fuzz_edit, fuzz_manifest};
pub use terrace_lsm::table::FilterBench;
pub use terrace_lsm::table::forging::forge_blocks;
pub use terrace_lsm::table::fuzz::{fuzz_block, fuzz_forged, fuzz_table};
#[cfg(feature = "serde")]
pub use terrace_lsm::toml_text::toml_refusal;

/// A keyspace beside the default one.
pub const SECOND: KeyspaceId = KeyspaceId::from_number(2);

/// Does [`Db::open`] with a clock for [`Options::background_bytes_per_second`] and
/// [`Options::tombstone_age_seconds`].
pub fn open_on(path: impl AsRef<Path>, options: Options, clock: Arc<dyn Clock>) -> Result<Db> {
    Db::open_on(path.as_ref(), options, clock)
}

/// Creates [`SECOND`] if the store does not have it.
pub fn create_second(db: &Db) -> Result<()> {
    let store = db.store();
    if store.reads.view.load().version.keyspace(SECOND).is_some() {
        return Ok(());
    }
    let form = store.options.default_keyspace.clone();
    let id = store.create_keyspace("second", form)?;
    assert_eq!(id, SECOND, "the first keyspace made");
    Ok(())
}

/// Does [`WriteBatch::put`] in a keyspace.
pub fn put(batch: &mut WriteBatch, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> Result<()> {
    batch.push(Kind::Put, keyspace, key, value)
}

/// Does [`WriteBatch::delete`] in a keyspace.
pub fn delete(batch: &mut WriteBatch, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
    batch.push(Kind::Delete, keyspace, key, &[])
}

/// Does [`WriteBatch::delete_range`] in a keyspace.
pub fn delete_range(
    batch: &mut WriteBatch,
    keyspace: KeyspaceId,
    from: &[u8],
    to: &[u8],
) -> Result<()> {
    batch.push_range_delete(keyspace, from, to)
}

/// Does [`Keyspace::get_at`](crate::Keyspace::get_at) in a keyspace.
pub fn get(
    db: &Db,
    keyspace: KeyspaceId,
    key: &[u8],
    snapshot: Option<&Snapshot>,
) -> Result<Option<Value>> {
    let options = snapshot.map_or_else(ReadOptions::default, ReadOptions::at);
    db.store().get(keyspace, key, &options)
}

/// Does [`Keyspace::iter`](crate::Keyspace::iter).
pub fn iter(db: &Db, keyspace: KeyspaceId, options: IterOptions) -> Result<DbIterator> {
    DbIterator::new(Arc::clone(db.store()), keyspace, options)
}

/// Walks every version in the tables and checks that ages order them.
pub fn check_ages(db: &Db) -> std::result::Result<(), String> {
    let store = db.store();
    let version = Arc::clone(&store.reads.view.load().version);
    let options = CursorOptions::uncached(Purpose::Other);
    match check_age_rule(
        &version,
        store.files.opener(options),
        store.files.range_reader(),
    ) {
        Ok(None) => Ok(()),
        Ok(Some(violation)) => Err(violation.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the merges since the store was opened that took a range of keys and left the rest.
pub fn range_merges(db: &Db) -> u64 {
    db.store()
        .metrics
        .counters
        .range_merges
        .load(Ordering::Relaxed)
}

/// Poisons the store as a failed sync would.
pub fn poison(db: &Db) {
    db.store().poison(crate::Error::Closed);
}

/// Claims a range of the default keyspace's keys where its youngest tables are, as a bulk load does,
/// until the answer is dropped. `None` if the keyspace has no table.
pub fn reserve<'a>(db: &'a Db, smallest: &[u8], largest: &[u8]) -> Option<impl Sized + 'a> {
    let store = db.store();
    let version = Arc::clone(&store.reads.view.load().version);
    let place = version.keyspace(KeyspaceId::DEFAULT)?.youngest()?;
    let range = KeyRange::inclusive(smallest, largest);
    let jobs = &store.compactor.jobs;
    jobs.reserve(KeyspaceId::DEFAULT, &range, place)
}

/// Lets the store believe that a merge into the oldest place of the default keyspace dropped nothing.
/// It had `versions`, of which `expected` were to stay. Returns the level and the age of the place.
pub fn merge_without_drops(db: &Db, versions: u64, expected: f64) -> Option<(u8, u64)> {
    let store = db.store();
    let version = Arc::clone(&store.reads.view.load().version);
    let levels = version.keyspace(KeyspaceId::DEFAULT)?;
    let (output, _) = levels.tables().last()?;
    let choice = Choice {
        reason: Reason::AskedFor,
        kind: ChoiceKind::Merge,
        inputs: Vec::new(),
        output,
        predicted: Some(Duplicates::new(versions, expected, 0)),
    };
    let ended = Ended::whole(levels.id, choice);
    let nothing_dropped = ended.past_without_drops(versions);
    store.compactor.monitor.compare(&ended, &nothing_dropped);
    Some((output.level, output.age))
}
