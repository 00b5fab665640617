//! The parts of tables that differ in their tier.
//!
//! A table of many ranges has the mean rate of all, and no tier has a reason to take it. So outputs of
//! compactions end where the tier changes, and a table whose parts are worth different tiers is divided.
//!
//! Pieces of neighbouring keys are labelled with tiers. A piece is worth its reads less the floor for each of
//! its bytes, once for each tier that it goes up. The best labels are those that are worth the most, where
//! neighbours of one label have enough bytes for a table. Dynamic programming finds them in one pass. A rule
//! that goes from piece to piece would begin a part with each piece that was read by chance.

use super::HeatFloors;
use crate::compaction::placement::TierFacts;

/// A key at which the heat of a compaction's output changes.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatCut {
    /// The first key of the part; empty for the first part.
    pub from: Vec<u8>,
    /// Bytes of the part, about.
    pub bytes: u64,
    /// Reads for each byte in a second.
    pub reads_per_byte: f64,
}

impl HeatCut {
    fn reads(&self) -> f64 {
        self.reads_per_byte * self.bytes as f64
    }

    fn absorb(&mut self, next: &HeatCut) {
        let reads = self.reads() + next.reads();
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.reads_per_byte = match self.bytes {
            0 => 0.0,
            bytes => reads / bytes as f64,
        };
    }
}

/// Returns the parts of a compaction's output that differ in their tier, from pieces in the order of the keys.
/// Each part has `min_bytes` at least, unless all pieces together have less.
pub fn cuts(
    pieces: Vec<HeatCut>,
    floors: &HeatFloors,
    tiers: &[TierFacts],
    min_bytes: u64,
) -> Vec<HeatCut> {
    let worth = Worth::of(&pieces, floors, tiers);
    let starts = worth.best_parts(min_bytes).starts;
    let mut parts: Vec<HeatCut> = Vec::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        match parts.last_mut() {
            Some(part) if starts.binary_search(&at).is_err() => part.absorb(&piece),
            _ => parts.push(piece),
        }
    }
    parts
}

/// Returns the gain of cutting these pieces where their tiers change, in reads in a second: those that move to
/// faster tiers, less the reads of others that would have had the room. 0 if one tier is best for all.
pub fn gain_of_cuts(
    pieces: &[HeatCut],
    floors: &HeatFloors,
    tiers: &[TierFacts],
    min_bytes: u64,
) -> f64 {
    let worth = Worth::of(pieces, floors, tiers);
    let whole = (0..worth.labels).map(|label| worth.of_range(label, 0, pieces.len()));
    let whole = whole.fold(f64::NEG_INFINITY, f64::max);
    (worth.best_parts(min_bytes).worth - whole).max(0.0)
}

/// The worth of pieces with each label, as sums from the first piece on.
struct Worth {
    /// Number of labels: the tiers that may be worth it, from the fastest to the slowest.
    labels: usize,
    /// By label, then by the number of pieces.
    sums: Vec<Vec<f64>>,
    /// By the number of pieces.
    bytes: Vec<u64>,
}

/// Parts by the positions of their first pieces, ascending.
struct Parts {
    starts: Vec<usize>,
    worth: f64,
}

/// The best parts of the first pieces, if the last part has a certain label.
#[derive(Clone, Copy)]
struct Best {
    worth: f64,
    label: usize,
    /// The first piece of the last part.
    start: usize,
}

const NONE: Best = Best {
    worth: f64::NEG_INFINITY,
    label: 0,
    start: 0,
};

impl Worth {
    fn of(pieces: &[HeatCut], floors: &HeatFloors, tiers: &[TierFacts]) -> Worth {
        let (_, faster) = tiers.split_last().unzip();
        let faster = faster.unwrap_or(&[]).iter().filter(|tier| tier.is_open);
        let floors = faster.map(|tier| floors.of_tier(tier.number));
        let floors: Vec<f64> = floors.filter(|floor| floor.is_finite()).collect();
        let labels = floors.len() + 1;
        let of_piece = |piece: &HeatCut, label: usize| -> f64 {
            let steps = floors.iter().skip(label);
            let gains = steps.map(|floor| piece.reads() - floor * piece.bytes as f64);
            gains.sum()
        };
        let sums = (0..labels).map(|label| {
            let mut sum = 0.0;
            let sums = pieces.iter().map(|piece| {
                sum += of_piece(piece, label);
                sum
            });
            std::iter::once(0.0).chain(sums).collect()
        });
        let mut sum = 0u64;
        let bytes = pieces.iter().map(|piece| {
            sum = sum.saturating_add(piece.bytes);
            sum
        });
        Worth {
            labels,
            sums: sums.collect(),
            bytes: std::iter::once(0).chain(bytes).collect(),
        }
    }

    /// Returns the worth of pieces with a label.
    fn of_range(&self, label: usize, from: usize, to: usize) -> f64 {
        let sum = |at: usize| self.sums.get(label).and_then(|sums| sums.get(at)).copied();
        sum(to).unwrap_or(0.0) - sum(from).unwrap_or(0.0)
    }

    fn bytes_to(&self, at: usize) -> u64 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Returns the parts that are worth the most.
    fn best_parts(&self, min_bytes: u64) -> Parts {
        let pieces = self.bytes.len() - 1;
        // The best parts of the first 0, 1, 2, ... pieces.
        let mut best = vec![Best { worth: 0.0, ..NONE }];
        let mut by_label = vec![NONE; self.labels];
        // Parts that begin before this piece were tried for the pieces before.
        let mut tried = 0;
        for to in 1..=pieces {
            for (label, known) in by_label.iter_mut().enumerate() {
                known.worth += self.of_range(label, to - 1, to);
            }
            while tried < to && self.bytes_to(to) - self.bytes_to(tried) >= min_bytes {
                let before = best.get(tried).map_or(f64::NEG_INFINITY, |best| best.worth);
                for (label, known) in by_label.iter_mut().enumerate() {
                    let worth = before + self.of_range(label, tried, to);
                    if worth > known.worth {
                        *known = Best {
                            worth,
                            label,
                            start: tried,
                        };
                    }
                }
                tried += 1;
            }
            let better = |best: Best, of: &Best| if of.worth > best.worth { *of } else { best };
            best.push(by_label.iter().fold(NONE, better));
        }
        self.traced(&best)
    }

    /// Returns the parts of all pieces. Neighbours of one label are one part: sums are rounded.
    fn traced(&self, best: &[Best]) -> Parts {
        let mut found = Vec::new();
        let mut to = best.len() - 1;
        while let Some(last) = best.get(to).filter(|_| to > 0) {
            found.push((last.start, last.label));
            to = last.start;
        }
        found.reverse();
        found.dedup_by_key(|(_, label)| *label);
        Parts {
            starts: found.into_iter().map(|(start, _)| start).collect(),
            worth: best.last().map_or(0.0, |best| best.worth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers() -> [TierFacts; 2] {
        [1, 2].map(|number| TierFacts {
            number,
            name: format!("t{number}"),
            capacity_bytes: None,
            room_bytes: 0,
            is_open: true,
        })
    }

    fn floors() -> HeatFloors {
        HeatFloors {
            floors: vec![(1, 1.0), (2, 0.0)],
        }
    }

    fn pieces(list: &[(u8, u64, f64)]) -> Vec<HeatCut> {
        let piece = |&(from, bytes, reads_per_byte): &(u8, u64, f64)| HeatCut {
            from: vec![from],
            bytes,
            reads_per_byte,
        };
        list.iter().map(piece).collect()
    }

    fn cut(list: &[(u8, u64, f64)]) -> Vec<(u8, u64, f64)> {
        let parts = cuts(pieces(list), &floors(), &tiers(), 50);
        let told = |part: HeatCut| (part.from[0], part.bytes, part.reads_per_byte);
        parts.into_iter().map(told).collect()
    }

    fn gain(list: &[(u8, u64, f64)]) -> f64 {
        gain_of_cuts(&pieces(list), &floors(), &tiers(), 50)
    }

    #[test]
    fn outputs_are_cut_where_their_tier_changes() {
        let cold_hot_cold = [(0, 100, 0.0), (1, 50, 4.0), (2, 50, 2.0), (3, 100, 0.0)];
        assert_eq!(
            cut(&cold_hot_cold),
            [(0, 100, 0.0), (1, 100, 3.0), (3, 100, 0.0)]
        );
        // 300 reads instead of none, and 100 bytes instead of others that are read 100 times.
        assert_eq!(gain(&cold_hot_cold), 200.0);
        // A hot piece that is too small for a table stays with its neighbours.
        let small = [(0, 100, 0.0), (1, 20, 2.0), (2, 100, 0.0)];
        assert_eq!(cut(&small), [(0, 220, 40.0 / 220.0)]);
        assert_eq!(gain(&small), 0.0);
        // So does a small one at the beginning.
        assert_eq!(cut(&[(0, 20, 0.0), (1, 100, 6.0)]), [(0, 120, 5.0)]);
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[(0, 10, 9.0)]), [(0, 10, 9.0)], "less than a table");
        assert_eq!((gain(&[]), gain(&[(0, 10, 9.0)])), (0.0, 0.0));
    }

    #[test]
    fn a_part_begins_where_the_heat_does_and_goes_over_a_gap() {
        // The first piece is read by chance; the hot part has a gap.
        let list = [
            (0, 20, 1.5),
            (1, 20, 0.0),
            (2, 20, 0.0),
            (3, 20, 5.0),
            (4, 20, 0.5),
            (5, 20, 5.0),
        ];
        assert_eq!(cut(&list), [(0, 60, 0.5), (3, 60, 3.5)]);
        // The cold half of a table that is hot as a whole.
        let hot = [(0, 60, 9.0), (1, 60, 0.5)];
        assert_eq!(cut(&hot).len(), 2);
        assert_eq!(gain(&hot), 30.0);
    }

    #[test]
    fn cuts_are_the_best_of_all_ways_to_cut() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let list: Vec<(u8, u64, f64)> = (0..8)
                .map(|at| (at, 10 + random(30), random(30) as f64 / 10.0))
                .collect();
            let pieces = pieces(&list);
            let worth = Worth::of(&pieces, &floors(), &tiers());
            // Each bit is a label.
            let ways = (0..1u32 << list.len()).filter_map(|way| {
                let label = |at: usize| (way >> at & 1) as usize;
                let positions: Vec<usize> = (0..list.len()).collect();
                let parts = positions.chunk_by(|a, b| label(*a) == label(*b));
                let mut sum = 0.0;
                for part in parts {
                    let bytes: u64 = part.iter().map(|at| list[*at].1).sum();
                    if bytes < 50 {
                        return None;
                    }
                    sum += worth.of_range(label(part[0]), part[0], part[0] + part.len());
                }
                Some(sum)
            });
            let best = ways.fold(f64::NEG_INFINITY, f64::max);
            assert!((worth.best_parts(50).worth - best).abs() < 1e-9, "{list:?}");
        }
    }
}
