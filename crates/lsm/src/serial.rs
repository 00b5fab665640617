//! Values in reports as JSON, where `serde` would write another form than people and scripts expect.

pub mod paths;

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Error;

/// A time as a number of seconds.
pub mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, de};

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// A moment as a number of seconds since 1970, to a millisecond.
pub mod milliseconds_since_1970 {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, de};

    pub fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        (since.as_millis() as f64 / 1e3).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let milliseconds = (f64::deserialize(from)? * 1e3).round() as u64;
        let time = UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
        time.ok_or_else(|| de::Error::custom("a moment that no clock shows"))
    }
}

/// Counts of I/O under their purposes.
pub mod io {
    use std::collections::BTreeMap;

    use terrace_storage::{IoCounts, IoStatistics, Purpose};

    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Counts {
        read_bytes: u64,
        reads: u64,
        written_bytes: u64,
        writes: u64,
        syncs: u64,
    }

    /// Syncs of directories have no purpose.
    const DIRECTORY: &str = "directory";

    pub fn serialize<S: Serializer>(io: &IoStatistics, to: S) -> Result<S::Ok, S::Error> {
        let counts = |&purpose: &Purpose| {
            let counts = io.of(purpose);
            let counts = Counts {
                read_bytes: counts.read_bytes,
                reads: counts.reads,
                written_bytes: counts.written_bytes,
                writes: counts.writes,
                syncs: counts.syncs,
            };
            (purpose.name(), counts)
        };
        let directory = Counts {
            syncs: io.directory_syncs,
            ..Counts::default()
        };
        let purposes = Purpose::ALL.iter().map(counts);
        to.collect_map(purposes.chain([(DIRECTORY, directory)]))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<IoStatistics, D::Error> {
        let mut counts = BTreeMap::<String, Counts>::deserialize(from)?;
        let of_purpose = Purpose::ALL.map(|purpose| {
            let counts = counts.remove(purpose.name()).unwrap_or_default();
            IoCounts {
                read_bytes: counts.read_bytes,
                reads: counts.reads,
                written_bytes: counts.written_bytes,
                writes: counts.writes,
                syncs: counts.syncs,
            }
        });
        let directory = counts.remove(DIRECTORY).unwrap_or_default();
        Ok(IoStatistics::new(of_purpose, directory.syncs))
    }
}

/// An error in its words. It comes back as [`Error::Owner`] with the same words.
pub mod error_text {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer};

    pub fn serialize<S: Serializer>(error: &Option<Error>, to: S) -> Result<S::Ok, S::Error> {
        error.as_ref().map(ToString::to_string).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Error>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Error::Owner))
    }
}

/// Returns a key as text or, if it is none, in hexadecimal.
pub fn key_form(key: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(key) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(to_hex(bytes.as_bytes()))),
    }
}

/// Returns the key that is written in one of two ways.
pub fn key_of_form(text: Option<String>, hex: Option<String>) -> Result<Vec<u8>, String> {
    let Some(hex) = hex else {
        return text
            .map(String::into_bytes)
            .ok_or("a key is missing".to_owned());
    };
    from_hex(&hex).ok_or("a key is not in hexadecimal".to_owned())
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| {
        (digit as char)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}
