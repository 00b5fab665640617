//! A region: slots of memory that survives, and the arenas in them.
//!
//! Life of a slot: *reserved* (created or taken from the free list), *activated* for a generation
//! (its header is durable before the arena is handed out, so before its first frame), *recycled*
//! (free again). Slots that the region finds when it is opened stay untouched until the caller,
//! which knows the manifest, recovers or recycles them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use terrace_storage::{Access, Directory, ErrorKind, Storage};

use crate::arena::Arena;
use crate::dax::{self, DaxOptions};
use crate::device::{Description, Device};
use crate::format::{ArenaKey, FRAMES_START, HEADER_BYTES, Header, HeaderState, is_valid_capacity};
use crate::mapped::{self, MappedOptions};
use crate::recovery::{Expected, Folding, Judge, Recovered, SlotInfo};
use crate::scan::{Bounds, Scan, walk};
use crate::slots::{Slots, Use, readers};
use crate::volatile::VolatileDevice;
use crate::window::{WINDOW_BYTES, Window};
use crate::written::{self, WrittenOptions};
use crate::{Error, Result};

/// A slot ready to be activated. Dropped without that it stays reserved until the region is opened
/// again or [`Region::recycle`] is called with its number.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Slot {
    number: u64,
    capacity_bytes: u64,
    replaced_generation: Option<u64>,
}

impl Slot {
    /// Returns its number; the manifest names it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the size of the arena that it will hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns the generation that its header has until it is activated; 0 if it is blank. The
    /// manifest names it beside the new one: a header of any other is another file's. `None` if a
    /// power cut may bring an earlier one back: a process died soon after it wrote the header.
    pub fn replaced_generation(&self) -> Option<u64> {
        self.replaced_generation
    }
}

/// A provider of arenas on one device.
#[derive(Debug)]
pub struct Region {
    device: Box<dyn Device>,
    description: Description,
    /// The number of the store whose arenas these are.
    store: [u8; 16],
    /// Slots up to this size are kept for reuse, larger ones are removed when they are recycled.
    arena_bytes: u64,
    /// So are those below this size: the caller needs larger ones by now.
    smallest_kept_bytes: AtomicU64,
    slots: Mutex<Slots>,
}

impl Region {
    /// Opens a region in a directory of plain files: method `written`. The directory exists.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::InvalidArgument`] for an impossible `arena_bytes`.
    pub fn written(
        storage: Arc<dyn Storage>,
        directory: &Path,
        store: [u8; 16],
        arena_bytes: u64,
        options: WrittenOptions,
    ) -> Result<Self> {
        let directory = storage.directory(directory, Access::Owner)?;
        let device = written::open(&*storage, directory, options)?;
        Self::open(Box::new(device), store, arena_bytes)
    }

    /// Opens a region in a directory of mapped files: method `mapped`. The directory exists, and
    /// nothing else changes its files while the region or one of its arenas lives.
    ///
    /// # Errors
    /// [`Error::MethodUnsupported`] where a store into a mapping could end the process or lose an
    /// error unseen, [`Error::Io`], [`Error::InvalidArgument`] for an impossible `arena_bytes`.
    pub fn mapped(
        storage: Arc<dyn Storage>,
        directory: &Path,
        store: [u8; 16],
        arena_bytes: u64,
        options: MappedOptions,
    ) -> Result<Self> {
        let directory = storage.directory(directory, Access::Owner)?;
        let device = mapped::open(&*storage, directory, options)?;
        Self::open(Box::new(device), store, arena_bytes)
    }

    /// Opens a region in a directory of files in persistent memory: method `dax`. The directory
    /// exists, and nothing else changes its files while the region or one of its arenas lives.
    ///
    /// # Errors
    /// [`Error::MethodUnsupported`] if the CPU cannot write cache lines back, and from
    /// [`Region::activate`] if the files cannot be mapped with MAP_SYNC; [`Error::Io`],
    /// [`Error::InvalidArgument`] for an impossible `arena_bytes`.
    pub fn dax(
        storage: Arc<dyn Storage>,
        directory: &Path,
        store: [u8; 16],
        arena_bytes: u64,
        options: DaxOptions,
    ) -> Result<Self> {
        let directory = storage.directory(directory, Access::Owner)?;
        let device = dax::open(&*storage, directory, options)?;
        Self::open(Box::new(device), store, arena_bytes)
    }

    /// Opens a region in DRAM that survives nothing: method `volatile`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an impossible `arena_bytes`.
    pub fn volatile(arena_bytes: u64) -> Result<Self> {
        Self::open(Box::new(VolatileDevice::default()), [0; 16], arena_bytes)
    }

    /// Returns the device below [`Region::written`], in a directory that the caller has open.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn written_device(
        storage: &dyn Storage,
        directory: Arc<dyn Directory>,
        options: WrittenOptions,
    ) -> Result<Box<dyn Device>> {
        Ok(Box::new(written::open(storage, directory, options)?))
    }

    /// Returns the device below [`Region::mapped`], in a directory that the caller has open.
    ///
    /// # Errors
    /// As [`Region::mapped`].
    pub fn mapped_device(
        storage: &dyn Storage,
        directory: Arc<dyn Directory>,
        options: MappedOptions,
    ) -> Result<Box<dyn Device>> {
        Ok(Box::new(mapped::open(storage, directory, options)?))
    }

    /// Returns the device below [`Region::dax`], in a directory that the caller has open.
    ///
    /// # Errors
    /// As [`Region::dax`].
    pub fn dax_device(
        storage: &dyn Storage,
        directory: Arc<dyn Directory>,
        options: DaxOptions,
    ) -> Result<Box<dyn Device>> {
        Ok(Box::new(dax::open(storage, directory, options)?))
    }

    /// Opens a region on any device. Writes nothing. `store` is the number of the store that it
    /// belongs to: arenas with another one are left alone.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::InvalidArgument`] for an impossible `arena_bytes`.
    pub fn open(device: Box<dyn Device>, store: [u8; 16], arena_bytes: u64) -> Result<Self> {
        check_capacity(arena_bytes)?;
        let slots = Slots::found(&device.list()?);
        Ok(Region {
            description: device.description(),
            device,
            store,
            arena_bytes,
            smallest_kept_bytes: AtomicU64::new(0),
            slots: Mutex::new(slots),
        })
    }

    /// Returns the promises of the region.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns whether the CPU stores frames where they survive, so that no write to a file is
    /// counted for them.
    pub fn stores_in_place(&self) -> bool {
        self.device.reads_in_place()
    }

    /// Returns the name of a slot in errors.
    pub fn file(&self, slot: u64) -> PathBuf {
        self.device.file(slot)
    }

    /// Returns the size of the largest ordinary arena.
    pub fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    /// Returns the number of recycled arenas that keep their slots from being used again because
    /// they are still read. Always 0 where images are copies.
    pub fn pinned_slots(&self) -> usize {
        self.slots.lock().pinned()
    }

    /// Returns the slots that the device holds now, in use or not.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn slots(&self) -> Result<Vec<SlotInfo>> {
        let list = self.device.list()?;
        let info = list.into_iter().map(|slot| {
            let header = match self.device.read_header(slot.number) {
                Err(Error::Io(error)) if error.kind() == ErrorKind::NotAFile => {
                    HeaderState::NotAFile
                }
                bytes => self.header(slot.number, &bytes?),
            };
            Ok(SlotInfo {
                number: slot.number,
                length_bytes: slot.length_bytes,
                header,
            })
        });
        info.collect()
    }

    /// Reads a header and decides whether it is that of this store and slot.
    fn header(&self, slot: u64, bytes: &[u8]) -> HeaderState {
        match Header::decode(bytes) {
            HeaderState::Intact(header) if header.store != self.store || header.slot != slot => {
                HeaderState::Foreign(header)
            }
            state => state,
        }
    }

    /// Returns the owner of the arena with a foreign header, for messages.
    pub fn owner_of(&self, header: &Header) -> String {
        if header.store == self.store {
            return format!("it was written as arena {} of this store", header.slot);
        }
        let number = u128::from_le_bytes(header.store);
        format!("it belongs to another store (number {number:032x})")
    }

    /// Returns whether [`Region::reserve`] would find a slot of `capacity_bytes` in the free list
    /// now.
    #[must_use]
    pub fn has_free_slot(&self, capacity_bytes: u64) -> bool {
        self.free_slot_bytes(capacity_bytes).is_some()
    }

    /// Returns the size of the free slot that [`Region::reserve`] would take for `capacity_bytes` now.
    #[must_use]
    pub fn free_slot_bytes(&self, capacity_bytes: u64) -> Option<u64> {
        let (_, length_bytes) = self.slots.lock().smallest_free(capacity_bytes)?;
        Some(length_bytes)
    }

    /// Keeps no free slot below this size from now on, and removes those that are free. The next
    /// opening finds the slots that cannot be removed now.
    pub fn keep_from(&self, smallest_bytes: u64) {
        self.smallest_kept_bytes
            .store(smallest_bytes, Ordering::Relaxed);
        let small = self.slots.lock().take_free_below(smallest_bytes);
        for (number, length_bytes) in small {
            let _ = self.remove(number, length_bytes);
        }
    }

    /// Takes the smallest free slot of at least `capacity_bytes`, or creates one of that size,
    /// durable with its name.
    ///
    /// # Errors
    /// [`Error::Io`] (no space above all), [`Error::InvalidArgument`] for an impossible capacity.
    pub fn reserve(&self, capacity_bytes: u64) -> Result<Slot> {
        check_capacity(capacity_bytes)?;
        let (number, capacity_bytes, is_new) = {
            let mut slots = self.slots.lock();
            match slots.take_free(capacity_bytes) {
                Some((number, length_bytes)) => (number, length_bytes, false),
                None => (slots.add(capacity_bytes), capacity_bytes, true),
            }
        };
        if is_new && let Err(error) = self.device.create(number, capacity_bytes) {
            // A slot that cannot be removed now keeps its number until the region is opened again:
            // another slot could not be created under it.
            let was_there = matches!(&error, Error::Io(error)
                if error.kind() == ErrorKind::AlreadyExists);
            if !was_there && self.device.remove(number).is_ok() {
                self.slots.lock().forget(number);
            }
            return Err(error);
        }
        let replaced = match is_new {
            true => Ok(Some(0)),
            false => self.replaced_generation(number),
        };
        if replaced.is_err() {
            let free = Use::Free(Weak::new());
            self.slots.lock().put(number, capacity_bytes, free);
        }
        Ok(Slot {
            number,
            capacity_bytes,
            replaced_generation: replaced?,
        })
    }

    fn replaced_generation(&self, slot: u64) -> Result<Option<u64>> {
        if !self.slots.lock().has_durable_header(slot) {
            return Ok(None);
        }
        Ok(match self.header(slot, &self.device.read_header(slot)?) {
            HeaderState::Intact(header) => Some(header.generation),
            HeaderState::Blank => Some(0),
            _ => None,
        })
    }

    /// Begins a generation in a reserved slot. Its header is durable when this returns. The caller
    /// has made slot and generation durable in the manifest and never uses a generation twice.
    ///
    /// # Errors
    /// [`Error::Io`]: the generation is used up. The slot stays reserved until it is recycled, which
    /// may remove its file: not before the manifest has retired the generation.
    /// [`Error::OutOfMemory`], [`Error::InvalidArgument`] for generation 0.
    pub fn activate(&self, slot: Slot, generation: u64) -> Result<Arc<Arena>> {
        let arena = self.begin(&slot, generation).map(Arc::new);
        let held = match &arena {
            Ok(arena) => Use::Active(Arc::downgrade(arena)),
            // The header may have taken the generation, and may lose it in a power cut.
            Err(_) => Use::Found,
        };
        let mut slots = self.slots.lock();
        slots.put(slot.number, slot.capacity_bytes, held);
        slots.set_durable_header(slot.number, arena.is_ok());
        arena
    }

    fn begin(&self, slot: &Slot, generation: u64) -> Result<Arena> {
        if generation == 0 {
            return Err(Error::InvalidArgument("a generation is never 0".to_owned()));
        }
        let header = Header {
            generation,
            capacity_bytes: slot.capacity_bytes,
            boot_id: self.device.boot_id(),
            slot: slot.number,
            store: self.store,
        };
        let mut attached = self.device.attach(slot.number, slot.capacity_bytes)?;
        attached
            .medium
            .store_header(&mut attached.writer, &header.encode())?;
        let file = self.device.file(slot.number);
        Arena::new(slot.number, header.key(), file, attached, FRAMES_START)
    }

    /// Returns an arena, sealed, that holds the frames of `found.scan.run` and no others, as
    /// [`Recovered::load`] does. This one can be persisted, and holds its slot until that is recycled.
    /// Its bytes are stored once more where a persist of an earlier process may have failed: they may be in
    /// the page cache alone, which no later persist would tell.
    ///
    /// # Errors
    /// [`Error::Io`], also where a file system that copies on write has no room for these bytes,
    /// [`Error::OutOfMemory`], [`Error::InvalidArgument`] if the slot was recycled.
    pub fn resume(&self, found: &Recovered) -> Result<Arc<Arena>> {
        let slot = found.slot;
        if !self.slots.lock().is_recovered(slot) {
            return Err(Error::InvalidArgument(format!(
                "slot {slot} holds no recovered arena"
            )));
        }
        let length_bytes = found.reader.length_bytes()?;
        let mut attached = self.device.attach(slot, length_bytes)?;
        let end_bytes = found.scan.end_bytes;
        if !self.device.reads_in_place() {
            // The image is a copy. Nothing of it goes back to the medium, which has these bytes.
            let bytes = attached.writer.range(0, end_bytes)?;
            found.reader.read_exact_at(bytes, 0)?;
        }
        let file = found.file.clone();
        let arena = Arena::new(slot, found.key, file, attached, end_bytes)?;
        arena.seal()?;
        if self.description().can_persist {
            let bytes = arena.read(0, end_bytes).unwrap_or_default();
            self.device.store_again(slot, bytes)?;
        }
        let arena = Arc::new(arena);
        let held = Use::Resumed(Arc::downgrade(&arena));
        self.slots.lock().put(slot, length_bytes, held);
        Ok(arena)
    }

    /// Notes that the frames of earlier processes are elsewhere or in arenas that were resumed. From now on
    /// only persists of this process count.
    pub fn end_recovery(&self) {
        self.device.end_recovery();
    }

    /// Gives back a slot whose contents are not needed after a crash any more: an arena's (it is
    /// sealed; its holders may go on reading), a reserved one's, or one that was found at open and
    /// that the manifest does not name. A slot of a size that is kept becomes free (where readers
    /// read in place, once the last is gone), any other is removed. Twice is the same as once.
    ///
    /// # Errors
    /// [`Error::Io`] (the slot stays and may be recycled again), [`Error::InvalidArgument`] if
    /// there is no such slot.
    pub fn recycle(&self, slot: u64) -> Result<()> {
        let Some((length_bytes, held)) = self.slots.lock().take(slot) else {
            return Err(Error::InvalidArgument(format!("there is no slot {slot}")));
        };
        let arena = match &held {
            Use::Active(arena) | Use::Resumed(arena) => arena.upgrade(),
            Use::Free(_) => {
                self.slots.lock().put(slot, length_bytes, held);
                return Ok(());
            }
            Use::Found | Use::Recovered | Use::Reserved => None,
        };
        if let Some(arena) = &arena {
            // Its contents are not needed any more, a failed frame among them neither.
            let _ = arena.seal();
        }
        // Blocks for holes of a copy cannot be had under a reader's mapping.
        let may_have_holes = matches!(held, Use::Resumed(_)) && self.device.reads_in_place();
        if may_have_holes || !self.keeps(length_bytes) {
            return self.remove(slot, length_bytes);
        }
        let adopted = match &held {
            Use::Found => self.device.adopt(slot),
            Use::Recovered => self.device.occupy(slot),
            _ => Ok(()),
        };
        if let Err(error) = adopted {
            self.slots.lock().put(slot, length_bytes, held);
            return Err(error);
        }
        let is_adopted = matches!(held, Use::Found);
        let free = Use::Free(readers(arena.as_ref(), self.device.reads_in_place()));
        let mut slots = self.slots.lock();
        slots.put(slot, length_bytes, free);
        if is_adopted {
            slots.set_durable_header(slot, true);
        }
        Ok(())
    }

    /// Returns whether a slot of this size may serve again. A file that was being made at a crash
    /// may have any size.
    fn keeps(&self, length_bytes: u64) -> bool {
        let smallest_bytes = self.smallest_kept_bytes.load(Ordering::Relaxed);
        is_valid_capacity(length_bytes)
            && (smallest_bytes..=self.arena_bytes).contains(&length_bytes)
    }

    fn remove(&self, slot: u64, length_bytes: u64) -> Result<()> {
        let removed = self.device.remove(slot);
        let mut slots = self.slots.lock();
        match &removed {
            Ok(()) => slots.forget(slot),
            Err(_) => slots.put(slot, length_bytes, Use::Found),
        }
        removed
    }

    /// Finds the frames of a generation in a slot, with any payload; see [`Region::recover_as`].
    ///
    /// # Errors
    /// As [`Region::recover_as`].
    pub fn recover(&self, slot: u64, generation: u64) -> Result<Recovered> {
        self.recover_as(slot, generation, Expected::default(), &mut |_, _| Ok(true))
    }

    /// Finds the frames of a generation in a slot, in the memory of a window, and shows those from the
    /// start on to `judge`. Writes nothing. The caller knows the manifest, and decides whether a
    /// header of another generation may be there.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Foreign`], [`Error::UnknownVersion`], [`Error::Corruption`] if
    /// the slot's size is not the expected one or none that an arena has, [`Error::Io`], and those of
    /// `judge`.
    pub fn recover_as<'a>(
        &self,
        slot: u64,
        generation: u64,
        expected: Expected,
        judge: &'a mut Judge<'a>,
    ) -> Result<Recovered> {
        let file = self.device.file(slot);
        let reader = self.device.reader(slot)?;
        let length_bytes = reader.length_bytes()?;
        check_length(&file, length_bytes, None)?;
        let mut bytes = [0; HEADER_BYTES];
        reader.read_exact_at(&mut bytes, 0)?;
        let mut capacity_bytes = length_bytes;
        let header = match self.header(slot, &bytes) {
            HeaderState::Intact(header) => {
                // The arena never had a byte behind.
                capacity_bytes = capacity_bytes.min(header.capacity_bytes);
                check_size(header, length_bytes)
            }
            HeaderState::Foreign(header) => {
                let detail = self.owner_of(&header);
                return Err(Error::Foreign { file, detail });
            }
            HeaderState::UnknownVersion(version) => {
                return Err(Error::UnknownVersion { file, version });
            }
            other => other,
        };
        // A file of another owner has a length of its own.
        check_length(&file, length_bytes, expected.capacity_bytes)?;
        let current = match header {
            HeaderState::Intact(header) if header.generation == generation => Some(header),
            _ => None,
        };
        let key = ArenaKey::new(self.store, generation);
        let bounds = Bounds {
            capacity: usize::try_from(capacity_bytes).unwrap_or(usize::MAX),
            // Without its header nothing is believed of it.
            known_end: current
                .and(expected.end_bytes)
                .and_then(|end| usize::try_from(end).ok()),
        };
        let mut folding = Folding {
            scan: Scan::empty(),
            judge,
            is_over: false,
        };
        let mut window = Window::new(&*reader, bounds.capacity, WINDOW_BYTES);
        let walked = walk(&mut window, key, bounds, &mut folding)?;
        let scan = Scan {
            torn: walked.torn,
            search_complete: walked.search_complete,
            ..folding.scan
        };
        let mut slots = self.slots.lock();
        slots.put(slot, length_bytes, Use::Recovered);
        // It was durable before the first frame; without one the process may have died before that.
        slots.set_durable_header(slot, current.is_some() && scan.run.is_some());
        drop(slots);
        Ok(Recovered {
            slot,
            file,
            key,
            reader,
            header,
            is_activated: current.is_some(),
            is_same_boot: current.is_some_and(|header| header.boot_id == self.device.boot_id()),
            scan,
        })
    }
}

/// Holds a slot's length against the one that it has to have.
fn check_length(file: &Path, length_bytes: u64, capacity_bytes: Option<u64>) -> Result<()> {
    let reason = match capacity_bytes {
        _ if !is_valid_capacity(length_bytes) => "the file ends where no arena can end",
        Some(capacity_bytes) if capacity_bytes != length_bytes => {
            "the file has another length than the manifest lists for it"
        }
        _ => return Ok(()),
    };
    Err(Error::Corruption {
        file: file.to_path_buf(),
        offset: length_bytes,
        reason,
    })
}

fn check_size(header: Header, capacity_bytes: u64) -> HeaderState {
    if header.capacity_bytes != capacity_bytes {
        HeaderState::Damaged("the header names another size than the file has")
    } else {
        HeaderState::Intact(header)
    }
}

fn check_capacity(capacity_bytes: u64) -> Result<()> {
    if is_valid_capacity(capacity_bytes) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "an arena cannot have {capacity_bytes} bytes: use a multiple of 4096 from 8192 to 4294963200"
    )))
}

#[cfg(test)]
mod tests;
