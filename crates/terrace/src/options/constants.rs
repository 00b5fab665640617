//! Constants of the engine that tests, simulations and reproductions of published experiments replace.

use terrace_lsm::table::{MAX_VALUE_BYTES, RESTART_INTERVAL};

use crate::options::{Options, ReadBufferStructure};
use crate::{Error, Result};

/// Size of the largest batch where memory is not bounded.
const MAX_BATCH_BYTES: u64 = 256 << 20;

/// Constants of the engine. They are no settings: no store is better with others, and there is no promise
/// on their names.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Constants {
    /// Part of an arena that its index may take. `None`: half.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub arena_index_bytes: Option<u64>,
    /// Memory of flushed arenas that readers may keep. `None`: 64 MiB, or nothing where memory is bounded.
    /// Beyond it reads copy, and iterators move on to the tables.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub pinned_bytes: Option<u64>,
    /// Entries from one whole key in a data block to the next.
    pub restart_interval: usize,
    /// Size of the largest batch. `None`: see [`Options::max_batch_bytes`].
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_batch_bytes: Option<u64>,
    /// Whether a tmpfs is treated as if it survived a power cut. Statistics and manifest say so.
    pub emulate_power_safety: bool,
    /// Sub-levels of level 0 that stop writers. `None`: 16 more than slow them down.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub level0_stop: Option<usize>,
    /// Debt of compactions that slows writers down, and that stops them.
    pub debt_slowdown_bytes: u64,
    /// See `debt_slowdown_bytes`.
    pub debt_stop_bytes: u64,
    /// Largest input of a slice of a compaction. Each is installed on its own, so a crash loses no more work
    /// than a slice for each thread.
    pub slice_bytes: u64,
    /// Length of the manifest at which it is rewritten, if it has doubled since.
    pub manifest_bytes: u64,
    /// Structure of the read buffer's entries.
    pub structure: ReadBufferStructure,
    /// Whether the read buffer keeps entries even where the cache holds every block of the store.
    pub while_blocks_fit: bool,
}

impl Default for Constants {
    fn default() -> Self {
        Constants {
            arena_index_bytes: None,
            pinned_bytes: None,
            restart_interval: RESTART_INTERVAL,
            max_batch_bytes: None,
            emulate_power_safety: false,
            level0_stop: None,
            debt_slowdown_bytes: 16 << 30,
            debt_stop_bytes: 64 << 30,
            slice_bytes: 256 << 20,
            manifest_bytes: 4 << 20,
            structure: ReadBufferStructure::Hash,
            while_blocks_fit: false,
        }
    }
}

impl Constants {
    /// Returns whether they are the engine's own, which no file of options shows.
    #[cfg(feature = "serde")]
    pub(super) fn are_own(&self) -> bool {
        *self == Constants::default()
    }
}

impl Options {
    /// Returns the part of an arena that its index may take.
    #[doc(hidden)]
    pub fn arena_index_bytes(&self) -> u64 {
        (self.constants.arena_index_bytes).unwrap_or(self.arena_bytes / 2)
    }

    /// Returns the number of sub-levels of level 0 that stop writers.
    #[doc(hidden)]
    pub fn level0_stop(&self) -> usize {
        (self.constants.level0_stop).unwrap_or(self.level0_slowdown.saturating_add(16))
    }

    /// Returns the bytes of the largest batch: an eighth of [`Options::memory_bytes`], at least 1 MiB, and
    /// 256 MiB at most.
    pub fn max_batch_bytes(&self) -> u64 {
        let within = |bound_bytes: u64| (bound_bytes / 8).clamp(1 << 20, MAX_BATCH_BYTES);
        let usual_bytes = self.memory_bytes.map_or(MAX_BATCH_BYTES, within);
        self.constants.max_batch_bytes.unwrap_or(usual_bytes)
    }

    /// Returns the memory of flushed arenas that readers may keep.
    #[doc(hidden)]
    pub fn pinned_bytes(&self) -> u64 {
        let usual_bytes = self.memory_bytes.map_or(64 << 20, |_| 0);
        self.constants.pinned_bytes.unwrap_or(usual_bytes)
    }

    /// Refuses constants with which no store can work: a file of options may hold any.
    pub(super) fn check_constants(&self) -> Result<()> {
        let constants = &self.constants;
        let are_in_order = self.level0_stop() > self.level0_slowdown
            && (1..constants.debt_stop_bytes).contains(&constants.debt_slowdown_bytes)
            && constants.slice_bytes >= 1 << 10
            && constants.manifest_bytes >= 1 << 10
            && (1..=1024).contains(&constants.restart_interval)
            && (1 << 10..=MAX_VALUE_BYTES).contains(&self.max_batch_bytes())
            && (4 << 10..=8 << 30).contains(&self.arena_index_bytes());
        match are_in_order {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the engine's constants allow no store: {:?}; leave them out",
                constants
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of options may hold any number.
    #[test]
    fn constants_that_allow_no_store_are_refused() {
        for wrong in [
            "arena_index_bytes = 0",
            "arena_index_bytes = 1152921504606846976",
            "level0_stop = 20",
            "slice_bytes = 0",
            "manifest_bytes = 0",
            "max_batch_bytes = 1000",
            "restart_interval = 0",
            "max_batch_bytes = 1073741825",
            "debt_slowdown_bytes = 0",
            "debt_stop_bytes = 1",
        ] {
            let options = Options::from_toml(&format!("[constants]\n{wrong}\n"));
            let refused = options.and_then(|options| options.check()).unwrap_err();
            assert!(
                refused.to_string().contains("constants"),
                "{wrong}: {refused}"
            );
        }
        let named = "[constants]\nlevel0_stop = 21\n";
        Options::from_toml(named).unwrap().check().unwrap();
    }
}
