//! The price of requests: of the devices' bytes for the time that they last, and of their wear.

use super::devices::Device;
use super::run::{DeviceTraffic, Run};

/// Years after which a device is replaced even if it is not worn out.
pub const DEVICE_YEARS: f64 = 5.0;
const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// Returns the price of a million requests at the throughput of a run, in the currency of the profiles. Its bytes
/// are those of the paper's data, of which the run has the share `scale`.
pub fn price_per_million(run: &Run, scale: f64) -> f64 {
    let per_second: f64 = run
        .devices
        .iter()
        .map(|device| price_per_second(run, device, scale))
        .sum();
    match run.per_second > 0.0 {
        true => per_second / run.per_second * 1e6,
        false => 0.0,
    }
}

/// Returns the price of a device's tables for each second that the device lasts.
fn price_per_second(run: &Run, device: &DeviceTraffic, scale: f64) -> f64 {
    let mut known = Device::ALL.into_iter();
    let Some(known) = known.find(|known| known.name() == device.name) else {
        return 0.0;
    };
    let profile = known.profile();
    let stored_bytes = device.stored_bytes as f64 / scale;
    let written = device.written_bytes() as f64 / run.requests.max(1) as f64;
    let writes_per_year = written * run.per_second * SECONDS_PER_YEAR / stored_bytes.max(1.0);
    let years = match profile.endurance_writes > 0.0 && writes_per_year > 0.0 {
        true => (profile.endurance_writes / writes_per_year).min(DEVICE_YEARS),
        false => DEVICE_YEARS,
    };
    stored_bytes / 1e9 * profile.price_per_gb / (years * SECONDS_PER_YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, flushed_bytes: u64) -> Run {
        Run {
            requests: 1_000,
            per_second: 1_000.0,
            devices: vec![DeviceTraffic {
                name: name.into(),
                stored_bytes: 1_000_000_000,
                flushed_bytes,
                ..DeviceTraffic::default()
            }],
            ..Run::default()
        }
    }

    #[test]
    fn a_price_is_that_of_the_bytes_until_wear_ends_the_device() {
        // A gigabyte for five years, 1,000 requests a second.
        let years = DEVICE_YEARS * SECONDS_PER_YEAR;
        let of_bytes = 0.45 / years / 1_000.0 * 1e6;
        assert!((price_per_million(&run("ssd", 0), 1.0) / of_bytes - 1.0).abs() < 1e-9);
        // The scale counts for the bytes.
        let larger = price_per_million(&run("ssd", 0), 0.01);
        assert!((larger / of_bytes - 100.0).abs() < 1e-6);
        // 586 GB may be written: at 37 kB a second that takes half a year.
        let written = (586e9 / (SECONDS_PER_YEAR / 2.0)) as u64;
        let worn = price_per_million(&run("ssd", written), 1.0);
        assert!((worn / of_bytes - 10.0).abs() < 0.01, "{}", worn / of_bytes);
        // A hard disk does not wear.
        assert_eq!(
            price_per_million(&run("hdd", written), 1.0),
            price_per_million(&run("hdd", 0), 1.0)
        );
    }
}
