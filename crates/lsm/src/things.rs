//! Counts of things in a text: "1 table", "2 tables".

use std::fmt;

/// Displays a number with its noun in singular or plural.
pub struct Things {
    number: u64,
    one: &'static str,
}

/// Returns the display of `number` things, each of which is a `one`.
pub fn things(number: impl TryInto<u64>, one: &'static str) -> Things {
    let number = number.try_into().unwrap_or(u64::MAX);
    Things { number, one }
}

impl fmt::Display for Things {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Things { number, one } = self;
        match one.strip_suffix("ry") {
            _ if *number == 1 => write!(f, "1 {one}"),
            Some(stem) => write!(f, "{number} {stem}ries"),
            None => write!(f, "{number} {one}s"),
        }
    }
}

/// Displays numbers behind their noun: "table 3", "tables 3, 4".
pub struct Numbered<'a, N>(pub &'static str, pub &'a [N]);

impl<N: fmt::Display> fmt::Display for Numbered<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbered(one, numbers) = self;
        let plural = if numbers.len() == 1 { "" } else { "s" };
        write!(f, "{one}{plural}")?;
        for (position, number) in numbers.iter().enumerate() {
            let separator = if position == 0 { " " } else { ", " };
            write!(f, "{separator}{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!(things(1_u64, "table").to_string(), "1 table");
        assert_eq!(things(0_usize, "table").to_string(), "0 tables");
        assert_eq!(things(1_u8, "entry").to_string(), "1 entry");
        assert_eq!(things(2_u64, "entry").to_string(), "2 entries");
        assert_eq!(things(2_u64, "key").to_string(), "2 keys");
    }

    #[test]
    fn numbers_stand_behind_their_noun() {
        assert_eq!(Numbered("table", &[3]).to_string(), "table 3");
        assert_eq!(Numbered("level", &[0, 1]).to_string(), "levels 0, 1");
    }
}
