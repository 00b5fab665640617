//! Numbers and tables for people.

use std::time::Duration;

/// The text for a table that an opening kept.
pub const UNLISTED_TABLE: &str = "the table is whole, but not in the store; the dropped end of the \
    manifest may have listed it; `terrace repair --take-unlisted` takes it in";

/// Returns 34924 as 34,924.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns "1 table", "2 tables".
pub fn things(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// Returns bytes in the unit that leaves one to four digits before the point.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 1024.0 && units.len() > 0 {
        value /= 1024.0;
        unit = units.next();
    }
    format!("{value:.1} {}", unit.unwrap_or(&"KiB"))
}

/// Returns "levels 0, 1 into level 1".
pub fn levels(inputs: &[u8], output: u8) -> String {
    let numbers: Vec<String> = inputs.iter().map(u8::to_string).collect();
    let plural = if inputs.len() == 1 { "" } else { "s" };
    format!("level{plural} {} into level {output}", numbers.join(", "))
}

/// Returns the end of "renamed a to b", where the store's owner did it.
pub fn by_owners(by_owner: bool) -> &'static str {
    match by_owner {
        true => " by the store's owner",
        false => "",
    }
}

/// Returns things a second, rounded.
pub fn rate(number: u64, elapsed: Duration) -> String {
    count((number as f64 / elapsed.as_secs_f64().max(1e-6)) as u64)
}

/// Returns a rate for the end of a message. In a moment most of the time is the opening of the store,
/// and then there is none.
pub fn rate_at_end(rows: u64, elapsed: Duration) -> String {
    match elapsed < Duration::from_secs(1) {
        true => String::new(),
        false => format!(", {} rows/s", rate(rows, elapsed)),
    }
}

/// Lines of a name and a value, under headings.
#[derive(Default)]
pub struct Sections(String);

impl Sections {
    pub fn heading(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(name);
        self.0.push('\n');
    }

    pub fn line(&mut self, name: &str, value: impl AsRef<str>) {
        self.0
            .push_str(&format!("  {name:<24} {}\n", value.as_ref()));
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        let shown = [0, 7, 999, 1000, 34_924, 1_234_567].map(count);
        assert_eq!(shown, ["0", "7", "999", "1,000", "34,924", "1,234,567"]);
    }

    #[test]
    fn a_moment_has_no_rate() {
        let shown = [0, 999, 1000, 2500].map(Duration::from_millis);
        let shown = shown.map(|elapsed| rate_at_end(5000, elapsed));
        assert_eq!(shown, ["", "", ", 5,000 rows/s", ", 2,000 rows/s"]);
    }

    #[test]
    fn bytes_find_their_unit() {
        let shown = [0, 1023, 1024, 1536, 1 << 20, (1 << 30) - 1, u64::MAX].map(bytes);
        assert_eq!(
            shown,
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "1.5 KiB",
                "1.0 MiB",
                "1024.0 MiB",
                "16384.0 PiB"
            ]
        );
    }
}
