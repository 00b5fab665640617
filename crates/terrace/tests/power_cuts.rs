//! Power cuts of a store whose directory is moved and whose `LOCK` is removed while it is written.
//!
//! Each image is the life of one `PowerSafe` store on a simulated disk that dies at a random step.
//! On the way the directory is renamed, another store is made in its place, or `LOCK` goes and a
//! second owner tries to get in. Some manifests end in half a record. Afterwards every acknowledged
//! write is there, no other but the one under way, and the stores made in its place hold their own.
//!
//! `TERRACE_IMAGES` sets the number of images (500 by default), `TERRACE_IMAGE_SEED` their seed.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, Db, Durability, Error, IterOptions, KeyspaceOptions, Options};
use terrace_storage::{
    CrashKind, CrashSwitch, LockKind, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage,
};

fn options(disk: &SimulatedStorage) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        background: Background::Inline,
        arena_bytes: 16 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 8 << 10,
            level1_bytes: 16 << 10,
            ..KeyspaceOptions::default()
        },
        level0_merge: 2,
        constants: terrace::Constants {
            manifest_bytes: 2 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// Asserts that an error is the death of the disk: nothing else ends a store's life.
fn assert_dead(error: &Error) {
    assert!(support::script::is_frozen(error), "{error}");
}

fn keys(db: &Db) -> Vec<Vec<u8>> {
    let entries = db.iter(IterOptions::default()).unwrap().entries();
    entries.map(|entry| entry.unwrap().0).collect()
}

/// A store that is written until its disk dies.
struct Life {
    disk: SimulatedStorage,
    db: Db,
    /// Its directory at present.
    path: PathBuf,
    acknowledged: usize,
    /// Stores that were made in its place, each with this many writes.
    others: Vec<(PathBuf, usize)>,
    locks_removed: usize,
}

impl Life {
    fn begin(disk: SimulatedStorage) -> Self {
        let path = PathBuf::from("/store");
        Life {
            db: Db::open(&path, options(&disk)).unwrap(),
            disk,
            path,
            acknowledged: 0,
            others: Vec::new(),
            locks_removed: 0,
        }
    }

    /// Renames the directory, and makes another store in its place.
    fn move_away(&mut self) -> terrace::Result<()> {
        let left = self.path.clone();
        let moved = PathBuf::from(format!("/moved-{}", self.others.len()));
        if self.disk.rename_directory(&left, &moved).is_err() {
            // The disk is dead.
            return Ok(());
        }
        self.path = moved;
        self.others.push((left.clone(), 0));
        let other = Db::open(&left, options(&self.disk))?;
        for number in 0..3 {
            other.put(key(number), b"another store's")?;
            self.others.last_mut().unwrap().1 += 1;
        }
        other.close()
    }

    /// Removes `LOCK`; no second owner gets in.
    fn remove_lock(&mut self) {
        if self.disk.remove(&self.path.join("LOCK")).is_err() {
            return;
        }
        self.locks_removed += 1;
        match Db::open(&self.path, options(&self.disk)) {
            Err(Error::Busy { .. }) => {}
            Err(error) => assert_dead(&error),
            Ok(_) => panic!("a second owner beside a live one"),
        }
    }

    /// Writes, with mishaps on the way, until the disk dies.
    fn live(&mut self, random: &mut SmallRng) {
        loop {
            let value = vec![7; random.random_range(0..600)];
            if let Err(error) = self.db.put(key(self.acknowledged), &value) {
                assert_dead(&error);
                return;
            }
            self.acknowledged += 1;
            let done = match random.random_range(0..120) {
                0 => self.move_away(),
                1 => {
                    self.remove_lock();
                    Ok(())
                }
                2 => self.db.flush(),
                _ => Ok(()),
            };
            if let Err(error) = done {
                assert_dead(&error);
            }
        }
    }
}

/// Appends half a record to the manifest in use, if there is one.
fn tear_manifest(disk: &SimulatedStorage, path: &Path) {
    let open = |name: &str, mode| disk.open(&path.join(name), OpenOptions::buffered(mode));
    let Ok(current) = open("CURRENT", OpenMode::Read) else {
        return;
    };
    let length = current.length_bytes().unwrap() as usize;
    let line = current.read_vec_at(length, 0, Purpose::Other).unwrap();
    let name = String::from_utf8(line).unwrap();
    let manifest = open(name.split(' ').next().unwrap(), OpenMode::ReadWrite).unwrap();
    let torn = support::half_a_record();
    manifest.append(&torn, Purpose::Other).unwrap();
}

/// Checks the writes of a store. Returns whether its manifest was torn.
fn check(disk: &SimulatedStorage, path: &Path, acknowledged: usize, context: &str) -> bool {
    let db = match Db::open(path, options(disk)) {
        Err(Error::NoStore { .. }) if acknowledged == 0 => return false,
        opened => opened.unwrap_or_else(|error| panic!("{context}: {}: {error}", path.display())),
    };
    let found = keys(&db);
    assert!(
        (acknowledged..=acknowledged + 1).contains(&found.len()),
        "{context}: {}: {acknowledged} writes were acknowledged, {} are there",
        path.display(),
        found.len()
    );
    let expected: Vec<_> = (0..found.len()).map(key).collect();
    assert_eq!(found, expected, "{context}");
    let is_torn = db.statistics().recovery.manifest_tail.is_some();
    db.close().unwrap();
    let report = terrace_tools::inspect::verify(path, options(disk), |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{context}: {report:?}");
    is_torn
}

#[test]
fn images_of_moved_stores_lose_nothing_and_invent_nothing() {
    let images = support::scale("TERRACE_IMAGES", 500);
    let seed = support::scale("TERRACE_IMAGE_SEED", 1);
    let (mut moved, mut unlocked, mut torn, mut written) = (0, 0, 0, 0);
    for image in 0..images {
        let mut random = SmallRng::seed_from_u64(seed << 32 ^ image);
        let switch = CrashSwitch::new();
        let mut life = Life::begin(SimulatedStorage::new(image, switch.clone()));
        switch.freeze_at(switch.count() + random.random_range(1..900));
        life.live(&mut random);
        let kind = match image % 4 {
            0 => CrashKind::Kill,
            _ => CrashKind::PowerCut,
        };
        let disk = life.disk.crash(kind, image, CrashSwitch::new());
        let context = format!("image {image}, {kind:?}");
        if image % 6 == 5 {
            tear_manifest(&disk, &life.path);
        }
        let is_torn = check(&disk, &life.path, life.acknowledged, &context);
        torn += usize::from(is_torn);
        for (path, acknowledged) in &life.others {
            check(&disk, path, *acknowledged, &context);
        }
        moved += life.others.len();
        unlocked += life.locks_removed;
        written += life.acknowledged;
        // No process has the lock of a store on a dead disk.
        drop(
            disk.lock(&life.path.join("LOCK"), LockKind::Exclusive)
                .unwrap(),
        );
    }
    println!(
        "{images} images: {moved} moved, {unlocked} unlocked, {torn} torn, {written} acknowledged"
    );
    assert!(moved > 10 && unlocked > 10 && torn > 10);
}
