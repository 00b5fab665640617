//! The same events for programs that collect with `tracing`, and the two moments of a store that
//! are not background work: its opening and the failure after which it refuses writes. Without a
//! subscriber an event costs the load of one word.

use std::path::Path;

use tracing::{debug, error, info, warn};

use crate::db::events::{Event, EventKind};
use crate::db::recover::Recovery;
use crate::{Durability, Error};

pub(super) fn event(event: &Event) {
    let (number, kind) = (event.number, &event.kind);
    match kind {
        EventKind::SliceBegun { .. } | EventKind::TablesDeleted { .. } => {
            debug!(target: "terrace", number, "{kind}");
        }
        // A close gives slices up; that is no failure.
        EventKind::SliceFailed {
            error: Error::Closed,
            ..
        } => {
            debug!(target: "terrace", number, "{kind}");
        }
        EventKind::SliceFailed { .. }
        | EventKind::StepFailed { .. }
        | EventKind::WritersStopped { .. } => warn!(target: "terrace", number, "{kind}"),
        _ => info!(target: "terrace", number, "{kind}"),
    }
}

pub(crate) fn opened(path: &Path, durability: Durability, recovery: &Recovery) {
    let (arenas, writes) = (recovery.arenas, recovery.writes);
    let is_whole = recovery.dropped.is_none() && recovery.region_loss.is_none();
    let path = path.display();
    let clean = recovery.clean_close;
    if is_whole {
        info!(target: "terrace", %path, %durability, clean, arenas, writes, "store opened");
    } else {
        let dropped = recovery.dropped.as_ref();
        let loss = recovery.region_loss.map(tracing::field::display);
        warn!(target: "terrace", %path, arenas, writes, ?dropped, loss, "store opened with losses");
    }
}

pub(crate) fn poisoned(path: &Path, cause: &Error) {
    error!(target: "terrace", path = %path.display(), %cause, "writes are refused from now on");
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber, subscriber};

    use crate::{Background, Db, Options};

    /// Keeps level and message of what it is told.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<(Level, String)>>>);

    impl Visit for Kept {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                self.0.lock().unwrap().last_mut().unwrap().1 = format!("{value:?}");
            }
        }
    }

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "terrace"
        }
        fn event(&self, event: &tracing::Event<'_>) {
            let level = *event.metadata().level();
            self.0.lock().unwrap().push((level, String::new()));
            event.record(&mut self.clone());
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_subscriber_is_told_of_openings_flushes_and_failures() {
        let kept = Kept::default();
        subscriber::with_default(kept.clone(), || {
            let options = Options {
                background: Background::Inline,
                ..Options::in_memory()
            };
            let db = Db::open("/store", options).unwrap();
            db.put(b"key", b"value").unwrap();
            db.flush().unwrap();
            crate::internal::poison(&db);
            db.flush().unwrap_err();
        });
        let kept = kept.0.lock().unwrap();
        let told = |level, text: &str| {
            assert!(
                kept.iter().any(|(l, t)| *l == level && t.contains(text)),
                "{level} {text}: {kept:?}"
            );
        };
        told(Level::INFO, "store opened");
        told(Level::INFO, "flush of 1 arenas begun");
        told(Level::INFO, "flush of 1 arenas ended");
        told(Level::ERROR, "writes are refused");
    }
}
