//! Hashes of numbers.

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// YCSB's FNV-1a over the eight octets of a number, low first, made positive as a Java `long`: it
/// names keys and scatters zipfian ranks.
pub fn fnv_64(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(FNV_OFFSET, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME)
        });
    (hash as i64).unsigned_abs()
}

/// Applies a bijection of 64 bits that leaves no pattern (the finalizer of SplitMix64, after one
/// step).
pub fn mix_64(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Applies the inverse of [`mix_64`].
pub fn unmix_64(mixed: u64) -> u64 {
    let number = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let number = (number ^ (number >> 27) ^ (number >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    (number ^ (number >> 30) ^ (number >> 60)).wrapping_sub(0x9E37_79B9_7F4A_7C15)
}

/// Returns the seed of a named part of a plan, so that its phases do not draw the same numbers.
pub fn seed_of(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(mix_64(seed), |hash, byte| mix_64(hash ^ u64::from(byte)))
}
