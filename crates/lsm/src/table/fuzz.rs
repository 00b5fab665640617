//! Entry points for fuzzers: hostile bytes in, nothing out; a panic is the finding.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_storage::{self as storage, File, Lock, LockKind, Operation, Purpose};

use super::block::{Block, BlockCursor};
use super::cache::BlockCache;
use super::cursor::TableCursor;
use super::filter::{Filter, FilterKind, key_hash};
use super::forging::{forge, specimen};
use super::range_block::{self, RangeSummary};
use super::reader::{CursorOptions, TableReader};
use super::salvage::forgive_damage;
use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, MAX_SEQUENCE, Tag};

/// Reads `bytes` as the contents of a block, behind its checksum. It walks and searches the block,
/// and takes it for one of range tombstones, and for the footer's summary of these.
pub fn fuzz_block(bytes: &[u8]) {
    let _ = RangeSummary::decode(bytes);
    for kind in [FilterKind::SplitBlock, FilterKind::Fuse] {
        let _ = Filter::new(kind, bytes.to_vec()).map(|filter| filter.may_contain(1));
    }
    let Ok(block) = Block::new(bytes.to_vec()) else {
        return;
    };
    let _ = block.check_restarts();
    if let Ok(ranges) = range_block::decode_any(&block, 0..=MAX_SEQUENCE) {
        let _ = ranges.newest_covering(bytes, MAX_SEQUENCE);
        let _ = ranges.segment_of(bytes);
    }
    let target = InternalKey::seek(bytes, MAX_SEQUENCE);
    let _ = block.find(target);
    let mut cursor = BlockCursor::new(Arc::new(block));
    let mut forward = cursor.seek_to_first();
    while forward.is_ok() && cursor.valid() {
        forward = cursor.next();
    }
    // A step back decodes from a restart point on: a bound keeps hostile blocks from taking
    // quadratic time.
    let mut backward = cursor.seek_to_last();
    for _ in 0..1000 {
        if backward.is_err() || !cursor.valid() {
            break;
        }
        backward = cursor.prev();
    }
    let _ = cursor.seek(target);
}

/// Opens `bytes` as a table, verifies it, and reads its keys forwards and one by one. Bytes that
/// open as a damaged table are salvaged: entries come in order, and from nowhere but the file.
pub fn fuzz_table(bytes: &[u8]) {
    let file = Arc::new(BytesFile(bytes.to_vec()));
    let path = PathBuf::from("fuzz.table");
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    let cached = Arc::clone(&cache);
    let opened = TableReader::assemble(file.clone(), path.clone(), 1, cached, None, forgive_damage);
    if let Ok(damaged) = opened {
        let mut last = Vec::new();
        let _ = damaged.salvage(|key, _| {
            assert!(InternalKey::decode(&last).is_none_or(|last| last < key));
            last.clear();
            key.encode_into(&mut last);
            Ok(())
        });
    }
    let Ok(table) = TableReader::from_file(file, path, 1, cache, None, None) else {
        return;
    };
    let _ = table.verify();
    let _ = table.inspect(&mut |_| Ok(()));
    let _ = table.sketches(Purpose::Read);
    let mut cursor = table.cursor(CursorOptions::user_read());
    let mut step = cursor.seek_to_first();
    for _ in 0..1000 {
        if step.is_err() || !cursor.valid() {
            break;
        }
        let key = cursor.key().user_key;
        let hash = key_hash(key, table.properties().hash_seed);
        let _ = table.get(key, hash, MAX_SEQUENCE, CursorOptions::user_read());
        let ranges = table.range_tombstones();
        let _ = ranges.map(|ranges| ranges.newest_covering(key, MAX_SEQUENCE).is_some());
        step = cursor.next();
    }
    let _ = cursor.seek_to_last().and_then(|()| cursor.prev());
}

/// Changes a valid table as `changes` say, under good checksums, and walks it every way. Four bytes
/// are a change: a block, two bytes of a position in its contents, the new byte there. A walk that
/// takes more steps than the file has bytes, or goes the wrong way, is a finding.
pub fn fuzz_forged(changes: &[u8]) {
    let Ok((sound, blocks)) = specimen() else {
        return;
    };
    let mut table = sound.clone();
    for &[block, low, high, byte] in changes.as_chunks::<4>().0 {
        let position = usize::from(u16::from_le_bytes([low, high]));
        let Some((_, place)) = blocks.get(usize::from(block) % blocks.len().max(1)) else {
            return;
        };
        forge(&mut table, place.clone(), |contents| {
            let position = position % contents.len().max(1);
            if let Some(place) = contents.get_mut(position) {
                *place = byte;
            }
        });
    }
    fuzz_table(&table);
    walk_every_way(&table);
}

/// Walks a table forwards, backwards and from seeks.
fn walk_every_way(bytes: &[u8]) {
    let Ok(table) = open_bytes(bytes) else {
        return;
    };
    let options = CursorOptions::user_read();
    let mut cursor = table.cursor(options);
    let mut step = cursor.seek_to_first();
    let mut keys = Vec::new();
    while step.is_ok() && cursor.valid() {
        keys.push(owned(&cursor));
        assert!(keys.len() <= bytes.len(), "the walk forwards does not end");
        step = cursor.next();
    }
    assert!(keys.is_sorted_by(before), "keys do not ascend");
    let mut backwards = Vec::new();
    let mut step = cursor.seek_to_last();
    while step.is_ok() && cursor.valid() {
        backwards.push(owned(&cursor));
        assert!(backwards.len() <= bytes.len(), "the walk back does not end");
        step = cursor.prev();
    }
    assert!(
        backwards.is_sorted_by(|a, b| before(b, a)),
        "keys do not descend"
    );
    keys.extend(backwards);
    for key in &keys {
        let snapshots = [0, key.1.sequence(), MAX_SEQUENCE];
        for target in snapshots.map(|snapshot| InternalKey::seek(&key.0, snapshot)) {
            if cursor.seek(target).is_err() || !cursor.valid() {
                continue;
            }
            assert!(cursor.key() >= target, "a seek ends before its target");
            if cursor.prev().is_ok() && cursor.valid() {
                assert!(
                    cursor.key() < target,
                    "one back from a seek is not before its target"
                );
            }
        }
    }
}

type Owned = (Vec<u8>, Tag);

fn owned(cursor: &TableCursor) -> Owned {
    (cursor.key().user_key.to_vec(), cursor.key().tag)
}

fn before(a: &Owned, b: &Owned) -> bool {
    let key = |owned: &'_ Owned| (owned.0.clone(), std::cmp::Reverse(owned.1));
    key(a) < key(b)
}

/// Opens a table that is these bytes.
pub(super) fn open_bytes(bytes: &[u8]) -> Result<Arc<TableReader>> {
    let file = Arc::new(BytesFile(bytes.to_vec()));
    let cache = Arc::new(BlockCache::new(1 << 20, false));
    TableReader::from_file(file, PathBuf::from("fuzz.table"), 1, cache, None, None)
}

/// A file of these bytes.
#[derive(Debug)]
struct BytesFile(Vec<u8>);

impl BytesFile {
    fn refuse<T>(&self, operation: Operation, kind: io::ErrorKind) -> storage::Result<T> {
        let path = Path::new("fuzz.table");
        Err(storage::Error::new(operation, path, kind.into()))
    }
}

impl File for BytesFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _: Purpose) -> storage::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let count = buffer.iter_mut().zip(rest).map(|(to, from)| *to = *from);
        Ok(count.count())
    }

    fn read_exact_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        purpose: Purpose,
    ) -> storage::Result<()> {
        let length = buffer.len();
        if self.read_at(buffer, offset, purpose)? == length {
            return Ok(());
        }
        self.refuse(Operation::Read, io::ErrorKind::UnexpectedEof)
    }

    fn length_bytes(&self) -> storage::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn links(&self) -> storage::Result<u64> {
        Ok(1)
    }

    fn lock(&self, _: LockKind) -> storage::Result<Box<dyn Lock>> {
        self.refuse(Operation::Lock, io::ErrorKind::Unsupported)
    }

    fn write_at(&self, _: &[u8], _: u64, _: Purpose) -> storage::Result<()> {
        self.refuse(Operation::Write, io::ErrorKind::ReadOnlyFilesystem)
    }

    fn append(&self, _: &[u8], _: Purpose) -> storage::Result<u64> {
        self.refuse(Operation::Write, io::ErrorKind::ReadOnlyFilesystem)
    }

    fn allocate(&self, _: u64) -> storage::Result<()> {
        self.refuse(Operation::Allocate, io::ErrorKind::ReadOnlyFilesystem)
    }

    fn truncate(&self, _: u64) -> storage::Result<()> {
        self.refuse(Operation::Truncate, io::ErrorKind::ReadOnlyFilesystem)
    }

    fn sync(&self, _: Purpose) -> storage::Result<()> {
        Ok(())
    }
}
