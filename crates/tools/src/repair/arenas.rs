//! The arenas: which writes in them are in no table, and can be read.
//!
//! With a manifest it is the judgement of every opening, made lenient. The writes up to the first
//! damage are taken, and none behind it, so that the result is a state that the store once had.
//!
//! Without one it is unknown which arenas had been flushed. An arena is taken unless one of two
//! things proves that it was. One is a table with entries from before and after its last write,
//! which only a merge of installed tables makes. The other is a gap between its last write and the
//! first of a younger arena that no damage explains, since arenas are flushed in order. Writes that
//! are taken once more than needed do no harm: they are merged with the tables by their numbers.

use std::sync::Arc;

use terrace::offline::region_home::lost;
use terrace::offline::{
    Plan, ReadArena, RecoveredArena, RecoveredWrites, judge_leniently, load, of_missing_arena,
    read_arena, recover, taken_by,
};
use terrace::{Error, Result, SequenceNumber};
use terrace_lsm::levels::ManifestState;
use terrace_region::{HeaderState, Recovered, Region};

use super::report::LeftFile;
use super::site::Site;
use super::state::{Basis, Home, Slot};
use super::strangers::strangers;
use super::tables::Examined;

/// Writes that are taken from arenas.
#[derive(Default)]
pub(super) struct ArenasFound {
    /// Arenas that are taken, oldest first.
    pub(super) loaded: Vec<RecoveredArena>,
    /// The last number in listed tables and in frames that are taken.
    pub(super) known_sequence: SequenceNumber,
    /// Writes that the next opening takes, if nothing else is done.
    unflushed: Option<RecoveredWrites>,
    /// The last number that was given, as far as is known.
    pub(super) last_sequence: SequenceNumber,
    pub(super) writes: u64,
    /// Readable numbers that were dropped, the first and the last.
    pub(super) dropped: Option<(SequenceNumber, SequenceNumber)>,
    /// Reason why they cannot stay as they are.
    pub(super) cause: Option<Error>,
    /// Reason why the manifest is not believed.
    distrust: Option<Error>,
    /// Above every generation found.
    pub(super) next_generation: u64,
    /// The generations that end with the repair.
    pub(super) retired: Vec<u64>,
    /// Files of those that held more than was taken, or that cannot be read. They are used again.
    pub(super) damaged: Vec<LeftFile>,
    /// The files of those that are not this store's, or of a newer release.
    pub(super) strangers: Vec<LeftFile>,
}

impl ArenasFound {
    /// Returns the state in which arenas hold nothing, or need no work.
    fn none(basis: &Basis) -> Self {
        ArenasFound {
            last_sequence: basis.state.flushed_sequence,
            known_sequence: basis.state.flushed_sequence,
            ..ArenasFound::default()
        }
    }

    pub(super) fn read(site: &Site, basis: &Basis, tables: &Examined, home: &Home) -> Result<Self> {
        let regions = &home.regions;
        let mut found = if basis.manifest.is_err() {
            ArenasFound::without_manifest(site, basis, tables, regions)?
        } else if let Some(region) = regions.first().filter(|_| home.has_listed) {
            ArenasFound::with_manifest(site, basis, region)?
        } else if home.is_lost {
            ArenasFound {
                last_sequence: RecoveredWrites::lost(&basis.state).last_sequence,
                ..ArenasFound::none(basis)
            }
        } else {
            ArenasFound::none(basis)
        };
        for region in regions {
            found.strangers.extend(strangers(basis, region)?);
        }
        Ok(found)
    }

    fn with_manifest(site: &Site, basis: &Basis, region: &Region) -> Result<Self> {
        let lost = match ArenasFound::as_listed(site, basis, region) {
            Err(lost @ Error::RegionLost { .. }) => lost,
            found => return found,
        };
        match of_missing_arena(
            lost,
            (&*site.directory, &site.data),
            &basis.state,
            basis.tail(),
        ) {
            why @ Error::Corruption { .. } => Ok(ArenasFound {
                distrust: Some(why),
                ..ArenasFound::none(basis)
            }),
            lost => Err(lost),
        }
    }

    fn as_listed(site: &Site, basis: &Basis, region: &Region) -> Result<Self> {
        match recover(region, &basis.state, &site.options) {
            Ok(recovered) => Ok(ArenasFound {
                last_sequence: recovered.last_sequence,
                known_sequence: recovered.last_taken(),
                unflushed: Some(recovered),
                ..ArenasFound::none(basis)
            }),
            Err(damage @ Error::Corruption { .. }) => {
                ArenasFound::up_to_damage(site, basis, region, damage)
            }
            Err(newer @ Error::Unsupported { .. }) if basis.has_newer_arena(region)? => {
                ArenasFound::up_to_damage(site, basis, region, newer)
            }
            Err(error) => Err(error),
        }
    }

    fn up_to_damage(site: &Site, basis: &Basis, region: &Region, damage: Error) -> Result<Self> {
        let state = &basis.state;
        let (mut arenas, mut unreadable) = (Vec::new(), Vec::new());
        let slots = basis.slots(region)?;
        for (&generation, live) in &state.live_arenas {
            let file = region.file(live.slot);
            match slots.iter().find(|slot| slot.number == live.slot) {
                Some(slot) if slot.is_stranger => continue,
                Some(_) => {}
                None if site.options.accept_region_loss => continue,
                None => return Err(lost(state, &file)),
            }
            match read_arena(region, live.slot, generation, Some(live))? {
                ReadArena::Found(arena) => arenas.push(arena),
                ReadArena::Unreadable(error) => unreadable.push(LeftFile::new(file, error)),
                ReadArena::Absent => {}
            }
        }
        for arena in arenas
            .iter()
            .filter(|arena| is_of_another_time(arena, state))
        {
            let file = arena.file().to_path_buf();
            let detail = "its header is damaged, or of another time";
            unreadable.push(LeftFile::new(
                file.clone(),
                Error::corruption(&file, 0, detail),
            ));
        }
        let plan = judge_leniently(&arenas, state.flushed_sequence);
        let plan = plan.ok_or_else(|| damage.clone())?;
        let mut found = ArenasFound::taken(site, basis, &arenas, &plan)?;
        for (arena, &taken) in arenas.iter().zip(&plan.last_taken) {
            found.leave(arena, taken);
        }
        found.cause = Some(damage);
        found.retired = state.live_arenas.keys().copied().collect();
        found.damaged.extend(unreadable);
        found.settle_numbers(basis);
        Ok(found)
    }

    fn without_manifest(
        site: &Site,
        basis: &Basis,
        tables: &Examined,
        regions: &[Region],
    ) -> Result<Self> {
        let mut arenas: Vec<Arc<Recovered>> = Vec::new();
        let (mut damage, mut unreadable) = (None, Vec::new());
        let mut next_generation = 1;
        for region in regions {
            for slot in basis.slots(region)? {
                let following = slot.generation.unwrap_or(0).saturating_add(1);
                next_generation = following.max(next_generation);
                match read_slot(region, slot)? {
                    ReadArena::Found(arena) => arenas.push(arena),
                    ReadArena::Unreadable(error) => {
                        damage.get_or_insert_with(|| error.clone());
                        unreadable.push(LeftFile::new(region.file(slot.number), error));
                    }
                    ReadArena::Absent => {}
                }
            }
        }
        arenas.sort_by_key(|arena| arena.generation());
        let is_there = |generation: &u64| {
            let mut arenas = arenas.iter();
            arenas.any(|arena| arena.generation() == *generation)
        };
        let is_one_gone = !basis.state.live_arenas.keys().all(is_there);
        let (plan, first_needed) = choose(&arenas, tables, is_one_gone || damage.is_some());
        let mut found = ArenasFound::taken(site, basis, &arenas, &plan)?;
        let needed = arenas.iter().zip(&plan.last_taken).skip(first_needed);
        for (arena, &taken) in needed {
            found.leave(arena, taken);
            if arena.scan.behind.is_some() {
                damage.get_or_insert_with(|| {
                    let detail = "whole frames lie behind one that is damaged";
                    let offset = arena.scan.end_bytes as u64;
                    Error::corruption(arena.file(), offset, detail)
                });
            }
        }
        found.next_generation = next_generation;
        found.cause = damage;
        found.damaged.extend(unreadable);
        found.settle_numbers(basis);
        Ok(found)
    }

    fn taken(site: &Site, basis: &Basis, arenas: &[Arc<Recovered>], plan: &Plan) -> Result<Self> {
        let seed = basis.state.identity.hash_seed;
        let taken = taken_by(arenas, plan, &site.options, seed);
        Ok(ArenasFound {
            loaded: load(&taken)?,
            writes: taken.report.writes,
            last_sequence: plan.last_sequence,
            known_sequence: plan.last_sequence,
            ..ArenasFound::default()
        })
    }

    /// Returns why the manifest may have lost its end, though all that is left of it is whole.
    /// Writes are missing in the arenas then, and a table that it does not list may hold them.
    pub(super) fn doubt(&self, site: &Site, basis: &Basis) -> Result<Option<Error>> {
        if self.distrust.is_some() {
            return Ok(self.distrust.clone());
        }
        let (Some(damage), Some(tail)) = (&self.cause, basis.tail()) else {
            return Ok(None);
        };
        if !site.unlisted(basis, self)?.is_found() {
            return Ok(None);
        }
        let file = site.directory.shown(&tail.file);
        let detail =
            format!("its end is dropped, tables are there that it may have listed, and {damage}");
        Ok(Some(Error::corruption(&file, tail.offset, detail)))
    }

    /// Takes the writes that the next opening would take: a new manifest names no arenas.
    pub(super) fn take_unflushed(&mut self) -> Result<()> {
        if let Some(recovered) = self.unflushed.take() {
            self.loaded = load(&recovered)?;
            self.writes = recovered.report.writes;
        }
        Ok(())
    }

    /// Notes the part of an arena that is not taken.
    fn leave(&mut self, arena: &Recovered, last_taken: Option<SequenceNumber>) {
        let of_run = arena.scan.run.map(|run| {
            let first = last_taken.map_or(run.first_sequence, |last| last.saturating_add(1));
            (first, run.last_sequence)
        });
        let of_run = of_run.filter(|(first, last)| first <= last);
        let behind = arena.scan.behind;
        let behind = behind.map(|span| (span.first_sequence, span.last_sequence));
        let hull = |(from, to): (u64, u64), (first, last)| (from.min(first), to.max(last));
        if let Some(numbers) = of_run.into_iter().chain(behind).reduce(hull) {
            self.dropped = Some(self.dropped.map_or(numbers, |all| hull(all, numbers)));
            let file = arena.file();
            let detail = format!("writes {} to {} in it are not taken", numbers.0, numbers.1);
            let error = Error::corruption(file, arena.scan.end_bytes as u64, detail);
            self.damaged.push(LeftFile::new(file.to_path_buf(), error));
        }
    }

    /// Raises the last number, so that no number is given twice.
    fn settle_numbers(&mut self, basis: &Basis) {
        let dropped = self.dropped.map_or(0, |(_, last)| last);
        let known = basis
            .state
            .persisted_until
            .max(basis.state.flushed_sequence);
        self.last_sequence = self.last_sequence.max(dropped).max(known);
    }
}

/// Decides, without a manifest, how far each arena is taken, and returns the first arena that was
/// not flushed for all that is known. `arenas` are in the order of their generations.
fn choose(arenas: &[Arc<Recovered>], tables: &Examined, is_one_gone: bool) -> (Plan, usize) {
    let is_merged_over = |last: SequenceNumber| {
        let mut tables = tables.sound.iter();
        tables.any(|table| table.min_sequence <= last && last < table.max_sequence)
    };
    let mut plan = Plan {
        last_taken: vec![None; arenas.len()],
        ..Plan::default()
    };
    let mut is_damage_about = is_one_gone;
    // Of the youngest arenas taken so far.
    let mut first_sequence: Option<SequenceNumber> = None;
    let mut first_needed = arenas.len();
    for (arena, taken) in arenas.iter().zip(&mut plan.last_taken).rev() {
        is_damage_about |= arena.scan.is_damaged();
        if let Some(last) = arena.scan.run.map(|run| run.last_sequence) {
            let has_gap = first_sequence.is_some_and(|first| last.saturating_add(1) < first);
            if is_merged_over(last) || (has_gap && !is_damage_about) {
                break;
            }
        }
        first_needed -= 1;
        // Numbers that were given twice belong to the younger arena.
        let limit = first_sequence.map_or(SequenceNumber::MAX, |first| first.saturating_sub(1));
        if let Some(run) = arena.scan.run.filter(|run| run.first_sequence <= limit) {
            let last = run.last_sequence.min(limit);
            *taken = Some(last);
            plan.last_sequence = plan.last_sequence.max(last);
            first_sequence = Some(run.first_sequence);
        }
    }
    (plan, first_needed)
}

/// Whether an arena had been activated and its header does not say so: a younger one was issued.
fn is_of_another_time(found: &Recovered, state: &ManifestState) -> bool {
    let youngest = state.live_arenas.keys().next_back();
    let is_youngest = youngest == Some(&found.generation());
    !found.is_activated && !is_youngest && found.header != HeaderState::Blank
}

/// Reads an arena of a slot that no manifest describes.
fn read_slot(region: &Region, slot: Slot) -> Result<ReadArena> {
    match slot.generation {
        _ if slot.is_stranger => Ok(ReadArena::Absent),
        Some(generation) => read_arena(region, slot.number, generation, None),
        None => {
            let detail = "the header is damaged, and nobody knows the generation";
            let error = Error::corruption(&region.file(slot.number), 0, detail);
            Ok(ReadArena::Unreadable(error))
        }
    }
}
