//! A contestant's own options, from `--set NAME.OPTION=VALUE`.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use terrace_bench::settings::Settings;

/// An option that a contestant accepts, and what its value means.
pub type Accepted = (&'static str, &'static str);

/// The options given to one contestant, all of them known to it.
pub struct OwnOptions<'a> {
    contestant: &'static str,
    accepted: &'static [Accepted],
    settings: &'a Settings,
}

impl<'a> OwnOptions<'a> {
    /// Refuses what the contestant does not know, so that a misspelt option is not silently lost.
    pub fn of(
        contestant: &'static str,
        accepted: &'static [Accepted],
        settings: &'a Settings,
    ) -> Result<Self, OwnOptionError> {
        let known = |option: &String| accepted.iter().any(|(name, _)| name == option);
        match settings.own.keys().find(|option| !known(option)) {
            Some(option) => Err(OwnOptionError::Unknown {
                contestant,
                option: option.clone(),
                accepted,
            }),
            None => Ok(OwnOptions {
                contestant,
                accepted,
                settings,
            }),
        }
    }

    /// The option's value, or `otherwise` if it was not given.
    pub fn or<T: FromStr>(&self, option: &str, otherwise: T) -> Result<T, OwnOptionError> {
        let Some(value) = self.settings.own.get(option) else {
            return Ok(otherwise);
        };
        value.parse().map_err(|_| OwnOptionError::Value {
            contestant: self.contestant,
            option: option.to_string(),
            value: value.clone(),
            meaning: self.meaning(option),
        })
    }

    fn meaning(&self, option: &str) -> &'static str {
        let found = self.accepted.iter().find(|(name, _)| *name == option);
        found.map_or("", |(_, meaning)| meaning)
    }
}

/// Why an own option was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum OwnOptionError {
    /// No option of that name.
    Unknown {
        contestant: &'static str,
        option: String,
        accepted: &'static [Accepted],
    },
    /// Not a value of that option.
    Value {
        contestant: &'static str,
        option: String,
        value: String,
        meaning: &'static str,
    },
}

impl fmt::Display for OwnOptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnOptionError::Unknown {
                contestant,
                option,
                accepted,
            } => {
                write!(formatter, "{contestant} has no option {option:?}; it has")?;
                if accepted.is_empty() {
                    write!(formatter, " none")?;
                }
                for (position, (name, meaning)) in accepted.iter().enumerate() {
                    let separator = if position == 0 { "" } else { "," };
                    write!(formatter, "{separator} {name} ({meaning})")?;
                }
                Ok(())
            }
            OwnOptionError::Value {
                contestant,
                option,
                value,
                meaning,
            } => write!(
                formatter,
                "{value:?} is no value of {contestant}.{option} ({meaning})"
            ),
        }
    }
}

impl Error for OwnOptionError {}
