//! Duties of tables and their transactions.

use crate::Result;
use crate::tables::{Row, Tables};

const THREADS: u64 = 4;
const INCREMENTS: u64 = 200;

/// Loads, reads and changes the first two tables, which are empty.
///
/// # Errors
/// The first wrong answer, described.
pub fn check_tables(tables: &dyn Tables) -> Result<()> {
    let row = |table, number: u8| -> Row { (table, vec![b'k', number], vec![number; 3]) };
    let rows: Vec<Row> = (0..100)
        .map(|number| row(usize::from(number) % 2, number))
        .collect();
    tables.load(&rows)?;
    check_view(tables)?;
    check_rollback(tables)?;
    check_increments(tables)
}

/// Checks that a view shows ranges in order, and several rows at once.
fn check_view(tables: &dyn Tables) -> Result<()> {
    let view = tables.view()?;
    let mut scanned = Vec::new();
    view.scan(0, b"k\x02"..b"k\x32", 5, &mut |key, value| {
        scanned.push((key.to_vec(), value.to_vec()));
    })?;
    let expected = [2, 4, 6, 8, 10].map(|number| (vec![b'k', number], vec![number; 3]));
    same("a scan", &scanned, &expected.to_vec())?;
    let mut rows = 0;
    view.scan(1, b"k"..b"k\x10", u64::MAX, &mut |_, _| rows += 1)?;
    same("the rows of a range", &rows, &8)?;
    let keys = [b"k\x05".to_vec(), b"k\x06".to_vec(), b"k\x07".to_vec()];
    let mut found = Vec::new();
    view.multi_get(1, &keys, &mut |place, value| {
        found.push((place, value.to_vec()))
    })?;
    same(
        "gets of several",
        &found,
        &vec![(0, vec![5; 3]), (2, vec![7; 3])],
    )
}

/// Checks that a transaction that fails changes nothing, and that one that ends changes all tables.
fn check_rollback(tables: &dyn Tables) -> Result<()> {
    let failed = tables.transact(&mut |transaction| {
        transaction.put(0, b"new", b"1")?;
        transaction.delete(1, b"k\x01")?;
        Err("it fails".into())
    });
    same("a failed transaction", &failed.is_err(), &true)?;
    same("its new row", &get(tables, 0, b"new")?, &None)?;
    same(
        "the row it removed",
        &get(tables, 1, b"k\x01")?,
        &Some(vec![1; 3]),
    )?;
    let mut own = Vec::new();
    tables.transact(&mut |transaction| {
        transaction.put(0, b"new", b"2")?;
        transaction.delete(1, b"k\x01")?;
        own.clear();
        transaction.get(0, b"new", &mut |value| own.extend_from_slice(value))?;
        Ok(())
    })?;
    same("its own row", &own, &b"2".to_vec())?;
    same(
        "the new row",
        &get(tables, 0, b"new")?,
        &Some(b"2".to_vec()),
    )?;
    same("the removed row", &get(tables, 1, b"k\x01")?, &None)
}

/// Checks that no increment of several threads is lost, and that both tables show the same number.
fn check_increments(tables: &dyn Tables) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| (0..INCREMENTS).try_for_each(|_| increment(tables))))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })?;
    let expected = Some((THREADS * INCREMENTS).to_be_bytes().to_vec());
    same("the number", &get(tables, 0, b"number")?, &expected)?;
    same("its copy", &get(tables, 1, b"number")?, &expected)
}

fn increment(tables: &dyn Tables) -> Result<()> {
    tables.transact(&mut |transaction| {
        let mut number = 0;
        transaction.get(0, b"number", &mut |value| {
            number = value.try_into().map_or(0, u64::from_be_bytes);
        })?;
        let next = (number + 1).to_be_bytes();
        transaction.put(0, b"number", &next)?;
        transaction.put(1, b"number", &next)
    })
}

fn get(tables: &dyn Tables, table: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    let is_there = tables.get(table, key, &mut |value| found = Some(value.to_vec()))?;
    same("an answer", &is_there, &found.is_some())?;
    Ok(found)
}

fn same<T: PartialEq + std::fmt::Debug>(subject: &str, found: &T, expected: &T) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{subject}: {found:?}, not {expected:?}").into()),
    }
}
