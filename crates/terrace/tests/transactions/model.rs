//! A transaction against a map, with foreign writes, flushes and merges between its steps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use terrace::{Db, Error, Isolation, IterOptions, Options, Savepoint, TransactionOptions};

use super::support::script::tiny;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Get(u8),
    /// Walks a number of rows from a key on, or back.
    Walk(u8, u8, bool),
    Savepoint,
    RollBack(u8),
    ForeignPut(u8),
    ForeignDeleteRange(u8, u8),
    Flush,
    Compact,
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = 0u8..20;
    prop_oneof![
        6 => key.clone().prop_map(Step::Put),
        2 => key.clone().prop_map(Step::Delete),
        1 => (key.clone(), 0u8..8).prop_map(|(from, length)| Step::DeleteRange(from, from + length)),
        4 => key.clone().prop_map(Step::Get),
        3 => (key.clone(), 0u8..6, any::<bool>()).prop_map(|(from, rows, back)| Step::Walk(from, rows, back)),
        1 => Just(Step::Savepoint),
        1 => (0u8..4).prop_map(Step::RollBack),
        1 => key.clone().prop_map(Step::ForeignPut),
        1 => (key, 0u8..4).prop_map(|(from, length)| Step::ForeignDeleteRange(from, from + length)),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ]
}

fn remove(rows: &mut Rows, from: u8, to: u8) {
    rows.retain(|key, _| key[0] < from || to <= key[0]);
}

/// Keys of one byte that were read, as a set.
type Read = std::collections::BTreeSet<u8>;

fn check(steps: &[Step], isolation: Isolation) -> std::result::Result<(), TestCaseError> {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("store"), tiny(Options::default())).unwrap();
    let mut store = Rows::new();
    for key in (0..20).step_by(3) {
        db.put([key], [key; 40]).unwrap();
        store.insert(vec![key], vec![key; 40]);
    }
    let options = TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    };
    let mut transaction = db.transaction_with(options).unwrap();
    let mut rows = store.clone();
    // What the commit does: own writes, in their order, in a form that can be applied again.
    let mut writes: Vec<Step> = Vec::new();
    let mut savepoints: Vec<(Savepoint, Rows, usize)> = Vec::new();
    let (mut read, mut foreign) = (Read::new(), Read::new());
    for (step, number) in steps.iter().zip(0u8..) {
        match *step {
            Step::Put(key) => {
                transaction.put([key], [number; 30]).unwrap();
                rows.insert(vec![key], vec![number; 30]);
                writes.push(Step::Put(key));
            }
            Step::Delete(key) => {
                transaction.delete([key]).unwrap();
                rows.remove(&vec![key]);
                writes.push(Step::Delete(key));
            }
            Step::DeleteRange(from, to) => {
                transaction.delete_range([from], [to]).unwrap();
                remove(&mut rows, from, to);
                writes.push(step.clone());
            }
            Step::Get(key) => {
                let found = transaction.get([key]).unwrap();
                prop_assert_eq!(
                    found.as_deref(),
                    rows.get(&vec![key]).map(|value| &value[..])
                );
                let is_own = writes.iter().any(|write| match *write {
                    Step::Put(own) | Step::Delete(own) => own == key,
                    Step::DeleteRange(from, to) => from <= key && key < to,
                    _ => false,
                });
                if !is_own {
                    read.insert(key);
                }
            }
            Step::Walk(from, count, back) => {
                let mut iterator = transaction.iter(IterOptions::default()).unwrap();
                let mut expected: Vec<_> = match back {
                    false => rows.range(vec![from]..).collect(),
                    true => rows.range(..=vec![from]).rev().collect(),
                };
                let ends = expected.len() <= usize::from(count);
                expected.truncate(usize::from(count) + 1);
                match back {
                    false => iterator.seek([from]).unwrap(),
                    true => iterator.seek_for_prev([from]).unwrap(),
                }
                for (at, (key, value)) in expected.iter().enumerate() {
                    prop_assert!(iterator.valid(), "row {} of {:?}", at, step);
                    prop_assert_eq!((iterator.key(), iterator.value()), (&key[..], &value[..]));
                    if at < usize::from(count) {
                        match back {
                            false => iterator.next().unwrap(),
                            true => iterator.prev().unwrap(),
                        }
                    }
                }
                prop_assert_eq!(iterator.valid(), !ends);
                let last = expected.last().map(|(key, _)| key[0]);
                match (back, ends) {
                    (false, true) => read.extend(from..=u8::MAX),
                    (false, false) => read.extend(from..=last.unwrap()),
                    (true, true) => read.extend(0..=from),
                    (true, false) => read.extend(last.unwrap()..=from),
                }
            }
            Step::Savepoint => {
                savepoints.push((transaction.savepoint(), rows.clone(), writes.len()));
            }
            Step::RollBack(at) => {
                let at = usize::from(at);
                if let Some((savepoint, before, count)) = savepoints.get(at).cloned() {
                    transaction.roll_back_to(savepoint).unwrap();
                    rows = before;
                    writes.truncate(count);
                    savepoints.truncate(at + 1);
                }
            }
            Step::ForeignPut(key) => {
                db.put([key], [number; 50]).unwrap();
                store.insert(vec![key], vec![number; 50]);
                foreign.insert(key);
            }
            Step::ForeignDeleteRange(from, to) => {
                db.delete_range([from], [to]).unwrap();
                remove(&mut store, from, to);
                foreign.extend(from..to);
            }
            Step::Flush => db.flush().unwrap(),
            Step::Compact => db.compact().unwrap(),
        }
    }
    let written: Read = writes
        .iter()
        .flat_map(|write| match *write {
            Step::Put(key) | Step::Delete(key) => key..key + 1,
            Step::DeleteRange(from, to) => from..to,
            _ => 0..0,
        })
        .collect();
    let depends = match isolation {
        Isolation::Snapshot => &written,
        _ => &read,
    };
    let meets = depends.iter().any(|key| foreign.contains(key));
    match transaction.commit() {
        Ok(()) => {
            prop_assert!(!meets || written.is_empty(), "{depends:?} {foreign:?}");
            // Own writes on top of what others did meanwhile.
            for key in &written {
                match rows.get(&vec![*key]) {
                    Some(value) => store.insert(vec![*key], value.clone()),
                    None => store.remove(&vec![*key]),
                };
            }
        }
        Err(Error::Conflict { key, .. }) => {
            prop_assert!(
                meets && foreign.contains(&key[0]),
                "{key:?} {depends:?} {foreign:?}"
            );
        }
        Err(error) => panic!("{error:?}"),
    }
    let found: Rows = db
        .range(..)
        .unwrap()
        .map(std::result::Result::unwrap)
        .collect();
    prop_assert_eq!(found, store);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]

    #[test]
    fn a_serializable_transaction_does_as_a_map_does(steps in prop::collection::vec(any_step(), 1..40)) {
        check(&steps, Isolation::Serializable)?;
    }

    #[test]
    fn a_transaction_of_the_snapshot_level_does_as_a_map_does(steps in prop::collection::vec(any_step(), 1..40)) {
        check(&steps, Isolation::Snapshot)?;
    }
}
