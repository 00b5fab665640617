//! Everything the manifest says, folded from its edits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::edit::{
    ArenaEnd, ArenaHome, ArenaIssued, CleanClose, Edit, Identity, KeyspaceCreated, KeyspaceFormed,
    TableAdded,
};
use super::moments::Moments;
use super::number_limits::{check_numbers, check_totals};
use super::table_meta::ObsoleteTables;
use super::tiers::{TierRecord, check_tiers, fold_tiers};
use super::version::{Place, StructureError, Version};
use super::{DEFAULT_NAME, FIRST_FLUSH_AGE, FIRST_SUB_LEVEL_NUMBER};
use crate::key::{KeyspaceId, SequenceNumber};
use crate::region_loss::RegionLoss;

/// An arena that may hold frames that are not in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveArena {
    pub slot: u64,
    pub capacity_bytes: u64,
    /// Generation in the slot's header if the arena was never activated; 0 if it is blank then, `None`
    /// if that is not known.
    pub(crate) replaced_generation: Option<u64>,
    /// Where its frames end, set while the last edit was a clean close that says so. The process that
    /// could append to it had stopped, and an opening never appends to an arena that it found. So until
    /// the next edit no frame can lie behind.
    pub end_bytes: Option<u64>,
}

impl LiveArena {
    /// Returns whether the header of the arena may have a generation, 0 for none: its own,
    /// `generation`, or the one that it was to replace. Any other is that of another file.
    pub fn may_have_in_header(&self, found: u64, generation: u64) -> bool {
        let is_replaced = match self.replaced_generation {
            Some(replaced) => found == replaced,
            None => found < generation,
        };
        found == generation || is_replaced
    }
}

/// The state after an edit. Cheap to clone; immutable once shared.
#[derive(Clone, Debug)]
pub struct ManifestState {
    pub identity: Identity,
    pub version: Arc<Version>,
    /// By generation, which is also the order in which recovery walks them.
    pub live_arenas: BTreeMap<u64, LiveArena>,
    /// Never used: the next generation may be issued with this number or a larger one.
    pub next_generation: u64,
    pub next_table_number: u64,
    pub next_sub_level: u64,
    pub next_keyspace: u32,
    /// Every write up to here is in tables.
    pub flushed_sequence: SequenceNumber,
    /// Every write up to here survives a power cut.
    pub persisted_until: SequenceNumber,
    /// Set while the last edit was a clean close.
    pub clean_close: Option<CleanClose>,
    pub arena_home: ArenaHome,
    /// Every loss that was accepted, in order.
    pub region_losses: Vec<RegionLoss>,
    /// Random bits of the last opening to write: they make the generations of two copies of the
    /// store differ.
    pub opening_bits: Option<u64>,
    /// Tiers beside the store's own directory, in the order of their numbers; removed ones stay listed.
    pub tiers: Vec<TierRecord>,
    /// Times at which sequence numbers had been given, in a store with several tiers.
    pub moments: Moments,
    /// The manifest that it was read from, and where that ends: for messages.
    pub read_from: (Arc<Path>, u64),
}

impl ManifestState {
    /// Returns the edit that begins a new store: its identity and the keyspace that every store
    /// has.
    pub fn first_edit(identity: Identity) -> Edit {
        Edit {
            identity: Some(identity),
            keyspaces_created: vec![KeyspaceCreated {
                id: KeyspaceId::DEFAULT,
                name: DEFAULT_NAME.to_owned(),
            }],
            ..Edit::default()
        }
    }

    /// Returns the state after the first record of a manifest, which alone holds the identity.
    pub fn begin(edit: &Edit) -> Result<Self, StructureError> {
        let identity = edit.identity.clone().ok_or_else(|| {
            StructureError("the first record does not say which store it is of".to_owned())
        })?;
        let empty = ManifestState {
            identity,
            version: Arc::new(Version::empty(Arc::new(ObsoleteTables::default()))),
            live_arenas: BTreeMap::new(),
            next_generation: 1,
            next_table_number: 1,
            next_sub_level: FIRST_SUB_LEVEL_NUMBER,
            next_keyspace: 1,
            flushed_sequence: 0,
            persisted_until: 0,
            clean_close: None,
            arena_home: ArenaHome::Store,
            region_losses: Vec::new(),
            opening_bits: None,
            tiers: Vec::new(),
            moments: Moments::default(),
            read_from: (Path::new("MANIFEST").into(), 0),
        };
        empty.fold(edit)
    }

    /// Returns the state after an edit. This one stays as it is.
    pub fn apply(&self, edit: &Edit) -> Result<Self, StructureError> {
        if edit.identity.is_some() {
            return Err(StructureError(
                "only the first record may hold the store's identity".to_owned(),
            ));
        }
        self.fold(edit)
    }

    fn fold(&self, edit: &Edit) -> Result<Self, StructureError> {
        let mut next = self.clone();
        check_numbers(edit)?;
        next.version = Arc::new(self.version.apply(edit)?);
        if !edit.tables_added.is_empty() {
            check_totals(&next.version)?;
        }
        for created in &edit.keyspaces_created {
            never_used("keyspace", created.id.0.into(), self.next_keyspace.into())?;
            next.next_keyspace = next.next_keyspace.max(created.id.0.saturating_add(1));
        }
        for added in &edit.tables_added {
            let number = added.table.number.saturating_add(1);
            next.next_table_number = next.next_table_number.max(number);
        }
        let added_places = edit.tables_added.iter().map(|added| added.place);
        for place in added_places.chain(edit.tables_moved.iter().map(|moved| moved.to)) {
            next.next_sub_level = next.next_sub_level.max(place.sub_level.saturating_add(1));
        }
        for generation in &edit.arenas_retired {
            if next.live_arenas.remove(generation).is_none() {
                return Err(StructureError(format!(
                    "arena generation {generation} is not live"
                )));
            }
        }
        next.issue_arenas(edit)?;
        next.advance_numbers(edit)?;
        next.clean_close = edit.clean_close;
        next.note_arena_ends(edit)?;
        next.identity.domain = edit.domain.unwrap_or(next.identity.domain);
        if let Some(home) = &edit.arena_home {
            next.arena_home = home.clone();
        }
        next.region_losses.extend(&edit.region_losses);
        next.opening_bits = edit.opening_bits.or(next.opening_bits);
        for moment in &edit.moments {
            next.moments.take(*moment);
        }
        if !edit.tiers.is_empty() {
            fold_tiers(&mut next.tiers, &edit.tiers)?;
        }
        let places = !edit.tables_added.is_empty() || !edit.tables_migrated.is_empty();
        if places || !edit.tiers.is_empty() {
            check_tiers(&next.tiers, &next.version)?;
        }
        Ok(next)
    }

    fn issue_arenas(&mut self, edit: &Edit) -> Result<(), StructureError> {
        for &ArenaIssued {
            generation,
            slot,
            capacity_bytes,
            replaced_generation,
        } in &edit.arenas_issued
        {
            never_used("arena generation", generation, self.next_generation)?;
            if self.live_arenas.values().any(|live| live.slot == slot) {
                return Err(StructureError(format!("arena slot {slot} is in use")));
            }
            let live = LiveArena {
                slot,
                capacity_bytes,
                replaced_generation,
                end_bytes: None,
            };
            self.live_arenas.insert(generation, live);
            self.next_generation = generation.saturating_add(1);
        }
        Ok(())
    }

    /// Takes the numbers that the edit states. None falls.
    fn advance_numbers(&mut self, edit: &Edit) -> Result<(), StructureError> {
        advance(
            "flushed sequence",
            &mut self.flushed_sequence,
            edit.flushed_sequence,
        )?;
        advance(
            "persisted until",
            &mut self.persisted_until,
            edit.persisted_until,
        )?;
        advance(
            "next table",
            &mut self.next_table_number,
            edit.next_table_number,
        )?;
        advance(
            "next generation",
            &mut self.next_generation,
            edit.next_generation,
        )?;
        advance(
            "next sub-level",
            &mut self.next_sub_level,
            edit.next_sub_level,
        )?;
        advance("next keyspace", &mut self.next_keyspace, edit.next_keyspace)?;
        Ok(())
    }

    /// Replaces the notes of an earlier close by those of this edit.
    fn note_arena_ends(&mut self, edit: &Edit) -> Result<(), StructureError> {
        for live in self.live_arenas.values_mut() {
            live.end_bytes = None;
        }
        if edit.clean_close.is_none() {
            return Ok(());
        }
        for end in &edit.arena_ends {
            let Some(live) = self.live_arenas.get_mut(&end.generation) else {
                continue;
            };
            if end.end_bytes > live.capacity_bytes {
                return Err(StructureError(format!(
                    "arena generation {} ends at {}, behind its end",
                    end.generation, end.end_bytes
                )));
            }
            live.end_bytes = Some(end.end_bytes);
        }
        Ok(())
    }

    /// Returns whether the arenas may hold writes that are nowhere else. After a clean close it is
    /// known; after anything else every live arena may.
    pub fn may_hold_writes(&self) -> bool {
        let all_in_tables = self
            .clean_close
            .is_some_and(|close| close.last_sequence <= self.flushed_sequence);
        !self.live_arenas.is_empty() && !all_in_tables
    }

    /// Returns whether a slot is that of a live arena.
    pub fn is_in_live_slot(&self, slot: u64) -> bool {
        self.live_arenas.values().any(|live| live.slot == slot)
    }

    /// Returns the writes that a loss of all arenas would leave.
    pub fn loss(&self) -> RegionLoss {
        self.loss_after(self.flushed_sequence)
    }

    /// Returns the loss if nothing behind `kept` is left, `kept` being the last number that is.
    pub fn loss_after(&self, kept: SequenceNumber) -> RegionLoss {
        let given = self.clean_close.map_or(0, |close| close.last_sequence);
        RegionLoss {
            kept,
            promised: kept.max(self.persisted_until).max(given),
        }
    }

    /// Returns one edit that makes this state out of nothing: the first record of a fresh manifest.
    pub fn as_edit(&self) -> Edit {
        let keyspaces = self.version.keyspaces.values();
        Edit {
            identity: Some(self.identity.clone()),
            keyspaces_created: keyspaces
                .clone()
                .map(|levels| KeyspaceCreated {
                    id: levels.id,
                    name: levels.name.clone(),
                })
                .collect(),
            keyspaces_formed: keyspaces
                .filter_map(|levels| {
                    let options = levels.options.as_deref()?.clone();
                    Some(KeyspaceFormed {
                        id: levels.id,
                        options,
                    })
                })
                .collect(),
            tables_added: self
                .version
                .tables()
                .map(|(place, table)| TableAdded {
                    place,
                    table: (***table).clone(),
                })
                .collect(),
            arenas_issued: self
                .live_arenas
                .iter()
                .map(|(&generation, live)| ArenaIssued {
                    generation,
                    slot: live.slot,
                    capacity_bytes: live.capacity_bytes,
                    replaced_generation: live.replaced_generation,
                })
                .collect(),
            flushed_sequence: Some(self.flushed_sequence),
            persisted_until: Some(self.persisted_until),
            next_table_number: Some(self.next_table_number),
            next_generation: Some(self.next_generation),
            next_sub_level: Some(self.next_sub_level),
            next_keyspace: Some(self.next_keyspace),
            clean_close: self.clean_close,
            arena_ends: self
                .live_arenas
                .iter()
                .filter_map(|(&generation, live)| {
                    let end_bytes = live.end_bytes?;
                    Some(ArenaEnd {
                        generation,
                        end_bytes,
                    })
                })
                .collect(),
            arena_home: Some(self.arena_home.clone()).filter(|home| *home != ArenaHome::Store),
            region_losses: self.region_losses.clone(),
            opening_bits: self.opening_bits,
            tiers: self.tiers.clone(),
            moments: self.moments.list().to_vec(),
            ..Edit::default()
        }
    }

    /// Returns the place of a keyspace's next flush: a new sub-level of level 0, younger than all,
    /// with a name that was never given. Edits that use it must be applied in the order of the
    /// flushed writes.
    pub fn next_flush_place(&self, keyspace: KeyspaceId, sub_level: u64) -> Place {
        let youngest = self
            .version
            .keyspace(keyspace)
            .and_then(|levels| levels.youngest());
        Place {
            level: 0,
            sub_level,
            age: youngest.map_or(FIRST_FLUSH_AGE, |place| {
                place.flush_age().saturating_add(1).max(FIRST_FLUSH_AGE)
            }),
        }
    }
}

fn never_used(what: &str, number: u64, next: u64) -> Result<(), StructureError> {
    if number == 0 || number < next {
        return Err(StructureError(format!(
            "{what} {number} was given before (the next is {next})"
        )));
    }
    Ok(())
}

/// Raises a number; these numbers only grow.
fn advance<N: Copy + Ord + std::fmt::Display>(
    what: &str,
    current: &mut N,
    to: Option<N>,
) -> Result<(), StructureError> {
    let Some(to) = to else { return Ok(()) };
    if to < *current {
        return Err(StructureError(format!(
            "{what} would go back from {current} to {to}"
        )));
    }
    *current = to;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::new_state;
    use super::*;

    fn closed(ends: &[(u64, u64)]) -> Edit {
        let arena_ends = ends.iter().map(|&(generation, end_bytes)| ArenaEnd {
            generation,
            end_bytes,
        });
        Edit {
            clean_close: Some(CleanClose { last_sequence: 9 }),
            arena_ends: arena_ends.collect(),
            ..Edit::default()
        }
    }

    fn issued(generation: u64, slot: u64) -> ArenaIssued {
        ArenaIssued {
            generation,
            slot,
            capacity_bytes: 8192,
            replaced_generation: Some(0),
        }
    }

    fn ends(state: &ManifestState) -> Vec<(u64, Option<u64>)> {
        let live = state.live_arenas.iter();
        live.map(|(generation, live)| (*generation, live.end_bytes))
            .collect()
    }

    #[test]
    fn where_an_arena_ends_is_noted_by_a_clean_close_and_forgotten_by_any_edit() {
        let open = Edit {
            arenas_issued: vec![issued(3, 1), issued(7, 2)],
            ..Edit::default()
        };
        let open = new_state().apply(&open).unwrap();
        assert_eq!(ends(&open), [(3, None), (7, None)]);
        // Of an arena that the same edit retires nothing is left to note.
        let state = open.apply(&closed(&[(3, 4200), (5, 4096)])).unwrap();
        assert_eq!(ends(&state), [(3, Some(4200)), (7, None)]);
        // A fresh manifest says the same.
        let fresh = ManifestState::begin(&state.as_edit()).unwrap();
        assert_eq!(ends(&fresh), ends(&state));

        let any = Edit {
            persisted_until: Some(9),
            ..Edit::default()
        };
        assert_eq!(ends(&state.apply(&any).unwrap()), ends(&open));
        assert_eq!(ends(&state.apply(&closed(&[])).unwrap()), ends(&open));
        let not_closed = Edit {
            clean_close: None,
            ..closed(&[(3, 4200)])
        };
        assert_eq!(ends(&open.apply(&not_closed).unwrap()), ends(&open));
        open.apply(&closed(&[(3, 8192)])).unwrap();
        assert!(open.apply(&closed(&[(3, 8193)])).is_err());
    }

    #[test]
    fn the_header_of_a_live_arena_is_its_own_or_the_one_that_it_replaces() {
        let live = |replaced_generation| LiveArena {
            end_bytes: None,
            slot: 1,
            capacity_bytes: 8192,
            replaced_generation,
        };
        let allowed = |replaced| {
            let live: LiveArena = live(replaced);
            let found = (0..=9).filter(|&found| live.may_have_in_header(found, 7));
            found.collect::<Vec<_>>()
        };
        assert_eq!(allowed(Some(4)), [4, 7]);
        assert_eq!(allowed(Some(0)), [0, 7]);
        assert_eq!(allowed(None), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
