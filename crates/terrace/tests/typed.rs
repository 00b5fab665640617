//! Keys and values of a program's types.

use std::thread;

use serde::{Deserialize, Serialize};
use terrace::{Db, Error, Options, Result, Typed, WriteBatch, WriteOptions};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    celsius: f32,
    station: Option<String>,
}

fn reading(celsius: f32) -> Reading {
    let station = (celsius > 0.0).then(|| "harbour".to_string());
    Reading { celsius, station }
}

fn store() -> Db {
    Db::open("/store", Options::in_memory()).unwrap()
}

/// Returns readings by station and time.
fn readings(db: &Db) -> Typed<(String, i64), Reading> {
    let readings = db.get_or_create_keyspace("readings", Default::default());
    readings.unwrap().typed()
}

fn key(station: &str, time: i64) -> (String, i64) {
    (station.to_string(), time)
}

#[test]
fn values_come_back_in_the_order_of_their_keys() {
    let db = store();
    let readings = readings(&db);
    let keys = [
        key("b", i64::MIN),
        key("a", 7),
        key("a\0", -1),
        key("a", -7),
        key("", 0),
    ];
    for (number, key) in keys.iter().enumerate() {
        readings.put(key, &reading(number as f32)).unwrap();
    }
    db.flush().unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort();
    let found: Result<Vec<_>> = readings.iter().unwrap().map(|entry| Ok(entry?.0)).collect();
    assert_eq!(found.unwrap(), sorted);
    let reversed = readings.iter().unwrap().rev();
    let reversed: Vec<_> = reversed.map(|entry| entry.unwrap().0).collect();
    assert!(reversed.iter().eq(sorted.iter().rev()));
    let of_a = readings.range(key("a", i64::MIN)..=key("a", i64::MAX));
    let celsius: Vec<f32> = of_a
        .unwrap()
        .map(|entry| entry.unwrap().1.celsius)
        .collect();
    assert_eq!(celsius, [3.0, 1.0]);
    assert_eq!(readings.get(&keys[0]).unwrap(), Some(reading(0.0)));
    readings.delete(&keys[0]).unwrap();
    assert!(!readings.contains_key(&keys[0]).unwrap());
    assert_eq!(readings.get(&keys[0]).unwrap(), None);
}

#[test]
fn a_batch_holds_entries_of_several_types() {
    let db = store();
    let (readings, stations) = (readings(&db), db.typed::<String, u64>());
    stations.put("c", &1).unwrap();
    let mut batch = WriteBatch::new();
    readings
        .put_to(&mut batch, &key("a", 1), &reading(1.0))
        .unwrap();
    stations.put_to(&mut batch, "a", &1).unwrap();
    stations.delete_to(&mut batch, "c").unwrap();
    db.write(batch, WriteOptions::default()).unwrap();
    assert_eq!(readings.get(&key("a", 1)).unwrap(), Some(reading(1.0)));
    let all: Vec<_> = stations.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(all, [("a".to_string(), 1)]);
    // A text that is a whole key is its own bytes.
    assert!(db.contains_key("a").unwrap());
}

#[test]
fn ranges_are_deleted_by_their_typed_bounds() {
    let db = store();
    let numbers = db.typed::<i32, ()>();
    let all = |numbers: &Typed<i32, ()>| -> Vec<i32> {
        let entries = numbers.iter().unwrap();
        entries.map(|entry| entry.unwrap().0).collect()
    };
    for number in -5..5 {
        numbers.put(&number, &()).unwrap();
    }
    numbers.delete_within(3..).unwrap();
    let mut batch = WriteBatch::new();
    numbers.delete_within_to(&mut batch, ..-3).unwrap();
    numbers.delete_within_to(&mut batch, -1..=1).unwrap();
    let endless = numbers.delete_within_to(&mut batch, 0..).unwrap_err();
    assert!(matches!(endless, Error::InvalidArgument(_)), "{endless:?}");
    db.write(batch, WriteOptions::default()).unwrap();
    assert_eq!(all(&numbers), [-3, -2, 2]);
    let ends = [numbers.first().unwrap(), numbers.last().unwrap()];
    assert_eq!(ends, [Some((-3, ())), Some((2, ()))]);
    numbers.delete_within(..).unwrap();
    assert_eq!(numbers.first().unwrap(), None);
}

#[test]
fn threads_that_update_one_key_lose_nothing() {
    let db = store();
    let counts = db.typed::<str_key::Name, u64>();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let more = |count: Option<u64>| Some(count.unwrap_or(0) + 1);
                    let home = str_key::Name("home".into());
                    counts.fetch_and_update(&home, more).unwrap();
                }
            });
        }
    });
    let home = str_key::Name("home".into());
    assert_eq!(counts.get(&home).unwrap(), Some(800));
    let before = counts.fetch_and_update(&home, |_| None).unwrap();
    assert_eq!(before, Some(800));
    assert_eq!(counts.get(&home).unwrap(), None);
}

#[test]
fn an_update_begins_again_after_another_write() {
    let db = store();
    let counts = db.typed::<u8, u64>();
    let mut calls = 0;
    let update = |count: Option<u64>| {
        calls += 1;
        if calls == 1 {
            counts.put(&7, &10).unwrap();
        }
        Some(count.unwrap_or(0) + 1)
    };
    assert_eq!(counts.fetch_and_update(&7, update).unwrap(), Some(10));
    assert_eq!((calls, counts.get(&7).unwrap()), (2, Some(11)));
}

#[test]
fn a_key_that_would_not_be_read_back_is_refused() {
    let db = store();
    let fours = db.typed::<[u8; 4], u8>();
    let refused = fours.put(&b"abc"[..], &1).unwrap_err();
    assert!(matches!(refused, Error::InvalidArgument(_)), "{refused:?}");
    fours.put(&b"abcd"[..], &1).unwrap();
    assert_eq!(fours.first().unwrap(), Some((*b"abcd", 1)));
}

/// A program's own key.
mod str_key {
    use terrace::{DecodeKey, EncodeKey};

    pub struct Name(pub String);

    impl EncodeKey for Name {
        fn encode(&self, key: &mut Vec<u8>) {
            self.0.encode(key);
        }
    }

    impl DecodeKey for Name {
        fn decode(key: &mut &[u8]) -> Option<Self> {
            String::decode(key).map(Name)
        }
    }
}

#[test]
fn entries_of_another_type_are_refused_and_stay() {
    let db = store();
    let counts = db.typed::<u32, u32>();
    counts.put(&1, &300).unwrap();
    // Bytes behind a whole value are none of the type, either.
    db.put(2u32.to_be_bytes(), [1, 7]).unwrap();
    let refused = |error: Error| match error {
        Error::OtherType { part, expected, .. } => (part, expected),
        other => panic!("{other:?}"),
    };
    let get = counts.get(&2);
    assert_eq!(refused(get.unwrap_err()), ("value", "u32"));
    let update = counts.fetch_and_update(&2, |_| None);
    assert_eq!(refused(update.unwrap_err()), ("value", "u32"));
    assert_eq!(db.get(2u32.to_be_bytes()).unwrap().unwrap(), [1, 7]);

    let mut entries = counts.iter().unwrap();
    assert_eq!(entries.next().unwrap().unwrap(), (1, 300));
    assert_eq!(refused(entries.next().unwrap().unwrap_err()).0, "value");
    assert!(entries.next().is_none() && entries.next_back().is_none());
    db.put("a key of five", "").unwrap();
    let last = counts.iter().unwrap().next_back().unwrap().unwrap_err();
    assert_eq!(
        last.to_string(),
        "keyspace \"default\": key \"a key of five\" is no u32: another type, or another version of it, wrote the bytes"
    );
}
