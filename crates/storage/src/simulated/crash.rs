//! The two ways in which a machine dies, and the share of unsynced changes that a power cut takes.

use rand::RngExt;
use rand::rngs::StdRng;

/// How the simulated machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashKind {
    /// The process dies: the page cache and all names stay as they are, and so does the boot id.
    Kill,
    /// The power fails: unsynced changes may be lost, in any legal combination.
    PowerCut,
}

/// How a power cut treats the unsynced changes of one file or of the names.
///
/// Every legal outcome can come from `Scattered` alone, but with many pages the extreme ones would
/// hardly ever be drawn; most mistakes need those to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Everything,
    Nothing,
    /// All after a certain change, as on a medium that keeps their order.
    Suffix,
    Scattered,
}

impl Loss {
    pub(super) fn choose(random: &mut StdRng) -> Self {
        match random.random_range(0..6_u8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Suffix,
            _ => Loss::Scattered,
        }
    }
}
