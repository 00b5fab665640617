//! Decisions of a repair's caller.

/// Decisions that a store's files alone do not make.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Number of the store whose arenas are taken, where no manifest tells and the arenas and
    /// `REGION` disagree. It also brings back arenas of that number that an earlier repair put
    /// aside, unless a whole manifest is of that number already. Default: none; such arenas all stay
    /// aside.
    pub store: Option<u128>,
}
