//! Keys and values of a program's types, instead of bytes.

mod entries;
mod key;

use std::any::type_name;
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

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
///
/// A key is written so that bytewise order is the order of its type: see [`EncodeKey`]. Snapshots, several
/// keys at once and all else are in [`Typed::keyspace`], with keys and values as bytes.
///
/// # Changing a type
///
/// A value is written by [serde](https://serde.rs) in the form of
/// [postcard](https://postcard.jamesmunns.com/wire-format), which has no names of fields. An enum may get new
/// variants at its end. With any other change, a new field included, values that were written before are
/// [`Error::OtherType`], or are read as something else: nothing records the type. Attributes of serde that leave
/// fields out write values that cannot be read. Do not read bytes of strangers as a type that holds itself: each
/// level of it takes stack. Let an enum hold the
/// versions of a type that may change, `enum Stored { V1(Link), V2(LinkWithOwner) }`.
pub struct Typed<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl Keyspace {
    /// Returns the keyspace by the types of its keys and values. All of them are to be written by the same
    /// types. Bytes that a type cannot have are [`Error::OtherType`] when they are read.
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

    /// Returns whether a key has a value, without decoding it.
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
    /// As [`Keyspace::put`]. [`Error::InvalidArgument`] for a value that serde cannot write, such as a sequence
    /// without a length. The same for a key that is none of the type, such as three bytes for `[u8; 4]`.
    pub fn put<Q: EncodeKey + ?Sized>(&self, key: &Q, value: &V) -> Result<()>
    where
        K: Borrow<Q>,
    {
        self.keyspace
            .put(self.key_to_write(key)?, encoded_value(value)?)
    }

    /// Adds [`Typed::put`] to a batch, which may hold writes to several keyspaces.
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// use terrace::{WriteBatch, WriteOptions};
    ///
    /// let links = db.typed::<String, String>();
    /// let by_time = db.get_or_create_keyspace("by time", Default::default())?.typed::<(u64, String), ()>();
    /// let mut batch = WriteBatch::new();
    /// links.put_to(&mut batch, "abc", &"https://example.org".to_string())?;
    /// by_time.put_to(&mut batch, &(1_764_000_000, "abc".to_string()), &())?;
    /// db.write(batch, WriteOptions::default())?;
    /// let ((_, newest), ()) = by_time.last()?.unwrap();
    /// assert_eq!(newest, "abc");
    /// # Ok::<(), terrace::Error>(())
    /// ```
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
        batch.put_in(
            &self.keyspace,
            self.key_to_write(key)?,
            encoded_value(value)?,
        )
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

    /// Removes every key of a range, as [`Keyspace::delete_within`] does.
    ///
    /// # Errors
    /// As [`Keyspace::delete_within`].
    pub fn delete_within(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.keyspace.delete_within(encoded_range(&range))
    }

    /// Adds [`Typed::delete_within`] to a batch. The range has an end.
    ///
    /// # Errors
    /// As [`WriteBatch::delete_within_in`].
    pub fn delete_within_to(
        &self,
        batch: &mut WriteBatch,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        batch.delete_within_in(&self.keyspace, encoded_range(&range))
    }

    /// Sets a key to the result of `update` for its value, as if at one moment. `None` as the result deletes
    /// the key. `update` may be called several times. Returns the value before. Each call writes, even if
    /// nothing changes.
    ///
    /// # Errors
    /// As [`Keyspace::fetch_and_update`], [`Typed::get`] and [`Typed::put`].
    ///
    /// ```
    /// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
    /// let visits = db.typed::<String, u64>();
    /// visits.fetch_and_update("home", |count| Some(count.unwrap_or(0) + 1))?;
    /// let before = visits.fetch_and_update("home", |count| Some(count.unwrap_or(0) + 1))?;
    /// assert_eq!((before, visits.get("home")?), (Some(1), Some(2)));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn fetch_and_update<Q: EncodeKey + ?Sized>(
        &self,
        key: &Q,
        mut update: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>>
    where
        K: Borrow<Q>,
    {
        let key = encoded_key(key);
        loop {
            let found = self.keyspace.get(&key)?;
            let decode = || -> Result<Option<V>> {
                let bytes = found.as_deref();
                bytes
                    .map(|bytes| decoded_value(&self.keyspace, &key, bytes))
                    .transpose()
            };
            let new = update(decode()?).as_ref().map(encoded_value).transpose()?;
            let is_set = self
                .keyspace
                .compare_and_set(&key, found.as_deref(), new.as_deref())?;
            if is_set {
                return decode();
            }
        }
    }

    /// Returns the entry of the first key, `None` if there is none.
    ///
    /// # Errors
    /// As [`Typed::range`].
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.iter()?.next().transpose()
    }

    /// Returns the entry of the last key, `None` if there is none.
    ///
    /// # Errors
    /// As [`Typed::range`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.iter()?.next_back().transpose()
    }

    /// Returns the entries of a range of keys, from both ends. Its bounds are whole keys: `range((7, 0)..)`, or
    /// `range("a".to_string()..)` for texts.
    ///
    /// # Errors
    /// As [`Keyspace::range`]. Each entry may be [`Error::OtherType`].
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<TypedEntries<K, V>> {
        let entries = self.keyspace.range(encoded_range(&range))?;
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

impl<K: DecodeKey, V> Typed<K, V> {
    /// Encodes a key, and refuses one that would not be read back: a slice of three bytes borrows as
    /// `[u8; 4]` does.
    fn key_to_write<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Result<Vec<u8>> {
        let bytes = encoded_key(key);
        match K::decode_last(&bytes) {
            Some(_) => Ok(bytes),
            None => Err(Error::InvalidArgument(format!(
                "the key is no {}",
                type_name::<K>()
            ))),
        }
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

fn encoded_range<K: EncodeKey>(range: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let lower = range.start_bound().map(|key| encoded_key(key));
    let upper = range.end_bound().map(|key| encoded_key(key));
    (lower, upper)
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
