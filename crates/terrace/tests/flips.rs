//! Damage to every file of a store: flipped bits, truncations, garbage, missing and exchanged files.
//!
//! Whatever is done to a file, opening the store and reading all of it gives a typed error that
//! names the store, or exactly the right answer. Only above the highest number known to be
//! persisted may a tail be missing, and it must be reported. A store that was closed in order has
//! no such tail. An opening that fails, or a store that cannot be read in full, has destroyed
//! nothing: every table and arena is still there, byte for byte.
//!
//! The one case that no store can tell: damage to the *last* frame of a store that was not closed
//! looks as a write does that was cut short: the writes of this frame alone may be missing. That is
//! reported too, as a torn tail, unless the damage hit the very field by which a frame is
//! recognised. [`Verdict::LastFrame`] counts those, and the tests hold the damage to its place.
//!
//! `TERRACE_FLIP_STRIDE` sets how many bytes lie between two flips in tables and arenas (13 by
//! default; 1 flips a bit of every byte). Manifest and `CURRENT` are always flipped byte by byte.

mod image;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use image::{Image, STORE};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Background, Db, Error, IterOptions, Options, WriteBatch, WriteOptions, inspect};
use terrace_storage::{CrashSwitch, SimulatedStorage};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The boot in which the specimens are made.
const BOOT: u64 = 1;

fn options(disk: &SimulatedStorage) -> Options {
    Options {
        arena_bytes: 8 << 10,
        table_bytes: 1 << 10,
        level0_merge: 4,
        level1_bytes: 4 << 10,
        background: Background::Inline,
        ..support::script::tiny(Options {
            storage: Arc::new(disk.clone()),
            ..Options::default()
        })
    }
}

/// For opening what was damaged: nothing is merged, so that a table that is missing afterwards was
/// removed for no good reason.
fn resting(disk: &SimulatedStorage) -> Options {
    Options {
        create_if_missing: false,
        level0_merge: 900,
        level0_slowdown: 900,
        level1_bytes: 1 << 40,
        ..options(disk)
    }
}

/// How a specimen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    /// By a power cut before which everything happened to be written.
    PowerCut,
}

/// A store's files and what they must give back.
struct Specimen {
    end: End,
    image: Image,
    /// The content after each number of batches.
    states: Vec<Content>,
    /// Batches that no damage may silently remove.
    persisted: usize,
    keys: BTreeSet<Vec<u8>>,
    /// The arena that holds the last frame, and where that frame starts.
    last_frame: Option<(String, usize)>,
}

impl Specimen {
    fn new(end: End, batches: usize, seed: u64) -> Specimen {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
        let db = Db::open(STORE, options(&disk)).unwrap();
        let mut states = vec![Content::new()];
        let mut keys = BTreeSet::new();
        let mut persisted = 0;
        let mut before_last = Image::default();
        for number in 1..=batches {
            let mut batch = WriteBatch::new();
            let mut state = states.last().unwrap().clone();
            for _ in 0..random.random_range(1..4) {
                let key = format!("key-{:03}", random.random_range(0..50)).into_bytes();
                keys.insert(key.clone());
                if random.random_ratio(1, 5) {
                    batch.delete(&key).unwrap();
                    state.remove(&key);
                } else {
                    let length = random.random_range(0..120);
                    let value: Vec<u8> = (0..length).map(|at| (number + at) as u8).collect();
                    batch.put(&key, &value).unwrap();
                    state.insert(key, value);
                }
            }
            states.push(state);
            if number == batches {
                before_last = Image::of(&disk);
            }
            let sync = end == End::PowerCut && number == batches - 5;
            db.write(batch, WriteOptions { sync }).unwrap();
            if sync {
                persisted = number;
            }
            if number == batches / 2 {
                db.compact().unwrap();
            }
        }
        let levels = db.statistics().levels;
        let used = levels.iter().filter(|level| level.tables > 0).count();
        assert!(
            used >= 2 && levels.len() >= used,
            "only {used} levels hold tables"
        );
        let mut image = Image::of(&disk);
        let last_frame = first_difference(&before_last, &image);
        if end == End::Closed {
            db.close().unwrap();
            image = Image::of(&disk);
            persisted = batches;
        }
        assert!(image.files.contains_key("CURRENT"));
        Specimen {
            end,
            image,
            states,
            persisted,
            keys,
            last_frame,
        }
    }

    /// The boot in which what is left of the specimen is opened.
    fn boot(&self) -> u64 {
        if self.end == End::PowerCut {
            BOOT + 1
        } else {
            BOOT
        }
    }

    /// Opens damaged files as a reader and as an owner, reads everything, and judges both.
    fn try_damage(&self, damaged: &Image, damage: &Damage, tally: &mut Tally) {
        for read_only in [true, false] {
            let disk = damaged.disk(self.boot());
            let opened = Db::open(
                STORE,
                Options {
                    read_only,
                    ..resting(&disk)
                },
            );
            let verdict = match opened {
                Err(error) => Verdict::Refused(error),
                Ok(db) => self.judge(&db),
            };
            let context = || {
                format!(
                    "{:?}, {damage}, read-only {read_only}: {verdict:?}",
                    self.end
                )
            };
            match &verdict {
                Verdict::Right => {}
                Verdict::Refused(error) | Verdict::Unreadable(error) => {
                    check_error(error, &context());
                    check_evidence(damaged, &Image::of(&disk), &verdict, &context());
                }
                Verdict::Dropped => assert_ne!(self.end, End::Closed, "{}", context()),
                Verdict::LastFrame => {
                    assert_ne!(self.end, End::Closed, "{}", context());
                    assert!(damage.touches(self.last_frame.as_ref()), "{}", context());
                }
                Verdict::Wrong(what) => panic!("{}: {what}", context()),
            }
            tally.count(&verdict);
            if matches!(verdict, Verdict::Unreadable(_)) && read_only {
                let report = inspect::verify(STORE.as_ref(), resting(&disk), |_, _| {}).unwrap();
                assert!(!report.problems.is_empty(), "{damage} is not verified");
            }
        }
    }

    fn judge(&self, db: &Db) -> Verdict {
        let found = Observation::of(db, &self.keys);
        let total = self.states.len() - 1;
        let count = (self.persisted..=total)
            .rev()
            .find(|&count| found.agrees(&self.states[count]));
        match (count, found.first_error()) {
            (None, _) => Verdict::Wrong(found.difference(&self.states[total])),
            (Some(count), None) if count == total => Verdict::Right,
            (Some(_), None) if reports_a_tail(db) => Verdict::Dropped,
            (Some(count), None) if count + 1 == total => Verdict::LastFrame,
            (Some(count), None) => {
                Verdict::Wrong(format!("{} batches are silently lost", total - count))
            }
            (Some(_), Some(error)) => Verdict::Unreadable(error),
        }
    }
}

/// Whether the opening says that writes at the end may be missing.
fn reports_a_tail(db: &Db) -> bool {
    let recovery = db.statistics().recovery;
    recovery.dropped.is_some() || recovery.torn_tail
}

/// The file and place where the youngest frame went.
fn first_difference(before: &Image, after: &Image) -> Option<(String, usize)> {
    let arenas = after
        .files
        .iter()
        .filter(|(name, _)| name.starts_with("arena-"));
    arenas.into_iter().find_map(|(name, bytes)| {
        let old = before.files.get(name)?;
        let at = old.iter().zip(bytes).position(|(old, new)| old != new)?;
        Some((name.clone(), at))
    })
}

/// How a damaged store presents itself.
#[derive(Debug)]
enum Verdict {
    /// Every answer is right.
    Right,
    /// The store does not open.
    Refused(Error),
    /// The store opens; some reads fail, all others are right.
    Unreadable(Error),
    /// A tail is missing and reported.
    Dropped,
    /// The last frame is missing and not reported.
    LastFrame,
    /// An answer is wrong.
    Wrong(String),
}

/// How often each verdict was given.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    refused: u64,
    unreadable: u64,
    dropped: u64,
    last_frame: u64,
}

impl Tally {
    fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Right => self.right += 1,
            Verdict::Refused(_) => self.refused += 1,
            Verdict::Unreadable(_) => self.unreadable += 1,
            Verdict::Dropped => self.dropped += 1,
            Verdict::LastFrame => self.last_frame += 1,
            Verdict::Wrong(_) => unreachable!("has failed the test"),
        }
    }
}

/// What was done to which file, for messages.
struct Damage<'a> {
    file: &'a str,
    /// The first byte that differs.
    offset: usize,
    what: String,
}

impl Damage<'_> {
    fn touches(&self, frame: Option<&(String, usize)>) -> bool {
        // A frame starts at a multiple of 8, and its first bytes may be what was there before.
        frame.is_some_and(|(file, start)| self.file == file && self.offset >= start & !63)
    }
}

impl std::fmt::Display for Damage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}

/// What a store answers for a key.
type Got = terrace::Result<Option<Vec<u8>>>;

/// Everything that a store answers.
struct Observation {
    gets: Vec<(Vec<u8>, Got)>,
    forward: Scan,
    backward: Scan,
}

/// The entries up to the end or the first error.
struct Scan {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    error: Option<Error>,
}

impl Scan {
    fn of(entries: impl Iterator<Item = terrace::Result<(Vec<u8>, Vec<u8>)>>) -> Scan {
        let mut scan = Scan {
            entries: Vec::new(),
            error: None,
        };
        for entry in entries {
            match entry {
                Ok(entry) => scan.entries.push(entry),
                Err(error) => {
                    scan.error = Some(error);
                    break;
                }
            }
        }
        scan
    }

    fn agrees<'a>(&self, mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> bool {
        let same = self
            .entries
            .iter()
            .all(|(key, value)| expected.next() == Some((key, value)));
        same && (self.error.is_some() || expected.next().is_none())
    }
}

impl Observation {
    fn of(db: &Db, keys: &BTreeSet<Vec<u8>>) -> Observation {
        let get = |key: &Vec<u8>| {
            let value = db.get(key).map(|value| value.map(|value| value.to_vec()));
            (key.clone(), value)
        };
        let iterator = || db.iter(IterOptions::default()).unwrap();
        Observation {
            gets: keys.iter().map(get).collect(),
            forward: Scan::of(iterator().entries()),
            backward: Scan::of(iterator().entries_reverse()),
        }
    }

    /// Whether every answer but the errors is what `state` says.
    fn agrees(&self, state: &Content) -> bool {
        let mut gets = self.gets.iter();
        gets.all(|(key, got)| {
            got.as_ref()
                .map_or(true, |value| value.as_ref() == state.get(key))
        }) && self.forward.agrees(state.iter())
            && self.backward.agrees(state.iter().rev())
    }

    fn first_error(&self) -> Option<Error> {
        let gets = self.gets.iter().filter_map(|(_, got)| got.as_ref().err());
        gets.chain(&self.forward.error)
            .chain(&self.backward.error)
            .next()
            .cloned()
    }

    fn difference(&self, state: &Content) -> String {
        let wrong = self.gets.iter().find(|(key, got)| {
            got.as_ref()
                .is_ok_and(|value| value.as_ref() != state.get(key))
        });
        match wrong {
            Some((key, got)) => format!("{} reads {got:?}", key.escape_ascii()),
            None => "the iterator differs from the gets".to_owned(),
        }
    }
}

/// Damage is told as damage, with the place.
fn check_error(error: &Error, context: &str) {
    let is_typed = matches!(
        error,
        Error::Corruption { .. }
            | Error::Unsupported { .. }
            | Error::NoStore { .. }
            | Error::RegionLost { .. }
    );
    assert!(is_typed, "{context}");
    assert!(
        error.to_string().contains(STORE),
        "no file is named: {context}"
    );
}

/// A store that could not be opened, or not be read in full, has lost no table and no arena; one
/// that was refused has not changed a byte.
fn check_evidence(before: &Image, after: &Image, verdict: &Verdict, context: &str) {
    for (name, bytes) in &before.files {
        let found = after.files.get(name);
        if matches!(verdict, Verdict::Refused(_)) {
            assert!(
                found == Some(bytes),
                "{name} was changed or removed; {context}"
            );
        } else if name.ends_with(".table") {
            assert!(found == Some(bytes), "the table {name} is gone; {context}");
        }
    }
}

fn stride() -> usize {
    support::scale("TERRACE_FLIP_STRIDE", 13).max(1) as usize
}

fn is_small(name: &str) -> bool {
    name == "CURRENT" || name.starts_with("MANIFEST-")
}

/// Flips a bit at every place of every file.
fn flip_bits(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    for (name, bytes) in &specimen.image.files {
        let step = if is_small(name) { 1 } else { stride() };
        // What is behind an arena's frames is never read; a few places will do.
        let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let idle = (used..bytes.len()).step_by(step * 50);
        for offset in (0..used).step_by(step).chain(idle) {
            let bit = (offset * 5 + offset / 8) % 8;
            let damage = Damage {
                file: name,
                offset,
                what: format!("bit {bit} flipped"),
            };
            let damaged = specimen.image.with(name, |bytes| bytes[offset] ^= 1 << bit);
            let right = tally.right;
            specimen.try_damage(&damaged, &damage, &mut tally);
            // Every byte of a table and of `CURRENT` is under a checksum that reading verifies.
            let is_covered = name.ends_with(".table") || name == "CURRENT";
            assert!(!is_covered || tally.right == right, "{damage} is not found");
        }
    }
    tally
}

/// Cuts every file short, and lets it grow.
fn change_lengths(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    for (name, bytes) in &specimen.image.files {
        let step = if is_small(name) { 1 } else { stride() * 7 };
        for length in (0..bytes.len())
            .step_by(step)
            .chain(bytes.len().checked_sub(1))
        {
            let damage = Damage {
                file: name,
                offset: length,
                what: "cut off".to_owned(),
            };
            let damaged = specimen.image.with(name, |bytes| bytes.truncate(length));
            specimen.try_damage(&damaged, &damage, &mut tally);
        }
        for added in [
            vec![0; 1],
            vec![0; 4096],
            vec![0xa5; 1],
            vec![0xa5; 100],
            vec![0xff; 5000],
        ] {
            let what = format!("{} bytes {} appended", added.len(), added[0]);
            let damage = Damage {
                file: name,
                offset: bytes.len(),
                what,
            };
            let damaged = specimen.image.with(name, |bytes| bytes.extend(&added));
            specimen.try_damage(&damaged, &damage, &mut tally);
        }
    }
    tally
}

/// Removes files, empties them, and puts one in another's place.
fn exchange_files(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    let image = &specimen.image;
    for (name, bytes) in &image.files {
        let damage = |what: String| Damage {
            file: name,
            offset: 0,
            what,
        };
        specimen.try_damage(
            &image.without(name),
            &damage("removed".to_owned()),
            &mut tally,
        );
        let zeros = image.with(name, |bytes| bytes.fill(0));
        specimen.try_damage(&zeros, &damage("filled with zeros".to_owned()), &mut tally);
        for (other, content) in image.files.iter().filter(|(_, content)| *content != bytes) {
            let exchanged = image.with(name, |bytes| bytes.clone_from(content));
            specimen.try_damage(
                &exchanged,
                &damage(format!("replaced by {other}")),
                &mut tally,
            );
        }
    }
    tally
}

/// Specimens whose last manifest record and last frame are of many kinds.
fn specimens(end: End) -> impl Iterator<Item = Specimen> {
    [150, 163, 171]
        .into_iter()
        .map(move |batches| Specimen::new(end, batches, batches as u64))
}

#[test]
fn an_undamaged_store_is_right() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let mut tally = Tally::default();
            let damage = Damage {
                file: "none",
                offset: 0,
                what: "undamaged".to_owned(),
            };
            specimen.try_damage(&specimen.image, &damage, &mut tally);
            assert_eq!(tally.right, 2, "{tally:?}");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_closed_store_is_found_or_harmless() {
    let specimen = specimens(End::Closed).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0);
}

#[test]
fn a_flipped_bit_in_a_killed_store_is_found_or_harmless() {
    let specimen = specimens(End::Killed).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0 && tally.dropped > 0);
    assert!(
        // Each damage is opened twice, by a reader and by an owner.
        tally.last_frame <= 2 * 8,
        "more than the generation's bytes: {tally:?}"
    );
}

#[test]
fn a_flipped_bit_after_a_power_cut_is_found_or_reported() {
    let specimen = specimens(End::PowerCut).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0 && tally.dropped > 0);
}

#[test]
fn a_file_of_the_wrong_length_is_found_or_harmless() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let tally = change_lengths(&specimen);
            println!("{end:?}: {tally:?}");
            assert!(tally.refused > 0);
        }
    }
}

#[test]
fn a_missing_or_exchanged_file_is_found() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let tally = exchange_files(&specimen);
            println!("{end:?}: {tally:?}");
            assert!(tally.refused > 0);
        }
    }
}
