//! A report of the tables of a store, each in its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::policy::described_by;
use terrace_lsm::levels::{FIRST_FLUSH_AGE, KeyspaceLevels, Place, SubLevel, Table};

use super::LevelStatistics;
use super::collection::level_totals;
use crate::SequenceNumber;
use crate::db::Store;
use crate::db::compaction_history::Compaction;
use crate::db::jobs::under_way::MergeUnderWay;
use crate::db::monitor::LevelDuplicates;
use crate::db::owners::Files;

/// Every table, in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LevelsReport {
    /// Keyspaces in the order of their numbers.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Tables that no version lists any more, whose files are still to be deleted.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tables_to_delete: u64,
    /// The last merges and moves since the store was opened, in the order in which they ended; see
    /// [`Db::compactions`](crate::Db::compactions).
    #[cfg_attr(feature = "serde", serde(default))]
    pub compactions: Vec<Compaction>,
    /// Levels 0, 1, 2, ... of all keyspaces together, with their traffic since the opening.
    #[cfg_attr(feature = "serde", serde(default))]
    pub totals: Vec<LevelStatistics>,
}

/// The levels of one keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct KeyspaceReport {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its levels from the top, each with its sub-levels from the youngest.
    #[cfg_attr(feature = "serde", serde(with = "crate::db::report_forms::levels"))]
    pub levels: Vec<Vec<SubLevelReport>>,
    /// Numbers of versions and keys in each of the same levels; empty unless they were asked for,
    /// as [`Db::levels_with_duplicates`](crate::Db::levels_with_duplicates) does.
    #[cfg_attr(feature = "serde", serde(default))]
    pub duplicates: Vec<LevelDuplicates>,
    /// Bytes that its merges still have to write until every level is within its target, estimated.
    #[cfg_attr(feature = "serde", serde(default))]
    pub debt_bytes: u64,
    /// Its merges under way.
    #[cfg_attr(feature = "serde", serde(default))]
    pub merges: Vec<MergeUnderWay>,
}

/// One sub-level.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SubLevelReport {
    /// Its name.
    pub number: u64,
    /// Larger is younger.
    pub age: u64,
    /// The flush or bulk load that the oldest of its writes came with, counted from 1. `None` if it is
    /// the one sub-level that the leveled policy keeps in a level, older than all others.
    #[cfg_attr(feature = "serde", serde(default))]
    pub oldest_flush: Option<u64>,
    /// Its tables in key order.
    pub tables: Vec<TableReport>,
}

/// One table. Serialised, a key that is not UTF-8 is in hexadecimal, under a name that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(
        into = "crate::db::report_forms::TableForm",
        try_from = "crate::db::report_forms::TableForm"
    )
)]
#[non_exhaustive]
pub struct TableReport {
    /// The number in its file's name.
    pub number: u64,
    /// Bytes of its file.
    pub size_bytes: u64,
    /// The name of the tier that its file lies in. `None` in a store that has one tier.
    pub tier: Option<String>,
    /// Versions in the file.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Deleted ranges in the file, beside the versions.
    pub range_tombstones: u64,
    /// Reads of its blocks from devices for users since the opening, in all levels and tiers where it was. A
    /// block in memory costs none.
    pub reads: u64,
    /// The first key listed.
    pub smallest: Vec<u8>,
    /// The last key listed.
    pub largest: Vec<u8>,
    /// Whether the bounds are narrower than the file.
    pub narrowed: bool,
    /// The lowest and highest sequence number.
    pub sequences: (SequenceNumber, SequenceNumber),
}

impl Store {
    /// Returns every table in its place. `duplicates` gives the duplicates of a keyspace's levels.
    pub(crate) fn levels_report(
        &self,
        duplicates: impl Fn(&KeyspaceLevels) -> Vec<LevelDuplicates>,
    ) -> LevelsReport {
        let version = Arc::clone(&self.reads.view.load().version);
        let tiers = self.files.tier_names();
        let keyspaces = version.keyspaces.values();
        let keyspaces = keyspaces.map(|levels| KeyspaceReport {
            id: levels.id.number(),
            name: levels.name.clone(),
            levels: sub_level_reports(levels, &tiers),
            duplicates: duplicates(levels),
            debt_bytes: described_by(&self.options.policy_settings(), self.form_of(levels), false)
                .debt_bytes(levels),
            merges: self.compactor.jobs.merges_of(levels.id),
        });
        LevelsReport {
            keyspaces: keyspaces.collect(),
            tables_to_delete: self.files.tables_to_delete() as u64,
            compactions: self.metrics.compactions.kept(&version),
            totals: level_totals(&version, &self.files.level_times),
        }
    }
}

/// The names of tiers by their numbers; none if there is one tier.
type TierNames = BTreeMap<u8, String>;

impl Files {
    fn tier_names(&self) -> TierNames {
        let tiers = self.space.accounts().into_iter();
        let names: TierNames = tiers
            .map(|account| (account.tier.number, account.tier.name))
            .collect();
        match names.len() {
            1 => TierNames::new(),
            _ => names,
        }
    }
}

fn sub_level_reports(levels: &KeyspaceLevels, tiers: &TierNames) -> Vec<Vec<SubLevelReport>> {
    let mut reports = vec![Vec::new(); levels.levels.len()];
    for (place, sub_level) in levels.sub_levels() {
        if let Some(of_level) = reports.get_mut(usize::from(place.level)) {
            of_level.push(report(place, sub_level, tiers));
        }
    }
    reports
}

fn report(place: Place, sub_level: &SubLevel, tiers: &TierNames) -> SubLevelReport {
    let table = |table: &Arc<Table>| TableReport {
        number: table.number,
        size_bytes: table.size_bytes,
        tier: tiers.get(&table.tier).cloned(),
        entries: table.entries,
        tombstones: table.tombstones,
        range_tombstones: table.range_tombstones,
        reads: table.device_reads().operations,
        smallest: table.bounds.smallest.clone(),
        largest: table.bounds.largest.clone(),
        narrowed: table.narrowed,
        sequences: (table.min_sequence, table.max_sequence),
    };
    SubLevelReport {
        number: sub_level.number,
        age: sub_level.age,
        oldest_flush: (place.flush_age() + 1).checked_sub(FIRST_FLUSH_AGE),
        tables: sub_level.tables.iter().map(table).collect(),
    }
}
