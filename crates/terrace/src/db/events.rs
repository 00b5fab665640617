//! Events of a store's background work, reported as they happen and kept for a while.

mod listener;
#[cfg_attr(not(feature = "tracing"), path = "events/no_trace.rs")]
pub(crate) mod trace;

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::SystemTime;

use terrace_lsm::sync::Mutex;
use terrace_storage::ForkMark;

use self::listener::Listener;
use crate::event::{Event, EventKind, EventListener};
use crate::opening::Opening;

/// Events that a store keeps; the oldest go first.
const KEPT: usize = 1000;

/// The last events of a store.
#[derive(Debug)]
pub(crate) struct EventLog {
    listener: Listener,
    mark: ForkMark,
    kept: Mutex<(u64, VecDeque<Event>)>,
}

impl EventLog {
    pub(crate) fn new(
        listener: Option<Arc<dyn EventListener>>,
        opening: Opening,
        mark: ForkMark,
    ) -> Self {
        EventLog {
            listener: Listener::new(listener, opening),
            mark,
            kept: Mutex::default(),
        }
    }

    /// Keeps an event and tells the listener. Not on the path of a read or an ordinary write.
    ///
    /// A listener may fork and return in the child as well. There the step that called it ends at
    /// once, by unwinding to the guard of its store: every lock on its way may stay held.
    pub(crate) fn record(&self, kind: EventKind) {
        let event = self.keep(kind);
        self.told(|| trace::event(&event));
        let panicked = self.listener.tell(&event);
        if self.mark.is_inherited() {
            resume_unwind(Box::new("forked".to_owned()));
        }
        if let Some(message) = panicked {
            self.record(EventKind::ListenerPanicked { message });
        }
    }

    /// Runs a caller's code that gets an event. The code may neither wait for the store nor end the
    /// thread's work.
    pub(crate) fn told(&self, tell: impl FnOnce()) {
        // A subscriber's panic has no other place where it could be shown.
        let _ = self.listener.enclose("subscriber", tell);
    }

    /// Refuses a call that would wait for the store, if the store's listener makes it in this thread.
    pub(crate) fn may_wait(&self) -> crate::Result<()> {
        self.listener.may_wait()
    }

    fn keep(&self, kind: EventKind) -> Event {
        let thread = std::thread::current();
        let mut kept = self.kept.lock();
        let (last, events) = &mut *kept;
        *last += 1;
        let event = Event {
            number: *last,
            time: SystemTime::now(),
            thread: thread.name().unwrap_or_default().to_owned(),
            kind,
        };
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(event.clone());
        event
    }

    /// Returns the kept events, oldest first.
    pub(crate) fn kept(&self) -> Vec<Event> {
        self.kept_after(0)
    }

    /// Returns the kept events after a number, oldest first.
    pub(crate) fn kept_after(&self, number: u64) -> Vec<Event> {
        let kept = self.kept.lock();
        let after = kept.1.partition_point(|event| event.number <= number);
        kept.1.range(after..).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_in_order() {
        let log = EventLog::new(None, Opening::new(), ForkMark::new().unwrap());
        for arenas in 0..KEPT + 3 {
            log.record(EventKind::FlushBegun { arenas });
        }
        let kept = log.kept();
        assert_eq!((kept.len(), kept[0].number), (KEPT, 4));
        assert!(
            kept.windows(2)
                .all(|pair| pair[0].number + 1 == pair[1].number)
        );
        assert!(kept[0].to_string().ends_with("flush of 3 arenas begun"));
    }
}
