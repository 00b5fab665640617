//! A LevelDB iterator behind a safe interface.
#![expect(unsafe_code, reason = "LevelDB is C++ with a C interface")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use terrace_bench::Result;

use super::database::{Database, checked, slice_of};
use super::ffi;

/// Entries in order.
pub struct Iterator<'a> {
    iterator: NonNull<ffi::Iterator>,
    database: PhantomData<&'a Database>,
}

impl Iterator<'_> {
    /// # Safety
    ///
    /// The iterator is alive, nobody else destroys it, and its database outlives the lifetime chosen.
    pub unsafe fn owning(iterator: NonNull<ffi::Iterator>) -> Self {
        Iterator {
            iterator,
            database: PhantomData,
        }
    }

    pub fn seek_to_first(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { ffi::leveldb_iter_seek_to_first(self.iterator.as_ptr()) }
    }

    pub fn seek_to_last(&mut self) {
        // SAFETY: the iterator is alive.
        unsafe { ffi::leveldb_iter_seek_to_last(self.iterator.as_ptr()) }
    }

    /// To the first key at or after this one.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator is alive; LevelDB copies the key.
        unsafe {
            ffi::leveldb_iter_seek(self.iterator.as_ptr(), key.as_ptr().cast(), key.len());
        }
    }

    /// To the last key at or before this one.
    pub fn seek_for_previous(&mut self, key: &[u8]) {
        self.seek(key);
        match self.item() {
            None => self.seek_to_last(),
            Some((found, _)) if found > key => self.previous(),
            Some(_) => {}
        }
    }

    pub fn next(&mut self) {
        if self.valid() {
            // SAFETY: the iterator is alive and stands at an entry, as LevelDB demands.
            unsafe { ffi::leveldb_iter_next(self.iterator.as_ptr()) }
        }
    }

    pub fn previous(&mut self) {
        if self.valid() {
            // SAFETY: the iterator is alive and stands at an entry, as LevelDB demands.
            unsafe { ffi::leveldb_iter_prev(self.iterator.as_ptr()) }
        }
    }

    /// The entry at which it stands.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        if !self.valid() {
            return None;
        }
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the iterator is alive and valid; both slices stay until it moves, which needs it
        // exclusively.
        unsafe {
            let key = ffi::leveldb_iter_key(self.iterator.as_ptr(), &mut key_bytes);
            let value = ffi::leveldb_iter_value(self.iterator.as_ptr(), &mut value_bytes);
            Some((slice_of(key, key_bytes), slice_of(value, value_bytes)))
        }
    }

    /// Whether it ended for want of entries, or by an error.
    pub fn status(&self) -> Result<()> {
        // SAFETY: the iterator is alive.
        checked(|error| unsafe {
            ffi::leveldb_iter_get_error(self.iterator.as_ptr(), error);
        })
    }

    fn valid(&self) -> bool {
        // SAFETY: the iterator is alive.
        unsafe { ffi::leveldb_iter_valid(self.iterator.as_ptr()) != 0 }
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { ffi::leveldb_iter_destroy(self.iterator.as_ptr()) }
    }
}
