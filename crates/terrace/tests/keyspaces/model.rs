//! Keyspaces and their rows beside a model, with random changes and kills.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, IterOptions, KeyspaceOptions, Result};
use terrace_storage::CrashKind;

use super::{machine, open};

/// The rows of each keyspace, by its name.
type Model = BTreeMap<String, BTreeMap<u8, u8>>;

fn stored(db: &Db) -> Model {
    let keyspaces = db.keyspaces().into_iter();
    let rows = keyspaces.map(|keyspace| {
        let entries = keyspace.iter(IterOptions::default()).unwrap().entries();
        let entries = entries.map(|entry| entry.map(|(key, value)| (key[0], value[0])));
        (keyspace.name(), entries.collect::<Result<_>>().unwrap())
    });
    rows.collect()
}

/// Takes one step in both. Names are few, so that many are taken or missing.
fn step(db: &Db, model: &mut Model, random: &mut SmallRng) {
    let mut name = || ["default", "a", "b", "c"][random.random_range(0..4)].to_owned();
    let (from, to) = (name(), name());
    match random.random_range(0..6) {
        0 => {
            let made = db.create_keyspace(&to, KeyspaceOptions::default());
            assert_eq!(made.is_ok(), !model.contains_key(&to));
            model.entry(to).or_default();
        }
        1 => {
            let dropped = db.drop_keyspace(&from);
            let may_be = from != "default" && model.remove(&from).is_some();
            assert_eq!(dropped.is_ok(), may_be);
        }
        2 => {
            let renamed = db.rename_keyspace(&from, &to);
            let is_there = from != "default" && model.contains_key(&from);
            assert_eq!(renamed.is_ok(), is_there && !model.contains_key(&to));
            if renamed.is_ok() {
                let rows = model.remove(&from).unwrap();
                model.insert(to, rows);
            }
        }
        3 => db.flush().unwrap(),
        _ => {
            if let Some(rows) = model.get_mut(&from) {
                let (key, value) = (random.random(), random.random());
                db.keyspace(&from).unwrap().put([key], [value]).unwrap();
                rows.insert(key, value);
            }
        }
    }
}

#[test]
fn names_and_rows_are_those_of_a_model_after_each_kill() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut machine = machine();
        let mut model = Model::from([("default".to_owned(), BTreeMap::new())]);
        for life in 0..6 {
            let db = open(&machine);
            assert_eq!(stored(&db), model, "seed {seed}, life {life}");
            for _ in 0..20 {
                step(&db, &mut model, &mut random);
            }
            assert_eq!(stored(&db), model, "seed {seed}, life {life}");
            machine = machine.crash(CrashKind::Kill, seed);
            std::mem::forget(db);
        }
    }
}
