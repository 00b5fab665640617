//! The sums of one store, which watched operations add to when they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::current::{Aside, Stages, Watch, aside, stage};
use super::report::{PathProfile, StageProfile, TimeProfile};
use super::{Path, STAGES, Stage};
use crate::made_once::MadeOnce;

/// Shuttle's threads share those of the system, whose watch would be that of all of them. Time
/// stands still there, too.
const IS_ON: bool = !cfg!(feature = "shuttle");

#[derive(Debug, Default)]
struct StageSums {
    nanoseconds: AtomicI64,
    /// Readings of the clock that are in it.
    readings: AtomicI64,
    /// Of all operations, watched or not.
    exact_nanoseconds: AtomicU64,
}

#[derive(Debug)]
struct PathSums {
    watched: AtomicU64,
    stages: [StageSums; STAGES],
}

/// Sums of where time went, since the store was opened. Few operations touch it, so those of all
/// threads do.
#[derive(Debug)]
pub struct TimeProfiler {
    paths: [PathSums; Path::ALL.len()],
}

impl Default for TimeProfiler {
    fn default() -> Self {
        let path = |_| PathSums {
            watched: AtomicU64::new(0),
            stages: std::array::from_fn(|_| StageSums::default()),
        };
        TimeProfiler {
            paths: std::array::from_fn(path),
        }
    }
}

impl TimeProfiler {
    /// Watches this thread's operation until the value is dropped.
    pub fn watch(self: &Arc<Self>, path: Path, first: Stage) -> Watched {
        self.watch_part(path, first, 1)
    }

    /// Watches work that belongs to operations of a path and is none of its own.
    pub fn watch_more(self: &Arc<Self>, path: Path, first: Stage) -> Watched {
        self.watch_part(path, first, 0)
    }

    fn watch_part(self: &Arc<Self>, path: Path, first: Stage, operations: u64) -> Watched {
        Watched {
            watch: IS_ON.then(|| Watch::begin(first, path.one_in())),
            profiler: Arc::clone(self),
            path,
            operations,
        }
    }

    /// Times a stage that is rare and long, whether or not its operation is watched. Everything
    /// inside it is part of it.
    pub fn exact(&self, path: Path, stage: Stage) -> Exact<'_> {
        let sums = self
            .of(path)
            .and_then(|path| path.stages.get(stage as usize));
        Exact {
            began: IS_ON.then(|| (Instant::now(), aside())),
            sums,
        }
    }

    fn of(&self, path: Path) -> Option<&PathSums> {
        self.paths.get(path as usize)
    }

    /// Returns the profile up to now.
    pub fn profile(&self) -> TimeProfile {
        let paths = Path::ALL.iter().zip(&self.paths);
        TimeProfile {
            paths: paths.map(|(path, sums)| sums.profile(*path)).collect(),
        }
    }
}

impl PathSums {
    fn add(&self, operations: u64, stages: &Stages) {
        self.watched.fetch_add(operations, Ordering::Relaxed);
        for (sums, spent) in self.stages.iter().zip(&stages.spent) {
            if spent.readings != 0 {
                let (time, readings) = (&sums.nanoseconds, &sums.readings);
                time.fetch_add(spent.nanoseconds, Ordering::Relaxed);
                readings.fetch_add(spent.readings, Ordering::Relaxed);
            }
        }
    }

    fn profile(&self, path: Path) -> PathProfile {
        let one_in = path.one_in();
        let watched = self.watched.load(Ordering::Relaxed);
        let stages = Stage::ALL.iter().zip(&self.stages);
        let stages = stages.filter_map(|(stage, sums)| {
            let time = sums.time(one_in);
            (!time.is_zero()).then(|| StageProfile {
                stage: stage.name().to_owned(),
                time,
                share: 0.0,
            })
        });
        let mut profile = PathProfile {
            path: path.name().to_owned(),
            one_in,
            watched,
            operations: watched * u64::from(one_in),
            time: Duration::ZERO,
            stages: stages.collect(),
        };
        profile.add_up();
        profile
    }
}

impl StageSums {
    /// Returns the time of all operations, when one in `one_in` was watched, without the time of
    /// the clock.
    fn time(&self, one_in: u32) -> Duration {
        let clock = self.readings.load(Ordering::Relaxed) as f64 * reading_nanoseconds();
        let watched = self.nanoseconds.load(Ordering::Relaxed) as f64 - clock;
        let watched = watched.max(0.0) * f64::from(one_in);
        let exact = Duration::from_nanos(self.exact_nanoseconds.load(Ordering::Relaxed));
        Duration::try_from_secs_f64(watched / 1e9).unwrap_or_default() + exact
    }
}

/// See [`TimeProfiler::watch`].
#[must_use]
pub struct Watched {
    watch: Option<Watch>,
    profiler: Arc<TimeProfiler>,
    path: Path,
    operations: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(watch) = &mut self.watch {
            let stages = watch.end();
            if let Some(sums) = self.profiler.of(self.path) {
                sums.add(self.operations, &stages);
            }
        }
    }
}

/// See [`TimeProfiler::exact`].
#[must_use]
pub struct Exact<'a> {
    began: Option<(Instant, Aside)>,
    sums: Option<&'a StageSums>,
}

impl Drop for Exact<'_> {
    fn drop(&mut self) {
        if let (Some((began, _aside)), Some(sums)) = (&self.began, self.sums) {
            let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let sum = &sums.exact_nanoseconds;
            sum.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }
}

/// Returns the time to end a stage and begin the next one: some 30 ns, as much as a short stage.
/// Measured once, in a moment of the caller's. It is the least of several averages, for other work
/// of the processor makes it longer and never shorter.
fn reading_nanoseconds() -> f64 {
    const ROUNDS: usize = 20;
    const READINGS: usize = 50;
    static MEASURED: MadeOnce<f64> = MadeOnce::new();
    let measure = || {
        let averages = (0..ROUNDS).map(|_| {
            let mut watch = Watch::begin(Stage::Queue, 1);
            for _ in 0..READINGS {
                let _within = stage(Stage::Insert);
            }
            let spent = watch.end().spent;
            let all = |of: fn(&super::current::Spent) -> i64| spent.iter().map(of).sum::<i64>();
            all(|spent| spent.nanoseconds) as f64 / all(|spent| spent.readings).max(1) as f64
        });
        averages.fold(f64::MAX, f64::min)
    };
    MEASURED.get(measure).copied().unwrap_or_else(measure)
}
