//! Options of stores and keyspaces for people: a reference, TOML with comments, one entry. All of it
//! comes from the tables of options in the engine.
//!
//! ```
//! use terrace_tools::options::{find, toml};
//!
//! let ratios = find("level_ratio")?;
//! assert_eq!(ratios[0].name, "default_keyspace.level_ratio");
//! assert_eq!(ratios[0].values, "times, from 2 to 1000");
//! assert_eq!(ratios[0].default.as_deref(), Some("10"));
//! // Stores read the text with all comments.
//! terrace::Options::from_toml(&toml()?)?;
//! # Ok::<(), terrace::Error>(())
//! ```

mod near;
mod reference;
mod text;
mod values;

use std::fmt;

use serde::Serialize;
use terrace::offline::option_tables::{DEFAULT_KEYSPACE, READ_BUFFER, STORE};
use terrace::{Error, KeyspaceOptions, Options, Result};
use terrace_lsm::keyspace_options::table::KEYSPACE;
pub use terrace_lsm::option_table::Applies;
use terrace_lsm::option_table::{DefaultValue, OptionEntry};
use toml::{Table, Value};

pub use self::near::near;
pub use self::reference::reference;
pub use self::text::{toml, toml_within};
pub use terrace_lsm::byte_size::parse as size;

/// Owner of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OptionOwner {
    /// A store: a field of [`Options`].
    Store,
    /// A keyspace: a field of [`KeyspaceOptions`].
    Keyspace,
}

impl fmt::Display for OptionOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OptionOwner::Store => "store",
            OptionOwner::Keyspace => "keyspace",
        })
    }
}

/// Returns a moment in a sentence.
fn meaning(applies: Applies) -> &'static str {
    match applies {
        Applies::Live => "the open store goes by the new value",
        Applies::NextTable => {
            "tables written from then on have the new value, older tables keep theirs"
        }
        Applies::AtOpen => "the next opening takes the new value",
    }
}

/// An option of a store or of a keyspace.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DescribedOption {
    /// Owner of the option.
    pub of: OptionOwner,
    /// Name in TOML, with the name of its group before a dot.
    pub name: &'static str,
    /// Description in one line.
    pub description: &'static str,
    /// Accepted values, in words.
    pub values: String,
    /// Default on this machine, as TOML. `None` for an option that is not set.
    #[serde(skip)]
    pub default: Option<String>,
    /// The default as data.
    #[serde(rename = "default")]
    value: Option<Value>,
    /// Rule that gives the default on any machine, or the behaviour where the option is not set.
    pub default_note: Option<&'static str>,
    /// Value as TOML, for an option that is not set.
    pub example: Option<&'static str>,
    /// Moment from which a change applies.
    pub applies: Applies,
    /// Whether its values are bytes.
    #[serde(skip)]
    is_size: bool,
}

impl DescribedOption {
    fn new(of: OptionOwner, entry: &'static OptionEntry, defaults: &Table) -> Self {
        let (default_note, example) = match entry.default {
            DefaultValue::Constant => (None, None),
            DefaultValue::OfMachine(words) => (Some(words), None),
            DefaultValue::Unset { meaning, example } => (Some(meaning), Some(example)),
        };
        let value = value_of(defaults, entry.name);
        DescribedOption {
            of,
            name: entry.name,
            description: entry.description,
            values: values::words(&entry.values),
            default: value.map(Value::to_string),
            value: value.cloned(),
            default_note,
            example,
            applies: entry.applies,
            is_size: values::are_sizes(&entry.values),
        }
    }

    /// Returns the name of its group.
    pub(super) fn group(&self) -> Option<&'static str> {
        self.name.split_once('.').map(|(group, _)| group)
    }

    /// Returns the name within its group.
    fn own_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, own)| own)
    }
}

/// Returns a value by its name, with the name of its group before a dot.
fn value_of<'a>(table: &'a Table, name: &str) -> Option<&'a Value> {
    match name.split_once('.') {
        Some((group, own)) => value_of(table.get(group)?.as_table()?, own),
        None => table.get(name),
    }
}

/// Returns all settings of defaults, which are TOML.
fn parsed(defaults: &str) -> Result<Table> {
    let table = defaults.parse();
    table.map_err(|error| Error::invalid(format!("the defaults cannot be read: {error}")))
}

/// Returns the options of a store.
///
/// # Errors
/// [`Error::InvalidArgument`] for defaults that TOML has no form for; today there is none.
pub fn of_store() -> Result<Vec<DescribedOption>> {
    described(&Options::default())
}

/// Returns the options of a store with the values that `options` have in place of defaults.
fn described(options: &Options) -> Result<Vec<DescribedOption>> {
    let defaults = parsed(&options.to_toml()?)?;
    let entries = STORE.iter().chain(READ_BUFFER).chain(DEFAULT_KEYSPACE);
    let described = entries.map(|entry| DescribedOption::new(OptionOwner::Store, entry, &defaults));
    Ok(described.collect())
}

/// Returns the options of a keyspace.
///
/// # Errors
/// As [`of_store`].
pub fn of_keyspace() -> Result<Vec<DescribedOption>> {
    let defaults = parsed(&KeyspaceOptions::default().to_toml()?)?;
    let described = |entry| DescribedOption::new(OptionOwner::Keyspace, entry, &defaults);
    Ok(KEYSPACE.iter().map(described).collect())
}

/// Returns the options of a store, then those of a keyspace.
///
/// # Errors
/// As [`of_store`].
pub fn all() -> Result<Vec<DescribedOption>> {
    let mut options = of_store()?;
    options.extend(of_keyspace()?);
    Ok(options)
}

/// Returns the options of a store and of a keyspace with a name. An option of a group needs no group.
///
/// # Errors
/// As [`of_store`].
pub fn find(name: &str) -> Result<Vec<DescribedOption>> {
    let mut options = all()?;
    options.retain(|option| name == option.name || name == option.own_name());
    Ok(options)
}
