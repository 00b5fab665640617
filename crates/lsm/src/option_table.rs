//! Tables of options: one entry for each option of a store or a keyspace. Reference, TOML and help
//! come from the entries, and so do the ranges of the numbers that a caller names to
//! [`check_numbers`].

use std::fmt;

use crate::{Error, Result};

/// An option as reference, TOML and help show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionEntry {
    /// Name in TOML, with the name of its group before a dot.
    pub name: &'static str,
    /// Description in one line. The documentation of the field is longer.
    pub description: &'static str,
    /// Accepted values.
    pub values: Values,
    /// Origin of the default.
    pub default: DefaultValue,
    /// Moment from which a change applies.
    pub applies: Applies,
}

/// Values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// `true` and `false`.
    Boolean,
    /// One of these names.
    Name(&'static [&'static str]),
    /// A list of these names.
    Names(&'static [&'static str]),
    /// Whole numbers of a unit from `min` to `max`, multiples of `step`.
    Whole {
        /// The unit, as a noun in the plural. Empty where the name says it.
        unit: &'static str,
        /// The smallest number.
        min: u64,
        /// The largest number.
        max: u64,
        /// The divisor of all accepted numbers.
        step: u64,
    },
    /// Numbers from `min` to `max`.
    Decimal {
        /// The smallest number.
        min: f64,
        /// The largest number.
        max: f64,
    },
    /// Others, in words.
    Other(&'static str),
}

/// Origin of an option's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DefaultValue {
    /// A value that is the same on every machine.
    Constant,
    /// A value that depends on the machine, in words.
    OfMachine(&'static str),
    /// No value.
    Unset {
        /// The behaviour without a value.
        meaning: &'static str,
        /// A value in TOML.
        example: &'static str,
    },
}

/// Moment from which a change of an option applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Applies {
    /// The open store goes by the new value.
    #[cfg_attr(feature = "serde", serde(rename = "live"))]
    Live,
    /// Tables that are written from then on have the new value. Older tables keep theirs.
    #[cfg_attr(feature = "serde", serde(rename = "next table"))]
    NextTable,
    /// The next opening of the store takes the new value.
    #[cfg_attr(feature = "serde", serde(rename = "at open"))]
    AtOpen,
}

impl fmt::Display for Applies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Applies::Live => "live",
            Applies::NextTable => "next table",
            Applies::AtOpen => "at open",
        })
    }
}

/// Returns the values of an option that is a number of bytes.
pub const fn bytes(min: u64, max: u64) -> Values {
    whole("bytes", min, max)
}

/// Returns the values of an option that is a number of a unit.
pub const fn whole(unit: &'static str, min: u64, max: u64) -> Values {
    Values::Whole {
        unit,
        min,
        max,
        step: 1,
    }
}

impl OptionEntry {
    /// Returns an entry without a name, whose default is constant.
    /// [`option_table`](crate::option_table!) names it.
    pub const fn new(description: &'static str, values: Values, applies: Applies) -> Self {
        OptionEntry {
            name: "",
            description,
            values,
            default: DefaultValue::Constant,
            applies,
        }
    }

    /// Returns the entry of an option without a default.
    pub const fn unset(mut self, meaning: &'static str, example: &'static str) -> Self {
        self.default = DefaultValue::Unset { meaning, example };
        self
    }

    /// Returns the entry of an option whose default depends on the machine.
    pub const fn of_machine(mut self, words: &'static str) -> Self {
        self.default = DefaultValue::OfMachine(words);
        self
    }

    /// Returns the entry of the same option where a change applies at another moment.
    pub const fn applying(mut self, applies: Applies) -> Self {
        self.applies = applies;
        self
    }

    /// Refuses a whole number that the option does not accept. `min` may be above the smallest one of the
    /// table, where it depends on another option.
    pub fn check_whole(&self, value: u64, min: u64) -> Result<()> {
        let Values::Whole {
            min: least,
            max,
            step,
            ..
        } = self.values
        else {
            debug_assert!(false, "{} takes no whole number", self.name);
            return Ok(());
        };
        let name = self.name;
        check_ranges(&[(name, value, least.max(min), max)])?;
        if value.is_multiple_of(step) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{name} is {value}; it must be a multiple of {step}"
        )))
    }

    /// Refuses a number that the option does not accept.
    pub fn check_decimal(&self, value: f64) -> Result<()> {
        let Values::Decimal { min, max } = self.values else {
            debug_assert!(false, "{} takes no decimal number", self.name);
            return Ok(());
        };
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{} is {value}; it must be from {min} to {max}",
            self.name
        )))
    }
}

/// Refuses the first value outside of its range, both ends included.
pub fn check_ranges(ranges: &[(&str, u64, u64, u64)]) -> Result<()> {
    for &(name, value, least, most) in ranges {
        if value < least || value > most {
            return Err(Error::invalid(format!(
                "{name} is {value}; it must be from {least} to {most}"
            )));
        }
    }
    Ok(())
}

/// Refuses the first whole number that its option in a table does not accept.
pub fn check_numbers(table: &[OptionEntry], numbers: &[(&str, u64)]) -> Result<()> {
    numbers
        .iter()
        .try_for_each(|&(name, value)| check_number_from(table, name, value, 0))
}

/// Refuses a whole number that its option in a table does not accept, and one below `min`.
pub fn check_number_from(table: &[OptionEntry], name: &str, value: u64, min: u64) -> Result<()> {
    match entry(table, name) {
        Some(entry) => entry.check_whole(value, min),
        None => Ok(()),
    }
}

/// Returns the entry of an option, which the table has.
pub fn entry<'a>(table: &'a [OptionEntry], name: &str) -> Option<&'a OptionEntry> {
    let found = table.iter().find(|entry| entry.name == name);
    debug_assert!(found.is_some(), "{name} has an entry");
    found
}

/// Makes the table of a struct of options: an entry for each field. A field that is neither in the table
/// nor behind `without` does not compile. A field whose name in TOML is another one has that behind `as`.
#[macro_export]
macro_rules! option_table {
    (
        $(#[$about:meta])*
        $visibility:vis static $table:ident: $options:ident as $group:literal {
            $($field:ident $(as $name:literal)?: $entry:expr;)*
        } without { $($component:ident)* }
    ) => {
        $(#[$about])*
        $visibility static $table: &[$crate::option_table::OptionEntry] = &[
            $($crate::option_table::OptionEntry {
                name: $crate::option_table!(@name $group $field $($name)?),
                ..$entry
            },)*
        ];

        const _: fn(&$options) = |options| {
            let $options { $($field: _,)* $($component: _,)* } = options;
        };
    };
    (@name $group:literal $field:ident) => { concat!($group, stringify!($field)) };
    (@name $group:literal $field:ident $name:literal) => { concat!($group, $name) };
}
