//! Events that a subscriber of `tracing` gets. Alone in its program: `tracing` asks once for each
//! event's place whether a subscriber wants it, and a test beside it without one may answer first.

mod support;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use support::within::within;
use terrace::{Background, Db, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber, subscriber};

/// Keeps level and message of each event.
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
        terrace::internal::poison(&db);
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
    told(Level::INFO, "flush of 1 arena begun");
    told(Level::INFO, "flush of 1 arena ended");
    told(Level::ERROR, "writes are refused");
}

/// Asks the store for its statistics at each event of an error.
#[derive(Clone, Default)]
struct Asks {
    db: Arc<Mutex<Option<Db>>>,
    poisoned: Arc<Mutex<Vec<bool>>>,
}

impl Subscriber for Asks {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "terrace"
    }
    fn event(&self, event: &tracing::Event<'_>) {
        let db = self.db.lock().unwrap().clone();
        if let Some(db) = db
            && *event.metadata().level() == Level::ERROR
        {
            let poisoned = db.statistics().poisoned.is_some();
            self.poisoned.lock().unwrap().push(poisoned);
        }
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An edit fails while the manifest is locked; a subscriber that hears of it may ask all the same.
#[test]
fn a_subscriber_may_ask_for_statistics_when_an_edit_poisons_the_store() {
    within("flush", || {
        let asks = Asks::default();
        subscriber::with_default(asks.clone(), || {
            let directory = tempfile::tempdir().unwrap();
            let options = Options {
                background: Background::Inline,
                ..Options::default()
            };
            let db = Db::open(directory.path().join("store"), options).unwrap();
            *asks.db.lock().unwrap() = Some(db.clone());
            db.put(b"key", b"value").unwrap();
            std::fs::remove_file(directory.path().join("store/MANIFEST-000001")).unwrap();
            db.flush().unwrap_err();
            db.put(b"key", b"value").unwrap_err();
            let _ = db.close();
            *asks.db.lock().unwrap() = None;
        });
        let poisoned = asks.poisoned.lock().unwrap();
        assert_eq!(*poisoned, [true]);
    });
}
