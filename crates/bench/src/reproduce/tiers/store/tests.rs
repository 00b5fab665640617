use super::*;
use crate::reproduce::tiers::paper::PLACEMENTS;
use crate::reproduce::tiers::{Run, paper};

const KIND: Kind = Kind {
    paper_gb: paper::PLACED_GB,
    is_sweep: false,
    has_fifth_level: false,
};

/// Returns a setting, the directory of its stores, and a loaded store.
fn loaded(place: &Path) -> (Setting, PathBuf, Loaded) {
    let setting = Setting::tiny_for_tests(place);
    let home = place.join("home");
    let loaded = load(&setting, KIND, &home, place.join("kept")).unwrap();
    (setting, home, loaded)
}

/// Has at least two levels hold tables. A compaction of stale copies may have left one.
fn fill_two_levels(open: &Open<'_>) {
    for number in 0..4u8 {
        let used = open
            .level_bytes()
            .iter()
            .filter(|bytes| **bytes > 0)
            .count();
        if used >= 2 {
            return;
        }
        open.keyspace.put([number], [0; 100]).unwrap();
        open.settle().unwrap();
    }
    panic!("{:?}", open.level_bytes());
}

/// Each level lies on the device of the placement, also if the loading left it empty.
#[test]
fn a_placement_puts_its_levels_on_their_devices() {
    let place = tempfile::tempdir().unwrap();
    let (setting, home, loaded) = loaded(place.path());
    copy_directory(&loaded.kept, &home).unwrap();
    for placement in PLACEMENTS {
        // A table that has moved stays for an hour, or until the store is opened again.
        let open = Open::new(&setting, KIND, &home, Memory::Bounded).unwrap();
        fill_two_levels(&open);
        open.place(&placement).unwrap();
        let levels = open.level_bytes();
        for tier in open.counters().tiers {
            for (level, bytes) in levels.iter().enumerate() {
                let device = placement.levels.get(level).or(placement.levels.last());
                let is_here = device.is_some_and(|device| device.name() == tier.name);
                let listed = tier.level_bytes.get(level).copied().unwrap_or(0);
                let expected = if is_here { *bytes } else { 0 };
                let place = (placement.name, level, &tier.name);
                assert_eq!(listed, expected, "{place:?}, of {levels:?}");
            }
        }
        open.close().unwrap();
    }
}

/// A run counts requests, and its traffic is that of its devices alone.
#[test]
fn a_run_has_the_devices_of_its_placement() {
    let place = tempfile::tempdir().unwrap();
    let (setting, home, loaded) = loaded(place.path());
    for (placement, devices) in [
        (PLACEMENTS[2], &["ssd", "hdd"][..]),
        (PLACEMENTS[8], &["nvme"]),
    ] {
        let run = (&placement, Memory::Bounded, 0);
        let measurement = measure(&setting, &loaded, &home, run).unwrap();
        let run = Run::of(placement.name, Memory::Bounded, 0, &measurement);
        assert!(run.requests > 0 && run.instant_per_second > 0.0, "{run:?}");
        let mut names = run.devices.iter().map(|device| device.name.as_str());
        assert!(names.all(|name| devices.contains(&name)), "{run:?}");
        assert!(!run.devices.is_empty(), "{run:?}");
        // Nothing is left for the next run.
        assert!(!home.exists());
    }
}
