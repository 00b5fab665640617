//! Files on a device in memory: like real ones, and right after a power cut.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::sample::select;
use terrace::{Db, Durability, Options, WriteBatch, WriteOptions};
use terrace_storage::{
    ErrorKind, File, LockKind, OpenMode, OpenOptions, Purpose, RealStorage, Result, Storage,
};

use super::FlatStorage;
use super::blocks::{BLOCK_BYTES, Blocks};
use super::disk::CHUNK_BYTES;
use crate::draw::random;

const PURPOSE: Purpose = Purpose::Other;
const PATH: &str = "/flat";

/// A device that forgets what was not flushed, and fails once it has been told to.
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
            // What was never written is anything but zeros.
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

#[derive(Clone, Debug)]
enum Step {
    Open(usize, &'static str, OpenMode),
    Close(usize),
    Read(usize, u64, usize),
    ReadExact(usize, u64, usize),
    Write(usize, u64, usize, u8),
    Append(usize, usize, u8),
    Allocate(usize, u64),
    Truncate(usize, u64),
    Sync(usize),
    Links(usize),
    SyncDirectory,
    Rename(&'static str, &'static str),
    RenameNew(&'static str, &'static str),
    Link(&'static str, &'static str),
    Remove(&'static str),
    List,
    Lock(&'static str, LockKind),
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Entries(Vec<(String, u64, bool)>),
    Failed(ErrorKind),
}

/// A storage with the handles of a random program.
struct Player<'a> {
    storage: &'a dyn Storage,
    root: &'a Path,
    files: [Option<Arc<dyn File>>; 4],
    lock: Option<Box<dyn terrace_storage::Lock>>,
}

impl Player<'_> {
    fn play(&mut self, step: &Step) -> Outcome {
        let played = self.try_play(step);
        played.unwrap_or_else(|error| Outcome::Failed(error.kind()))
    }

    fn try_play(&mut self, step: &Step) -> Result<Outcome> {
        let directory = self.storage.directory(self.root, Default::default())?;
        match *step {
            Step::Open(handle, name, mode) => {
                self.files[handle] = None;
                self.files[handle] = Some(directory.open(name, OpenOptions::buffered(mode))?);
            }
            Step::Close(handle) => self.files[handle] = None,
            Step::SyncDirectory => directory.sync()?,
            Step::Rename(from, to) => directory.rename(from, to)?,
            Step::RenameNew(from, to) => directory.rename_new(from, to)?,
            Step::Link(from, to) => directory.link(from, &*directory, to)?,
            Step::Remove(name) => directory.remove(name)?,
            Step::Lock(name, kind) => {
                self.lock = None;
                self.lock = Some(directory.lock(name, kind)?);
            }
            Step::List => {
                let entries = directory.list()?.into_iter();
                let entries = entries.map(|one| (one.name, one.length_bytes, one.is_directory));
                return Ok(Outcome::Entries(entries.collect()));
            }
            Step::Read(handle, ..)
            | Step::ReadExact(handle, ..)
            | Step::Write(handle, ..)
            | Step::Append(handle, ..)
            | Step::Allocate(handle, _)
            | Step::Truncate(handle, _)
            | Step::Links(handle)
            | Step::Sync(handle) => {
                if let Some(file) = &self.files[handle] {
                    return play_on_file(&**file, step);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

fn play_on_file(file: &dyn File, step: &Step) -> Result<Outcome> {
    match *step {
        Step::Read(_, offset, length) => {
            let mut bytes = vec![0; length];
            let count = file.read_at(&mut bytes, offset, PURPOSE)?;
            bytes.truncate(count);
            Ok(Outcome::Bytes(bytes))
        }
        Step::ReadExact(_, offset, length) => {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset, PURPOSE)?;
            Ok(Outcome::Bytes(bytes))
        }
        Step::Write(_, offset, length, byte) => {
            let written = file.write_at(&vec![byte; length], offset, PURPOSE);
            written.map(|()| Outcome::Done)
        }
        Step::Append(_, length, byte) => {
            let offset = file.append(&vec![byte; length], PURPOSE)?;
            Ok(Outcome::Number(offset))
        }
        Step::Allocate(_, length) => file.allocate(length).map(|()| Outcome::Done),
        Step::Truncate(_, length) => file.truncate(length).map(|()| Outcome::Done),
        Step::Sync(_) => file.sync(PURPOSE).map(|()| Outcome::Done),
        Step::Links(_) => file.links().map(Outcome::Number),
        _ => unreachable!("not a step on a file: {step:?}"),
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let handle = 0..4_usize;
    let name = select(vec!["a", "b", "c"]);
    let mode = select(vec![
        OpenMode::Read,
        OpenMode::ReadWrite,
        OpenMode::CreateNew,
    ]);
    let kind = select(vec![LockKind::Exclusive, LockKind::Shared]);
    let offset = prop_oneof![
        4 => 0..20_000_u64,
        3 => (0..5_u64).prop_map(|page| page * 4096),
        1 => (CHUNK_BYTES - 9000)..(CHUNK_BYTES + 9000),
    ];
    let length = prop_oneof![1..10_000_usize, (1..4_usize).prop_map(|pages| pages * 4096)];
    prop_oneof![
        6 => (handle.clone(), name.clone(), mode).prop_map(|(h, n, m)| Step::Open(h, n, m)),
        1 => handle.clone().prop_map(Step::Close),
        4 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(h, o, l)| Step::Read(h, o, l)),
        2 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(h, o, l)| Step::ReadExact(h, o, l)),
        6 => (handle.clone(), offset.clone(), length.clone(), 1..u8::MAX)
            .prop_map(|(h, o, l, b)| Step::Write(h, o, l, b)),
        6 => (handle.clone(), length, 1..u8::MAX).prop_map(|(h, l, b)| Step::Append(h, l, b)),
        1 => (handle.clone(), 1..50_000_u64).prop_map(|(h, l)| Step::Allocate(h, l)),
        2 => (handle.clone(), offset).prop_map(|(h, l)| Step::Truncate(h, l)),
        1 => handle.clone().prop_map(Step::Sync),
        1 => handle.prop_map(Step::Links),
        1 => Just(Step::SyncDirectory),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::RenameNew(from, to)),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Link(from, to)),
        3 => name.clone().prop_map(Step::Remove),
        2 => Just(Step::List),
        1 => (name, kind).prop_map(|(n, k)| Step::Lock(n, k)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_on_blocks_cannot_be_told_from_real_ones(
        steps in prop::collection::vec(any_step(), 1..60)
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (_, flat) = formatted(40);
        let player = |storage, root| Player { storage, root, files: Default::default(), lock: None };
        let mut real = player(&RealStorage as &dyn Storage, directory.path());
        let mut model = player(&flat, Path::new(PATH));
        for step in &steps {
            prop_assert_eq!(real.play(step), model.play(step), "{:?}", step);
        }
    }
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
    // More than what is left: the removal is made durable, and its chunks are taken.
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
}

#[test]
fn a_store_on_blocks_has_what_it_acknowledged_when_the_power_goes_at_any_step() {
    for seed in 0..60_u64 {
        let (blocks, storage) = formatted(64);
        blocks.fail_after(300 + seed * 97);
        let acknowledged = fill_until_it_fails(storage);
        let storage = mounted(&blocks.power_cut(seed));
        let db = Db::open(PATH, options(storage)).unwrap();
        for number in 0..acknowledged {
            let value = db.get(&number.to_be_bytes()).unwrap();
            let value = value.unwrap_or_else(|| panic!("{number} of {acknowledged}, seed {seed}"));
            assert!(value.iter().all(|byte| *byte == number as u8) && value.len() == 3000);
        }
        db.close().unwrap();
    }
}

/// Returns how many puts the store acknowledged, each synced.
fn fill_until_it_fails(storage: FlatStorage) -> u32 {
    let Ok(db) = Db::open(PATH, options(storage)) else {
        return 0;
    };
    for number in 0..4000_u32 {
        let mut batch = WriteBatch::new();
        batch
            .put(&number.to_be_bytes(), &[number as u8; 3000])
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
        arena_index_bytes: 512 << 10,
        table_bytes: 1 << 20,
        level1_bytes: 4 << 20,
        ..Options::default()
    }
}
