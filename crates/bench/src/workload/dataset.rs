//! The records of a workload.

use serde::{Deserialize, Serialize};

use crate::keys::KeyForm;
use crate::values::{Sizes, Values};

/// Number and form of the records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Records 0..records are loaded.
    pub records: u64,
    /// Their keys.
    pub key_form: KeyForm,
    /// Their values' lengths and fields.
    pub sizes: Sizes,
    /// The share of their bytes to which values can be compressed; 1 for not at all.
    pub compression_ratio: f64,
}

impl Dataset {
    /// Returns the maker and checker of its values; the seed is that of the plan.
    pub fn values(&self, seed: u64) -> Values {
        Values::new(self.sizes, self.compression_ratio, seed)
    }

    /// Returns the bytes of keys and values once all are loaded.
    pub fn expected_bytes(&self) -> u64 {
        let bytes = self.key_form.bytes() as f64 + self.sizes.mean_bytes();
        (self.records as f64 * bytes) as u64
    }

    /// Describes the dataset in words.
    pub fn describe(&self) -> String {
        let compressible = if self.compression_ratio >= 1.0 {
            "incompressible".to_owned()
        } else {
            format!("compressible to {:.0} %", 100.0 * self.compression_ratio)
        };
        format!(
            "{} records, {}, {}, {compressible}",
            self.records,
            self.key_form.describe(),
            self.sizes.describe()
        )
    }
}
