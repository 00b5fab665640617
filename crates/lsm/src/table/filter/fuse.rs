//! The binary fuse filter (Graf, Lemire: Binary Fuse Filters, JEA 2022), with four slots a key and
//! fingerprints of any width.
//!
//! A key has a slot in each of four consecutive segments, and the fingerprints in them XOR to the
//! key's own. A key that was not added passes by chance, once in 2 to the power of the width. About
//! 1.08 slots a key are enough where there are many keys. So 10 bits a key are wrong once in 600
//! where a split-block Bloom filter is once in 80. A probe touches four cache lines, at once.
//!
//! The slots of the first segments are one bit wider than the others: the chance follows the memory
//! smoothly, not in steps of half.

/// Slots of a key.
const ARITY: usize = 4;
/// The longest fingerprint, in bits.
pub(super) const MOST_WIDTH: u32 = 32;
/// The longest segment, as a power of two; the hash has as many bits for each.
const MOST_SEGMENT_BITS: u32 = 18;
/// Bytes of the frame, which says how to read the slots. It stands behind them, so that eight bytes
/// can be read from wherever one begins.
const FRAME_BYTES: usize = 20;

/// Where the slots of keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The slots of a segment, as a power of two.
    segment_bits: u32,
    /// Segments in which a key's first slot may be; three more follow.
    starts: u32,
}

impl Shape {
    /// Returns the shape for `keys` keys, by the formulas of the publication.
    pub(super) fn of(keys: usize) -> Self {
        let logarithm = (keys.max(2) as f64).ln();
        let segment_bits = (logarithm / 2.91f64.ln() + 0.5).floor();
        let segment_bits = segment_bits.clamp(2.0, f64::from(MOST_SEGMENT_BITS)) as u32;
        let slots_per_key = (0.77 + 0.305 * 600_000f64.ln() / logarithm).max(1.075);
        let slots = (keys as f64 * slots_per_key).round() as u64;
        let segments = slots.div_ceil(1 << segment_bits);
        let starts = segments.saturating_sub(ARITY as u64 - 1).max(1);
        Shape {
            segment_bits,
            starts: u32::try_from(starts).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots_from(self.starts)
    }

    /// Returns the slots of the keys whose first slot is in one of the first `starts` segments.
    fn slots_from(&self, starts: u32) -> u64 {
        match starts {
            0 => 0,
            _ => (u64::from(starts) + ARITY as u64 - 1) << self.segment_bits,
        }
    }

    pub(super) fn starts(&self) -> u32 {
        self.starts
    }

    /// Returns the segment of the first slot of a mixed hash.
    pub(super) fn start(&self, mixed: u64) -> usize {
        ((u128::from(mixed) * u128::from(self.starts)) >> 64) as usize
    }

    /// Returns the slots of a mixed hash, the one in the first segment first.
    #[inline]
    pub(super) fn positions(&self, mixed: u64) -> [usize; ARITY] {
        let firsts = u64::from(self.starts) << self.segment_bits;
        let first = ((u128::from(mixed) * u128::from(firsts)) >> 64) as u64;
        let within = (1 << self.segment_bits) - 1;
        std::array::from_fn(|number| {
            let step = match number {
                0 => 0,
                _ => mixed >> (MOST_SEGMENT_BITS as usize * (number - 1)) & within,
            };
            ((first + ((number as u64) << self.segment_bits)) ^ step) as usize
        })
    }
}

/// Returns the hash that slots and fingerprint are taken from. Another seed gives other slots to
/// all keys.
#[inline]
pub(super) fn mix(hash: u64, seed: u64) -> u64 {
    let product = (hash ^ seed).wrapping_mul(0xff51_afd7_ed55_8ccd);
    product ^ product >> 32
}

/// Returns [`MOST_WIDTH`] bits, of which the lowest count.
#[inline]
pub(super) fn fingerprint(mixed: u64) -> u64 {
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// How wide the fingerprints are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// Bits of most slots' fingerprints; the first slots have one more.
    narrow: u32,
    /// Number of first segments; keys whose first slot is in one of them have all four wide.
    wide_starts: u32,
}

impl Widths {
    /// Returns the widest that `bits` bits in all have room for; `None` if not even one bit a slot.
    pub(super) fn of(shape: Shape, bits: f64) -> Option<Self> {
        let slots = shape.slots();
        let bits = (bits as u64).min(slots.saturating_mul(u64::from(MOST_WIDTH)));
        let narrow = u32::try_from(bits / slots).ok().filter(|bits| *bits > 0)?;
        let wide_segments = (bits % slots) >> shape.segment_bits;
        let wide_starts = wide_segments.saturating_sub(ARITY as u64 - 1);
        Some(Widths {
            narrow,
            wide_starts: u32::try_from(wide_starts).ok()?,
        })
    }

    /// Returns the chance that a key which was not added passes.
    pub(super) fn chance(&self, shape: Shape) -> f64 {
        let wide = f64::from(self.wide_starts) / f64::from(shape.starts);
        (1.0 - wide / 2.0) * (-f64::from(self.narrow)).exp2()
    }
}

/// A filter as it is stored: fingerprints packed bit by bit, and the frame.
#[derive(Debug)]
pub(in crate::table) struct Fuse {
    shape: Shape,
    widths: Widths,
    wide_slots: usize,
    seed: u64,
    contents: Vec<u8>,
}

impl Fuse {
    /// Reads a filter; `None` if the frame is not one, or the length is not as it says.
    pub(super) fn new(contents: Vec<u8>) -> Option<Self> {
        let (packed, frame) = contents.split_last_chunk::<FRAME_BYTES>()?;
        let (seed, rest) = frame.split_first_chunk::<8>()?;
        let (starts, rest) = rest.split_first_chunk::<4>()?;
        let (wide_starts, rest) = rest.split_first_chunk::<4>()?;
        let &[segment_bits, narrow, 0, 0] = rest else {
            return None;
        };
        let shape = Shape {
            segment_bits: u32::from(segment_bits),
            starts: u32::from_le_bytes(*starts),
        };
        let widths = Widths {
            narrow: u32::from(narrow),
            wide_starts: u32::from_le_bytes(*wide_starts),
        };
        let most_narrow = MOST_WIDTH - u32::from(widths.wide_starts > 0);
        let is_sound = shape.segment_bits <= MOST_SEGMENT_BITS
            && (1..=shape.starts).contains(&widths.wide_starts.max(1))
            && (1..=most_narrow).contains(&widths.narrow);
        if !is_sound || packed.len() as u64 != packed_bytes(shape, widths) {
            return None;
        }
        Some(Fuse {
            shape,
            widths,
            wide_slots: shape.slots_from(widths.wide_starts) as usize,
            seed: u64::from_le_bytes(*seed),
            contents,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.contents.capacity()
    }

    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let mixed = mix(hash, self.seed);
        let positions = self.shape.positions(mixed);
        let mut sum = fingerprint(mixed);
        for position in positions {
            let bit = position * self.widths.narrow as usize + position.min(self.wide_slots);
            let rest = self.contents.get(bit / 8..);
            let Some(bytes) = rest.and_then(|rest| rest.first_chunk::<8>()) else {
                return true;
            };
            sum ^= u64::from_le_bytes(*bytes) >> (bit % 8);
        }
        let [first, ..] = positions;
        let is_wide = (first >> self.shape.segment_bits) < self.widths.wide_starts as usize;
        let width = self.widths.narrow + u32::from(is_wide);
        sum << (u64::BITS - width) == 0
    }
}

/// Bytes of the fingerprints. No product is too large: a slot's number has 51 bits at most.
fn packed_bytes(shape: Shape, widths: Widths) -> u64 {
    let narrow_bits = shape.slots() * u64::from(widths.narrow);
    (narrow_bits + shape.slots_from(widths.wide_starts)).div_ceil(8)
}

/// Returns the contents of a filter whose slots hold these fingerprints, of which the lowest bits
/// count.
pub(super) fn pack(slots: &[u64], shape: Shape, widths: Widths, seed: u64) -> Vec<u8> {
    let mut contents = Vec::with_capacity(packed_bytes(shape, widths) as usize + FRAME_BYTES);
    let wide_slots = shape.slots_from(widths.wide_starts) as usize;
    let (wide, narrow) = slots.split_at_checked(wide_slots).unwrap_or((slots, &[]));
    let (mut gathered, mut gathered_bits) = (0u64, 0);
    for (slots, width) in [(wide, widths.narrow + 1), (narrow, widths.narrow)] {
        let mask = (1 << width) - 1;
        for slot in slots {
            gathered |= (slot & mask) << gathered_bits;
            gathered_bits += width;
            while gathered_bits >= 8 {
                contents.push(gathered as u8);
                gathered >>= 8;
                gathered_bits -= 8;
            }
        }
    }
    if gathered_bits > 0 {
        contents.push(gathered as u8);
    }
    contents.extend_from_slice(&seed.to_le_bytes());
    contents.extend_from_slice(&shape.starts.to_le_bytes());
    contents.extend_from_slice(&widths.wide_starts.to_le_bytes());
    contents.extend_from_slice(&[shape.segment_bits as u8, widths.narrow as u8, 0, 0]);
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_a_key_are_in_four_segments_in_a_row() {
        for keys in [1, 2, 10, 1000, 300_000] {
            let shape = Shape::of(keys);
            for number in 0..1000 {
                let positions = shape.positions(mix(number, 7));
                let segments = positions.map(|position| position >> shape.segment_bits);
                let first = segments[0];
                assert_eq!(segments, [first, first + 1, first + 2, first + 3]);
                assert!(positions.iter().all(|&p| (p as u64) < shape.slots()));
            }
        }
    }

    #[test]
    fn bits_that_are_left_over_widen_the_first_slots() {
        let shape = Shape::of(600_000);
        let of = |bits: f64| Widths::of(shape, bits * shape.slots() as f64);
        assert_eq!(of(0.9), None);
        let whole = of(8.0).unwrap();
        assert_eq!((whole.narrow, whole.wide_starts), (8, 0));
        let half = of(8.5).unwrap();
        assert_eq!(half.narrow, 8);
        assert!((half.chance(shape) - 0.75 / 256.0).abs() < 0.0001);
        let most = of(100.0).unwrap();
        assert_eq!((most.narrow, most.wide_starts), (32, 0));
    }

    #[test]
    fn a_frame_that_says_something_else_than_the_length_is_refused() {
        let shape = Shape::of(1000);
        let slots = vec![0; shape.slots() as usize];
        let widths = Widths::of(shape, 12_000.0).unwrap();
        let good = pack(&slots, shape, widths, 3);
        assert!(Fuse::new(good.clone()).is_some());
        for position in good.len() - FRAME_BYTES + 8..good.len() {
            for change in [1, 0x80] {
                let mut bad = good.clone();
                bad[position] ^= change;
                assert!(Fuse::new(bad).is_none(), "byte {position}");
            }
        }
        for length in 0..good.len() {
            assert!(Fuse::new(good[..length].to_vec()).is_none());
        }
        assert!(Fuse::new(vec![0; 100]).is_none());
        assert!(Fuse::new(vec![0xff; 100]).is_none());
    }
}
