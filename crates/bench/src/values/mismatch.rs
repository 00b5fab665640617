//! Errors of a value.

use std::error::Error;
use std::fmt;

/// A value that differs from the written one: an error of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It has another length.
    Length {
        /// The record that it should be of.
        record: u64,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It, or a field of it, is a whole one of another record.
    OtherRecord {
        /// The record that it should be of.
        record: u64,
        /// The field, counted from 0.
        field: u32,
        /// The record that it is of.
        found: u64,
        /// Its version.
        version: u32,
    },
    /// Bytes that no client wrote.
    Mangled {
        /// The record that it should be of.
        record: u64,
        /// The field, counted from 0.
        field: u32,
        /// Where in the field.
        at: u64,
        /// The expected byte.
        expected: u8,
        /// The byte found.
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
