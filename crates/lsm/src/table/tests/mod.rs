mod bombs;
mod caching;
mod damage;
mod golden;
mod memory;
mod model;
mod place;
mod ranges;
mod resident;
mod writing;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{
    Access, CountingStorage, Directory, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage,
};

use self::memory::{Files, memory};
use super::*;
use crate::key::{InternalKey, KeyspaceId, Kind, Tag};
use crate::table::properties::TableProperties;

const PATH: &str = "/t/7.table";
const SEED: u64 = 0x5eed;
const IDENTITY: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

/// A version as tests hold it.
type Version = (Vec<u8>, Tag, Vec<u8>);

fn options(compression: Compression, block_bytes: usize) -> TableOptions {
    TableOptions {
        block_bytes,
        restart_interval: 16,
        compression,
        filter: FilterForm {
            kind: FilterKind::SplitBlock,
            bits_per_key: 10.0,
        },
        hash_seed: SEED,
        identity: IDENTITY,
        keyspace: KeyspaceId::DEFAULT,
        oldest_tombstone_seconds: None,
        age_hint: 3,
        direct: false,
        purpose: Purpose::Flush,
    }
}

fn version(key: &[u8], sequence: u64, kind: Kind, value: &[u8]) -> Version {
    (key.to_vec(), Tag::new(sequence, kind), value.to_vec())
}

fn internal(version: &Version) -> InternalKey<'_> {
    InternalKey {
        user_key: &version.0,
        tag: version.1,
    }
}

fn directory_at(storage: &dyn Storage, path: &str) -> Arc<dyn Directory> {
    storage.directory(Path::new(path), Access::Owner).unwrap()
}

fn create_at(
    storage: &dyn Storage,
    path: &str,
    options: TableOptions,
) -> crate::Result<TableWriter> {
    let (directory, name) = storage.parent(Path::new(path))?;
    TableWriter::create(directory, name.to_owned(), options)
}

fn open_at(
    storage: &dyn Storage,
    path: &str,
    number: u64,
    cache: Arc<BlockCache>,
) -> crate::Result<Arc<TableReader>> {
    let (directory, name) = storage.parent(Path::new(path))?;
    TableReader::open(&*directory, name, number, cache)
}

fn write(storage: &dyn Storage, versions: &[Version], options: TableOptions) -> TableProperties {
    let mut writer = create_at(storage, PATH, options).unwrap();
    for version in versions {
        writer.add(internal(version), &version.2).unwrap();
    }
    writer.finish().unwrap()
}

fn open(storage: &dyn Storage) -> crate::Result<Arc<TableReader>> {
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    open_at(storage, PATH, 7, cache)
}

fn get(table: &TableReader, key: &[u8], snapshot: u64) -> crate::Result<Option<(Tag, Vec<u8>)>> {
    let hash = key_hash(key, SEED);
    let found = table.get(key, hash, snapshot, CursorOptions::user_read())?;
    Ok(found.map(|(tag, value)| (tag, value.to_vec())))
}
