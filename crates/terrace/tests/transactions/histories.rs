//! Histories of several threads on a store that flushes and merges all the time.
//!
//! `TERRACE_HISTORIES` sets how many are recorded (10 by default).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, Isolation, Options, Transaction, TransactionOptions};

use super::history::{Key, Recorded, Step, find_anomaly};
use super::support::script::tiny;

const THREADS: u64 = 4;
const KEYS: Key = 12;
const TRANSACTIONS: usize = 150;

fn encode(list: &[u64]) -> Vec<u8> {
    list.iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn decode(bytes: &[u8]) -> Vec<u64> {
    let numbers = bytes.chunks_exact(8);
    numbers
        .map(|number| u64::from_le_bytes(number.try_into().unwrap()))
        .collect()
}

fn key_of(bytes: &[u8]) -> Key {
    Key::from_be_bytes(bytes.try_into().unwrap())
}

/// Runs steps drawn at random, and returns them with what they found.
fn run(
    transaction: &mut Transaction,
    isolation: Isolation,
    random: &mut SmallRng,
    numbers: &AtomicU64,
) -> terrace::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for _ in 0..random.random_range(1..5) {
        let key = random.random_range(0..KEYS);
        let reads_alone = isolation == Isolation::Serializable;
        match random.random_range(0..6) {
            0 if reads_alone => {
                let found = transaction.get(key.to_be_bytes())?;
                steps.push(Step::Read(
                    key,
                    decode(found.as_deref().unwrap_or_default()),
                ));
            }
            1 if reads_alone => {
                let keys = [key, (key + 1) % KEYS];
                let values = transaction.multi_get(&keys.map(Key::to_be_bytes))?;
                for (key, value) in keys.into_iter().zip(values) {
                    steps.push(Step::Read(
                        key,
                        decode(value.as_deref().unwrap_or_default()),
                    ));
                }
            }
            2 if reads_alone => {
                let to = key + random.random_range(1..5);
                let range = key.to_be_bytes()..to.to_be_bytes();
                let mut entries = transaction
                    .range(range)?
                    .collect::<terrace::Result<Vec<_>>>()?;
                if random.random_bool(0.5) {
                    let range = key.to_be_bytes()..to.to_be_bytes();
                    entries = transaction
                        .range(range)?
                        .rev()
                        .collect::<terrace::Result<_>>()?;
                }
                let found = entries
                    .iter()
                    .map(|(key, value)| (key_of(key), decode(value)));
                steps.push(Step::ReadRange(key, to, found.collect()));
            }
            _ => {
                let found = transaction.get(key.to_be_bytes())?;
                let mut list = decode(found.as_deref().unwrap_or_default());
                steps.push(Step::Read(key, list.clone()));
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                list.push(number);
                transaction.put(key.to_be_bytes(), encode(&list))?;
                steps.push(Step::Append(key, number));
                if random.random_ratio(1, 8) {
                    let savepoint = transaction.savepoint();
                    transaction.put(key.to_be_bytes(), b"taken back")?;
                    transaction.roll_back_to(savepoint)?;
                }
            }
        }
    }
    Ok(steps)
}

/// Records a history, and looks for an anomaly in it.
fn check(seed: u64, isolation: Isolation) {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let (clock, numbers) = (AtomicU64::new(0), AtomicU64::new(1));
    let history = Mutex::new(Vec::new());
    let options = TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    };
    let work = |thread: u64| {
        let mut random = SmallRng::seed_from_u64(seed * THREADS + thread);
        for _ in 0..TRANSACTIONS {
            let began = clock.fetch_add(1, Ordering::SeqCst);
            let mut transaction = db.transaction_with(options).unwrap();
            let steps = run(&mut transaction, isolation, &mut random, &numbers).unwrap();
            if random.random_ratio(1, 20) {
                db.flush().unwrap();
            }
            let committed = match random.random_ratio(1, 10) {
                true => None,
                false => Some(transaction.commit()),
            };
            let ended = clock.fetch_add(1, Ordering::SeqCst);
            if let Some(Err(error)) = &committed {
                assert!(
                    matches!(error, terrace::Error::Conflict { .. }),
                    "{error:?}"
                );
            }
            history.lock().unwrap().push(Recorded {
                began,
                ended,
                is_committed: matches!(committed, Some(Ok(()))),
                steps,
            });
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || work(thread));
        }
    });
    let entries = db.range(..).unwrap().map(Result::unwrap);
    let last: BTreeMap<Key, Vec<u64>> = entries
        .map(|(key, value)| (key_of(&key), decode(&value)))
        .collect();
    let history = history.into_inner().unwrap();
    let committed = history.iter().filter(|one| one.is_committed).count();
    assert!(committed > TRANSACTIONS, "{committed} commits");
    if let Some(anomaly) = find_anomaly(&history, &last) {
        panic!("seed {seed}: {anomaly:?}\n{history:#?}");
    }
}

fn histories() -> u64 {
    std::env::var("TERRACE_HISTORIES").map_or(10, |count| count.parse().unwrap())
}

#[test]
fn serializable_transactions_are_in_one_order() {
    (0..histories()).for_each(|seed| check(seed, Isolation::Serializable));
}

/// Transactions that read nothing but what they write are in one order at the weaker level, too.
#[test]
fn updates_at_the_snapshot_level_are_in_one_order() {
    (0..histories()).for_each(|seed| check(seed, Isolation::Snapshot));
}
