//! A value that was read, without a copy where that pays.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use terrace_lsm::block_value::TableValue;

use crate::write_buffer::memtable::{MemTable, ValuePlace};

/// The value of a key. Dereferences to its bytes, and is compared and hashed as they are.
///
/// A value from a table pins its block. A large one from a recent write pins the memory it was
/// written to, until it and its clones are dropped. A `Vec` made of it pins nothing.
///
/// ```
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// db.put("lisbon", "Portugal")?;
/// let value = db.get("lisbon")?.unwrap();
/// assert_eq!(value, "Portugal");
/// let text = String::from_utf8(value.into()).unwrap();
/// assert_eq!(text, "Portugal");
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Value(Source);

#[derive(Clone)]
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

impl std::borrow::Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        self
    }
}

/// Implements comparisons with types that hold bytes, in both directions.
macro_rules! compared_with {
    ($({$($generic:tt)*} $other:ty;)*) => {$(
        impl<$($generic)*> PartialEq<$other> for Value {
            fn eq(&self, other: &$other) -> bool {
                let other: &[u8] = other.as_ref();
                **self == *other
            }
        }

        impl<$($generic)*> PartialEq<Value> for $other {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

compared_with!(
    {} [u8];
    {} &[u8];
    {const N: usize} [u8; N];
    {const N: usize} &[u8; N];
    {} Vec<u8>;
    {} str;
    {} &str;
    {} String;
);

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        match value.0 {
            Source::Copied(bytes) => bytes.into(),
            _ => value.to_vec(),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;
    use crate::{Db, Options};

    /// Returns the same bytes from an arena and from a table, beside a copy.
    fn of_all_sources(bytes: &[u8]) -> [Value; 3] {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        db.put("key", bytes).unwrap();
        let in_arena = db.get("key").unwrap().unwrap();
        db.flush().unwrap();
        let in_block = db.get("key").unwrap().unwrap();
        [Value::copied(bytes), in_arena, in_block]
    }

    #[test]
    fn values_are_their_bytes_wherever_they_lie() {
        let bytes = vec![b'v'; 10_000];
        let text = String::from_utf8(bytes.clone()).unwrap();
        let values = of_all_sources(&bytes);
        let [copied, in_arena, in_block] = &values;
        assert!(matches!(in_arena.0, Source::Arena { .. }));
        assert!(matches!(in_block.0, Source::Block(_)));
        assert_eq!(copied, in_arena);
        assert_eq!(in_arena, in_block);
        for value in &values {
            assert_eq!(*value, bytes);
            assert_eq!(*value, bytes[..]);
            assert_eq!(*value, text);
            assert_eq!(text.as_str(), *value);
            assert!(*value > Value::copied(b"a") && *value < Value::copied(b"w"));
            assert_ne!(*value, [b'v'; 3]);
        }
        assert_eq!(values.iter().collect::<HashSet<_>>().len(), 1);
        assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), 1);
        assert!(HashSet::from([in_block.clone()]).contains(&bytes[..]));
        for value in values {
            assert_eq!(Vec::from(value.clone()), Vec::from(value));
        }
    }
}
