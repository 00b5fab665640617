//! Known devices beside a measured one.

use terrace_storage::DeviceProfile;

/// A known device that resembles a measured one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resemblance {
    /// Its name among [`DeviceProfile::PRESETS`].
    pub preset: &'static str,
    /// Times that the figures of the two differ on average (the root mean square of logarithms); 1 if they
    /// are the same.
    pub factor: f64,
}

/// Returns the known device that resembles a profile most: the one at the least logarithmic distance. It is
/// a guess, and price and endurance do not count. `None` for a profile without a figure.
pub fn nearest(profile: &DeviceProfile) -> Option<Resemblance> {
    let resemblances = DeviceProfile::PRESETS
        .into_iter()
        .filter_map(|(preset, known)| {
            Some(Resemblance {
                preset,
                factor: factor(profile, &known)?,
            })
        });
    resemblances.min_by(|one, other| one.factor.total_cmp(&other.factor))
}

/// Returns the figures that are measured.
fn figures(profile: &DeviceProfile) -> [f64; 5] {
    [
        profile.read_bytes_per_second,
        profile.write_bytes_per_second,
        profile.read_latency_us,
        profile.queued_read_latency_us,
        profile.sync_latency_us,
    ]
}

/// Returns how many times apart two profiles are, over the figures that both have.
fn factor(one: &DeviceProfile, other: &DeviceProfile) -> Option<f64> {
    let pairs = figures(one).into_iter().zip(figures(other));
    let squares: Vec<f64> = pairs
        .filter(|(one, other)| *one > 0.0 && *other > 0.0)
        .map(|(one, other)| (one / other).ln().powi(2))
        .collect();
    let count = squares.len();
    (count > 0).then(|| (squares.iter().sum::<f64>() / count as f64).sqrt().exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_device_resembles_itself() {
        for (preset, profile) in DeviceProfile::PRESETS {
            let found = nearest(&profile).unwrap();
            assert_eq!((found.preset, found.factor), (preset, 1.0));
        }
    }

    #[test]
    fn times_count_and_not_differences() {
        // By differences its bandwidths alone would make it a hard disk.
        let slow_flash = DeviceProfile {
            read_bytes_per_second: 250e6,
            write_bytes_per_second: 240e6,
            ..DeviceProfile::SSD_850_PRO
        };
        let found = nearest(&slow_flash).unwrap();
        assert_eq!(found.preset, "850-pro");
        let ratios = [550.0f64 / 250.0, 520.0 / 240.0];
        let mean = ratios.iter().map(|ratio| ratio.ln().powi(2)).sum::<f64>() / 5.0;
        assert!((found.factor - mean.sqrt().exp()).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn costs_do_not_count_and_no_figure_is_no_guess() {
        let dear = DeviceProfile {
            price_per_gb: 1e9,
            endurance_writes: 1e9,
            ..DeviceProfile::WD10EZEX
        };
        assert_eq!(nearest(&dear).unwrap().factor, 1.0);
        let nothing = DeviceProfile {
            read_bytes_per_second: 0.0,
            write_bytes_per_second: 0.0,
            read_latency_us: 0.0,
            queued_read_latency_us: 0.0,
            sync_latency_us: 0.0,
            ..dear
        };
        assert_eq!(nearest(&nothing), None);
    }
}
