//! The rows of a scan, checked one by one.

use crate::keys::KeyForm;
use crate::store::Direction;
use crate::values::Values;

/// Rows in the order of keys from the start on, each with its key's value.
pub struct ScanCheck<'a> {
    keys: KeyForm,
    values: &'a Values,
    direction: Direction,
    /// Whether there is a key that the next one must not be before.
    bounded: bool,
    /// The key before, or the start.
    last: &'a mut Vec<u8>,
    expected: Vec<u8>,
    /// Rows seen.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// The last error.
    pub wrong: Option<String>,
}

impl<'a> ScanCheck<'a> {
    /// Makes a check; `last` is a buffer that holds each key for the next.
    pub fn new(
        keys: KeyForm,
        values: &'a Values,
        direction: Direction,
        start: Option<&[u8]>,
        last: &'a mut Vec<u8>,
    ) -> Self {
        last.clear();
        last.extend_from_slice(start.unwrap_or_default());
        ScanCheck {
            keys,
            values,
            direction,
            bounded: start.is_some(),
            last,
            expected: Vec::new(),
            rows: 0,
            bytes: 0,
            wrong: None,
        }
    }

    /// Checks the next row.
    pub fn row(&mut self, key: &[u8], value: &[u8]) {
        let in_order = match (self.direction, self.rows) {
            _ if !self.bounded => true,
            // The first may be the start itself.
            (Direction::Forward, 0) => key >= self.last.as_slice(),
            (Direction::Forward, _) => key > self.last.as_slice(),
            (Direction::Backward, 0) => key <= self.last.as_slice(),
            (Direction::Backward, _) => key < self.last.as_slice(),
        };
        if !in_order {
            self.wrong = Some(format!(
                "a scan shows {} behind {}",
                key.escape_ascii(),
                self.last.escape_ascii()
            ));
        }
        self.bounded = true;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if let Err(wrong) = self.value_is_its_key_s(key, value) {
            self.wrong = Some(format!("a scan shows at {}: {wrong}", key.escape_ascii()));
        }
    }

    fn value_is_its_key_s(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), String> {
        let Some(record) = self
            .keys
            .record_of(key)
            .or_else(|| self.values.record_of(value))
        else {
            return Ok(());
        };
        self.keys.write(record, &mut self.expected);
        if self.expected != key {
            return Err(format!("the value of record {record}"));
        }
        self.values
            .check(record, value)
            .map(drop)
            .map_err(|mismatch| mismatch.to_string())
    }
}
