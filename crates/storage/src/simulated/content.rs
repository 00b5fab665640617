//! The bytes of one simulated file: the durable ones, the changes since, and those that a crash
//! leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rand::RngExt;
use rand::rngs::StdRng;

use super::crash::Loss;

/// The unit in which a file's bytes reach the medium.
const PAGE_BYTES: usize = 4096;
/// The unit that the medium writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

/// Invariant: `current` is `durable` with `unsynced` applied in order, but for `lost_pages`.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Pages that are read as they were written and that no sync carries to the medium.
    lost_pages: BTreeSet<usize>,
    reserved_bytes: usize,
    durable_reserved_bytes: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write(Write),
    /// To a shorter length than the file had.
    Cut {
        length: usize,
        before: usize,
    },
}

impl Change {
    /// Changes the part of the file in `range`; `target` covers all of it. Bytes that were cut off
    /// read as zeros if the file grows again.
    fn apply(&self, target: &mut [u8], range: Range<usize>) {
        match self {
            Change::Write(write) => write.apply(target, range),
            Change::Cut { length, .. } => {
                let end = range.end.min(target.len());
                if let Some(cut) = target.get_mut(range.start.max(*length)..end) {
                    cut.fill(0);
                }
            }
        }
    }

    fn apply_whole(&self, target: &mut Vec<u8>) {
        match self {
            Change::Write(write) => write.apply_growing(target),
            Change::Cut { length, .. } => target.truncate(*length),
        }
    }

    fn pages(&self) -> Range<usize> {
        match self {
            Change::Write(write) => write.pages(),
            Change::Cut { length, before } => length / PAGE_BYTES..before.div_ceil(PAGE_BYTES),
        }
    }

    /// Returns the file's length after the change.
    fn length_after(&self, before: usize) -> usize {
        match self {
            Change::Write(write) => before.max(write.end()),
            Change::Cut { length, .. } => before.min(*length),
        }
    }
}

#[derive(Clone, Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

impl Write {
    fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }

    /// Copies the part of this write that lies in `range` of the file; `target` covers all of it.
    fn apply(&self, target: &mut [u8], range: Range<usize>) {
        let start = self.offset.max(range.start);
        let end = self.end().min(range.end);
        if start >= end {
            return;
        }
        let source = self.bytes.get(start - self.offset..end - self.offset);
        if let (Some(source), Some(target)) = (source, target.get_mut(start..end)) {
            target.copy_from_slice(source);
        }
    }

    fn apply_growing(&self, target: &mut Vec<u8>) {
        target.resize(target.len().max(self.end()), 0);
        self.apply(target, self.offset..self.end());
    }

    fn pages(&self) -> Range<usize> {
        self.offset / PAGE_BYTES..self.end().div_ceil(PAGE_BYTES)
    }
}

impl Content {
    fn from_durable(durable: Vec<u8>, durable_reserved_bytes: usize) -> Self {
        Content {
            current: durable.clone(),
            durable,
            unsynced: Vec::new(),
            lost_pages: BTreeSet::new(),
            reserved_bytes: durable_reserved_bytes,
            durable_reserved_bytes,
        }
    }

    pub(super) fn length_bytes(&self) -> usize {
        self.current.len()
    }

    /// Returns the bytes of the medium that the file holds. A hole counts as if it were written.
    pub(super) fn footprint_bytes(&self) -> usize {
        self.current.len().max(self.reserved_bytes)
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let Some(rest) = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.current.get(offset..))
        else {
            return 0;
        };
        let count = rest.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
            target.copy_from_slice(source);
        }
        count
    }

    /// Writes bytes. The caller has checked that `offset + bytes.len()` fits on the medium.
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let write = Write {
            offset,
            bytes: bytes.to_vec(),
        };
        write.apply_growing(&mut self.current);
        let write = self.with_lost_pages(write);
        self.unsynced.push(Change::Write(write));
    }

    /// Returns the write, of whole pages if it touches a lost one: a page is written back as a
    /// whole.
    fn with_lost_pages(&mut self, write: Write) -> Write {
        let pages = write.pages();
        let lost_before = self.lost_pages.len();
        self.lost_pages.retain(|page| !pages.contains(page));
        let end = self.current.len().min(pages.end * PAGE_BYTES);
        let offset = pages.start * PAGE_BYTES;
        match self.current.get(offset..end) {
            Some(bytes) if self.lost_pages.len() < lost_before => Write {
                offset,
                bytes: bytes.to_vec(),
            },
            _ => write,
        }
    }

    /// Fails to carry all changes since the last sync to the medium, as a kernel does. Reads still
    /// see them, and they count as synced.
    pub(super) fn lose_unsynced(&mut self) {
        let pages = self.unsynced.drain(..).flat_map(|change| change.pages());
        self.lost_pages.extend(pages);
    }

    /// Cuts the file; one that is no longer stays as it is. The blocks behind the end go back to
    /// the medium, reserved ones too.
    pub(super) fn truncate(&mut self, length: usize) {
        let before = self.current.len();
        if length < before {
            let cut = Change::Cut { length, before };
            cut.apply_whole(&mut self.current);
            self.unsynced.push(cut);
            self.reserved_bytes = self.reserved_bytes.min(length);
        }
    }

    pub(super) fn reserve(&mut self, length_bytes: usize) {
        self.reserved_bytes = self.reserved_bytes.max(length_bytes);
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply_whole(&mut self.durable);
        }
        self.durable_reserved_bytes = self.reserved_bytes;
    }

    /// Returns the file as the medium holds it after a power cut.
    ///
    /// Each sector has one of the states it had since the last sync; half of the pages are torn,
    /// the others keep all their sectors at one state. The length is one that the file had since
    /// the last sync, and a page inside it that never reached the medium reads as zeros.
    pub(super) fn after_power_cut(&self, random: &mut StdRng) -> Self {
        let survivor = match Loss::choose(random) {
            Loss::Everything => self.durable.clone(),
            Loss::Nothing => self.with_changes(self.unsynced.len()),
            Loss::Suffix => {
                let kept = random.random_range(0..=self.unsynced.len());
                self.with_changes(kept)
            }
            Loss::Scattered => self.scattered(random),
        };
        Content::from_durable(survivor, self.durable_reserved_bytes)
    }

    /// Returns the medium's bytes with the first `kept` changes since the last sync.
    fn with_changes(&self, kept: usize) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in self.unsynced.iter().take(kept) {
            change.apply_whole(&mut bytes);
        }
        bytes
    }

    fn scattered(&self, random: &mut StdRng) -> Vec<u8> {
        let mut changes_by_page = BTreeMap::<usize, Vec<&Change>>::new();
        for change in &self.unsynced {
            for page in change.pages() {
                changes_by_page.entry(page).or_default().push(change);
            }
        }
        let mut bytes = self.durable.clone();
        bytes.resize(self.lengths_since_sync().max().unwrap_or_default(), 0);
        for (page, changes) in changes_by_page {
            let whole = random.random_range(0..=changes.len());
            let torn = random.random_bool(0.5);
            for sector in 0..PAGE_BYTES / SECTOR_BYTES {
                let kept = if torn {
                    random.random_range(0..=changes.len())
                } else {
                    whole
                };
                let start = page * PAGE_BYTES + sector * SECTOR_BYTES;
                for change in changes.iter().take(kept) {
                    change.apply(&mut bytes, start..start + SECTOR_BYTES);
                }
            }
        }
        bytes.truncate(self.any_length_since_sync(random));
        bytes
    }

    fn any_length_since_sync(&self, random: &mut StdRng) -> usize {
        let kept = random.random_range(0..=self.unsynced.len());
        let mut lengths = self.lengths_since_sync();
        lengths.nth(kept).unwrap_or_default()
    }

    /// Returns the length at the last sync and after each change since.
    fn lengths_since_sync(&self) -> impl Iterator<Item = usize> {
        let changes = self
            .unsynced
            .iter()
            .scan(self.durable.len(), |length, change| {
                *length = change.length_after(*length);
                Some(*length)
            });
        std::iter::once(self.durable.len()).chain(changes)
    }
}
