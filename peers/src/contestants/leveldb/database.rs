//! A LevelDB database behind a safe interface.
#![expect(unsafe_code, reason = "LevelDB is C++ with a C interface")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use terrace_bench::Result;

use super::ffi;
use super::iterator::Iterator;

/// What a database is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    pub cache_bytes: usize,
    pub write_buffer_bytes: usize,
    pub block_bytes: usize,
    pub max_file_bytes: usize,
    pub max_open_files: c_int,
    pub filter_bits_per_key: c_int,
    pub snappy: bool,
    pub sync: bool,
}

/// An open database, closed on drop.
pub struct Database {
    db: NonNull<ffi::Db>,
    read: NonNull<ffi::ReadOptions>,
    write: NonNull<ffi::WriteOptions>,
    // LevelDB uses them until it is closed.
    _lent: Parts,
}

struct Parts {
    cache: NonNull<ffi::Cache>,
    filter: NonNull<ffi::FilterPolicy>,
}

// SAFETY: `leveldb/db.h` lets any threads use a database without synchronising; options are only read
// after they were set, and cache and filter policy are LevelDB's own, which it calls from any thread.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    /// Opens or makes the database in a directory.
    pub fn open(directory: &Path, configuration: &Configuration) -> Result<Self> {
        let name = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: constructors without preconditions; `new` of C++ does not return null.
        let (cache, filter, options) = unsafe {
            (
                made(ffi::leveldb_cache_create_lru(configuration.cache_bytes))?,
                made(ffi::leveldb_filterpolicy_create_bloom(
                    configuration.filter_bits_per_key,
                ))?,
                made(ffi::leveldb_options_create())?,
            )
        };
        let parts = Parts { cache, filter };
        // SAFETY: all pointers were made above and are alive; LevelDB copies the options as it opens.
        let opened = unsafe {
            configure(options, &parts, configuration);
            let opened = checked(|error| ffi::leveldb_open(options.as_ptr(), name.as_ptr(), error));
            ffi::leveldb_options_destroy(options.as_ptr());
            opened
        };
        let db = made(opened?)?;
        // SAFETY: constructors without preconditions, and a setter on what one of them made.
        let (read, write) = unsafe {
            let write = made(ffi::leveldb_writeoptions_create())?;
            ffi::leveldb_writeoptions_set_sync(write.as_ptr(), configuration.sync.into());
            (made(ffi::leveldb_readoptions_create())?, write)
        };
        Ok(Database {
            db,
            read,
            write,
            _lent: parts,
        })
    }

    /// LevelDB's version.
    pub fn version() -> String {
        // SAFETY: functions without preconditions.
        let (major, minor) =
            unsafe { (ffi::leveldb_major_version(), ffi::leveldb_minor_version()) };
        format!("{major}.{minor}")
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: the database is open; LevelDB copies key and value.
        checked(|error| unsafe {
            ffi::leveldb_put(
                self.db.as_ptr(),
                self.write.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                error,
            );
        })
    }

    pub fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: the database is open; LevelDB copies the key.
        checked(|error| unsafe {
            ffi::leveldb_delete(
                self.db.as_ptr(),
                self.write.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                error,
            );
        })
    }

    /// Shows the key's value to `read`; false if there is none.
    pub fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut bytes = 0;
        // SAFETY: the database is open, `bytes` is there to be written.
        let value = checked(|error| unsafe {
            ffi::leveldb_get(
                self.db.as_ptr(),
                self.read.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                &mut bytes,
                error,
            )
        })?;
        let Some(value) = Allocated::of(value) else {
            return Ok(false);
        };
        // SAFETY: LevelDB returned an array of that many bytes, which is freed after this use.
        read(unsafe { slice_of(value.0.as_ptr(), bytes) });
        Ok(true)
    }

    /// A property in words; `None` if LevelDB has none of that name.
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the database is open, the name ends with a zero.
        let value = unsafe { ffi::leveldb_property_value(self.db.as_ptr(), name.as_ptr()) };
        let value = Allocated::of(value)?;
        Some(value.text())
    }

    /// Merges whatever overlaps the range down to the last level that has such; the memtable is
    /// written out in any case.
    pub fn compact_range(&self, start: &[u8], limit: &[u8]) {
        // SAFETY: the database is open; LevelDB copies both keys.
        unsafe {
            ffi::leveldb_compact_range(
                self.db.as_ptr(),
                start.as_ptr().cast(),
                start.len(),
                limit.as_ptr().cast(),
                limit.len(),
            );
        }
    }

    /// An iterator that stands nowhere yet.
    pub fn iterator(&self) -> Result<Iterator<'_>> {
        // SAFETY: the database is open, and outlives the iterator by its lifetime; the iterator is
        // destroyed by its owner.
        let made = unsafe {
            let iterator = ffi::leveldb_create_iterator(self.db.as_ptr(), self.read.as_ptr());
            Iterator::owning(made(iterator)?)
        };
        Ok(made)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: made in `open`, destroyed once; iterators borrow the database, so none is left.
        // `_lent` is dropped after this.
        unsafe {
            ffi::leveldb_close(self.db.as_ptr());
            ffi::leveldb_readoptions_destroy(self.read.as_ptr());
            ffi::leveldb_writeoptions_destroy(self.write.as_ptr());
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: made in `Database::open`, destroyed once, after the database was closed.
        unsafe {
            ffi::leveldb_cache_destroy(self.cache.as_ptr());
            ffi::leveldb_filterpolicy_destroy(self.filter.as_ptr());
        }
    }
}

/// Memory that LevelDB allocated and its caller frees.
struct Allocated(NonNull<c_char>);

impl Allocated {
    /// For pointers that LevelDB's interface says are null or to be freed.
    fn of(pointer: *mut c_char) -> Option<Self> {
        NonNull::new(pointer).map(Allocated)
    }

    /// Of a value that ends with a zero: properties and errors do.
    fn text(&self) -> String {
        // SAFETY: LevelDB made it with `strdup`.
        let text = unsafe { CStr::from_ptr(self.0.as_ptr()) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated by LevelDB, freed once.
        unsafe { ffi::leveldb_free(self.0.as_ptr().cast()) }
    }
}

/// # Safety
///
/// All pointers are alive; `parts` outlives the database that is opened with the options.
unsafe fn configure(options: NonNull<ffi::Options>, parts: &Parts, told: &Configuration) {
    let options = options.as_ptr();
    let compression = if told.snappy {
        ffi::SNAPPY_COMPRESSION
    } else {
        ffi::NO_COMPRESSION
    };
    // SAFETY: as demanded of the caller.
    unsafe {
        ffi::leveldb_options_set_create_if_missing(options, 1);
        ffi::leveldb_options_set_cache(options, parts.cache.as_ptr());
        ffi::leveldb_options_set_filter_policy(options, parts.filter.as_ptr());
        ffi::leveldb_options_set_write_buffer_size(options, told.write_buffer_bytes);
        ffi::leveldb_options_set_block_size(options, told.block_bytes);
        ffi::leveldb_options_set_max_file_size(options, told.max_file_bytes);
        ffi::leveldb_options_set_max_open_files(options, told.max_open_files);
        ffi::leveldb_options_set_compression(options, compression);
    }
}

/// Calls with a place for an error, and takes it from there.
pub fn checked<R>(call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R> {
    let mut error = ptr::null_mut();
    let result = call(&mut error);
    match Allocated::of(error) {
        None => Ok(result),
        Some(error) => Err(format!("LevelDB: {}", error.text()).into()),
    }
}

fn made<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| "LevelDB returned no object".into())
}

/// # Safety
///
/// As of [`slice::from_raw_parts`], but an empty one may be null.
pub unsafe fn slice_of<'a>(start: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: as demanded of the caller.
    unsafe { slice::from_raw_parts(start.cast(), bytes) }
}
