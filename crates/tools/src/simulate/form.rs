//! Sizes of a store's files: of a table by its entries, and of an arena by the writes that it
//! takes.
//!
//! A few tables are really written, in memory, from one entry on and each twice as large as the one
//! before. Sizes between theirs are interpolated. So all that a table holds beside its entries is
//! counted as it is. Values are taken for ones that do not compress.

use std::path::Path;

use terrace::offline::index_bytes_for;
use terrace::{KeyspaceId, Result, WriteBatch};
use terrace_lsm::key::{InternalKey, Kind, Tag};
use terrace_lsm::table::{Compression, FilterForm, FilterKind, TableOptions, TableWriter};
use terrace_region::{CAPACITY_STEP_BYTES, FRAME_HEADER_BYTES};
use terrace_storage::{Access, CrashSwitch, Purpose, SimulatedStorage, Storage};

use super::description::Simulation;

/// The sizes of tables by their entries.
#[derive(Debug)]
pub(crate) struct TableForm {
    steps: Vec<Step>,
    value_bytes: f64,
}

/// A table that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    entries: f64,
    /// Estimate of its writer before the end; tables are cut by it.
    estimated_bytes: f64,
    file_bytes: f64,
}

/// Entries and bytes of the largest table that is written for measure.
const MOST_ENTRIES: u64 = 1 << 15;
const MOST_BYTES: u64 = 8 << 20;

impl TableForm {
    /// # Errors
    /// Records that no table takes.
    pub(crate) fn measured(simulation: &Simulation) -> Result<TableForm> {
        let key_bits = simulation.key_bytes.saturating_mul(8).min(63);
        let most = (MOST_BYTES / simulation.record_bytes().max(1)).clamp(2, MOST_ENTRIES);
        let most = most.min(1 << key_bits);
        let mut steps = vec![Step::default()];
        let mut entries = 1;
        while entries <= most {
            steps.push(write(simulation, entries)?);
            entries *= 2;
        }
        Ok(TableForm {
            steps,
            value_bytes: simulation.value_bytes as f64,
        })
    }

    /// Returns the bytes of a table with as many entries, some of which are tombstones.
    pub(crate) fn file_bytes(&self, entries: f64, tombstones: f64) -> f64 {
        let bytes = self.between(entries, |step| step.entries, |step| step.file_bytes);
        (bytes - tombstones * self.value_bytes).max(1.0)
    }

    /// Returns the entries of a table at which its writer estimates these bytes.
    pub(crate) fn entries_of(&self, estimated_bytes: f64) -> f64 {
        self.between(
            estimated_bytes,
            |step| step.estimated_bytes,
            |step| step.entries,
        )
    }

    /// Interpolates `of` where `by` is `at`; beyond the last step as between the last two.
    fn between(&self, at: f64, by: fn(&Step) -> f64, of: fn(&Step) -> f64) -> f64 {
        let last = self.steps.len().saturating_sub(1);
        let upper = self.steps.partition_point(|step| by(step) < at);
        let upper = upper.clamp(1, last.max(1));
        match self.steps.get(upper - 1..=upper) {
            Some([lower, upper]) => {
                let width = (by(upper) - by(lower)).max(f64::MIN_POSITIVE);
                let share = (at - by(lower)) / width;
                of(lower) + share * (of(upper) - of(lower))
            }
            _ => 0.0,
        }
    }
}

fn write(simulation: &Simulation, entries: u64) -> Result<Step> {
    let keyspace = &simulation.options.default_keyspace;
    let disk = SimulatedStorage::new(0, CrashSwitch::new());
    disk.set_capacity_bytes(1 << 40);
    let table = TableOptions {
        block_bytes: keyspace.block_bytes,
        restart_interval: simulation.options.constants.restart_interval,
        compression: Compression::None,
        filter: FilterForm {
            kind: FilterKind::Fuse,
            bits_per_key: f64::from(keyspace.filter_bits_per_key),
        },
        hash_seed: 1,
        identity: 0,
        keyspace: KeyspaceId::DEFAULT,
        age_hint: 1,
        oldest_tombstone_seconds: None,
        direct: simulation.options.direct_io,
        purpose: Purpose::Compaction,
    };
    let directory = disk.directory(Path::new("/"), Access::Owner)?;
    let mut writer = TableWriter::create(directory.clone(), "table".to_owned(), table)?;
    let value = vec![0; usize::try_from(simulation.value_bytes).unwrap_or(0)];
    let step = u64::MAX / entries;
    for number in 0..entries {
        let key = key(simulation, number * step);
        let tag = Tag::new(number + 1, Kind::Put);
        let key = InternalKey {
            user_key: &key,
            tag,
        };
        writer.add(key, &value)?;
    }
    let estimated_bytes = writer.estimated_bytes() as f64;
    let (properties, _) = writer.finish_unsynced()?;
    Ok(Step {
        entries: entries as f64,
        estimated_bytes,
        file_bytes: properties.file_bytes as f64,
    })
}

/// Makes a key with the place in its first bytes; the rest is the same in all.
fn key(simulation: &Simulation, place: u64) -> Vec<u8> {
    let mut key = place.to_be_bytes().to_vec();
    key.resize(usize::try_from(simulation.key_bytes).unwrap_or(8), 0);
    key
}

/// Estimates the writes that an arena takes, each being a commit of its own.
///
/// # Errors
/// Keys that no batch takes.
pub(crate) fn writes_per_arena(simulation: &Simulation) -> Result<u64> {
    let options = &simulation.options;
    let mut batch = WriteBatch::new();
    batch.put(
        key(simulation, 0),
        vec![0; usize::try_from(simulation.value_bytes).unwrap_or(0)],
    )?;
    let payload_bytes = batch.size_bytes() as u64;
    let deletion_bytes = payload_bytes - simulation.value_bytes;
    let mean_bytes = payload_bytes as f64 * (1.0 - simulation.delete_share)
        + deletion_bytes as f64 * simulation.delete_share;
    let frame_bytes = ((FRAME_HEADER_BYTES as f64 + mean_bytes) / 8.0).ceil() * 8.0;
    let index_bytes = index_bytes_for(1);
    let room_bytes = options.arena_bytes.saturating_sub(CAPACITY_STEP_BYTES) as f64;
    let by_memory = room_bytes / (frame_bytes + index_bytes as f64);
    let by_index = options.arena_index_bytes() / index_bytes;
    Ok((by_memory as u64).min(by_index).max(1))
}

#[cfg(test)]
mod tests {
    use terrace::{Background, Db, KeyspaceOptions, Options};

    use super::*;

    /// A store's arenas hold the computed writes, and its tables are as large as computed.
    #[test]
    fn arenas_and_tables_are_as_large_as_a_store_s() {
        for (value_bytes, arena_bytes) in [(20, 64 << 10), (200, 256 << 10)] {
            let options = Options {
                background: Background::Inline,
                arena_bytes,
                default_keyspace: KeyspaceOptions {
                    compression: vec![Compression::None],
                    ..Options::in_memory().default_keyspace
                },
                level0_merge: 1000,
                level0_slowdown: 1000,
                ..Options::in_memory()
            };
            let simulation = Simulation {
                key_bytes: 8,
                value_bytes,
                options: options.clone(),
                ..Simulation::default()
            };
            let db = Db::open("/store", options).unwrap();
            let expected = writes_per_arena(&simulation).unwrap();
            for number in 0..3 * expected {
                let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                db.put(key, vec![1; value_bytes as usize]).unwrap();
            }
            let levels = db.levels();
            let tables = levels.keyspaces[0].levels[0]
                .iter()
                .flat_map(|sub| &sub.tables);
            let form = TableForm::measured(&simulation).unwrap();
            let mut seen = 0;
            for table in tables {
                let off = table.entries as f64 / expected as f64 - 1.0;
                assert!(off.abs() < 0.01, "{} of {expected}", table.entries);
                let bytes = form.file_bytes(table.entries as f64, 0.0);
                let off = table.size_bytes as f64 / bytes - 1.0;
                assert!(off.abs() < 0.02, "{} for {bytes}", table.size_bytes);
                seen += 1;
            }
            assert!(seen >= 2, "{seen} flushes");
        }
    }

    #[test]
    fn sizes_between_and_beyond_what_was_written_follow_it() {
        let simulation = Simulation::default();
        let form = TableForm::measured(&simulation).unwrap();
        let bytes = |entries| form.file_bytes(entries, 0.0);
        let written = write(&simulation, 3000).unwrap();
        assert!((bytes(3000.0) / written.file_bytes - 1.0).abs() < 0.03);
        let each = bytes(2e9) / 2e9;
        assert!(each > 95.0 && each < 115.0, "{each}");
        assert!((form.entries_of(bytes(1e6)) / 1e6 - 1.0).abs() < 0.02);
        assert!((bytes(1e6) - form.file_bytes(1e6, 1e5) - 84e5).abs() < 1.0);
    }
}
