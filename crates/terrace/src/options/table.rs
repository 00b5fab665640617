//! The table of a store's options, in the order of the fields. A new field of [`Options`] does not compile
//! without an entry here; a number needs a line in `check.rs` as well (CONTRIBUTING.md has the steps).
//!
//! The engine reads all of its options at an opening, and no setter changes them later. A change of the
//! form of tables shows in tables that are written after that opening.

use terrace_lsm::keyspace_options::table::{
    BLOCK_BYTES, COMPRESSION, FILTER_BITS_PER_KEY, LEVEL_RATIO, LEVEL_TIERS, LEVEL1_BYTES,
    PINNED_TIERS, PLACEMENT, TABLE_BYTES, TIER_AGES_SECONDS,
};
use terrace_lsm::option_table;
use terrace_lsm::option_table::Applies::AtOpen;
use terrace_lsm::option_table::{OptionEntry, Values, bytes, whole};
use terrace_region::CAPACITY_STEP_BYTES;

use crate::options::{KeyspaceOptions, Options, ReadBufferOptions};

#[cfg(test)]
mod tests;

/// The largest arena: places in an arena are 32-bit.
const MAX_ARENA_BYTES: u64 = 1 << 31;
/// The lowest rate: below it a single write of a compaction would wait for seconds.
pub(super) const LEAST_BYTES_PER_SECOND: u64 = 64 << 10;
/// The smallest memory of a store that is bounded.
const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// The largest memory of a cache: tables of this size are made for it.
const MAX_MEMORY_BYTES: u64 = 1 << 44;

/// Returns the entry of an option that an opening reads.
const fn option(description: &'static str, values: Values) -> OptionEntry {
    OptionEntry::new(description, values, AtOpen)
}

/// Returns the entry of a choice between `true` and `false`.
const fn switch(description: &'static str) -> OptionEntry {
    option(description, Values::Boolean)
}

const SECONDS: Values = Values::Other("seconds, with a fraction where wanted");
const SECONDS_ABOVE_0: Values = Values::Other("seconds above 0, with a fraction where wanted");
const POLICIES: &[&str] = &["leveled", "tiered", "lazy", "dedup", "score"];
const ARENA_BYTES: Values = Values::Whole {
    unit: "bytes",
    min: 2 * CAPACITY_STEP_BYTES,
    max: MAX_ARENA_BYTES,
    step: CAPACITY_STEP_BYTES,
};

option_table! {
    /// Options of a store, in the order of their fields, without groups.
    pub static STORE: Options as "" {
        create_if_missing: switch("Creation of a store where the directory holds none");
        error_if_exists: switch("Refusal of a directory that holds a store");
        read_only: switch("Read-only opening, which writes no byte and refuses every write");
        wait_for_lock as "wait_for_lock_seconds":
            option("Time to wait until another owner or reader has left", SECONDS)
                .unset("the first refusal is the error", "60.0");
        durability:
            option("Events that acknowledged writes survive",
                Values::Name(&["CrashSafe", "PowerSafe", "Volatile"]))
                .unset("as at the last opening, CrashSafe for a new store", "\"CrashSafe\"");
        persist_every as "persist_every_seconds":
            option("Interval at which writes are persisted, and the most that a power cut takes", SECONDS_ABOVE_0)
                .unset("flushes persist, and writes or calls that ask for it", "1.0");

        memory_bytes:
            option("Memory of the whole store, from which sizes with their defaults follow",
                bytes(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES))
                .unset("sizes have their defaults", "536870912");
        arena_bytes: option("Size of an arena with its index, the unit of flushes", ARENA_BYTES);
        max_arenas:
            option("Number of arenas that may hold unflushed writes, the active one included",
                whole("arenas", 2, 64));

        compaction_policy: option("Rule that chooses tables for a compaction", Values::Name(POLICIES));
        dedup_threshold:
            option("With the policy dedup, versions in a level, for each that a compaction would leave",
                Values::Decimal { min: 1.01, max: 100.0 });
        min_score:
            option("With the policy score, gain of a compaction for each byte that it writes",
                Values::Decimal { min: 0.01, max: 100.0 });
        tombstone_percent:
            option("Share of tombstones at which a table is compacted with older ones; 0 for never",
                whole("percent", 0, 100));
        tombstone_age_seconds:
            option("Age in tables at which a tombstone is compacted down; 0 for never",
                whole("seconds", 0, 1 << 40));
        level0_merge:
            option("Number of sub-levels of level 0 that starts a compaction", whole("sub-levels", 1, 1000));
        level0_slowdown:
            option("Number of sub-levels of level 0 that slows writers down, at least level0_merge",
                whole("sub-levels", 1, 10_000));

        compaction_threads:
            option("Number of compactions, or slices of one, that run at a time", whole("threads", 1, 64))
                .of_machine("one less than there are processors, from 1 to 64");
        background_bytes_per_second:
            option("Rate at which flushes and compactions write together, while they owe little",
                whole("bytes a second", LEAST_BYTES_PER_SECOND, u64::MAX))
                .unset("no limit", "104857600");

        cache_bytes:
            option("Memory for data of tables: blocks, and entries of the read buffer",
                bytes(0, MAX_MEMORY_BYTES));
        direct_io: switch("Access to tables past the page cache, where the file system has it");
        poll_reads:
            switch("Reads of tables that wait on the processor, with direct_io and io_uring")
                .unset("true with memory_bytes, false without", "true");
        max_open_tables:
            option("Number of tables kept open, with filter and top index in memory",
                whole("tables", 1, 1 << 20))
                .unset("half of the files that the process may open, at most 1000, for all its stores", "1000");

        region_dir:
            option("Directory for arenas, on a device or mount of their own", Values::Other("a path"))
                .unset("arenas are in the store's directory", "\"/mnt/fast/arenas\"");
        accept_region_loss: switch("Consent to an opening without the unflushed writes of a lost region");
        tiers:
            option("Directories for tables, from the fastest device to the slowest",
                Values::Other("a list of groups with name, directory, three sizes in bytes and profile"))
                .unset("the store's own directory alone",
                    "[{ name = \"disk\", directory = \"/mnt/disk/tables\" }]");
        accept_tier_loss: switch("Consent to an opening without the tables of a missing tier");
        persist_method:
            option("Method by which arenas in files take new writes",
                Values::Name(&["auto", "written", "mapped", "dax"]));
        file_access:
            option("Users that may open files and directories that the store makes from then on",
                Values::Name(&["owner", "umask"]));
    } without { default_keyspace read_buffer storage region take_unlisted background event_listener constants randomness }
}

option_table! {
    /// Options of the read buffer, in the order of their fields.
    pub static READ_BUFFER: ReadBufferOptions as "read_buffer." {
        policy:
            option("Writes that enter the read buffer",
                Values::Name(&["resident", "all"]));
        share_percent:
            option("Share of cache_bytes that the read buffer may take; 0 for none", whole("percent", 0, 90));
    } without { }
}

option_table! {
    /// Options of the default keyspace, in the order of their fields.
    pub static DEFAULT_KEYSPACE: KeyspaceOptions as "default_keyspace." {
        block_bytes: BLOCK_BYTES;
        filter_bits_per_key: FILTER_BITS_PER_KEY;
        compression: COMPRESSION;
        table_bytes: TABLE_BYTES;
        level1_bytes: LEVEL1_BYTES.applying(AtOpen);
        level_ratio: LEVEL_RATIO.applying(AtOpen);
        level_tiers: LEVEL_TIERS.applying(AtOpen);
        placement: PLACEMENT.applying(AtOpen);
        pinned_tiers: PINNED_TIERS.applying(AtOpen);
        tier_ages_seconds: TIER_AGES_SECONDS.applying(AtOpen);
    } without { }
}
