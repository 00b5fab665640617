//! The times of a device's requests as pure functions, in nanoseconds.

use crate::DeviceProfile;

/// Number of requests under way at [`DeviceProfile::queued_read_latency_us`].
const QUEUED_DEPTH: f64 = 32.0;
/// Length of the random reads of a profile in bytes.
const RANDOM_READ_BYTES: f64 = 4096.0;
/// Bytes that a continued read finds in memory if the device had the time: the kernel's window.
const READ_AHEAD_BYTES: f64 = 131_072.0;

/// The place of a request on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The end of the file's last request in the same direction.
    Next,
    /// Any other.
    Elsewhere,
}

/// Times of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
    first_latency_ns: f64,
    queued_latency_ns: f64,
    sync_ns: f64,
}

impl Speed {
    /// Returns the times of a profile. A figure that is no positive number costs no time.
    ///
    /// The latency at depth 32 is between that at depth 1 and 32 times that: a longer queue makes no
    /// device slower in all.
    pub(super) fn new(profile: &DeviceProfile) -> Self {
        let cost = |number: f64| {
            let is_cost = number.is_finite() && number > 0.0;
            if is_cost { number } else { 0.0 }
        };
        let per_byte = |bytes_per_second: f64| cost(1e9 / bytes_per_second);
        let first_latency_ns = 1e3 * cost(profile.read_latency_us);
        let queued_latency_ns = 1e3 * cost(profile.queued_read_latency_us);
        Speed {
            read_ns_per_byte: per_byte(profile.read_bytes_per_second),
            write_ns_per_byte: per_byte(profile.write_bytes_per_second),
            first_latency_ns,
            queued_latency_ns: queued_latency_ns
                .clamp(first_latency_ns, QUEUED_DEPTH * first_latency_ns),
            sync_ns: 1e3 * cost(profile.sync_latency_us),
        }
    }

    /// Returns the time of a read elsewhere among `depth` of them, if no other request is in its way.
    pub(super) fn latency_ns(&self, depth: u64, bytes: u64) -> u64 {
        let depth = depth.max(1) as f64;
        let (first, queued) = (self.first_latency_ns, self.queued_latency_ns);
        let latency = if depth <= QUEUED_DEPTH {
            first + (queued - first) * (depth - 1.0) / (QUEUED_DEPTH - 1.0)
        } else {
            queued * depth / QUEUED_DEPTH
        };
        whole(latency + (bytes as f64 - RANDOM_READ_BYTES).max(0.0) * self.read_ns_per_byte)
    }

    /// Returns the time of the channel that a read takes.
    pub(super) fn read_ns(&self, bytes: u64, place: Place) -> u64 {
        whole(bytes as f64 * self.read_ns_per_byte + self.move_ns(place))
    }

    /// Returns the time of the channel that a write takes.
    pub(super) fn write_ns(&self, bytes: u64, place: Place) -> u64 {
        whole(bytes as f64 * self.write_ns_per_byte + self.move_ns(place))
    }

    /// Returns the time of the channel that the bytes ahead of a continued read take.
    pub(super) fn read_ahead_ns(&self) -> u64 {
        whole(READ_AHEAD_BYTES * self.read_ns_per_byte)
    }

    /// Returns the time of a flush.
    pub(super) fn sync_ns(&self) -> u64 {
        whole(self.sync_ns)
    }

    /// Returns the time of the channel for a change of place: 32 reads of 4 KiB at once take the latency
    /// at depth 32, so their bytes and their changes of place fill it.
    fn move_ns(&self, place: Place) -> f64 {
        let each_ns = self.queued_latency_ns / QUEUED_DEPTH;
        match place {
            Place::Next => 0.0,
            Place::Elsewhere => (each_ns - RANDOM_READ_BYTES * self.read_ns_per_byte).max(0.0),
        }
    }
}

/// Rounds to whole nanoseconds, at most eleven days: sums of many stay within 64 bits.
fn whole(ns: f64) -> u64 {
    ns.round().min(1e15) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: [DeviceProfile; 5] = [
        DeviceProfile::WD10EZEX,
        DeviceProfile::SSD_850_PRO,
        DeviceProfile::NVME_960_PRO,
        DeviceProfile::NVME_GEN4,
        DeviceProfile::QLC,
    ];

    #[test]
    fn latencies_are_those_of_the_profile_and_throughput_never_falls() {
        for profile in DEVICES {
            let speed = Speed::new(&profile);
            let us = |depth| speed.latency_ns(depth, 4096) as f64 / 1e3;
            assert_eq!(us(1), profile.read_latency_us);
            assert_eq!(us(32), profile.queued_read_latency_us);
            assert_eq!(us(320), 10.0 * profile.queued_read_latency_us);
            let throughput = |depth: u64| depth as f64 / us(depth);
            for depth in 1..100 {
                assert!(throughput(depth) <= throughput(depth + 1) * 1.000_01);
            }
        }
    }

    #[test]
    fn odd_figures_cost_no_time_and_a_longer_queue_does_not_slow_the_device() {
        let odd = DeviceProfile {
            read_bytes_per_second: 0.0,
            write_bytes_per_second: f64::NAN,
            read_latency_us: 10.0,
            queued_read_latency_us: 5_000.0,
            sync_latency_us: -1.0,
            ..DeviceProfile::QLC
        };
        let speed = Speed::new(&odd);
        assert_eq!(speed.read_ns(1 << 40, Place::Next), 0);
        assert_eq!(speed.write_ns(1 << 40, Place::Next), 0);
        assert_eq!(speed.sync_ns(), 0);
        assert_eq!(speed.latency_ns(32, 4096), 320_000);
    }
}
