//! The cause for which writers are held back.

use std::fmt;

/// The cause for which writers were held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// Level 0 has too many sub-levels: compaction is behind.
    Level0,
    /// Merges owe too many bytes, or are due and have to wait.
    Debt,
    /// The arenas are nearly full: flushes are behind.
    SealedArenas,
}

impl StallCause {
    /// Every cause, in the order of its number.
    pub const ALL: [StallCause; 3] = [
        StallCause::Level0,
        StallCause::Debt,
        StallCause::SealedArenas,
    ];
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallCause::Level0 => "level 0",
            StallCause::Debt => "debt",
            StallCause::SealedArenas => "sealed arenas",
        })
    }
}
