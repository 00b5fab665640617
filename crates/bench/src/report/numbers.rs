//! Numbers for people: three digits that count, and a unit where it is not in the row's name.

use super::quantities::Unit;

/// Writes a value in its unit.
pub fn text(unit: Unit, value: f64) -> String {
    let (scaled, suffix) = scale(unit, value, value);
    digits(scaled) + suffix
}

/// Writes two values in the unit of the greater: `401..420k`.
pub fn range(unit: Unit, least: f64, most: f64) -> String {
    let (low, suffix) = scale(unit, least, most);
    let (high, _) = scale(unit, most, most);
    format!("{}..{}{suffix}", digits(low), digits(high))
}

/// Returns the divisor of a row of values by which the least of them reads well, and the row's name
/// with the resulting unit: `insert p50, us`.
pub fn row(unit: Unit, label: &str, least: f64) -> (f64, String) {
    let (scaled, suffix) = scale(unit, least, least);
    let divisor = if scaled > 0.0 { least / scaled } else { 1.0 };
    let label = match (unit, suffix.trim()) {
        (_, "") => label.into(),
        (Unit::PerSecond, prefix) => format!("{prefix}{label}"),
        (_, suffix) => format!("{label}, {suffix}"),
    };
    (divisor, label)
}

/// Scales `value` as `by` would be.
fn scale(unit: Unit, value: f64, by: f64) -> (f64, &'static str) {
    let steps: &[(f64, &'static str)] = match unit {
        Unit::PerSecond => &[(1e9, "G"), (1e6, "M"), (1e3, "k")],
        Unit::Microseconds => &[(1e6, " s"), (1e3, " ms"), (1.0, " us"), (1e-3, " ns")],
        Unit::Bytes => &[(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB")],
        Unit::Seconds => &[(0.0, " s")],
        Unit::MegabytesPerSecond => &[(0.0, " MB/s")],
        Unit::Ratio => &[],
    };
    let plain = match unit {
        Unit::Bytes => " B",
        Unit::Microseconds => " us",
        _ => "",
    };
    match steps.iter().find(|(from, _)| by.abs() >= *from) {
        Some((from, suffix)) if *from > 0.0 => (value / from, suffix),
        Some((_, suffix)) => (value, suffix),
        None => (value, plain),
    }
}

/// Writes three digits that count; more only before the point.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Writes a whole number with its thousands apart: `1 000 000`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        assert_eq!(text(Unit::PerSecond, 412_345.0), "412k");
        assert_eq!(text(Unit::PerSecond, 4123.0), "4.12k");
        assert_eq!(text(Unit::PerSecond, 999.0), "999");
        assert_eq!(text(Unit::Microseconds, 0.25), "250 ns");
        assert_eq!(text(Unit::Microseconds, 12.34), "12.3 us");
        assert_eq!(text(Unit::Microseconds, 1_234_567.0), "1.23 s");
        assert_eq!(text(Unit::Microseconds, 0.0), "0 us");
        assert_eq!(text(Unit::Bytes, 512.0), "512 B");
        assert_eq!(text(Unit::Bytes, 268_435_456.0), "268 MB");
        assert_eq!(text(Unit::Ratio, 0.012_34), "0.012");
        assert_eq!(text(Unit::Seconds, 3.0), "3.00 s");
        assert_eq!(text(Unit::MegabytesPerSecond, 99.99), "100 MB/s");
    }

    #[test]
    fn a_range_has_the_unit_of_its_greater_end() {
        assert_eq!(range(Unit::PerSecond, 999.0, 1500.0), "1.00..1.50k");
        assert_eq!(range(Unit::Microseconds, 900.0, 1100.0), "0.90..1.10 ms");
    }

    #[test]
    fn a_row_has_the_unit_of_its_least_value() {
        let named = |unit, least| row(unit, "x", least);
        assert_eq!(named(Unit::PerSecond, 5000.0), (1000.0, "kx".into()));
        assert_eq!(named(Unit::Microseconds, 900.0), (1.0, "x, us".into()));
        assert_eq!(named(Unit::Microseconds, 0.0), (1.0, "x, us".into()));
        assert_eq!(named(Unit::Ratio, 2.0), (1.0, "x".into()));
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }
}
