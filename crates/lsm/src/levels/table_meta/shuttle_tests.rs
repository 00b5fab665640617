//! Versions that readers pin while tables are removed, under thousands of schedules.

use super::*;
use crate::sync::{schedules, thread};

fn table(number: u64, obsolete: &Arc<ObsoleteTables>) -> Table {
    let meta = TableMeta {
        number,
        identity: 0,
        keyspace: KeyspaceId::DEFAULT,
        size_bytes: 1,
        entries: 1,
        tombstones: 0,
        range_tombstones: 0,
        oldest_tombstone_seconds: None,
        superseded: None,
        bounds: KeyRange::inclusive("a", "b"),
        narrowed: false,
        min_sequence: 1,
        max_sequence: 1,
        assigned: false,
        tier: 1,
    };
    Table::new(meta, obsolete)
}

fn numbers(files: Vec<(Placed, u64)>) -> Vec<u64> {
    files.iter().map(|(placed, _)| placed.file.number).collect()
}

/// The part of a version in this test: it lists tables, and readers share it.
type Listing = Arc<Vec<Table>>;

#[test]
fn a_file_is_deleted_once_and_only_after_its_last_reader() {
    let run = || {
        let obsolete = Arc::new(ObsoleteTables::default());
        let present: Arc<Mutex<Listing>> =
            Arc::new(Mutex::new(Arc::new(vec![table(1, &obsolete)])));
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (present, deleted) = (Arc::clone(&present), Arc::clone(&deleted));
                thread::spawn(move || {
                    let pinned = Arc::clone(&present.lock());
                    let is_there = |number| !deleted.lock().contains(&number);
                    thread::yield_now();
                    assert!(pinned.iter().all(|table| is_there(table.number)));
                })
            })
            .collect();
        for number in 2..4 {
            let next = Arc::new(vec![table(number, &obsolete)]);
            let previous = std::mem::replace(&mut *present.lock(), next);
            previous.iter().for_each(Table::mark_removed);
            drop(previous);
            let freed = numbers(obsolete.take());
            deleted.lock().extend(freed);
        }
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        deleted.lock().extend(numbers(obsolete.take()));
        let mut all = std::mem::take(&mut *deleted.lock());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    };
    schedules::check_random(run, 3_000);
}
