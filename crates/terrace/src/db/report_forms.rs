//! Parts of reports as JSON, where `serde` would write another form than people and scripts expect.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use terrace_lsm::serial::{key_form, key_of_form};

use crate::{SequenceNumber, TableReport};

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

/// [`TableReport`] with each key under one of two names.
#[derive(Serialize, Deserialize)]
pub(crate) struct TableForm {
    number: u64,
    size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    entries: u64,
    tombstones: u64,
    #[serde(default)]
    range_tombstones: u64,
    #[serde(default)]
    reads: u64,
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
            tier: table.tier,
            entries: table.entries,
            tombstones: table.tombstones,
            range_tombstones: table.range_tombstones,
            reads: table.reads,
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
            tier: form.tier,
            entries: form.entries,
            tombstones: form.tombstones,
            range_tombstones: form.range_tombstones,
            reads: form.reads,
            smallest: key_of_form(form.smallest, form.smallest_hex)?,
            largest: key_of_form(form.largest, form.largest_hex)?,
            narrowed: form.narrowed,
            sequences: (form.first_sequence, form.last_sequence),
        })
    }
}
