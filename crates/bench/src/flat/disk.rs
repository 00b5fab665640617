//! A mounted device: its files in memory, and the commits of their table.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blocks::{BLOCK_BYTES, Blocks};
use super::state::State;
use super::table::Table;

/// Blocks of a chunk: 1 MiB. The first two chunks are the slots of the table.
const CHUNK_BLOCKS: u64 = 256;
/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = CHUNK_BLOCKS * BLOCK_BYTES as u64;
const SLOTS: u32 = 2;

/// A device with its files.
#[derive(Debug)]
pub struct Disk {
    blocks: Arc<dyn Blocks>,
    state: Mutex<State>,
    /// Held while a table is written.
    committing: Mutex<()>,
    /// Ends all syncs: after a failure the durable part of the files is unknown.
    has_failed: AtomicBool,
}

/// Locks values that no thread leaves half changed.
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
        disk.commit(None)?;
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
        Disk {
            blocks,
            state: Mutex::new(State::of(table, SLOTS..chunks)),
            committing: Mutex::new(()),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the files. No thread waits for the device while it holds them.
    pub fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Makes a file's bytes and its length durable.
    pub fn sync(&self, file: u64) -> io::Result<()> {
        let state = self.state();
        let is_changed = state.files.get(&file).is_some_and(|node| node.is_changed);
        let is_under_way = state.is_committing();
        drop(state);
        if is_changed {
            return self.commit(Some(file));
        }
        if is_under_way {
            // The table with the file's length may not be durable yet.
            drop(locked(&self.committing));
        }
        self.flush()
    }

    /// Makes the names durable.
    pub fn commit_names(&self) -> io::Result<()> {
        let state = self.state();
        let (changed, is_under_way) = (state.names_changed(), state.is_committing());
        drop(state);
        if changed {
            return self.commit(None);
        }
        if is_under_way {
            drop(locked(&self.committing));
        }
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        match self.has_failed.load(Ordering::Acquire) {
            true => Err(io::Error::other("an earlier flush failed")),
            false => Ok(()),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.check()?;
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
        // The place of the next table is that of the only one that is known to be whole.
        self.check()?;
        let (table, lost) = self.state().begin_commit(synced);
        let written = self.write_table(&table);
        self.note(&written);
        let durable = written.and_then(|()| self.flush());
        let mut state = self.state();
        state.end_commit();
        if durable.is_ok() {
            state.space.release(lost);
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
            let (has_lost, is_under_way) = (state.space.has_lost(), state.is_committing());
            drop(state);
            if has_lost {
                self.commit(None)?;
            } else if is_under_way {
                // It frees chunks.
                drop(locked(&self.committing));
            } else {
                return Err(io::ErrorKind::StorageFull.into());
            }
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
