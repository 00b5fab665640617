//! Scripts in tests/golden/policy: levels in, choice out. A script is a list of cases separated by
//! empty lines; `TERRACE_BLESS=1` writes the answers again.
//!
//! ```text
//! # why this case is there
//! options policy=leveled level0_merge=4 level1_bytes=1000 level_ratio=10 moves=1,2,3
//! tombstones percent=50 age=1000 now=2000 opened=1500 snapshot=40
//! 0.7: 12[a-f]100 13[g-z]200      tables 12 and 13 of the flush 7 into level 0
//! 1: 5[a-m]300                    table 5 of level 1's base: its bounds and bytes
//! 1: 5[a-m]300,entries=100,tombstones=60,ranges=1,hidden=7,since=900,first=3,last=40,paid_for=1
//!                                 its entries, tombstones, what its ranges hide, when the oldest reached
//!                                 a table, and its numbers
//! superseded snapshots=40,90 set_back=5
//!                                 live snapshots, the visible number last; tables that are not to be tried again
//! 1: 5[a-m]300,superseded=9,superseded_bytes=80,by=38
//!                                 its superseded versions, their bytes, and the largest number by which
//! 1.3: 4[a-m]300                  table 4 of a sub-level of level 1 whose oldest flush is 3
//! under way: 5 6 -> 2             a merge of tables 5 and 6 into level 2's base
//! under way: 4 -> 2.3             one into a sub-level
//! rates: 1=1.25                   versions of level 1 for each that would stay
//! keys: 1000                      sub-levels hold random ones of 1000 keys, a byte each
//! => merge 12@0 13@0 5@1 -> 1 because level 0 has 4 sub-levels
//! ```

use std::fmt::Write;
use std::path::Path;

use super::superseded::Superseded;
use super::tombstones::{Seen, Tombstones};
use super::*;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::legality::check_legal;
use crate::compaction::run::Run;
use crate::compaction::targets::Shape;
use crate::levels::testing::{added, levels, sub_level_place, version};
use crate::levels::{TableAdded, Version};

/// Prefix of an answer.
const ANSWER: &str = "=> ";

fn place_of(text: &str) -> Place {
    match text.split_once('.') {
        Some((level, flush)) => sub_level_place(level.parse().unwrap(), flush.parse().unwrap()),
        None => Place::base(text.parse().unwrap()),
    }
}

fn tables(line: &str) -> Vec<TableAdded> {
    let (place, tables) = line.split_once(": ").expect("a place, then tables");
    let place = place_of(place);
    let table = |text: &str| {
        let (number, rest) = text.split_once('[').unwrap();
        let (bounds, rest) = rest.split_once(']').unwrap();
        let (smallest, largest) = bounds.split_once('-').unwrap();
        let mut added = added(place, number.parse().unwrap(), smallest, largest);
        let mut figures = rest.split(',');
        added.table.size_bytes = figures.next().unwrap().parse().unwrap();
        for figure in figures {
            let (name, value) = figure.split_once('=').unwrap();
            let value = value.parse().unwrap();
            match name {
                "entries" => added.table.entries = value,
                "tombstones" => added.table.tombstones = value,
                "ranges" => added.table.range_tombstones = value,
                "since" => added.table.oldest_tombstone_seconds = Some(value),
                "first" => added.table.min_sequence = value,
                "last" => added.table.max_sequence = value,
                "hidden" | "paid_for" => {}
                "superseded" => noted(&mut added).versions = value,
                "superseded_bytes" => noted(&mut added).bytes = value,
                "by" => noted(&mut added).largest_by = value,
                _ => panic!("no figure {name}"),
            }
        }
        added
    };
    tables.split_whitespace().map(table).collect()
}

fn noted(added: &mut TableAdded) -> &mut crate::table::Superseded {
    let nothing = crate::table::Superseded {
        versions: 0,
        bytes: 0,
        largest_by: 0,
    };
    added.table.superseded.get_or_insert(nothing)
}

fn policy(line: &str) -> Box<dyn Policy> {
    let leveled = leveled(line);
    let tiered = |last_level| {
        Box::new(Tiered {
            level0_merge: leveled.level0_merge,
            sub_levels: leveled.shape.level_ratio as usize,
            last_level,
            same_form_as_above: leveled.same_form_as_above.clone(),
        })
    };
    let name = line
        .split_whitespace()
        .find_map(|o| o.strip_prefix("policy="));
    match name.unwrap_or("leveled") {
        "leveled" => Box::new(leveled),
        "tiered" => tiered(LastLevel::Tiered),
        "dedup" => Box::new(Dedup {
            tiered: *tiered(LastLevel::Tiered),
            threshold: 1.2,
        }),
        "score" => Box::new(Score {
            tiered: *tiered(LastLevel::Tiered),
            min_score: 0.4,
        }),
        "lazy" => tiered(LastLevel::Leveled(leveled.shape)),
        other => panic!("no policy {other}"),
    }
}

/// Prefix of the rules for tombstones; without it there are none.
const TOMBSTONES: &str = "tombstones ";

/// Adds the rules for tombstones. `case` has the entries that the ranges of tables hide.
fn with_tombstones(inner: Box<dyn Policy>, line: &str, case: &str) -> Box<dyn Policy> {
    let number = |name: &str| {
        let value = line.split_whitespace().find_map(|option| {
            let (found, value) = option.split_once('=')?;
            (found == name).then_some(value)
        });
        value.map(|value| value.parse::<u64>().unwrap())
    };
    let tables = case.lines().flat_map(str::split_whitespace);
    let paid_for = tables.clone().filter_map(|table| {
        let (number, _) = table.split_once('[')?;
        table
            .contains("paid_for=1")
            .then(|| number.parse().unwrap())
    });
    let hidden = tables.filter_map(|table| {
        let (number, rest) = table.split_once('[')?;
        let (_, hidden) = rest.split_once("hidden=")?;
        let hidden = hidden.split(',').next()?.parse().unwrap();
        Some((number.parse().unwrap(), hidden))
    });
    Box::new(Tombstones {
        inner,
        percent: number("percent").unwrap_or(0) as u32,
        age_seconds: number("age").unwrap_or(0),
        seen: Arc::new(Seen {
            now_seconds: number("now").unwrap_or(0),
            // Just now, unless it is said.
            opened_seconds: number("opened").or(number("now")).unwrap_or(0),
            oldest_snapshot: number("snapshot").unwrap_or(u64::MAX),
            hidden: Arc::new(hidden.collect()),
            hidden_from: Arc::default(),
            paid_for: Arc::new(paid_for.collect()),
        }),
    })
}

/// The word before the snapshots; without it no superseded version is looked for.
const SUPERSEDED: &str = "superseded ";

fn with_superseded(inner: Box<dyn Policy>, line: &str) -> Box<dyn Policy> {
    let list = |name: &str| -> Vec<u64> {
        let mut options = line.split_whitespace();
        let value = options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
        let numbers = value.into_iter().flat_map(|value| value.split(','));
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    Box::new(Superseded {
        inner,
        seen: Arc::new(superseded::Seen {
            snapshots: list("snapshots"),
            set_back: list("set_back").into_iter().collect(),
        }),
    })
}

fn leveled(line: &str) -> Leveled {
    let mut policy = Leveled {
        level0_merge: 4,
        level0_is_paid_for: false,
        shape: Shape {
            level1_bytes: 1000,
            level_ratio: 10,
        },
        slice_bytes: 10_000,
        same_form_as_above: vec![true; 7],
    };
    for option in line.split_whitespace().skip(1) {
        let (name, value) = option.split_once('=').unwrap();
        match name {
            "policy" => {}
            "level0_merge" => policy.level0_merge = value.parse().unwrap(),
            "level0_is_paid_for" => policy.level0_is_paid_for = value.parse().unwrap(),
            "level1_bytes" => policy.shape.level1_bytes = value.parse().unwrap(),
            "level_ratio" => policy.shape.level_ratio = value.parse().unwrap(),
            "slice_bytes" => policy.slice_bytes = value.parse().unwrap(),
            "moves" => {
                let levels: Vec<usize> = value.split(',').map(|l| l.parse().unwrap()).collect();
                policy.same_form_as_above = (0..7).map(|level| levels.contains(&level)).collect();
            }
            _ => panic!("no option {name}"),
        }
    }
    policy
}

/// Prefix of a merge under way.
const UNDER_WAY: &str = "under way: ";

fn claim(version: &Version, text: &str) -> Claim {
    let (inputs, level) = text.split_once(" -> ").expect("inputs, then a level");
    let input = |number: &str| {
        let (place, table) = levels(version).find(number.parse().unwrap()).unwrap();
        Input {
            place,
            table: Arc::clone(table),
        }
    };
    let choice = Choice {
        reason: Reason::Level0SubLevels(0),
        kind: ChoiceKind::Merge,
        inputs: inputs.split_whitespace().map(input).collect(),
        output: place_of(level),
        predicted: None,
    };
    Claim::of(&choice).unwrap()
}

/// Prefixes of duplicate rates, and of the number of keys that there are.
const RATES: &str = "rates: ";
const KEYS: &str = "keys: ";

/// Duplicate rates by level; or sub-levels that hold random ones of this many keys, a byte each.
#[derive(Default)]
struct Rates {
    by_level: Vec<(u8, f64)>,
    keys: Option<f64>,
}

impl Rates {
    fn read(text: &str) -> Self {
        let rate = |text: &str| {
            let (level, rate) = text.split_once('=').unwrap();
            (level.parse().unwrap(), rate.parse().unwrap())
        };
        Rates {
            by_level: text.split_whitespace().map(rate).collect(),
            keys: None,
        }
    }
}

impl Estimates for Rates {
    fn merged(&self, _: &KeyspaceLevels, run: &Run) -> Option<Duplicates> {
        if let Some(keys) = self.keys {
            let absent = run.sub_levels().iter().map(|(_, sub_level)| {
                let share = sub_level.size_bytes() as f64 / keys;
                1.0 - share.min(1.0)
            });
            let distinct = keys * (1.0 - absent.product::<f64>());
            return Some(Duplicates::new(run.size_bytes(), distinct, 0));
        }
        let level = run.oldest()?.level;
        let &(_, rate) = self.by_level.iter().find(|(of, _)| *of == level)?;
        let versions = run.versions();
        Some(Duplicates::new(versions, versions as f64 / rate, 0))
    }

    fn merged_now(&self, _: &KeyspaceLevels, _: &Run, at_most: Duplicates) -> Option<Duplicates> {
        Some(at_most)
    }

    fn keys(&self, levels: &KeyspaceLevels, run: &Run) -> Option<f64> {
        let merged = self.merged(levels, run)?;
        Some(merged.versions - merged.droppable)
    }
}

fn read_case(case: &str) -> (Box<dyn Policy>, Version, Vec<Claim>, Rates) {
    let mut listed = Vec::new();
    let mut under_way = Vec::new();
    let mut rates = Rates::default();
    let mut chooses = policy("options");
    for line in case.lines() {
        if let Some(merge) = line.strip_prefix(UNDER_WAY) {
            under_way.push(merge);
        } else if let Some(list) = line.strip_prefix(RATES) {
            rates = Rates::read(list);
        } else if let Some(keys) = line.strip_prefix(KEYS) {
            rates.keys = Some(keys.parse().unwrap());
        } else if line.starts_with("options") {
            chooses = policy(line);
        } else if let Some(line) = line.strip_prefix(TOMBSTONES) {
            chooses = with_tombstones(chooses, line, case);
        } else if let Some(line) = line.strip_prefix(SUPERSEDED) {
            chooses = with_superseded(chooses, line);
        } else if !line.starts_with('#') && !line.starts_with(ANSWER) {
            listed.extend(tables(line));
        }
    }
    let version = version(listed);
    let under_way = under_way
        .iter()
        .map(|merge| claim(&version, merge))
        .collect();
    (chooses, version, under_way, rates)
}

fn answer(
    policy: &dyn Policy,
    version: &Version,
    under_way: &[Claim],
    estimates: &dyn Estimates,
) -> String {
    let levels = levels(version);
    let Some(choice) = policy.pick(levels, under_way, estimates) else {
        return "nothing".to_owned();
    };
    let claim = Claim::of(&choice).unwrap();
    assert!(
        !under_way.iter().any(|other| other.conflicts_with(&claim)),
        "{choice}"
    );
    if let Err(broken) = check_legal(levels, &choice) {
        panic!("an illegal choice: {choice}: {broken}");
    }
    choice.to_string()
}

#[test]
fn the_scripts_are_answered_as_they_were() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/policy");
    let mut cases = 0;
    for script in std::fs::read_dir(scripts).unwrap() {
        let path = script.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut answered = String::new();
        for case in text.trim_end().split("\n\n") {
            let (policy, version, under_way, rates) = read_case(case);
            for line in case.lines().filter(|line| !line.starts_with(ANSWER)) {
                writeln!(answered, "{line}").unwrap();
            }
            writeln!(
                answered,
                "{ANSWER}{}\n",
                answer(&*policy, &version, &under_way, &rates)
            )
            .unwrap();
            cases += 1;
        }
        let answered = format!("{}\n", answered.trim_end());
        if std::env::var_os("TERRACE_BLESS").is_some() {
            std::fs::write(&path, &answered).unwrap();
        } else {
            assert_eq!(answered, text, "{}", path.display());
        }
    }
    assert!(cases >= 10, "only {cases} cases");
}

#[test]
fn the_first_candidate_that_may_begin_is_what_is_picked() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/policy");
    let (mut picks, mut others) = (0, 0);
    for script in std::fs::read_dir(scripts).unwrap() {
        let text = std::fs::read_to_string(script.unwrap().path()).unwrap();
        for case in text.trim_end().split("\n\n") {
            let (policy, version, under_way, rates) = read_case(case);
            let levels = levels(&version);
            let candidates = policy.candidates(levels, &under_way, &rates);
            let first = candidates.iter().find_map(Candidate::choice);
            let picked = policy.pick(levels, &under_way, &rates);
            let told = |choice: Option<&Choice>| choice.map(ToString::to_string);
            assert_eq!(told(first), told(picked.as_ref()), "{case}");
            picks += usize::from(picked.is_some());
            others += candidates.len() - usize::from(picked.is_some());
        }
    }
    assert!(
        picks >= 10 && others >= 10,
        "{picks} picks, {others} others"
    );
}

#[test]
fn a_level_is_a_debt_only_beyond_what_makes_it_full() {
    let debt = |case: &str| {
        let (policy, version, ..) = read_case(case);
        policy.debt_bytes(levels(&version))
    };
    let full = "options policy=tiered level_ratio=2 level0_merge=3\n\
                0.9: 9[a-z]10\n0.8: 8[a-z]10\n1.5: 5[a-z]100\n1.4: 4[a-z]100\n2.1: 1[a-z]1000";
    assert_eq!(debt(full), 0);
    assert_eq!(debt(&format!("{full}\n0.7: 7[a-z]10")), 30);
    assert_eq!(debt(&format!("{full}\n1.6: 6[a-z]70")), 70);
}
