//! The measured points: each a store with options, with a place in the plot of space and writes.

use std::collections::BTreeMap;

use super::setting::Setting;
use crate::contest::Program;
use crate::store::Contestant;

/// A store of the program's, with settings of its own.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name in reports and in `--points`.
    pub name: &'static str,
    /// The contestant that it is.
    pub store: &'static str,
    /// The paper's name for its counterpart, where the paper has one.
    pub paper: Option<&'static str>,
    /// Options by the store's own names, beside `sizes`.
    pub options: &'static [(&'static str, &'static str)],
}

/// Leveled, in the same engine.
pub const LEVELED: &str = "terrace-leveled";
/// Without deduplication, in the same engine.
pub const TIERED: &str = "terrace-tiered";
/// The paper's baseline itself.
pub const LEVELDB: &str = "leveldb";
/// Another leveled tree.
pub const FJALL: &str = "fjall";

const TERRACE: &str = "terrace";

const fn terrace(name: &'static str, options: &'static [(&'static str, &'static str)]) -> Point {
    Point {
        name,
        store: TERRACE,
        paper: None,
        options,
    }
}

const fn dedup(
    name: &'static str,
    paper: &'static str,
    options: &'static [(&'static str, &'static str)],
) -> Point {
    Point {
        paper: Some(paper),
        ..terrace(name, options)
    }
}

const fn peer(
    name: &'static str,
    store: &'static str,
    options: &'static [(&'static str, &'static str)],
) -> Point {
    Point {
        name,
        store,
        paper: None,
        options,
    }
}

/// All of them, in the order of reports; those of stores that a program lacks are left out. Thresholds
/// ascend.
pub const POINTS: [Point; 16] = [
    terrace(LEVELED, &[("compaction_policy", "leveled")]),
    terrace(TIERED, &[("compaction_policy", "tiered")]),
    terrace("terrace-lazy", &[("compaction_policy", "lazy")]),
    dedup(
        "terrace-dedup-1.2",
        "PlexDB 1.2",
        &[("compaction_policy", "dedup"), (THRESHOLD, "1.2")],
    ),
    dedup(
        "terrace-dedup-1.4",
        "PlexDB 1.4",
        &[("compaction_policy", "dedup"), (THRESHOLD, "1.4")],
    ),
    dedup(
        "terrace-dedup-1.6",
        "PlexDB 1.6",
        &[("compaction_policy", "dedup"), (THRESHOLD, "1.6")],
    ),
    dedup(
        "terrace-dedup-1.8",
        "PlexDB 1.8",
        &[("compaction_policy", "dedup"), (THRESHOLD, "1.8")],
    ),
    terrace("terrace-score-0.25", &[SCORED, (SCORE, "0.25")]),
    terrace("terrace-score-0.4", &[SCORED, (SCORE, "0.4")]),
    terrace("terrace-score-0.6", &[SCORED, (SCORE, "0.6")]),
    terrace("terrace-score-0.8", &[SCORED, (SCORE, "0.8")]),
    terrace("terrace-score-1", &[SCORED, (SCORE, "1")]),
    peer(
        "rocksdb-leveled",
        "rocksdb",
        &[("compaction_style", "level"), ("statistics", "true")],
    ),
    peer(
        "rocksdb-universal",
        "rocksdb",
        &[("compaction_style", "universal"), ("statistics", "true")],
    ),
    Point {
        paper: Some("LevelDB"),
        ..peer(LEVELDB, LEVELDB, &[])
    },
    peer(FJALL, FJALL, &[]),
];

const SCORED: (&str, &str) = ("compaction_policy", "score");
const THRESHOLD: &str = "dedup_threshold";
const SCORE: &str = "min_score";

/// Sub-levels of a tiered level. The paper does not say how many it has. Of 9 to 16, simulated,
/// twelve write least for their space under uniform updates, at the threshold of 1.2
/// (docs/compaction.md).
const SUB_LEVELS: u64 = 12;

/// Options that make a curve of points: its name, and the option.
const CURVES: [(&str, &str); 2] = [("dedup", THRESHOLD), ("score", SCORE)];

impl Point {
    /// Returns one of [`POINTS`].
    pub fn named(name: &str) -> Option<&'static Point> {
        POINTS.iter().find(|point| point.name == name)
    }

    /// Returns the rate of duplicates at which it merges a level, if it does.
    pub fn threshold(&self) -> Option<f64> {
        self.number(THRESHOLD)
    }

    /// Returns the curve that it lies on, with others of one option.
    pub fn curve(&self) -> Option<&'static str> {
        let found = CURVES
            .iter()
            .find(|(_, option)| self.number(option).is_some());
        found.map(|(name, _)| *name)
    }

    /// Returns whether it is the engine of this repository.
    pub fn is_terrace(&self) -> bool {
        self.store == TERRACE
    }

    fn number(&self, option: &str) -> Option<f64> {
        let found = self.options.iter().find(|(name, _)| *name == option);
        found.and_then(|(_, value)| value.parse().ok())
    }

    /// Returns all its settings beside those of all stores.
    pub fn told(&self, setting: &Setting) -> BTreeMap<String, String> {
        let own = self.options.iter();
        let own = own.map(|(name, value)| (name.to_string(), value.to_string()));
        let is_tiered = self.is_terrace() && self.name != LEVELED;
        let sub_levels = is_tiered.then_some(("default_keyspace.level_ratio", SUB_LEVELS));
        sizes(self.store, setting.buffer_bytes)
            .into_iter()
            .chain(sub_levels)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .chain(own)
            .collect()
    }
}

/// Returns the shape of a tree, as a multiple of a write buffer. A table is as large as one, level
/// 0 is merged at four, level 1 holds four, and each level is ten times the one above; a tiered one
/// has [`SUB_LEVELS`]. The report's conditions name the settings that a store does not have.
fn sizes(store: &str, buffer_bytes: u64) -> Vec<(&'static str, u64)> {
    match store {
        TERRACE => vec![
            ("default_keyspace.table_bytes", buffer_bytes),
            ("level0_merge", 4),
            // As RocksDB's are by default.
            ("level0_slowdown", 20),
            ("default_keyspace.level1_bytes", 4 * buffer_bytes),
            ("default_keyspace.level_ratio", 10),
            // As its defaults are to its default buffer.
            ("constants.slice_bytes", 4 * buffer_bytes),
            ("constants.debt_slowdown_bytes", 256 * buffer_bytes),
            ("constants.debt_stop_bytes", 1024 * buffer_bytes),
            (
                "constants.manifest_bytes",
                (buffer_bytes / 16).max(64 << 10),
            ),
            // All that there are, as for the others.
            ("max_open_tables", 10_000),
        ],
        // The rest follows from the buffer.
        "rocksdb" => vec![("level0_file_num_compaction_trigger", 4)],
        LEVELDB => vec![("max_file_bytes", buffer_bytes)],
        FJALL => vec![("table_target_bytes", buffer_bytes)],
        _ => Vec::new(),
    }
}

/// Returns a contestant for each point whose store the program has: opened as that store is, under
/// the point's name. A run's process finds it so.
pub fn contestants(program: &Program) -> Vec<Contestant> {
    let of_store = |point: &Point| {
        let mut known = program.contestants.iter();
        let store = known.find(|contestant| contestant.name == point.store)?;
        Some(Contestant {
            name: point.name,
            ..*store
        })
    };
    let is_new = |contestant: &Contestant| {
        !(program.contestants.iter()).any(|known| known.name == contestant.name)
    };
    POINTS.iter().filter_map(of_store).filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_names_of_their_own_and_curves_ascend() {
        let mut names: Vec<_> = POINTS.iter().map(|point| point.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
        let thresholds: Vec<f64> = POINTS.iter().filter_map(Point::threshold).collect();
        assert_eq!(thresholds, [1.2, 1.4, 1.6, 1.8]);
        let curves = POINTS.iter().filter_map(Point::curve);
        let curves: Vec<_> = curves.collect();
        assert_eq!(curves, [&["dedup"; 4][..], &["score"; 5]].concat());
        assert!(
            [LEVELED, TIERED, LEVELDB]
                .map(Point::named)
                .iter()
                .all(Option::is_some)
        );
    }

    /// An unknown name of an option or a policy would fail in the first run of a long contest.
    #[test]
    fn terrace_accepts_what_its_points_are_told() {
        let setting = Setting::tiny_for_tests();
        for point in POINTS.iter().filter(|point| point.is_terrace()) {
            let mut settings = setting.settings();
            settings.own = point.told(&setting);
            let options = crate::stores::terrace::options(&settings, &[]).unwrap();
            assert_eq!(
                options.default_keyspace.level1_bytes,
                4 * setting.buffer_bytes
            );
            let policy = options.compaction_policy.to_string();
            assert!(point.name.contains(&policy), "{}: {policy}", point.name);
            if let Some(threshold) = point.threshold() {
                assert!((options.dedup_threshold - threshold).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn only_stores_that_are_there_have_points() {
        let program = Program {
            contestants: crate::stores::terrace::CONTESTANTS.to_vec(),
            default_contestants: Vec::new(),
            child_arguments: Vec::new(),
        };
        let names: Vec<_> = contestants(&program).iter().map(|c| c.name).collect();
        assert_eq!(names.len(), 12);
        assert!(
            names.iter().all(|name| name.starts_with("terrace-")),
            "{names:?}"
        );
    }
}
