//! Keys and values of a program's types, instead of bytes.
//!
//! A key is encoded so that bytewise order is the order of its type ([`EncodeKey`]). A value is encoded by
//! [serde](https://serde.rs) in the form of [postcard](https://postcard.jamesmunns.com), which has no names of
//! fields: a type may get new variants of an enum at its end, and nothing else may change.

mod entries;
mod key;

use std::any::type_name;
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::entries::TypedEntries;
pub use self::key::{DecodeKey, EncodeKey};
use crate::{Error, Keyspace, Result, WriteBatch};

/// A keyspace by the types of its keys and values. Cheap to clone and to share, as a [`Keyspace`] is.
///
/// ```
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct City {
///     country: String,
///     people: u64,
/// }
///
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// let cities = db.typed::<String, City>();
/// cities.put("lisbon", &City { country: "Portugal".into(), people: 567_131 })?;
/// assert_eq!(cities.get("lisbon")?.unwrap().people, 567_131);
///
/// // Numbers are in the order of numbers, and tuples in that of their parts.
/// let visits = db.get_or_create_keyspace("visits", Default::default())?.typed::<(u32, i64), String>();
/// for (user, time, page) in [(7, -1, "home"), (7, 30, "prices"), (12, 2, "home")] {
///     visits.put(&(user, time), &page.to_string())?;
/// }
/// let of_seven = visits.range((7, i64::MIN)..=(7, i64::MAX))?;
/// let pages: Result<Vec<String>, terrace::Error> = of_seven.map(|visit| Ok(visit?.1)).collect();
/// assert_eq!(pages?, ["home", "prices"]);
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Typed<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl Keyspace {
    /// Returns the keyspace by the types of its keys and values. All of its keys are to be written by the same
    /// types: another one's is [`Error::OtherType`] when it is read.
    pub fn typed<K: DecodeKey, V: Serialize + DeserializeOwned>(&self) -> Typed<K, V> {
        Typed {
            keyspace: self.clone(),
            types: PhantomData,
        }
    }
}

impl<K: DecodeKey, V: Serialize + DeserializeOwned> Typed<K, V> {
    /// Returns the keyspace, with its keys and values as bytes.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the value of a key, `None` if there is none.
    ///
    /// # Errors
    /// As [`Keyspace::get`], and [`Error::OtherType`].
    pub fn get<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let key = encoded_key(key);
        let found = self.keyspace.get(&key)?;
        found
            .map(|bytes| decoded_value(&self.keyspace, &key, &bytes))
            .transpose()
    }

    /// Returns whether a key has a value, without reading it.
    ///
    /// # Errors
    /// As [`Keyspace::contains_key`].
    pub fn contains_key<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
    {
        self.keyspace.contains_key(encoded_key(key))
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::InvalidArgument`] for a value that serde cannot write, such as a sequence
    /// without a length.
    pub fn put<Q: EncodeKey + ?Sized>(&self, key: &Q, value: &V) -> Result<()>
    where
        K: Borrow<Q>,
    {
        self.keyspace.put(encoded_key(key), encoded_value(value)?)
    }

    /// Adds [`Typed::put`] to a batch.
    ///
    /// # Errors
    /// As [`WriteBatch::put_in`] and [`Typed::put`].
    pub fn put_to<Q: EncodeKey + ?Sized>(
        &self,
        batch: &mut WriteBatch,
        key: &Q,
        value: &V,
    ) -> Result<()>
    where
        K: Borrow<Q>,
    {
        batch.put_in(&self.keyspace, encoded_key(key), encoded_value(value)?)
    }

    /// Removes a key, whether it has a value or not.
    ///
    /// # Errors
    /// As [`Keyspace::delete`].
    pub fn delete<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Result<()>
    where
        K: Borrow<Q>,
    {
        self.keyspace.delete(encoded_key(key))
    }

    /// Adds [`Typed::delete`] to a batch.
    ///
    /// # Errors
    /// As [`WriteBatch::delete_in`].
    pub fn delete_to<Q: EncodeKey + ?Sized>(&self, batch: &mut WriteBatch, key: &Q) -> Result<()>
    where
        K: Borrow<Q>,
    {
        batch.delete_in(&self.keyspace, encoded_key(key))
    }

    /// Sets a key to the result of `update` for its value, as if at one moment; `None` stands for no value.
    /// `update` may be called several times.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_set`], [`Typed::get`] and [`Typed::put`].
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let visits = db.typed::<String, u64>();
    /// visits.update("home", |count| Some(count.unwrap_or(0) + 1))?;
    /// visits.update("home", |count| Some(count.unwrap_or(0) + 1))?;
    /// assert_eq!(visits.get("home")?, Some(2));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn update<Q: EncodeKey + ?Sized>(
        &self,
        key: &Q,
        mut update: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<()>
    where
        K: Borrow<Q>,
    {
        let key = encoded_key(key);
        loop {
            let found = self.keyspace.get(&key)?;
            let decode = |bytes| decoded_value(&self.keyspace, &key, bytes);
            let value = found.as_deref().map(decode).transpose()?;
            let new = update(value).as_ref().map(encoded_value).transpose()?;
            let is_set = self
                .keyspace
                .compare_and_set(&key, found.as_deref(), new.as_deref())?;
            if is_set {
                return Ok(());
            }
        }
    }

    /// Returns the entries of a range of keys, from both ends.
    ///
    /// # Errors
    /// As [`Keyspace::range`]. Each entry may be [`Error::OtherType`].
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<TypedEntries<K, V>> {
        let lower = range.start_bound().map(|key| encoded_key(key));
        let upper = range.end_bound().map(|key| encoded_key(key));
        let entries = self.keyspace.range((lower, upper))?;
        Ok(TypedEntries::of(self.keyspace.clone(), entries))
    }

    /// Returns all entries, as [`Typed::range`] does.
    ///
    /// # Errors
    /// As [`Typed::range`].
    pub fn iter(&self) -> Result<TypedEntries<K, V>> {
        self.range(..)
    }
}

impl<K, V> Clone for Typed<K, V> {
    fn clone(&self) -> Self {
        Typed {
            keyspace: self.keyspace.clone(),
            types: PhantomData,
        }
    }
}

impl<K, V> fmt::Debug for Typed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("keyspace", &self.keyspace.name())
            .field("key", &type_name::<K>())
            .field("value", &type_name::<V>())
            .finish()
    }
}

fn encoded_key(key: &(impl EncodeKey + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_last(&mut bytes);
    bytes
}

fn encoded_value(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_allocvec(value)
        .map_err(|error| Error::InvalidArgument(format!("the value cannot be written: {error}")))
}

fn decoded_value<V: DeserializeOwned>(keyspace: &Keyspace, key: &[u8], bytes: &[u8]) -> Result<V> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(other_type::<V>(keyspace, key, "value")),
    }
}

fn other_type<T>(keyspace: &Keyspace, key: &[u8], part: &'static str) -> Error {
    Error::OtherType {
        keyspace: keyspace.name(),
        key: key.to_vec(),
        part,
        expected: type_name::<T>(),
    }
}
