//! Collects the statistics of a store from its owners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_lsm::levels::{ArenaHome, LEVELS, Version};
use terrace_lsm::table::DeviceReads;
use terrace_storage::{IoStatistics, Storage};

use super::{ArenaStatistics, LevelStatistics, MemoryStatistics, Sequences, Statistics};
use crate::SequenceNumber;
use crate::db::Store;
use crate::db::owners::{Metrics, Writes};
use crate::db::tiers::level_times::LevelTimes;
use crate::db::view::View;
use crate::db::write_rate::WriteRate;
use crate::read_buffer::ReadBuffer;
use crate::stall_cause::StallCause;

impl Store {
    pub(crate) fn statistics(&self) -> Statistics {
        let view = self.reads.view.load();
        let (pinned, pinned_bytes) = self.reads.pins.pinned();
        let (next_generation, flushed, region_losses) = {
            let ledger = self.manifest_log.ledger.lock();
            let state = &ledger.state;
            let losses = state.region_losses.clone();
            (state.next_generation, state.flushed_sequence, losses)
        };
        let region = self.writes.region.description();
        let (spare, spare_bytes) = self.writes.spares();
        let sequences = self.sequences(&view, flushed);
        let memory = self.memory(&view, spare_bytes, pinned_bytes);
        let io = self.files.storage.snapshot();
        let counters = &self.metrics.counters;
        let user_bytes = count(&counters.user_bytes);
        let (step_failures, last_error) = self.lifecycle.background.step_failures();
        Statistics {
            durability: self.writes.durability,
            method: region.method.to_owned(),
            emulated: region.emulated,
            file_system: self.files.file_system.name.clone(),
            region_medium: region.medium.clone(),
            region_dir: match &self.manifest_log.arena_home {
                ArenaHome::Region { path, .. } => Some(path.clone()),
                ArenaHome::Store => None,
            },
            region_losses,
            sequences,
            arenas: ArenaStatistics {
                next_generation,
                spare,
                pinned,
                ..self.arenas_in_view(&view)
            },
            memory,
            read_buffer: self.reads.read_buffer.as_ref().map(ReadBuffer::statistics),
            levels: level_totals(&view.version, &self.files.level_times),
            write_amplification: self.writes.write_amplification(user_bytes, &io),
            read_amplification: self.metrics.read_amplification(),
            space_amplification: space_amplification(&view.version),
            latencies: self.metrics.latencies.statistics(),
            time: self.metrics.time_profile.profile(),
            io,
            user_bytes,
            debt_bytes: self.writes.backlog.debt_bytes(),
            write_rate: self.writes.backlog.write_rate().map(WriteRate::statistics),
            stalls: self.metrics.stalls(),
            longest_stall: self.metrics.stalls.longest(),
            flushes: count(&counters.flushes),
            merges: count(&counters.merges),
            setbacks: count(&counters.setbacks),
            strangers_refused: count(&counters.strangers_refused),
            merged_entries: count(&counters.merged_entries),
            dropped_entries: count(&counters.dropped_entries),
            slices: count(&counters.slices),
            moves: count(&counters.moves),
            removals: count(&counters.removals),
            migrations: count(&counters.migrations),
            tiers: self.tier_statistics(),
            tables_to_delete: self.files.tables_to_delete() as u64,
            step_failures,
            last_error,
            can_poll_reads: self.can_poll_reads(),
            poisoned: self.lifecycle.poisoned(),
            reserve_bytes: self.files.reserve_bytes(),
            lacks_reserve: self.files.lacks_reserve(),
            snapshots: self.reads.snapshots.len(),
            oldest_snapshot: self.reads.oldest_snapshot_of(&view.version),
            transactions: self.metrics.transactions.statistics(),
            recovery: self.metrics.recovery.clone(),
        }
    }

    fn sequences(&self, view: &View, flushed: SequenceNumber) -> Sequences {
        let visible = self.reads.visible();
        Sequences {
            visible,
            last: view
                .memtables
                .first()
                .map_or(visible, |table| table.last_sequence().max(visible)),
            persisted: self.writes.persisted.load(Ordering::Acquire).max(flushed),
            flushed,
        }
    }

    fn memory(&self, view: &View, spare_bytes: u64, pinned_bytes: u64) -> MemoryStatistics {
        let memtables = view.memtables.iter();
        let index_bytes = memtables.clone().map(|table| table.index_memory_bytes());
        let arena_bytes = memtables.map(|table| table.arena().capacity_bytes());
        MemoryStatistics {
            index_bytes: index_bytes.sum(),
            arena_bytes: arena_bytes.sum::<u64>() + spare_bytes,
            pinned_bytes,
            block_cache_bytes: self.files.tables.blocks().used_bytes(),
            block_cache_hits: self.files.tables.blocks().hits(),
            block_cache_misses: self.files.tables.blocks().misses(),
            table_metadata_bytes: self.files.tables.metadata_bytes(),
            sketch_bytes: self.compactor.monitor.memory_bytes(),
        }
    }

    /// Returns the statistics of the arenas that readers see; those of others are zero.
    fn arenas_in_view(&self, view: &View) -> ArenaStatistics {
        let active = usize::from(!self.options.read_only && !view.memtables.is_empty());
        ArenaStatistics {
            active_generation: match view.memtables.first() {
                Some(table) if active == 1 => table.arena().generation(),
                _ => 0,
            },
            active,
            sealed: view.memtables.len() - active,
            ..ArenaStatistics::default()
        }
    }

    fn can_poll_reads(&self) -> Option<bool> {
        self.options
            .poll_reads
            .unwrap_or(false)
            .then(|| self.options.direct_io && self.files.storage.can_poll())
    }
}

impl Metrics {
    fn read_amplification(&self) -> Option<f64> {
        let gets = count(&self.counters.sampled_gets);
        let asked = count(&self.counters.tables_asked);
        (gets > 0).then(|| asked as f64 / gets as f64)
    }

    fn stalls(&self) -> Vec<(StallCause, Duration)> {
        let causes = StallCause::ALL.iter();
        causes
            .map(|&cause| (cause, self.stalls.of(cause)))
            .collect()
    }
}

impl Writes {
    /// Returns the number of spare arenas, and their bytes.
    fn spares(&self) -> (usize, u64) {
        let arenas = self.arenas.lock();
        let spares = arenas.spares.iter();
        let bytes = spares.map(|spare| spare.capacity_bytes()).sum();
        (arenas.spares.len(), bytes)
    }

    fn write_amplification(&self, user_bytes: u64, io: &IoStatistics) -> Option<f64> {
        // Stores into a mapping pass no counter.
        let stored_bytes = if self.region.stores_in_place() {
            user_bytes
        } else {
            0
        };
        let written_bytes = io.total().written_bytes + stored_bytes;
        (user_bytes > 0).then(|| written_bytes as f64 / user_bytes as f64)
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Returns the sizes of levels and their traffic, all keyspaces together.
pub(super) fn level_totals(version: &Version, times: &LevelTimes) -> Vec<LevelStatistics> {
    let mut totals = vec![LevelStatistics::default(); LEVELS];
    for levels in version.keyspaces.values() {
        for (total, level) in totals.iter_mut().zip(&levels.levels) {
            total.sub_levels += level.sub_levels.len();
            total.tables += level.tables().count();
            total.bytes += level.size_bytes();
        }
    }
    let traffic = version.obsolete().traffic().into_iter().enumerate();
    for (total, (level, traffic)) in totals.iter_mut().zip(traffic) {
        let DeviceReads {
            operations,
            bytes,
            compaction_bytes,
        } = traffic.reads;
        *total = LevelStatistics {
            reads: operations,
            read_bytes: bytes,
            compaction_read_bytes: compaction_bytes,
            flushed_bytes: traffic.flushed_bytes,
            loaded_bytes: traffic.loaded_bytes,
            compaction_written_bytes: traffic.compacted_bytes,
            migrated_bytes: traffic.migrated_bytes,
            latencies: times.of(level),
            ..*total
        };
    }
    totals
}

fn space_amplification(version: &Version) -> Option<f64> {
    let (mut total, mut live) = (0, 0);
    for levels in version.keyspaces.values() {
        let sub_levels = levels.sub_levels();
        let bytes = sub_levels.map(|(_, sub_level)| {
            let tables = sub_level.tables.iter();
            tables.map(|table| table.size_bytes).sum::<u64>()
        });
        let bytes: Vec<u64> = bytes.collect();
        total += bytes.iter().sum::<u64>();
        live += bytes.iter().max().copied().unwrap_or(0);
    }
    (live > 0).then(|| total as f64 / live as f64)
}
