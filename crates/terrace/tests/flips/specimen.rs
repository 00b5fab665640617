//! A store to be damaged, and the contents that it must give back.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{
    Background, CompactionPolicy, Db, Error, KeyspaceOptions, Options, TierOptions, WriteBatch,
    WriteOptions,
};
use terrace_storage::{CrashSwitch, SimulatedStorage};
use terrace_tools::inspect;

use crate::image::{Image, STORE, TIERS};
use crate::observation::{Content, Observation};
use crate::support;
use crate::verdict::{Damage, Tally, Verdict};

/// The boot in which the specimens are made.
const BOOT: u64 = 1;

/// Returns the tiers of levels such that a specimen has tables in each.
fn level_tiers() -> Vec<String> {
    ["fast", "fast", "fast", "middle", "slow"]
        .map(str::to_owned)
        .to_vec()
}

/// Returns the options with three tiers. Levels hold little, so that many are used.
fn with_tiers(mut options: Options) -> Options {
    let [middle, slow] = TIERS;
    options.tiers = vec![
        TierOptions::of_store("fast"),
        TierOptions::new("middle", middle),
        TierOptions::new("slow", slow),
    ];
    options.default_keyspace.level_tiers = level_tiers();
    options.default_keyspace.level1_bytes = 1 << 10;
    options.default_keyspace.level_ratio = 2;
    options
}

fn options(disk: &SimulatedStorage) -> Options {
    let base = support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        ..Options::default()
    });
    Options {
        arena_bytes: 8 << 10,
        default_keyspace: KeyspaceOptions {
            table_bytes: 1 << 10,
            level1_bytes: 4 << 10,
            ..base.default_keyspace
        },
        level0_merge: 4,
        background: Background::Inline,
        ..base
    }
}

/// Returns options for opening damaged files: nothing is merged, so that a table that is missing
/// afterwards was removed for no good reason.
fn resting(disk: &SimulatedStorage) -> Options {
    let base = options(disk);
    Options {
        create_if_missing: false,
        level0_merge: 900,
        level0_slowdown: 900,
        default_keyspace: KeyspaceOptions {
            level1_bytes: 1 << 40,
            level_ratio: 1000,
            ..base.default_keyspace
        },
        // This policy never makes one sub-level of those that other policies left.
        compaction_policy: CompactionPolicy::Tiered,
        tombstone_percent: 0,
        tombstone_age_seconds: 0,
        ..base
    }
}

/// End of a specimen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Killed,
    /// By a power cut before which everything happened to be written.
    PowerCut,
}

impl End {
    /// Returns the policy of the specimen with this end.
    fn policy(self) -> CompactionPolicy {
        match self {
            End::Closed => CompactionPolicy::Leveled,
            End::Killed => CompactionPolicy::Tiered,
            End::PowerCut => CompactionPolicy::Score,
        }
    }
}

/// A store's files and the contents that they must give back.
pub struct Specimen {
    end: End,
    has_tiers: bool,
    pub image: Image,
    /// The content after each number of batches.
    states: Vec<Content>,
    /// Batches that no damage may silently remove.
    persisted: usize,
    keys: BTreeSet<Vec<u8>>,
    /// The arena that holds the last frame, and where that frame starts.
    last_frame: Option<(String, usize)>,
}

impl Specimen {
    fn new(end: End, batches: usize, seed: u64, has_tiers: bool) -> Specimen {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
        let options = Options {
            compaction_policy: match has_tiers {
                true => CompactionPolicy::Leveled,
                false => end.policy(),
            },
            ..options(&disk)
        };
        let options = match has_tiers {
            true => with_tiers(options),
            false => options,
        };
        let db = Db::open(STORE, options).unwrap();
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
            db.write(batch, WriteOptions::with_sync(sync)).unwrap();
            if sync {
                persisted = number;
            }
            if number == batches / 2 {
                db.compact().unwrap();
            }
            // Level 0 is to hold tables, too, and the arena the last batches.
            let is_near_the_end = (batches - 8..batches - 5).contains(&number);
            if is_near_the_end && db.statistics().levels[0].tables == 0 {
                db.flush().unwrap();
            }
        }
        let levels = db.statistics().levels;
        let used = levels.iter().filter(|level| level.tables > 0).count();
        assert!(
            used >= 2 && levels.len() >= used,
            "only {used} levels hold tables"
        );
        let tiers = db.tiers();
        assert!(tiers.iter().all(|tier| tier.tables > 0), "{tiers:?}");
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
            has_tiers,
            image,
            states,
            persisted,
            keys,
            last_frame,
        }
    }

    /// Returns options for opening its damaged files. Tables stay in their tiers.
    fn resting(&self, disk: &SimulatedStorage) -> Options {
        let mut options = resting(disk);
        if self.has_tiers {
            options.default_keyspace.level_tiers = level_tiers();
        }
        options
    }

    /// Returns the boot in which the specimen's files are opened.
    fn boot(&self) -> u64 {
        if self.end == End::PowerCut {
            BOOT + 1
        } else {
            BOOT
        }
    }

    /// Opens damaged files as a reader and as an owner, reads everything, and judges both.
    pub fn try_damage(&self, damaged: &Image, damage: &Damage, tally: &mut Tally) {
        for read_only in [true, false] {
            let disk = damaged.disk(self.boot());
            let opened = Db::open(
                STORE,
                Options {
                    read_only,
                    ..self.resting(&disk)
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
                    check_error(error, damage, &context());
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
                let report =
                    inspect::verify(STORE.as_ref(), self.resting(&disk), |_, _| {}).unwrap();
                assert!(!report.problems.is_empty(), "{damage} is not verified");
            }
        }
    }

    pub fn is_found_by_verify(&self, damaged: &Image) -> bool {
        let disk = damaged.disk(self.boot());
        let report = inspect::verify(STORE.as_ref(), self.resting(&disk), |_, _| {}).unwrap();
        !report.problems.is_empty()
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

/// Returns specimens whose last manifest record and last frame are of many kinds.
pub fn specimens(end: End) -> impl Iterator<Item = Specimen> {
    [150, 163, 171]
        .into_iter()
        .map(move |batches| Specimen::new(end, batches, batches as u64, false))
}

/// Returns a specimen with tables in each of three tiers.
pub fn tiered(end: End) -> Specimen {
    Specimen::new(end, 150, 150, true)
}

/// Returns whether the opening says that writes at the end may be missing.
fn reports_a_tail(db: &Db) -> bool {
    let recovery = db.statistics().recovery;
    recovery.dropped.is_some() || recovery.torn_tail
}

/// Returns the file and place where the youngest frame went.
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

/// Checks that damage is reported as damage, with the place.
fn check_error(error: &Error, damage: &Damage<'_>, context: &str) {
    let is_typed = matches!(
        error,
        Error::Corruption { .. }
            | Error::Unsupported { .. }
            | Error::NoStore { .. }
            | Error::RegionLost { .. }
            | Error::TierLost { .. }
            | Error::WrongTier { .. }
    );
    assert!(is_typed, "{context}");
    // A file of a tier has its path as its name.
    let text = error.to_string();
    let tier = TIERS.into_iter().find(|tier| damage.file.starts_with(tier));
    let is_named = match tier {
        Some(_) if damage.is_flip() => text.contains(damage.file),
        Some(tier) => text.contains(tier),
        None => [STORE].iter().chain(&TIERS).any(|path| text.contains(path)),
    };
    assert!(is_named, "no file is named: {context}");
}

/// Checks that a store that could not be opened, or not be read in full, has lost no table and no
/// arena. A refused one has not changed a byte.
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
