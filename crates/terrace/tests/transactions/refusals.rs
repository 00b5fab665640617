//! Transactions that have nothing in common: nearly none is refused.

use std::ops::Range;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, Options, Result, Transaction};

use super::support::script::tiny;

const THREADS: u32 = 3;
const KEYS: u32 = 200;

/// Reads and writes keys of one thread, a range of them now and then.
fn work(transaction: &mut Transaction, own: Range<u32>, random: &mut SmallRng) -> Result<()> {
    let mut key = || random.random_range(own.clone()).to_be_bytes();
    let (read, written, from) = (key(), key(), key());
    let length = transaction.get(read)?.map_or(0, |value| value.len());
    if length % 50 == 49 {
        let to = own.end.to_be_bytes();
        transaction
            .range(from..to)?
            .take(5)
            .try_for_each(|entry| entry.map(drop))?;
        transaction.delete_range(from, to)?;
    }
    transaction.put(written, vec![7; length + 1])?;
    transaction.put(read, vec![7; (length + 1) % 100])
}

/// Lets threads work on keys of their own, each in so many transactions. Returns how many
/// commits were refused. Meanwhile the keys between theirs are written as well.
fn refused(db: &Db, transactions: u64) -> u64 {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(thread.into());
                let first = 2 * thread * KEYS;
                for number in 0..transactions {
                    let own = first..first + KEYS;
                    db.transact(|transaction| work(transaction, own.clone(), &mut random))
                        .unwrap();
                    let between = first + KEYS + number as u32 % KEYS;
                    db.put(between.to_be_bytes(), vec![1; 300]).unwrap();
                }
            });
        }
    });
    let statistics = db.statistics().transactions;
    assert_eq!(statistics.committed, u64::from(THREADS) * transactions);
    statistics.conflicts
}

#[test]
fn those_that_share_nothing_are_never_refused() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), Options::default()).unwrap();
    // Few: the first arena has a megabyte.
    assert_eq!(refused(&db, 60), 0);
    assert_eq!(db.statistics().flushes, 0);
}

#[test]
fn flushes_and_merges_refuse_less_than_one_in_a_thousand() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    const EACH: u64 = 2_000;
    let refused = refused(&db, EACH);
    let statistics = db.statistics();
    assert!(statistics.flushes > 20, "{}", statistics.flushes);
    let all = u64::from(THREADS) * EACH;
    assert!(refused * 1_000 < all, "{refused} of {all}");
}
