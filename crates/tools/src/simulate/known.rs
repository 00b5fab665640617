//! Drops of merges in simulated levels: a store guesses them from sketches, here they are known.

use std::collections::HashMap;

use terrace_lsm::compaction::estimates::{Duplicates, Estimates};
use terrace_lsm::compaction::run::Run;
use terrace_lsm::levels::{KeyspaceLevels, SubLevel, Table};

use super::content::{Content, Keys, Piece, overlaid};
use super::load::Load;

/// The contents of all tables, by their numbers.
pub(crate) type Contents = HashMap<u64, Content>;

/// Returns a table's content where it counts; `None` of a table that is not known.
pub(crate) fn piece(contents: &Contents, table: &Table) -> Option<Piece> {
    Some(Piece {
        keys: Keys::of(&table.bounds),
        content: *contents.get(&table.number)?,
    })
}

/// Estimates that a store would have of simulated levels.
pub(crate) struct Known<'a> {
    pub(crate) load: &'a Load,
    pub(crate) contents: &'a Contents,
    /// Names of the sub-levels that merges under way write into: a store's are out of date until they end.
    pub(crate) busy: Vec<u64>,
}

impl Known<'_> {
    fn keys_of<'b>(&self, sub_levels: impl Iterator<Item = &'b SubLevel>) -> Option<f64> {
        let tables = sub_levels.flat_map(|sub_level| &sub_level.tables);
        let pieces: Option<Vec<Piece>> = tables.map(|table| piece(self.contents, table)).collect();
        let distinct = overlaid(pieces?).into_iter();
        Some(
            distinct
                .map(|piece| piece.keys.share() * piece.content.entries(self.load))
                .sum(),
        )
    }
}

impl Estimates for Known<'_> {
    fn merged(&self, levels: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        if run.tables().any(|table| table.narrowed) {
            return None;
        }
        let mut places = run.sub_levels().iter().map(|(place, _)| place.sub_level);
        if places.any(|name| self.busy.contains(&name)) {
            return None;
        }
        let keys = self.keys_of(run.sub_levels().iter().map(|(_, s)| &**s))?;
        let tombstones = if run.is_oldest_of(levels) {
            run.tables().map(|table| table.tombstones).sum()
        } else {
            0
        };
        Some(Duplicates::new(run.versions(), keys, tombstones))
    }

    /// Nothing has snapshots here.
    fn merged_now(&self, _: &KeyspaceLevels, _: &Run, at_most: Duplicates) -> Option<Duplicates> {
        Some(at_most)
    }

    fn keys(&self, _: &KeyspaceLevels, run: &Run) -> Option<f64> {
        self.keys_of(run.sub_levels().iter().map(|(_, s)| &**s))
    }
}
