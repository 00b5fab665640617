//! Advises on the tiers of a store's levels: each placement that fits, with the speed, the price and the wear
//! that a cost model predicts for it.
//!
//! The model is [`terrace_lsm::compaction::cost`]. Here its facts come from [`Statistics`]: the traffic of each
//! level since the store was opened, the tiers with their profiles, and the time of a request on a processor.
//!
//! ```
//! use terrace::{Db, Options};
//! use terrace_tools::advise::{AdviceRequest, Error, advise, profile_of};
//!
//! let db = Db::open("/store", Options::in_memory())?;
//! for number in 0..20_000u32 {
//!     db.put(&number.to_be_bytes(), [7; 100])?;
//! }
//! db.flush()?;
//! // Nobody has measured the device of the store.
//! let mut request = AdviceRequest { cpu_us: Some(50.0), ..AdviceRequest::default() };
//! let refused = advise(&db.statistics(), &request).unwrap_err();
//! assert!(matches!(refused, Error::NoProfile { .. }));
//!
//! // Would a disk do, beside flash?
//! request.profiles.push(("store".to_owned(), profile_of("960-pro")?));
//! request.devices.push("disk=wd10ezex:1TiB".parse()?);
//! let advice = advise(&db.statistics(), &request)?;
//! assert_eq!(advice.placements.len(), 2);
//! assert_eq!(advice.present().unwrap().levels, ["store"]);
//! // Nothing is read, so the cheap device is as fast.
//! assert_eq!(advice.best().unwrap().levels, ["disk"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
mod error;
mod tier;
mod traffic;

use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};
use terrace::Statistics;
use terrace_lsm::compaction::cost::{
    self, Bound, Goal, LevelOrder, Load, Placement, Prediction, TierCost, Traffic,
};
use terrace_storage::DeviceProfile;

pub use self::device::{Device, profile_of};
pub use self::error::{Error, Result};
pub use self::tier::AdvisedTier;
use self::traffic::{Processor, filled_levels, placement_of, traffic_of};

/// Threads of a load for which no other number is given.
const DEFAULT_THREADS: u32 = 16;

/// The property by which a placement is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceGoal {
    /// The most requests a second. Of placements within 1 % the cheapest is the best.
    #[default]
    Throughput,
    /// The lowest price for a million requests.
    Price,
}

/// A question for [`advise`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdviceRequest {
    /// Profiles in place of those that tiers have, by the tiers' names.
    pub profiles: Vec<(String, DeviceProfile)>,
    /// Devices that the store does not have.
    pub devices: Vec<Device>,
    /// Number of threads that send requests; 16 without one.
    pub threads: Option<u32>,
    /// Number of processors; those of this machine without one.
    pub processors: Option<u32>,
    /// Time of a request on a processor, in microseconds; as measured without one.
    pub cpu_us: Option<f64>,
    /// Whether a level may lie on a faster tier than the level above.
    pub any_order: bool,
    /// The property of the best placement.
    pub goal: AdviceGoal,
}

/// The placements of a store's levels with their predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Advice {
    /// Number of requests since the store was opened, reads and writes together.
    pub requests: u64,
    /// Number of threads of the predicted load.
    pub threads: u32,
    /// Number of processors of the predicted load.
    pub processors: u32,
    /// Time of a request on a processor.
    pub cpu_us: f64,
    /// Time of flushes and compactions on a processor for one request.
    pub background_cpu_us: f64,
    /// The property of the best placement.
    pub goal: AdviceGoal,
    /// Tiers and hypothetical devices, from the fastest to the slowest.
    pub tiers: Vec<AdvisedTier>,
    /// Levels from the top to the last one with tables.
    pub levels: Vec<AdvisedLevel>,
    /// Placements from the fastest to the slowest.
    pub placements: Vec<AdvisedPlacement>,
    /// Reasons why the predictions may be less certain.
    pub notes: Vec<String>,
}

/// The traffic of a level for one request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AdvisedLevel {
    /// Bytes of its tables.
    pub bytes: u64,
    /// Reads that reached the device.
    pub reads: f64,
    /// Bytes of these.
    pub read_bytes: f64,
    /// Bytes that flushes and compactions wrote.
    pub written_bytes: f64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: f64,
}

/// A placement with its prediction under full load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AdvisedPlacement {
    /// Names of the tiers of the levels, from the top: the value of `level_tiers`.
    pub levels: Vec<String>,
    /// Whether the levels lie so now.
    pub is_present: bool,
    /// Whether it is the best one of those that fit.
    pub is_best: bool,
    /// Whether the levels fit into the capacities. Only the present placement is shown if they do not.
    pub fits: bool,
    /// Requests that all threads together complete in a second.
    pub requests_per_second: f64,
    /// Mean time of a request.
    pub mean_latency_us: f64,
    /// Median time of a request.
    pub p50_latency_us: f64,
    /// Time that one request of a hundred exceeds.
    pub p99_latency_us: f64,
    /// The part that bounds the throughput: the name of a tier whose device is full, `processors`,
    /// `waits for` a tier, or `threads`, which are busy then.
    pub bound: String,
    /// Part of the time in which each tier's device works.
    pub utilisation: Vec<f64>,
    /// Price of the stored bytes.
    pub price: f64,
    /// Price of a million requests: the stored bytes for that time, of the years of a device, or the bytes that they
    /// wear out if that is more.
    pub price_per_million: f64,
    /// Times that each tier's capacity is written in a year.
    pub writes_per_year: Vec<f64>,
    /// Years until the first device is worn out; `None` if none wears.
    pub worn_out_years: Option<f64>,
}

impl Advice {
    /// Returns the placement of now; `None` if a tier of it takes no new tables.
    pub fn present(&self) -> Option<&AdvisedPlacement> {
        self.placements
            .iter()
            .find(|placement| placement.is_present)
    }

    /// Returns the best placement; `None` if none fits.
    pub fn best(&self) -> Option<&AdvisedPlacement> {
        self.placements.iter().find(|placement| placement.is_best)
    }

    /// Returns the line of a file of options that yields the best placement.
    pub fn level_tiers(&self) -> Option<String> {
        let names = self.best()?.levels.iter();
        let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
        Some(format!("level_tiers = [{}]", names.join(", ")))
    }
}

/// Returns each placement that fits, with its prediction from the statistics of a store. The present one is there
/// even if it does not fit: whole levels may not lie where only most of their bytes do.
///
/// # Errors
/// Facts are missing: a tier's profile, tables, or requests. Names or figures of the request are wrong. Nothing
/// fits, and the present placement has a tier that takes no new tables.
pub fn advise(statistics: &Statistics, request: &AdviceRequest) -> Result<Advice> {
    let tiers = tier::candidates(statistics, request)?;
    let filled = filled_levels(statistics)?;
    let traffic = traffic_of(statistics)?;
    let processor = Processor::of(statistics, &traffic);
    let load = Load {
        threads: request.threads.unwrap_or(DEFAULT_THREADS),
        processors: request.processors.unwrap_or_else(|| {
            let processors = available_parallelism();
            processors.map_or(1, |processors| processors.get() as u32)
        }),
        cpu_us: request.cpu_us.unwrap_or(processor.request_us),
        background_cpu_us: processor.background_us,
    };
    let present = placement_of(statistics, &tiers, &filled);
    let arenas = tier::arenas(statistics, &tiers);
    let found = Found::new(&traffic, &tiers, &filled, request, present.as_ref());
    if found.placements.is_empty() {
        return Err(Error::NothingFits {
            bytes: traffic.stored_bytes(),
        });
    }
    let found = Found { arenas, ..found };
    let placements = found.predicted(&traffic, load, request.goal, present.as_ref());
    let mut notes = traffic::notes(statistics, &tiers);
    notes.extend(found.note());
    Ok(Advice {
        requests: traffic.requests,
        threads: load.threads,
        processors: load.processors,
        cpu_us: load.cpu_us,
        background_cpu_us: load.background_cpu_us,
        goal: request.goal,
        levels: levels_of(&traffic),
        placements,
        notes,
        tiers,
    })
}

/// Placements of the levels that have tables.
struct Found<'a> {
    tiers: &'a [AdvisedTier],
    filled: &'a [usize],
    placements: Vec<Placement>,
    /// Number of those that fit, which are the first.
    fitting: usize,
    arenas: Option<usize>,
}

impl<'a> Found<'a> {
    /// Returns the placements that fit, and the present one.
    fn new(
        traffic: &Traffic,
        tiers: &'a [AdvisedTier],
        filled: &'a [usize],
        request: &AdviceRequest,
        present: Option<&Placement>,
    ) -> Self {
        let levels = filled.iter().filter_map(|&level| traffic.levels.get(level));
        let bytes: Vec<u64> = levels.map(|level| level.stored_bytes).collect();
        let capacities: Vec<Option<u64>> = tiers.iter().map(AdvisedTier::usable_bytes).collect();
        let order = match request.any_order {
            true => LevelOrder::Any,
            false => LevelOrder::FastestFirst,
        };
        let mut placements = cost::feasible_placements(&bytes, &capacities, order);
        let mut fitting = placements.len();
        if let Some(present) = present.filter(|present| !placements.contains(present)) {
            // It may lie in another order.
            fitting += usize::from(present.fits(&bytes, &capacities));
            placements.push(present.clone());
        }
        Found {
            tiers,
            filled,
            placements,
            fitting,
            arenas: None,
        }
    }

    /// Returns what to say of a present placement that does not fit.
    fn note(&self) -> Option<String> {
        let text = match self.fitting {
            fitting if fitting == self.placements.len() => return None,
            0 => {
                "no placement of whole levels fits, not even the present one: a device with more room is needed"
            }
            _ => "the present placement does not fit with whole levels, so it is not the best one",
        };
        Some(text.to_owned())
    }

    /// Returns the placements with their predictions, from the fastest.
    fn predicted(
        &self,
        traffic: &Traffic,
        load: Load,
        goal: AdviceGoal,
        present: Option<&Placement>,
    ) -> Vec<AdvisedPlacement> {
        let costs: Vec<TierCost> = self.tiers.iter().map(AdvisedTier::cost).collect();
        let placements = self.placements.iter().map(|found| self.of_all(found));
        let placements: Vec<Placement> = placements.collect();
        let predictions: Vec<Prediction> = placements
            .iter()
            .map(|placement| cost::predict(traffic, &costs, placement, load))
            .collect();
        let goal = match goal {
            AdviceGoal::Throughput => Goal::Throughput,
            AdviceGoal::Price => Goal::PricePerMillion,
        };
        let best = cost::best_of(predictions.iter().take(self.fitting), goal);
        let both = self.placements.iter().zip(&placements).zip(predictions);
        let mut advised: Vec<AdvisedPlacement> = both
            .enumerate()
            .map(|(at, ((found, all), prediction))| AdvisedPlacement {
                is_present: present == Some(found),
                is_best: best == Some(at),
                fits: at < self.fitting,
                ..self.advised(all, prediction)
            })
            .collect();
        advised.sort_by(|one, other| {
            let by_speed = other
                .requests_per_second
                .total_cmp(&one.requests_per_second);
            by_speed.then(one.price.total_cmp(&other.price))
        });
        advised
    }

    /// Returns the placement of all levels. A level without tables lies with the one above.
    fn of_all(&self, found: &Placement) -> Placement {
        let last = self.filled.last().copied().unwrap_or(0);
        let levels = (0..=last).map(|level| {
            let at = self.filled.iter().rposition(|&filled| filled <= level);
            found.tier_of(at.unwrap_or(0)).unwrap_or(0)
        });
        Placement {
            levels: levels.collect(),
            arenas: self.arenas,
        }
    }

    fn advised(&self, placement: &Placement, prediction: Prediction) -> AdvisedPlacement {
        let name = |tier: usize| {
            self.tiers
                .get(tier)
                .map_or("", |tier| &tier.name)
                .to_owned()
        };
        let tiers = || prediction.tiers.iter();
        let worn_out = tiers().filter_map(|tier| tier.worn_out_years);
        AdvisedPlacement {
            levels: placement.levels.iter().map(|&tier| name(tier)).collect(),
            is_present: false,
            is_best: false,
            fits: false,
            requests_per_second: prediction.requests_per_second,
            mean_latency_us: prediction.mean_latency_us,
            p50_latency_us: prediction.p50_latency_us,
            p99_latency_us: prediction.p99_latency_us,
            bound: match prediction.bound {
                Bound::Threads => "threads".to_owned(),
                Bound::Processors => "processors".to_owned(),
                Bound::Wait(tier) => format!("waits for {}", name(tier)),
                Bound::Tier(tier) => name(tier),
            },
            utilisation: tiers().map(|tier| tier.utilisation).collect(),
            price: prediction.price,
            price_per_million: prediction.price_per_million,
            writes_per_year: tiers().map(|tier| tier.writes_per_year).collect(),
            worn_out_years: worn_out.min_by(f64::total_cmp),
        }
    }
}

fn levels_of(traffic: &Traffic) -> Vec<AdvisedLevel> {
    let each = |count: u64| count as f64 / traffic.requests.max(1) as f64;
    let levels = traffic.levels.iter().map(|level| AdvisedLevel {
        bytes: level.stored_bytes,
        reads: each(level.reads),
        read_bytes: each(level.read_bytes),
        written_bytes: each(level.flushed_bytes) + each(level.compaction_written_bytes),
        compaction_read_bytes: each(level.compaction_read_bytes),
    });
    levels.collect()
}

#[cfg(test)]
mod tests;
