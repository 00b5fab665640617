//! A scheduler for tests that need long gaps.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shuttle::scheduler::{RandomScheduler, Schedule, Scheduler, Task, TaskId};

/// A random scheduler under which, now and then, a thread falls far behind the others.
pub(super) struct Naps {
    threads: RandomScheduler,
    random: StdRng,
    asleep: Option<(TaskId, u32)>,
}

impl Naps {
    const ONE_IN_STEPS: u32 = 100;
    const LONGEST_STEPS: u32 = 3_000;

    pub(super) fn new(schedules: usize) -> Self {
        Naps {
            threads: RandomScheduler::new_from_seed(1, schedules),
            random: StdRng::seed_from_u64(1),
            asleep: None,
        }
    }

    fn is_awake(&self, task: &Task) -> bool {
        self.asleep.is_none_or(|(asleep, _)| asleep != task.id())
    }
}

impl Scheduler for Naps {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.asleep = None;
        self.threads.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.asleep = match self.asleep {
            Some((task, steps)) => (steps > 0).then(|| (task, steps - 1)),
            None if self.random.random_range(0..Self::ONE_IN_STEPS) == 0 => {
                let steps = self.random.random_range(0..Self::LONGEST_STEPS);
                current.map(|task| (task, steps))
            }
            None => None,
        };
        let awake: Vec<&Task> = runnable
            .iter()
            .copied()
            .filter(|task| self.is_awake(task))
            .collect();
        let runnable = if awake.is_empty() { runnable } else { &awake };
        self.threads.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.threads.next_u64()
    }
}
