//! Merges under way as the board shows them, and the counts that are kept as they go on.

use terrace_lsm::compaction::policy::{Choice, ChoiceKind};
use terrace_lsm::levels::Table;

use super::{BuiltSlice, Job, Jobs};
use crate::db::compaction_history::Began;
use crate::{Error, KeyspaceId};

/// A merge that is being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MergeUnderWay {
    /// Number of the merge, as events tell it.
    pub job: u64,
    /// Reason for which it was chosen, in words.
    pub reason: String,
    /// The levels of the inputs, ascending.
    pub input_levels: Vec<u8>,
    /// The level of the outputs.
    pub output_level: u8,
    /// Tables that are merged.
    pub input_tables: u64,
    /// Bytes of these tables.
    pub input_bytes: u64,
    /// Bytes of the tables that have taken the place of inputs.
    pub output_bytes: u64,
    /// Slices that it is divided into; none before it is.
    pub slices: u64,
    /// Slices that are installed.
    pub installed_slices: u64,
}

/// The progress of a job, counted over the slices that are installed.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) began: Began,
    /// Versions in all inputs; `None` if some count in part only.
    input_versions: Option<u64>,
    read_versions: u64,
    pub(crate) written_versions: u64,
    pub(crate) written_tables: u64,
    pub(crate) written_bytes: u64,
    /// The reason for which the first of the others was given up.
    pub(crate) failure: Option<Error>,
}

impl Progress {
    pub(crate) fn begun(job: u64, choice: &Choice) -> Self {
        let inputs = choice.inputs.iter();
        let of_input = |table: &Table| (!table.narrowed).then_some(table.entries);
        Progress {
            began: Began::now(job, choice),
            input_versions: inputs.map(|input| of_input(&input.table)).sum(),
            read_versions: 0,
            written_versions: 0,
            written_tables: 0,
            written_bytes: 0,
            failure: None,
        }
    }

    /// Returns the number of versions that went in. A slice reads nothing of a table that a deleted
    /// range hides. So the tables' own counts are taken if all slices are installed and all tables
    /// count as a whole.
    pub(super) fn entries(&self, is_whole: bool) -> u64 {
        let listed = self.input_versions.filter(|_| is_whole);
        listed.unwrap_or(self.read_versions)
    }

    pub(super) fn add(&mut self, slice: &BuiltSlice) {
        self.read_versions += slice.read_versions;
        self.written_tables += slice.tables.len() as u64;
        for table in &slice.tables {
            self.written_versions += table.entries;
            self.written_bytes += table.size_bytes;
        }
    }
}

impl Jobs {
    /// Returns the merges of a keyspace, in the order in which they were chosen.
    pub(crate) fn merges_of(&self, keyspace: KeyspaceId) -> Vec<MergeUnderWay> {
        let board = self.board.lock();
        let is_merge = |job: &&Job| job.choice.kind == ChoiceKind::Merge;
        let jobs = board.jobs.iter().filter(|job| job.keyspace == keyspace);
        jobs.filter(is_merge).map(shown).collect()
    }
}

fn shown(job: &Job) -> MergeUnderWay {
    let chosen = &job.progress.began.chosen;
    MergeUnderWay {
        job: job.id,
        reason: chosen.reason.clone(),
        input_levels: chosen.input_levels.clone(),
        output_level: chosen.output_level,
        input_tables: chosen.input_tables,
        input_bytes: chosen.input_bytes,
        output_bytes: job.progress.written_bytes,
        slices: job.slices.len() as u64,
        installed_slices: job.installed as u64,
    }
}
