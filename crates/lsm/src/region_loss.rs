//! The loss of a region, with writes that were nowhere else.

use std::fmt;

use crate::key::SequenceNumber;

/// Writes that were lost with their region, as the owner accepted when the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RegionLoss {
    /// Every write up to this number was kept. Later ones were lost, however many there were.
    pub kept: SequenceNumber,
    /// The last number that is known to have been promised. New writes have larger numbers.
    pub promised: SequenceNumber,
}

impl fmt::Display for RegionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegionLoss { kept, promised } = self;
        write!(f, "writes after number {kept} are lost")?;
        if promised > kept {
            write!(
                f,
                ", of which those up to {promised} were promised to survive"
            )?;
        }
        Ok(())
    }
}

impl RegionLoss {
    /// Returns the loss of a region that keeps up to `kept` and had promised up to `promised`.
    #[doc(hidden)]
    pub fn new(kept: SequenceNumber, promised: SequenceNumber) -> Self {
        RegionLoss { kept, promised }
    }
}
