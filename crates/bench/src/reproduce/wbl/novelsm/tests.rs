use std::collections::BTreeMap;

use rand::RngExt;

use super::*;
use crate::draw::{Random, random, uniform};

fn settings() -> Settings {
    Settings {
        write_buffer_bytes: 1 << 20,
        ..Settings::default()
    }
}

/// Both stores in this process's memory.
fn in_memory() -> Novelsm {
    let open = || Db::open("/store", terrace::Options::in_memory()).unwrap();
    Novelsm {
        logged: open(),
        overflow: open(),
        last_number: AtomicU64::new(0),
        turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
        overflowed: AtomicU64::new(0),
        sync: false,
    }
}

/// A write that the first store would not have taken at once.
fn put_into_overflow(store: &Novelsm, key: &[u8], value: Option<&[u8]>) {
    store
        .numbered(key, value, |bytes| store.overflow(key, bytes))
        .unwrap();
}

fn get(store: &Novelsm, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let is_found = store
        .get(key, &mut |value| found = Some(value.to_vec()))
        .unwrap();
    assert_eq!(is_found, found.is_some());
    found
}

fn rows(store: &Novelsm, start: Option<&[u8]>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    store
        .scan(start, u64::MAX, direction, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
        })
        .unwrap();
    rows
}

#[test]
fn it_conforms_and_is_found_again() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let opened = match open(directory.path(), &settings()) {
        Ok(opened) => opened,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    crate::conformance::check(opened.store.as_ref()).unwrap();
    opened.store.close().unwrap();
    let opened = open(directory.path(), &settings()).unwrap();
    crate::conformance::check_reopened(opened.store.as_ref()).unwrap();
    // Numbers go on where they ended: a later write is newer.
    opened.store.put(b"key000001", b"new").unwrap();
    let is_found = opened
        .store
        .get(b"key000001", &mut |value| assert_eq!(value, b"new"))
        .unwrap();
    assert!(is_found);
    opened.store.close().unwrap();
}

#[test]
fn the_newest_version_wins_wherever_it_lies() {
    let store = in_memory();
    store.put(b"a", b"1").unwrap();
    put_into_overflow(&store, b"a", Some(b"2"));
    assert_eq!(get(&store, b"a").unwrap(), b"2");
    store.put(b"a", b"3").unwrap();
    assert_eq!(get(&store, b"a").unwrap(), b"3");
    // A deletion in one hides the value in the other.
    put_into_overflow(&store, b"a", None);
    assert_eq!(get(&store, b"a"), None);
    assert!(rows(&store, None, Direction::Forward).is_empty());
    store.put(b"a", b"").unwrap();
    assert_eq!(get(&store, b"a").unwrap(), b"");
}

#[test]
fn it_answers_as_a_map_does() {
    for seed in 0..4 {
        let store = in_memory();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut random = random(seed, 0);
        for step in 0..4000_u32 {
            random_write(&store, &mut model, &mut random, step);
            if step % 1500 == 1400 {
                store.settle().unwrap();
            }
            let key = key(&mut random);
            assert_eq!(get(&store, &key), model.get(&key).cloned());
            if step % 100 == 0 {
                let from = self::key(&mut random);
                let forward = rows(&store, Some(&from), Direction::Forward);
                let expected = model.range(from.clone()..);
                assert!(forward.iter().map(|(k, v)| (k, v)).eq(expected));
                let backward = rows(&store, Some(&from), Direction::Backward);
                let expected = model.range(..=from).rev();
                assert!(backward.iter().map(|(k, v)| (k, v)).eq(expected));
            }
        }
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key{:03}", uniform(random, 300)).into_bytes()
}

fn random_write(
    store: &Novelsm,
    model: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    random: &mut Random,
    step: u32,
) {
    let key = key(random);
    let value = (!random.random_bool(0.2)).then(|| format!("value {step}").into_bytes());
    match (random.random_bool(0.5), &value) {
        (true, value) => put_into_overflow(store, &key, value.as_deref()),
        (false, Some(value)) => store.put(&key, value).unwrap(),
        (false, None) => store.delete(&key).unwrap(),
    }
    match value {
        Some(value) => model.insert(key, value),
        None => model.remove(&key),
    };
}

/// Writers of the same few keys, now into the one store and now into the other; readers must never see
/// a key go back.
#[test]
fn versions_never_go_back_under_concurrency() {
    const KEYS: u64 = 4;
    const WRITES: u64 = 3000;
    let store = in_memory();
    // The count of each key's writes: a write takes its count within its key's turn.
    let counts: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let write = |number: u64, into_overflow: bool| {
        let key = number.to_be_bytes();
        let turn = &store.turns[turn_of(&key)];
        let _turn = turn.lock().unwrap();
        let count = counts[number as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let version = Version {
            number: store.last_number.fetch_add(1, Ordering::Relaxed) + 1,
            value: Some(&count.to_be_bytes()),
        };
        let mut bytes = Vec::new();
        version.write_into(&mut bytes);
        match into_overflow {
            true => store.overflow(&key, &bytes).unwrap(),
            false => store.store(&key, &bytes).unwrap(),
        }
    };
    let read = |number: u64| {
        get(&store, &number.to_be_bytes())
            .map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
    };
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let write = &write;
            scope.spawn(move || {
                let mut random = random(writer, 1);
                for _ in 0..WRITES {
                    write(uniform(&mut random, KEYS), random.random_bool(0.5));
                }
            });
        }
        scope.spawn(|| {
            let mut last = [0; KEYS as usize];
            for step in 0..2 * WRITES {
                let number = step % KEYS;
                let acknowledged_before = last[number as usize];
                last[number as usize] = read(number);
                assert!(last[number as usize] >= acknowledged_before);
            }
        });
    });
    for number in 0..KEYS {
        assert_eq!(
            read(number),
            counts[number as usize].load(Ordering::Relaxed)
        );
    }
}
