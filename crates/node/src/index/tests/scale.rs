//! Memory of a key, and the moves of one insert. `TERRACE_NODE_KEYS=10000000` runs them in full.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const MOST_BYTES_PER_KEY: f64 = 48.0;

fn scale() -> u64 {
    let keys = std::env::var("TERRACE_NODE_KEYS");
    keys.map_or(200_000, |keys| keys.parse().unwrap())
}

fn bytes_per_key(index: &Index) -> f64 {
    index.memory_bytes() as f64 / index.len() as f64
}

fn assert_small(index: &Index) {
    let bytes = bytes_per_key(index);
    assert!(
        bytes <= MOST_BYTES_PER_KEY,
        "{bytes} bytes a key at {} keys",
        index.len()
    );
}

/// Keys as a client's counter makes them.
fn counted(number: u64) -> Key {
    Key::new(&u128::from(number).to_be_bytes()).unwrap()
}

#[test]
fn a_key_costs_at_most_48_bytes() {
    let count = scale();
    let index = Index::new(5);
    let (mut next_look, mut worst) = (100_000, 0.0_f64);
    for number in 0..count {
        insert(&index, &counted(number), found(number)).unwrap();
        // Powers of two, and 64 moments between each two: tables grow at all of them.
        let keys = number + 1;
        if keys >= next_look || (keys > 100_000 && keys.is_power_of_two()) || keys == count {
            assert_small(&index);
            worst = worst.max(bytes_per_key(&index));
            next_look = keys + keys.next_power_of_two() / 128;
        }
    }
    println!(
        "{worst:.2} bytes a key at worst, {:.2} with all {count}",
        bytes_per_key(&index)
    );
    assert!(index.most_moved() <= 1_024, "{} moved", index.most_moved());
}

#[test]
fn keys_that_come_and_go_leave_no_memory_behind() {
    let count = scale().min(1_000_000);
    let index = Index::new(6);
    let rng = &mut SmallRng::seed_from_u64(4);
    let mut numbers: Vec<u64> = (0..count).collect();
    for &number in &numbers {
        insert(&index, &counted(number), found(number)).unwrap();
    }
    for new in count..3 * count {
        let at = rng.random_range(0..numbers.len());
        remove(&index, &counted(numbers[at])).unwrap();
        insert(&index, &counted(new), found(new)).unwrap();
        numbers[at] = new;
        if new % (count / 16) == 0 {
            assert_small(&index);
        }
    }
    assert_small(&index);
    println!("{:.2} bytes a key after a churn", bytes_per_key(&index));
    assert!(index.most_moved() <= 1_024, "{} moved", index.most_moved());
}

/// Computes the moves of an insert from the tables before and after it. A table that took one more
/// entry has the capacity that it had, or one more where the entry took a removed one's place.
fn moved(before: &[(usize, usize)], after: &[(usize, usize)]) -> usize {
    let added: usize = after[before.len()..].iter().map(|table| table.0).sum();
    let remade = before.iter().zip(after).filter(|(old, new)| {
        let same = new.1 == old.1 || (new.1 == old.1 + 1 && new.0 == old.0 + 1);
        !same
    });
    added + remade.map(|(old, new)| old.0.min(new.0)).sum::<usize>()
}

#[test]
fn an_insert_moves_at_most_1024_entries() {
    let index = Index::new(8);
    let rng = &mut SmallRng::seed_from_u64(9);
    let (mut worst, mut numbers) = (0, Vec::new());
    for number in 0..200_000_u64 {
        let new = counted(number);
        let hash = index.hash(&new);
        let mut partition = index.partition(hash).lock();
        let before = partition.shape();
        partition.insert(hash, &new, found(number), 0).unwrap();
        worst = worst.max(moved(&before, &partition.shape()));
        drop(partition);
        numbers.push(number);
        if number % 3 == 0 {
            let at = rng.random_range(0..numbers.len());
            remove(&index, &counted(numbers.swap_remove(at))).unwrap();
        }
    }
    println!("{worst} moved at worst");
    assert!((256..=1_024).contains(&worst), "{worst} moved");
    assert!(index.most_moved() <= 1_024);
}

#[test]
fn the_side_table_stays_within_the_memory_of_a_key() {
    let count = scale();
    let index = Index::new(5);
    // As many as a namespace of so many keys takes.
    for number in 0..count {
        let mut one = found(number);
        if number < count / 16 {
            one.place = extents(&[(number, 1), (number + 2 * count, 1)]);
        }
        insert(&index, &counted(number), one).unwrap();
    }
    assert_eq!(index.extra_extents(), count / 16 * 2);
    println!("{:.2} bytes a key", bytes_per_key(&index));
    assert_small(&index);
}
