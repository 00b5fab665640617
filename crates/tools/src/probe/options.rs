//! Limits of a measurement, and the facts that cannot be measured.

use std::time::Duration;

/// Free space in bytes below which nothing is measured.
pub const MIN_FREE_BYTES: u64 = 64 << 20;

/// Limits of a measurement, and the facts that cannot be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeOptions {
    /// Maximum size of the file in bytes; 1 GiB by default. The file has whole MiB, at least one, and takes
    /// at most half of the free space.
    pub max_file_bytes: u64,
    /// Maximum time; 10 s by default. Each of the five phases has a share, and ends its last request.
    pub max_duration: Duration,
    /// Maximum number of random reads at each depth, and of syncs; 2^20 by default.
    pub max_requests: u64,
    /// Start of the generators of contents and offsets; random by default. A device that stores equal
    /// blocks once needs another seed each time.
    pub seed: u64,
    /// Price of 10^9 bytes, for the profile; 0 by default, which means unknown.
    pub price_per_gb: f64,
    /// Times that the device may be written, for the profile; 0 by default.
    pub endurance_writes: f64,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        ProbeOptions {
            max_file_bytes: 1 << 30,
            max_duration: Duration::from_secs(10),
            max_requests: 1 << 20,
            seed: rand::random(),
            price_per_gb: 0.0,
            endurance_writes: 0.0,
        }
    }
}
