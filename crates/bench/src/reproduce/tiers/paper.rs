//! The paper's numbers: requests a second of LinkBench, each of a single run.

use super::devices::Device::{self, Hdd, Nvme, Ssd};

/// The line over a report.
pub const TITLE: &str =
    "RocksDB on tiered storage: levels on a hard disk, SATA flash and NVMe flash (2018)";

/// Size of level 1, in bytes.
pub const LEVEL1_BYTES: u64 = 256 << 20;
/// Size of a level as a multiple of the one above.
pub const LEVEL_RATIO: u64 = 10;
/// Data under which the paper compares placements, GB.
pub const PLACED_GB: f64 = 42.0;
/// Capacity of NVMe flash in the sweep of data size, GB.
pub const SWEEP_NVME_GB: f64 = 33.0;
/// Capacity of SATA flash in the sweep, GB.
pub const SWEEP_SSD_GB: f64 = 200.0;

/// Sizes of data in GB, on NVMe flash of 33 GB before SATA flash of 200 GB, with requests a second.
pub const SIZES: [(f64, f64); 4] = [
    (14.0, 24_179.0),
    (28.0, 24_147.0),
    (42.0, 22_843.0),
    (56.0, 20_330.0),
];

/// A placement of levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Its letter.
    pub name: &'static str,
    /// Devices of levels 0, 1, 2 and so on; the last one holds for all deeper levels.
    pub levels: &'static [Device],
    /// Requests a second, where the paper has it.
    pub published: Option<f64>,
}

const fn placement(name: &'static str, levels: &'static [Device], published: f64) -> Placement {
    Placement {
        name,
        levels,
        published: Some(published),
    }
}

/// The nine placements at 42 GB.
pub const PLACEMENTS: [Placement; 9] = [
    placement("A", &[Hdd], 7_229.0),
    placement("B", &[Ssd, Hdd], 7_128.0),
    placement("C", &[Ssd, Ssd, Hdd], 7_158.0),
    placement("D", &[Ssd, Ssd, Ssd, Hdd], 7_303.0),
    placement("E", &[Ssd], 22_824.0),
    placement("F", &[Nvme, Ssd], 22_632.0),
    placement("G", &[Nvme, Nvme, Ssd], 22_671.0),
    placement("H", &[Nvme, Nvme, Nvme, Ssd], 23_375.0),
    placement("I", &[Nvme], 23_924.0),
];

/// Placements of five levels, which the paper does not have.
pub const OF_FIVE_LEVELS: [Placement; 3] = [
    Placement {
        name: "D5",
        levels: &[Ssd, Ssd, Ssd, Hdd],
        published: None,
    },
    Placement {
        name: "J5",
        levels: &[Ssd, Ssd, Ssd, Ssd, Hdd],
        published: None,
    },
    Placement {
        name: "E5",
        levels: &[Ssd],
        published: None,
    },
];

impl Placement {
    /// Returns the placement in words: `L0-L2 ssd, rest hdd`.
    pub fn describe(&self) -> String {
        let Some((rest, above)) = self.levels.split_last() else {
            return String::new();
        };
        let Some(first) = above.first() else {
            return format!("all {}", rest.name());
        };
        match above.len() {
            1 => format!("L0 {}, rest {}", first.name(), rest.name()),
            levels => format!("L0-L{} {}, rest {}", levels - 1, first.name(), rest.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let published = |name| {
            let mut all = PLACEMENTS.iter();
            let found = all.find(|one| one.name == name).unwrap();
            found.published.unwrap()
        };
        assert!((published("E") / published("D") - 3.1).abs() < 0.05);
        assert!((published("D") / published("A") - 1.010).abs() < 0.001);
        let sum: f64 = PLACEMENTS.iter().filter_map(|one| one.published).sum();
        assert_eq!(sum, 144_244.0);
        assert_eq!(SIZES.map(|(_, rate)| rate).iter().sum::<f64>(), 91_499.0);
    }

    #[test]
    fn placements_have_words() {
        let words = PLACEMENTS.map(|one| one.describe());
        assert_eq!(words[0], "all hdd");
        assert_eq!(words[1], "L0 ssd, rest hdd");
        assert_eq!(words[7], "L0-L2 nvme, rest ssd");
    }
}
