//! A token bucket in whole numbers: how long a write has to wait, as a pure function of the times
//! and sizes of those before it.
//!
//! The level rises with time at the rate, up to a burst, and falls by the bytes of each write. It
//! may fall below zero, so a write of any size passes once nothing is owed: the next writes pay for
//! it. So writes take no more in any span of time than the rate allows, a burst, and one write.
//! Levels count billionths of a byte, of which a rate in bytes a second adds a whole number in a
//! nanosecond. So nothing is ever rounded, and a rate is held for years to the byte.

/// Units of the level in a byte: the nanoseconds of a second.
const PARTS: i128 = 1_000_000_000;
/// The least burst: a few writes of a table.
pub(super) const LEAST_BURST_BYTES: u64 = 1 << 20;

/// The bytes that may be written, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// `None`: no limit, and nothing is counted.
    bytes_per_second: Option<u64>,
    /// Billionths of a byte that may be written at once; below zero: that were written in advance.
    level: i128,
    /// Time at which the level was right.
    at_ns: u64,
}

impl Bucket {
    /// Returns an empty bucket.
    pub(super) fn new(bytes_per_second: Option<u64>, now_ns: u64) -> Self {
        Bucket {
            bytes_per_second,
            level: 0,
            at_ns: now_ns,
        }
    }

    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// Sets the rate from now on. Bytes owed stay owed, unless there is no limit for a while.
    pub(super) fn set_rate(&mut self, bytes_per_second: Option<u64>, now_ns: u64) {
        self.refill(now_ns);
        self.bytes_per_second = bytes_per_second;
        self.level = match bytes_per_second {
            Some(rate) => self.level.min(burst(rate)),
            None => 0,
        };
    }

    /// Takes `bytes` if nothing is owed. If something is, takes nothing and returns the nanoseconds
    /// until nothing is.
    pub(super) fn take(&mut self, bytes: u64, now_ns: u64) -> Option<u64> {
        self.refill(now_ns);
        let rate = self.bytes_per_second?;
        if self.level < 0 {
            let wait_ns = self.level.unsigned_abs().div_ceil(u128::from(rate.max(1)));
            return Some(u64::try_from(wait_ns).unwrap_or(u64::MAX));
        }
        self.spend(bytes);
        None
    }

    /// Takes `bytes`, owed or not.
    pub(super) fn take_in_advance(&mut self, bytes: u64, now_ns: u64) {
        self.refill(now_ns);
        if self.bytes_per_second.is_some() {
            self.spend(bytes);
        }
    }

    fn spend(&mut self, bytes: u64) {
        self.level = self.level.saturating_sub(i128::from(bytes) * PARTS);
    }

    fn refill(&mut self, now_ns: u64) {
        // Time that went back adds nothing, and is not counted twice.
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        if let Some(rate) = self.bytes_per_second {
            let gained = u128::from(passed_ns) * u128::from(rate.max(1));
            let gained = i128::try_from(gained).unwrap_or(i128::MAX);
            self.level = self.level.saturating_add(gained).min(burst(rate));
        }
    }
}

/// Returns the most that may be saved up: the bytes of a tenth of a second, or `LEAST_BURST_BYTES`.
fn burst(bytes_per_second: u64) -> i128 {
    i128::from((bytes_per_second / 10).max(LEAST_BURST_BYTES)) * PARTS
}
