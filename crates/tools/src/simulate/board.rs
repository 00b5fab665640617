//! Merges under way in simulated time: the board of jobs of a store (`db/jobs.rs`), without threads.
//!
//! Level 0 goes before slices of deeper merges. Slices are begun and installed in the order of
//! their keys. A search for the next merge sees the claims of those under way.

use std::collections::BTreeMap;

use terrace::{Error, Result};
use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::policy::Choice;
use terrace_lsm::compaction::slices::Slice;

use super::levels::{Outputs, SimulatedLevels, is_move};
use super::outcome::Recorder;

/// Workers and their merges.
pub(crate) struct Board {
    workers: usize,
    /// Bytes that one of them writes in a second; infinite if merges take no time.
    bytes_per_second: f64,
    /// Simulated time.
    pub(crate) now: f64,
    jobs: Vec<Job>,
    last_id: u64,
    building: Vec<Building>,
    /// Steps since time has passed last.
    steps: u64,
}

/// Maximum number of steps at one moment; more have no end in sight.
const MOST_STEPS: u64 = 1_000_000;

struct Job {
    id: u64,
    choice: Choice,
    claim: Claim,
    slices: Vec<Slice>,
    /// The first slice that is not begun.
    next: usize,
    /// The first slice that is not installed.
    installed: usize,
    built: BTreeMap<usize, Outputs>,
}

struct Building {
    job: u64,
    slice: usize,
    outputs: Outputs,
    ends_at: f64,
}

impl Board {
    pub(crate) fn new(workers: usize, bytes_per_second: f64) -> Board {
        Board {
            workers,
            bytes_per_second,
            now: 0.0,
            jobs: Vec::new(),
            last_id: 0,
            building: Vec::new(),
            steps: 0,
        }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |job: &Job| match job.slices.get(job.installed) {
            Some(slice) => job.claim.clone().beginning_at(slice),
            None => job.claim.clone(),
        };
        self.jobs.iter().map(claim).collect()
    }

    /// Returns the names of the sub-levels that merges write into.
    pub(crate) fn busy(&self) -> Vec<u64> {
        let outputs = self.jobs.iter().map(|job| job.choice.output.sub_level);
        outputs.collect()
    }

    /// Returns the bytes that are written and not listed; unfinished outputs count in full.
    pub(crate) fn unlisted_bytes(&self) -> u64 {
        let building = self.building.iter().map(|building| &building.outputs);
        let built = self.jobs.iter().flat_map(|job| job.built.values());
        building
            .chain(built)
            .map(|outputs| outputs.size_bytes)
            .sum()
    }

    /// Returns when the next slice is built, if one is being built.
    pub(crate) fn next_end(&self) -> Option<f64> {
        let ends = self.building.iter().map(|building| building.ends_at);
        ends.reduce(f64::min)
    }

    pub(crate) fn pass_to(&mut self, time: f64) {
        if time > self.now {
            self.steps = 0;
            self.now = time;
        }
    }

    /// Gives every idle worker work, if there is any.
    pub(crate) fn employ(
        &mut self,
        levels: &mut SimulatedLevels,
        recorder: &mut Recorder,
    ) -> Result<()> {
        while self.building.len() < self.workers {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err(Error::invalid(
                    "a simulated policy finds no end of merges at one moment",
                ));
            }
            if let Some(at) = self.waiting(|job| job.choice.is_of_level0()) {
                self.build(at, levels, recorder);
                continue;
            }
            let waiting = self.waiting(|_| true);
            let chosen = levels.pick(&self.claims(), self.busy())?;
            let chosen = chosen.filter(|choice| waiting.is_none() || choice.goes_first());
            match (chosen, waiting) {
                (Some(choice), _) => self.begin(choice, levels, recorder)?,
                (None, Some(at)) => self.build(at, levels, recorder),
                (None, None) => break,
            }
        }
        Ok(())
    }

    /// Finds a job with a slice that waits to be built.
    fn waiting(&self, of: impl Fn(&Job) -> bool) -> Option<usize> {
        let mut jobs = self.jobs.iter();
        jobs.position(|job| job.next < job.slices.len() && of(job))
    }

    fn begin(
        &mut self,
        choice: Choice,
        levels: &mut SimulatedLevels,
        recorder: &mut Recorder,
    ) -> Result<()> {
        let choice = choice.named(|| levels.new_name());
        if is_move(&choice) {
            recorder.moved(choice.inputs.len());
            return levels.move_tables(&choice);
        }
        let claim = Claim::of(&choice).ok_or_else(|| Error::invalid("a merge of nothing"))?;
        let slices = levels.slices(&choice);
        let read_bytes = slices.iter().map(|slice| slice.input_bytes).sum();
        recorder.merge_began(choice.reason, read_bytes);
        self.last_id += 1;
        self.jobs.push(Job {
            id: self.last_id,
            choice,
            claim,
            slices,
            next: 0,
            installed: 0,
            built: BTreeMap::new(),
        });
        Ok(())
    }

    fn build(&mut self, at: usize, levels: &SimulatedLevels, recorder: &mut Recorder) {
        let Some(job) = self.jobs.get_mut(at) else {
            return;
        };
        let Some(slice) = job.slices.get(job.next) else {
            return;
        };
        let outputs = levels.merged(&job.choice, slice);
        recorder.merge_wrote(job.choice.reason, outputs.size_bytes);
        let seconds = outputs.size_bytes as f64 / self.bytes_per_second;
        self.building.push(Building {
            job: job.id,
            slice: job.next,
            outputs,
            ends_at: self.now + seconds,
        });
        job.next += 1;
        self.see(levels, recorder);
    }

    /// Ends the slice that is built first, and installs all of its job that can be.
    pub(crate) fn end_next(
        &mut self,
        levels: &mut SimulatedLevels,
        recorder: &mut Recorder,
    ) -> Result<()> {
        let ends = self.building.iter().map(|building| building.ends_at);
        let first = ends.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, _)) = first else {
            return Ok(());
        };
        let ended = self.building.swap_remove(at);
        let Some(at) = self.jobs.iter().position(|job| job.id == ended.job) else {
            return Ok(());
        };
        let Some(job) = self.jobs.get_mut(at) else {
            return Ok(());
        };
        job.built.insert(ended.slice, ended.outputs);
        while let Some(outputs) = job.built.remove(&job.installed) {
            if let Some(slice) = job.slices.get(job.installed) {
                levels.install_slice(&job.choice, slice, &outputs)?;
            }
            job.installed += 1;
        }
        if job.installed == job.slices.len() {
            self.jobs.remove(at);
        }
        self.see(levels, recorder);
        Ok(())
    }

    fn see(&self, levels: &SimulatedLevels, recorder: &mut Recorder) {
        let bytes = levels.size_bytes() + self.unlisted_bytes();
        recorder.see(bytes as f64, levels.sub_levels());
    }
}
