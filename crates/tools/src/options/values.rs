//! Accepted values in words.

use terrace_lsm::option_table::Values;

/// Returns the values in words.
pub(super) fn words(values: &Values) -> String {
    match *values {
        Values::Boolean => "true or false".into(),
        Values::Name(names) => format!("one of {}", quoted(names)),
        Values::Names(names) => format!("a list of {}", quoted(names)),
        Values::Whole {
            unit,
            min,
            max,
            step,
        } => {
            let number = |number: u64| match are_sizes(values) {
                true => size(number),
                false => number.to_string(),
            };
            let range = match max {
                u64::MAX => format!("{unit}, from {}", number(min)),
                _ => format!("{unit}, from {} to {}", number(min), number(max)),
            };
            match step {
                1 => range,
                _ => format!("{range}, in multiples of {}", number(step)),
            }
        }
        Values::Decimal { min, max } => format!("from {min} to {max}"),
        Values::Other(words) => words.into(),
    }
}

/// Returns whether values are a number of bytes.
pub(super) fn are_sizes(values: &Values) -> bool {
    matches!(values, Values::Whole { unit, .. } if unit.starts_with("bytes"))
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    quoted.join(", ")
}

/// Returns a number of bytes in the largest unit that divides it.
pub(super) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.trailing_zeros() / 10) as usize;
    match power.min(units.len()) {
        at @ 1.. if bytes > 0 => {
            let unit = units.get(at - 1).unwrap_or(&"B");
            format!("{} {unit}", bytes >> (10 * at))
        }
        _ if bytes > 0 => format!("{bytes} B"),
        _ => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_unit_that_divides_it() {
        assert_eq!(size(0), "0");
        assert_eq!(size(100), "100 B");
        assert_eq!(size(64 << 10), "64 KiB");
        assert_eq!(size(1536), "1536 B");
        assert_eq!(size(3 << 29), "1536 MiB");
        assert_eq!(size(1 << 60), "1 EiB");
    }
}
