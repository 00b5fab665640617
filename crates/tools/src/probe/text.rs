//! A profile as TOML, for a file of options.

use terrace_storage::DeviceProfile;

/// Returns a profile as TOML: the table `profile` of the last tier in a file of options. Measured figures
/// have three digits, since a second measurement would differ in the others.
pub fn toml(profile: &DeviceProfile) -> String {
    let lines = [
        (
            "read_bytes_per_second",
            rounded(profile.read_bytes_per_second),
        ),
        (
            "write_bytes_per_second",
            rounded(profile.write_bytes_per_second),
        ),
        ("read_latency_us", rounded(profile.read_latency_us)),
        (
            "queued_read_latency_us",
            rounded(profile.queued_read_latency_us),
        ),
        ("sync_latency_us", rounded(profile.sync_latency_us)),
        ("price_per_gb", profile.price_per_gb),
        ("endurance_writes", profile.endurance_writes),
    ];
    let lines = lines.map(|(name, value)| format!("{name} = {value}\n"));
    format!("[tiers.profile]\n{}", lines.concat())
}

/// Rounds to three digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use toml::Table;

    use super::*;

    #[test]
    fn a_profile_is_toml_with_three_digits() {
        let profile = DeviceProfile {
            read_bytes_per_second: 3_141_592_653.5,
            write_bytes_per_second: 99_960_000.0,
            read_latency_us: 71.2849,
            queued_read_latency_us: 0.123456,
            sync_latency_us: 12_345.6,
            price_per_gb: 0.07125,
            endurance_writes: 0.0,
        };
        assert_eq!(
            toml(&profile),
            "[tiers.profile]\n\
             read_bytes_per_second = 3140000000\n\
             write_bytes_per_second = 100000000\n\
             read_latency_us = 71.3\n\
             queued_read_latency_us = 0.123\n\
             sync_latency_us = 12300\n\
             price_per_gb = 0.07125\n\
             endurance_writes = 0\n"
        );
    }

    /// The table belongs to the tier above it, and every value is a number.
    #[test]
    fn the_table_goes_behind_a_tier() {
        let profile = DeviceProfile::NVME_960_PRO;
        let text = format!(
            "[[tiers]]\npath = \"/a\"\n\n[[tiers]]\npath = \"/b\"\n{}",
            toml(&profile)
        );
        let read: Table = text.parse().unwrap();
        let tiers = read["tiers"].as_array().unwrap();
        assert!(tiers[0].get("profile").is_none());
        let found = tiers[1]["profile"].as_table().unwrap();
        assert_eq!(found.len(), 7);
        let number = |name: &str| f64::deserialize(found[name].clone()).unwrap();
        assert_eq!(number("read_bytes_per_second"), 3.5e9);
        assert_eq!(number("price_per_gb"), profile.price_per_gb);
        assert_eq!(number("endurance_writes"), profile.endurance_writes);
    }
}
