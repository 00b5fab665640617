//! Rows that count, and a step that adds 1 to two of them, in a transaction or without.

use terrace_bench::keys::KeyForm;
use terrace_bench::store::{Direction, Store};
use terrace_bench::tables::{Row, Tables};
use terrace_bench::{Error, Result};

/// Bytes of a key.
pub const KEY_BYTES: u32 = 16;
/// Bytes of a value: a number, and as many others as are missing.
pub const VALUE_BYTES: usize = 100;

const KEYS: KeyForm = KeyForm::DbBench { bytes: KEY_BYTES };
const TABLE: usize = 0;
const ROWS_AT_ONCE: u64 = 1_000;
/// Behind every key.
const END: &[u8] = &[255];

type Value = [u8; VALUE_BYTES];

/// A store, and how steps are made on it.
#[derive(Clone, Copy)]
pub enum Counters<'a> {
    /// Each read and each write by itself.
    Plain(&'a dyn Store),
    /// In transactions on the first table.
    Transactions(&'a dyn Tables),
}

/// Returns the key of a record, in place of the contents of `key`.
pub fn write_key(record: u64, key: &mut Vec<u8>) {
    KEYS.write(record, key);
}

impl Counters<'_> {
    /// Writes rows that count 0.
    pub fn load(self, records: u64) -> Result<()> {
        let (value, mut key) = (value(0), Vec::new());
        match self {
            Counters::Plain(store) => (0..records).try_for_each(|record| {
                write_key(record, &mut key);
                store.put(&key, &value)
            }),
            Counters::Transactions(tables) => {
                let row = |record| -> Row {
                    let mut key = Vec::new();
                    write_key(record, &mut key);
                    (TABLE, key, value.to_vec())
                };
                let mut starts = (0..records).step_by(ROWS_AT_ONCE as usize);
                starts.try_for_each(|start| {
                    let rows = start..records.min(start + ROWS_AT_ONCE);
                    tables.load(&rows.map(row).collect::<Vec<_>>())
                })
            }
        }
    }

    /// Adds 1 to both rows. Returns how often the transaction ran.
    pub fn step(self, first: &[u8], second: &[u8]) -> Result<u64> {
        match self {
            Counters::Plain(store) => {
                let numbers = [
                    number(|read| store.get(first, read))?,
                    number(|read| store.get(second, read))?,
                ];
                store.put(first, &value(numbers[0] + 1))?;
                store.put(second, &value(numbers[1] + 1))?;
                Ok(1)
            }
            Counters::Transactions(tables) => {
                let mut runs = 0;
                tables.transact(&mut |transaction| {
                    runs += 1;
                    let numbers = [
                        number(|read| transaction.get(TABLE, first, read))?,
                        number(|read| transaction.get(TABLE, second, read))?,
                    ];
                    transaction.put(TABLE, first, &value(numbers[0] + 1))?;
                    transaction.put(TABLE, second, &value(numbers[1] + 1))
                })?;
                Ok(runs)
            }
        }
    }

    /// Returns the sum of all rows.
    pub fn sum(self) -> Result<u64> {
        let (mut sum, mut is_right) = (0, true);
        let mut add = |_: &[u8], value: &[u8]| match parsed(value) {
            Some(number) => sum += number,
            None => is_right = false,
        };
        match self {
            Counters::Plain(store) => store.scan(None, u64::MAX, Direction::Forward, &mut add)?,
            Counters::Transactions(tables) => {
                tables.view()?.scan(TABLE, &[]..END, u64::MAX, &mut add)?;
            }
        }
        is_right.then_some(sum).ok_or_else(no_number)
    }
}

fn value(number: u64) -> Value {
    let mut value = [b'.'; VALUE_BYTES];
    let (octets, _) = value.split_at_mut(size_of::<u64>());
    octets.copy_from_slice(&number.to_be_bytes());
    value
}

fn parsed(value: &[u8]) -> Option<u64> {
    let (octets, rest) = value.split_first_chunk()?;
    (rest.len() + octets.len() == VALUE_BYTES).then(|| u64::from_be_bytes(*octets))
}

/// Reads a row's number.
fn number(get: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<bool>) -> Result<u64> {
    let mut number = None;
    get(&mut |value| number = parsed(value))?;
    number.ok_or_else(no_number)
}

fn no_number() -> Error {
    "a row is missing, or has no number".into()
}
