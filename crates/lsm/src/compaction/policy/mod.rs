//! The choice of the next merge: a pure function of the levels and of the merges under way, tested
//! without I/O.

pub mod candidate;
pub(crate) mod dedup;
mod inputs;
pub mod leveled;
pub mod mixed_reads;
pub mod removal;
pub(crate) mod score;
pub mod settings;
pub mod superseded;
pub(crate) mod tiered;
pub mod tombstones;

use std::fmt;
use std::sync::Arc;

use self::candidate::Candidate;
use self::dedup::Dedup;
use self::leveled::Leveled;
use self::score::Score;
use self::settings::{CompactionPolicy, PolicySettings};
use self::tiered::{LastLevel, Tiered};
use crate::compaction::claim::Claim;
use crate::compaction::estimates::{Duplicates, Estimates};
use crate::compaction::output::takes_tables_as_they_are;
use crate::compaction::run::Run;
use crate::compaction::targets::Shape;
use crate::keyspace_options::KeyspaceOptions;
use crate::levels::{KeyRange, KeyspaceLevels, Place, Table};
use crate::things::things;

/// A way to keep the levels in shape.
pub trait Policy: Send + Sync {
    /// Returns the most urgent merge or move of a keyspace that may begin beside those under way
    /// there; `None` if nothing is due, or if all that is due has to wait.
    fn pick(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Option<Choice>;

    /// Returns its candidates, in the order in which it would begin them: [`Policy::pick`] picks
    /// the first one that may begin.
    fn candidates(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
        estimates: &dyn Estimates,
    ) -> Vec<Candidate>;

    /// Estimates the bytes that merges still have to write until nothing is over its target.
    fn debt_bytes(&self, levels: &KeyspaceLevels) -> u64;

    /// Returns how far the merges below level 0 are behind: 1 is one that should begin now. More
    /// than 1 holds writers back.
    fn overdue(&self, _: &KeyspaceLevels, _: &[Claim], _: &dyn Estimates) -> f64 {
        0.0
    }

    /// Returns the runs for which it needs the versions that merging them would drop.
    fn runs(&self, _: &KeyspaceLevels) -> Vec<Run> {
        Vec::new()
    }
}

/// Returns the policy that the settings describe, for a keyspace of some form. `level0_is_paid_for`
/// if scans have asked level 0 so often that a merge of it is due.
pub fn described_by(
    settings: &PolicySettings,
    form: &KeyspaceOptions,
    level0_is_paid_for: bool,
) -> Box<dyn Policy> {
    let same_form_as_above = takes_tables_as_they_are(form);
    let tiered = |last_level, same_form_as_above| Tiered {
        level0_merge: settings.level0_merge,
        sub_levels: usize::try_from(form.level_ratio).unwrap_or(usize::MAX),
        last_level,
        same_form_as_above,
    };
    match settings.policy {
        CompactionPolicy::Leveled => Box::new(Leveled {
            level0_merge: settings.level0_merge,
            level0_is_paid_for,
            shape: Shape::of(form),
            slice_bytes: settings.slice_bytes,
            same_form_as_above,
        }),
        CompactionPolicy::Tiered => Box::new(tiered(LastLevel::Tiered, same_form_as_above)),
        CompactionPolicy::Dedup => Box::new(Dedup {
            tiered: tiered(LastLevel::Tiered, same_form_as_above),
            threshold: settings.dedup_threshold,
        }),
        CompactionPolicy::Score => {
            let tiered = tiered(LastLevel::Tiered, same_form_as_above);
            let least_slowdown = settings.level0_slowdown.saturating_sub(1).max(1);
            let level0_merge = (tiered.level0_merge * score::LEVEL0_TIMES).min(least_slowdown);
            Box::new(Score {
                tiered: Tiered {
                    level0_merge: level0_merge.max(tiered.level0_merge),
                    ..tiered
                },
                min_score: settings.min_score,
            })
        }
        CompactionPolicy::Lazy => {
            let last_level = LastLevel::Leveled(Shape::of(form));
            Box::new(tiered(last_level, same_form_as_above))
        }
    }
}

/// Makes the choice of these inputs and of the tables that they drag along in the output's
/// sub-level. Inputs that overlap nothing are moved, unless the output's level is written in
/// another form: for each level, `same_form_as_above` says whether its form is that of the level
/// above.
fn assemble(
    reason: Reason,
    mut inputs: Vec<Input>,
    dragged: Vec<Input>,
    output: Place,
    same_form_as_above: &[bool],
) -> Option<Choice> {
    let top = inputs.iter().map(|input| input.place.level).min()?;
    let mut by_key: Vec<&KeyRange> = inputs.iter().map(|input| &input.table.bounds).collect();
    by_key.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let disjoint = by_key.windows(2).all(|pair| match pair {
        [left, right] => !left.overlaps(right),
        _ => true,
    });
    // Within a level nothing changes its form.
    let same_form = (top + 1..=output.level).all(|level| {
        let same = same_form_as_above.get(usize::from(level));
        same.is_some_and(|&same| same)
    });
    let kind = if dragged.is_empty() && disjoint && same_form {
        ChoiceKind::Move
    } else {
        ChoiceKind::Merge
    };
    inputs.extend(dragged);
    Some(Choice {
        reason,
        kind,
        inputs,
        output,
        predicted: None,
    })
}

/// Returns the choice, if it may begin beside the merges under way.
fn unless_claimed(choice: Choice, under_way: &[Claim]) -> Option<Choice> {
    let claim = Claim::of(&choice)?;
    let waits = under_way.iter().any(|other| other.conflicts_with(&claim));
    (!waits).then_some(choice)
}

/// Returns a pick that goes behind everything else, or one that does not.
fn split(picked: Option<Choice>) -> (Option<Choice>, Option<Choice>) {
    match picked {
        Some(choice) if choice.is_leftover() => (Some(choice), None),
        usual => (None, usual),
    }
}

/// Returns whether a policy wants nothing but leftovers. One that waits for merges under way wants
/// something.
fn is_idle(
    policy: &dyn Policy,
    levels: &KeyspaceLevels,
    under_way: &[Claim],
    estimates: &dyn Estimates,
) -> bool {
    let alone = || policy.pick(levels, &[], estimates);
    under_way.is_empty() || alone().is_none_or(|choice| choice.is_leftover())
}

/// A merge or a move that a policy wants.
#[derive(Clone, Debug)]
pub struct Choice {
    pub reason: Reason,
    pub kind: ChoiceKind,
    /// The tables, each with the place it has now.
    pub inputs: Vec<Input>,
    /// The sub-level that takes the outputs.
    pub output: Place,
    /// Versions that it is expected to drop, if it was chosen for that.
    pub predicted: Option<Duplicates>,
}

impl Choice {
    /// Returns the same choice, its outputs' sub-level with this name if it has none.
    pub fn named(self, name: impl FnOnce() -> u64) -> Choice {
        Choice {
            output: self.output.named(name),
            ..self
        }
    }

    /// Returns whether it was chosen for a range of keys and leaves the rest.
    pub fn is_of_range(&self) -> bool {
        matches!(
            self.reason,
            Reason::ScoreOfRange { .. } | Reason::DuplicatesOfRange { .. }
        )
    }

    /// Returns whether it begins beside the slices of other merges that wait to be built: a removal
    /// and a move are one edit, and nothing else should wait for level 0.
    pub fn goes_first(&self) -> bool {
        self.kind != ChoiceKind::Merge || self.is_of_level0()
    }

    /// Returns whether it goes behind everything else that is due.
    pub fn is_leftover(&self) -> bool {
        matches!(
            self.reason,
            Reason::Leftover { .. } | Reason::UnusedLevel { .. } | Reason::MixedReads { .. }
        )
    }

    /// Returns whether it is only for the tiers of its outputs.
    pub fn is_for_reads(&self) -> bool {
        matches!(self.reason, Reason::MixedReads { .. })
    }

    /// Returns whether it makes level 0 smaller, which nothing else should wait for.
    pub fn is_of_level0(&self) -> bool {
        matches!(
            self.reason,
            Reason::Level0SubLevels(_) | Reason::Level0Scans(_)
        )
    }
}

/// A table that takes part.
#[derive(Clone, Debug)]
pub struct Input {
    pub place: Place,
    pub table: Arc<Table>,
}

impl Input {
    pub fn new(place: Place, table: &Arc<Table>) -> Self {
        let table = Arc::clone(table);
        Input { place, table }
    }
}

/// The treatment of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceKind {
    /// Their files stay as they are and are listed at the output's place.
    Move,
    /// They are read and written to new tables.
    Merge,
    /// They go, and nothing takes their place.
    Removal,
}

/// The reason for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has too many sub-levels.
    Level0SubLevels(usize),
    /// Scans have asked those that level 0 has often enough.
    Level0Scans(usize),
    /// A level has more bytes than its target, in percent of it.
    LevelSize { level: u8, percent: u64 },
    /// The same, and no writer is held back for it.
    Leftover { level: u8, percent: u64 },
    /// A level has bytes, and its target is so small that it is to have none.
    UnusedLevel { level: u8 },
    /// A level below level 0 has as many sub-levels as it may have.
    SubLevels { level: u8, count: usize },
    /// Versions of a level for each that would stay, in percent.
    Duplicates { level: u8, percent: u64 },
    /// Gain of neighbouring sub-levels for each byte that merging them writes, in percent.
    Score { sub_levels: usize, percent: u64 },
    /// The same, of some of the keys of a level.
    DuplicatesOfRange { level: u8, percent: u64 },
    /// The same, of some of the keys of neighbouring sub-levels.
    ScoreOfRange { sub_levels: usize, percent: u64 },
    /// A level has sub-levels that the policy would not have made.
    OtherPolicy { level: u8, sub_levels: usize },
    /// Percentage of tombstones among the entries of some tables.
    Tombstones { level: u8, percent: u64 },
    /// Iterators have passed over tombstones of a level often enough.
    PassedOver { level: u8 },
    /// Time that a tombstone has been in tables.
    TombstoneAge { level: u8, seconds: u64 },
    /// Percentage of superseded versions that no snapshot needs among the bytes of some tables.
    Superseded { level: u8, percent: u64 },
    /// Number of tables that deleted ranges hide whole.
    Hidden { tables: usize },
    /// Parts of some tables are worth different tiers by their reads.
    MixedReads { level: u8, tables: usize },
    /// A caller asked for it.
    AskedFor,
}

impl Choice {
    /// Returns whether it is chosen for the space that it gives back: it may take the reserve of a tier.
    pub fn frees_space(&self) -> bool {
        match self.reason {
            Reason::Level0SubLevels(_)
            | Reason::Level0Scans(_)
            | Reason::LevelSize { .. }
            | Reason::Leftover { .. }
            | Reason::UnusedLevel { .. }
            | Reason::SubLevels { .. }
            | Reason::OtherPolicy { .. }
            | Reason::MixedReads { .. } => false,
            Reason::Duplicates { .. }
            | Reason::Score { .. }
            | Reason::DuplicatesOfRange { .. }
            | Reason::ScoreOfRange { .. }
            | Reason::Tombstones { .. }
            | Reason::PassedOver { .. }
            | Reason::TombstoneAge { .. }
            | Reason::Superseded { .. }
            | Reason::Hidden { .. }
            | Reason::AskedFor => true,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChoiceKind::Move => "move",
            ChoiceKind::Merge => "merge",
            ChoiceKind::Removal => "removal",
        };
        write!(f, "{kind}")?;
        for Input { place, table } in &self.inputs {
            write!(f, " {}@{}.{}", table.number, place.level, place.age)?;
        }
        let Place { level, age, .. } = self.output;
        write!(f, " -> {level}.{age} because {}", self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Level0SubLevels(count) => {
                write!(f, "level 0 has {}", things(*count, "sub-level"))
            }
            Reason::Level0Scans(count) => {
                write!(
                    f,
                    "scans often ask level 0, of {}",
                    things(*count, "sub-level")
                )
            }
            Reason::UnusedLevel { level } => {
                write!(f, "level {level} is not used in a store of this size")
            }
            Reason::SubLevels { level, count } => {
                write!(f, "level {level} has {}", things(*count, "sub-level"))
            }
            Reason::Duplicates { level, percent } => write!(
                f,
                "level {level} has {} for 100 that would stay",
                things(*percent, "version")
            ),
            Reason::Score {
                sub_levels,
                percent,
            } => write!(
                f,
                "merging {} gives {} for 100 written",
                things(*sub_levels, "sub-level"),
                things(*percent, "byte")
            ),
            Reason::DuplicatesOfRange { level, percent } => write!(
                f,
                "a range of keys of level {level} has {} for 100 that would stay",
                things(*percent, "version")
            ),
            Reason::ScoreOfRange {
                sub_levels,
                percent,
            } => write!(
                f,
                "merging a range of keys of {} gives {} for 100 written",
                things(*sub_levels, "sub-level"),
                things(*percent, "byte")
            ),
            Reason::OtherPolicy { level, sub_levels } => write!(
                f,
                "level {level} has {} of another policy",
                things(*sub_levels, "sub-level")
            ),
            Reason::LevelSize { level, percent } | Reason::Leftover { level, percent } => {
                write!(f, "level {level} is at {percent} % of its target")
            }
            Reason::Tombstones { .. }
            | Reason::PassedOver { .. }
            | Reason::TombstoneAge { .. }
            | Reason::Superseded { .. }
            | Reason::Hidden { .. }
            | Reason::MixedReads { .. }
            | Reason::AskedFor => self.write_of_tables(f),
        }
    }
}

impl Reason {
    /// Writes a reason that lies in the contents of tables, or that a caller had.
    fn write_of_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Tombstones { level, percent } => {
                write!(f, "of tables of level {level} {percent} % are tombstones")
            }
            Reason::PassedOver { level } => {
                write!(f, "iterators often pass over tombstones of level {level}")
            }
            Reason::TombstoneAge { level, seconds } => {
                write!(
                    f,
                    "level {level} has tombstones of {}",
                    things(*seconds, "second")
                )
            }
            Reason::Superseded { level, percent } => write!(
                f,
                "of tables of level {level} {percent} % are superseded, and no snapshot needs it"
            ),
            Reason::Hidden { tables } => {
                write!(f, "deleted ranges hide all of {}", things(*tables, "table"))
            }
            Reason::MixedReads { level, tables } => write!(
                f,
                "parts of {} of level {level} are worth different tiers by their reads",
                things(*tables, "table")
            ),
            _ => f.write_str("it was asked for"),
        }
    }
}

#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod tests;
