//! Lies under good checksums: for tests and fuzzers only.
//!
//! A checksum proves that no accident damaged a block. An attacker who writes a file can write any
//! block and its checksum, so readers must hold out against contents that no writer makes.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use terrace_storage::{Access, CrashSwitch, Purpose, SimulatedStorage, Storage};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::compression::Compression;
use super::filter::{FilterForm, FilterKind};
use super::fuzz::open_bytes;
use super::properties::TableOptions;
use super::walk::BlockRole;
use super::writer::TableWriter;
use crate::Result;
use crate::key::{InternalKey, KeyspaceId, Kind, Tag};

const SEED: u64 = 0x5eed;
/// Bytes behind a block's contents: compression, length, checksum.
const LENGTH_BYTES: usize = 5;
const CHECKSUM_BYTES: usize = 8;

/// Roles and places of a table's blocks.
pub(crate) type Blocks = Vec<(BlockRole, Range<usize>)>;

pub(crate) fn blocks(table: &[u8]) -> Result<Blocks> {
    let mut blocks = Vec::new();
    open_bytes(table)?.inspect(&mut |block| {
        let start = block.offset as usize;
        blocks.push((block.role, start..start + block.stored_bytes as usize));
        Ok(())
    })?;
    Ok(blocks)
}

/// Changes the contents of a block that is not compressed, and makes its checksum good again.
pub(crate) fn forge(table: &mut [u8], place: Range<usize>, change: impl FnOnce(&mut [u8])) {
    let offset = place.start as u64;
    let Some((covered, checksum)) = table
        .get_mut(place)
        .and_then(|block| block.split_last_chunk_mut::<CHECKSUM_BYTES>())
    else {
        return;
    };
    let length = covered.len().saturating_sub(LENGTH_BYTES);
    change(covered.get_mut(..length).unwrap_or_default());
    *checksum = xxh3_64_with_seed(covered, offset).to_le_bytes();
}

/// Changes the contents of every block of a role, as `forge` does; the role by its name in dumps.
pub fn forge_blocks(table: &mut [u8], role: &str, mut change: impl FnMut(&mut [u8])) -> Result<()> {
    for (found, place) in blocks(table)? {
        if found.name() == role {
            forge(table, place, &mut change);
        }
    }
    Ok(())
}

/// Returns a valid table for fuzzers, and its blocks: two levels of index, several versions of some
/// keys, deleted ranges.
pub(super) fn specimen() -> Result<&'static (Vec<u8>, Blocks)> {
    static SPECIMEN: OnceLock<(Vec<u8>, Blocks)> = OnceLock::new();
    if let Some(specimen) = SPECIMEN.get() {
        return Ok(specimen);
    }
    let bytes = write_specimen()?;
    let blocks = blocks(&bytes)?;
    Ok(SPECIMEN.get_or_init(|| (bytes, blocks)))
}

fn write_specimen() -> Result<Vec<u8>> {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/t"))?;
    let directory = storage.directory(Path::new("/t"), Access::Owner)?;
    let options = TableOptions {
        block_bytes: 96,
        restart_interval: 3,
        compression: Compression::None,
        filter: FilterForm {
            kind: FilterKind::SplitBlock,
            bits_per_key: 10.0,
        },
        hash_seed: SEED,
        keyspace: KeyspaceId::DEFAULT,
        oldest_tombstone_seconds: None,
        identity: 1,
        age_hint: 1,
        direct: false,
        purpose: Purpose::Other,
    };
    let mut writer = TableWriter::create(directory.clone(), "1.table".to_owned(), options)?;
    for number in 0..40u64 {
        let user_key = format!("key-{:03}", number * 3);
        let versions = if number % 8 == 0 { 10 } else { 1 };
        for version in (1..=versions).rev() {
            let key = InternalKey {
                user_key: user_key.as_bytes(),
                tag: Tag::new(number + 40 * version, Kind::Put),
            };
            writer.add(key, user_key.as_bytes())?;
        }
    }
    for (start, end, sequence) in [("key-010", "key-031", 300), ("key-060", "key-080", 20)] {
        writer.add_range_tombstone(start.as_bytes(), end.as_bytes(), sequence)?;
    }
    let (_, file) = writer.finish_unsynced()?;
    let mut bytes = vec![0; file.length_bytes()? as usize];
    file.read_exact_at(&mut bytes, 0, Purpose::Other)?;
    Ok(bytes)
}
