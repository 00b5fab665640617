//! A profile read back from a file.

use serde_json::Value;
use terrace_storage::DeviceProfile;

/// The line in a report or in a file of options behind which a profile stands.
const HEAD: &str = "[tiers.profile]";

/// Reads a profile: from a report of `terrace tier probe`, as text or as JSON, or from the figures alone, as
/// JSON or TOML. `Err` says what is wrong, and belongs behind the name of the file.
///
/// ```
/// use terrace_storage::DeviceProfile;
/// use terrace_tools::probe::{read_profile, toml};
/// let qlc = DeviceProfile::QLC;
/// assert_eq!(read_profile(&toml(&qlc)), Ok(qlc));
/// ```
///
/// # Errors
/// The text is neither, a figure is unknown or no number from 0 on, or the read latency is missing.
pub fn read_profile(text: &str) -> std::result::Result<DeviceProfile, String> {
    let profile = match text.trim_start().starts_with('{') {
        true => of_json(text)?,
        false => of_toml(text)?,
    };
    if DeviceProfile::of_figures(profile.figures()).is_none() {
        return Err("a figure is no number from 0 on".to_owned());
    }
    match profile.read_latency_us > 0.0 {
        true => Ok(profile),
        false => Err("it has no read_latency_us, which gives tiers their order".to_owned()),
    }
}

fn of_json(text: &str) -> std::result::Result<DeviceProfile, String> {
    let mut read: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // A report has the profile beside its figures, and none where it measured memory.
    let profile = match read.get_mut("profile").map(Value::take) {
        Some(Value::Null) => {
            return Err("the report has no profile: its figures are those of memory".to_owned());
        }
        Some(profile) => profile,
        None => read,
    };
    serde_json::from_value(profile).map_err(|error| error.to_string())
}

fn of_toml(text: &str) -> std::result::Result<DeviceProfile, String> {
    let lines = text.lines().map(str::trim);
    let mut behind_head = lines.clone().skip_while(|line| *line != HEAD);
    let figures: Vec<&str> = match behind_head.next() {
        Some(_) => behind_head
            .take_while(|line| !line.is_empty() && !line.starts_with('['))
            .collect(),
        None => lines.collect(),
    };
    toml::from_str(&figures.join("\n")).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe;

    const PROFILE: DeviceProfile = DeviceProfile::WD10EZEX;

    #[test]
    fn a_profile_comes_back_from_reports_and_from_figures_alone() {
        let table = probe::toml(&PROFILE);
        let figures = table.strip_prefix("[tiers.profile]\n").unwrap();
        let object = serde_json::to_string(&PROFILE).unwrap();
        for text in [
            table.clone(),
            figures.to_owned(),
            format!("/mnt: ext4, a file of 1.0 GiB\n\nsync  1\n\n{table}\nA guess: of the known\n"),
            format!("[[tiers]]\nname = \"disk\"\n\n{table}[default_keyspace]\nblock_bytes = 1\n"),
            object.clone(),
            format!("{{\"medium\":\"device\",\"profile\":{object}}}"),
        ] {
            assert_eq!(read_profile(&text), Ok(PROFILE), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no read_latency_us"),
            ("{}", "no read_latency_us"),
            ("{", "EOF"),
            ("{\"profile\":null}", "those of memory"),
            ("read_latency_us = -1", "no number from 0 on"),
            ("read_latency_us = \"fast\"", "invalid type"),
            ("latency = 3", "unknown field `latency`"),
            ("{\"profile\":{\"speed\":3}}", "unknown field `speed`"),
            ("/mnt: ext4, a file", ""),
        ] {
            let refused = read_profile(text).unwrap_err();
            assert!(refused.contains(reason), "{text:?}: {refused}");
        }
    }
}
