//! The times of reads and writes of tables, for the levels that list them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_storage::{Operation, Purpose};

use crate::sync::Instant;

/// A taker of the times of reads and writes.
pub trait TableTimes: fmt::Debug + Send + Sync {
    /// Records the time of one operation on a table of this level.
    fn record(&self, level: usize, operation: Operation, purpose: Purpose, time: Duration);
}

/// The taker of the times in which a table of one level is written.
#[derive(Debug)]
pub(crate) struct WriteTimes {
    pub(crate) level: u8,
    pub(crate) times: Arc<dyn TableTimes>,
}

impl WriteTimes {
    /// Records a write that has ended.
    pub(crate) fn record(&self, purpose: Purpose, began: Instant) {
        let level = usize::from(self.level);
        self.times
            .record(level, Operation::Write, purpose, began.elapsed());
    }
}
