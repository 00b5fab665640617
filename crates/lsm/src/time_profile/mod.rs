//! Where the time of operations goes: a few of them are watched stage by stage.
//!
//! A watched operation reads the clock where one stage ends and the next begins. A random draw
//! chooses the operations to watch ([`sample()`]), so that their sums stand for all. The code of a
//! stage does not know whether it is watched. It names itself, which is a test of a flag of the
//! thread's, and it may do so at any depth without being handed anything. Stages exclude one
//! another. The time of a stage inside another is its own alone, and together they are all of the
//! operation.
//!
//! There are three ways to name a stage, by their costs:
//!
//! 1. [`enter_stage`]: from here on, until the next one is named. For the steps of a path.
//! 2. [`stage`]: until the value it returns is dropped; then the one before goes on. For stages
//!    inside others that may hold others themselves: system calls, above all.
//! 3. [`leaf`]: work on one block, which names no stage inside. Flushes and merges are watched
//!    always, since there are few; of their blocks some are, and count for the others.
//!
//! Rare and long stages, a writer's sleep or sync, are not left to the draw:
//! [`TimeProfiler::exact`].
//!
//! Nothing here knows the work of a stage, and everything above may use it.

mod current;
mod report;
pub mod sampling;
mod storage;
mod sums;

pub use current::{enter_stage, leaf, stage};
pub use report::{PathProfile, StageProfile, TimeProfile};
pub use sampling::{Sampling, TIMED_ONE_IN, sample};
pub use storage::timed;
pub use sums::{TimeProfiler, Watched};

/// An operation that is watched, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Write,
    Get,
    /// An iterator's move to a key.
    Seek,
    /// An iterator's move to the key beside.
    Step,
    Flush,
    Merge,
}

impl Path {
    const ALL: [Path; 6] = [
        Path::Write,
        Path::Get,
        Path::Seek,
        Path::Step,
        Path::Flush,
        Path::Merge,
    ];

    const fn name(self) -> &'static str {
        match self {
            Path::Write => "write",
            Path::Get => "get",
            Path::Seek => "seek",
            Path::Step => "step",
            Path::Flush => "flush",
            Path::Merge => "merge",
        }
    }

    /// Returns the number of operations of which one is watched, on average.
    const fn one_in(self) -> u32 {
        match self {
            Path::Write | Path::Get | Path::Seek | Path::Step => sampling::WATCHED_ONE_IN,
            Path::Flush | Path::Merge => 1,
        }
    }
}

/// Names the stages, in the order in which they are shown.
macro_rules! stages {
    ($($(#[$about:meta])* $stage:ident = $name:literal,)*) => {
        /// A part of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Stage {
            $($(#[$about])* $stage,)*
        }

        impl Stage {
            const ALL: [Stage; STAGES] = [$(Stage::$stage,)*];

            const fn name(self) -> &'static str {
                match self {
                    $(Stage::$stage => $name,)*
                }
            }
        }

        const STAGES: usize = [$($name,)*].len();
    };
}

stages! {
    /// Until this writer's group is written, by itself or another one.
    Queue = "commit queue",
    /// The slowdown's sleeps, waiting for compaction, waiting for an arena.
    HeldBack = "held back",
    /// The leader's checks and decisions before it writes.
    Admission = "checks and room",
    /// The frame's copy and its checksum; with a mapped arena also the faults of its pages.
    ArenaCopy = "copy into arena",
    Persist = "persist",
    /// One pass over the frame, for the index and the read buffer.
    Insert = "index insert",
    /// The memory of the read buffer after a frame.
    Forward = "forward to read buffer",
    /// Asking it, and offering it the found versions.
    ReadBuffer = "read buffer",
    MemTables = "MemTables",
    ValueCopy = "copy of value",
    /// Which tables may have the key, their filters included.
    Filters = "tables and filters",
    Index = "table index",
    BlockCache = "block cache",
    BlockSearch = "search in block",
    /// Moving the sources of an iterator, and its rows: small ones are copied.
    Iteration = "iteration",
    ArenaChecksums = "arena checksums",
    Sort = "sorting the index",
    /// Decoding entries, choosing those that stay, making blocks of them.
    Merging = "merging",
    FilterBuild = "building filters",
    Decompression = "decompression",
    Compression = "compression",
    Checksum = "block checksum",
    /// Finding out the contents of a checked block.
    Decode = "block decode",
    /// Of merges, for the limit on background writes.
    WriteRate = "waiting for write rate",
    ReadCall = "system call: read",
    WriteCall = "system call: write",
    SyncCall = "system call: sync",
    OtherCall = "system call: other",
    /// Edits of the manifest, the readers' new view, resources given back.
    Install = "installing",
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
