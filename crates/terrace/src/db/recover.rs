//! From what a crash left in the arenas to MemTables.
//!
//! The decision is `write_buffer::recovery`'s; this file gathers its facts and carries it out. It
//! writes nothing, so that a read-only open is the same as an owner's up to here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace_region::{Arena, FrameInfo, HeaderState, Recovered, Region, SlotInfo};
use terrace_storage::Directory;

use crate::db::region_home::lost;
use crate::db::regions::region_error;
use crate::db::unlisted::Unlisted;
use crate::key::MAX_KEYSPACE;
use crate::levels::{LiveArena, ManifestState, ManifestTail, RegionLoss};
use crate::options::Options;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::record::Records;
use crate::write_buffer::recovery::{ArenaFacts, Plan, judge};
use crate::{Error, Result, SequenceNumber, parallel};

/// What the opening of a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recovery {
    /// The store had been closed in order.
    pub clean_close: bool,
    /// Arenas that held writes not yet in tables.
    pub arenas: usize,
    /// Frames taken from them.
    pub frames: usize,
    /// Writes taken from them.
    pub writes: u64,
    /// Writes that were readable but dropped, first and last number: the torn tail of a power cut,
    /// none of them ever promised to survive it.
    pub dropped: Option<(SequenceNumber, SequenceNumber)>,
    /// Behind the last write taken lies the beginning of a frame that is not whole: a write that
    /// was under way at the crash, and that nobody was told had succeeded, or damage to the last
    /// write.
    pub torn_tail: bool,
    /// The end of the manifest, which was no whole edit and was dropped.
    pub manifest_tail: Option<ManifestTail>,
    /// Names of whole tables that no edit lists and no arena has the writes of: files that a dropped
    /// end of the manifest may have listed. An owner keeps them with `.unlisted` behind their names.
    pub unlisted_tables: Vec<String>,
    /// Writes were missing with their region, and this opening went on without them.
    pub region_loss: Option<RegionLoss>,
    /// Arenas in the directory that are another store's, or of a newer release. They prove nothing
    /// about this store: it leaves them alone. Move them away, or run repair.
    #[serde(default)]
    pub foreign_files: Vec<PathBuf>,
}

/// The writes that were in arenas, oldest first.
pub(crate) struct RecoveredWrites {
    pub(crate) memtables: Vec<Arc<MemTable>>,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) report: Recovery,
}

impl RecoveredWrites {
    /// Nothing was in arenas.
    pub(crate) fn none(last_sequence: SequenceNumber) -> Self {
        RecoveredWrites {
            memtables: Vec::new(),
            last_sequence,
            report: Recovery::default(),
        }
    }

    /// What was in arenas is gone, and the caller goes on without. Numbers that were promised are
    /// not given again.
    pub(crate) fn lost(state: &ManifestState) -> Self {
        RecoveredWrites::none(state.flushed_sequence).without_the_rest(state)
    }

    /// Bytes of the arenas that they take.
    pub(crate) fn bytes(&self) -> u64 {
        let ends = self.memtables.iter().map(|table| table.arena().end_bytes());
        ends.map(|end| end as u64).sum()
    }

    /// Looks for tables that a dropped end of the manifest may have listed. Numbers in them are not
    /// given again.
    pub(crate) fn look_for_unlisted(
        &mut self,
        directory: &dyn Directory,
        state: &ManifestState,
    ) -> Result<Unlisted> {
        let is_tail_dropped = self.report.manifest_tail.is_some();
        let unlisted = Unlisted::find(directory, state, is_tail_dropped, self.last_taken())?;
        self.last_sequence = self.last_sequence.max(unlisted.last_sequence);
        Ok(unlisted)
    }

    /// Returns the last number of a write that is there. Those that were promised and are lost are above.
    pub(crate) fn last_taken(&self) -> SequenceNumber {
        let loss = self.report.region_loss;
        loss.map_or(self.last_sequence, |loss| loss.kept)
    }

    /// Nothing behind the last write taken is left.
    fn without_the_rest(mut self, state: &ManifestState) -> Self {
        let loss = state.loss_after(self.last_sequence);
        self.last_sequence = loss.promised;
        self.report.region_loss = Some(loss);
        self
    }
}

/// Reads the live arenas and takes what is to be taken.
///
/// # Errors
/// [`Error::RegionLost`] if an arena is missing and that is not accepted, [`Error::Corruption`] if
/// acknowledged bytes are damaged.
pub(crate) fn recover(
    region: &Region,
    state: &ManifestState,
    options: &Options,
) -> Result<RecoveredWrites> {
    let (arenas, is_rest_lost) = read_arenas(region, state, options)?;
    check_keyspaces(&arenas, state, options)?;
    let facts: Vec<ArenaFacts> = arenas.iter().map(facts_of).collect();
    // What was promised may be in the arenas that are accepted as lost.
    let persisted_until = if is_rest_lost {
        0
    } else {
        state.persisted_until
    };
    let plan = judge(&facts, state.flushed_sequence, persisted_until).map_err(|damage| {
        let arena = damage.arena.and_then(|position| arenas.get(position));
        let (file, offset) = match arena {
            Some(found) => (found.arena.file(), damage.offset as u64),
            // No arena is listed that could hold the rest.
            None => (&*state.read_from.0, state.read_from.1),
        };
        Error::corruption(file, offset, damage.detail)
    })?;
    let taken = take(&arenas, &plan, options, state.identity.hash_seed)?;
    Ok(if is_rest_lost {
        taken.without_the_rest(state)
    } else {
        taken
    })
}

/// Looks at the headers of all arenas. Fails if one of this store has a generation that no edit
/// issued: the manifest lost its end. Returns the files that are no edit's and are left alone.
pub(crate) fn check_evidence(region: &Region, state: &ManifestState) -> Result<Vec<PathBuf>> {
    let slots = region.slots().map_err(region_error)?;
    if let Some((slot, generation)) = unissued(&slots, state).next() {
        return Err(lost_end(state, &region.file(slot), generation));
    }
    let left_alone = slots
        .iter()
        .filter(|slot| slot.header.is_left_alone() && !state.is_in_live_slot(slot.number));
    Ok(left_alone.map(|slot| region.file(slot.number)).collect())
}

/// The arenas of this store, slot and generation, that no edit of the manifest issued.
pub(crate) fn unissued(
    slots: &[SlotInfo],
    state: &ManifestState,
) -> impl Iterator<Item = (u64, u64)> {
    let next = state.next_generation;
    slots.iter().filter_map(move |slot| match slot.header {
        HeaderState::Intact(header) if header.generation >= next => {
            Some((slot.number, header.generation))
        }
        _ => None,
    })
}

/// The error for an arena of a generation that no edit issued.
pub(crate) fn lost_end(state: &ManifestState, file: &Path, generation: u64) -> Error {
    let known = state.next_generation.saturating_sub(1);
    let detail = format!(
        "its generation is {generation}, the manifest knows none above {known}: the manifest has \
         lost its end, or the file is of a copy of this store"
    );
    Error::corruption(file, 0, detail)
}

/// Reads a live arena. The header of another generation than its own, or the one that it was to
/// replace, is that of another file: one of an earlier time, or of a copy of the store.
pub(crate) fn read_live(
    region: &Region,
    generation: u64,
    live: &LiveArena,
) -> terrace_region::Result<Recovered> {
    let found = region.recover(live.slot, generation)?;
    let in_header = match found.header {
        HeaderState::Intact(header) => header.generation,
        HeaderState::Blank => 0,
        // A damaged header is judged with its frames.
        _ => return Ok(found),
    };
    if live.may_have_in_header(in_header, generation) {
        return Ok(found);
    }
    Err(terrace_region::Error::Foreign {
        file: region.file(live.slot),
        detail: format!(
            "its generation is {in_header}, and the manifest lists {generation}: it is of another \
             time, or of a copy of this store"
        ),
    })
}

/// Fails if a frame names a keyspace that no edit issued: the manifest lost its end. A keyspace is
/// durable before the first write to it.
fn check_keyspaces(arenas: &[Recovered], state: &ManifestState, options: &Options) -> Result<()> {
    let threads = parallel::threads(options);
    let unissued = parallel::map("check keyspaces", arenas, threads, |found| {
        unissued_keyspace(found, state.next_keyspace)
    })?;
    let mut found = arenas.iter().zip(unissued);
    let Some((arena, (offset, keyspace))) =
        found.find_map(|(arena, found)| Some((&arena.arena, found?)))
    else {
        return Ok(());
    };
    let detail = format!(
        "a write in it is for keyspace {keyspace}, the manifest knows none above {}: the manifest \
         has lost its end",
        state.next_keyspace.saturating_sub(1)
    );
    Err(Error::corruption(arena.file(), offset as u64, detail))
}

/// Returns the first such keyspace, and the offset of its frame.
fn unissued_keyspace(found: &Recovered, next_keyspace: u32) -> Option<(usize, u32)> {
    found.scan.frames.iter().find_map(|frame| {
        let payload = found
            .arena
            .read(frame.payload_offset(), frame.payload_bytes)?;
        let mut records = Records::new(payload).map_while(std::result::Result::ok);
        let record = records.find(|record| record.keyspace >= next_keyspace)?;
        Some((frame.offset, record.keyspace))
    })
}

/// Fails if a frame of a live arena names a keyspace that no edit issued. Arenas that cannot be read
/// prove nothing.
pub(crate) fn check_live_keyspaces(
    region: &Region,
    state: &ManifestState,
    options: &Options,
) -> Result<()> {
    let live = state.live_arenas.iter();
    let read = live.filter_map(|(generation, arena)| read_live(region, *generation, arena).ok());
    let arenas: Vec<Recovered> = read.collect();
    check_keyspaces(&arenas, state, options)
}

/// The live arenas, oldest first, up to one that is accepted as lost: no write behind a gap may be
/// taken. Whether there was such a one.
fn read_arenas(
    region: &Region,
    state: &ManifestState,
    options: &Options,
) -> Result<(Vec<Recovered>, bool)> {
    let live: Vec<_> = state.live_arenas.iter().collect();
    let threads = parallel::threads(options);
    let read = parallel::map("read arenas", &live, threads, |(generation, arena)| {
        read_live(region, **generation, arena)
    })?;
    let mut arenas = Vec::new();
    for found in read {
        match found {
            Ok(found) => arenas.push(found),
            Err(terrace_region::Error::Missing { .. }) if !state.may_hold_writes() => {}
            Err(terrace_region::Error::Missing { .. }) if options.accept_region_loss => {
                return Ok((arenas, true));
            }
            Err(terrace_region::Error::Missing { file, .. }) => return Err(lost(state, &file)),
            Err(error) => return Err(region_error(error)),
        }
    }
    Ok((arenas, false))
}

pub(crate) fn facts_of(found: &Recovered) -> ArenaFacts {
    ArenaFacts {
        same_boot: found.is_same_boot,
        activated: found.is_activated,
        frames: found.scan.frames.clone(),
        end: found.scan.end_bytes,
        behind: found.scan.behind.clone(),
        search_given_up: !found.scan.search_complete,
    }
}

/// Builds a MemTable over the taken frames of each arena that has some.
pub(crate) fn take(
    arenas: &[Recovered],
    plan: &Plan,
    options: &Options,
    hash_seed: u64,
) -> Result<RecoveredWrites> {
    let mut report = Recovery {
        dropped: plan.dropped,
        torn_tail: arenas.iter().any(|found| found.scan.torn),
        ..Recovery::default()
    };
    let taken: Vec<_> = arenas
        .iter()
        .zip(&plan.frames_taken)
        .map(|(found, &count)| (found, found.scan.frames.get(..count).unwrap_or_default()))
        .filter(|(_, frames)| !frames.is_empty())
        .collect();
    let threads = parallel::threads(options);
    let built = parallel::map("index arenas", &taken, threads, |(found, frames)| {
        build(&found.arena, frames, options.arena_index_bytes, hash_seed)
    })?;
    let mut memtables = Vec::new();
    for ((_, frames), memtable) in taken.into_iter().zip(built) {
        report.arenas += 1;
        report.frames += frames.len();
        report.writes += count_writes(frames);
        memtables.push(Arc::new(memtable?));
    }
    Ok(RecoveredWrites {
        memtables,
        last_sequence: plan.last_sequence,
        report,
    })
}

fn build(
    arena: &Arc<Arena>,
    frames: &[FrameInfo],
    index_budget_bytes: u64,
    hash_seed: u64,
) -> Result<MemTable> {
    let index_bytes = index_budget_bytes.max(MemTable::index_bytes_for(count_writes(frames)));
    let memtable = MemTable::new(Arc::clone(arena), index_bytes, hash_seed);
    for frame in frames {
        memtable.insert_frame(
            frame.payload_offset(),
            frame.payload_bytes,
            frame.first_sequence,
        )?;
        if memtable.last_sequence() != frame.last_sequence() {
            let detail = format!(
                "the frame says that it holds {} records and holds another number of them",
                frame.record_count
            );
            return Err(Error::corruption(arena.file(), frame.offset as u64, detail));
        }
    }
    Ok(memtable)
}

/// Takes the frames from the first on that is whole and holds no records of a store out of what is read
/// of an arena: they are evidence, and none is taken.
pub(crate) fn cut_at_bad_records(
    found: &mut Recovered,
    index_budget_bytes: u64,
    hash_seed: u64,
) -> Result<()> {
    let frames = &found.scan.frames;
    let no_keyspace = unissued_keyspace(found, MAX_KEYSPACE);
    let no_keyspace = no_keyspace.map_or(u64::MAX, |(offset, _)| offset as u64);
    let bad = match build(&found.arena, frames, index_budget_bytes, hash_seed) {
        Err(Error::Corruption { offset, .. }) => offset.min(no_keyspace),
        built => {
            built?;
            no_keyspace
        }
    };
    let cut = frames.partition_point(|frame| frame.next_offset() as u64 <= bad);
    let mut behind = found.scan.frames.split_off(cut);
    if let Some(first) = behind.first() {
        found.scan.end_bytes = first.offset;
        behind.append(&mut found.scan.behind);
        found.scan.behind = behind;
    }
    Ok(())
}

fn count_writes(frames: &[FrameInfo]) -> u64 {
    let counts = frames.iter().map(|frame| u64::from(frame.record_count));
    counts.sum()
}

#[cfg(test)]
mod tests {
    use terrace_region::{FRAME_HEADER_BYTES, Frame};

    use super::*;
    use crate::WriteBatch;

    #[test]
    fn a_frame_that_counts_its_records_wrong_is_damage_of_its_arena() {
        let region = Region::volatile(1 << 20).unwrap();
        let slot = region.reserve(1 << 20).unwrap();
        let arena = region.activate(slot, 1).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value").unwrap();
        let frame = Frame {
            first_sequence: 1,
            record_count: 7,
            persisted_until: 0,
            payload: &[batch.payload()],
        };
        let at = arena.append(&frame).unwrap();
        let found = |record_count| FrameInfo {
            offset: at.payload_offset - FRAME_HEADER_BYTES,
            payload_bytes: at.payload_bytes,
            first_sequence: 1,
            record_count,
            persisted_until: 0,
        };
        let error = build(&arena, &[found(7)], 1 << 20, 7).err().unwrap();
        let Error::Corruption { file, offset, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((&*file, offset), (arena.file(), found(7).offset as u64));
        build(&arena, &[found(1)], 1 << 20, 7).unwrap();
    }
}
