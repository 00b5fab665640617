//! How many distinct keys there are, from 12 KiB: a HyperLogLog of a table's user keys.
//!
//! Fed with the hash that filters are fed with, so that a key costs an index and a comparison. The
//! sketches of any tables can be united. The union counts the keys of all of them, each key once,
//! to 0.8 % (one standard deviation). That against the number of entries is how many times over a
//! level has its keys. Of two sets of very different size a union says little of the keys that they
//! share: its error is that of the larger one. For that there is the sample of keys.
//!
//! 2^14 registers hold the highest rank of the hashes that fall to them (Flajolet, Fusy, Gandouet,
//! Meunier: HyperLogLog, 2007). The estimate is the one that Otmar Ertl derives from Poisson
//! statistics ("New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6):
//! one formula from none to all, without tables of corrections and without a seam where another one begins.
//!
//! Own code: libraries hash their input once more (8 ns a key for 0.7), and the format of files
//! would be theirs.

mod small;

use crate::coding::{Decoder, put_varint};

pub use self::small::SmallSketch;

const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash that make the rank.
const RANK_BITS: u32 = 64 - INDEX_BITS;
/// One behind the last bit: all bits were zero.
const HIGHEST_RANK: u8 = RANK_BITS as u8 + 1;
/// Bits of a register in the dense form.
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = REGISTERS * REGISTER_BITS / 8;

const _: () = assert!((HIGHEST_RANK as usize) < 1 << REGISTER_BITS);

/// The forms in a file; 0 is invalid.
mod form {
    pub(super) const SPARSE: u8 = 1;
    pub(super) const DENSE: u8 = 2;
}

/// A count of distinct keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Sketch {
    registers: Box<[u8]>,
}

impl Default for Sketch {
    fn default() -> Self {
        Sketch {
            registers: vec![0; REGISTERS].into_boxed_slice(),
        }
    }
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "about {:.0} keys", self.estimate())
    }
}

impl Sketch {
    /// Counts a key by its hash, whose bits must be as good as random.
    pub(crate) fn add(&mut self, hash: u64) {
        let rank = ((hash << INDEX_BITS).leading_zeros().min(RANK_BITS) + 1) as u8;
        let index = (hash >> RANK_BITS) as usize;
        if let Some(register) = self.registers.get_mut(index) {
            *register = rank.max(*register);
        }
    }

    /// Counts the keys of the other, too.
    pub fn unite(&mut self, other: &Sketch) {
        for (register, other) in self.registers.iter_mut().zip(&other.registers) {
            *register = (*register).max(*other);
        }
    }

    /// Returns about how many different keys were counted.
    pub fn estimate(&self) -> f64 {
        let mut with_rank = [0u32; HIGHEST_RANK as usize + 1];
        for &rank in &self.registers {
            if let Some(count) = with_rank.get_mut(usize::from(rank)) {
                *count += 1;
            }
        }
        estimate(&with_rank, REGISTERS)
    }

    /// Bytes that it takes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.registers.len() as u64
    }

    /// Returns the form in files: see docs/formats.md.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let used = self.registers.iter().filter(|&&rank| rank > 0).count();
        // Each takes two bytes or more.
        if used * 2 >= DENSE_BYTES {
            return self.encode_dense();
        }
        let mut sparse = vec![form::SPARSE];
        put_varint(&mut sparse, used as u64);
        let mut next = 0;
        for (index, &rank) in self.registers.iter().enumerate() {
            if rank > 0 {
                put_varint(&mut sparse, (index - next) as u64);
                sparse.push(rank);
                next = index + 1;
            }
            if sparse.len() > DENSE_BYTES {
                return self.encode_dense();
            }
        }
        sparse
    }

    fn encode_dense(&self) -> Vec<u8> {
        let mut dense = Vec::with_capacity(1 + DENSE_BYTES);
        dense.push(form::DENSE);
        for four in self.registers.chunks_exact(4) {
            let word = four
                .iter()
                .rev()
                .fold(0u32, |word, &rank| word << REGISTER_BITS | u32::from(rank));
            dense.extend(word.to_le_bytes().into_iter().take(3));
        }
        dense
    }

    /// Decodes a sketch; `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Sketch> {
        let (&form, rest) = bytes.split_first()?;
        match form {
            form::SPARSE => Self::decode_sparse(rest),
            form::DENSE => Self::decode_dense(rest),
            _ => None,
        }
    }

    fn decode_sparse(bytes: &[u8]) -> Option<Sketch> {
        let mut sketch = Sketch::default();
        let mut decoder = Decoder::new(bytes);
        let used = decoder.varint()?;
        let mut next = 0usize;
        for _ in 0..used {
            let index = next.checked_add(usize::try_from(decoder.varint()?).ok()?)?;
            let register = sketch.registers.get_mut(index)?;
            let &[rank] = decoder.take(1)? else {
                return None;
            };
            *register = (1..=HIGHEST_RANK).contains(&rank).then_some(rank)?;
            next = index + 1;
        }
        decoder.is_empty().then_some(sketch)
    }

    fn decode_dense(bytes: &[u8]) -> Option<Sketch> {
        if bytes.len() != DENSE_BYTES {
            return None;
        }
        let words = bytes.chunks_exact(3).map(|three| {
            let byte = |at: usize| three.get(at).map_or(0, |&byte| u32::from(byte)) << (8 * at);
            byte(0) | byte(1) | byte(2)
        });
        let ranks = words.flat_map(|word| {
            let rank = move |at: usize| (word >> (REGISTER_BITS * at)) as u8 & 0x3f;
            (0..4).map(rank)
        });
        let registers: Box<[u8]> = ranks.collect();
        let are_ranks = registers.iter().all(|&rank| rank <= HIGHEST_RANK);
        are_ranks.then_some(Sketch { registers })
    }
}

/// Estimates from the number of registers that have each rank.
fn estimate<const RANKS: usize>(with_rank: &[u32; RANKS], registers: usize) -> f64 {
    let registers = registers as f64;
    let [none, ranks @ .., highest] = with_rank.as_slice() else {
        return 0.0;
    };
    let mut z = registers * tau(1.0 - f64::from(*highest) / registers);
    for &count in ranks.iter().rev() {
        z = 0.5 * (z + f64::from(count));
    }
    z += registers * sigma(f64::from(*none) / registers);
    // Of infinitely many registers.
    let alpha = 0.5 / std::f64::consts::LN_2;
    alpha * registers * registers / z
}

/// Returns the part of the registers that no key fell to.
fn sigma(x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (x, 1.0, x);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum <= before {
            return sum;
        }
    }
}

/// Returns the part of the registers whose rank could have been higher.
fn tau(x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut rest) = (x, 1.0, 1.0 - x);
    loop {
        root = root.sqrt();
        let before = rest;
        weight *= 0.5;
        rest -= (1.0 - root) * (1.0 - root) * weight;
        if rest >= before {
            return rest / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::key_hash;

    fn sketch(keys: std::ops::Range<u64>, seed: u64) -> Sketch {
        let mut sketch = Sketch::default();
        for key in keys {
            sketch.add(key_hash(&key.to_be_bytes(), seed));
        }
        sketch
    }

    #[test]
    fn of_twenty_estimates_one_is_more_than_two_hundredths_off() {
        for keys in [1, 10, 1_000, 20_000, 60_000, 200_000] {
            let is_off = |seed| (sketch(0..keys, seed).estimate() / keys as f64 - 1.0).abs() > 0.02;
            let off = (0..20).filter(|&seed| is_off(seed)).count();
            assert!(off <= 2, "{off} of {keys} keys");
        }
    }

    #[test]
    fn the_error_is_the_one_that_theory_gives() {
        let keys = 100_000u64;
        let errors = (0..40).map(|seed| sketch(0..keys, seed).estimate() / keys as f64 - 1.0);
        let (mut sum, mut squares) = (0.0, 0.0);
        for error in errors {
            sum += error;
            squares += error * error;
        }
        let deviation = (squares / 40.0).sqrt();
        assert!((0.004..0.013).contains(&deviation), "{deviation}");
        assert!((sum / 40.0).abs() < 0.005, "a bias of {}", sum / 40.0);
    }

    #[test]
    fn a_union_counts_each_key_once() {
        let mut united = sketch(0..50_000, 7);
        united.unite(&sketch(30_000..80_000, 7));
        assert_eq!(united, sketch(0..80_000, 7));
        let mut same = united.clone();
        same.unite(&united);
        assert_eq!(same, united);
    }

    #[test]
    fn nothing_and_everything_are_numbers() {
        assert_eq!(Sketch::default().estimate(), 0.0);
        let mut all = Sketch::default();
        all.registers.fill(HIGHEST_RANK);
        assert!(all.estimate() > 1e18);
    }

    #[test]
    fn few_keys_take_few_bytes() {
        assert_eq!(Sketch::default().encode(), [form::SPARSE, 0]);
        assert!(sketch(0..100, 1).encode().len() < 320);
        assert_eq!(sketch(0..1_000_000, 1).encode().len(), 1 + DENSE_BYTES);
    }

    proptest! {
        #[test]
        fn a_sketch_comes_back_as_it_was_written(keys in 0u64..40_000, seed in any::<u64>()) {
            let sketch = sketch(0..keys, seed);
            let encoded = sketch.encode();
            prop_assert!(encoded.len() <= 1 + DENSE_BYTES);
            prop_assert_eq!(Sketch::decode(&encoded), Some(sketch));
        }

        #[test]
        fn whatever_is_decoded_can_be_asked(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(sketch) = Sketch::decode(&bytes) {
                prop_assert!(sketch.estimate().is_finite());
                prop_assert_eq!(Sketch::decode(&sketch.encode()), Some(sketch));
            }
        }
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        let dense = sketch(0..100_000, 3).encode();
        let sparse = sketch(0..10, 3).encode();
        for bytes in [
            &dense[..dense.len() - 1],
            &[&dense[..], &[0]].concat(),
            &sparse[..sparse.len() - 1],
            &[&sparse[..], &[0]].concat(),
            &[],
            &[0],
            &[3, 0],
            // Rank 0, rank 52, register 16384.
            &[form::SPARSE, 1, 0, 0],
            &[form::SPARSE, 1, 0, 52],
            &[form::SPARSE, 1, 0x80, 0x80, 1, 1],
            &[&[form::DENSE][..], &[0xff; DENSE_BYTES]].concat(),
        ] {
            assert!(Sketch::decode(bytes).is_none());
        }
    }
}
