//! How long values are.

use serde::{Deserialize, Serialize};

use crate::draw::{Pareto, mix_64, unit_of};
use crate::linkbench::rows::MEAN_NODE_BYTES;

/// Lengths of values. A length follows from the record and the version, so that a reader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All alike.
    Fixed {
        /// Bytes of a value.
        bytes: u32,
    },
    /// All alike, with fields that can be updated one by one.
    Fields {
        /// How many, at least 1.
        count: u32,
        /// Bytes of each.
        bytes: u32,
    },
    /// Mixgraph's: a draw of the distribution, by the remainder where that is not less than
    /// `below`, and then at least [`Sizes::LEAST_PARETO_BYTES`].
    Pareto {
        /// The distribution.
        distribution: Pareto,
        /// No value has as many bytes.
        below: u32,
    },
    /// LinkBench's: a record is a node with its links, in several tables. Of these only the mean is known.
    Graph,
}

impl Sizes {
    /// YCSB's 10 fields of 100 bytes.
    pub const YCSB: Sizes = Sizes::Fields {
        count: 10,
        bytes: 100,
    };

    /// The source takes no fewer bytes, though it lets remainders pass.
    pub const LEAST_PARETO_BYTES: u64 = 10;

    /// Returns the bytes of a value.
    pub fn bytes(&self, record: u64, version: u32) -> u64 {
        match self {
            Sizes::Fixed { bytes } => u64::from(*bytes),
            Sizes::Fields { .. } => self.most_bytes(),
            Sizes::Pareto {
                distribution,
                below,
            } => {
                let hash = mix_64(mix_64(record).wrapping_add(u64::from(version)));
                let bytes = distribution.exceeded_by(1.0 - unit_of(hash));
                let remainder = match bytes.checked_rem(u64::from(*below)) {
                    Some(remainder) => remainder,
                    None => bytes,
                };
                remainder.max(Self::LEAST_PARETO_BYTES)
            }
            Sizes::Graph => MEAN_NODE_BYTES.into(),
        }
    }

    /// Returns the most bytes that a value has.
    pub fn most_bytes(&self) -> u64 {
        match self {
            Sizes::Fixed { bytes } => u64::from(*bytes),
            Sizes::Fields { bytes, .. } => u64::from(self.fields()) * u64::from(*bytes),
            Sizes::Pareto { below, .. } => u64::from(*below).max(Self::LEAST_PARETO_BYTES),
            Sizes::Graph => MEAN_NODE_BYTES.into(),
        }
    }

    /// Returns the mean bytes of a value, of the first versions of 1,000 records where sizes vary.
    pub fn mean_bytes(&self) -> f64 {
        const SAMPLE: u64 = 1000;
        let total: u64 = (0..SAMPLE).map(|record| self.bytes(record, 0)).sum();
        total as f64 / SAMPLE as f64
    }

    /// Returns how many fields a value has, at least 1.
    pub fn fields(&self) -> u32 {
        match self {
            Sizes::Fields { count, .. } => (*count).max(1),
            Sizes::Fixed { .. } | Sizes::Pareto { .. } | Sizes::Graph => 1,
        }
    }

    /// Returns the bytes of a field, in a value of which `left` bytes are left.
    pub(super) fn field_bytes(&self, left: usize) -> usize {
        match self {
            Sizes::Fields { bytes, .. } => *bytes as usize,
            Sizes::Fixed { .. } | Sizes::Pareto { .. } | Sizes::Graph => left,
        }
    }

    /// Describes the sizes in words.
    pub fn describe(&self) -> String {
        match self {
            Sizes::Fixed { bytes } => format!("values of {bytes} B"),
            Sizes::Fields { count, bytes } => format!("values of {count} fields of {bytes} B"),
            Sizes::Graph => {
                format!("nodes and their links of {MEAN_NODE_BYTES} B together on average")
            }
            Sizes::Pareto { .. } => {
                format!(
                    "Pareto-sized values of {:.0} B on average",
                    self.mean_bytes()
                )
            }
        }
    }
}
