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
pub(crate) mod under_way;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::asked_for::AskedFor;
pub(crate) use self::asked_for::Reserved;
use self::under_way::Progress;
use crate::compaction::claim::Claim;
use crate::compaction::explain::UnderWay;
use crate::compaction::policy::{Choice, Input};
use crate::compaction::slices::Slice;
use crate::compaction::space::Space;
use crate::compaction::table_ends::End;
use crate::db::table_files::NewFiles;
use crate::levels::{KeyRange, TableMeta};
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
    /// Merges that have no space beside those under way, until one of these gives some back.
    put_off: Vec<(KeyspaceId, Claim)>,
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
    claim: Claim,
    /// In key order; none before the job is divided, and none for a move.
    slices: Vec<Slice>,
    /// Where the tables of its outputs had better end.
    ends: Arc<[End]>,
    space: Space,
    /// All that it needs is kept free of other merges; if not, it goes on as long as there is room for a slice.
    is_reserved: bool,
    /// The first slice that nobody has taken.
    next: usize,
    /// The first slice that is not installed.
    installed: usize,
    /// Slices from here on are not to be built or installed any more.
    end: usize,
    /// Slices that workers are building.
    building: usize,
    progress: Progress,
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
    /// With the inputs that have keys of the slice.
    pub(crate) choice: Arc<Choice>,
    pub(crate) number: usize,
    pub(crate) slice: Slice,
    pub(crate) ends: Arc<[End]>,
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
    /// The keys of all of its inputs.
    pub(crate) range: KeyRange,
    pub(crate) progress: Progress,
    pub(crate) installed: usize,
    pub(crate) slices: usize,
}

impl Ended {
    /// Returns a merge of one slice that was installed whole, for tests.
    #[cfg(test)]
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
    #[cfg(test)]
    pub(crate) fn past_without_drops(&self, entries: u64) -> crate::Compaction {
        crate::Compaction {
            entries,
            dropped: 0,
            setback: true,
            ..self.progress.began.past()
        }
    }

    /// Whether every slice was installed.
    pub(crate) fn is_whole(&self) -> bool {
        self.installed == self.slices
    }

    /// The versions that went in.
    pub(crate) fn entries(&self) -> u64 {
        self.progress.entries(self.is_whole())
    }
}

impl Job {
    fn claim(&self) -> Claim {
        match self.slices.get(self.installed) {
            Some(slice) => self.claim.clone().beginning_at(slice),
            None => self.claim.clone(),
        }
    }

    fn reserved_bytes(&self) -> u64 {
        match self.is_reserved {
            true => self.space.needed_from(self.installed),
            false => 0,
        }
    }

    /// Lets go of the inputs that end in an installed slice, so that their files can be deleted: a merge
    /// of half the store would else need the space of all of them until its end.
    fn let_go(&mut self, installed: &Slice) {
        self.choice = self.part(|input| !installed.ends_behind(&input.table.bounds));
    }

    /// The choice with some of its inputs.
    fn part(&self, is_in: impl Fn(&Input) -> bool) -> Arc<Choice> {
        let inputs = self.choice.inputs.iter().filter(|input| is_in(input));
        Arc::new(Choice {
            inputs: inputs.cloned().collect(),
            ..(*self.choice).clone()
        })
    }

    /// One that may be built now: where there is room for one at a time only, the one before is installed first.
    fn has_waiting_slice(&self) -> bool {
        self.next < self.end && (self.is_reserved || self.next == self.installed)
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
            (Some((keyspace, choice)), waiting) if waiting.is_none() || choice.goes_first() => {
                Ok(board.begin(keyspace, choice))
            }
            (_, Some(at)) => Ok(board.take_slice(at)),
            _ => {
                // A reservation may be in the way of a merge. The merge begins after its release.
                if board.jobs.is_empty() && board.reserved.is_empty() {
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
        let put_off = board.put_off.iter().map(|(keyspace, claim)| {
            let reason = "it waits for space that others give back".to_owned();
            (*keyspace, claim.clone(), shown(claim, reason))
        });
        jobs.chain(waiting).chain(reserved).chain(put_off).collect()
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

    /// Keeps what a job needs free of merges that begin after it. False if that is not free: it is put off, and
    /// off the board, until others have given back what they take. Alone it goes on slice by slice, as far as it
    /// comes; and so does a merge of level 0, which writers wait for.
    ///
    /// # Errors
    /// Those of asking.
    pub(crate) fn reserve_space(
        &self,
        job: u64,
        space: Space,
        is_free: impl Fn(u64) -> Result<bool>,
    ) -> Result<bool> {
        // Nobody waits for the board while the file system is asked.
        let mut others_bytes = self.board.lock().reserved_beside(job);
        loop {
            let needed_bytes = others_bytes + space.needed_from(0);
            let is_reserved = is_free(needed_bytes)?;
            let mut board = self.board.lock();
            let others_now = board.reserved_beside(job);
            if others_now > others_bytes {
                others_bytes = others_now;
                continue;
            }
            let Some(job) = board.job(job) else {
                return Ok(true);
            };
            if is_reserved || others_now == 0 || job.choice.is_of_level0() {
                (job.is_reserved, job.space) = (is_reserved, space);
                return Ok(true);
            }
            let id = job.id;
            board.put_off(id);
            return Ok(false);
        }
    }

    /// Begins the pick of `choose` beside what is under way. Slices go on waiting. Merges that only wait are
    /// chosen anew, so their claims are in nobody's way here.
    pub(crate) fn begin_beside(
        &self,
        choose: impl FnOnce(&[(KeyspaceId, Claim)]) -> Option<(KeyspaceId, Choice)>,
    ) -> Option<Begun> {
        let mut board = self.board.lock();
        let claims: Vec<_> = board.begun().collect();
        let (keyspace, choice) = choose(&claims)?;
        match board.begin(keyspace, choice) {
            Some(Work::Begin(begun)) => Some(begun),
            _ => None,
        }
    }

    /// The job is divided: its slices wait for workers. `ends` is where the tables of its outputs had better end.
    pub(crate) fn divided(&self, job: u64, slices: Vec<Slice>, ends: Arc<[End]>) {
        let mut board = self.board.lock();
        if let Some(job) = board.job(job) {
            job.end = slices.len();
            job.slices = slices;
            job.ends = ends;
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
            job.progress.add(slice);
            job.let_go(&work.slice);
        }
        board.put_off.clear();
        let ended = board.end_if_done(work.job);
        if let Some(ended) = &ended {
            count(ended);
        }
        self.note(&mut board, Ok(true));
        ended
    }

    /// Gives up a slice and all behind it, for this reason. What was built of them is to be thrown away.
    pub(crate) fn give_up(
        &self,
        work: &SliceWork,
        error: &Error,
    ) -> (Vec<BuiltSlice>, Option<Ended>) {
        let mut board = self.board.lock();
        let Some(job) = board.job(work.job) else {
            return (Vec::new(), None);
        };
        job.end = job.end.min(work.number);
        job.progress.failure.get_or_insert_with(|| error.clone());
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
        let mut board = self.board.lock();
        board.jobs.retain(|other| other.id != job);
        board.put_off.clear();
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
        let asked = self.asked_for.iter().filter(|asked| counts(asked));
        self.begun()
            .chain(asked.filter_map(|asked| asked.waiting.clone()))
            .chain(self.put_off.iter().cloned())
            .collect()
    }

    /// The claims of the jobs under way, and on places that are about to be taken.
    fn begun(&self) -> impl Iterator<Item = (KeyspaceId, Claim)> {
        let jobs = self.jobs.iter().map(|job| (job.keyspace, job.claim()));
        let reserved = self.reserved.iter();
        jobs.chain(reserved.map(|(_, keyspace, claim)| (*keyspace, claim.clone())))
    }

    /// Takes a job off the board and keeps others from choosing it again. Not one that was asked for: who waits
    /// for it begins it again.
    fn put_off(&mut self, id: u64) {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else {
            return;
        };
        let job = self.jobs.remove(at);
        if !self.asked_for.iter().any(|asked| asked.job == id) {
            self.put_off.push((job.keyspace, job.claim));
        }
    }

    /// What is reserved for all jobs but one.
    fn reserved_beside(&self, job: u64) -> u64 {
        let others = self.jobs.iter().filter(|other| other.id != job);
        others.map(Job::reserved_bytes).sum()
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
            choice: Arc::clone(&choice),
            slices: Vec::new(),
            ends: Arc::default(),
            space: Space::default(),
            is_reserved: false,
            next: 0,
            installed: 0,
            end: 0,
            building: 0,
            progress: Progress::begun(self.last_id, &choice),
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
        let choice = job.part(|input| slice.overlaps(&input.table.bounds));
        let (expected_bytes, given_back_bytes) = job.space.of_slice(number);
        Some(Work::Build(SliceWork {
            job: job.id,
            keyspace: job.keyspace,
            choice,
            number,
            slice,
            ends: Arc::clone(&job.ends),
            expected_bytes,
            given_back_bytes,
        }))
    }

    fn release(&mut self, work: &SliceWork) {
        if let Some(job) = self.job(work.job) {
            job.building -= 1;
        }
    }

    /// Takes the job off the board if nothing of it is left to be built or installed.
    fn end_if_done(&mut self, id: u64) -> Option<Ended> {
        let done = |job: &Job| job.id == id && job.installed >= job.end && job.building == 0;
        let at = self.jobs.iter().position(done)?;
        let job = self.jobs.remove(at);
        self.put_off.clear();
        if let Some(asked) = self.asked_for.iter_mut().find(|asked| asked.job == id) {
            asked.is_complete = job.installed == job.slices.len();
        }
        Some(Ended {
            job: job.id,
            keyspace: job.keyspace,
            range: job.claim.range().clone(),
            progress: job.progress,
            installed: job.installed,
            slices: job.slices.len(),
            choice: job.choice,
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod reserved_tests;
