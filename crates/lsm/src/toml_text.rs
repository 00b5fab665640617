//! Settings as TOML, and the reason on one line why a text is none.

use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace_storage::Escaped;

use crate::debug_expect::DebugExpect;
use crate::{Error, Result};

/// Reads settings from TOML.
///
/// # Errors
/// [`Error::InvalidArgument`], naming the line, the option and the values that it accepts.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| Error::invalid(toml_refusal(text, &error)))
}

/// Writes settings as TOML.
///
/// # Errors
/// [`Error::InvalidArgument`] for a value that TOML has no form for.
pub fn write(settings: &impl Serialize) -> Result<String> {
    toml::to_string(settings)
        .map_err(|error| Error::invalid(format!("the options cannot be TOML: {error}")))
}

/// Returns the place, the line there and the reason. The error's own text has several lines, in
/// which a hostile file could write some of its own.
pub fn toml_refusal(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else {
        // It names the option instead, on a line of its own.
        let lines: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
        return Escaped::message(&lines.join(", ")).to_string();
    };
    let number = before.matches('\n').count();
    let begun = before
        .rsplit('\n')
        .next()
        .debug_expect("a text has a last line");
    let line = text
        .split('\n')
        .nth(number)
        .debug_expect("the text has the line")
        .trim();
    format!(
        "line {}, column {}, `{}`: {}",
        number + 1,
        begun.chars().count() + 1,
        Escaped::message(line),
        Escaped::message(error.message())
    )
}
