//! Devices that a store does not have, and profiles by name.

use std::str::FromStr;

use terrace_lsm::byte_size;
use terrace_storage::DeviceProfile;

use super::{Error, Result};

/// A device that a store could have.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The name of its tier.
    pub name: String,
    /// Its speed and price.
    pub profile: DeviceProfile,
    /// Maximum bytes of the tables there.
    pub capacity_bytes: u64,
}

impl FromStr for Device {
    type Err = Error;

    /// Takes the form `NAME=PRESET:CAPACITY[:PRICE_PER_GB]`.
    fn from_str(text: &str) -> Result<Device> {
        let wrong = || Error::Device(text.to_owned());
        let (name, described) = text.split_once('=').ok_or_else(wrong)?;
        if !terrace_lsm::keyspace_options::is_tier_name(name) {
            return Err(wrong());
        }
        let mut parts = described.split(':');
        let mut profile = profile_of(parts.next().ok_or_else(wrong)?)?;
        let capacity = parts.next().ok_or_else(wrong)?;
        let capacity_bytes = byte_size::parse(capacity).filter(|bytes| *bytes > 0);
        if let Some(price) = parts.next() {
            let price = price.parse().ok();
            profile.price_per_gb = price
                .filter(|price| (0.0..=1e12).contains(price))
                .ok_or_else(wrong)?;
        }
        match (capacity_bytes, parts.next()) {
            (Some(capacity_bytes), None) => Ok(Device {
                name: name.to_owned(),
                profile,
                capacity_bytes,
            }),
            _ => Err(wrong()),
        }
    }
}

/// Returns the profile of a preset, in any case.
///
/// # Errors
/// [`Error::Profile`] with the names of all presets.
pub fn profile_of(name: &str) -> Result<DeviceProfile> {
    DeviceProfile::named(&name.to_lowercase()).ok_or_else(|| {
        let known = DeviceProfile::PRESETS.map(|(known, _)| known).join(", ");
        Error::Profile(format!("there is no preset {name:?}; there are {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_a_name_a_preset_a_capacity_and_a_price() {
        let device: Device = "disk=WD10EZEX:1TiB".parse().unwrap();
        assert_eq!(device.name, "disk");
        assert_eq!(device.profile, DeviceProfile::WD10EZEX);
        assert_eq!(device.capacity_bytes, 1 << 40);
        let device: Device = "flash=qlc:512GiB:0.05".parse().unwrap();
        assert_eq!(device.profile.price_per_gb, 0.05);
        for wrong in [
            "disk",
            "=qlc:1GiB",
            "a b=qlc:1GiB",
            "disk=qlc",
            "disk=qlc:0",
            "disk=qlc:1GB",
            "disk=qlc:1GiB:",
            "disk=qlc:1GiB:-1",
            "disk=qlc:1GiB:NaN",
            "disk=qlc:1GiB:1:2",
        ] {
            let refused = wrong.parse::<Device>().unwrap_err();
            assert_eq!(refused, Error::Device(wrong.to_owned()));
        }
        let refused = "disk=floppy:1GiB".parse::<Device>().unwrap_err();
        assert!(
            refused.to_string().contains("wd10ezex, 850-pro, qlc"),
            "{refused}"
        );
    }
}
