//! Schedules of shuttle that follow from one seed: a test that passed passes again, and a mutant
//! that was caught is caught again. `SHUTTLE_RANDOM_SEED` takes another seed.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

const SEED: u64 = 1;

/// Runs `body` under schedules that toss a coin at every step.
pub fn check_random(body: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let scheduler = RandomScheduler::new_from_seed(SEED, schedules);
    Runner::new(scheduler, Config::default()).run(body);
}

/// Runs `body` under schedules with priorities, which change `changes` times.
pub fn check_pct(body: impl Fn() + Send + Sync + 'static, schedules: usize, changes: usize) {
    let scheduler = PctScheduler::new_from_seed(SEED, changes, schedules);
    Runner::new(scheduler, Config::default()).run(body);
}
