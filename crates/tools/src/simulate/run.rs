//! A simulation from the first write to when nothing is left to merge.

use terrace::offline::{Limits, Pressure, Slowdown, slowdown};
use terrace::{Error, Result};

use super::board::Board;
use super::description::{Simulation, TreeKind};
use super::levels::SimulatedLevels;
use super::load::Span;
use super::outcome::{Outcome, Recorder, Seconds};
use super::trie;

impl Simulation {
    /// Simulates it; `progress` hears now and then the share of the writes that is done.
    ///
    /// # Errors
    /// A description that makes no sense, naming its fault; a store that stops its writers for
    /// good.
    pub fn run(&self, progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
        self.check()?;
        match self.tree {
            TreeKind::Levels => Run::new(self)?.run(progress),
            TreeKind::Trie(form) => trie::run(self, form, progress),
        }
    }
}

/// A store under a load.
struct Run<'a> {
    simulation: &'a Simulation,
    levels: SimulatedLevels,
    board: Board,
    recorder: Recorder,
}

impl<'a> Run<'a> {
    fn new(simulation: &'a Simulation) -> Result<Run<'a>> {
        let levels = SimulatedLevels::of(simulation)?;
        let all = Span {
            from: 0.0,
            to: levels.load.writes(),
        };
        let distinct = levels.load.distinct_keys(all) - levels.load.tombstones(all);
        let board = match simulation.speeds {
            // Inline, as in a store: one worker.
            None => Board::new(1, f64::INFINITY),
            Some(speeds) => Board::new(
                simulation.options.compaction_threads,
                speeds.merge_bytes_per_second,
            ),
        };
        Ok(Run {
            simulation,
            recorder: Recorder::new(simulation, distinct),
            levels,
            board,
        })
    }

    fn run(mut self, progress: &mut dyn FnMut(f64)) -> Result<Outcome> {
        let writes = self.simulation.writes;
        let mut done = 0;
        let mut flushes = 0u64;
        while done < writes {
            let of_arena = self.levels.arena_writes.min(writes - done);
            self.fill_arena(done, of_arena)?;
            done += of_arena;
            let flushed_bytes = self.levels.flush(of_arena)?;
            self.recorder.flushed(flushed_bytes);
            self.see();
            self.work_off(|board| board.now)?;
            let space_bytes = self.space_bytes();
            self.recorder
                .mark(done, space_bytes, self.levels.sub_levels());
            flushes += 1;
            if flushes.is_multiple_of(TELL_FLUSHES) {
                progress(done as f64 / writes as f64);
            }
        }
        let seconds = self.simulation.speeds.map(|speeds| {
            let unheld = self.recorder.bytes_of(writes) / speeds.write_bytes_per_second;
            Seconds {
                load: self.board.now,
                held_back: self.board.now - unheld,
            }
        });
        self.recorder.loaded(seconds);
        self.work_off(|_| f64::INFINITY)?;
        let enlarged = self
            .levels
            .enlarged_table_bytes(self.simulation.options.default_keyspace.table_bytes);
        let space_bytes = self.space_bytes();
        Ok(self.recorder.settled(space_bytes, enlarged))
    }

    /// Lets workers go on until some time.
    fn work_off(&mut self, until: fn(&Board) -> f64) -> Result<()> {
        loop {
            self.board.employ(&mut self.levels, &mut self.recorder)?;
            match self.board.next_end() {
                Some(end) if end <= until(&self.board) => {
                    self.board.pass_to(end);
                    self.board.end_next(&mut self.levels, &mut self.recorder)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Passes the time in which a number of writes come in, while workers go on.
    fn fill_arena(&mut self, done: u64, writes: u64) -> Result<()> {
        let mut left_bytes = self.recorder.bytes_of(writes);
        loop {
            self.board.employ(&mut self.levels, &mut self.recorder)?;
            let pace = self.seconds_per_byte()?;
            let full_at = pace.map(|pace| self.board.now + left_bytes * pace);
            let until = match (full_at, self.board.next_end()) {
                (None, None) => {
                    return Err(Error::invalid(
                        "writers stop for good: level0_stop or debt_stop_bytes is below what the \
                         policy leaves",
                    ));
                }
                (Some(full_at), Some(end)) => full_at.min(end),
                (Some(at), None) | (None, Some(at)) => at,
            };
            let seconds = until - self.board.now;
            let space_bytes = self.space_bytes();
            self.recorder
                .pass(seconds, done, space_bytes, self.levels.sub_levels());
            self.board.pass_to(until);
            if full_at.is_some_and(|full_at| full_at <= until) {
                return Ok(());
            }
            left_bytes -= pace.map_or(0.0, |pace| seconds / pace);
            self.board.end_next(&mut self.levels, &mut self.recorder)?;
        }
    }

    /// Returns the seconds that a byte takes a writer; `None` while all are stopped.
    fn seconds_per_byte(&self) -> Result<Option<f64>> {
        let Some(speeds) = self.simulation.speeds else {
            return Ok(Some(1.0));
        };
        let unheld = 1.0 / speeds.write_bytes_per_second;
        Ok(match slowdown(self.pressure()?, self.limits()) {
            Slowdown::Go => Some(unheld),
            Slowdown::Delay { ns_per_kib, .. } => Some(unheld + ns_per_kib as f64 * 1e-9 / 1024.0),
            Slowdown::Stop { .. } => None,
        })
    }

    fn pressure(&self) -> Result<Pressure> {
        let levels = self.levels.levels()?;
        let level0 = levels.levels.first();
        let known = self.levels.known(self.board.busy());
        let policy = &self.levels.policy;
        let overdue = policy.overdue(levels, &self.board.claims(), &known);
        Ok(Pressure {
            level0_sub_levels: level0.map_or(0, |level| level.sub_levels.len()),
            debt_bytes: policy.debt_bytes(levels),
            overdue_permille: (overdue * 1000.0) as u64,
            // Flushes take no time.
            free_sixteenths: u64::MAX,
        })
    }

    fn limits(&self) -> Limits {
        let options = &self.simulation.options;
        Limits {
            level0_slowdown: options.level0_slowdown,
            level0_stop: options.level0_stop(),
            debt_slowdown_bytes: options.constants.debt_slowdown_bytes,
            debt_stop_bytes: options.constants.debt_stop_bytes,
            free_sixteenths_slowdown: 0,
        }
    }

    fn space_bytes(&self) -> f64 {
        (self.levels.size_bytes() + self.board.unlisted_bytes()) as f64
    }

    fn see(&mut self) {
        let space_bytes = self.space_bytes();
        self.recorder.see(space_bytes, self.levels.sub_levels());
    }
}

/// Flushes between two calls of `progress`.
pub(super) const TELL_FLUSHES: u64 = 64;
