//! The write path, top to bottom.
//!
//! A batch joins the commit queue. A leader takes a group of batches, and works alone. It holds the
//! group back if the store is behind, and makes room. It appends the group as one frame, and persists
//! it where a request asks for that. One pass inserts the group into the index, and forwards it to the
//! read buffer. Only then it raises the visible number. Before that, it ends each remembered stretch without visible
//! keys into which the group puts a key (`empty_stretch.rs`). Readers and recovery rely on this order: append,
//! persist, insert, forward, show. Visible records are in the index, with no older version in the
//! read buffer. Indexed records are in the arena. An acknowledged persistent write was persisted
//! with every write before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_lsm::key::MIN_OVERLAY_SEQUENCE;
use terrace_lsm::sync::Instant;
use terrace_lsm::time_profile::{Path, Sampling, Stage, enter_stage, sample};
use terrace_region::{Appended, Frame};

use crate::db::Store;
use crate::db::backlog::OwedDelay;
use crate::db::commit_queue::{Group, Request};
use crate::db::conflict::Condition;
use crate::db::keyspaces::live;
use crate::db::owners::{Files, Reads, Writes};
use crate::options::Durability;
use crate::stall_cause::StallCause;
use crate::write_buffer::arena_size::SPARE_BELOW_SIXTEENTHS;
use crate::write_buffer::batch::WriteBatch;
use crate::write_buffer::memtable::{Inserted, MemTable};
use crate::{Error, Result, SequenceNumber};

/// Options of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Acknowledge only when this write, and every one before it, survives a power cut.
    pub sync: bool,
    /// Do not wait where flush and compaction are behind: fail with
    /// [`Error::WouldStall`] at once. (A write that had begun to wait for
    /// those before it when they were held up waits with them.)
    pub no_stall: bool,
}

impl WriteOptions {
    /// Returns the defaults, with [`WriteOptions::sync`] as given.
    pub const fn with_sync(sync: bool) -> Self {
        WriteOptions {
            sync,
            no_stall: false,
        }
    }
}

/// The state that the leader of the commit queue owns.
pub(crate) struct Writer {
    pub(crate) active: Arc<MemTable>,
    /// The last number given.
    pub(crate) last_sequence: SequenceNumber,
    /// Every write up to here survives a power cut.
    pub(crate) persisted: SequenceNumber,
    pub(crate) owed_delay: OwedDelay,
    /// Room of the active arena, in sixteenths, below which the spare is asked for next.
    pub(crate) asks_below_sixteenths: u64,
}

/// The frames that may take an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    All,
    /// On a full disk: frames that only delete.
    Deletes,
}

impl Writer {
    pub(crate) fn new(
        active: Arc<MemTable>,
        last_sequence: SequenceNumber,
        persisted: SequenceNumber,
    ) -> Self {
        Writer {
            active,
            last_sequence,
            persisted,
            owed_delay: OwedDelay::default(),
            asks_below_sixteenths: SPARE_BELOW_SIXTEENTHS,
        }
    }
}

impl Store {
    /// Writes a batch as a whole. An empty batch with `sync` persists everything before it.
    pub(crate) fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.write_if(batch, options, None)
    }

    /// Writes a batch if a condition holds; [`Error::Conflict`] if not.
    pub(crate) fn write_if(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        condition: Option<Arc<Condition>>,
    ) -> Result<()> {
        self.lifecycle.check_process()?;
        if batch.is_empty() && !options.sync {
            return self.check_writable();
        }
        if options.sync {
            self.check_can_persist()?;
        }
        self.check_size(&batch)?;
        if let Some(of_batch) = batch.opening() {
            self.lifecycle.opening.check(of_batch)?;
        }
        // On a full disk deletes do not wait.
        let no_stall = options.no_stall
            && !(self.files.reserve.deletes_skip_waiting() && batch.only_deletes());
        if no_stall && self.metrics.stalls.is_stalled() {
            return Err(Error::WouldStall);
        }
        let request = Request {
            batch,
            sync: options.sync || self.writes.durability == Durability::PowerSafe,
            no_stall,
            condition,
        };
        match sample() {
            Sampling::Nothing => self.submit(request),
            sampled => self.submit_sampled(request, sampled),
        }
    }

    /// Refuses a batch that is larger than the store's limit.
    pub(crate) fn check_size(&self, batch: &WriteBatch) -> Result<()> {
        if batch.size_bytes() as u64 > self.options.max_batch_bytes() {
            return Err(Error::invalid(format!(
                "the batch has {} bytes; the largest may have {}",
                batch.size_bytes(),
                self.options.max_batch_bytes()
            )));
        }
        Ok(())
    }

    fn submit(&self, request: Request) -> Result<()> {
        let commit = |group: &mut Group<'_>| self.guard("commit", || self.commit(group));
        self.writes
            .queue
            .submit(request, || self.metrics.events.may_wait(), commit)
    }

    #[cold]
    fn submit_sampled(&self, request: Request, sampled: Sampling) -> Result<()> {
        if sampled == Sampling::Timed {
            return self.metrics.latencies.write.time(|| self.submit(request));
        }
        let _watched = self.metrics.time_profile.watch(Path::Write, Stage::Queue);
        self.submit(request)
    }

    /// Runs `action` as the only leader.
    pub(crate) fn as_leader<T>(&self, action: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        self.metrics.events.may_wait()?;
        let lead = || action(self.writer()?.lock().as_mut().ok_or(Error::Closed)?);
        self.writes.queue.alone(|| self.guard("leader", lead))
    }

    /// Has the caller lead, if no other thread leads or waits for it. `None` if one does, or if the
    /// caller may not wait for the store.
    ///
    /// # Errors
    /// Those of `action`; a process that has inherited the store, a poisoned or closed store.
    pub(crate) fn as_leader_if_idle<T>(
        &self,
        action: impl FnOnce(&mut Writer) -> Result<T>,
    ) -> Option<Result<T>> {
        self.metrics.events.may_wait().ok()?;
        let lead = || {
            self.check_writable()?;
            action(self.writer()?.lock().as_mut().ok_or(Error::Closed)?)
        };
        self.writes
            .queue
            .alone_if_idle(|| self.guard("leader", lead))
    }

    fn commit(&self, group: &mut Group<'_>) -> Result<()> {
        enter_stage(Stage::Admission);
        let mut writer = self.writer()?.lock();
        let writer = writer.as_mut().ok_or(Error::Closed)?;
        group.refuse(|request, earlier| self.judge(writer, request, earlier));
        let passes = self.files.reserve.deletes_skip_waiting() && group.only_deletes();
        let mut only_deletes = passes;
        self.files
            .write_or_only_deletes(passes, |admission, error| {
                if let Some(error) = error {
                    group.refuse_values(error);
                    only_deletes = true;
                }
                self.write_group(writer, group, admission)
            })?;
        self.reads.show(writer.last_sequence);
        if only_deletes {
            // Only now a range of these hides tables.
            self.lifecycle.background.compaction_wanted(self);
        }
        enter_stage(Stage::Queue);
        Ok(())
    }

    fn write_group(
        &self,
        writer: &mut Writer,
        group: &Group<'_>,
        admission: Admission,
    ) -> Result<()> {
        let mut batches = group.batches();
        match (batches.next(), batches.next()) {
            (None, _) if group.wants_sync() => self.persist_as_asked(writer),
            (None, _) => Ok(()),
            // The usual group needs no list.
            (Some(only), None) => {
                let payload = [only.payload()];
                self.write_frame(
                    writer,
                    &payload,
                    only.records(),
                    group.wants_sync(),
                    admission,
                )
            }
            _ => {
                let payload: Vec<&[u8]> = group.batches().map(WriteBatch::payload).collect();
                let records = group.batches().map(WriteBatch::records).sum();
                self.write_frame(writer, &payload, records, group.wants_sync(), admission)
            }
        }
    }

    /// Checks that a request may be written behind `earlier`, which its group holds before it.
    fn judge(&self, writer: &Writer, request: &Request, earlier: &[&WriteBatch]) -> Result<()> {
        let view = self.reads.view.load();
        for &keyspace in request.batch.other_keyspaces() {
            live(&view.version, keyspace)?;
        }
        if let Some(condition) = &request.condition {
            let (last, seed) = (writer.last_sequence, self.writes.hash_seed);
            self.reads
                .check_condition(&view, last, condition, earlier, seed)?;
        }
        if request.no_stall && self.would_stall(writer, &request.batch) {
            return Err(Error::WouldStall);
        }
        Ok(())
    }

    /// Writes one frame as soon as the store is not behind and there is room for it.
    pub(crate) fn write_frame(
        &self,
        writer: &mut Writer,
        payload: &[&[u8]],
        records: u32,
        sync: bool,
        admission: Admission,
    ) -> Result<()> {
        let payload_bytes = payload.iter().map(|part| part.len()).sum();
        match admission {
            Admission::All => {
                self.hold_back(writer, payload_bytes)?;
                self.make_room(writer, payload_bytes, records)?;
            }
            Admission::Deletes => self.make_room_for_deletes(writer, payload_bytes, records)?,
        }
        self.append(writer, payload, records, sync, admission)
    }

    /// Stores the frame, persists it if asked to, and makes its records findable.
    fn append(
        &self,
        writer: &mut Writer,
        payload: &[&[u8]],
        records: u32,
        sync: bool,
        admission: Admission,
    ) -> Result<()> {
        // Again: a listener or a condition may have forked since.
        self.lifecycle.check_process()?;
        let first_sequence = writer.last_sequence + 1;
        let last_sequence = writer.last_sequence + u64::from(records);
        if last_sequence >= MIN_OVERLAY_SEQUENCE {
            return Err(Error::invalid(
                "nearly 2^56 writes: the sequence numbers are used up",
            ));
        }
        debug_assert!(
            self.reads.is_active(&writer.active),
            "a frame goes to an arena that is not the youngest one"
        );
        let persisted_until = writer.persisted;
        let frame = Frame {
            first_sequence,
            record_count: records,
            persisted_until,
            payload,
        };
        enter_stage(Stage::ArenaCopy);
        let stored = self.store_frame(writer, &frame, admission)?;
        writer.last_sequence = last_sequence;
        self.metrics
            .counters
            .user_bytes
            .fetch_add(stored.payload_bytes as u64, Ordering::Relaxed);
        if sync {
            self.persist_as_asked(writer)?;
        }
        enter_stage(Stage::Insert);
        let buffer = self.reads.read_buffer.as_ref();
        let mut forwarding =
            buffer.and_then(|buffer| buffer.begin_forward(first_sequence..=last_sequence));
        let forward = |record: &Inserted<'_>| {
            if let Some(forwarding) = &mut forwarding {
                forwarding.take(record);
            }
        };
        writer
            .active
            .insert_frame(
                stored.payload_offset,
                stored.payload_bytes,
                first_sequence,
                forward,
            )
            // The frame is stored but cannot be read: nothing may be written on top of it.
            .map_err(|error| self.poison(error))?;
        self.end_forward(forwarding, stored.payload_bytes);
        self.reads.empty_stretches.tell(payload, first_sequence);
        Ok(())
    }

    /// Copies a frame into the active arena. A failure leaves nothing behind: the next frame takes the
    /// same place and numbers. On a file system that copies on write a frame needs free space, even in
    /// an arena that has room for it. Deletes may use the reserve for that, then the space of arenas that
    /// are free, then that of tables under a deleted range before them. They wait for no compaction.
    #[inline]
    fn store_frame(
        &self,
        writer: &Writer,
        frame: &Frame<'_>,
        admission: Admission,
    ) -> Result<Appended> {
        let arena = writer.active.arena();
        let store = || {
            arena
                .append(frame)
                .map_err(|error| self.region_error(error))
        };
        match admission {
            Admission::All => store(),
            Admission::Deletes => {
                let ways = [Store::gives_free_slots, Store::gives_hidden_tables];
                ways.iter()
                    .fold(self.with_reserve(store), |stored, gives| match stored {
                        Err(error) if error.is_no_space() && gives(self) => store(),
                        stored => stored,
                    })
            }
        }
    }

    /// Makes every write so far survive a power cut, the oldest arena first. Recovery ends at the
    /// first gap, so a persisted frame behind an unpersisted arena would be lost with it.
    fn persist_as_asked(&self, writer: &mut Writer) -> Result<()> {
        self.writes.persist_on_seal.store(true, Ordering::Relaxed);
        self.persist_arenas(writer)
    }

    /// Persists like [`Store::persist_as_asked`] before an edit that must not survive without the writes
    /// before it, as far as this store makes anything survive.
    pub(crate) fn persist_before_edit(&self, writer: &mut Writer) -> Result<()> {
        match self.check_can_persist() {
            Ok(()) => self.persist_arenas(writer),
            Err(_) => Ok(()),
        }
    }

    fn persist_arenas(&self, writer: &mut Writer) -> Result<()> {
        self.check_directory_is_there()?;
        let view = self.reads.view.load();
        let mut oldest_first = view.memtables.iter().rev();
        let persist = || oldest_first.try_for_each(|table| table.arena().persist());
        let persisted = {
            let _persist = self.metrics.time_profile.exact(Path::Write, Stage::Persist);
            self.metrics.latencies.sync.time(persist)
        };
        persisted.map_err(|error| self.persist_failed(error))?;
        debug_assert!(
            self.writes.persisted() <= writer.last_sequence,
            "the persisted number goes back to {}",
            writer.last_sequence
        );
        writer.persisted = writer.last_sequence;
        self.writes
            .persisted
            .store(writer.persisted, Ordering::Release);
        Ok(())
    }

    /// Sees to it that the active MemTable takes the frame, rolling over to another arena if not.
    #[inline]
    fn make_room(&self, writer: &mut Writer, payload_bytes: usize, records: u32) -> Result<()> {
        match writer.active.has_room(payload_bytes, u64::from(records)) {
            true => Ok(()),
            false => self.roll_over_for(writer, payload_bytes, records),
        }
    }

    #[cold]
    fn roll_over_for(&self, writer: &mut Writer, payload_bytes: usize, records: u32) -> Result<()> {
        let fresh = if self.fits_next_arena(payload_bytes, records) {
            let _stall = self.metrics.stalls.begin();
            let _held_back = self
                .metrics
                .time_profile
                .exact(Path::Write, Stage::HeldBack);
            let began = Instant::now();
            let spare = self.take_spare();
            self.metrics
                .stalls
                .add_if_long(StallCause::SealedArenas, began.elapsed());
            MemTable::new(
                spare?,
                self.options.arena_index_bytes(),
                self.writes.hash_seed,
            )
        } else {
            self.arena_for_batch(payload_bytes, records)?
        };
        self.roll_over(writer, Arc::new(fresh))?;
        // Where space is short, a spare may be smaller than the batch expects.
        self.make_room(writer, payload_bytes, records)
    }

    /// Makes room on a full disk for a frame that only deletes. It takes the smallest arena, and
    /// nothing holds it back, for merges may be waiting for the space that it gives.
    fn make_room_for_deletes(
        &self,
        writer: &mut Writer,
        payload_bytes: usize,
        records: u32,
    ) -> Result<()> {
        if writer.active.has_room(payload_bytes, u64::from(records)) {
            return Ok(());
        }
        let fresh = self.with_reserve(|| self.arena_for_deletes(payload_bytes, records))?;
        self.roll_over(writer, Arc::new(fresh))
    }

    /// Ends an arena, and wipes a failed frame out. That may need space, on a file system that copies on
    /// write.
    pub(crate) fn seal(&self, active: &MemTable) -> Result<()> {
        self.with_reserve(|| {
            let sealed = active.arena().seal();
            sealed.map_err(|error| self.persist_failed(error))
        })
    }

    /// Seals the active arena and goes on in another one.
    ///
    /// # Errors
    /// Nothing has changed: the active arena holds a failed frame that cannot be wiped out yet.
    pub(crate) fn roll_over(&self, writer: &mut Writer, fresh: Arc<MemTable>) -> Result<()> {
        if let Err(error) = self.seal(&writer.active) {
            self.give_up(&fresh);
            return Err(error);
        }
        writer.active = Arc::clone(&fresh);
        writer.asks_below_sixteenths = SPARE_BELOW_SIXTEENTHS;
        self.change_view(|view| view.memtables.insert(0, Arc::clone(&fresh)));
        self.writes.spare_was_taken(fresh.arena());
        self.lifecycle.background.spare_wanted(self);
        self.lifecycle.background.flush_wanted(self);
        Ok(())
    }
}

impl Writes {
    /// Takes the leader's role away for good: no write comes after this.
    pub(crate) fn as_leader_to_close(&self) -> Option<Writer> {
        self.queue.alone(|| self.writer.lock().take())
    }
}

impl Reads {
    fn is_active(&self, table: &Arc<MemTable>) -> bool {
        let view = self.view.load();
        let youngest = view.memtables.first();
        youngest.is_some_and(|youngest| Arc::ptr_eq(youngest, table))
    }
}

impl Files {
    /// Writes by `write`; where a full disk refuses that, its deletes only, for which `write` gets the
    /// error. Deletes that pass at once do not ask for more.
    #[inline]
    pub(crate) fn write_or_only_deletes(
        &self,
        passes: bool,
        mut write: impl FnMut(Admission, Option<&Error>) -> Result<()>,
    ) -> Result<()> {
        if passes {
            self.reserve.count_skipped();
            return write(Admission::Deletes, None);
        }
        match write(Admission::All, None) {
            // No part of it was written.
            Err(error) if error.is_no_space() => {
                self.reserve.met_full_disk();
                write(Admission::Deletes, Some(&error))
            }
            written => written,
        }
    }
}
