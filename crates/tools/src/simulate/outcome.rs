//! Results of a simulation, and the recorder that gathers them while one runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terrace_lsm::compaction::policy::Reason;

use super::description::Simulation;

/// Costs of a load. Bytes written and space are those of tables: new writes in arenas are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Keys and values that came in, in bytes.
    pub user_bytes: f64,
    /// Keys and values of the distinct records of the whole load, in bytes; space is compared with
    /// it.
    pub distinct_bytes: f64,
    /// Bytes that flushes and merges wrote until the last write, for each of `user_bytes`.
    pub write_amplification: f64,
    /// The same until nothing was left to merge.
    pub settled_write_amplification: f64,
    /// Bytes that merges read until nothing was left to merge, for each of `user_bytes`.
    pub merges_read_amplification: f64,
    /// Bytes of tables, for each of `distinct_bytes`.
    pub space: SpaceAmplification,
    /// Sub-levels, each of which a read of an absent key asks; as `space`.
    pub sub_levels: SubLevels,
    /// Flushes.
    pub flushes: u64,
    /// Merges by the reason for which they were chosen.
    pub merges: BTreeMap<String, MergesOfReason>,
    /// Tables that changed their place without being written.
    pub moved_tables: u64,
    /// Seconds until the last write, and the part of them for which writers were held back. Only
    /// where merges take time.
    pub seconds: Option<Seconds>,
    /// Bytes of the largest tables, where the load is so large that the simulation has larger ones than the
    /// options say.
    pub enlarged_table_bytes: Option<u64>,
    /// State as the load goes on; some hundreds of moments.
    pub series: Vec<Moment>,
}

/// Bytes of tables for each byte of distinct records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceAmplification {
    /// Mean over the second half of the writes.
    pub mean: f64,
    /// Maximum at any moment; outputs of merges count beside their inputs.
    pub peak: f64,
    /// Value when nothing is left to merge.
    pub settled: f64,
}

/// Sorted runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubLevels {
    /// Mean over the second half of the writes.
    pub mean: f64,
    /// Maximum after any flush or merge.
    pub most: u64,
}

/// Merges that were chosen for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergesOfReason {
    /// Number of merges.
    pub count: u64,
    /// Bytes that they read.
    pub read_bytes: f64,
    /// Bytes that they wrote.
    pub written_bytes: f64,
}

/// Simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Until the last write.
    pub load: f64,
    /// Part of them that writers would not have needed without being held back.
    pub held_back: f64,
}

/// State after a number of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Writes of all keys together.
    pub writes: u64,
    /// As in [`SpaceAmplification`].
    pub space: f64,
    /// Bytes written until then, for each that came in until then.
    pub written: f64,
    /// Sub-levels.
    pub sub_levels: u64,
}

/// Moments of a whole load.
const MOMENTS: u64 = 256;

/// Counts while a simulation runs.
pub(crate) struct Recorder {
    writes: u64,
    record_bytes: f64,
    distinct_bytes: f64,
    written_bytes: f64,
    read_bytes: f64,
    /// Sums over time in the second half of the writes.
    weighed: Weighed,
    next_moment: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weighed {
    time: f64,
    space_bytes: f64,
    sub_levels: f64,
}

impl Recorder {
    /// `distinct_keys` are those of the whole load that are not deleted at its end.
    pub(crate) fn new(simulation: &Simulation, distinct_keys: f64) -> Recorder {
        let key_bytes = simulation.key_bytes as f64;
        let value_bytes = simulation.value_bytes as f64;
        let deletions = match simulation.fill_first {
            true => 1.0 - simulation.keys as f64 / simulation.writes as f64,
            false => 1.0,
        } * simulation.delete_share;
        Recorder {
            writes: simulation.writes,
            record_bytes: key_bytes + value_bytes * (1.0 - deletions),
            distinct_bytes: distinct_keys * simulation.record_bytes() as f64,
            written_bytes: 0.0,
            read_bytes: 0.0,
            weighed: Weighed::default(),
            next_moment: 0,
            outcome: Outcome::default(),
        }
    }

    /// Returns the bytes of a number of writes.
    pub(crate) fn bytes_of(&self, writes: u64) -> f64 {
        writes as f64 * self.record_bytes
    }

    pub(crate) fn flushed(&mut self, bytes: u64) {
        self.outcome.flushes += 1;
        self.written_bytes += bytes as f64;
    }

    pub(crate) fn merge_began(&mut self, reason: Reason, read_bytes: u64) {
        let of_reason = self.outcome.merges.entry(name(reason)).or_default();
        of_reason.count += 1;
        of_reason.read_bytes += read_bytes as f64;
        self.read_bytes += read_bytes as f64;
    }

    pub(crate) fn merge_wrote(&mut self, reason: Reason, bytes: u64) {
        let of_reason = self.outcome.merges.entry(name(reason)).or_default();
        of_reason.written_bytes += bytes as f64;
        self.written_bytes += bytes as f64;
    }

    pub(crate) fn moved(&mut self, tables: usize) {
        self.outcome.moved_tables += tables as u64;
    }

    /// Notes that time passes, with the writes done, the space used and the sub-levels there.
    pub(crate) fn pass(&mut self, time: f64, writes: u64, space_bytes: f64, sub_levels: usize) {
        if writes.saturating_mul(2) >= self.writes {
            self.weighed.time += time;
            self.weighed.space_bytes += time * space_bytes;
            self.weighed.sub_levels += time * sub_levels as f64;
        }
    }

    /// Notes the space and the sub-levels of some moment.
    pub(crate) fn see(&mut self, space_bytes: f64, sub_levels: usize) {
        let outcome = &mut self.outcome;
        outcome.space.peak = outcome.space.peak.max(space_bytes / self.distinct_bytes);
        outcome.sub_levels.most = outcome.sub_levels.most.max(sub_levels as u64);
    }

    /// Notes the space and the sub-levels after a number of writes; one moment in many is kept.
    pub(crate) fn mark(&mut self, writes: u64, space_bytes: f64, sub_levels: usize) {
        if writes < self.next_moment && writes < self.writes {
            return;
        }
        self.next_moment = writes + self.writes / MOMENTS;
        self.outcome.series.push(Moment {
            writes,
            space: space_bytes / self.distinct_bytes,
            written: self.written_bytes / self.bytes_of(writes).max(1.0),
            sub_levels: sub_levels as u64,
        });
    }

    /// Notes that the last write is done.
    pub(crate) fn loaded(&mut self, seconds: Option<Seconds>) {
        self.outcome.write_amplification = self.written_bytes / self.bytes_of(self.writes);
        self.outcome.seconds = seconds;
    }

    /// Returns the outcome, when nothing is left to merge.
    pub(crate) fn settled(
        mut self,
        space_bytes: f64,
        enlarged_table_bytes: Option<u64>,
    ) -> Outcome {
        let user_bytes = self.bytes_of(self.writes);
        let weighed = self.weighed;
        let time = weighed.time.max(f64::MIN_POSITIVE);
        let outcome = &mut self.outcome;
        outcome.user_bytes = user_bytes;
        outcome.distinct_bytes = self.distinct_bytes;
        outcome.settled_write_amplification = self.written_bytes / user_bytes;
        outcome.merges_read_amplification = self.read_bytes / user_bytes;
        outcome.space.mean = weighed.space_bytes / time / self.distinct_bytes;
        outcome.space.settled = space_bytes / self.distinct_bytes;
        outcome.sub_levels.mean = weighed.sub_levels / time;
        outcome.enlarged_table_bytes = enlarged_table_bytes;
        self.outcome
    }
}

/// Returns the name that merges of a reason are counted by.
fn name(reason: Reason) -> String {
    match reason {
        Reason::Level0SubLevels(_) | Reason::Level0Scans(_) => "sub-levels of level 0".into(),
        Reason::LevelSize { level, .. } | Reason::Leftover { level, .. } => {
            format!("size of level {level}")
        }
        Reason::UnusedLevel { level } => format!("unused level {level}"),
        Reason::SubLevels { level, .. } => format!("sub-levels of level {level}"),
        Reason::Duplicates { level, .. } => format!("duplicates in level {level}"),
        Reason::DuplicatesOfRange { level, .. } => {
            format!("duplicates in a range of level {level}")
        }
        Reason::Score { .. } => "score".into(),
        Reason::ScoreOfRange { .. } => "score of a range".into(),
        Reason::OtherPolicy { .. } => "another policy's levels".into(),
        Reason::Tombstones { level, .. } => format!("tombstones in level {level}"),
        Reason::PassedOver { level } => format!("tombstones passed over in level {level}"),
        Reason::TombstoneAge { level, .. } => format!("age of tombstones in level {level}"),
        Reason::Superseded { level, .. } => format!("superseded versions in level {level}"),
        Reason::MixedReads { level, .. } => format!("mixed reads in level {level}"),
        Reason::Hidden { .. } => "hidden tables".into(),
        Reason::AskedFor => "asked for".into(),
    }
}
