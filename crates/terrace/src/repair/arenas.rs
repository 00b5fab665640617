//! The arenas: which writes in them are in no table, and can be read.
//!
//! With a manifest it is the judgement of every opening, made lenient: the writes up to the first
//! damage are taken, and none behind it, so that what is left is a state that the store once had.
//!
//! Without one nobody knows which arenas had been flushed. An arena is taken unless something
//! proves that it was: a table with entries from before and after its last write, which only a
//! merge of installed tables makes; or a gap between its last write and the first of a younger
//! arena that no damage explains, since arenas are flushed in order. What is taken once more than
//! needed does no harm: it is merged with the tables by its numbers.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_region::{Recovered, Region};

use super::site::Site;
use super::state::Basis;
use super::tables::Examined;
use crate::db::recover::{RecoveredWrites, facts_of, recover, take};
use crate::db::regions::region_error;
use crate::write_buffer::memtable::MemTable;
use crate::write_buffer::recovery::{ArenaFacts, Plan, judge};
use crate::{Error, Result, SequenceNumber};

/// Readable numbers that were dropped, the first and the last.
type Dropped = Option<(SequenceNumber, SequenceNumber)>;

/// What is taken from arenas.
#[derive(Default)]
pub(super) struct ArenasFound {
    /// Oldest first.
    pub(super) memtables: Vec<Arc<MemTable>>,
    /// The last number that was given, as far as is known.
    pub(super) last_sequence: SequenceNumber,
    pub(super) writes: u64,
    pub(super) dropped: Dropped,
    /// Why they cannot stay as they are.
    pub(super) damage: Option<Error>,
    /// Above every generation found.
    pub(super) next_generation: u64,
    /// The generations that end with the repair.
    pub(super) retired: Vec<u64>,
    /// The files of those that held more than was taken.
    pub(super) files_left: Vec<PathBuf>,
}

impl ArenasFound {
    /// Nothing is in arenas, or nothing is to be done about it.
    pub(super) fn none(basis: &Basis) -> Self {
        ArenasFound {
            last_sequence: basis.state.flushed_sequence,
            ..ArenasFound::default()
        }
    }

    pub(super) fn read(
        site: &Site,
        basis: &Basis,
        tables: &Examined,
        region: &Region,
    ) -> Result<Self> {
        if basis.manifest.is_none() {
            return ArenasFound::without_manifest(site, basis, tables, region);
        }
        match recover(region, &basis.state, &site.options) {
            Ok(_) => Ok(ArenasFound::none(basis)),
            Err(damage @ Error::Corruption { .. }) => {
                ArenasFound::up_to_damage(site, basis, region, damage)
            }
            Err(error) => Err(error),
        }
    }

    fn up_to_damage(site: &Site, basis: &Basis, region: &Region, damage: Error) -> Result<Self> {
        let state = &basis.state;
        let mut arenas = Vec::new();
        for (&generation, live) in &state.live_arenas {
            arenas.extend(readable(region, live.slot, generation)?);
        }
        let facts: Vec<ArenaFacts> = arenas.iter().map(lenient).collect();
        let plan = judge(&facts, state.flushed_sequence, 0);
        let plan = plan.map_err(|_| damage.clone())?;
        let mut found = ArenasFound::taken(site, basis, &arenas, &plan)?;
        found.damage = Some(damage);
        found.retired = state.live_arenas.keys().copied().collect();
        Ok(found)
    }

    fn without_manifest(
        site: &Site,
        basis: &Basis,
        tables: &Examined,
        region: &Region,
    ) -> Result<Self> {
        let (slots, mut is_damage_about) = basis.slots(region)?;
        let next_generation = slots.keys().max().map_or(1, |last| last.saturating_add(1));
        let mut arenas = Vec::new();
        for (generation, slot) in slots {
            let arena = readable(region, slot, generation)?;
            is_damage_about |= arena.is_none();
            arenas.extend(arena);
        }
        let is_merged_over = |last: SequenceNumber| {
            let mut tables = tables.sound.iter();
            tables.any(|table| table.min_sequence <= last && last < table.max_sequence)
        };
        let mut plan = Plan {
            frames_taken: vec![0; arenas.len()],
            ..Plan::default()
        };
        // Of the youngest arenas taken so far.
        let mut first_sequence = SequenceNumber::MAX;
        for (arena, taken) in arenas.iter().zip(&mut plan.frames_taken).rev() {
            is_damage_about |= arena.scan.is_damaged();
            let frames = &arena.scan.frames;
            let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
                continue;
            };
            let last = last.last_sequence();
            let is_youngest = first_sequence == SequenceNumber::MAX;
            let has_gap = !is_youngest && last.saturating_add(1) < first_sequence;
            if is_merged_over(last) || (has_gap && !is_damage_about) {
                break;
            }
            // Numbers that were given twice belong to the younger arena.
            *taken = frames.partition_point(|frame| frame.last_sequence() < first_sequence);
            if *taken > 0 {
                plan.last_sequence = plan.last_sequence.max(last);
                first_sequence = first.first_sequence;
            }
        }
        let mut found = ArenasFound::taken(site, basis, &arenas, &plan)?;
        found.next_generation = next_generation;
        Ok(found)
    }

    fn taken(site: &Site, basis: &Basis, arenas: &[Recovered], plan: &Plan) -> Result<Self> {
        let seed = basis.state.identity.hash_seed;
        let RecoveredWrites {
            memtables, report, ..
        } = take(arenas, plan, &site.options, seed)?;
        let mut found = ArenasFound {
            memtables,
            writes: report.writes,
            last_sequence: plan.last_sequence,
            ..ArenasFound::none(basis)
        };
        for (arena, &taken) in arenas.iter().zip(&plan.frames_taken) {
            let frames = arena.scan.frames.iter().skip(taken);
            let left = frames.chain(&arena.scan.behind);
            let left = left.filter(|frame| frame.last_sequence() > plan.last_sequence);
            let numbers = left.map(|frame| (frame.first_sequence, frame.last_sequence()));
            let hull = |(from, to): (u64, u64), (first, last)| (from.min(first), to.max(last));
            if let Some(numbers) = numbers.reduce(hull) {
                found.dropped = Some(found.dropped.map_or(numbers, |all| hull(all, numbers)));
                found.files_left.push(arena.arena.file().to_path_buf());
            }
        }
        let dropped = found.dropped.map_or(0, |(_, last)| last);
        let known = basis
            .state
            .persisted_until
            .max(basis.state.flushed_sequence);
        found.last_sequence = found.last_sequence.max(dropped).max(known);
        Ok(found)
    }
}

/// `None` for a file that is not there, or is no arena's.
fn readable(region: &Region, slot: u64, generation: u64) -> Result<Option<Recovered>> {
    use terrace_region::Error as Region;
    match region.recover(slot, generation) {
        Ok(found) => Ok(Some(found)),
        Err(Region::Missing { .. } | Region::Corruption { .. }) => Ok(None),
        Err(error) => Err(region_error(error)),
    }
}

/// The facts, without those that forbid to go on.
fn lenient(found: &Recovered) -> ArenaFacts {
    let facts = facts_of(found);
    let without_promise = |frame| terrace_region::FrameInfo {
        persisted_until: 0,
        ..frame
    };
    ArenaFacts {
        same_boot: false,
        activated: true,
        frames: facts.frames.into_iter().map(without_promise).collect(),
        end: facts.end,
        behind: Vec::new(),
        search_given_up: false,
    }
}
