//! A job on the board, and the work that workers take from it and bring back.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::{Choice, Input};
use terrace_lsm::compaction::slices::Slice;
use terrace_lsm::compaction::space::Space;
use terrace_lsm::compaction::table_ends::Ends;
use terrace_lsm::levels::{KeyRange, TableMeta};

use super::under_way::Progress;
use crate::KeyspaceId;
use crate::db::table_files::NewFiles;

/// A choice that is being carried out.
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) keyspace: KeyspaceId,
    /// The choice, without the inputs that end in installed slices.
    pub(super) choice: Arc<Choice>,
    pub(super) claim: Claim,
    /// Slices in key order; none before the job is divided, and none for a move.
    pub(super) slices: Vec<Slice>,
    /// The preferred ends of its output tables.
    pub(super) ends: Arc<Ends>,
    pub(super) space: Space,
    /// Whether all the space that it needs is kept free of other merges. If not, it goes on as long
    /// as there is room for a slice.
    pub(super) is_reserved: bool,
    /// The first slice that no worker has taken.
    pub(super) next: usize,
    /// The first slice that is not installed.
    pub(super) installed: usize,
    /// Slices from here on are not to be built or installed any more.
    pub(super) end: usize,
    /// Slices that workers are building.
    pub(super) building: usize,
    pub(super) progress: Progress,
    pub(super) built: BTreeMap<usize, BuiltSlice>,
}

/// A choice that its worker is to begin.
pub(crate) struct Begun {
    pub(crate) job: u64,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) choice: Arc<Choice>,
}

/// A slice that its worker is to build.
#[derive(Clone)]
pub(crate) struct SliceWork {
    pub(crate) job: u64,
    pub(crate) keyspace: KeyspaceId,
    /// The choice with the inputs that have keys of the slice.
    pub(crate) choice: Arc<Choice>,
    pub(crate) number: usize,
    pub(crate) slice: Slice,
    pub(crate) ends: Arc<Ends>,
    /// Bytes that this slice is expected to write.
    pub(crate) expected_bytes: u64,
    /// Bytes of the inputs that go with its edit.
    pub(crate) given_back_bytes: u64,
}

/// A slice whose outputs are written and wait for their edit.
pub(crate) struct BuiltSlice {
    pub(crate) work: SliceWork,
    /// Versions of the inputs that it was made of.
    pub(crate) read_versions: u64,
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) files: NewFiles,
}

/// The next task of a worker.
pub(crate) enum Work {
    Begin(Begun),
    Build(SliceWork),
}

/// A job that is no longer on the board.
pub(crate) struct Ended {
    pub(crate) job: u64,
    pub(crate) keyspace: KeyspaceId,
    /// The choice with the inputs that are left.
    pub(crate) choice: Arc<Choice>,
    /// The keys of all of its inputs.
    pub(crate) range: KeyRange,
    pub(crate) progress: Progress,
    pub(crate) installed: usize,
    pub(crate) slices: usize,
}

impl Ended {
    /// Returns a merge of one slice that was installed whole, for tests.
    pub(crate) fn whole(keyspace: KeyspaceId, choice: Choice) -> Self {
        Ended {
            job: 1,
            keyspace,
            progress: Progress::begun(1, &choice),
            range: KeyRange::inclusive("", "~"),
            choice: Arc::new(choice),
            installed: 1,
            slices: 1,
        }
    }

    /// Returns its entry in the history, if it dropped none of `entries`, for tests.
    pub(crate) fn past_without_drops(&self, entries: u64) -> crate::Compaction {
        crate::Compaction {
            entries,
            dropped: 0,
            setback: true,
            ..self.progress.began.past()
        }
    }

    /// Returns whether every slice was installed.
    pub(crate) fn is_whole(&self) -> bool {
        self.installed == self.slices
    }

    /// Returns the number of versions that went in.
    pub(crate) fn entries(&self) -> u64 {
        self.progress.entries(self.is_whole())
    }
}

impl Job {
    pub(super) fn claim(&self) -> Claim {
        match self.slices.get(self.installed) {
            Some(slice) => self.claim.clone().beginning_at(slice),
            None => self.claim.clone(),
        }
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        match self.is_reserved {
            true => self.space.needed_from(self.installed),
            false => 0,
        }
    }

    /// Drops the inputs that end in an installed slice, so that their files can be deleted. A merge
    /// of half the store would else need the space of all of them until its end.
    pub(super) fn let_go(&mut self, installed: &Slice) {
        self.choice = self.part(|input| !installed.ends_behind(&input.table.bounds));
    }

    /// Returns the choice with some of its inputs.
    pub(super) fn part(&self, is_in: impl Fn(&Input) -> bool) -> Arc<Choice> {
        let inputs = self.choice.inputs.iter().filter(|input| is_in(input));
        Arc::new(Choice {
            inputs: inputs.cloned().collect(),
            ..(*self.choice).clone()
        })
    }

    /// Returns whether a slice may be built now. Where there is room for one at a time only, the
    /// one before is installed first.
    pub(super) fn has_waiting_slice(&self) -> bool {
        self.next < self.end && (self.is_reserved || self.next == self.installed)
    }

    pub(super) fn take_slice(&mut self) -> Option<(usize, Slice)> {
        let number = self.next;
        let slice = self.slices.get(number).filter(|_| number < self.end)?;
        self.next += 1;
        self.building += 1;
        Some((number, slice.clone()))
    }
}
