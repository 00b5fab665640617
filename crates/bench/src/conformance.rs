//! What every adaptor must do, as a check that the tests of all of them share.

use crate::Result;
use crate::store::{Direction, Store};

const KEYS: u32 = 2000;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn value(number: u32, version: u32) -> Vec<u8> {
    format!("value {number} of version {version}; ")
        .repeat(1 + number as usize % 20)
        .into_bytes()
}

/// Writes, overwrites, removes, reads and scans in an empty store; ends with an error that says what
/// was wrong. Leaves what [`check_reopened`] looks for.
///
/// # Errors
/// The first answer that is not the right one.
pub fn check(store: &dyn Store) -> Result<()> {
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|half| {
            scope.spawn(move || {
                (0..KEYS)
                    .filter(|n| n % 2 == half)
                    .try_for_each(|n| store.put(&key(n), &value(n, 0)))
            })
        });
        writers.into_iter().try_for_each(|writer| {
            writer
                .join()
                .unwrap_or_else(|_| Err("a writer panicked".into()))
        })
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

/// The same contents, in a store that was closed and opened again.
///
/// # Errors
/// The first answer that is not the right one.
pub fn check_reopened(store: &dyn Store) -> Result<()> {
    check_contents(store)
}

fn expected(number: u32) -> Option<Vec<u8>> {
    (!number.is_multiple_of(5)).then(|| value(number, u32::from(number.is_multiple_of(3))))
}

fn check_contents(store: &dyn Store) -> Result<()> {
    for number in 0..KEYS + 10 {
        let expected = if number < KEYS {
            expected(number)
        } else {
            None
        };
        let mut found = None;
        let is_found = store.get(&key(number), &mut |value| found = Some(value.to_vec()))?;
        if found != expected || is_found != expected.is_some() {
            return Err(format!("get of {number} gave {found:?} and {is_found}").into());
        }
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
    for start in [0, 1, 5, 999, 1000, KEYS - 1, KEYS + 5] {
        let forward = behind(start).take(50).collect();
        check_scan(store, Some(start), 50, Direction::Forward, forward)?;
        let backward = before(start).take(50).collect();
        check_scan(store, Some(start), 50, Direction::Backward, backward)?;
    }
    Ok(())
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
