//! The rule by which tables of a keyspace go to tiers.

use std::fmt;

/// Chooses the tiers of a keyspace's tables. All rules hold capacities, and a tier without room passes a
/// table on to the next slower one, or to a faster one.
///
/// ```
/// use terrace::{KeyspaceOptions, Placement};
/// // Readers come back to some ranges of keys, and these are to lie on the fast device.
/// let profiles = KeyspaceOptions { placement: Placement::Heat, ..KeyspaceOptions::default() };
/// assert_eq!(profiles.placement.to_string(), "heat");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[repr(u8)]
#[non_exhaustive]
pub enum Placement {
    /// By level: `level_tiers` names the tiers. Where it names none, the upper levels fill the fast tiers.
    #[default]
    Levels = 1,
    /// By age: a table moves to the next slower tier once its youngest write is older than
    /// `tier_ages_seconds`.
    Age = 2,
    /// By reads: the tables with the most reads from the device for each byte lie in the fastest tier. A
    /// compaction ends tables where that number changes.
    Heat = 3,
    /// By reads and cost: as `Heat`, and the upper levels lie in the tiers that are predicted to serve the
    /// traffic of late best. It needs the profile of each tier; until these are known it is `Heat`.
    Auto = 4,
}

impl Placement {
    /// The names in options.
    pub const NAMES: &[&str] = &["levels", "age", "heat", "auto"];

    /// Returns whether the reads of tables decide.
    #[doc(hidden)]
    pub const fn is_by_reads(self) -> bool {
        matches!(self, Placement::Heat | Placement::Auto)
    }

    pub(crate) const fn from_number(number: u8) -> Option<Placement> {
        Some(match number {
            1 => Placement::Levels,
            2 => Placement::Age,
            3 => Placement::Heat,
            4 => Placement::Auto,
            _ => return None,
        })
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Levels => "levels",
            Placement::Age => "age",
            Placement::Heat => "heat",
            Placement::Auto => "auto",
        })
    }
}
