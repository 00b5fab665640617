//! Heat by ranges of keys.

use super::{Permutation, Random, YCSB_THETA, Zipfian, uniform};

/// Ranges of neighbouring records are hot or cold as a whole: which range is zipfian, with the hot
/// ones anywhere, and each record of it alike. Where keys are in the order of records, whole tables
/// are hot; hashed keys would spread the heat over all of them.
#[derive(Clone, Debug)]
pub struct Clustered {
    ranks: Zipfian,
    places: Permutation,
    records: u64,
}

impl Clustered {
    /// Makes the distribution over this many records in this many ranges. The same seed makes the
    /// same ranges hot.
    pub fn new(records: u64, ranges: u64, seed: u64) -> Clustered {
        let records = records.max(1);
        let ranges = ranges.clamp(1, records);
        Clustered {
            ranks: Zipfian::new(ranges, YCSB_THETA),
            places: Permutation::new(ranges, seed),
            records,
        }
    }

    /// Draws a record.
    pub fn next(&self, random: &mut Random) -> u64 {
        let range = self.places.at(self.ranks.next(random));
        let start = self.start_of(range);
        start + uniform(random, self.start_of(range + 1) - start)
    }

    /// Returns the first record of a range.
    fn start_of(&self, range: u64) -> u64 {
        (u128::from(range) * u128::from(self.records) / u128::from(self.ranks.items())) as u64
    }
}
