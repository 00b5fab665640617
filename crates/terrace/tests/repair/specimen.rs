//! Stores to damage, and the contents that they must have after a repair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::image::{Image, STORE};
use crate::support;
use crate::support::machine::{Machine, Method};
use crate::support::model::{Change, Content, Model, State};
use crate::support::script::{Operation, Run, Script, tiny};
use terrace::{Background, Db, IterOptions, KeyspaceId, Options};
use terrace_storage::{CrashSwitch, SimulatedStorage};
use terrace_tools::inspect;
use terrace_tools::repair::{RepairReport, repair};

pub const BOOT: u64 = 1;

pub fn options(disk: &SimulatedStorage) -> Options {
    tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        ..Options::default()
    })
}

pub fn repaired(disk: &SimulatedStorage) -> RepairReport {
    let report = repair(STORE.as_ref(), options(disk), |_, _| {}).unwrap();
    let verified = inspect::verify(STORE.as_ref(), options(disk), |_, _| {}).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
    report
}

/// Returns a store's contents, by the numbers of its keyspaces.
pub fn contents(db: &Db) -> State {
    let mut state = State::new();
    for keyspace in db.keyspaces() {
        let entries = keyspace.iter(IterOptions::default()).unwrap().entries();
        let content: Content = entries.collect::<Result<_, _>>().unwrap();
        if !content.is_empty() {
            state.insert(keyspace.id().number(), content);
        }
    }
    state
}

pub fn open(disk: &SimulatedStorage) -> Db {
    let options = Options {
        create_if_missing: false,
        ..options(disk)
    };
    let db = Db::open(STORE, options).unwrap();
    terrace::internal::check_ages(&db).unwrap();
    db
}

pub fn is_manifest(name: &str) -> bool {
    name == "CURRENT" || name.starts_with("MANIFEST")
}

/// A store after a script, as its process left it when it was killed.
pub struct Scripted {
    pub image: Image,
    pub state: State,
    /// Every value that a key ever had.
    pub ever: BTreeMap<(u32, Vec<u8>), BTreeSet<Vec<u8>>>,
}

impl Scripted {
    pub fn new(seed: u64, operations: usize, deletes: bool) -> Self {
        let machine = Machine::new(Method::Written, seed);
        let options = machine.options();
        let mut run = Run::new(Model::default());
        run.open(options.clone()).unwrap();
        let mut script = Script::new(seed, true);
        let mut ever: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for _ in 0..operations {
            let mut operation = script.next();
            match &mut operation {
                Operation::HoldFlushes => continue,
                Operation::Write { writes, .. } if !deletes => {
                    writes.retain(|(_, _, change)| matches!(change, Change::Put(_)));
                }
                _ => {}
            }
            run.apply(operation, &options).unwrap();
            for (keyspace, content) in &run.model.state {
                for (key, value) in content {
                    let values = ever.entry((*keyspace, key.clone())).or_default();
                    values.insert(value.clone());
                }
            }
        }
        run.db().persist().unwrap();
        Scripted {
            image: Image::of(&machine.storage),
            state: run.model.state.clone(),
            ever,
        }
    }

    /// Asserts that every key has its value, and no key has one that it never had. With `lenient`
    /// keys that were deleted may be back.
    pub fn check(&self, db: &Db, lenient: bool) {
        let mut found = contents(db);
        if lenient {
            for (keyspace, content) in &mut found {
                let expected = self.state.get(keyspace);
                content.retain(|key, value| {
                    let is_back = expected.is_none_or(|expected| !expected.contains_key(key));
                    let values = self.ever.get(&(*keyspace, key.clone()));
                    assert!(
                        values.is_some_and(|values| values.contains(value)),
                        "{key:?}"
                    );
                    !is_back
                });
            }
            found.retain(|_, content| !content.is_empty());
        }
        support::model::assert_same(&found, &self.state);
    }

    pub fn without_manifest(&self) -> Image {
        let mut image = self.image.clone();
        image.files.retain(|name, _| !is_manifest(name));
        image
    }
}

/// Returns a store with tables and unflushed frames, every key written once: losses can be told.
pub fn written_once() -> (Image, Content) {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    let mut content = Content::new();
    for number in 0..600u32 {
        let key = (number * 7919 % 600).to_be_bytes().to_vec();
        db.put(&key, number.to_le_bytes().repeat(12)).unwrap();
        content.insert(key, number.to_le_bytes().repeat(12));
        if number == 550 {
            db.flush().unwrap();
            db.compact().unwrap();
        }
    }
    db.persist().unwrap();
    (Image::of(&disk), content)
}

pub fn tables(image: &Image) -> Vec<String> {
    image.names(|name| name.ends_with(".table"))
}

pub fn of_default(db: &Db) -> Content {
    contents(db)
        .remove(&KeyspaceId::DEFAULT.number())
        .unwrap_or_default()
}
