//! Options as TOML with comments, and one option as lines.

use std::fmt;

use terrace::offline::check_options;
use terrace::{Options, Result};

use super::values::size;
use super::{Applies, DescribedOption, OptionOwner, described, meaning};

const HEAD: &str = "\
# Options of a store. Options that are not set have an example behind a \"#\".
# Sizes are in bytes, or texts such as \"64MiB\". An option that is left out has its default.
";

/// Returns the options of a store with their defaults, as `Options::from_toml` reads them. Comments
/// give description, accepted values and moment of a change.
///
/// # Errors
/// [`Error::InvalidArgument`](terrace::Error::InvalidArgument) for values that TOML has no form for;
/// today there is none.
pub fn toml() -> Result<String> {
    toml_within(None)
}

/// Returns the same for a store whose memory is bounded, with the sizes that follow from the bound.
///
/// # Errors
/// As [`toml()`], and for a bound that is too small.
pub fn toml_within(memory_bytes: Option<u64>) -> Result<String> {
    let options = Options {
        memory_bytes,
        ..Options::default()
    };
    check_options(&options)?;
    let mut text = HEAD.to_owned();
    let mut group = "";
    for option in described(&options.resolved()?)? {
        let of_option = option.group().unwrap_or_default();
        if of_option != group {
            group = of_option;
            text += &format!("\n[{group}]\n");
        }
        text += &lines(&option);
    }
    Ok(text)
}

/// Returns the lines of an option: two comments, and the name with its value.
fn lines(option: &DescribedOption) -> String {
    let name = option.own_name();
    let line = match (&option.default, option.example) {
        (Some(value), _) => format!("{name} = {value}"),
        (None, example) => format!("# {name} = {}", example.unwrap_or_default()),
    };
    let note = match (&option.default, option.default_note) {
        (None, Some(note)) => format!("# Not set: {note}.\n"),
        (Some(_), Some(note)) => format!("# Default: {note}.\n"),
        _ => String::new(),
    };
    let DescribedOption {
        description,
        values,
        applies,
        ..
    } = option;
    format!("\n# {description}.\n# Values: {values}. A change applies: {applies}.\n{note}{line}\n")
}

impl DescribedOption {
    /// Returns the default in a larger unit than bytes, where one divides it.
    pub(super) fn default_size(&self) -> Option<String> {
        let value = self.default.as_ref().filter(|_| self.is_size)?;
        let size = size(value.parse().ok()?);
        size.ends_with("iB").then_some(size)
    }
}

impl fmt::Display for DescribedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (option of a {})", self.name, self.of)?;
        writeln!(f, "  {}", self.description)?;
        writeln!(f, "  values   {}", self.values)?;
        write!(
            f,
            "  default  {}",
            self.default.as_deref().unwrap_or("not set")
        )?;
        if let Some(size) = self.default_size() {
            write!(f, " ({size})")?;
        }
        match self.default_note {
            Some(note) => writeln!(f, ": {note}")?,
            None => writeln!(f)?,
        }
        if let Some(example) = self.example {
            writeln!(f, "  example  {} = {example}", self.name)?;
        }
        let meaning = match (self.of, self.applies) {
            (OptionOwner::Store, Applies::NextTable) => {
                "tables written after the next opening have the new value, older tables keep theirs"
            }
            (_, applies) => meaning(applies),
        };
        writeln!(f, "  applies  {}: {meaning}", self.applies)
    }
}
