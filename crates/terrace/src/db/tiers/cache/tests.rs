use std::collections::BTreeSet;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_lsm::table::copies::{BlockCopies, Copied, CopiedBlock, CopiedTable};
use terrace_storage::{
    Access, CrashKind, CrashSwitch, Directory, FailingStorage, Fault, FaultFilter, FaultPlan,
    Operation, SimulatedStorage, Storage,
};

use super::opening::Opening;
use super::*;

const BLOCK_BYTES: usize = 1000;
const CACHE_BYTES: u64 = 256 << 10;
const OWNER: Owner = Owner {
    store_id: 11,
    tier_id: 12,
};

fn storage() -> SimulatedStorage {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/t")).unwrap();
    storage
}

fn directory(storage: &dyn Storage) -> Arc<dyn Directory> {
    storage.directory(Path::new("/t"), Access::Owner).unwrap()
}

fn opened_with(
    storage: &dyn Storage,
    writes: Writes,
    owner: Owner,
    tables: std::ops::Range<u64>,
) -> Option<Arc<TierCache>> {
    let listed: BTreeSet<u64> = tables.collect();
    let opening = Opening {
        writes,
        direct: false,
        polled: false,
        usual_block_bytes: BLOCK_BYTES as u64,
        blocks: &Arc::new(BlockCache::new(1 << 20, false)),
        listed: &listed,
    };
    opening.open(&*directory(storage), owner, CACHE_BYTES)
}

fn opened(storage: &dyn Storage) -> Arc<TierCache> {
    opened_with(storage, Writes::Inline, OWNER, 1..100).unwrap()
}

fn name(number: u64) -> CopiedBlock {
    CopiedBlock {
        table: CopiedTable {
            number: 1 + number % 9,
            identity: 5,
            file_bytes: 1 << 20,
        },
        offset: 16 + number * BLOCK_BYTES as u64,
        length_bytes: BLOCK_BYTES as u64,
    }
}

fn bytes(number: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(number);
    (0..BLOCK_BYTES).map(|_| random.random::<u8>()).collect()
}

/// Reads a block as a table does. Returns whether it was a hit.
fn read(cache: &TierCache, number: u64) -> bool {
    match cache.look(&name(number), true) {
        Copied::Found(found) => {
            assert_eq!(found, bytes(number), "{number}");
            true
        }
        Copied::Wanted => {
            cache.offer(&name(number), bytes(number));
            false
        }
        Copied::Unwanted => false,
    }
}

fn hits(cache: &TierCache, numbers: std::ops::Range<u64>) -> u64 {
    numbers.filter(|number| read(cache, *number)).count() as u64
}

fn length(storage: &SimulatedStorage) -> u64 {
    let entries = storage.list(Path::new("/t")).unwrap();
    let file = entries.iter().find(|entry| entry.name == "CACHE");
    file.map_or(0, |file| file.length_bytes)
}

#[test]
fn blocks_are_found_and_the_file_keeps_its_bound() {
    let storage = storage();
    let cache = opened(&storage);
    assert_eq!(hits(&cache, 0..100), 0);
    assert_eq!(hits(&cache, 0..100), 100);
    // Ten times as many as fit, each a few times.
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..20_000 {
        read(&cache, random.random_range(0..2500));
        assert!(length(&storage) <= CACHE_BYTES);
    }
    let statistics = cache.statistics(CACHE_BYTES);
    assert!(
        statistics.evicted > 0 && statistics.kept > 0,
        "{statistics:?}"
    );
    assert!(statistics.rejected > statistics.admitted, "{statistics:?}");
    assert!(
        statistics.block_bytes > CACHE_BYTES * 3 / 4,
        "{statistics:?}"
    );
    assert_eq!((statistics.damaged, statistics.failures), (0, 0));
    let held = cache.held_bytes.load(Ordering::Relaxed);
    assert!(held > 0 && held < CACHE_BYTES / 4, "{held} bytes");
}

#[test]
fn a_restart_is_warm_and_a_kill_takes_one_segment() {
    let storage = storage();
    let cache = opened(&storage);
    hits(&cache, 0..200);
    assert_eq!(hits(&cache, 0..200), 200);
    // As a kill leaves it: the last segment has no list.
    let killed = storage.crash(CrashKind::Kill, 1, CrashSwitch::new());
    cache.close();
    assert_eq!(cache.look(&name(1), true), Copied::Unwanted, "it is closed");
    let again = opened(&storage);
    assert_eq!(hits(&again, 0..200), 200);
    assert_eq!(again.statistics(CACHE_BYTES).misses, 0);
    let again = opened(&killed);
    let found = hits(&again, 0..200);
    assert!((180..200).contains(&found), "{found}");
    // A power cut may take anything, and never gives a wrong block.
    for seed in 0..20 {
        let cut = storage.crash(CrashKind::PowerCut, seed, CrashSwitch::new());
        if let Some(cache) = opened_with(&cut, Writes::Inline, OWNER, 1..100) {
            hits(&cache, 0..200);
            assert_eq!(hits(&cache, 0..200), 200);
        }
    }
}

#[test]
fn a_closed_cache_holds_no_file_and_no_memory() {
    let storage = storage();
    for discards in [false, true] {
        let cache = opened(&storage);
        hits(&cache, 0..100);
        match discards {
            true => cache.discard(),
            false => cache.close(),
        }
        // Tables that are open know it still.
        assert_eq!(hits(&cache, 0..100), 0);
        cache.offer(&name(1), bytes(1));
        let statistics = cache.statistics(CACHE_BYTES);
        assert_eq!((statistics.is_on, statistics.blocks), (false, 0));
        assert!(statistics.memory_bytes < 1000, "{statistics:?}");
        assert!(cache.file.is_closed());
    }
    assert_eq!(hits(&opened(&storage), 0..100), 100);
}

#[test]
fn others_files_are_not_believed() {
    let storage = storage();
    let cache = opened(&storage);
    hits(&cache, 0..100);
    cache.close();
    let store_id = OWNER.store_id + 1;
    let foreign = Owner { store_id, ..OWNER };
    assert!(opened_with(&storage, Writes::Never, foreign, 1..100).is_none());
    let cache = opened_with(&storage, Writes::Inline, foreign, 1..100).unwrap();
    assert_eq!(hits(&cache, 0..100), 0);
    assert_eq!(cache.statistics(CACHE_BYTES).damaged, 0);
    cache.close();
    // The file is theirs now.
    assert_eq!(hits(&opened(&storage), 0..100), 0);
}

#[test]
fn entries_of_tables_that_are_gone_do_not_stay() {
    let storage = storage();
    let cache = opened(&storage);
    hits(&cache, 0..100);
    cache.close();
    let cache = opened_with(&storage, Writes::Inline, OWNER, 2..100).unwrap();
    let left = cache.statistics(CACHE_BYTES).blocks;
    assert_eq!(
        left,
        (0..100).filter(|number| number % 9 != 0).count() as u64
    );
    // While the store is open they go with their segments, though they were read often.
    for _ in 0..14 {
        hits(&cache, 0..100);
    }
    cache.table_removed(2);
    // Each segment is emptied once at least. Readers would not offer blocks that are read so seldom.
    for number in 1000..1400 {
        cache.offer(&name(number), bytes(number));
    }
    let has = |number: u64| cache.has(&name(number));
    let of_table = |table: u64| (0..100).filter(move |number| 1 + number % 9 == table);
    assert_eq!(of_table(2).filter(|number| has(*number)).count(), 0);
    assert!(of_table(3).filter(|number| has(*number)).count() > 5);
}

#[test]
fn a_reader_of_the_store_finds_blocks_and_writes_nothing() {
    const CHANGES: [Operation; 6] = [
        Operation::Write,
        Operation::Remove,
        Operation::Allocate,
        Operation::Truncate,
        Operation::Rename,
        Operation::Sync,
    ];
    let storage = storage();
    let cache = opened(&storage);
    hits(&cache, 0..100);
    cache.close();
    let plan = FaultPlan::new(FaultFilter::everything().operations(&CHANGES));
    let failing = FailingStorage::new(Arc::new(storage.clone()), plan.clone());
    let reader = opened_with(&failing, Writes::Never, OWNER, 1..100).unwrap();
    assert_eq!(hits(&reader, 0..150), 100);
    assert_eq!(hits(&reader, 0..150), 100);
    reader.close();
    assert_eq!(plan.count(), 0, "a write");
}

#[test]
fn a_device_that_fails_turns_the_cache_off() {
    let storage = storage();
    let plan = FaultPlan::new(FaultFilter::everything());
    let failing = FailingStorage::new(Arc::new(storage.clone()), plan.clone());
    let cache = opened(&failing);
    hits(&cache, 0..100);
    plan.fail_from(plan.count(), Fault::Io);
    hits(&cache, 0..100);
    let statistics = cache.statistics(CACHE_BYTES);
    assert!(!statistics.is_on);
    assert_eq!(
        (statistics.failures, statistics.blocks),
        (8, 0),
        "{statistics:?}"
    );
    let operations = plan.count();
    assert_eq!(hits(&cache, 0..100), 0);
    assert_eq!(plan.count(), operations, "nothing is asked of it any more");
}

#[test]
fn many_threads_read_the_right_blocks() {
    let storage = storage();
    let cache = opened_with(&storage, Writes::InThread, OWNER, 1..100).unwrap();
    cache.start().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(thread);
                let mut found = 0;
                for _ in 0..5_000 {
                    let number = random.random_range(0..400) * random.random_range(1..4);
                    found += u64::from(read(cache, number));
                }
                assert!(found > 500, "{found}");
            });
        }
    });
    cache.close();
    let statistics = cache.statistics(CACHE_BYTES);
    assert!(statistics.evicted > 0, "{statistics:?}");
    assert_eq!((statistics.damaged, statistics.failures), (0, 0));
    let again = opened(&storage);
    assert!(hits(&again, 0..1200) > 100);
    assert_eq!(again.statistics(CACHE_BYTES).damaged, 0);
}
