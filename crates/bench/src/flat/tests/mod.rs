//! Files on a device in memory: right after a power cut, and like real ones (`real_files`).

mod real_files;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use terrace::{Db, Durability, KeyspaceOptions, Options, WriteBatch, WriteOptions};
use terrace_storage::{ErrorKind, File, OpenMode, OpenOptions, Purpose, Storage};

use super::FlatStorage;
use super::blocks::{BLOCK_BYTES, Blocks};
use super::disk::CHUNK_BYTES;
use crate::draw::random;

const PURPOSE: Purpose = Purpose::Other;
const PATH: &str = "/flat";

/// A device that forgets unflushed blocks, and fails from a chosen step on.
#[derive(Debug, Default)]
struct Memory {
    durable: BTreeMap<u64, Vec<u8>>,
    written: BTreeMap<u64, Vec<u8>>,
    /// Writes and flushes from here on fail.
    steps_left: Option<u64>,
}

#[derive(Clone, Debug)]
struct MemoryBlocks {
    chunks: u64,
    memory: Arc<Mutex<Memory>>,
}

impl MemoryBlocks {
    fn new(chunks: u64) -> Self {
        MemoryBlocks {
            chunks,
            memory: Arc::default(),
        }
    }

    fn fail_after(&self, steps: u64) {
        self.memory.lock().unwrap().steps_left = Some(steps);
    }

    fn step(memory: &mut Memory) -> io::Result<()> {
        match &mut memory.steps_left {
            Some(0) => Err(io::Error::other("no power")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the device after a power cut: of the blocks that were not flushed each is new or old.
    fn power_cut(&self, seed: u64) -> Self {
        let memory = self.memory.lock().unwrap();
        let mut durable = memory.durable.clone();
        let mut random = random(seed, 0);
        for (block, bytes) in &memory.written {
            if crate::draw::uniform(&mut random, 2) == 0 {
                durable.insert(*block, bytes.clone());
            }
        }
        let memory = Memory {
            durable,
            ..Memory::default()
        };
        MemoryBlocks {
            chunks: self.chunks,
            memory: Arc::new(Mutex::new(memory)),
        }
    }
}

impl Blocks for MemoryBlocks {
    fn count(&self) -> u64 {
        self.chunks * CHUNK_BYTES / BLOCK_BYTES as u64
    }

    fn read(&self, first: u64, buffer: &mut [u8]) -> io::Result<()> {
        let memory = self.memory.lock().unwrap();
        for (block, part) in (first..).zip(buffer.chunks_exact_mut(BLOCK_BYTES)) {
            let found = memory.written.get(&block);
            // Blocks that were never written hold no zeros.
            match found.or_else(|| memory.durable.get(&block)) {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0xEE),
            }
        }
        Ok(())
    }

    fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.memory.lock().unwrap();
        for (block, part) in (first..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
            MemoryBlocks::step(&mut memory)?;
            memory.written.insert(block, part.to_vec());
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut memory = self.memory.lock().unwrap();
        MemoryBlocks::step(&mut memory)?;
        let written = std::mem::take(&mut memory.written);
        memory.durable.extend(written);
        Ok(())
    }
}

fn formatted(chunks: u64) -> (MemoryBlocks, FlatStorage) {
    let blocks = MemoryBlocks::new(chunks);
    let storage = FlatStorage::format(Arc::new(blocks.clone()), Path::new(PATH)).unwrap();
    (blocks, storage)
}

fn mounted(blocks: &MemoryBlocks) -> FlatStorage {
    FlatStorage::mount(Arc::new(blocks.clone()), Path::new(PATH)).unwrap()
}

fn open(storage: &FlatStorage, name: &str, mode: OpenMode) -> Arc<dyn File> {
    let path = Path::new(PATH).join(name);
    storage.open(&path, OpenOptions::buffered(mode)).unwrap()
}

fn contents(storage: &FlatStorage, name: &str) -> Vec<u8> {
    let file = open(storage, name, OpenMode::Read);
    let length = file.length_bytes().unwrap() as usize;
    file.read_vec_at(length, 0, PURPOSE).unwrap()
}

#[test]
fn what_was_synced_is_there_after_a_power_cut_and_the_length_is_that_of_the_sync() {
    let (blocks, storage) = formatted(16);
    let file = open(&storage, "log", OpenMode::CreateNew);
    file.append(&[1; 5000], PURPOSE).unwrap();
    file.sync(PURPOSE).unwrap();
    file.append(&[2; 9000], PURPOSE).unwrap();
    // Its table must not tell of bytes of the log that no sync covers.
    let other = open(&storage, "other", OpenMode::CreateNew);
    other.append(&[3; 10], PURPOSE).unwrap();
    other.sync(PURPOSE).unwrap();
    for seed in 0..20 {
        let storage = mounted(&blocks.power_cut(seed));
        assert_eq!(contents(&storage, "log"), [1; 5000]);
        assert_eq!(contents(&storage, "other"), [3; 10]);
    }
}

#[test]
fn chunks_of_a_removed_file_are_not_written_before_the_removal_is_durable() {
    let (blocks, storage) = formatted(6);
    let directory = storage
        .directory(Path::new(PATH), Default::default())
        .unwrap();
    let old = open(&storage, "old", OpenMode::CreateNew);
    old.append(&vec![1; 2 * CHUNK_BYTES as usize], PURPOSE)
        .unwrap();
    old.sync(PURPOSE).unwrap();
    directory.sync().unwrap();
    drop(old);
    directory.remove("old").unwrap();
    let new = open(&storage, "new", OpenMode::CreateNew);
    new.append(&vec![2; 2 * CHUNK_BYTES as usize], PURPOSE)
        .unwrap();
    let after = mounted(&blocks.power_cut(3));
    assert!(contents(&after, "old").iter().all(|byte| *byte == 1));
    // The free chunks do not suffice: the removal is made durable, and its chunks are taken.
    new.append(&vec![3; CHUNK_BYTES as usize], PURPOSE).unwrap();
    let error = new
        .append(&vec![4; 2 * CHUNK_BYTES as usize], PURPOSE)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
}

#[test]
fn nothing_is_synced_after_a_flush_has_failed() {
    let (blocks, storage) = formatted(16);
    let file = open(&storage, "a", OpenMode::CreateNew);
    file.append(b"a", PURPOSE).unwrap();
    blocks.fail_after(0);
    assert!(file.sync(PURPOSE).is_err());
    blocks.memory.lock().unwrap().steps_left = None;
    assert!(file.sync(PURPOSE).is_err());
    // Nor is a name, though the table that failed had it.
    let directory = storage.directory(Path::new(PATH), Default::default());
    assert!(directory.unwrap().sync().is_err());
}

#[test]
fn a_store_on_blocks_has_what_it_acknowledged_when_the_power_goes_at_any_step() {
    let mut cut_short = 0;
    for seed in 0..60_u64 {
        let (blocks, storage) = formatted(64);
        blocks.fail_after(300 + seed * 97);
        let acknowledged = fill_until_it_fails(storage);
        cut_short += u32::from((1..4000).contains(&acknowledged));
        let storage = mounted(&blocks.power_cut(seed));
        let db = Db::open(PATH, options(storage)).unwrap();
        for number in 0..acknowledged {
            let value = db.get(number.to_be_bytes()).unwrap();
            let value = value.unwrap_or_else(|| panic!("{number} of {acknowledged}, seed {seed}"));
            assert!(value.iter().all(|byte| *byte == number as u8) && value.len() == 3000);
        }
        db.close().unwrap();
    }
    assert!(cut_short > 30, "{cut_short} of 60 were cut short");
}

/// Returns how many puts the store acknowledged, each synced.
fn fill_until_it_fails(storage: FlatStorage) -> u32 {
    let Ok(db) = Db::open(PATH, options(storage)) else {
        return 0;
    };
    for number in 0..4000_u32 {
        let mut batch = WriteBatch::new();
        batch
            .put(number.to_be_bytes(), [number as u8; 3000])
            .unwrap();
        if db.write(batch, WriteOptions::with_sync(true)).is_err() {
            return number;
        }
    }
    4000
}

fn options(storage: FlatStorage) -> Options {
    Options {
        durability: Some(Durability::PowerSafe),
        storage: Arc::new(storage),
        direct_io: true,
        arena_bytes: 1 << 20,
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 20,
            level1_bytes: 4 << 20,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}
