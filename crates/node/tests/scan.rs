//! A scan of a namespace at its bounds: of keys, and of a checkpoint's slot.

mod support;

use support::{Driver, Shape, driver, key, new_disk, open, value_of};
use terrace_node::engine::{Condition, Failure, Worker, scan};

#[test]
fn a_scan_takes_live_keys_beside_deleted_ones_that_come_back() {
    let disk = new_disk(&Shape::default(), 43);
    let mut first = driver(&disk);
    let value = |number: u32| value_of(&key(number), 1, 5000);
    let live = (0..20).chain(100..120);
    for number in (0..40).chain(100..120) {
        if number == 100 {
            // Their values stay where they are, and are younger than some of the live ones.
            for number in 20..40 {
                first.delete(1, key(number)).unwrap();
            }
        }
        first.put(1, key(number), value(number)).unwrap();
    }
    drop(first);
    let report = scan(&mut disk.device(), &mut |_, _| ()).unwrap();
    assert_eq!((report.keys, report.left_out), (60, 0), "{report:?}");
    let mut second = driver(&disk);
    for number in live {
        assert!(second.get(1, key(number)) == Ok(value(number)), "{number}");
    }
    // There are more keys than the namespace may have: no other one comes.
    let absent = second.put(1, key(999), vec![1; 100]);
    assert_eq!(absent, Err(Failure::CapacityExceeded));
    second.put(1, key(0), vec![1; 100]).unwrap();
    for number in 20..40 {
        second.delete(1, key(number)).unwrap();
    }
    second.delete(1, key(0)).unwrap();
    second.put(1, key(999), vec![1; 100]).unwrap();
}

/// Stores values at the same time, so that the journal stays short of a checkpoint, which would close
/// the segment of the small ones. Returns the number of those that have room.
fn put_all(
    driver: &mut Driver<Worker>,
    numbers: impl IntoIterator<Item = u32>,
    bytes: usize,
) -> u32 {
    let store = |number| driver.store(1, key(number), vec![1; bytes], Condition::Always);
    let tags: Vec<u64> = numbers.into_iter().map(store).collect();
    let stored = tags.into_iter().filter(|&tag| driver.finish(tag).is_ok());
    stored.count() as u32
}

#[test]
fn a_scan_takes_all_keys_of_a_namespace_at_its_bounds() {
    // A slot of one content block: it has room for the most keys and the most extents.
    let shape = Shape {
        blocks: 2 + 64 + 16 + 108,
        keys: 86,
        ..Shape::default()
    };
    let disk = new_disk(&shape, 44);
    let (node, worker) = open(&disk);
    let mut first = Driver::new(worker);
    assert_eq!(put_all(&mut first, 0..1, 100), 1);
    let filling = put_all(&mut first, 1..86, 3000);
    assert!((70..80).contains(&filling), "{filling} keys fill the data");
    let count = filling / 2;
    assert_eq!(put_all(&mut first, (1..filling).step_by(2), 100), count);
    // The first has the blocks that are kept back and lie together, the second has single ones.
    let keys = 1 + filling;
    assert_eq!(put_all(&mut first, keys..keys + 2, 18 * 4096), 2);
    assert_eq!(put_all(&mut first, keys + 2..86, 100), 84 - keys);
    let extents = node.statistics(1).unwrap().extra_extents;
    assert!(extents > 20, "{extents} extents");
    drop(first);
    let report = scan(&mut disk.device(), &mut |_, _| ()).unwrap();
    assert_eq!((report.keys, report.left_out), (86, 0), "{report:?}");
    let mut second = driver(&disk);
    assert!((0..86).all(|number| second.exists(1, key(number))));
}

#[test]
fn a_scan_leaves_the_oldest_values_out_for_which_a_slot_has_no_room() {
    let disk = new_disk(&Shape::default(), 45);
    let mut first = driver(&disk);
    let rounds = [0..40, 100..140, 200..240];
    for round in rounds.clone() {
        for number in rounds.iter().flat_map(Clone::clone) {
            let _ = first.delete(1, key(number));
        }
        for number in round {
            first.put(1, key(number), vec![1; 5000]).unwrap();
        }
    }
    drop(first);
    let report = scan(&mut disk.device(), &mut |_, _| ()).unwrap();
    assert_eq!((report.keys, report.left_out), (88, 32), "{report:?}");
    let mut second = driver(&disk);
    let [_, _, live] = rounds;
    for number in live {
        assert!(second.get(1, key(number)) == Ok(vec![1; 5000]), "{number}");
    }
    assert!(!(0..32).any(|number| second.exists(1, key(number))));
}
