//! Numbers of bytes in files of options: whole numbers, or texts with a unit.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Units and their powers of two.
const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Returns the bytes that a text says, `None` for a text that says none.
///
/// ```
/// use terrace_lsm::byte_size::parse;
///
/// assert_eq!(parse("4096"), Some(4096));
/// assert_eq!(parse("64MiB"), Some(64 << 20));
/// assert_eq!(parse("2 GiB"), Some(2 << 30));
/// assert_eq!(parse("64MB"), None);
/// ```
pub fn parse(text: &str) -> Option<u64> {
    let with_unit = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), *shift)));
    let (digits, shift) = with_unit.unwrap_or((text, 0));
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

/// Reads a number or a text with a unit.
struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, such as 67108864 or \"64MiB\" (KiB, MiB, GiB, TiB)")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// Reads the bytes of a field. For `deserialize_with`.
///
/// # Errors
/// A value that is neither a number that fits nor a text with a unit.
pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let bytes = deserializer.deserialize_any(Bytes)?;
    T::try_from(bytes).map_err(|_| D::Error::custom(format!("{bytes} bytes are too many")))
}

/// Reads the bytes of a field that may be missing. For `deserialize_with`, beside `default`.
///
/// # Errors
/// As [`deserialize`].
pub fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    deserialize(deserializer).map(Some)
}
