//! Reasons why there is no advice.

use std::fmt;

/// Facts that are missing, or that make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A tier has no profile.
    NoProfile {
        /// The tier's name.
        tier: String,
        /// Its directory.
        directory: std::path::PathBuf,
    },
    /// The profile of a tier lacks a figure, so its transfers or reads would take no time.
    PartOfProfile {
        /// The tier's name.
        tier: String,
        /// Its directory.
        directory: std::path::PathBuf,
        /// The figure's name.
        figure: &'static str,
    },
    /// A name is none of a tier's.
    NoTier {
        /// The name.
        name: String,
        /// The names of the tiers.
        known: Vec<String>,
    },
    /// A name is that of a tier already.
    SameName(String),
    /// A device is not described as it has to be.
    Device(String),
    /// A profile is no preset and no table of figures.
    Profile(String),
    /// The store has no table.
    NoTables,
    /// The store has answered too few requests since it was opened.
    NoTraffic {
        /// Their number.
        requests: u64,
    },
    /// No placement fits into the capacities.
    NothingFits {
        /// Bytes of all levels.
        bytes: u64,
    },
}

/// The result of an advice.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoProfile { tier, .. } => write!(f, "the tier {tier:?} has no profile"),
            Error::PartOfProfile { tier, figure, .. } => {
                write!(f, "the profile of the tier {tier:?} has no {figure}")
            }
            Error::NoTier { name, known } => {
                write!(
                    f,
                    "there is no tier {name:?}; there are {}",
                    known.join(", ")
                )
            }
            Error::SameName(name) => write!(f, "there is a tier {name:?} already"),
            Error::Device(text) => write!(
                f,
                "{text:?} is no device: NAME=PRESET:CAPACITY[:PRICE_PER_GB] is expected, such as \
                 disk=wd10ezex:1TiB or flash=850-pro:512GiB:0.30"
            ),
            Error::Profile(reason) => write!(f, "{reason}"),
            Error::NoTables => write!(f, "the store has no table, so there is nothing to place"),
            Error::NoTraffic { requests } => write!(
                f,
                "the store has answered {requests} requests since it was opened, which say nothing \
                 about its load"
            ),
            Error::NothingFits { bytes } => {
                write!(f, "no tiers take the levels of {bytes} bytes in all")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Returns the next step.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoProfile { tier, directory }
            | Error::PartOfProfile {
                tier, directory, ..
            } => format!(
                "run terrace tier probe {} and put its figures into the options of the tier, or give \
                 --profile {tier}=PRESET or {tier}=FILE",
                directory.display()
            ),
            Error::NoTraffic { .. } => {
                "ask while a program serves the store under its load, or give \
                 --traffic FILE with the output of terrace stats --json from there"
                    .to_owned()
            }
            Error::NoTables => "flush the store first: terrace flush".to_owned(),
            Error::NothingFits { .. } => {
                "add a device with more room: --device NAME=PRESET:CAPACITY".to_owned()
            }
            _ => return None,
        })
    }
}
