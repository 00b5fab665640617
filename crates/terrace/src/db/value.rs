//! A value that was read, without a copy where that pays.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use terrace_lsm::block_value::TableValue;

use crate::write_buffer::memtable::{MemTable, ValuePlace};

/// The value of a key. Dereferences to its bytes.
///
/// A value from a table pins its block, a large one from a recent write pins the memory it was
/// written to, until it is dropped.
pub struct Value(Source);

enum Source {
    Copied(Box<[u8]>),
    Block(TableValue),
    Arena {
        table: Arc<MemTable>,
        place: ValuePlace,
    },
}

impl Value {
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Value(Source::Copied(bytes.into()))
    }

    pub(crate) fn owned(bytes: Box<[u8]>) -> Self {
        Value(Source::Copied(bytes))
    }

    pub(crate) fn in_block(value: TableValue) -> Self {
        Value(Source::Block(value))
    }

    pub(crate) fn in_arena(table: &Arc<MemTable>, place: ValuePlace) -> Self {
        Value(Source::Arena {
            table: Arc::clone(table),
            place,
        })
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Copied(bytes) => bytes,
            Source::Block(value) => value,
            Source::Arena { table, place } => table.value(*place),
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}
