//! The candidates of a policy: every merge that it knows of, begun or not, with how far it is due.
//! They decide nothing; they answer the question why.

use crate::compaction::estimates::Duplicates;
use crate::compaction::policy::Choice;
use crate::compaction::run::Run;

/// Something that a policy may merge.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub measure: Measure,
    pub standing: Standing,
}

/// The measure that the policy goes by.
#[derive(Clone, Debug)]
pub enum Measure {
    /// The sub-levels of a level that are not on their way down, and those that make it due.
    SubLevels {
        level: u8,
        count: usize,
        most: usize,
    },
    /// The bytes of a level that are not on their way down, and those that it is to have; 0 if it
    /// is not used.
    Size { level: u8, bytes: u64, target: u64 },
    /// The duplicates of a level, and the rate that makes it due.
    Duplicates {
        level: u8,
        duplicates: Duplicates,
        threshold: f64,
    },
    /// The gain of merging a run for each byte, and the gain that is worth it.
    Score { run: Run, score: f64, least: f64 },
    /// A level has sub-levels that the policy would not have made, which is due at once.
    OtherPolicy { level: u8, sub_levels: usize },
    /// Tables full of tombstones, and the share that makes them so.
    Tombstones { level: u8, percent: u64, due: u64 },
    /// Tables for whose tombstones iterators have paid.
    PassedOver { level: u8 },
    /// Tables with an old tombstone, and the age that makes it so.
    TombstoneAge { level: u8, seconds: u64, due: u64 },
    /// Tables with superseded versions that no snapshot needs, and the share of bytes that makes them due.
    Superseded { level: u8, percent: u64, due: u64 },
    /// Tables that deleted ranges hide whole.
    Hidden { level: u8, tables: usize },
    /// Neighbouring tables whose parts are worth different tiers by their reads.
    MixedReads { level: u8, tables: usize },
}

/// The state of a candidate.
#[derive(Clone, Debug)]
pub enum Standing {
    NotDue,
    /// Due, and kept from beginning by merges under way; or there is no merge that could be done.
    Waits,
    /// Due by the first look. A closer one was not taken, because better ones are before it.
    NotLookedAt,
    /// It may begin.
    Ready(Choice),
}

impl Standing {
    /// Returns the standing of a candidate that is due or not, and of the choice for it.
    pub(super) fn of(is_due: bool, choice: impl FnOnce() -> Option<Choice>) -> Self {
        if !is_due {
            return Standing::NotDue;
        }
        choice().map_or(Standing::Waits, Standing::Ready)
    }

    /// Puts another choice in place of one that may begin.
    pub(super) fn map(self, change: impl FnOnce(Choice) -> Choice) -> Self {
        match self {
            Standing::Ready(choice) => Standing::Ready(change(choice)),
            other => other,
        }
    }
}

impl Candidate {
    /// Returns whether its choice goes behind everything else.
    pub(super) fn is_leftover(&self) -> bool {
        self.choice().is_some_and(Choice::is_leftover)
    }

    /// Returns its choice, if it may begin.
    pub fn choice(&self) -> Option<&Choice> {
        match &self.standing {
            Standing::Ready(choice) => Some(choice),
            _ => None,
        }
    }

    /// Returns how far it is due; from about 1 on it is.
    pub fn due_share(&self) -> f64 {
        match &self.measure {
            Measure::SubLevels { count, most, .. } => *count as f64 / (*most).max(1) as f64,
            // A level that is not used is to have nothing.
            Measure::Size { target: 0, .. } => 1.0,
            Measure::Size { bytes, target, .. } => *bytes as f64 / *target as f64,
            // A rate begins at 1.
            Measure::Duplicates {
                duplicates,
                threshold,
                ..
            } => (duplicates.rate() - 1.0) / (threshold - 1.0),
            Measure::Score { score, least, .. } => score / least,
            Measure::OtherPolicy { .. }
            | Measure::Hidden { .. }
            | Measure::MixedReads { .. }
            | Measure::PassedOver { .. } => 1.0,
            Measure::Tombstones { percent, due, .. } | Measure::Superseded { percent, due, .. } => {
                *percent as f64 / (*due).max(1) as f64
            }
            Measure::TombstoneAge { seconds, due, .. } => *seconds as f64 / (*due).max(1) as f64,
        }
    }
}
