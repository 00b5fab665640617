use super::damage::places;
use super::*;
use crate::cursor::Cursor;
use crate::data_files::{DataFiles, Placed};
use crate::table::block::Block;
use crate::table::cache::CachedBlock;
use crate::table::descriptors::TableLimit;
use crate::table::walk::BlockRole;

const FILES: OpenOptions = OpenOptions::buffered(OpenMode::Read);

pub(super) fn versions() -> Vec<Version> {
    (0..400u64)
        .map(|n| version(format!("{n:05}").as_bytes(), n + 1, Kind::Put, &[7; 40]))
        .collect()
}

pub(super) fn table_on(storage: &SimulatedStorage) -> (Arc<TableReader>, Arc<BlockCache>) {
    write(storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    let table = open_at(storage, PATH, 7, Arc::clone(&cache));
    (table.unwrap(), cache)
}

#[test]
fn a_block_is_read_once_and_found_afterwards() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    get(&table, b"00100", 500).unwrap().unwrap();
    assert_eq!((cache.hits(), cache.misses()), (0, 2));
    get(&table, b"00100", 500).unwrap().unwrap();
    // The partition of the index is pinned: it is not looked for.
    assert_eq!((cache.hits(), cache.misses()), (1, 2));
}

#[test]
fn a_full_cache_takes_a_block_in_at_its_second_miss() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(16 << 10, false));
    let table = open_at(&storage, PATH, 7, Arc::clone(&cache)).unwrap();
    let misses = |key: u64| {
        let before = cache.misses();
        get(&table, format!("{key:05}").as_bytes(), 500)
            .unwrap()
            .unwrap();
        cache.misses() > before
    };
    let one_a_block = || (0..400).step_by(10);
    one_a_block().for_each(|key| {
        misses(key);
    });
    let cold = one_a_block().find(|&key| misses(key)).unwrap();
    assert!(misses(cold), "it was taken in at the first miss");
    assert!(!misses(cold), "it was not taken in at the second miss");
}

#[test]
fn a_key_that_the_filter_denies_costs_no_block() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let denied = (0..100u32)
        .map(|n| format!("00100/{n}"))
        .find(|key| !table.may_contain(key_hash(key.as_bytes(), SEED)))
        .unwrap();
    assert_eq!(get(&table, denied.as_bytes(), 500).unwrap(), None);
    assert_eq!(cache.misses(), 0);
}

#[test]
fn a_read_that_may_not_fill_the_cache_does_not() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let mut cursor = table.cursor(CursorOptions::uncached(Purpose::Compaction));
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn a_cursor_that_walks_in_order_reads_many_blocks_at_once() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let counting = CountingStorage::new(storage);
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    let table = open_at(&counting, PATH, 7, Arc::clone(&cache)).unwrap();
    let mut cursor = table.cursor(CursorOptions::user_read());
    let reads = || counting.snapshot().of(Purpose::Read).reads;
    let before = reads();
    cursor.seek_to_first().unwrap();
    cursor.prev().unwrap();
    // A partition and a block: nothing is read ahead of a cursor that may stop here.
    assert_eq!(reads() - before, 2);
    cursor.seek_to_first().unwrap();
    let mut walked = 0;
    while cursor.valid() {
        assert_eq!(cursor.value(), [7; 40]);
        walked += 1;
        cursor.next().unwrap();
    }
    let blocks = cache.misses();
    assert_eq!(walked, 400);
    assert!(
        blocks > 40 && reads() - before < blocks / 3,
        "{blocks} blocks, {}",
        reads()
    );
    // Each was put into the cache as it was reached.
    let before = reads();
    assert_eq!(get(&table, b"00399", 500).unwrap().unwrap().1, [7; 40]);
    assert_eq!(reads(), before);
}

/// Where each block waits for the device, the second one brings the blocks that follow. Where
/// cursors usually go on so far, the first one does.
#[test]
fn a_cursor_past_the_page_cache_reads_ahead_what_others_needed() {
    let reads_of_three_blocks = |direct: bool| {
        let storage = Arc::new(memory());
        write(&*storage, &versions(), options(Compression::None, 512));
        let counting = CountingStorage::new(storage);
        let open_options = OpenOptions {
            direct,
            ..OpenOptions::buffered(OpenMode::Read)
        };
        let file = counting.open(Path::new(PATH), open_options).unwrap();
        let cache = Arc::new(BlockCache::new(1 << 20, direct));
        let table =
            TableReader::from_file(file, PathBuf::from(PATH), 7, cache, None, None).unwrap();
        let options = CursorOptions {
            ask_cache: false,
            fill_cache: false,
            ..CursorOptions::user_read()
        };
        let reads = || {
            let mut cursor = table.cursor(options);
            let before = counting.snapshot().of(Purpose::Read).reads;
            cursor.seek_to_first().unwrap();
            // Ten rows a block.
            (0..25).for_each(|_| cursor.next().unwrap());
            counting.snapshot().of(Purpose::Read).reads - before
        };
        let first = reads();
        (0..30).for_each(|_| _ = reads());
        let usual = reads();
        for _ in 0..30 {
            table.cursor(options).seek_to_first().unwrap();
        }
        let seldom = reads();
        // Backwards one block after the other is read alone, and no cursor learns from it.
        (0..30).for_each(|_| _ = reads());
        for _ in 0..30 {
            let mut cursor = table.cursor(options);
            let before = counting.snapshot().of(Purpose::Read).reads;
            cursor.seek_to_last().unwrap();
            (0..25).for_each(|_| cursor.prev().unwrap());
            assert_eq!(counting.snapshot().of(Purpose::Read).reads - before, 4);
        }
        (first, usual, seldom, reads())
    };
    // With the partition, which nothing keeps here.
    assert_eq!(reads_of_three_blocks(false), (4, 4, 4, 4));
    assert_eq!(reads_of_three_blocks(true), (3, 2, 3, 2));
}

#[test]
fn a_fault_ahead_of_a_cursor_is_reported_when_it_gets_there() {
    let storage = memory();
    let (table, _) = table_on(&storage);
    let file = storage
        .open(Path::new(PATH), OpenOptions::buffered(OpenMode::ReadWrite))
        .unwrap();
    file.write_at(&[0xee; 8], 16 * 512, Purpose::Other).unwrap();
    let mut cursor = table.cursor(CursorOptions::user_read());
    let mut step = cursor.seek_to_first();
    let mut walked = 0;
    while step.is_ok() && cursor.valid() {
        walked += 1;
        step = cursor.next();
    }
    assert!(step.is_err() && walked > 100, "{walked}");
    // The blocks behind can still be read.
    cursor.seek(internal(&versions()[300])).unwrap();
    assert_eq!(cursor.key(), internal(&versions()[300]));
}

#[test]
fn a_failed_read_does_not_poison_the_cache() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let good = storage.bytes(PATH);
    let mode = OpenOptions::buffered(OpenMode::ReadWrite);
    let file = storage.open(Path::new(PATH), mode).unwrap();
    file.write_at(&[0xee; 300], 100, Purpose::Other).unwrap();
    assert!(get(&table, b"00001", 500).is_err());
    assert_eq!(cache.misses(), 2);
    file.write_at(&good, 0, Purpose::Other).unwrap();
    assert_eq!(get(&table, b"00001", 500).unwrap().unwrap().1, [7; 40]);
    assert_eq!((cache.hits(), cache.misses()), (0, 3));
}

#[test]
fn what_is_pinned_is_within_the_budget_and_given_back() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let found = |table: &TableReader| {
        for (key, ..) in versions() {
            assert_eq!(get(table, &key, 500).unwrap().unwrap().1, [7; 40]);
        }
    };
    found(&table);
    let (all, misses) = (cache.used_bytes(), cache.misses());
    found(&table);
    assert_eq!(cache.misses(), misses);
    drop(table);
    assert!(cache.used_bytes() < all);

    // No room to pin more than a partition or two: the others come through the cache.
    let cache = Arc::new(BlockCache::new(8 << 10, false));
    let table = open_at(&storage, PATH, 8, Arc::clone(&cache)).unwrap();
    for _ in 0..3 {
        found(&table);
        assert!(cache.used_bytes() <= cache.capacity_bytes());
    }
    drop(table);
    assert_eq!(cache.capacity_bytes(), 8 << 10);
}

#[test]
fn a_read_that_passes_by_the_cache_passes_by_pinned_partitions() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    let table = open_at(&storage, PATH, 1, cache).unwrap();
    let key = b"00001";
    let hash = key_hash(key, SEED);
    let get = |options| table.get(key, hash, 500, options);
    get(CursorOptions::of_reader(true, false)).unwrap().unwrap();
    let index = places(&storage.bytes(PATH), BlockRole::IndexPartition).remove(0);
    let mode = OpenOptions::buffered(OpenMode::ReadWrite);
    let file = storage.open(Path::new(PATH), mode).unwrap();
    file.write_at(&[0xee; 8], index.start as u64, Purpose::Other)
        .unwrap();
    let anew = get(CursorOptions::of_reader(true, true));
    assert!(
        matches!(anew, Err(crate::Error::Corruption { .. })),
        "{anew:?}"
    );
}

#[test]
fn tables_kept_open_are_counted_and_not_closed_for_others() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let bytes = storage.bytes(PATH);
    for number in 1..=20 {
        storage.put(&format!("/t/{number}.table"), bytes.clone());
    }
    let blocks = Arc::new(BlockCache::new(1 << 20, false));
    let tables = TableCache::new(
        DataFiles::new(directory_at(&*storage, "/t")),
        FILES,
        TableLimit::of(Some(4)),
        blocks,
    )
    .unwrap();
    let open = |number| {
        tables
            .get(Placed::table(number, 1), &Arc::default(), |_| true)
            .unwrap()
    };
    let kept: Vec<_> = (1..=5).map(|n| tables.keep_open(&open(n))).collect();
    assert_eq!(kept.iter().flatten().count(), 3);
    for number in 1..=20 {
        open(number);
    }
    assert!(Arc::ptr_eq(kept[0].as_ref().unwrap().reader(), &open(1)));
    drop(kept);
    assert!(tables.keep_open(&open(9)).is_some());
}

/// A budget for a whole store pays for filters and top indexes as long as their tables are open.
#[test]
fn open_tables_take_their_memory_from_the_blocks_up_to_a_limit() {
    const BUDGET_BYTES: u64 = 1 << 20;
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let bytes = storage.bytes(PATH);
    for number in 1..=20 {
        storage.put(&format!("/t/{number}.table"), bytes.clone());
    }
    let one_bytes = {
        let cache = Arc::new(BlockCache::new(0, false));
        open_at(&*storage, PATH, 7, cache).unwrap().metadata_bytes() as u64
    };
    let opened = |blocks: BlockCache, limit: TableLimit| {
        let directory = DataFiles::new(directory_at(&*storage, "/t"));
        let tables = TableCache::new(directory, FILES, limit, Arc::new(blocks)).unwrap();
        for number in 1..=20 {
            tables
                .get(Placed::table(number, 1), &Arc::default(), |_| true)
                .unwrap();
        }
        tables
    };
    let limit = TableLimit::of(Some(10));
    let beside = opened(BlockCache::new(BUDGET_BYTES, false), limit);
    assert_eq!(
        (beside.open_tables(), beside.blocks().held_bytes()),
        (10, 0)
    );

    let within = || BlockCache::new(BUDGET_BYTES, false).counting_held();
    let counted = opened(within(), limit);
    assert_eq!(counted.blocks().held_bytes(), 10 * one_bytes);
    // Each shard's part is rounded.
    let has_left = |blocks: &BlockCache, bytes| blocks.left_bytes().abs_diff(bytes) < 64;
    assert!(has_left(counted.blocks(), BUDGET_BYTES - 10 * one_bytes));

    let limited = opened(
        within(),
        limit.with_metadata_bytes(Some(5 * one_bytes + 10)),
    );
    assert_eq!(limited.blocks().held_bytes(), 5 * one_bytes);
    let reader = limited
        .get(Placed::table(20, 1), &Arc::default(), |_| true)
        .unwrap();
    let kept: Vec<_> = (0..5).map(|_| limited.keep_open(&reader)).collect();
    assert_eq!(kept.iter().flatten().count(), 3);
    (1..=20).for_each(|number| limited.remove(Placed::table(number, 1)));
    drop((kept, reader));
    assert!(has_left(limited.blocks(), BUDGET_BYTES));
}

#[test]
fn a_value_outlives_its_block_in_the_cache() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(0, false));
    let table = open_at(&storage, PATH, 7, Arc::clone(&cache)).unwrap();
    let hash = key_hash(b"00007", SEED);
    let found = table.get(b"00007", hash, 500, CursorOptions::user_read());
    let (_, value) = found.unwrap().unwrap();
    assert_eq!(cache.used_bytes(), 0);
    drop(table);
    assert_eq!(&*value, [7; 40]);
}

#[test]
fn open_tables_are_counted_limited_and_forgotten() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let bytes = storage.bytes(PATH);
    for number in 1..=20 {
        storage.put(&format!("/t/{number}.table"), bytes.clone());
    }
    let blocks = Arc::new(BlockCache::new(1 << 20, false));
    let storage_object: Arc<dyn Storage> = Arc::clone(&storage) as _;
    let tables = TableCache::new(
        DataFiles::new(directory_at(&*storage_object, "/t")),
        FILES,
        TableLimit::of(Some(4)),
        blocks,
    )
    .unwrap();
    let open = |number| tables.get(Placed::table(number, 1), &Arc::default(), |_| true);
    let seventh = open(7).unwrap();
    assert!(Arc::ptr_eq(&seventh, &open(7).unwrap()));
    assert_eq!(tables.metadata_bytes(), seventh.metadata_bytes() as u64);
    for number in 1..=20 {
        assert_eq!(
            open(number).unwrap().path(),
            Path::new("/t").join(format!("{number}.table"))
        );
    }
    assert!(tables.open_tables() <= 4);
    open(7).unwrap();
    // Its file is open, and of twenty tables the last that is closed.
    get(&seventh, b"00003", 500).unwrap();
    tables.remove(Placed::table(7, 1));
    storage.remove(Path::new(PATH)).unwrap();
    assert!(open(7).is_err());
    assert_eq!(get(&seventh, b"00003", 500).unwrap().unwrap().1, [7; 40]);
    storage.put(PATH, bytes);
    let error = tables
        .get(Placed::table(7, 1), &Arc::default(), |properties| {
            properties.entries == 0
        })
        .unwrap_err();
    assert!(error.to_string().contains("not the one"), "{error}");
    open(7).unwrap();
}

#[test]
fn a_table_goes_on_when_its_file_was_closed_and_not_with_another_tables_file() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let bytes = storage.bytes(PATH);
    let form = TableOptions {
        identity: IDENTITY + 1,
        ..options(Compression::None, 512)
    };
    storage.remove(Path::new(PATH)).unwrap();
    write(&*storage, &versions(), form);
    let others = storage.bytes(PATH);
    for number in 1..=3 {
        storage.put(&format!("/t/{number}.table"), bytes.clone());
    }
    let blocks = Arc::new(BlockCache::new(0, false));
    let directory = directory_at(&*storage, "/t");
    let limit = TableLimit::of(Some(1));
    let tables = TableCache::new(DataFiles::new(directory), FILES, limit, blocks).unwrap();
    let open = |number| {
        tables
            .get(Placed::table(number, 1), &Arc::default(), |_| true)
            .unwrap()
    };
    let read = |table| get(table, b"00003", 500).map(|found| found.unwrap().1.to_vec());
    let (first, second) = (open(1), open(2));
    for table in [&first, &second, &first] {
        assert_eq!(read(table).unwrap(), [7; 40]);
    }
    open(3);
    storage.put("/t/1.table", others);
    let error = read(&first).unwrap_err();
    assert!(error.to_string().contains("another table"), "{error}");
    assert_eq!(read(&second).unwrap(), [7; 40]);
}

/// All at once would hold up readers meanwhile.
#[test]
fn much_leaves_in_parts_and_all_of_it() {
    const CAPACITY_BYTES: u64 = 100 << 20;
    let cache = BlockCache::new(CAPACITY_BYTES, false);
    for offset in 0..90 {
        cache.put(1, offset, data_block(1 << 20));
    }
    let full_bytes = cache.used_bytes();
    assert!(full_bytes > 80 << 20, "{full_bytes}");
    assert!(cache.lend(CAPACITY_BYTES / 2));
    let mut left_bytes = vec![full_bytes];
    while cache.let_some_go() {
        left_bytes.push(cache.used_bytes());
    }
    assert_eq!(left_bytes.len(), 3, "{left_bytes:?}");
    assert!((1..full_bytes).contains(&left_bytes[1]), "{left_bytes:?}");
    assert_eq!(left_bytes[2], 0);
    // Half of the room is left, and the blocks may have it at once.
    for offset in 0..90 {
        cache.insert(1, offset, data_block(1 << 20));
    }
    let used_bytes = cache.used_bytes();
    assert!(
        (CAPACITY_BYTES / 4..=CAPACITY_BYTES / 2).contains(&used_bytes),
        "{used_bytes}"
    );
}

fn data_block(bytes: usize) -> CachedBlock {
    let mut contents = vec![0; bytes];
    contents[bytes - 4] = 1;
    CachedBlock::Data(Arc::new(Block::new(contents).unwrap()), None)
}

/// Each part of a full cache has room for less than a block; all of them together have it for some.
#[test]
fn a_cache_of_many_parts_is_full_at_last() {
    let cache = BlockCache::new(4 << 20, false);
    // Keys of their own, each missed once.
    (0..4000).for_each(|offset| cache.insert(1, offset, data_block(4000)));
    let full_bytes = cache.used_bytes();
    assert!(full_bytes > (4 << 20) / 8 * 7, "{full_bytes}");
    let is_taken = |offset| {
        cache.insert(1, offset, data_block(4000));
        cache.contains(1, offset)
    };
    assert!((4000..4100).all(|offset| !is_taken(offset)));
    assert!(is_taken(4099));
}

/// A large block may exceed the room of a part.
#[test]
fn a_large_block_does_not_make_an_empty_cache_full() {
    let cache = BlockCache::new(8 << 20, false);
    cache.insert(1, 0, data_block(1 << 20));
    cache.insert(1, 1, data_block(4000));
    assert!(cache.contains(1, 1));
}

/// Pins and the read buffer together once left data blocks no room at all.
#[test]
fn pins_leave_a_quarter_of_what_may_be_lent_leaves() {
    for (most_lent, most_pinned) in [(0, 16 << 10), (48 << 10, 12 << 10), (64 << 10, 0)] {
        let cache = BlockCache::new(64 << 10, false).lending(most_lent, false);
        assert!(cache.pin(most_pinned));
        assert!(!cache.pin(1), "{most_lent}");
    }
}

/// Behind it is the device: a miss costs more than any block that leaves for the new one.
#[test]
fn a_full_cache_takes_a_block_in_at_its_first_miss_if_no_page_cache_has_it() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let is_taken = |is_direct| {
        let cache = Arc::new(BlockCache::new(8 << 10, is_direct));
        let table = open_at(&storage, PATH, 7, Arc::clone(&cache));
        let table = table.unwrap();
        for (key, ..) in versions().iter().take(350) {
            get(&table, key, 500).unwrap().unwrap();
        }
        let misses = cache.misses();
        for _ in 0..2 {
            get(&table, b"00399", 500).unwrap().unwrap();
        }
        cache.misses() - misses == 1
    };
    assert!(is_taken(true) && !is_taken(false));
}

#[test]
fn what_is_read_from_the_index_stays_in_the_cache() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let counting = CountingStorage::new(storage);
    let cache = Arc::new(BlockCache::new(16 << 10, false));
    let table = open_at(&counting, PATH, 7, Arc::clone(&cache)).unwrap();
    let all = versions();
    let mut reads_of_hot = 0;
    for round in 0..2000 {
        let before = counting.snapshot().of(Purpose::Read).reads;
        assert!(get(&table, &all[5].0, 500).unwrap().is_some());
        if round > 200 {
            reads_of_hot += counting.snapshot().of(Purpose::Read).reads - before;
        }
        // Others push against it, each read twice so that it is taken in.
        let other = &all[(round * 31) % 400].0;
        (0..2).for_each(|_| drop(get(&table, other, 500).unwrap()));
    }
    assert!(reads_of_hot < 60, "{reads_of_hot} of 1,800 from the file");
}
