//! From what a crash left in the arenas to MemTables.
//!
//! The decision is `write_buffer::recovery`'s; this file gathers its facts and carries it out. It
//! writes nothing, so that a read-only open is the same as an owner's up to here.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_region::{Recovered, Region};

use crate::db::open::region_error;
use crate::levels::ManifestState;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::recovery::{ArenaFacts, Plan, judge};
use crate::{Error, Result, SequenceNumber};

/// What the opening of a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The manifest ended in an edit that was never completed.
    pub torn_manifest: bool,
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
}

/// Reads the live arenas and takes what is to be taken.
///
/// # Errors
/// [`Error::RegionLost`] if an arena is missing, [`Error::Corruption`] if acknowledged bytes are
/// damaged.
pub(crate) fn recover(
    region: &Region,
    state: &ManifestState,
    index_budget_bytes: u64,
) -> Result<RecoveredWrites> {
    let arenas = read_arenas(region, state)?;
    let facts: Vec<ArenaFacts> = arenas.iter().map(facts_of).collect();
    let plan = judge(&facts, state.flushed_sequence, state.persisted_until).map_err(|damage| {
        let arena = damage.arena.and_then(|position| arenas.get(position));
        let file = arena.map_or_else(
            || PathBuf::from("MANIFEST"),
            |found| found.arena.file().to_path_buf(),
        );
        Error::corruption(&file, damage.offset as u64, damage.detail)
    })?;
    take(&arenas, &plan, index_budget_bytes)
}

/// Fails if an arena that no edit names has a generation that no edit issued: the manifest lost
/// its end.
pub(crate) fn check_evidence(region: &Region, state: &ManifestState) -> Result<()> {
    for slot in region.slots().map_err(region_error)? {
        if let terrace_region::HeaderState::Intact(header) = slot.header
            && header.generation >= state.next_generation
        {
            return Err(region_error(terrace_region::Error::ManifestOlder {
                file: region.file(slot.number),
                expected: state.next_generation.saturating_sub(1),
                found: header.generation,
            }));
        }
    }
    Ok(())
}

fn read_arenas(region: &Region, state: &ManifestState) -> Result<Vec<Recovered>> {
    let live = state.live_arenas.iter();
    live.map(|(&generation, arena)| {
        region
            .recover(arena.slot, generation)
            .map_err(|error| match error {
                terrace_region::Error::Missing { file, .. } => Error::RegionLost {
                    path: file,
                    durable_sequence: state.flushed_sequence,
                },
                error => region_error(error),
            })
    })
    .collect()
}

fn facts_of(found: &Recovered) -> ArenaFacts {
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
fn take(arenas: &[Recovered], plan: &Plan, index_budget_bytes: u64) -> Result<RecoveredWrites> {
    let mut report = Recovery {
        dropped: plan.dropped,
        torn_tail: arenas.iter().any(|found| found.scan.torn),
        ..Recovery::default()
    };
    let mut memtables = Vec::new();
    for (found, &count) in arenas.iter().zip(&plan.frames_taken) {
        let frames = found.scan.frames.get(..count).unwrap_or_default();
        if frames.is_empty() {
            continue;
        }
        let writes: u64 = frames
            .iter()
            .map(|frame| u64::from(frame.record_count))
            .sum();
        let index_bytes = index_budget_bytes.max(MemTable::index_bytes_for(writes));
        let memtable = MemTable::new(Arc::clone(&found.arena), index_bytes);
        for frame in frames {
            memtable.insert_frame(
                frame.payload_offset(),
                frame.payload_bytes,
                frame.first_sequence,
            )?;
        }
        report.arenas += 1;
        report.frames += frames.len();
        report.writes += writes;
        memtables.push(Arc::new(memtable));
    }
    Ok(RecoveredWrites {
        memtables,
        last_sequence: plan.last_sequence,
        report,
    })
}
