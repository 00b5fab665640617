//! The LSM store behind the trait; and the behaviour that both engines share, on each of them.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{BUFFER_BYTES, Driver, KeyState, Shape, new_disk, open, value_of};
use terrace_node::device::Wait;
use terrace_node::engine::{Answer, Command, Condition, Engine, Event, Failure};
use terrace_node::format::namespace::Domain;
use terrace_node::lsm::{INLINE_BYTES, LsmEngine, LsmNamespace, LsmOptions, LsmStore};
use terrace_node::{Error, Key};

const MAX_VALUE_BYTES: u32 = 4 << 20;

fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).expect("legal")
}

fn options(path: &Path) -> LsmOptions {
    let namespace = |nsid, domain| LsmNamespace {
        domain,
        max_value_bytes: MAX_VALUE_BYTES,
        ..LsmNamespace::new(nsid)
    };
    LsmOptions {
        store: terrace::Options {
            arena_bytes: 1 << 20,
            ..terrace::Options::default()
        },
        buffer_bytes: BUFFER_BYTES,
        ..LsmOptions::new(
            path,
            vec![
                namespace(1, Domain::PowerSafe),
                namespace(2, Domain::CrashSafe),
                namespace(3, Domain::PowerSafe),
            ],
        )
    }
}

fn lsm(path: &Path) -> Driver<LsmEngine> {
    Driver::new(LsmEngine::open(options(path)).expect("a store that a crash left opens"))
}

/// Runs a test on each engine, in a namespace 1 with values of up to 4 MiB.
macro_rules! on_both {
    ($($name:ident),*) => {$(
        mod $name {
            #[test]
            fn lsm() {
                let directory = tempfile::tempdir().unwrap();
                super::$name(super::lsm(&directory.path().join("store")));
            }

            #[test]
            fn node() {
                let shape = super::Shape {
                    blocks: 16_384,
                    max_value_bytes: super::MAX_VALUE_BYTES,
                    ..super::Shape::default()
                };
                let (_node, worker) = super::open(&super::new_disk(&shape, 1));
                super::$name(super::Driver::new(worker));
            }
        }
    )*};
}

on_both!(
    values_of_all_sizes_come_back_whole_and_in_part,
    conditions_deletes_and_lists,
    what_is_refused,
    a_store_taken_back_leaves_the_key_as_it_was,
    a_retrieve_taken_back_ends,
    more_than_fits_the_buffers_at_once
);

const SIZES: [usize; 9] = [
    0,
    1,
    2048,
    5000,
    INLINE_BYTES as usize,
    INLINE_BYTES as usize + 1,
    960 << 10,
    (960 << 10) + 1,
    MAX_VALUE_BYTES as usize,
];

fn values_of_all_sizes_come_back_whole_and_in_part<E: Engine>(mut driver: Driver<E>) {
    for version in 0..2 {
        for (number, bytes) in (0..).zip(SIZES) {
            let value = value_of(&key(number), version, bytes);
            assert_eq!(driver.put(1, key(number), value), Ok(Answer::Stored));
        }
    }
    for (number, bytes) in (0..).zip(SIZES) {
        let value = value_of(&key(number), 1, bytes);
        for max in [0, 1, 70_000, 983_041, u32::MAX] {
            let part = &value[..bytes.min(max as usize)];
            let tag = driver.submit(
                1,
                Command::Retrieve {
                    key: key(number),
                    max_bytes: max,
                },
                None,
            );
            // The answer has the whole size, however much the caller asked for.
            assert_eq!(driver.finish(tag), Ok(Answer::Retrieved(bytes as u32)));
            assert!(driver.take_value(tag) == part, "{bytes} bytes, {max}");
        }
    }
}

fn conditions_deletes_and_lists<E: Engine>(mut driver: Driver<E>) {
    let store = |driver: &mut Driver<E>, number, condition| {
        let tag = driver.store(1, key(number), vec![1; 100], condition);
        driver.finish(tag)
    };
    let stored = Ok(Answer::Stored);
    assert_eq!(
        store(&mut driver, 1, Condition::IfExists),
        Err(Failure::NotFound)
    );
    assert_eq!(store(&mut driver, 1, Condition::IfAbsent), stored);
    assert_eq!(
        store(&mut driver, 1, Condition::IfAbsent),
        Err(Failure::KeyExists)
    );
    assert_eq!(store(&mut driver, 1, Condition::IfExists), stored);
    assert!(driver.exists(1, key(1)) && !driver.exists(1, key(2)));
    assert_eq!(driver.delete(1, key(1)), Ok(Answer::Deleted));
    assert_eq!(driver.delete(1, key(1)), Err(Failure::NotFound));
    assert_eq!(driver.get(1, key(1)), Err(Failure::NotFound));
    let mut expected: Vec<Key> = (0..30).map(key).collect();
    expected.push(Key::new(b"\0").unwrap());
    expected.push(Key::new(&[255; 16]).unwrap());
    for key in &expected {
        driver.put(1, *key, vec![2; 10]).unwrap();
    }
    let mut listed = driver.list(1);
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    let flushed = driver.submit(1, Command::Flush, None);
    assert_eq!(driver.finish(flushed), Ok(Answer::Flushed));
}

fn what_is_refused<E: Engine>(mut driver: Driver<E>) {
    let largest = MAX_VALUE_BYTES as usize;
    let refused = driver.put(1, key(1), vec![0; largest + 1]);
    assert_eq!(refused, Err(Failure::InvalidValueSize));
    for command in [Command::Exist { key: key(1) }, Command::Flush] {
        let tag = driver.submit(9, command, None);
        assert_eq!(driver.finish(tag), Err(Failure::NoNamespace));
    }
    let blocks = Command::Read {
        first: 0,
        blocks: 1,
    };
    let tag = driver.submit(1, blocks, None);
    assert_eq!(driver.finish(tag), Err(Failure::NoNamespace));
}

fn a_store_taken_back_leaves_the_key_as_it_was<E: Engine>(mut driver: Driver<E>) {
    let old = value_of(&key(1), 1, 3_000_000);
    driver.put(1, key(1), old.clone()).unwrap();
    for supplied in 0..3 {
        let engine = &mut driver.engine;
        let command = Command::Store {
            key: key(1),
            value_bytes: 3_500_000,
            condition: Condition::Always,
        };
        engine.submit(1_000_000, 1, command);
        let (mut events, mut given, mut ended) = (Vec::new(), 0, None);
        while ended.is_none() {
            engine.poll(Wait::Yes, &mut events).unwrap();
            for event in events.drain(..) {
                match event {
                    Event::Want { tag, buffer, .. } if given < supplied => {
                        given += 1;
                        engine.supply(tag, buffer);
                    }
                    Event::Want { tag, buffer, .. } => {
                        engine.abort(tag);
                        engine.give_back(tag, buffer);
                    }
                    Event::Done { result, .. } => ended = Some(result),
                    Event::Piece { .. } => panic!("nothing was retrieved"),
                }
            }
        }
        assert_eq!(ended, Some(Err(Failure::Aborted)));
        assert!(driver.get(1, key(1)) == Ok(old.clone()), "{supplied}");
    }
}

fn a_retrieve_taken_back_ends<E: Engine>(mut driver: Driver<E>) {
    driver.put(1, key(1), vec![7; 4_000_000]).unwrap();
    for steps in 0..8 {
        let command = Command::Retrieve {
            key: key(1),
            max_bytes: u32::MAX,
        };
        let tag = driver.submit(1, command, None);
        for _ in 0..steps {
            driver.step(Wait::No);
        }
        driver.engine.abort(tag);
        let result = driver.finish(tag);
        let legal = [Err(Failure::Aborted), Ok(Answer::Retrieved(4_000_000))];
        assert!(legal.contains(&result), "{result:?}");
        driver.take_value(tag);
    }
    assert!(driver.get(1, key(1)) == Ok(vec![7; 4_000_000]));
}

fn more_than_fits_the_buffers_at_once<E: Engine>(mut driver: Driver<E>) {
    let value = |number| value_of(&key(number), 1, 2_500_000);
    let tags: Vec<u64> = (0..8)
        .map(|number| driver.store(1, key(number), value(number), Condition::Always))
        .collect();
    for tag in tags {
        assert_eq!(driver.finish(tag), Ok(Answer::Stored));
    }
    let retrieve = |number| Command::Retrieve {
        key: key(number),
        max_bytes: u32::MAX,
    };
    let tags: Vec<u64> = (0..8)
        .map(|number| driver.submit(1, retrieve(number), None))
        .collect();
    for (number, tag) in (0..).zip(tags) {
        assert_eq!(driver.finish(tag), Ok(Answer::Retrieved(2_500_000)));
        assert!(driver.take_value(tag) == value(number), "{number}");
    }
}

/// Returns how many pieces and marks of unfinished versions a namespace has in the store.
fn leftovers(path: &Path, nsid: u32) -> (usize, usize) {
    let db = terrace::Db::open(path, options(path).store).unwrap();
    let count = |what: &str| {
        let keyspace = db.keyspace(&format!("node-{nsid}-{what}")).unwrap();
        let iterator = keyspace.iter(terrace::IterOptions::default()).unwrap();
        iterator.entries().count()
    };
    (count("pieces"), count("unfinished"))
}

#[test]
fn pieces_that_no_key_names_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut driver = lsm(&path);
    driver.put(1, key(1), vec![1; 3_000_000]).unwrap();
    driver.put(1, key(2), vec![1; 3_000_000]).unwrap();
    driver.put(1, key(1), vec![2; 100_000]).unwrap();
    driver.delete(1, key(2)).unwrap();
    let tag = driver.store(1, key(1), vec![3; 3_000_000], Condition::IfAbsent);
    assert_eq!(driver.finish(tag), Err(Failure::KeyExists));
    let engine = &mut driver.engine;
    // The process ends in the middle of a store.
    let command = Command::Store {
        key: key(3),
        value_bytes: 3_000_000,
        condition: Condition::Always,
    };
    engine.submit(1_000_000, 1, command);
    let (mut events, mut supplied) = (Vec::new(), 0);
    while supplied < 3 {
        engine.poll(Wait::Yes, &mut events).unwrap();
        for event in events.drain(..) {
            if let Event::Want { tag, buffer, .. } = event {
                engine.supply(tag, buffer);
                supplied += 1;
            }
        }
    }
    drop(driver);
    assert_eq!(leftovers(&path, 1), (1 + 3, 1));
    let mut driver = lsm(&path);
    assert_eq!(driver.get(1, key(1)), Ok(vec![2; 100_000]));
    assert_eq!(driver.get(1, key(3)), Err(Failure::NotFound));
    drop(driver);
    assert_eq!(leftovers(&path, 1), (1, 0));
}

#[test]
fn a_change_is_as_durable_as_its_namespace_says() {
    let directory = tempfile::tempdir().unwrap();
    let mut driver = lsm(&directory.path().join("store"));
    let in_doubt = |driver: &Driver<LsmEngine>| {
        let sequences = driver.engine.db().statistics().sequences;
        sequences.visible - sequences.persisted
    };
    for bytes in [100, 200_000] {
        driver.put(1, key(1), vec![1; bytes]).unwrap();
        assert_eq!(in_doubt(&driver), 0, "{bytes}");
    }
    driver.delete(1, key(1)).unwrap();
    assert_eq!(in_doubt(&driver), 0);
    driver.put(2, key(1), vec![1; 100]).unwrap();
    assert!(in_doubt(&driver) > 0);
    let tag = driver.submit(2, Command::Flush, None);
    assert_eq!(driver.finish(tag), Ok(Answer::Flushed));
    assert_eq!(in_doubt(&driver), 0);
}

#[test]
fn a_record_that_cannot_be_read_can_be_replaced_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut driver = lsm(&path);
    driver.put(1, key(3), vec![1; 10]).unwrap();
    for number in 1..3 {
        let keys = driver.engine.db().keyspace("node-1-keys").unwrap();
        keys.put(key(number).as_bytes(), b"no head").unwrap();
        let found = driver.get(1, key(number));
        assert!(matches!(found, Err(Failure::Unrecovered(_))), "{found:?}");
    }
    let tag = driver.store(1, key(1), vec![2; 10], Condition::IfAbsent);
    assert!(matches!(driver.finish(tag), Err(Failure::Unrecovered(_))));
    driver.put(1, key(1), vec![2; 10]).unwrap();
    assert_eq!(driver.get(1, key(1)), Ok(vec![2; 10]));
    assert_eq!(driver.delete(1, key(2)), Ok(Answer::Deleted));
    assert_eq!(driver.get(1, key(2)), Err(Failure::NotFound));
}

#[test]
fn the_longest_wait_ends_with_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let mut driver = lsm(&directory.path().join("store"));
    let tag = driver.submit(1, Command::Exist { key: key(1) }, None);
    while driver.ended.is_empty() {
        driver.step(Wait::AtMost(std::time::Duration::MAX));
    }
    assert_eq!(driver.finish(tag), Err(Failure::NotFound));
}

#[test]
fn keys_are_listed_in_the_order_of_their_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut driver = lsm(&directory.path().join("store"));
    let mut keys: Vec<Key> = [&b"b"[..], b"a\0", b"a", b"\xff", b"ab", b"a\0\0"]
        .map(|bytes| Key::new(bytes).unwrap())
        .to_vec();
    for key in &keys {
        driver.put(2, *key, vec![1]).unwrap();
    }
    keys.sort();
    assert_eq!(driver.list(2), keys);
    // A key that is absent stands for the next in the order.
    let from = Key::new(b"aa");
    let tag = driver.submit(2, Command::List { from, max_keys: 2 }, None);
    let expected = keys[3..5].to_vec();
    assert_eq!(driver.finish(tag), Ok(Answer::Keys(expected)));
}

#[test]
fn options_out_of_their_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let legal = options(&directory.path().join("store"));
    let twice = vec![LsmNamespace::new(4), LsmNamespace::new(4)];
    let mut too_large = vec![LsmNamespace::new(4)];
    too_large[0].max_value_bytes = (256 << 20) + 1;
    let small_batches = terrace::Options {
        constants: terrace::Constants {
            max_batch_bytes: Some(1 << 20),
            ..terrace::Constants::default()
        },
        ..legal.store.clone()
    };
    for wrong in [
        LsmOptions {
            store: small_batches,
            ..legal.clone()
        },
        LsmOptions {
            buffer_bytes: 1 << 20,
            ..legal.clone()
        },
        LsmOptions {
            namespaces: twice,
            ..legal.clone()
        },
        LsmOptions {
            namespaces: too_large,
            ..legal.clone()
        },
    ] {
        let refused = LsmEngine::open(wrong).err();
        assert!(matches!(refused, Some(Error::InvalidArgument(_))));
    }
    let _first = LsmEngine::open(legal.clone()).unwrap();
    let busy = LsmEngine::open(legal).err();
    assert!(matches!(
        busy,
        Some(Error::Store(terrace::Error::Busy { .. }))
    ));
}

/// Action of a command of the model.
#[derive(Clone, Copy)]
enum Kind {
    Store(Condition, u64, usize),
    Delete,
    /// The states that a read may show so far, and the bytes asked for.
    Read,
}

/// Changes of a key take effect in the order in which they end; a read shows a state that the key had
/// while the read was under way.
#[test]
fn random_commands_beside_a_model_and_over_several_lives() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut rng = StdRng::seed_from_u64(1);
    let mut state: BTreeMap<(u32, Key), KeyState> = BTreeMap::new();
    let mut version = 0;
    for _life in 0..4 {
        let mut driver = lsm(&path);
        let mut under_way: HashMap<u64, ((u32, Key), Kind)> = HashMap::new();
        let mut reads: HashMap<u64, Vec<KeyState>> = HashMap::new();
        for number in 0..1500 {
            let at = (rng.random_range(1..=3), key(rng.random_range(0..25)));
            let (tag, kind) = match rng.random_range(0..10) {
                0..=4 => {
                    let condition = [Condition::Always, Condition::IfExists, Condition::IfAbsent]
                        [rng.random_range(0..3)];
                    version += 1;
                    let bytes = match rng.random_range(0..20) {
                        0 => rng.random_range(0..2_500_000),
                        1..=3 => rng.random_range(0..150_000),
                        _ => rng.random_range(0..3000),
                    };
                    let value = value_of(&at.1, version, bytes);
                    let tag = driver.store(at.0, at.1, value, condition);
                    (tag, Kind::Store(condition, version, bytes))
                }
                5 => {
                    let command = Command::Delete { key: at.1 };
                    (driver.submit(at.0, command, None), Kind::Delete)
                }
                _ => {
                    let command = Command::Retrieve {
                        key: at.1,
                        max_bytes: u32::MAX,
                    };
                    let tag = driver.submit(at.0, command, None);
                    reads.insert(tag, vec![state.get(&at).copied().flatten()]);
                    (tag, Kind::Read)
                }
            };
            under_way.insert(tag, (at, kind));
            while under_way.len() >= 12 || (number == 1499 && !under_way.is_empty()) {
                driver.step(Wait::Yes);
                while let Some((tag, result)) = driver.ended.pop_front() {
                    let (at, kind) = under_way.remove(&tag).expect("it was begun");
                    let now = state.get(&at).copied().flatten();
                    let expected = match kind {
                        Kind::Read => {
                            let states = reads.remove(&tag).expect("it was begun");
                            let value = result.map(|_| driver.take_value(tag)).ok();
                            let fits = |state: &KeyState| match (state, &value) {
                                (None, None) => true,
                                (Some((version, bytes)), Some(value)) => {
                                    *value == value_of(&at.1, *version, *bytes)
                                }
                                _ => false,
                            };
                            // Durable changes show before their end is reported.
                            let pending = under_way.values().filter(|(of, _)| *of == at);
                            let mut states = states;
                            states.extend(pending.map(|(_, kind)| match kind {
                                Kind::Store(_, version, bytes) => Some((*version, *bytes)),
                                _ => None,
                            }));
                            assert!(states.iter().any(fits), "{at:?}");
                            continue;
                        }
                        Kind::Store(Condition::IfExists, ..) | Kind::Delete if now.is_none() => {
                            Err(Failure::NotFound)
                        }
                        Kind::Store(Condition::IfAbsent, ..) if now.is_some() => {
                            Err(Failure::KeyExists)
                        }
                        Kind::Store(_, version, bytes) => {
                            state.insert(at, Some((version, bytes)));
                            Ok(Answer::Stored)
                        }
                        Kind::Delete => {
                            state.insert(at, None);
                            Ok(Answer::Deleted)
                        }
                    };
                    assert_eq!(result, expected, "{at:?}");
                    for (read, states) in &mut reads {
                        if under_way[read].0 == at {
                            states.push(state.get(&at).copied().flatten());
                        }
                    }
                }
            }
        }
        assert_eq!(
            (driver.engine.in_flight(), driver.engine.buffer_usage().0),
            (0, 0)
        );
        assert!(driver.engine.buffer_usage().1 <= BUFFER_BYTES);
        for nsid in 1..=3 {
            let mut listed = driver.list(nsid);
            let held = state
                .iter()
                .filter(|((of, _), state)| *of == nsid && state.is_some());
            let expected: Vec<Key> = held.map(|((_, key), _)| *key).collect();
            assert_eq!(listed, expected);
            listed.sort();
            assert_eq!(listed, expected);
        }
    }
}

/// Loops of one store race for the same new keys: each key is one loop's, and all loops see it.
#[test]
fn loops_share_a_store_and_a_key_is_stored_once() {
    const LOOPS: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let store = LsmStore::open(options(&directory.path().join("store"))).unwrap();
    let one_loop = |number: u8| {
        let engine = LsmEngine::new(&store, BUFFER_BYTES).unwrap();
        move || {
            let mut driver = Driver::new(engine);
            let mut own = 0;
            for at in 0..200 {
                let store = Command::Store {
                    key: key(at),
                    value_bytes: 1,
                    condition: Condition::IfAbsent,
                };
                // All loops have the same tags.
                let tag = driver.submit(1, store, Some(vec![number]));
                own += usize::from(driver.finish(tag) == Ok(Answer::Stored));
            }
            (driver, own)
        }
    };
    let threads = [0, 1, 2].map(one_loop).map(std::thread::spawn);
    let mut drivers = threads.map(|thread| thread.join().unwrap());
    let stored: usize = drivers.iter().map(|(_, own)| own).sum();
    assert_eq!(stored, 200);
    let lists = drivers.each_mut().map(|(driver, _)| driver.list(1));
    assert!(lists.len() == LOOPS && lists.iter().all(|list| list.len() == 200));
}
