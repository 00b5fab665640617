//! A cost model of placements: the speed, price and wear of a store whose levels lie on given tiers.
//!
//! The model is pure. It knows counts of a store's traffic, the profiles of devices, and a load of threads that
//! each wait for their request. Three bounds give the throughput:
//!
//! - The threads: a request takes its time on a processor and waits for its reads, one after the other. A read
//!   takes the latency of the device at the depth that the threads make. This depth follows from the
//!   throughput by Little's law. Where threads outnumber processors, a request waits for one of these, too.
//! - Each device: random reads, scans, flushes and compactions share its time.
//! - The processors.
//!
//! Only reads that reach a device count, so the hits of caches in memory make placements alike. A stream of
//! bytes pays for a change of place when other requests come between its parts. That is half of the time of a
//! hard disk, and next to nothing on flash.
//!
//! The model leaves out bursts: compactions that are due at once, a full write cache, collection of garbage in
//! a device. It takes the counts as they are, though another placement may change their mix.

mod choice;
mod cycle;
mod device;
mod quantiles;

use terrace_storage::DeviceProfile;

pub use self::choice::{Goal, LevelOrder, best, best_of, feasible_placements};
use self::cycle::Cycle;
use self::device::{Demand, Device};

/// Years after which a device is replaced even if it is not worn out.
pub const DEVICE_YEARS: f64 = 5.0;
const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;
const US_PER_SECOND: f64 = 1e6;

/// Counts of one level over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTraffic {
    /// Bytes of its tables.
    pub stored_bytes: u64,
    /// Random reads of blocks that reached the device.
    pub reads: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes that scans read from the device in sequence.
    pub scanned_bytes: u64,
    /// Bytes that flushes wrote into the level.
    pub flushed_bytes: u64,
    /// Bytes that compactions read from the level.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote into the level.
    pub compaction_written_bytes: u64,
}

/// Counts of a store over some time. Only their ratios to the requests matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests that the store answered, reads and writes together.
    pub requests: u64,
    /// Levels from the top.
    pub levels: Vec<LevelTraffic>,
    /// Bytes that writes put into arenas on a device.
    pub arena_bytes: u64,
    /// Syncs that requests waited for.
    pub syncs: u64,
}

impl Traffic {
    /// Returns the bytes of each level.
    pub fn level_bytes(&self) -> Vec<u64> {
        let levels = self.levels.iter();
        levels.map(|level| level.stored_bytes).collect()
    }

    /// Returns the bytes of all levels, up to the largest number.
    pub fn stored_bytes(&self) -> u64 {
        let levels = self.levels.iter().map(|level| level.stored_bytes);
        levels.fold(0, u64::saturating_add)
    }
}

/// A tier as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierCost {
    /// The speed, price and endurance of its device. A figure that is 0 costs nothing.
    pub profile: DeviceProfile,
    /// Bytes that wear is spread over. `None` spreads it over the bytes that are stored there.
    pub capacity_bytes: Option<u64>,
}

impl TierCost {
    /// Returns whether its profile has the figures without which a prediction means nothing.
    pub fn is_known(&self) -> bool {
        self.unknown_figure().is_none()
    }

    /// Returns the name of the first such figure that is missing: one that is not a number above 0.
    ///
    /// ```
    /// use terrace_lsm::compaction::cost::TierCost;
    /// use terrace_storage::DeviceProfile;
    /// let profile = DeviceProfile { write_bytes_per_second: 0.0, ..DeviceProfile::QLC };
    /// let tier = TierCost { profile, capacity_bytes: None };
    /// assert_eq!(tier.unknown_figure(), Some("write_bytes_per_second"));
    /// ```
    pub fn unknown_figure(&self) -> Option<&'static str> {
        let figures = [
            ("read_bytes_per_second", self.profile.read_bytes_per_second),
            (
                "write_bytes_per_second",
                self.profile.write_bytes_per_second,
            ),
            ("read_latency_us", self.profile.read_latency_us),
        ];
        let missing = |figure: f64| !(figure.is_finite() && figure > 0.0);
        let found = figures.iter().find(|(_, figure)| missing(*figure));
        found.map(|(name, _)| *name)
    }
}

/// The tier of each level, as positions in a list of tiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Tiers of the levels, from the top. Deeper levels go to the last of them.
    pub levels: Vec<usize>,
    /// The tier whose device the arenas share; `None` if they lie on another device or in memory.
    pub arenas: Option<usize>,
}

impl Placement {
    /// Returns a placement whose arenas lie elsewhere.
    pub fn new(levels: impl Into<Vec<usize>>) -> Placement {
        Placement {
            levels: levels.into(),
            arenas: None,
        }
    }

    /// Returns the tier of a level.
    pub fn tier_of(&self, level: usize) -> Option<usize> {
        self.levels.get(level).or(self.levels.last()).copied()
    }
}

/// Threads that send a request each, and the next one after the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Number of threads.
    pub threads: u32,
    /// Number of processors for them.
    pub processors: u32,
    /// Time of a request on a processor.
    pub cpu_us: f64,
    /// Time of flushes and compactions on a processor for one request. Other requests may wait for the processor.
    pub background_cpu_us: f64,
}

/// The part of a store that bounds its throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The threads: a request is longest on a processor, or waits longest for one. More threads bring more.
    Threads,
    /// The threads: a request waits longest for the device of a tier. More threads bring more.
    Wait(usize),
    /// The processors, which have no idle time.
    Processors,
    /// The device of a tier, which has no idle time.
    Tier(usize),
}

/// The prediction for one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TierPrediction {
    /// Bytes of tables there.
    pub stored_bytes: u64,
    /// Part of the time in which the device works, up to 1.
    pub utilisation: f64,
    /// Mean time of a random read there; 0 without reads.
    pub read_latency_us: f64,
    /// Price of the stored bytes.
    pub price: f64,
    /// Times that the capacity is written in a year.
    pub writes_per_year: f64,
    /// Years until the device is worn out; `None` if it does not wear.
    pub worn_out_years: Option<f64>,
}

/// The prediction for a placement under full load.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Requests that all threads together complete in a second.
    pub requests_per_second: f64,
    /// Mean time of a request.
    pub mean_latency_us: f64,
    /// Median time of a request.
    pub p50_latency_us: f64,
    /// Time that one request of a hundred exceeds.
    pub p99_latency_us: f64,
    /// The part that bounds the throughput.
    pub bound: Bound,
    /// Price of all stored bytes, in the currency of the profiles.
    pub price: f64,
    /// Price of a million requests. They pay for the stored bytes by the part of [`DEVICE_YEARS`] that they take, or
    /// for the bytes that they wear out if that is more.
    pub price_per_million: f64,
    /// Tiers in their order.
    pub tiers: Vec<TierPrediction>,
}

/// Predicts the speed, price and wear of a store with its levels on the tiers of a placement. Levels whose tier
/// is not in the list cost nothing.
///
/// ```
/// use terrace_lsm::compaction::cost::{Load, LevelTraffic, Placement, TierCost, Traffic, predict};
/// use terrace_storage::DeviceProfile;
///
/// // One request of two finds its block in no cache, mostly in level 1.
/// let level = |stored_bytes, reads, compaction_written_bytes| LevelTraffic {
///     stored_bytes,
///     reads,
///     read_bytes: reads * 4096,
///     compaction_written_bytes,
///     ..LevelTraffic::default()
/// };
/// let traffic = Traffic {
///     requests: 1000,
///     levels: vec![level(1 << 28, 50, 0), level(40 << 30, 450, 100_000)],
///     ..Traffic::default()
/// };
/// let tier = |profile| TierCost { profile, capacity_bytes: None };
/// let tiers = [tier(DeviceProfile::SSD_850_PRO), tier(DeviceProfile::WD10EZEX)];
/// let load = Load { threads: 8, processors: 4, cpu_us: 10.0, background_cpu_us: 2.0 };
///
/// let flash = predict(&traffic, &tiers, &Placement::new([0, 0]), load);
/// let mixed = predict(&traffic, &tiers, &Placement::new([0, 1]), load);
/// let disk = predict(&traffic, &tiers, &Placement::new([1, 1]), load);
/// // The device of the last level decides.
/// assert!(flash.requests_per_second > 3.0 * mixed.requests_per_second);
/// assert!(mixed.requests_per_second < 1.2 * disk.requests_per_second);
/// assert!(flash.price > mixed.price && mixed.price > disk.price);
/// ```
pub fn predict(
    traffic: &Traffic,
    tiers: &[TierCost],
    placement: &Placement,
    load: Load,
) -> Prediction {
    let devices = devices(traffic, tiers, placement);
    let cycle = Cycle::new(&devices, load);
    let (per_second, bound) = cycle.throughput();
    let quantiles = cycle.quantiles(per_second, traffic, placement);
    let both = || tiers.iter().zip(&devices);
    let price_per_million = price_per_million(tiers, &devices, per_second);
    let tiers: Vec<TierPrediction> = both()
        .map(|(cost, device)| of_tier(cost, device, per_second, cycle.threads))
        .collect();
    Prediction {
        requests_per_second: per_second,
        mean_latency_us: ratio(cycle.threads * US_PER_SECOND, per_second),
        p50_latency_us: quantiles.at(0.50),
        p99_latency_us: quantiles.at(0.99),
        bound,
        price: tiers.iter().map(|tier| tier.price).sum(),
        price_per_million,
        tiers,
    }
}

/// Predicts the throughput alone, which is a small part of the work of [`predict`].
pub fn requests_per_second(
    traffic: &Traffic,
    tiers: &[TierCost],
    placement: &Placement,
    load: Load,
) -> f64 {
    let devices = devices(traffic, tiers, placement);
    Cycle::new(&devices, load).throughput().0
}

/// Returns the devices of tiers, each with its part of the traffic.
fn devices(traffic: &Traffic, tiers: &[TierCost], placement: &Placement) -> Vec<Device> {
    let tiers = tiers.iter().enumerate();
    let devices = tiers.map(|(tier, cost)| {
        let demand = Demand::of(traffic, placement, tier);
        Device::new(&cost.profile, demand)
    });
    devices.collect()
}

fn of_tier(cost: &TierCost, device: &Device, per_second: f64, threads: f64) -> TierPrediction {
    let stored_bytes = device.demand.stored_bytes;
    let capacity_bytes = cost.capacity_bytes.unwrap_or(stored_bytes);
    let written_per_year = per_second * device.demand.written_bytes() * SECONDS_PER_YEAR;
    let writes_per_year = ratio(written_per_year, capacity_bytes as f64);
    let endurance = cost.profile.endurance_writes;
    TierPrediction {
        stored_bytes,
        utilisation: (per_second * device.busy_us() / US_PER_SECOND).min(1.0),
        read_latency_us: match device.demand.reads > 0.0 {
            true => device.read_us(per_second, threads),
            false => 0.0,
        },
        price: price_of(cost, device),
        writes_per_year,
        worn_out_years: (endurance > 0.0 && writes_per_year > 0.0)
            .then(|| endurance / writes_per_year),
    }
}

/// Returns the price of the stored bytes.
fn price_of(cost: &TierCost, device: &Device) -> f64 {
    device.demand.stored_bytes as f64 / 1e9 * cost.profile.price_per_gb
}

fn price_per_million(tiers: &[TierCost], devices: &[Device], per_second: f64) -> f64 {
    let both = tiers.iter().zip(devices);
    let prices = both.map(|(cost, device)| price_per_second(cost, device, per_second));
    ratio(prices.sum::<f64>() * 1e6, per_second)
}

/// Returns the price of a second: that of the stored bytes over the years of a device, or that of the bytes that are
/// worn out if it is higher.
fn price_per_second(cost: &TierCost, device: &Device, per_second: f64) -> f64 {
    let stored_bytes = device.demand.stored_bytes as f64;
    let aged_bytes = stored_bytes / (DEVICE_YEARS * SECONDS_PER_YEAR);
    let written_bytes = per_second * device.demand.written_bytes();
    let worn_bytes = ratio(written_bytes, cost.profile.endurance_writes);
    aged_bytes.max(worn_bytes) / 1e9 * cost.profile.price_per_gb
}

/// Returns a quotient; 0 if nothing divides.
fn ratio(number: f64, divisor: f64) -> f64 {
    match divisor > 0.0 {
        true => number / divisor,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;
