//! The board of the jobs under way: what is claimed, which slices wait to be built, and which built
//! ones to be installed.
//!
//! A job is put on the board by the worker that chose it and stays there until its last edit is
//! durable, so that whoever chooses next sees its claim. Slices are handed out in the order of
//! their keys and installed in that order, by one thread. A slice that fails takes those behind it
//! with it: the job ends there, and what is left of its inputs, narrowed to it, is decided anew.
//!
//! The board is changed after the version is, never before. So whoever looks at the board first and
//! then at the version sees claims that are too large for a moment and never too small.

mod asked_for;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::asked_for::AskedFor;
use crate::compaction::claim::Claim;
use crate::compaction::explain::UnderWay;
use crate::compaction::policy::{Choice, Input};
use crate::compaction::slices::Slice;
use crate::db::table_files::NewFiles;
use crate::levels::TableMeta;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, KeyspaceId, Result};

/// The jobs under way.
#[derive(Default)]
pub(crate) struct Jobs {
    board: Mutex<Board>,
    changed: Condvar,
}

#[derive(Default)]
struct Board {
    last_id: u64,
    jobs: Vec<Job>,
    /// Bytes that slices being built are expected to write.
    reserved_bytes: u64,
    /// Steps that changed something, failed, or found that nothing is left to do.
    rounds: u64,
    /// How the last of them ended.
    last: Option<Result<bool>>,
    closed: bool,
    last_ticket: u64,
    asked_for: Vec<AskedFor>,
    /// Places that are about to be taken, by ticket.
    reserved: Vec<(u64, KeyspaceId, Claim)>,
}

/// A choice that is being carried out.
struct Job {
    id: u64,
    keyspace: KeyspaceId,
    /// Without the inputs that end in what is installed.
    choice: Arc<Choice>,
    /// Versions in all of its inputs.
    input_versions: u64,
    claim: Claim,
    /// In key order; none before the job is divided, and none for a move.
    slices: Vec<Slice>,
    /// The first slice that nobody has taken.
    next: usize,
    /// The first slice that is not installed.
    installed: usize,
    /// Slices from here on are not to be built or installed any more.
    end: usize,
    /// Slices that workers are building.
    building: usize,
    /// Versions in what was installed.
    written_versions: u64,
    built: BTreeMap<usize, BuiltSlice>,
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
    pub(crate) choice: Arc<Choice>,
    pub(crate) number: usize,
    pub(crate) slice: Slice,
    /// Bytes that this slice and all others being built need.
    pub(crate) reserved_bytes: u64,
}

/// A slice whose outputs are written and wait for their edit.
pub(crate) struct BuiltSlice {
    pub(crate) work: SliceWork,
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) files: NewFiles,
}

/// What a worker does next.
pub(crate) enum Work {
    Begin(Begun),
    Build(SliceWork),
}

/// A job that is no longer on the board.
pub(crate) struct Ended {
    pub(crate) job: u64,
    pub(crate) keyspace: KeyspaceId,
    /// Of its inputs those that are left.
    pub(crate) choice: Arc<Choice>,
    /// Versions in all of its inputs.
    pub(crate) input_versions: u64,
    /// Versions in its outputs.
    pub(crate) written_versions: u64,
    pub(crate) installed: usize,
    pub(crate) slices: usize,
}

impl Job {
    fn claim(&self) -> Claim {
        match self.slices.get(self.installed) {
            Some(slice) => self.claim.clone().beginning_at(slice),
            None => self.claim.clone(),
        }
    }

    /// Lets go of the inputs that end in an installed slice, so that their files can be deleted: a merge
    /// of half the store would else need the space of all of them until its end.
    fn let_go(&mut self, installed: &Slice) {
        let is_left = |input: &&Input| !installed.ends_behind(&input.table.bounds);
        let left = self.choice.inputs.iter().filter(is_left).cloned();
        self.choice = Arc::new(Choice {
            inputs: left.collect(),
            ..(*self.choice).clone()
        });
    }

    fn has_waiting_slice(&self) -> bool {
        self.next < self.end
    }

    fn take_slice(&mut self) -> Option<(usize, Slice)> {
        let number = self.next;
        let slice = self.slices.get(number).filter(|_| number < self.end)?;
        self.next += 1;
        self.building += 1;
        Some((number, slice.clone()))
    }
}

impl Jobs {
    /// The next work, if there is some. `choose` is asked what to begin, given what is claimed in
    /// each keyspace; level 0 goes before the slices of deeper merges that wait to be built.
    pub(crate) fn next(
        &self,
        choose: impl FnOnce(&[(KeyspaceId, Claim)]) -> Result<Option<(KeyspaceId, Choice)>>,
    ) -> Result<Option<Work>> {
        let mut board = self.board.lock();
        let waiting = board.jobs.iter().position(Job::has_waiting_slice);
        let upper = board
            .jobs
            .iter()
            .position(|job| job.has_waiting_slice() && job.choice.is_of_level0());
        if let Some(at) = upper {
            return Ok(board.take_slice(at));
        }
        let claims = board.claims(|_| true);
        let chosen = choose(&claims)?;
        match (chosen, waiting) {
            (Some((keyspace, choice)), waiting) if waiting.is_none() || choice.is_of_level0() => {
                Ok(board.begin(keyspace, choice))
            }
            (_, Some(at)) => Ok(board.take_slice(at)),
            _ => {
                if board.jobs.is_empty() {
                    self.note(&mut board, Ok(false));
                }
                Ok(None)
            }
        }
    }

    /// Everything that is claimed, with what is known of it.
    pub(crate) fn under_way(&self) -> Vec<(KeyspaceId, Claim, UnderWay)> {
        let board = self.board.lock();
        let jobs = board.jobs.iter().map(|job| {
            let claim = job.claim();
            let reason = job.choice.reason.to_string();
            let shown = UnderWay {
                job: Some(job.id),
                installed_slices: job.installed,
                slices: job.slices.len(),
                ..shown(&claim, reason)
            };
            (job.keyspace, claim, shown)
        });
        let waiting = board
            .asked_for
            .iter()
            .filter_map(|asked| asked.waiting.as_ref());
        let waiting = waiting.map(|(keyspace, claim)| {
            let reason = "it was asked for, and waits for others".to_owned();
            (*keyspace, claim.clone(), shown(claim, reason))
        });
        let reserved = board.reserved.iter().map(|(_, keyspace, claim)| {
            let reason = "tables are put there".to_owned();
            (*keyspace, claim.clone(), shown(claim, reason))
        });
        jobs.chain(waiting).chain(reserved).collect()
    }

    /// The sub-levels that merges of a keyspace write into.
    pub(crate) fn outputs_of(&self, keyspace: KeyspaceId) -> Vec<u64> {
        let board = self.board.lock();
        let jobs = board.jobs.iter().filter(|job| job.keyspace == keyspace);
        jobs.map(|job| job.choice.output.sub_level).collect()
    }

    /// Whether a job is on the board.
    pub(crate) fn is_under_way(&self, job: u64) -> bool {
        self.board.lock().job(job).is_some()
    }

    /// The job is divided: its slices wait for workers.
    pub(crate) fn divided(&self, job: u64, slices: Vec<Slice>) {
        let mut board = self.board.lock();
        if let Some(job) = board.job(job) {
            job.end = slices.len();
            job.slices = slices;
        }
    }

    /// A slice waits to be installed. Given back if one before it failed meanwhile.
    pub(crate) fn built(&self, built: BuiltSlice) -> Option<BuiltSlice> {
        let mut board = self.board.lock();
        board.release(&built.work);
        let closed = board.closed;
        match board.job(built.work.job) {
            Some(job) if built.work.number < job.end && !closed => {
                job.built.insert(built.work.number, built);
                None
            }
            _ => Some(built),
        }
    }

    /// A slice that nothing is missing before.
    pub(crate) fn take_installable(&self) -> Option<BuiltSlice> {
        let mut board = self.board.lock();
        if board.closed {
            return None;
        }
        board
            .jobs
            .iter_mut()
            .find_map(|job| job.built.remove(&job.installed))
    }

    /// The slice is installed. The job, if this was its last one; `count` hears of it before those
    /// who wait for the job do.
    pub(crate) fn installed(
        &self,
        slice: &BuiltSlice,
        count: impl FnOnce(&Ended),
    ) -> Option<Ended> {
        let work = &slice.work;
        let mut board = self.board.lock();
        if let Some(job) = board.job(work.job) {
            job.installed = work.number + 1;
            job.written_versions += slice.tables.iter().map(|table| table.entries).sum::<u64>();
            job.let_go(&work.slice);
        }
        let ended = board.end_if_done(work.job);
        if let Some(ended) = &ended {
            count(ended);
        }
        self.note(&mut board, Ok(true));
        ended
    }

    /// Gives up a slice and all behind it. What was built of them is to be thrown away.
    pub(crate) fn give_up(&self, work: &SliceWork) -> (Vec<BuiltSlice>, Option<Ended>) {
        let mut board = self.board.lock();
        let Some(job) = board.job(work.job) else {
            return (Vec::new(), None);
        };
        job.end = job.end.min(work.number);
        let useless = job.built.split_off(&work.number);
        let ended = board.end_if_done(work.job);
        (useless.into_values().collect(), ended)
    }

    /// Gives up all that is under way in a keyspace that has been dropped. What was built of it is
    /// given to `throw_away`.
    pub(crate) fn forget(&self, keyspace: KeyspaceId, throw_away: impl FnMut(BuiltSlice)) {
        let mut board = self.board.lock();
        let mut useless = Vec::new();
        for job in board.jobs.iter_mut().filter(|job| job.keyspace == keyspace) {
            job.end = job.installed;
            useless.extend(std::mem::take(&mut job.built).into_values());
        }
        // Those of which a slice is being built leave the board with it.
        board
            .jobs
            .retain(|job| job.keyspace != keyspace || job.building > 0 || job.slices.is_empty());
        drop(board);
        useless.into_iter().for_each(throw_away);
    }

    /// A slice is no longer being built, and not built either.
    pub(crate) fn not_built(&self, work: &SliceWork) {
        self.board.lock().release(work);
    }

    /// A job that is done, or given up before it was divided.
    pub(crate) fn remove(&self, job: u64) {
        self.board.lock().jobs.retain(|other| other.id != job);
    }

    /// How a step ended that waiters want to know of.
    pub(crate) fn ended(&self, step: Result<bool>) {
        self.note(&mut self.board.lock(), step);
    }

    fn note(&self, board: &mut MutexGuard<'_, Board>, step: Result<bool>) {
        board.rounds += 1;
        board.last = Some(step);
        self.changed.notify_all();
    }

    /// Waits until something changes, `wish` having been called: true if work was done, false if
    /// none is left.
    ///
    /// # Errors
    /// The failure, if a step fails; [`Error::Closed`].
    pub(crate) fn wait(&self, wish: impl FnOnce()) -> Result<bool> {
        let rounds = self.board.lock().rounds;
        wish();
        let mut board = self.board.lock();
        while board.rounds == rounds && !board.closed {
            self.changed.wait(&mut board);
        }
        if board.closed {
            return Err(Error::Closed);
        }
        board.last.clone().unwrap_or(Ok(false))
    }

    /// Nothing is installed any more, and nobody waits. What was built and not installed.
    pub(crate) fn close(&self) -> Vec<BuiltSlice> {
        let mut board = self.board.lock();
        board.closed = true;
        self.changed.notify_all();
        let jobs = board.jobs.iter_mut();
        jobs.flat_map(|job| std::mem::take(&mut job.built).into_values())
            .collect()
    }
}

/// What a claim tells of itself.
fn shown(claim: &Claim, reason: String) -> UnderWay {
    UnderWay {
        job: None,
        reason,
        tables: claim.inputs().collect(),
        output_level: claim.output().level,
        installed_slices: 0,
        slices: 0,
    }
}

impl Board {
    /// The claims of the jobs under way, and of those asked for that wait and count.
    fn claims(&self, counts: impl Fn(&AskedFor) -> bool) -> Vec<(KeyspaceId, Claim)> {
        let jobs = self.jobs.iter().map(|job| (job.keyspace, job.claim()));
        let asked = self.asked_for.iter().filter(|asked| counts(asked));
        let reserved = self.reserved.iter();
        let reserved = reserved.map(|(_, keyspace, claim)| (*keyspace, claim.clone()));
        jobs.chain(asked.filter_map(|asked| asked.waiting.clone()))
            .chain(reserved)
            .collect()
    }

    fn job(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    fn begin(&mut self, keyspace: KeyspaceId, choice: Choice) -> Option<Work> {
        self.last_id += 1;
        let choice = Arc::new(choice);
        self.jobs.push(Job {
            id: self.last_id,
            keyspace,
            claim: Claim::of(&choice)?,
            input_versions: choice.inputs.iter().map(|input| input.table.entries).sum(),
            choice: Arc::clone(&choice),
            slices: Vec::new(),
            next: 0,
            installed: 0,
            end: 0,
            building: 0,
            written_versions: 0,
            built: BTreeMap::new(),
        });
        Some(Work::Begin(Begun {
            job: self.last_id,
            keyspace,
            choice,
        }))
    }

    fn take_slice(&mut self, at: usize) -> Option<Work> {
        let job = self.jobs.get_mut(at)?;
        let (number, slice) = job.take_slice()?;
        self.reserved_bytes += slice.input_bytes;
        Some(Work::Build(SliceWork {
            job: job.id,
            keyspace: job.keyspace,
            choice: Arc::clone(&job.choice),
            number,
            slice,
            reserved_bytes: self.reserved_bytes,
        }))
    }

    fn release(&mut self, work: &SliceWork) {
        self.reserved_bytes -= work.slice.input_bytes;
        if let Some(job) = self.job(work.job) {
            job.building -= 1;
        }
    }

    /// Takes the job off the board if nothing of it is left to be built or installed.
    fn end_if_done(&mut self, id: u64) -> Option<Ended> {
        let done = |job: &Job| job.id == id && job.installed >= job.end && job.building == 0;
        let at = self.jobs.iter().position(done)?;
        let job = self.jobs.remove(at);
        if let Some(asked) = self.asked_for.iter_mut().find(|asked| asked.job == id) {
            asked.is_complete = job.installed == job.slices.len();
        }
        Some(Ended {
            job: job.id,
            keyspace: job.keyspace,
            input_versions: job.input_versions,
            written_versions: job.written_versions,
            installed: job.installed,
            slices: job.slices.len(),
            choice: job.choice,
        })
    }
}
