//! LevelDB's C interface, `leveldb/c.h`: of it what [`Database`](super::database::Database) needs.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;

/// A type that only LevelDB knows: used behind pointers, shared between threads only where the
/// wrapper says so.
macro_rules! opaque {
    ($($name:ident),+ $(,)?) => {
        $(
            #[repr(C)]
            pub struct $name {
                bytes: [u8; 0],
                neither_sync_nor_unpin: PhantomData<(*mut u8, std::marker::PhantomPinned)>,
            }
        )+
    };
}

opaque!(
    Db,
    Cache,
    FilterPolicy,
    Iterator,
    Options,
    ReadOptions,
    WriteOptions
);

pub const NO_COMPRESSION: c_int = 0;
pub const SNAPPY_COMPRESSION: c_int = 1;

#[expect(unsafe_code, reason = "LevelDB is C++ with a C interface")]
unsafe extern "C" {
    pub fn leveldb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub fn leveldb_close(db: *mut Db);
    pub fn leveldb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    pub fn leveldb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    );
    pub fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    pub fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    pub fn leveldb_compact_range(
        db: *mut Db,
        start: *const c_char,
        start_bytes: usize,
        limit: *const c_char,
        limit_bytes: usize,
    );

    pub fn leveldb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
    pub fn leveldb_iter_destroy(iterator: *mut Iterator);
    pub fn leveldb_iter_valid(iterator: *const Iterator) -> u8;
    pub fn leveldb_iter_seek_to_first(iterator: *mut Iterator);
    pub fn leveldb_iter_seek_to_last(iterator: *mut Iterator);
    pub fn leveldb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_bytes: usize);
    pub fn leveldb_iter_next(iterator: *mut Iterator);
    pub fn leveldb_iter_prev(iterator: *mut Iterator);
    pub fn leveldb_iter_key(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
    pub fn leveldb_iter_value(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
    pub fn leveldb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub fn leveldb_options_create() -> *mut Options;
    pub fn leveldb_options_destroy(options: *mut Options);
    pub fn leveldb_options_set_filter_policy(options: *mut Options, policy: *mut FilterPolicy);
    pub fn leveldb_options_set_create_if_missing(options: *mut Options, create: u8);
    pub fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
    pub fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    pub fn leveldb_options_set_block_size(options: *mut Options, bytes: usize);
    pub fn leveldb_options_set_max_file_size(options: *mut Options, bytes: usize);
    pub fn leveldb_options_set_compression(options: *mut Options, compression: c_int);

    pub fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    pub fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
    pub fn leveldb_readoptions_create() -> *mut ReadOptions;
    pub fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    pub fn leveldb_writeoptions_create() -> *mut WriteOptions;
    pub fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    pub fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, sync: u8);
    pub fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub fn leveldb_cache_destroy(cache: *mut Cache);

    pub fn leveldb_free(pointer: *mut std::ffi::c_void);
    pub fn leveldb_major_version() -> c_int;
    pub fn leveldb_minor_version() -> c_int;
}
