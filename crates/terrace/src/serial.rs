//! Reports as JSON: what `serde` would write otherwise than people and scripts expect.

pub(crate) mod paths;

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, SequenceNumber, TableReport};

/// A time as a number of seconds.
pub(crate) mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs_f64().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// A moment as a number of seconds since 1970, to a millisecond.
pub(crate) mod milliseconds_since_1970 {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        (since.as_millis() as f64 / 1e3).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let milliseconds = (f64::deserialize(from)? * 1e3).round() as u64;
        let time = UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
        time.ok_or_else(|| de::Error::custom("a moment that no clock shows"))
    }
}

/// Times that writers were held back, in seconds, under their causes.
pub(crate) mod stalls {
    use std::collections::BTreeMap;

    use super::{Deserialize, Deserializer, Duration, Serializer, de};
    use crate::StallCause;

    type Stalls = Vec<(StallCause, Duration)>;

    pub(crate) fn serialize<S: Serializer>(stalls: &Stalls, to: S) -> Result<S::Ok, S::Error> {
        let seconds =
            |(cause, time): &(StallCause, Duration)| (cause.to_string(), time.as_secs_f64());
        to.collect_map(stalls.iter().map(seconds))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Stalls, D::Error> {
        let seconds = BTreeMap::<String, f64>::deserialize(from)?;
        let time = |&cause: &StallCause| {
            let seconds = seconds.get(&cause.to_string()).copied().unwrap_or(0.0);
            let time = Duration::try_from_secs_f64(seconds).map_err(de::Error::custom)?;
            Ok((cause, time))
        };
        StallCause::ALL.iter().map(time).collect()
    }
}

/// Levels as objects, so that they may get more than their sub-levels.
pub(crate) mod levels {
    use super::{Deserialize, Deserializer, Serialize, Serializer};
    use crate::SubLevelReport;

    #[derive(Serialize)]
    struct Shown<'a> {
        sub_levels: &'a [SubLevelReport],
    }

    #[derive(Deserialize)]
    struct Read {
        sub_levels: Vec<SubLevelReport>,
    }

    pub(crate) fn serialize<S: Serializer>(
        levels: &[Vec<SubLevelReport>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(levels.iter().map(|sub_levels| Shown { sub_levels }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<SubLevelReport>>, D::Error> {
        let levels = Vec::<Read>::deserialize(from)?;
        Ok(levels.into_iter().map(|level| level.sub_levels).collect())
    }
}

/// Counts of I/O under their purposes.
pub(crate) mod io {
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

    pub(crate) fn serialize<S: Serializer>(io: &IoStatistics, to: S) -> Result<S::Ok, S::Error> {
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

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<IoStatistics, D::Error> {
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

/// An error in its words. What comes back is [`Error::Owner`] with the same words.
pub(crate) mod error_text {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        error: &Option<Error>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        error.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Error>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Error::Owner))
    }
}

/// [`TableReport`] with each key under one of two names.
#[derive(Serialize, Deserialize)]
pub(crate) struct TableForm {
    number: u64,
    size_bytes: u64,
    entries: u64,
    tombstones: u64,
    #[serde(default)]
    range_tombstones: u64,
    first_sequence: SequenceNumber,
    last_sequence: SequenceNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    smallest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    smallest_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    largest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    largest_hex: Option<String>,
    narrowed: bool,
}

impl From<TableReport> for TableForm {
    fn from(table: TableReport) -> Self {
        let (smallest, smallest_hex) = key_form(table.smallest);
        let (largest, largest_hex) = key_form(table.largest);
        TableForm {
            number: table.number,
            size_bytes: table.size_bytes,
            entries: table.entries,
            tombstones: table.tombstones,
            range_tombstones: table.range_tombstones,
            first_sequence: table.sequences.0,
            last_sequence: table.sequences.1,
            smallest,
            smallest_hex,
            largest,
            largest_hex,
            narrowed: table.narrowed,
        }
    }
}

impl TryFrom<TableForm> for TableReport {
    type Error = String;

    fn try_from(form: TableForm) -> Result<Self, String> {
        Ok(TableReport {
            number: form.number,
            size_bytes: form.size_bytes,
            entries: form.entries,
            tombstones: form.tombstones,
            range_tombstones: form.range_tombstones,
            smallest: key_of_form(form.smallest, form.smallest_hex)?,
            largest: key_of_form(form.largest, form.largest_hex)?,
            narrowed: form.narrowed,
            sequences: (form.first_sequence, form.last_sequence),
        })
    }
}

/// A key as text or, if it is none, in hexadecimal.
pub(crate) fn key_form(key: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(key) {
        Ok(text) => (Some(text), None),
        Err(bytes) => (None, Some(to_hex(bytes.as_bytes()))),
    }
}

/// The key that is written in one of two ways.
pub(crate) fn key_of_form(text: Option<String>, hex: Option<String>) -> Result<Vec<u8>, String> {
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
