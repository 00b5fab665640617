//! A device under the requests of a store: its time for each of them, and the time that they wait.

use terrace_storage::DeviceProfile;

use super::{Placement, Traffic, ratio};

/// Number of requests under way at [`DeviceProfile::queued_read_latency_us`].
const QUEUED_DEPTH: f64 = 32.0;
/// Length of the random reads of a profile in bytes.
const RANDOM_READ_BYTES: f64 = 4096.0;
/// Bytes of a stream between two changes of place, if other requests come between: the kernel and the device
/// merge and read ahead about as much.
const STREAM_BYTES: f64 = 1_048_576.0;

/// The traffic of a device for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// Bytes of tables there, of the whole store.
    pub(super) stored_bytes: u64,
    /// Random reads.
    pub(super) reads: f64,
    read_bytes: f64,
    scanned_bytes: f64,
    flushed_bytes: f64,
    compaction_read_bytes: f64,
    compaction_written_bytes: f64,
    arena_bytes: f64,
    /// Syncs that a request waits for.
    pub(super) syncs: f64,
}

impl Demand {
    /// Returns the traffic of a tier.
    pub(super) fn of(traffic: &Traffic, placement: &Placement, tier: usize) -> Demand {
        let requests = traffic.requests.max(1) as f64;
        let each = |count: u64| count as f64 / requests;
        let mut demand = Demand::default();
        for (number, level) in traffic.levels.iter().enumerate() {
            if placement.tier_of(number) != Some(tier) {
                continue;
            }
            demand.stored_bytes = demand.stored_bytes.saturating_add(level.stored_bytes);
            demand.reads += each(level.reads);
            demand.read_bytes += each(level.read_bytes);
            demand.scanned_bytes += each(level.scanned_bytes);
            demand.flushed_bytes += each(level.flushed_bytes);
            demand.compaction_read_bytes += each(level.compaction_read_bytes);
            demand.compaction_written_bytes += each(level.compaction_written_bytes);
        }
        if placement.arenas == Some(tier) {
            demand.arena_bytes = each(traffic.arena_bytes);
            demand.syncs = each(traffic.syncs);
        }
        demand
    }

    /// Returns the bytes that a request writes in the end.
    pub(super) fn written_bytes(&self) -> f64 {
        self.flushed_bytes + self.compaction_written_bytes + self.arena_bytes
    }
}

/// A device and its traffic. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) demand: Demand,
    /// Time of one random read, at depth 1 and at depth 32.
    first_us: f64,
    queued_us: f64,
    sync_us: f64,
    /// Time of the device that a random read takes from others.
    read_busy_us: f64,
    /// The same of a request's scans.
    scan_busy_us: f64,
    /// The same of flushes, compactions and arenas, for one request.
    background_us: f64,
}

impl Device {
    pub(super) fn new(profile: &DeviceProfile, demand: Demand) -> Device {
        let us_per_byte = |bytes_per_second: f64| ratio(1e6, bytes_per_second);
        let read_us_per_byte = us_per_byte(profile.read_bytes_per_second);
        let write_us_per_byte = us_per_byte(profile.write_bytes_per_second);
        // A longer queue makes no device slower in all.
        let first_us = profile.read_latency_us.max(0.0);
        let queued_us = profile.queued_read_latency_us;
        let queued_us = queued_us.clamp(first_us, QUEUED_DEPTH * first_us);
        // 32 reads at once take the latency at depth 32: their bytes and their changes of place fill it.
        let each_us = queued_us / QUEUED_DEPTH;
        let move_us = (each_us - RANDOM_READ_BYTES * read_us_per_byte).max(0.0);
        let bytes = ratio(demand.read_bytes, demand.reads);
        let longer_us = (bytes - RANDOM_READ_BYTES).max(0.0) * read_us_per_byte;

        let read_busy_us = move_us + bytes * read_us_per_byte;
        let streams = [
            demand.scanned_bytes * read_us_per_byte,
            demand.compaction_read_bytes * read_us_per_byte,
            demand.flushed_bytes * write_us_per_byte,
            demand.compaction_written_bytes * write_us_per_byte,
            demand.arena_bytes * write_us_per_byte,
        ];
        let all_us = demand.reads * read_busy_us + streams.iter().sum::<f64>();
        // A part of a stream follows a request of another kind with the probability of such requests.
        let stream_us = |us: f64, bytes: f64| {
            us + bytes / STREAM_BYTES * move_us * ratio(all_us - us, all_us).clamp(0.0, 1.0)
        };
        let [scan, compaction_read, flush, compaction_write, arena] = streams;
        Device {
            demand,
            first_us: first_us + longer_us,
            queued_us: queued_us + longer_us,
            sync_us: profile.sync_latency_us.max(0.0),
            read_busy_us,
            scan_busy_us: stream_us(scan, demand.scanned_bytes),
            background_us: stream_us(compaction_read, demand.compaction_read_bytes)
                + stream_us(flush, demand.flushed_bytes)
                + stream_us(compaction_write, demand.compaction_written_bytes)
                + stream_us(arena, demand.arena_bytes),
        }
    }

    /// Returns the time that the device works for a request.
    pub(super) fn busy_us(&self) -> f64 {
        self.demand.reads * self.read_busy_us + self.scan_busy_us + self.background_us
    }

    /// Returns the time that a request waits for the device.
    pub(super) fn wait_us(&self, per_second: f64, threads: f64) -> f64 {
        let reads_us = match self.demand.reads > 0.0 {
            true => self.demand.reads * self.read_us(per_second, threads),
            false => 0.0,
        };
        reads_us + self.scan_us(per_second) + self.demand.syncs * self.sync_us
    }

    /// Returns the time of a random read when no other request is under way.
    pub(super) fn first_us(&self) -> f64 {
        self.first_us
    }

    /// Returns the time of a sync.
    pub(super) fn sync_us(&self) -> f64 {
        self.sync_us
    }

    /// Returns the time that a request waits for its scans. While flushes and compactions have work, scans get
    /// half of the device.
    pub(super) fn scan_us(&self, per_second: f64) -> f64 {
        self.scan_busy_us * (1.0 + self.background_part(per_second))
    }

    /// Returns the mean time of a random read at a throughput that `threads` make.
    ///
    /// The latency is linear up to depth 32 and proportional beyond. While flushes and compactions have work,
    /// reads get half of the device, so the part that they take from others doubles.
    pub(super) fn read_us(&self, per_second: f64, threads: f64) -> f64 {
        let shared_us = self.background_part(per_second) * self.read_busy_us;
        let first_us = self.first_us + shared_us;
        let queued_us = self.queued_us + QUEUED_DEPTH * shared_us;
        let slope_us = (queued_us - first_us) / (QUEUED_DEPTH - 1.0);
        // Little's law: a read that arrives finds those of the other threads.
        let others = (threads - 1.0) / threads;
        let reads_per_us = others * per_second * self.demand.reads / 1e6;
        let depth = depth_of(reads_per_us, first_us - slope_us, slope_us)
            .filter(|depth| *depth <= QUEUED_DEPTH)
            .or_else(|| depth_of(reads_per_us, 0.0, queued_us / QUEUED_DEPTH))
            .map_or(threads, |depth| depth.min(threads));
        match depth <= QUEUED_DEPTH {
            true => first_us + slope_us * (depth - 1.0),
            false => queued_us * depth / QUEUED_DEPTH,
        }
    }

    /// Returns the part of the time in which flushes and compactions have work.
    fn background_part(&self, per_second: f64) -> f64 {
        (per_second * self.background_us / 1e6).min(1.0)
    }
}

/// Returns the depth that reads make whose latency is `base_us` and `slope_us` for each of them: one, and those
/// that arrive in this latency. `None` if they arrive faster than they end.
fn depth_of(reads_per_us: f64, base_us: f64, slope_us: f64) -> Option<f64> {
    let rest = 1.0 - reads_per_us * slope_us;
    (rest > 0.0).then(|| (1.0 + reads_per_us * base_us) / rest)
}
