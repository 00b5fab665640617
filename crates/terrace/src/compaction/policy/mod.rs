//! What to merge next: a pure function of the levels and of what is under way, tested without I/O.

pub(crate) mod leveled;

use std::fmt;
use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::levels::{KeyspaceLevels, Place, Table};

/// A way to keep the levels in shape.
pub(crate) trait Policy: Send + Sync {
    /// The most urgent merge or move of a keyspace that may begin beside what is under way there;
    /// `None` if nothing is over its target, or only what has to wait.
    fn pick(&self, levels: &KeyspaceLevels, under_way: &[Claim]) -> Option<Choice>;
}

/// A merge or a move that a policy wants.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) reason: Reason,
    pub(crate) kind: ChoiceKind,
    /// The tables, each with the place it has now.
    pub(crate) inputs: Vec<Input>,
    /// The sub-level that takes the outputs.
    pub(crate) output: Place,
}

impl Choice {
    /// Whether it makes level 0 smaller, which nothing else should wait for.
    pub(crate) fn is_of_level0(&self) -> bool {
        matches!(
            self.reason,
            Reason::Level0SubLevels(_) | Reason::Level0Scans(_)
        )
    }
}

/// A table that takes part.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) place: Place,
    pub(crate) table: Arc<Table>,
}

/// What is done with the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceKind {
    /// Their files stay as they are and are listed at the output's place.
    Move,
    /// They are read and written anew.
    Merge,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has too many sub-levels.
    Level0SubLevels(usize),
    /// Scans have asked those that level 0 has often enough.
    Level0Scans(usize),
    /// A level has more bytes than its target, in percent of it.
    LevelSize { level: u8, percent: u64 },
    /// Somebody asked for it.
    AskedFor,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChoiceKind::Move => "move",
            ChoiceKind::Merge => "merge",
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
            Reason::Level0SubLevels(count) => write!(f, "level 0 has {count} sub-levels"),
            Reason::Level0Scans(count) => {
                write!(f, "scans often ask level 0, of {count} sub-levels")
            }
            Reason::AskedFor => f.write_str("it was asked for"),
            Reason::LevelSize { level, percent } => {
                write!(f, "level {level} is at {percent} % of its target")
            }
        }
    }
}
