//! Compacting a range because a caller asks for it: all of its tables, of all levels, in one merge
//! down to their oldest sub-level.
//!
//! The merge runs as any other does, in slices on the board of jobs. It takes all tables that
//! overlap the range, then those that overlap these, until no table is left out that could not be
//! passed. The caller waits for merges under way that it would meet, and meanwhile no new one may
//! begin in their place.

use std::sync::Arc;
use std::time::Duration;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::removal;
use terrace_lsm::compaction::policy::superseded::are_droppable;
use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Input, Reason};
use terrace_lsm::levels::{Bounds, KeyRange, KeyspaceLevels, Place};
use terrace_lsm::sync::thread;

use crate::db::Store;
use crate::db::arena_ranges::RangesInArenas;
use crate::db::compact::claims_of;
use crate::db::keyspaces::live;
use crate::options::Background;
use crate::{KeyspaceId, Result, SequenceNumber};

/// Maximum attempts on a full disk: few, because each reads the outputs of the one before again.
pub(super) const MAX_ATTEMPTS: u32 = 5;
/// Pause before the second attempt; later ones are longer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Store {
    /// Flushes, then merges everything in the range into one level. The caller's thread begins jobs, as
    /// a worker does. It has a worker's guard: after a panic, the job's waiters get an answer.
    pub(crate) fn compact_range(&self, keyspace: KeyspaceId, range: Bounds<'_>) -> Result<()> {
        self.flush_for_room(keyspace)?;
        self.guard("compact range", || self.compact_flushed(keyspace, range))
    }

    /// Flushes. On a full disk tables that deleted ranges hide go first, and may leave the room.
    fn flush_for_room(&self, keyspace: KeyspaceId) -> Result<()> {
        let mut attempts = 1;
        loop {
            match self.flush() {
                Err(error) if error.is_no_space() && attempts < MAX_ATTEMPTS => {
                    self.guard("compact range", || self.remove_hidden_tables(keyspace))?;
                    self.lifecycle.background.deletion_wanted(self);
                    self.let_space_return(attempts);
                    attempts += 1;
                }
                flushed => return flushed,
            }
        }
    }

    fn compact_flushed(&self, keyspace: KeyspaceId, range: Bounds<'_>) -> Result<()> {
        self.remove_hidden_tables(keyspace)?;
        let ticket = self.compactor.jobs.new_ticket();
        let mut attempts = 1;
        let done = loop {
            match self.compact_range_once(keyspace, range, ticket) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                // Installed slices, and merges that this one waited for, have given space back.
                Err(error) if error.is_no_space() && attempts < MAX_ATTEMPTS => {
                    // A range that was deleted meanwhile may hide inputs.
                    match self.with_reserve(|| self.remove_hidden_tables(keyspace)) {
                        Err(error) if !error.is_no_space() => break Err(error),
                        _ => self.lifecycle.background.deletion_wanted(self),
                    }
                    self.let_space_return(attempts);
                    attempts += 1;
                }
                Err(error) => break Err(error),
            }
        };
        self.compactor.jobs.return_ticket(ticket);
        // Compactions that this one kept waiting may begin.
        self.lifecycle.background.compaction_wanted(self);
        done
    }

    /// Gives file systems and merges time to give space back. While the only thread sleeps, they
    /// give none.
    pub(super) fn let_space_return(&self, attempts: u32) {
        if self.options.background == Background::Threads {
            thread::sleep(FIRST_PAUSE * attempts);
        }
    }

    /// Removes tables that deleted ranges hide whole: a merge would read them and keep their space.
    pub(crate) fn remove_hidden_tables(&self, keyspace: KeyspaceId) -> Result<()> {
        loop {
            // In each round: a table may be the oldest one now that another is gone.
            let seen = self.seen_tombstones(RangesInArenas::Persisted);
            let choose = |claims: &[(KeyspaceId, Claim)]| {
                let version = Arc::clone(&self.reads.view.load().version);
                let levels = version.keyspace(keyspace)?;
                removal::pick(levels, &claims_of(claims, keyspace), &seen)
                    .map(|choice| (keyspace, choice))
            };
            let Some(begun) = self.compactor.jobs.begin_beside(choose) else {
                return Ok(());
            };
            self.begin(begun)?;
        }
    }

    /// Compacts the range once. Returns whether to try again.
    fn compact_range_once(
        &self,
        keyspace: KeyspaceId,
        range: Bounds<'_>,
        ticket: u64,
    ) -> Result<bool> {
        self.check_writable()?;
        live(&self.reads.view.load().version, keyspace)?;
        let choose = || {
            let version = Arc::clone(&self.reads.view.load().version);
            let levels = version.keyspace(keyspace)?;
            let snapshots = self.reads.snapshots.stripes(|| self.reads.visible());
            whole_range(levels, range, &snapshots)
        };
        let Some(begun) = self
            .compactor
            .jobs
            .begin_asked_for(keyspace, ticket, choose)
        else {
            return self.wait_if_asked_for(ticket);
        };
        let job = begun.job;
        if !self.begin(begun)? {
            self.lifecycle.background.wait_for_compaction(self)?;
            return Ok(true);
        }
        while self.compactor.jobs.is_under_way(job) {
            self.lifecycle.background.wait_for_compaction(self)?;
            self.check_writable()?;
        }
        Ok(!self.compactor.jobs.is_complete(ticket))
    }

    fn wait_if_asked_for(&self, ticket: u64) -> Result<bool> {
        if !self.compactor.jobs.is_waiting(ticket) {
            return Ok(false);
        }
        self.lifecycle.background.wait_for_compaction(self)?;
        Ok(true)
    }
}

/// Returns the merge of everything in a range; `None` if it would change nothing. The last of the
/// snapshots is the visible number.
fn whole_range(
    levels: &KeyspaceLevels,
    range: Bounds<'_>,
    snapshots: &[SequenceNumber],
) -> Option<Choice> {
    let mut hull = KeyRange::hull(
        levels
            .tables()
            .map(|(_, table)| &table.bounds)
            .filter(|bounds| bounds.meets(range)),
    )?;
    let mut inputs = loop {
        let overlapping = levels
            .tables()
            .filter(|(_, table)| table.bounds.overlaps(&hull));
        let inputs: Vec<Input> = overlapping
            .map(|(place, table)| Input {
                place,
                table: Arc::clone(table),
            })
            .collect();
        let wider = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        if wider == hull {
            break inputs;
        }
        hull = wider;
    };
    let output = output(levels, inputs.iter().map(|input| input.place))?;
    let is_settled = inputs.iter().all(|Input { place, table }| {
        *place == output && table.tombstones == 0 && table.range_tombstones == 0
    });
    if is_settled {
        inputs = due_part(inputs, snapshots);
    }
    (!inputs.is_empty()).then_some(Choice {
        reason: Reason::AskedFor,
        kind: ChoiceKind::Merge,
        inputs,
        output,
        predicted: None,
    })
}

/// Returns the tables of a sub-level from the first to the last with superseded versions that no
/// snapshot needs, in order. The outputs may span the tables between these two.
fn due_part(mut inputs: Vec<Input>, snapshots: &[SequenceNumber]) -> Vec<Input> {
    let is_due = |input: &Input| are_droppable(&input.table, snapshots);
    let end = inputs.iter().rposition(is_due).map_or(0, |last| last + 1);
    inputs.truncate(end);
    let first = inputs.iter().position(is_due).unwrap_or(end);
    inputs.split_off(first)
}

/// Returns the oldest place of all, but for level 0: its tables go to the base below, if there may
/// be one.
fn output(levels: &KeyspaceLevels, inputs: impl Iterator<Item = Place>) -> Option<Place> {
    let oldest = inputs.min_by_key(|place| place.age)?;
    let mut below = levels.sub_levels().filter(|(place, _)| place.level > 0);
    let goes_down = oldest.level == 0 && below.all(|(place, _)| place.is_base());
    Some(if goes_down { Place::base(1) } else { oldest })
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use terrace_lsm::compaction::legality::check_legal;
    use terrace_lsm::levels::testing::{added, flush_place, levels, sub_level_place, version};

    use super::*;

    fn numbers(choice: &Choice) -> Vec<u64> {
        choice
            .inputs
            .iter()
            .map(|input| input.table.number)
            .collect()
    }

    #[test]
    fn sub_levels_of_a_level_become_one() {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let chosen = |tables| {
            let version = version(tables);
            let choice = whole_range(levels(&version), everything, &[])?;
            check_legal(levels(&version), &choice).unwrap();
            Some((numbers(&choice).len(), choice.output))
        };
        let two = vec![
            added(sub_level_place(2, 4), 1, "a", "b"),
            added(sub_level_place(2, 3), 2, "a", "b"),
        ];
        assert_eq!(chosen(two.clone()), Some((2, sub_level_place(2, 3))));
        let level0 = vec![
            added(flush_place(7), 3, "a", "b"),
            added(flush_place(6), 4, "a", "b"),
        ];
        assert_eq!(chosen(level0.clone()), Some((2, Place::base(1))));
        let all = two.into_iter().chain(level0).collect();
        assert_eq!(chosen(all), Some((4, sub_level_place(2, 3))));
        let mut settled = added(sub_level_place(2, 3), 2, "a", "b");
        settled.table.tombstones = 0;
        assert_eq!(chosen(vec![settled]), None);
        // Level 0 cannot go to a base above tables that are younger than a base.
        let apart = vec![
            added(flush_place(7), 3, "a", "b"),
            added(sub_level_place(2, 3), 2, "x", "z"),
        ];
        let version = version(apart);
        let range = (Bound::Included(&b"a"[..]), Bound::Included(&b"b"[..]));
        let choice = whole_range(levels(&version), range, &[]).unwrap();
        assert_eq!(choice.output, flush_place(7));
    }

    #[test]
    fn whatever_a_range_touches_goes_to_the_deepest_level_and_nothing_is_passed() {
        let version = version(vec![
            added(flush_place(2), 1, "c", "f"),
            added(Place::base(1), 2, "a", "b"),
            added(Place::base(1), 3, "e", "h"),
            added(Place::base(2), 4, "g", "k"),
            added(Place::base(2), 5, "m", "p"),
        ]);
        let range = (Bound::Included(&b"d"[..]), Bound::Excluded(&b"e"[..]));
        let choice = whole_range(levels(&version), range, &[]).unwrap();
        assert_eq!(numbers(&choice), [1, 3, 4]);
        assert_eq!(choice.output, Place::base(2));
        check_legal(levels(&version), &choice).unwrap();

        let nothing = (Bound::Excluded(&b"k"[..]), Bound::Excluded(&b"m"[..]));
        assert!(whole_range(levels(&version), nothing, &[]).is_none());
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let choice = whole_range(levels(&version), everything, &[]).unwrap();
        assert_eq!(numbers(&choice), [1, 2, 3, 4, 5]);
        check_legal(levels(&version), &choice).unwrap();
    }
}
