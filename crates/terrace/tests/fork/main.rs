//! A store in a child that was forked from its owner: refused, left alone, and harmless to others.
//!
//! Each test runs in a process of its own (this test binary again), twice: with the word that the
//! kernel wipes in a child, and with the handler that stands in for it. There it forks. The child
//! does the steps of the test and says by its exit code whether all was right. It ends without a
//! word to the test harness. An alarm ends a child that hangs.

mod child;
mod closures;
mod handles;
mod owner;
mod transactions;
mod values;

use std::path::{Path, PathBuf};

use terrace::{Background, Db, Error, Options, PersistMethod};

/// The methods that keep arenas in files.
const METHODS: [PersistMethod; 2] = [PersistMethod::Written, PersistMethod::Mapped];

fn options(method: PersistMethod) -> Options {
    Options {
        persist_method: method,
        arena_bytes: 256 << 10,
        ..Options::default()
    }
}

/// Returns the same options, with background work in the calling thread.
fn inline(method: PersistMethod) -> Options {
    Options {
        background: Background::Inline,
        ..options(method)
    }
}

/// A directory for stores: on a disk, where there are both methods.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn other(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn is_forked<T>(outcome: terrace::Result<T>) -> bool {
    matches!(outcome, Err(Error::Forked))
}

fn is_busy(path: &Path, options: Options) -> bool {
    matches!(Db::open(path, options), Err(Error::Busy { .. }))
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Writes keys, each with its own number as the value.
fn put(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.put(key(number), key(number)).unwrap();
    }
}

/// Opens the store as the next owner and checks that it holds these numbers and nothing else.
fn check_reopened(path: &Path, options: Options, count: u32) {
    let db = Db::open(path, options).unwrap();
    let entries: Vec<_> = db.iter(Default::default()).unwrap().entries().collect();
    assert_eq!(entries.len(), count as usize);
    for (number, entry) in (0..count).zip(entries) {
        let number = key(number).to_vec();
        assert_eq!(entry.unwrap(), (number.clone(), number));
    }
    assert!(db.verify(|_, _| {}).unwrap().problems.is_empty());
}
