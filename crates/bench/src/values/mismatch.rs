//! What is wrong with a value.

use std::error::Error;
use std::fmt;

/// A value that is not what was written: an error of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It has another length.
    Length {
        /// Whose value it should be.
        record: u64,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It, or a field of it, is a whole one of another record.
    OtherRecord {
        /// Whose value it should be.
        record: u64,
        /// Which field, counted from 0.
        field: u32,
        /// Whose it is.
        found: u64,
        /// In this version.
        version: u32,
    },
    /// Bytes that nobody wrote.
    Mangled {
        /// Whose value it should be.
        record: u64,
        /// Which field, counted from 0.
        field: u32,
        /// Where in the field.
        at: u64,
        /// What should be there.
        expected: u8,
        /// What is there.
        found: u8,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Length {
                record,
                expected,
                found,
            } => write!(
                f,
                "the value of record {record} has {found} bytes instead of {expected}"
            ),
            Mismatch::OtherRecord {
                record,
                field,
                found,
                version,
            } => write!(
                f,
                "the value of record {record} is, in field {field}, that of record {found} in \
                 version {version}"
            ),
            Mismatch::Mangled {
                record,
                field,
                at,
                expected,
                found,
            } => write!(
                f,
                "the value of record {record} has {found:#04x} instead of {expected:#04x} in byte \
                 {at} of field {field}"
            ),
        }
    }
}

impl Error for Mismatch {}
