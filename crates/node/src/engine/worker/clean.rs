//! The cleaner: live cells of sparse segments move together, so that whole segments come free.
//!
//! Copy, write, make durable, switch if the key still points there, free. A move takes its key like
//! any other change, but never waits for one: a key that is being changed leaves its cell behind.

use std::collections::{BTreeSet, HashMap};
use std::io;

use super::super::Failure;
use super::super::journal::{Member, Pending};
use super::super::namespace::Namespace;
use super::super::segments::{LOST_BYTES, extent_of};
use super::super::share::Share;
use super::{Active, Operation, Waiter, Work, Worker, count};
use crate::Key;
use crate::block::Buffer;
use crate::device::{Request, parts_of};
use crate::format::cell::{SegmentBuilder, cell_bytes, cells};
use crate::format::location::{CellLocation, SEGMENT_BLOCKS, SEGMENT_BYTES};
use crate::index::{Found, Place};

/// The most segments that one pass reads.
const MAX_VICTIMS: usize = 16;
/// Passes that find all segments held before the cleaner waits for a change: keys come free a little
/// after their records are written.
const MAX_VAIN: u32 = 4;

/// A pass of the cleaner.
pub(super) struct Job {
    target: SegmentBuilder,
    /// Segments read, so far.
    victims: BTreeSet<u64>,
    /// These, and segments that keys being changed held at the last pass: none of them is read.
    except: BTreeSet<u64>,
    reading: Option<u64>,
    /// Whether a cell did not fit into the target any more.
    is_full: bool,
    candidates: Vec<Candidate>,
    /// Moves whose records are not durable yet.
    moving: usize,
    /// Whether the target is on the device.
    is_written: bool,
}

/// A live cell that was copied.
struct Candidate {
    key: Key,
    hash: u64,
    found: Found,
    to: CellLocation,
}

/// The move of one cell, as a command.
pub(super) struct MoveState {
    to: CellLocation,
    value_bytes: u32,
}

impl Worker {
    /// Begins to make room. Returns false if there is nothing to be had.
    pub(super) fn make_room(&mut self, at: usize) -> bool {
        let namespace = self.namespace(at);
        if !namespace.quarantine.lock().is_empty() {
            self.settle(at);
            return true;
        }
        if *namespace.cleaning.lock() || self.begin_cleaning(at) {
            return true;
        }
        // Values in the way of the cleaner, or of no key any more, once these records are durable.
        if namespace.journal.lock().is_busy() {
            return true;
        }
        self.evict(at) || self.defragment(at)
    }

    /// Cleans in the background once little space is left.
    pub(super) fn go_on_cleaning(&mut self, at: usize) {
        let namespace = &self.node.key_namespaces()[at];
        let space = &namespace.space;
        if self.is_closing {
            return;
        }
        // Early enough that stores need not wait for it.
        let ahead = (namespace.description.data.blocks / 64).max(2 * SEGMENT_BLOCKS);
        let low = space.kept_back() + ahead;
        if space.free_blocks() < low && self.cleaners[at].is_none() {
            self.begin_cleaning(at);
        }
    }

    /// Begins a pass, if a segment is worth it and no other loop cleans.
    fn begin_cleaning(&mut self, at: usize) -> bool {
        let namespace = self.namespace(at);
        // Less than a segment's worth would only be moved round.
        let is_worth_it = namespace.segments.reclaimable() >= SEGMENT_BYTES as u64;
        if namespace.check_writable().is_err() || !is_worth_it {
            return false;
        }
        let vain = namespace.vain_cleanings();
        if vain.times >= MAX_VAIN {
            return false;
        }
        let target = {
            let mut cleaning = namespace.cleaning.lock();
            if *cleaning {
                return true;
            }
            // Others wait for the end of a pass that they see: none is to be seen that does not begin.
            let Some(target) = namespace.space.allocate_reserved(SEGMENT_BLOCKS, 0, 1) else {
                return false;
            };
            *cleaning = true;
            target
        };
        let sequence = namespace.next_sequence();
        let secret = namespace.description.secret;
        self.cleaners[at] = Some(Job {
            target: SegmentBuilder::new(secret, target.first().start, sequence),
            victims: BTreeSet::new(),
            except: vain.held,
            reading: None,
            is_full: false,
            candidates: Vec::new(),
            moving: 0,
            is_written: false,
        });
        self.read_victim(at);
        true
    }

    /// Reads the next victim, or writes the target if it is full or nothing is left.
    fn read_victim(&mut self, at: usize) {
        let namespace = self.namespace(at);
        let Some(job) = &mut self.cleaners[at] else {
            return;
        };
        let goes_on = job.victims.len() < MAX_VICTIMS && !job.is_full;
        let next = namespace.segments.emptiest(&job.except).filter(|_| goes_on);
        let Some(victim) = next else {
            return self.write_target(at);
        };
        job.victims.insert(victim);
        job.except.insert(victim);
        job.reading = Some(victim);
        namespace.pins.pin(victim);
        let buffer = Buffer::zeroed(SEGMENT_BLOCKS as usize);
        let parts = parts_of(&[extent_of(victim)]);
        self.request(Operation::Clean(at), Request::Read { buffer, parts });
    }

    /// Takes the answer to the cleaner's last request.
    pub(super) fn clean_step(&mut self, at: usize, buffer: Buffer, result: io::Result<()>) {
        let namespace = self.namespace(at);
        let Some(job) = &mut self.cleaners[at] else {
            debug_assert!(false, "requests are of a job");
            return;
        };
        let Some(victim) = job.reading.take() else {
            return self.target_written(at, result);
        };
        let copied = match result {
            Ok(()) => job.copy_live(&namespace, victim, &buffer),
            Err(_) => false,
        };
        namespace.unpin(victim);
        if !copied {
            // Cells that cannot be read stay where they are; there is no other try.
            namespace.segments.set_aside(victim);
        }
        self.read_victim(at);
    }

    fn write_target(&mut self, at: usize) {
        let Some(job) = &mut self.cleaners[at] else {
            return;
        };
        if job.candidates.is_empty() {
            self.node.key_namespaces()[at].count_vain_cleaning([]);
            return self.end_cleaning(at);
        }
        let mut buffer = Buffer::zeroed(SEGMENT_BLOCKS as usize);
        buffer.copy_from_slice(job.target.bytes());
        let parts = parts_of(&[extent_of(job.target.start())]);
        self.request(Operation::Clean(at), Request::Write { buffer, parts });
    }

    /// Hands over a record for each cell whose key still points to the old place.
    fn target_written(&mut self, at: usize, result: io::Result<()>) {
        let namespace = self.namespace(at);
        let Some(job) = &mut self.cleaners[at] else {
            return;
        };
        let candidates = std::mem::take(&mut job.candidates);
        if result.is_err() {
            // The next pass would get the same place.
            namespace.count_vain_cleaning([]);
            return self.end_cleaning(at);
        }
        let (movable, stuck): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|candidate| candidate.take_key(&namespace));
        if !job.gains(&namespace, &movable) {
            // The space of the target would be gone and none gained: again when anything has changed.
            movable.iter().for_each(|each| each.release_key(&namespace));
            namespace.count_vain_cleaning(stuck.iter().map(Candidate::segment));
            return self.end_cleaning(at);
        }
        job.is_written = true;
        job.moving = movable.len();
        let all = movable.iter().chain(&stuck).map(Candidate::bytes);
        namespace.segments.adopt(job.target.start(), all.sum());
        for candidate in stuck {
            namespace.free_cell(candidate.to, candidate.found.value_bytes);
        }
        for candidate in movable {
            self.begin_move(at, &namespace, candidate);
        }
    }

    /// Hands over the record of a move that owns its key.
    fn begin_move(&mut self, at: usize, namespace: &Namespace, candidate: Candidate) {
        let Candidate {
            key,
            hash,
            found,
            to,
        } = candidate;
        let slot = self.commands.add(Active {
            tag: 0,
            namespace: at,
            key,
            hash,
            work: Work::Move(MoveState {
                to,
                value_bytes: found.value_bytes,
            }),
            failure: None,
        });
        let member = Member {
            key,
            hash,
            sequence: namespace.next_sequence(),
            value_bytes: found.value_bytes,
            checksum: u64::from(found.check),
            change: Pending::Cell(to),
            share: Share::default(),
            waiter: Some(Waiter::new(&self.inbox, slot)),
        };
        namespace.journal.lock().open.push(member);
    }

    /// Learns how the record of a move fared.
    pub(super) fn move_done(&mut self, slot: u32, result: Result<(), Failure>) {
        let Some(at) = self.commands.get_mut(slot).map(|active| active.namespace) else {
            return;
        };
        let namespace = self.namespace(at);
        let Some(active) = self.commands.get_mut(slot) else {
            return;
        };
        if let (Work::Move(state), Err(_)) = (&active.work, &result)
            && namespace.check_writable().is_ok()
        {
            namespace.free_cell(state.to, state.value_bytes);
        }
        count(&namespace.counters.moves);
        self.release_key(slot);
        self.finish(slot, result.map(|()| super::Answer::Stored));
        if let Some(job) = &mut self.cleaners[at] {
            job.moving -= 1;
            if job.moving == 0 {
                self.end_cleaning(at);
            }
        }
    }

    fn end_cleaning(&mut self, at: usize) {
        let namespace = self.namespace(at);
        if let Some(job) = self.cleaners[at].take()
            && !job.is_written
        {
            namespace.space.free(extent_of(job.target.start()));
        }
        *namespace.cleaning.lock() = false;
        namespace.wake_space_waiters();
    }
}

impl Candidate {
    /// Returns the segment that the cell lies in.
    fn segment(&self) -> u64 {
        match &self.found.place {
            Place::Cell(from) => from.segment(),
            Place::Extents(extents) => extents.first().start,
        }
    }

    fn bytes(&self) -> u32 {
        cell_bytes(self.found.value_bytes as usize) as u32
    }

    /// Takes the key, if nothing changes it and it still points to the cell.
    fn take_key(&self, namespace: &Namespace) -> bool {
        if !namespace.keys.try_borrow(self.hash, &self.key) {
            return false;
        }
        let partition = namespace.index.partition(self.hash);
        let now = partition.lock().get(self.hash, &self.key);
        let points_here = now.as_ref() == Some(&self.found);
        if !points_here {
            self.release_key(namespace);
        }
        points_here
    }

    fn release_key(&self, namespace: &Namespace) {
        if let Some(next) = namespace.keys.release(self.hash, &self.key) {
            next.own_key();
        }
    }
}

impl Job {
    /// Returns true if the moves gain space: they empty two victims for the one target, or one victim
    /// and fill the target. Then others are emptier than before.
    fn gains(&self, namespace: &Namespace, movable: &[Candidate]) -> bool {
        let mut moving: HashMap<u64, u32> = HashMap::new();
        for candidate in movable {
            *moving.entry(candidate.segment()).or_default() += candidate.bytes();
        }
        let filled: u32 = moving.values().sum();
        let emptied = moving
            .iter()
            .filter(|(victim, moving)| namespace.segments.live_bytes(**victim) <= **moving);
        match emptied.count() {
            0 => false,
            1 => filled >= SEGMENT_BYTES as u32 - LOST_BYTES,
            _ => true,
        }
    }

    /// Copies the victim's live cells. Returns false if some of them cannot be read.
    fn copy_live(&mut self, namespace: &Namespace, victim: u64, bytes: &[u8]) -> bool {
        let secret = namespace.description.secret;
        let (mut is_damaged, mut copied) = (false, 0);
        for cell in cells(bytes, secret, victim) {
            let Ok(cell) = cell else {
                // Perhaps dead: a recovery puts back live cells alone, and a crash tears others.
                is_damaged = true;
                continue;
            };
            let hash = namespace.index.hash(&cell.key);
            let found = namespace.index.partition(hash).lock().get(hash, &cell.key);
            let Some(found) = found.filter(|found| found.place == Place::Cell(cell.location))
            else {
                continue;
            };
            // A copy has its value's number: a scan of the device must not take it for a newer value.
            let Some(to) = self.target.push(&cell.key, cell.sequence, cell.value) else {
                self.is_full = true;
                return true;
            };
            copied += cell_bytes(cell.value.len()) as u32;
            self.candidates.push(Candidate {
                key: cell.key,
                hash,
                found,
                to,
            });
        }
        !is_damaged || copied >= namespace.segments.live_bytes(victim)
    }
}
