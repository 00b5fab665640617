//! Entries in order, decoded.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use super::{DecodeKey, decoded_value, other_type};
use crate::{Entries, Keyspace, Result};

/// The entries of a range of a [`Typed`](super::Typed) keyspace, from both ends, as [`Entries`] gives them.
/// An entry of another type is an error, and the end of them.
pub struct TypedEntries<K, V> {
    keyspace: Keyspace,
    entries: Entries,
    is_over: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: DecodeKey, V: DeserializeOwned> TypedEntries<K, V> {
    pub(super) fn of(keyspace: Keyspace, entries: Entries) -> Self {
        TypedEntries {
            keyspace,
            entries,
            is_over: false,
            types: PhantomData,
        }
    }

    fn decoded(&mut self, entry: Option<Result<(Vec<u8>, Vec<u8>)>>) -> Option<Result<(K, V)>> {
        if self.is_over {
            return None;
        }
        let decode = |(key, value): (Vec<u8>, Vec<u8>)| {
            let typed_key = K::decode_last(&key);
            let typed_key =
                typed_key.ok_or_else(|| other_type::<K>(&self.keyspace, &key, "key"))?;
            let value = decoded_value(&self.keyspace, &key, &value)?;
            Ok((typed_key, value))
        };
        let decoded = entry.map(|entry| entry.and_then(decode));
        self.is_over = !matches!(decoded, Some(Ok(_)));
        decoded
    }
}

impl<K: DecodeKey, V: DeserializeOwned> Iterator for TypedEntries<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next();
        self.decoded(entry)
    }
}

impl<K: DecodeKey, V: DeserializeOwned> DoubleEndedIterator for TypedEntries<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back();
        self.decoded(entry)
    }
}

impl<K, V> fmt::Debug for TypedEntries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedEntries").finish_non_exhaustive()
    }
}
