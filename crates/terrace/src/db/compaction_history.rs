//! The last merges and moves since the store was opened, each with its predicted and its actual
//! result.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_lsm::compaction::policy::{Choice, ChoiceKind};
use terrace_lsm::levels::Version;
use terrace_lsm::sync::Instant;

use crate::KeyspaceId;
use crate::db::lock_order::{OrderedMutex, place};

/// Compactions that a store remembers; the oldest go first.
pub(crate) const KEPT: usize = 256;

/// A merge or a move of tables that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Compaction {
    /// Number of the job, as in events.
    pub job: u64,
    /// Present name of its keyspace; for a keyspace dropped since, the name when the job ended.
    pub keyspace: String,
    /// Time when it was chosen.
    #[cfg_attr(
        feature = "serde",
        serde(
            rename = "began_seconds",
            with = "terrace_lsm::serial::milliseconds_since_1970"
        )
    )]
    pub began: SystemTime,
    /// Time that it took from then on, with the waiting for threads.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "duration_seconds", with = "terrace_lsm::serial::seconds")
    )]
    pub duration: Duration,
    /// Reason why it was chosen, in words.
    pub reason: String,
    /// Kind of work on the inputs.
    pub kind: CompactionKind,
    /// The levels of the inputs, ascending.
    pub input_levels: Vec<u8>,
    /// The level of the outputs.
    pub output_level: u8,
    /// Tables that took part.
    pub input_tables: u64,
    /// Bytes of these tables.
    pub input_bytes: u64,
    /// Tables written; a move's were not.
    pub output_tables: u64,
    /// Bytes of these tables.
    pub output_bytes: u64,
    /// Entries that went in, without those of slices that were not installed.
    pub entries: u64,
    /// Entries that it was expected to drop; `None` if it was chosen for another reason.
    pub predicted_dropped: Option<u64>,
    /// Entries that it dropped.
    pub dropped: u64,
    /// Whether it dropped less than half of the predicted entries.
    pub setback: bool,
    /// Slices that it was divided into; 0 for a move.
    pub slices: u64,
    /// Slices that were installed.
    pub installed_slices: u64,
    /// Reason why some were not, if so: a failure, or the close of the store.
    pub cut_short: Option<String>,
}

/// Kind of a compaction's work on its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum CompactionKind {
    /// They are read and written as new tables.
    Merge,
    /// They change their level as they are.
    Move,
    /// Deleted ranges hide all their entries, so the tables go.
    Removal,
}

/// A job from its beginning on. It keeps no table of its choice: a merge that goes on has the
/// inputs that it is done with deleted.
#[derive(Clone, Debug)]
pub(crate) struct Began {
    pub(crate) chosen: Compaction,
    clock: Instant,
}

impl Began {
    pub(crate) fn now(job: u64, choice: &Choice) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // No finer than reports show it.
        let milliseconds = since.unwrap_or_default().as_millis() as u64;
        let time = UNIX_EPOCH + Duration::from_millis(milliseconds);
        Began {
            chosen: chosen(job, choice, time),
            clock: Instant::now(),
        }
    }

    /// Returns the job as one that ends now and has done nothing.
    pub(crate) fn past(&self) -> Compaction {
        Compaction {
            duration: self.clock.elapsed(),
            ..self.chosen.clone()
        }
    }
}

fn chosen(job: u64, choice: &Choice, began: SystemTime) -> Compaction {
    let inputs = choice.inputs.iter();
    let levels: BTreeSet<u8> = inputs.clone().map(|input| input.place.level).collect();
    Compaction {
        job,
        keyspace: String::new(),
        began,
        duration: Duration::ZERO,
        reason: choice.reason.to_string(),
        kind: match choice.kind {
            ChoiceKind::Move => CompactionKind::Move,
            ChoiceKind::Merge => CompactionKind::Merge,
            ChoiceKind::Removal => CompactionKind::Removal,
        },
        input_levels: levels.into_iter().collect(),
        output_level: choice.output.level,
        input_tables: choice.inputs.len() as u64,
        input_bytes: inputs.map(|input| input.table.size_bytes).sum(),
        output_tables: 0,
        output_bytes: 0,
        entries: 0,
        predicted_dropped: choice.predicted.map(|it| it.droppable.round() as u64),
        dropped: 0,
        setback: false,
        slices: 0,
        installed_slices: 0,
        cut_short: None,
    }
}

/// The last compactions of a store.
#[derive(Debug, Default)]
pub(crate) struct CompactionHistory(
    OrderedMutex<{ place::HISTORY }, VecDeque<(KeyspaceId, Compaction)>>,
);

impl CompactionHistory {
    /// Remembers a job that has ended.
    pub(crate) fn add(&self, keyspace: KeyspaceId, compaction: Compaction) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((keyspace, compaction));
    }

    /// Returns the remembered jobs, in the order in which they ended. Keyspaces have the names that
    /// `version` gives them.
    pub(crate) fn kept(&self, version: &Version) -> Vec<Compaction> {
        let mut kept: Vec<_> = self.0.lock().iter().cloned().collect();
        for (keyspace, past) in &mut kept {
            if let Some(levels) = version.keyspace(*keyspace) {
                past.keyspace.clone_from(&levels.name);
            }
        }
        kept.into_iter().map(|(_, past)| past).collect()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use terrace_lsm::compaction::estimates::Duplicates;
    use terrace_lsm::compaction::policy::{Input, Reason};
    use terrace_lsm::levels::testing::{added, levels, sub_level_place, version};

    use super::*;

    fn compaction(job: u64) -> Compaction {
        let version = version(vec![
            added(sub_level_place(2, 5), 1, "a", "z"),
            added(sub_level_place(1, 7), 2, "a", "z"),
            added(sub_level_place(1, 8), 3, "a", "z"),
        ]);
        let inputs = levels(&version).tables();
        let choice = Choice {
            reason: Reason::AskedFor,
            kind: ChoiceKind::Merge,
            inputs: inputs
                .map(|(place, table)| Input::new(place, table))
                .collect(),
            output: sub_level_place(2, 5),
            predicted: Some(Duplicates::new(100, 59.6, 0)),
        };
        Began::now(job, &choice).past()
    }

    #[test]
    fn the_last_ones_are_kept_in_order() {
        let history = CompactionHistory::default();
        let last = KEPT as u64 + 3;
        for job in 1..=last {
            history.add(KeyspaceId::DEFAULT, compaction(job));
        }
        let version = version(Vec::new());
        let kept = history.kept(&version);
        let kept: Vec<u64> = kept.iter().map(|past| past.job).collect();
        assert!(kept.iter().copied().eq(4..=last), "{kept:?}");
    }

    #[test]
    fn what_was_chosen_is_told() {
        let past = compaction(1);
        assert_eq!((past.input_levels, past.output_level), (vec![1, 2], 2));
        assert_eq!((past.input_tables, past.predicted_dropped), (3, Some(40)));
        assert_eq!(past.reason, "it was asked for");
    }

    #[test]
    fn one_comes_back_from_json() {
        let mut past = compaction(7);
        past.began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        past.duration = Duration::from_nanos(1_234_567_891);
        let text = serde_json::to_string(&past).unwrap();
        assert!(text.contains(r#""began_seconds":1700000000.123"#), "{text}");
        assert_eq!(serde_json::from_str::<Compaction>(&text).unwrap(), past);
    }
}
