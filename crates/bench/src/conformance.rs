//! Duties of every adaptor, as a check that the tests of all of them share.

mod tables;

use crate::Result;
use crate::store::{Direction, Store};

pub use self::tables::check_tables;

const KEYS: u32 = 2000;
const WRITERS: u32 = 4;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Returns a value; some are empty.
fn value(number: u32, version: u32) -> Vec<u8> {
    if number % 100 == 1 {
        return Vec::new();
    }
    format!("value {number} of version {version}; ")
        .repeat(1 + number as usize % 20)
        .into_bytes()
}

/// Writes, overwrites, removes, reads and scans in an empty store. Leaves the records that
/// [`check_reopened`] looks for.
///
/// # Errors
/// The first wrong answer, described.
pub fn check(store: &dyn Store) -> Result<()> {
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write_part(store, writer)))
            .collect();
        let scanned = (0..20).try_for_each(|_| check_order(store));
        writers.into_iter().try_for_each(|writer| {
            writer
                .join()
                .unwrap_or_else(|_| Err("a writer panicked".into()))
        })?;
        scanned
    })?;
    for number in (0..KEYS).step_by(3) {
        store.put(&key(number), &value(number, 1))?;
    }
    for number in (0..KEYS).step_by(5) {
        store.delete(&key(number))?;
    }
    store.delete(b"absent")?;
    check_contents(store)?;
    store.settle()?;
    store.activity();
    check_contents(store)
}

/// Writes every `WRITERS`-th key, and reads each right after its write.
fn write_part(store: &dyn Store, writer: u32) -> Result<()> {
    for number in (writer..KEYS).step_by(WRITERS as usize) {
        store.put(&key(number), &value(number, 0))?;
        check_get(store, number, Some(value(number, 0)))?;
    }
    Ok(())
}

/// Checks that a scan beside writers shows keys in order.
fn check_order(store: &dyn Store) -> Result<()> {
    let mut keys = Vec::new();
    let start = key(KEYS / 2);
    store.scan(Some(&start), 100, Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
    })?;
    match keys.is_sorted() && keys.len() <= 100 {
        true => Ok(()),
        false => Err("a scan beside writers is out of order, or too long".into()),
    }
}

/// Checks for the same contents in a store that was closed and opened again.
///
/// # Errors
/// The first wrong answer.
pub fn check_reopened(store: &dyn Store) -> Result<()> {
    check_contents(store)
}

fn expected(number: u32) -> Option<Vec<u8>> {
    (!number.is_multiple_of(5)).then(|| value(number, u32::from(number.is_multiple_of(3))))
}

fn check_contents(store: &dyn Store) -> Result<()> {
    for number in 0..KEYS + 10 {
        let expected = expected(number).filter(|_| number < KEYS);
        check_get(store, number, expected)?;
    }
    let all: Vec<_> = (0..KEYS)
        .filter_map(|n| Some((key(n), expected(n)?)))
        .collect();
    let behind = |start: u32| all.iter().filter(move |(k, _)| *k >= key(start)).cloned();
    let before = |start: u32| {
        all.iter()
            .rev()
            .filter(move |(k, _)| *k <= key(start))
            .cloned()
    };
    check_scan(store, None, u64::MAX, Direction::Forward, all.clone())?;
    check_scan(
        store,
        None,
        7,
        Direction::Forward,
        all.iter().take(7).cloned().collect(),
    )?;
    check_scan(
        store,
        None,
        7,
        Direction::Backward,
        all.iter().rev().take(7).cloned().collect(),
    )?;
    check_scan(store, None, 0, Direction::Forward, Vec::new())?;
    for start in [0, 1, 5, 999, 1000, KEYS - 1, KEYS + 5] {
        let forward = behind(start).take(50).collect();
        check_scan(store, Some(start), 50, Direction::Forward, forward)?;
        let backward = before(start).take(50).collect();
        check_scan(store, Some(start), 50, Direction::Backward, backward)?;
    }
    Ok(())
}

fn check_get(store: &dyn Store, number: u32, expected: Option<Vec<u8>>) -> Result<()> {
    let mut found = None;
    let is_found = store.get(&key(number), &mut |value| found = Some(value.to_vec()))?;
    match found == expected && is_found == expected.is_some() {
        true => Ok(()),
        false => Err(format!("get of {number} gave {found:?} and {is_found}").into()),
    }
}

fn check_scan(
    store: &dyn Store,
    start: Option<u32>,
    limit: u64,
    direction: Direction,
    expected: Vec<(Vec<u8>, Vec<u8>)>,
) -> Result<()> {
    let mut found = Vec::new();
    let start_key = start.map(key);
    store.scan(start_key.as_deref(), limit, direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
    })?;
    if found == expected {
        return Ok(());
    }
    let first =
        |rows: &[(Vec<u8>, Vec<u8>)]| rows.first().map(|(key, _)| key.escape_ascii().to_string());
    Err(format!(
        "{direction:?} scan of {limit} from {start:?}: {} rows from {:?}, expected {} from {:?}",
        found.len(),
        first(&found),
        expected.len(),
        first(&expected)
    )
    .into())
}
