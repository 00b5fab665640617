//! Zipf's distribution as Gray et al. draw it ("Quickly generating billion-record synthetic
//! databases"), and YCSB's two uses of it.

use super::{Random, fnv_64, unit};

/// YCSB's skew.
pub const YCSB_THETA: f64 = 0.99;

/// Ranks 0..items, rank r with a weight of 1/(r+1)^theta.
///
/// Only the first two ranks are drawn exactly; the others follow a continuous approximation, which
/// is part of the definition.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    zeta_of_two: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Makes the distribution over this many items, at least one. It sums as many terms: build it
    /// once and clone it.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        let items = items.max(1);
        Zipfian::with_zeta(items, theta, zeta(0, items, theta))
    }

    /// Makes the same where zeta(items) is known.
    pub fn with_zeta(items: u64, theta: f64, zeta_of_items: f64) -> Zipfian {
        let mut zipfian = Zipfian {
            items: items.max(1),
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta_of_two: zeta(0, 2, theta),
            zeta: zeta_of_items,
            eta: 0.0,
        };
        zipfian.set_eta();
        zipfian
    }

    /// Raises the number of items: only the new terms are summed. Fewer change nothing.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += zeta(self.items, items, self.theta);
            self.items = items;
            self.set_eta();
        }
    }

    /// Returns the number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Draws a rank.
    pub fn next(&self, random: &mut Random) -> u64 {
        self.rank(unit(random))
    }

    /// Returns the rank at a quantile in [0, 1).
    pub fn rank(&self, quantile: f64) -> u64 {
        let within_zeta = quantile * self.zeta;
        if within_zeta < 1.0 {
            return 0;
        }
        if within_zeta < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let base = self.eta * quantile - self.eta + 1.0;
        let rank = (self.items as f64 * base.powf(self.alpha)) as u64;
        // Rounding must not make an item of the end.
        rank.min(self.items - 1)
    }

    fn set_eta(&mut self) {
        self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta))
            / (1.0 - self.zeta_of_two / self.zeta);
    }
}

/// Sums the terms of ranks `from..to`.
fn zeta(from: u64, to: u64, theta: f64) -> f64 {
    (from..to)
        .map(|rank| ((rank + 1) as f64).powf(theta).recip())
        .sum()
}

/// Zipfian ranks scattered over the records by a hash: the hot ones lie anywhere.
///
/// The ranks are those of 10^10 items whatever the number of records, so that the share of the
/// hottest one is always 1/26.469, which is 3.78 %.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    const RANKS: u64 = 10_000_000_000;
    const ZETA_OF_RANKS: f64 = 26.469_028_201_783_02;

    /// Makes the distribution over this many items, at least one.
    pub fn new(items: u64) -> ScrambledZipfian {
        ScrambledZipfian {
            ranks: Zipfian::with_zeta(Self::RANKS, YCSB_THETA, Self::ZETA_OF_RANKS),
            items: items.max(1),
        }
    }

    /// Draws an item.
    pub fn next(&self, random: &mut Random) -> u64 {
        fnv_64(self.ranks.next(random)) % self.items
    }
}

/// The newest item most often, older ones as zipfian ranks.
#[derive(Clone, Debug)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// Makes the distribution over this many items at first, at least one.
    pub fn new(items: u64) -> Latest {
        Latest {
            ages: Zipfian::new(items, YCSB_THETA),
        }
    }

    /// Draws one of 0..items, where items never get fewer.
    pub fn next(&mut self, items: u64, random: &mut Random) -> u64 {
        self.ages.grow(items);
        (self.ages.items() - 1).saturating_sub(self.ages.next(random))
    }
}
