//! From the arenas that a crash left to MemTables.
//!
//! The decision is `write_buffer::recovery`'s; this file gathers its facts and carries it out. It
//! writes nothing, so that a read-only open is the same as an owner's up to here.
//!
//! Goal: an opening takes the memory of one arena's frames, however many arenas there are and however
//! large they are. It searches arenas in windows and checks their frames on the way. It loads the
//! frames that it takes only when they are needed; an owner loads one arena after the other. Arenas that
//! a full disk leaves without tables are in memory together, as in the store before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_lsm::data_files::DataFiles;
use terrace_lsm::key::MAX_KEYSPACE;
use terrace_lsm::levels::{LiveArena, ManifestState, ManifestTail};
use terrace_lsm::region_loss::RegionLoss;
use terrace_region::{Arena, Expected, HeaderState, Placement, Recovered, Region, SlotInfo};

use crate::db::region_home::lost;
use crate::db::regions::region_error;
use crate::db::unlisted::Unlisted;
use crate::options::Options;
use crate::write_buffer::frame_check::FrameFaults;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::recovery::{ArenaFacts, Plan, judge};
use crate::{Error, Result, SequenceNumber, parallel};

/// Findings of an opening of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the store had been closed in order.
    pub clean_close: bool,
    /// Arenas that held writes not yet in tables.
    pub arenas: usize,
    /// Frames taken from them.
    pub frames: usize,
    /// Writes taken from them.
    pub writes: u64,
    /// First and last number of writes that were readable but dropped: the torn tail of a power
    /// cut, none of them ever promised to survive it.
    pub dropped: Option<(SequenceNumber, SequenceNumber)>,
    /// Whether the beginning of a frame that is not whole lies behind the last write taken. It is a
    /// write that was under way at the crash and never acknowledged, or damage to the last write.
    pub torn_tail: bool,
    /// End of the manifest, which was no whole edit and was dropped.
    pub manifest_tail: Option<ManifestTail>,
    /// Names of whole tables that no edit lists and no arena has the writes of: files that a dropped
    /// end of the manifest may have listed. An owner keeps them with `.unlisted` behind their names.
    pub unlisted_tables: Vec<String>,
    /// Loss of the writes that were missing with their region, without which this opening went on.
    pub region_loss: Option<RegionLoss>,
    /// Arenas in the directory that are another store's, or of a newer release. They prove nothing
    /// about this store: it leaves them alone. Move them away, or run repair.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, with = "terrace_lsm::serial::paths::foreign_files")
    )]
    pub foreign_files: Vec<PathBuf>,
}

/// Maximum bytes of frames that a reader holds in memory of its own. Beyond that it maps files, so that
/// the kernel may take the memory back. Up to that no failing medium can end the process.
const HELD_BYTES: u64 = 16 << 20;

/// The writes that were in arenas, oldest first.
#[derive(Debug)]
pub struct RecoveredWrites {
    pub(crate) arenas: Vec<TakenArena>,
    /// Generations of arenas that are there and hold no frame.
    pub(crate) empty: Vec<u64>,
    /// The last number that was given, as far as is known.
    pub last_sequence: SequenceNumber,
    /// The findings.
    pub report: Recovery,
}

/// An arena with frames that recovery takes. They are on the medium.
#[derive(Debug)]
pub(crate) struct TakenArena {
    found: Arc<Recovered>,
    /// The number of the first write taken.
    first_sequence: SequenceNumber,
    /// The number of the last one: frames behind it stay.
    last_taken: SequenceNumber,
    index_budget_bytes: u64,
    hash_seed: u64,
}

impl TakenArena {
    pub(crate) fn generation(&self) -> u64 {
        self.found.generation()
    }

    /// Returns the number of the last write taken.
    pub(crate) fn last_taken(&self) -> SequenceNumber {
        self.last_taken
    }

    /// Returns whether whole frames that are not taken lie behind those that are.
    pub(crate) fn is_followed(&self) -> bool {
        self.found.scan.behind.is_some()
    }

    /// Returns the bytes of its frames.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.found.scan.end_bytes as u64
    }

    fn writes(&self) -> u64 {
        (self.last_taken + 1).saturating_sub(self.first_sequence)
    }

    /// Reads the frames and makes their records findable.
    pub(crate) fn load(&self, placement: Placement) -> Result<Arc<MemTable>> {
        self.index(self.found.load(placement).map_err(region_error)?)
    }

    /// Does the same with an arena that can be persisted and holds its slot: it waits for its flush.
    pub(crate) fn resume(&self, region: &Region) -> Result<Arc<MemTable>> {
        self.index(region.resume(&self.found).map_err(region_error)?)
    }

    fn index(&self, arena: Arc<Arena>) -> Result<Arc<MemTable>> {
        let index_bytes = MemTable::index_bytes_for(self.writes()).max(self.index_budget_bytes);
        let memtable = MemTable::new(Arc::clone(&arena), index_bytes, self.hash_seed);
        for frame in arena.frames() {
            let frame = frame.map_err(region_error)?.info;
            if frame.last_sequence() > self.last_taken {
                break;
            }
            memtable.insert_frame(
                frame.payload_offset(),
                frame.payload_bytes,
                frame.first_sequence,
                |_| {},
            )?;
        }
        Ok(Arc::new(memtable))
    }
}

impl RecoveredWrites {
    /// Returns the recovery of a store without writes in arenas.
    pub(crate) fn none(last_sequence: SequenceNumber) -> Self {
        RecoveredWrites {
            arenas: Vec::new(),
            empty: Vec::new(),
            last_sequence,
            report: Recovery::default(),
        }
    }

    /// Loads all arenas, oldest first.
    pub(crate) fn load(&self) -> Result<Vec<Arc<MemTable>>> {
        let mut held_bytes = 0;
        let load = |arena: &TakenArena| {
            held_bytes += arena.frame_bytes();
            arena.load(match held_bytes <= HELD_BYTES {
                true => Placement::Memory,
                false => Placement::Mapping,
            })
        };
        self.arenas.iter().map(load).collect()
    }

    /// Returns the recovery of a store whose arenas are gone: the caller goes on without. Numbers
    /// that were promised are not given again.
    pub fn lost(state: &ManifestState) -> Self {
        RecoveredWrites::none(state.flushed_sequence).without_the_rest(state)
    }

    /// Returns the bytes of the frames in these arenas.
    pub(crate) fn bytes(&self) -> u64 {
        self.arenas.iter().map(TakenArena::frame_bytes).sum()
    }

    /// Looks for tables that a dropped end of the manifest may have listed. Numbers in them are not
    /// given again.
    pub(crate) fn look_for_unlisted(
        &mut self,
        data: &DataFiles,
        state: &ManifestState,
    ) -> Result<Unlisted> {
        let is_tail_dropped = self.report.manifest_tail.is_some();
        let unlisted = Unlisted::find(data, state, is_tail_dropped, self.last_taken())?;
        self.last_sequence = self.last_sequence.max(unlisted.last_sequence);
        Ok(unlisted)
    }

    /// Returns the last number of a write that is there. Those that were promised and are lost are above.
    pub fn last_taken(&self) -> SequenceNumber {
        let loss = self.report.region_loss;
        loss.map_or(self.last_sequence, |loss| loss.kept)
    }

    /// Notes that nothing behind the last write taken is left.
    fn without_the_rest(mut self, state: &ManifestState) -> Self {
        let loss = state.loss_after(self.last_sequence);
        self.last_sequence = loss.promised;
        self.report.region_loss = Some(loss);
        self
    }
}

/// Returns the recovery of a store that needs none of its arenas.
///
/// # Errors
/// [`Error::Corruption`] if the manifest promises writes that no table holds.
pub(crate) fn recover_nothing(state: &ManifestState) -> Result<RecoveredWrites> {
    let judged = judge(&[], state.flushed_sequence, state.persisted_until);
    judged.map_err(|damage| without_arena(state, damage.detail))?;
    Ok(RecoveredWrites::none(state.flushed_sequence))
}

/// Returns the error for damage that lies in no arena: none is listed that could hold the rest.
fn without_arena(state: &ManifestState, detail: impl Into<String>) -> Error {
    Error::corruption(&state.read_from.0, state.read_from.1, detail)
}

/// Reads the live arenas and takes the frames that the decision names.
///
/// # Errors
/// [`Error::RegionLost`] if an arena is missing and that is not accepted, [`Error::Corruption`] if
/// acknowledged bytes are damaged.
pub fn recover(
    region: &Region,
    state: &ManifestState,
    options: &Options,
) -> Result<RecoveredWrites> {
    let (arenas, is_rest_lost) = read_arenas(region, state, options)?;
    check_keyspaces(&arenas, state)?;
    let facts: Vec<ArenaFacts> = arenas.iter().map(|arena| facts_of(&arena.found)).collect();
    // Promised writes may be in the arenas that are accepted as lost.
    let persisted_until = if is_rest_lost {
        0
    } else {
        state.persisted_until
    };
    let plan = judge(&facts, state.flushed_sequence, persisted_until).map_err(|damage| {
        let arena = damage.arena.and_then(|position| arenas.get(position));
        match arena {
            Some(arena) => {
                Error::corruption(arena.found.file(), damage.offset as u64, damage.detail)
            }
            None => without_arena(state, damage.detail),
        }
    })?;
    check_records(&arenas, &plan)?;
    let found: Vec<_> = arenas
        .into_iter()
        .map(|arena| Arc::new(arena.found))
        .collect();
    let taken = take(&found, &plan, options, state.identity.hash_seed);
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

/// Returns the arenas of this store, slot and generation, that no edit of the manifest issued.
pub fn unissued(slots: &[SlotInfo], state: &ManifestState) -> impl Iterator<Item = (u64, u64)> {
    let next = state.next_generation;
    let generations = slots
        .iter()
        .filter_map(|slot| Some((slot.number, own_generation(slot)?)));
    generations.filter(move |(_, generation)| *generation >= next)
}

/// Returns the generation of an arena of this store.
fn own_generation(slot: &SlotInfo) -> Option<u64> {
    match slot.header {
        HeaderState::Intact(header) => Some(header.generation),
        _ => None,
    }
}

/// Returns the error for an arena of a generation that no edit issued.
pub fn lost_end(state: &ManifestState, file: &Path, generation: u64) -> Error {
    let known = state.next_generation.saturating_sub(1);
    let detail = format!(
        "its generation is {generation}, the manifest knows none above {known}: the manifest has \
         lost its end, or the file is of a copy of this store"
    );
    Error::corruption(file, 0, detail)
}

/// A live arena as recovery found it, with the faults of its frames.
#[derive(Debug)]
pub(crate) struct LiveFound {
    found: Recovered,
    faults: FrameFaults,
}

/// Looks for the frames of a live arena. A length that the manifest does not list is damage.
fn read_live(
    region: &Region,
    generation: u64,
    live: &LiveArena,
    next_keyspace: u32,
) -> terrace_region::Result<LiveFound> {
    let expected = Expected {
        capacity_bytes: Some(live.capacity_bytes),
        end_bytes: live.end_bytes,
    };
    let mut faults = FrameFaults::default();
    let found = region.recover_as(live.slot, generation, expected, &mut |frame, window| {
        faults.check(frame, window, next_keyspace)?;
        Ok(true)
    })?;
    check_generation(region, &found, live)?;
    Ok(LiveFound { found, faults })
}

/// Looks for the frames of an arena up to the first whole frame that holds no records of a store,
/// whatever the arena's length. Later frames are evidence, and none is taken. `live` is the arena's
/// entry in the manifest.
pub(crate) fn read_to_bad_records(
    region: &Region,
    slot: u64,
    generation: u64,
    live: Option<&LiveArena>,
) -> terrace_region::Result<Recovered> {
    let mut faults = FrameFaults::default();
    let expected = Expected::default();
    let found = region.recover_as(slot, generation, expected, &mut |frame, window| {
        faults.check(frame, window, MAX_KEYSPACE)
    })?;
    if let Some(live) = live {
        check_generation(region, &found, live)?;
    }
    Ok(found)
}

/// Judges the header of a live arena. It has the arena's own generation or the one that it was to
/// replace. Any other one belongs to another file: of an earlier time, or of a copy of the store.
fn check_generation(
    region: &Region,
    found: &Recovered,
    live: &LiveArena,
) -> terrace_region::Result<()> {
    let generation = found.generation();
    let in_header = match found.header {
        HeaderState::Intact(header) => header.generation,
        HeaderState::Blank => 0,
        // A damaged header is judged with its frames.
        _ => return Ok(()),
    };
    if live.may_have_in_header(in_header, generation) {
        return Ok(());
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
fn check_keyspaces(arenas: &[LiveFound], state: &ManifestState) -> Result<()> {
    let mut unissued = arenas.iter().filter_map(|arena| {
        let unissued = arena.faults.unissued_keyspace?;
        Some((arena.found.file(), unissued))
    });
    let Some((file, unissued)) = unissued.next() else {
        return Ok(());
    };
    let detail = format!(
        "a write in it is for keyspace {}, the manifest knows none above {}: the manifest has lost \
         its end",
        unissued.keyspace,
        state.next_keyspace.saturating_sub(1)
    );
    Err(Error::corruption(file, unissued.offset as u64, detail))
}

/// Fails if a frame to be taken holds no records of a store.
fn check_records(arenas: &[LiveFound], plan: &Plan) -> Result<()> {
    for (arena, taken) in arenas.iter().zip(&plan.last_taken) {
        if let (Some(bad), Some(_)) = (&arena.faults.bad_records, taken)
            && bad.offset < arena.found.scan.end_bytes
        {
            let detail = bad.detail.clone();
            return Err(Error::corruption(
                arena.found.file(),
                bad.offset as u64,
                detail,
            ));
        }
    }
    Ok(())
}

/// Fails if a frame of a live arena names a keyspace that no edit issued. Arenas that cannot be read
/// prove nothing.
pub fn check_live_keyspaces(region: &Region, state: &ManifestState) -> Result<()> {
    let live = state.live_arenas.iter();
    let read = live.filter_map(|(generation, arena)| {
        read_live(region, *generation, arena, state.next_keyspace).ok()
    });
    let arenas: Vec<LiveFound> = read.collect();
    check_keyspaces(&arenas, state)
}

/// Returns the live arenas, oldest first, up to one that is accepted as lost, and whether there was
/// such a one. No write behind a gap may be taken.
fn read_arenas(
    region: &Region,
    state: &ManifestState,
    options: &Options,
) -> Result<(Vec<LiveFound>, bool)> {
    let live: Vec<_> = state.live_arenas.iter().collect();
    let threads = parallel::threads(options);
    let read = parallel::map("read arenas", &live, threads, |(generation, arena)| {
        read_live(region, **generation, arena, state.next_keyspace)
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
        scan: found.scan,
    }
}

/// Takes the frames of each arena that the plan names.
pub(crate) fn take(
    arenas: &[Arc<Recovered>],
    plan: &Plan,
    options: &Options,
    hash_seed: u64,
) -> RecoveredWrites {
    let empty = arenas.iter().filter(|found| !found.scan.has_frames());
    let mut recovered = RecoveredWrites {
        arenas: Vec::new(),
        empty: empty.map(|found| found.generation()).collect(),
        last_sequence: plan.last_sequence,
        report: Recovery {
            dropped: plan.dropped,
            torn_tail: arenas.iter().any(|found| found.scan.torn),
            ..Recovery::default()
        },
    };
    for (found, &last_taken) in arenas.iter().zip(&plan.last_taken) {
        let (Some(run), Some(last_taken)) = (found.scan.run, last_taken) else {
            continue;
        };
        let taken = TakenArena {
            found: Arc::clone(found),
            first_sequence: run.first_sequence,
            last_taken,
            index_budget_bytes: options.arena_index_bytes(),
            hash_seed,
        };
        recovered.report.arenas += 1;
        recovered.report.frames += run.frames as usize;
        recovered.report.writes += taken.writes();
        recovered.arenas.push(taken);
    }
    recovered
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use super::*;
    use crate::Statistics;

    fn path() -> PathBuf {
        OsStr::from_bytes(b"/a\xff").into()
    }

    #[test]
    fn statistics_keep_a_path_that_is_not_text() {
        let statistics = Statistics {
            region_dir: Some(path()),
            recovery: Recovery {
                foreign_files: vec!["/b".into(), path()],
                ..Recovery::default()
            },
            ..Statistics::default()
        };
        let json = serde_json::to_string(&statistics).unwrap();
        let shown = "\"region_dir\":\"/a\u{fffd}\",\"region_dir_hex\":\"2f61ff\"";
        assert!(json.contains(shown), "{json}");
        let again: Statistics = serde_json::from_str(&json).unwrap();
        assert_eq!(again.region_dir, statistics.region_dir);
        let files = statistics.recovery.foreign_files;
        assert_eq!(again.recovery.foreign_files, files);
    }

    #[test]
    fn statistics_with_paths_of_text_have_no_other_names() {
        let statistics = Statistics {
            region_dir: Some("/a".into()),
            ..Statistics::default()
        };
        let json = serde_json::to_string(&statistics).unwrap();
        assert!(!json.contains("_hex"), "{json}");
        assert!(json.contains("\"region_dir\":\"/a\""), "{json}");
        let again: Statistics = serde_json::from_str(&json).unwrap();
        assert_eq!(again.region_dir, statistics.region_dir);
        let json = serde_json::to_string(&Statistics::default()).unwrap();
        assert!(json.contains("\"region_dir\":null"), "{json}");
    }
}
