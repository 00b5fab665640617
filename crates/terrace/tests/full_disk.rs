//! A real file system that fills up.
//!
//! Needs small file systems of its own (64 to 320 MiB). `cargo xtask full-disk` makes ext4 and XFS on a
//! loop device, `cargo xtask guest btrfs` btrfs in a guest, one after the other. They name the mount point
//! in `TERRACE_LOOP_MOUNT`. Without it the tests say so and end. For slow machines there are
//! `TERRACE_PATIENCE_S`, the seconds that a step may take, and `TERRACE_FULL_DISK_ROUNDS`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use terrace::{
    Compression, Db, Error, IterOptions, KeyspaceOptions, Options, WriteBatch, WriteOptions,
};

/// Files that are removed, one after the other, to make room: first for a merge of everything that
/// is there by then, then for a recovery. Of sixteen parts of the disk.
const BALLAST_SIXTEENTHS: [u64; 2] = [7, 2];

/// Returns the time that a step may take. Space that returned is noticed by the next repetition of the
/// failed step: seconds, not minutes.
fn patience() -> Duration {
    Duration::from_secs(setting("TERRACE_PATIENCE_S", 60))
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn options() -> Options {
    Options {
        arena_bytes: 1 << 20,
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 20,
            level1_bytes: 4 << 20,
            level_ratio: 4,
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        },
        constants: terrace::Constants {
            manifest_bytes: 64 << 10,
            ..terrace::Constants::default()
        },
        ..Options::default()
    }
}

/// A key, and the seed of its value.
type Row = (u64, u64);

/// The writes that the store has answered.
#[derive(Default)]
struct Acknowledged {
    /// The seed of each key's value.
    rows: BTreeMap<u64, u64>,
    /// Batches with a failed sync: each is there after the next opening, or is not.
    uncertain: Vec<Vec<Row>>,
}

impl Acknowledged {
    /// Counts the uncertain batches that are there.
    fn settle(&mut self, db: &Db) {
        for writes in std::mem::take(&mut self.uncertain) {
            match db.get(writes[0].0.to_be_bytes()).unwrap() {
                Some(_) => self.rows.extend(writes),
                None => self.uncertain.push(writes),
            }
        }
    }
}

fn value(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 + seed as usize % 20_000];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

fn write(db: &Db, acknowledged: &mut Acknowledged, random: &mut SmallRng) -> terrace::Result<()> {
    let mut batch = WriteBatch::new();
    let writes: Vec<Row> = (0..random.random_range(1..4))
        .map(|_| (random.random(), random.random()))
        .collect();
    for (key, seed) in &writes {
        batch.put(key.to_be_bytes(), value(*seed))?;
    }
    let written = db.write(batch, WriteOptions::with_sync(random.random_ratio(1, 20)));
    match &written {
        Ok(()) => acknowledged.rows.extend(writes),
        Err(Error::Poisoned { .. }) => acknowledged.uncertain.push(writes),
        Err(_) => {}
    }
    written
}

fn check(db: &Db, acknowledged: &mut Acknowledged) {
    acknowledged.settle(db);
    let mut found = db.iter(IterOptions::default()).unwrap().entries();
    for (key, seed) in &acknowledged.rows {
        let (found_key, found_value) = found.next().expect("a key is missing").unwrap();
        assert_eq!(found_key, key.to_be_bytes());
        assert!(
            found_value == value(*seed),
            "the value of key {key:x} is wrong"
        );
        let got = db
            .get(key.to_be_bytes())
            .unwrap()
            .expect("a key is missing");
        assert!(
            got[..] == found_value,
            "get and iterator differ at key {key:x}"
        );
    }
    assert!(
        found.next().is_none(),
        "there is a key that was never acknowledged"
    );
}

/// Fills the disk until a write is refused for want of space.
fn fill(store: &FullStore, acknowledged: &mut Acknowledged, random: &mut SmallRng) {
    let began = Instant::now();
    loop {
        match write(&store.db, acknowledged, random) {
            Ok(()) => assert!(began.elapsed() < patience(), "the disk does not fill"),
            Err(error) => {
                assert!(is_full(&error, store.path), "{error:?}");
                return;
            }
        }
    }
}

fn make_ballast(path: &Path, length_bytes: u64) {
    let mut ballast = fs::File::create(path).unwrap();
    // No zeros, and nothing that a file system would compress.
    let mut random = SmallRng::seed_from_u64(length_bytes);
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..length_bytes >> 20 {
        random.fill_bytes(&mut chunk);
        ballast.write_all(&chunk).unwrap();
    }
    ballast.sync_all().unwrap();
}

/// Lets a file system give the space of removed files back: btrfs does so with a transaction.
fn give_space_back(mount: &Path) {
    rustix::fs::syncfs(fs::File::open(mount).unwrap()).unwrap();
}

/// Removes a file. Its space is free when this returns.
fn remove_ballast(path: &Path) {
    fs::remove_file(path).unwrap();
    give_space_back(path.parent().unwrap());
}

/// Returns the bytes that are free. Of an empty btrfs these are a good part less than its size.
fn free_bytes(mount: &Path) -> u64 {
    let status = rustix::fs::statvfs(mount).unwrap();
    status.f_bavail * status.f_frsize
}

/// Returns the contents of a store's directory: names and lengths of files, of tables their number and sum.
fn contents(path: &Path) -> String {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    let mut files = String::new();
    let (mut tables, mut table_bytes) = (0, 0);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let length_bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        if name.ends_with(".table") {
            tables += 1;
            table_bytes += length_bytes;
        } else {
            files += &format!(", {name}: {length_bytes}");
        }
    }
    format!("{tables} tables: {table_bytes}{files}")
}

fn mount() -> Option<PathBuf> {
    let mount = std::env::var_os("TERRACE_LOOP_MOUNT");
    if mount.is_none() {
        println!("skipped: TERRACE_LOOP_MOUNT names no file system");
    }
    let mount = mount.map(PathBuf::from)?;
    // The leftovers of a test that failed.
    for entry in fs::read_dir(&mount).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let _ = fs::remove_file(&path);
        if entry.file_name() != "lost+found" {
            let _ = fs::remove_dir_all(&path);
        }
    }
    Some(mount)
}

#[test]
fn a_store_on_a_full_file_system_loses_nothing_and_goes_on() {
    let Some(mount) = mount() else {
        return;
    };
    let path = mount.join("store");
    let ballast = ["ballast-1", "ballast-2"].map(|name| mount.join(name));
    let mut random = SmallRng::seed_from_u64(1);
    let mut acknowledged = Acknowledged::default();

    let disk_bytes = free_bytes(&mount);
    for (path, sixteenths) in ballast.iter().zip(BALLAST_SIXTEENTHS) {
        make_ballast(path, disk_bytes / 16 * sixteenths);
    }
    let mut store = FullStore::open(&mount, &path, true);
    fill(&store, &mut acknowledged, &mut random);
    assert!(
        acknowledged.rows.len() > 100,
        "{} writes filled the disk",
        acknowledged.rows.len()
    );
    let statistics = store.db.statistics();
    for error in [&statistics.poisoned, &statistics.last_error]
        .into_iter()
        .flatten()
    {
        assert!(is_full(error, &path), "{statistics:?}");
    }
    assert!(statistics.poisoned.is_none() || copies_on_write(&mount));
    check(&store.db, &mut acknowledged);

    remove_ballast(&ballast[0]);
    store.until_done(true, |db| write(db, &mut acknowledged, &mut random));
    for _ in 0..200 {
        store.with_room(|db| write(db, &mut acknowledged, &mut random));
    }
    store.with_room(Db::flush);
    check(&store.db, &mut acknowledged);

    // A clean close needs no space that is not there already, nor does a reader.
    fill(&store, &mut acknowledged, &mut random);
    if let Err(error) = store.db.close() {
        assert!(
            copies_on_write(&mount) && is_full(&error, &path),
            "{error:?}"
        );
    }
    drop(store);
    let reader = Db::open(
        &path,
        Options {
            read_only: true,
            ..options()
        },
    )
    .unwrap();
    check(&reader, &mut acknowledged);
    drop(reader);
    match Db::open(&path, options()) {
        Ok(db) => check(&db, &mut acknowledged),
        Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error:?}"),
    }

    remove_ballast(&ballast[1]);
    let db = FullStore::open(&mount, &path, true).db;
    check(&db, &mut acknowledged);
    // There may be too little room for the merge that writers wait for.
    if let Err(error) = write(&db, &mut acknowledged, &mut random) {
        assert!(error.is_no_space(), "{error:?}");
    }
    check(&db, &mut acknowledged);
    db.close().unwrap();
    drop(db);
    check(&Db::open(&path, options()).unwrap(), &mut acknowledged);
    fs::remove_dir_all(&path).unwrap();
}

/// Directory of the child that fills the store.
const DIRECTORY: &str = "TERRACE_FULL_DISK_DIRECTORY";
/// First key that the child writes.
const FIRST_KEY: &str = "TERRACE_FULL_DISK_FIRST_KEY";
/// Whether the child has small arenas and tables.
const SMALL: &str = "TERRACE_FULL_DISK_SMALL";

fn small_or_default(is_small: bool) -> Options {
    match is_small {
        true => options(),
        false => Options::default(),
    }
}

/// Returns whether an error says that the disk is full. Where the file system copies on write, the sync of
/// a manifest may be the first to say so. It refuses writes from then on.
fn is_full(error: &Error, store: &Path) -> bool {
    match error {
        Error::Poisoned { cause } => cause.is_no_space() && copies_on_write(store),
        error => error.is_no_space(),
    }
}

/// Writes keys in their order until there is no space, and says so. Then it waits to be killed.
#[test]
#[ignore = "the child of the test below"]
fn filling_child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let first: u64 = std::env::var(FIRST_KEY).unwrap().parse().unwrap();
    let db = Db::open(
        &directory,
        small_or_default(std::env::var_os(SMALL).is_some()),
    )
    .unwrap();
    let mut out = std::io::stdout().lock();
    for key in first.. {
        match db.put(key.to_be_bytes(), value(key)) {
            Ok(()) => writeln!(out, "\nacknowledged {key}").unwrap(),
            Err(error) => {
                assert!(is_full(&error, &directory), "{error:?}");
                writeln!(out, "\nfull").unwrap();
                break;
            }
        }
    }
    loop {
        std::thread::park();
    }
}

/// A child that outlives no test, also if the test fails.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills the disk from a child that is killed then. Returns the number behind the last acknowledged one.
fn fill_and_kill(path: &Path, is_small: bool, first: u64) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "filling_child", "--ignored", "--nocapture"])
        .env(DIRECTORY, path)
        .env(FIRST_KEY, first.to_string())
        .stdout(Stdio::piped());
    if is_small {
        command.env(SMALL, "1");
    }
    let mut child = KilledAtEnd(command.spawn().unwrap());
    let mut next = first;
    let mut is_full = false;
    for line in BufReader::new(child.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(key) = line.strip_prefix("acknowledged ") {
            next = key.parse::<u64>().unwrap() + 1;
        } else if line == "full" {
            is_full = true;
            break;
        }
    }
    drop(child);
    assert!(is_full, "the child ended before the disk was full");
    next
}

fn check_rows(db: &Db, keys: &BTreeSet<u64>) {
    let mut rows = db.iter(IterOptions::default()).unwrap().entries();
    for key in keys {
        let (found, bytes) = rows.next().expect("a key is missing").unwrap();
        assert_eq!(found, key.to_be_bytes());
        assert!(bytes == value(*key), "the value of key {key} is wrong");
    }
    assert!(rows.next().is_none(), "there is a key that was deleted");
}

/// Returns whether a file system copies on write: there every step needs space, a delete in an arena that
/// has room and the sync of a manifest included.
fn copies_on_write(mount: &Path) -> bool {
    const BTRFS: i64 = 0x9123_683e;
    rustix::fs::statfs(mount).unwrap().f_type as i64 == BTRFS
}

/// The store of the test on a full disk, and how it is opened.
struct FullStore<'a> {
    db: Db,
    mount: &'a Path,
    path: &'a Path,
    is_small: bool,
}

impl<'a> FullStore<'a> {
    fn open(mount: &'a Path, path: &'a Path, is_small: bool) -> Self {
        FullStore {
            db: opened(mount, path, is_small, copies_on_write(mount)),
            mount,
            path,
            is_small,
        }
    }

    /// Does a step that finds room at once, but where the file system copies on write: a delete, or a
    /// write when there is space again.
    fn with_room(&mut self, step: impl FnMut(&Db) -> terrace::Result<()>) {
        self.until_done(copies_on_write(self.mount), step);
    }

    /// Merges everything; a file system may take its time to give space back.
    fn compact(&mut self) {
        self.until_done(true, |db| db.compact_range(..));
    }

    /// Does a step that makes room, and again while it is refused for want of space, as far as it may be.
    /// A store that could not sync its manifest refuses all until it is opened again.
    fn until_done(&mut self, is_patient: bool, mut step: impl FnMut(&Db) -> terrace::Result<()>) {
        let began = Instant::now();
        while let Err(error) = step(&self.db) {
            let told = format!("{error}: {}", contents(self.path));
            println!("refused: {told}");
            assert!(is_patient && began.elapsed() < patience(), "{told}");
            match &error {
                Error::Poisoned { cause } if cause.is_no_space() && copies_on_write(self.mount) => {
                    self.open_again();
                }
                error => assert!(error.is_no_space(), "{error:?}"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn open_again(&mut self) {
        let _ = self.db.close();
        self.db = opened(self.mount, self.path, self.is_small, true);
    }
}

/// Opens the store, and again while it is refused for want of space, as far as it may be.
fn opened(mount: &Path, path: &Path, is_small: bool, is_patient: bool) -> Db {
    let began = Instant::now();
    loop {
        match Db::open(path, small_or_default(is_small)) {
            Ok(db) => return db,
            Err(error) => {
                assert!(error.is_no_space(), "{error:?}");
                assert!(is_patient && began.elapsed() < patience(), "{error}");
                give_space_back(mount);
            }
        }
    }
}

/// Three rounds or so: filled and killed, opened, half deleted by a range and half of the rest by keys.
#[test]
fn a_full_file_system_is_emptied_by_deletes_after_a_kill() {
    let Some(mount) = mount() else {
        return;
    };
    let disk_bytes = free_bytes(&mount);
    for is_small in [false, true] {
        let path = mount.join("filled");
        let (mut keys, mut next) = (BTreeSet::new(), 0);
        for round in 0..setting("TERRACE_FULL_DISK_ROUNDS", 3) {
            let after = fill_and_kill(&path, is_small, next);
            assert!(after - next > 100, "round {round}: {} rows", after - next);
            keys.extend(next..after);
            let mut store = FullStore::open(&mount, &path, is_small);
            // The last one may have been written and not acknowledged.
            if store.db.get(after.to_be_bytes()).unwrap().is_some() {
                store.with_room(|db| db.delete(after.to_be_bytes()));
            }
            next = after + 1;
            check_rows(&store.db, &keys);
            let middle = *keys.iter().nth(keys.len() / 2).unwrap();
            store.with_room(|db| db.delete_range(0u64.to_be_bytes(), middle.to_be_bytes()));
            keys = keys.split_off(&middle);
            let every_other: Vec<u64> = keys.iter().copied().step_by(2).collect();
            for key in every_other {
                store.with_room(|db| db.delete(key.to_be_bytes()));
                keys.remove(&key);
            }
            store.compact();
            let began = Instant::now();
            loop {
                give_space_back(&mount);
                let free_bytes = free_bytes(&mount);
                if free_bytes * 10 >= disk_bytes * 4 {
                    break;
                }
                assert!(
                    began.elapsed() < patience(),
                    "round {round}, small: {is_small}: {free_bytes} of {disk_bytes} bytes are free: {}",
                    contents(&path)
                );
                std::thread::sleep(Duration::from_millis(100));
            }
            check_rows(&store.db, &keys);
            store.db.close().unwrap();
        }
        fs::remove_dir_all(&path).unwrap();
    }
}
