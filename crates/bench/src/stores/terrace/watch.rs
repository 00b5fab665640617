//! Terrace's background work, gathered from its events.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{Db, Event, EventKind, EventListener};

use crate::store::Activity;

/// Counts work that begins and ends. Only the one thread that samples a run reads it.
#[derive(Debug, Default)]
pub struct Watch {
    flushes_begun: AtomicU64,
    flushes_ended: AtomicU64,
    merges_begun: AtomicU64,
    merges_ended: AtomicU64,
    /// Time that writers had waited when it was asked last, ns.
    stalled_ns: AtomicU64,
}

impl EventListener for Watch {
    fn event(&self, event: &Event) {
        let counter = match event.kind {
            EventKind::FlushBegun { .. } => &self.flushes_begun,
            EventKind::FlushEnded { .. } => &self.flushes_ended,
            EventKind::MergeBegun { .. } => &self.merges_begun,
            EventKind::MergeEnded { .. } => &self.merges_ended,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// Returns the activity now. Writers count as stalled if any has been held back since the last
    /// call.
    pub fn activity(&self, db: &Db) -> Activity {
        let stalled: u128 = db
            .statistics()
            .stalls
            .iter()
            .map(|(_, time)| time.as_nanos())
            .sum();
        let stalled = u64::try_from(stalled).unwrap_or(u64::MAX);
        let before = self.stalled_ns.swap(stalled, Ordering::Relaxed);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (flushes, compactions) = (count(&self.flushes_ended), count(&self.merges_ended));
        Activity {
            flushes,
            compactions,
            flushing: count(&self.flushes_begun) > flushes,
            compacting: count(&self.merges_begun) > compactions,
            stalled: Some(stalled > before),
        }
    }
}
