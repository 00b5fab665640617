//! A mounted device: its files in memory, and the commits of their table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blocks::{BLOCK_BYTES, Blocks};
use super::file::Tail;
use super::lock::Locks;
use super::space::Space;
use super::table::{FileEntry, Table};

/// Blocks of a chunk: 1 MiB. The first two chunks are the slots of the table.
const CHUNK_BLOCKS: u64 = 256;
/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = CHUNK_BLOCKS * BLOCK_BYTES as u64;
const SLOTS: u32 = 2;

/// A file while the device is mounted.
#[derive(Debug, Default)]
pub struct Node {
    pub length: u64,
    /// The length that tables have: that of the last sync.
    pub synced_length: u64,
    pub chunks: Vec<u32>,
    pub names: u64,
    pub handles: u64,
    /// Length or chunks are not those of the last table.
    pub is_changed: bool,
    /// Held by writers of the file.
    pub writing: Arc<Mutex<Option<Tail>>>,
}

/// Files, names and free chunks.
#[derive(Debug, Default)]
pub struct State {
    pub files: HashMap<u64, Node>,
    pub names: BTreeMap<String, u64>,
    pub space: Space,
    pub locks: Locks,
    next_file: u64,
    generation: u64,
    /// Names are not those of the last table.
    names_changed: bool,
}

/// A device with its files.
#[derive(Debug)]
pub struct Disk {
    blocks: Arc<dyn Blocks>,
    state: Mutex<State>,
    /// Held while a table is written.
    committing: Mutex<()>,
    /// Ends all syncs: after a failure nobody knows what is durable.
    has_failed: AtomicBool,
}

/// Locks what nobody leaves half changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Writes an empty table.
    pub fn format(blocks: Arc<dyn Blocks>) -> io::Result<Disk> {
        let chunks = chunks_of(&*blocks)?;
        let disk = Disk::of(blocks, Table::default(), chunks);
        for slot in 0..SLOTS {
            let zeros = [0; BLOCK_BYTES];
            disk.blocks.write(u64::from(slot) * CHUNK_BLOCKS, &zeros)?;
        }
        disk.state().names_changed = true;
        disk.commit_names()?;
        Ok(disk)
    }

    /// Reads the newest whole table.
    pub fn mount(blocks: Arc<dyn Blocks>) -> io::Result<Disk> {
        let chunks = chunks_of(&*blocks)?;
        let mut newest: Option<Table> = None;
        for slot in 0..SLOTS {
            let mut bytes = vec![0; CHUNK_BYTES as usize];
            blocks.read(u64::from(slot) * CHUNK_BLOCKS, &mut bytes)?;
            let table = Table::decode(&bytes, chunks);
            let is_newer = |table: &Table| {
                let newest = newest.as_ref();
                newest.is_none_or(|newest| newest.generation < table.generation)
            };
            newest = table.filter(is_newer).or(newest);
        }
        let table = newest.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the device holds no table of files",
            )
        })?;
        Ok(Disk::of(blocks, table, chunks))
    }

    fn of(blocks: Arc<dyn Blocks>, table: Table, chunks: u32) -> Disk {
        let all = table.files.values().flat_map(|file| &file.chunks);
        let used: BTreeSet<u32> = all.copied().collect();
        let names = table.names.values();
        let count = |number: u64| names.clone().filter(|named| **named == number).count() as u64;
        let files = table.files.iter().map(|(number, file)| {
            let node = Node {
                length: file.length,
                synced_length: file.length,
                chunks: file.chunks.clone(),
                names: count(*number),
                ..Node::default()
            };
            (*number, node)
        });
        let state = State {
            files: files.collect(),
            space: Space::new(SLOTS, chunks, &used),
            next_file: table.next_file,
            generation: table.generation,
            names: table.names,
            ..State::default()
        };
        Disk {
            blocks,
            state: Mutex::new(state),
            committing: Mutex::new(()),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the files. Nobody waits for the device while he holds them.
    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Makes a file's bytes and its length durable.
    pub fn sync(&self, file: u64) -> io::Result<()> {
        let is_changed = |state: &State| state.files.get(&file).is_some_and(|node| node.is_changed);
        if !is_changed(&self.state()) {
            return self.flush();
        }
        self.commit(Some(file))
    }

    /// Makes the names durable.
    pub fn commit_names(&self) -> io::Result<()> {
        let changed = self.state().names_changed;
        match changed {
            true => self.commit(None),
            false => Ok(()),
        }
    }

    fn flush(&self) -> io::Result<()> {
        if self.has_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier flush failed"));
        }
        let flushed = self.blocks.flush();
        self.note(&flushed);
        flushed
    }

    fn note(&self, outcome: &io::Result<()>) {
        self.has_failed.fetch_or(outcome.is_err(), Ordering::AcqRel);
    }

    /// Writes the table, with the present length of a file that is synced, and flushes.
    fn commit(&self, synced: Option<u64>) -> io::Result<()> {
        let _alone = locked(&self.committing);
        let (table, lost) = self.state().begin_commit(synced);
        let written = self.write_table(&table);
        self.note(&written);
        let durable = written.and_then(|()| self.flush());
        if durable.is_ok() {
            self.state().space.release(lost);
        }
        durable
    }

    /// Writes a table over that before the last one.
    fn write_table(&self, table: &Table) -> io::Result<()> {
        let bytes = table.encode();
        if bytes.len() as u64 > CHUNK_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let slot = table.generation % u64::from(SLOTS);
        self.blocks.write(slot * CHUNK_BLOCKS, &bytes)
    }

    /// Gives a file chunks up to a length.
    pub fn reserve(&self, file: u64, length: u64) -> io::Result<()> {
        loop {
            let mut state = self.state();
            if state.reserve(file, length) {
                return Ok(());
            }
            let has_lost = state.space.has_lost();
            drop(state);
            if !has_lost {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.commit(None)?;
        }
    }

    /// Reads a file's blocks from `first` on.
    pub fn read(&self, file: u64, first: u64, buffer: &mut [u8]) -> io::Result<()> {
        let runs = self.runs(file, first, buffer.len())?;
        let mut rest = buffer;
        for (block, bytes) in runs {
            let (part, behind) = rest.split_at_mut(bytes.min(rest.len()));
            self.blocks.read(block, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// Writes a file's blocks from `first` on.
    pub fn write(&self, file: u64, first: u64, bytes: &[u8]) -> io::Result<()> {
        let runs = self.runs(file, first, bytes.len())?;
        let mut rest = bytes;
        for (block, bytes) in runs {
            let (part, behind) = rest.split_at(bytes.min(rest.len()));
            self.blocks.write(block, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// Returns where blocks of a file lie: first block and bytes of each contiguous run.
    fn runs(&self, file: u64, first: u64, bytes: usize) -> io::Result<Vec<(u64, usize)>> {
        let state = self.state();
        let outside = || io::Error::other("a block beyond the file's chunks");
        let chunks = &state.files.get(&file).ok_or_else(outside)?.chunks;
        let mut runs: Vec<(u64, usize)> = Vec::new();
        let (mut at, end) = (first, first + (bytes / BLOCK_BYTES) as u64);
        while at < end {
            let index = usize::try_from(at / CHUNK_BLOCKS).map_err(io::Error::other)?;
            let chunk = chunks.get(index).ok_or_else(outside)?;
            let within = at % CHUNK_BLOCKS;
            let count = (CHUNK_BLOCKS - within).min(end - at);
            let block = u64::from(*chunk) * CHUNK_BLOCKS + within;
            let length = count as usize * BLOCK_BYTES;
            match runs.last_mut() {
                Some((begin, bytes)) if *begin + (*bytes / BLOCK_BYTES) as u64 == block => {
                    *bytes += length;
                }
                _ => runs.push((block, length)),
            }
            at += count;
        }
        Ok(runs)
    }
}

/// Returns the number of whole chunks.
fn chunks_of(blocks: &dyn Blocks) -> io::Result<u32> {
    let chunks = u32::try_from(blocks.count() / CHUNK_BLOCKS).unwrap_or(u32::MAX);
    match chunks > SLOTS {
        true => Ok(chunks),
        false => Err(io::ErrorKind::StorageFull.into()),
    }
}

impl State {
    /// Makes an empty file under a free name.
    pub fn create(&mut self, name: &str) -> u64 {
        self.next_file += 1;
        let file = self.next_file;
        self.files.insert(file, Node::default());
        self.name(name, file);
        file
    }

    /// Gives a file a name. The file that had the name loses it.
    pub fn name(&mut self, name: &str, file: u64) {
        let former = self.names.insert(name.to_owned(), file);
        if let Some(node) = self.files.get_mut(&file) {
            node.names += 1;
        }
        self.names_changed = true;
        if let Some(former) = former {
            self.lose_name(former);
        }
    }

    /// Takes a name away. Returns whether there was one.
    pub fn remove_name(&mut self, name: &str) -> bool {
        let Some(file) = self.names.remove(name) else {
            return false;
        };
        self.names_changed = true;
        self.lose_name(file);
        true
    }

    fn lose_name(&mut self, file: u64) {
        if let Some(node) = self.files.get_mut(&file) {
            node.names -= 1;
        }
        self.drop_unused(file);
    }

    /// Ends a handle of a file.
    pub fn close(&mut self, file: u64) {
        if let Some(node) = self.files.get_mut(&file) {
            node.handles -= 1;
        }
        self.drop_unused(file);
    }

    fn drop_unused(&mut self, file: u64) {
        let is_unused = |node: &Node| node.names == 0 && node.handles == 0;
        if self.files.get(&file).is_some_and(is_unused)
            && let Some(node) = self.files.remove(&file)
        {
            self.space.lose(node.chunks);
        }
    }

    /// Gives a file chunks up to a length, as far as there are free ones. Returns whether it has all.
    fn reserve(&mut self, file: u64, length: u64) -> bool {
        let Some(node) = self.files.get_mut(&file) else {
            return false;
        };
        let wanted = length.div_ceil(CHUNK_BYTES) as usize;
        while node.chunks.len() < wanted {
            let Some(chunk) = self.space.take() else {
                return false;
            };
            node.chunks.push(chunk);
            node.is_changed = true;
        }
        true
    }

    /// Cuts a file.
    pub fn truncate(&mut self, file: u64, length: u64) {
        let Some(node) = self.files.get_mut(&file) else {
            return;
        };
        let kept = length.div_ceil(CHUNK_BYTES) as usize;
        let cut = node.chunks.split_off(kept.min(node.chunks.len()));
        node.length = length;
        node.synced_length = node.synced_length.min(length);
        node.is_changed = true;
        self.space.lose(cut);
    }

    /// Returns the next table, and the chunks that are free once it is durable.
    fn begin_commit(&mut self, synced: Option<u64>) -> (Table, Vec<u32>) {
        self.generation += 1;
        self.names_changed = false;
        let mut files = BTreeMap::new();
        for (number, node) in &mut self.files {
            if synced == Some(*number) {
                node.synced_length = node.length;
            }
            node.is_changed = node.synced_length != node.length;
            if node.names > 0 {
                let entry = FileEntry {
                    length: node.synced_length,
                    chunks: node.chunks.clone(),
                };
                files.insert(*number, entry);
            }
        }
        let table = Table {
            generation: self.generation,
            next_file: self.next_file,
            files,
            names: self.names.clone(),
        };
        (table, self.space.begin_release())
    }
}
