//! The places of the index that lead to blocks in the cache.

use super::caching::{table_on, versions};
use super::*;
use crate::cursor::Cursor;
use crate::table::resident_blocks::BlockPlace;

/// Places of the index that are filled, and whether the cache has the block of each.
fn seated(table: &TableReader) -> Vec<bool> {
    let options = CursorOptions::uncached(Purpose::Other);
    let mut seated = Vec::new();
    for at in 0.. {
        let options = CursorOptions {
            ask_cache: true,
            ..options
        };
        let Some(partition) = table.partition(at, options).unwrap() else {
            return seated;
        };
        let filled = (0..partition.len()).filter(|at| partition.resident().get(*at).is_some());
        seated.extend(filled.map(|at| table.is_at_hand(partition.child(at).unwrap())));
    }
    seated
}

#[test]
fn the_index_leads_to_blocks_in_the_cache_and_to_no_others() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    // Room for some of the blocks.
    let cache = Arc::new(BlockCache::new(16 << 10, false));
    let table = open_at(&storage, PATH, 7, Arc::clone(&cache)).unwrap();
    let all = versions();
    for round in 0..200 {
        for (key, ..) in all.iter().skip(round * 7 % 300).take(60) {
            assert_eq!(get(&table, key, 500).unwrap().unwrap().1, [7; 40]);
        }
    }
    let seats = seated(&table);
    assert!(seats.len() > 4, "{} blocks", seats.len());
    assert!(seats.iter().all(|in_cache| *in_cache), "{seats:?}");
    assert!(cache.used_bytes() <= cache.capacity_bytes() + 1024);
    // All blocks leave a lent cache, and gets read them again.
    assert!(cache.lend(16 << 10));
    while cache.let_some_go() {}
    assert_eq!(seated(&table).iter().filter(|seat| **seat).count(), 0);
    assert_eq!(seated(&table).len(), 0);
    assert_eq!(get(&table, &all[7].0, 500).unwrap().unwrap().1, [7; 40]);
}

/// Memory between blocks that stay would not go back to the kernel.
#[test]
fn a_cache_that_gives_up_much_at_once_gives_up_all() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(16 << 10, false));
    let table = open_at(&storage, PATH, 7, Arc::clone(&cache)).unwrap();
    let read_all = || {
        for (key, ..) in versions().iter().chain(versions().iter()) {
            get(&table, key, 500).unwrap().unwrap();
        }
        assert!(seated(&table).len() > 4);
        cache.used_bytes()
    };
    let full_bytes = read_all();
    assert!(!cache.lend(1 << 10));
    assert!(cache.used_bytes() > full_bytes / 2);
    let before_bytes = read_all();
    assert!(cache.lend(8 << 10));
    // They leave part by part; until then they have their room.
    assert!(!cache.lend(9 << 10), "little more");
    assert_eq!(cache.used_bytes(), before_bytes);
    while cache.let_some_go() {}
    // Pinned blocks stay.
    let pinned_bytes = cache.used_bytes();
    assert!(
        pinned_bytes < full_bytes / 4,
        "{pinned_bytes} of {full_bytes}"
    );
    assert_eq!(seated(&table).len(), 0);
    // Nothing has to leave.
    assert!(!cache.lend(11 << 10));
    read_all();
}

#[test]
fn the_index_has_places_unless_few_blocks_stay_for_good() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    for (most_lent, is_for_good, has_places) in [
        (0, true, true),
        (32 << 10, true, true),
        (56 << 10, true, false),
        (56 << 10, false, true),
    ] {
        let cache = BlockCache::new(64 << 10, false).lending(most_lent, is_for_good);
        let cache = Arc::new(cache);
        let table = open_at(&storage, PATH, 7, Arc::clone(&cache));
        let table = table.unwrap();
        for _ in 0..3 {
            get(&table, b"00003", 500).unwrap().unwrap();
        }
        assert_eq!(!seated(&table).is_empty(), has_places, "{most_lent}");
    }
}

#[test]
fn blocks_in_the_cache_keep_no_index_of_a_closed_table_in_memory() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    for _ in 0..2 {
        get(&table, &versions()[7].0, 500).unwrap().unwrap();
    }
    assert_eq!(seated(&table), [true]);
    let options = CursorOptions {
        ask_cache: true,
        ..CursorOptions::uncached(Purpose::Other)
    };
    let partition = Arc::downgrade(&table.partition(0, options).unwrap().unwrap());
    drop(table);
    assert!(cache.used_bytes() > 512, "the block is still there");
    assert!(partition.upgrade().is_none());
}

#[test]
fn who_leaves_nothing_in_the_cache_leaves_nothing_in_the_index() {
    let storage = memory();
    let (table, _) = table_on(&storage);
    get(&table, &versions()[7].0, 500).unwrap().unwrap();
    let options = CursorOptions {
        ask_cache: true,
        ..CursorOptions::uncached(Purpose::Other)
    };
    let partition = table.partition(0, options).unwrap().unwrap();
    let blocks = (0..partition.len()).map(|at| BlockPlace::of(&partition, at).unwrap());
    let found = blocks.filter(|place| table.cached(place, options).unwrap().is_some());
    assert_eq!(found.count(), 1);
    assert_eq!(seated(&table).len(), 0);
    get(&table, &versions()[7].0, 500).unwrap().unwrap();
    assert_eq!(seated(&table), [true]);
}

#[test]
fn a_block_that_a_cursor_brought_is_found_from_the_index_by_gets() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let mut cursor = table.cursor(CursorOptions::user_read());
    cursor.seek_to_first().unwrap();
    assert_eq!(seated(&table).len(), 0);
    let misses = cache.misses();
    assert!(get(&table, &versions()[0].0, 500).unwrap().is_some());
    assert_eq!((cache.misses(), seated(&table).len()), (misses, 1));
}
