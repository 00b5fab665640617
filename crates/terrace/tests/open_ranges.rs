//! Deleted ranges with open ends, against a model.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, Db, Error, IterOptions, KeyspaceOptions, Options, Result};
use terrace_storage::{CrashSwitch, SimulatedStorage};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        arena_bytes: 256 << 10,
        background: Background::Inline,
        ..Options::default()
    }
}

/// Returns a short key that others meet often, or one of the longest.
fn key(random: &mut SmallRng) -> Vec<u8> {
    match random.random_range(0..20) {
        0 => vec![0xff; 65_535],
        1 => [vec![0xff; 65_534], vec![0]].concat(),
        2 => vec![0xff; 65_534],
        3 => Vec::new(),
        _ => {
            let length = random.random_range(1..3);
            (0..length)
                .map(|_| [0, 1, 7, 0xfe, 0xff][random.random_range(0..5)])
                .collect()
        }
    }
}

fn bound(random: &mut SmallRng) -> Bound<Vec<u8>> {
    match random.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(random)),
        _ => Bound::Excluded(key(random)),
    }
}

fn rows(keyspace: &terrace::Keyspace) -> Rows {
    let rows = keyspace.iter(IterOptions::default()).unwrap().entries();
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_>>()
        .unwrap()
}

#[test]
fn deleted_ranges_with_open_ends_hold_against_a_model() {
    for seed in 0..10 {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = SimulatedStorage::new(seed, CrashSwitch::new());
        let mut db = Db::open("/store", options(&disk)).unwrap();
        db.create_keyspace("x", KeyspaceOptions::default()).unwrap();
        let mut model = [Rows::new(), Rows::new()];
        for step in 0..100u32 {
            let other = db.keyspace("x").unwrap();
            let of = random.random_range(0..2);
            let keyspace = if of == 0 { &*db } else { &other };
            match random.random_range(0..20) {
                0..14 => {
                    let (key, value) = (key(&mut random), step.to_be_bytes().to_vec());
                    keyspace.put(&key, &value).unwrap();
                    model[of].insert(key, value);
                }
                14..17 => {
                    let range = (bound(&mut random), bound(&mut random));
                    let borrowed = (
                        range.0.as_ref().map(Vec::as_slice),
                        range.1.as_ref().map(Vec::as_slice),
                    );
                    let is_within =
                        |key: &Vec<u8>| RangeBounds::<&[u8]>::contains(&borrowed, &key.as_slice());
                    match keyspace.delete_within(borrowed) {
                        Ok(()) => model[of].retain(|key, _| !is_within(key)),
                        // It ends before it begins, or begins behind a key of the longest length.
                        Err(Error::InvalidArgument(_)) => {}
                        Err(error) => panic!("seed {seed}, step {step}: {error}"),
                    }
                }
                17 => db.flush().unwrap(),
                18 => keyspace.compact_range(..).unwrap(),
                _ => {
                    drop(other);
                    db.close().unwrap();
                    drop(db);
                    db = Db::open("/store", options(&disk)).unwrap();
                }
            }
            let other = db.keyspace("x").unwrap();
            assert_eq!(rows(&db), model[0], "seed {seed}, step {step}");
            assert_eq!(rows(&other), model[1], "seed {seed}, step {step}");
        }
    }
}

#[test]
fn a_range_without_an_end_takes_the_longest_key_and_no_later_write() {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let db = Db::open("/store", options(&disk)).unwrap();
    let longest = vec![0xff; 65_535];
    db.put(&longest, b"last").unwrap();
    db.flush().unwrap();
    db.put(b"a", b"first").unwrap();
    let snapshot = db.snapshot();
    db.delete_within(..).unwrap();
    assert!(rows(&db).is_empty());
    db.put(&longest, b"again").unwrap();
    assert_eq!(db.get(&longest).unwrap().as_deref(), Some(&b"again"[..]));
    drop(snapshot);
    db.delete_within((Bound::Excluded(&longest[..65_534]), Bound::Unbounded))
        .unwrap();
    assert!(rows(&db).is_empty());
}

#[test]
fn a_range_behind_all_keys_is_no_record() {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let db = Db::open("/store", options(&disk)).unwrap();
    db.delete_within(..).unwrap();
    assert_eq!(db.statistics().user_bytes, 0);
    db.put(b"a", b"1").unwrap();
    let before = db.statistics().user_bytes;
    db.delete_within(&b"b"[..]..).unwrap();
    assert_eq!(db.statistics().user_bytes, before);
}
