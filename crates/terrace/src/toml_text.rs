//! Settings as TOML, and the reason on one line why a text is none.

use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace_storage::Escaped;

use crate::{Error, Result};

/// Reads settings from TOML.
///
/// # Errors
/// [`Error::InvalidArgument`], naming the line, the option and the values that it accepts.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| Error::invalid(toml_refusal(text, &error)))
}

/// Writes settings as TOML.
///
/// # Errors
/// [`Error::InvalidArgument`] for a value that TOML has no form for.
pub(crate) fn write(settings: &impl Serialize) -> Result<String> {
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
    let begun = before.rsplit('\n').next().unwrap_or_default();
    let line = text.split('\n').nth(number).unwrap_or_default().trim();
    format!(
        "line {}, column {}, `{}`: {}",
        number + 1,
        begun.chars().count() + 1,
        Escaped::message(line),
        Escaped::message(error.message())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let error = toml::from_str::<crate::Options>(text).unwrap_err();
        toml_refusal(text, &error)
    }

    #[test]
    fn a_refusal_names_place_and_line() {
        let text = "max_arenas = 3\nlevel_ratio = \"10\"\n";
        assert_eq!(
            refusal(text),
            "line 2, column 15, `level_ratio = \"10\"`: invalid type: string \"10\", expected u64"
        );
    }

    #[test]
    fn a_refusal_is_one_line_whatever_the_file_holds() {
        for text in [
            "\"a\\nerror: b\" = 1",
            "level_ratio = ",
            "a\u{202e}\x07 = \n1",
            "\r",
        ] {
            let refusal = refusal(text);
            let is_shown = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(refusal.chars().all(is_shown), "{refusal:?}");
        }
    }
}
