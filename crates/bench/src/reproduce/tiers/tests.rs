use super::*;
use crate::reproduce::tiers::store::Kind;

/// A run counts requests, and its traffic is that of its devices alone.
#[test]
fn a_placement_puts_its_levels_on_their_devices() {
    let place = tempfile::tempdir().unwrap();
    let setting = Setting::tiny_for_tests(place.path());
    let kind = Kind {
        paper_gb: paper::PLACED_GB,
        is_sweep: false,
        has_fifth_level: false,
    };
    let home = place.path().join("home");
    let loaded = store::load(&setting, kind, &home, place.path().join("kept")).unwrap();
    let used = loaded
        .level_bytes
        .iter()
        .filter(|bytes| **bytes > 0)
        .count();
    assert!(used >= 2, "{:?}", loaded.level_bytes);
    let placements = paper::PLACEMENTS;
    for (placement, devices) in [
        (placements[2], &["ssd", "hdd"][..]),
        (placements[8], &["nvme"]),
    ] {
        let run = (&placement, Memory::Bounded, 0);
        let measurement = store::measure(&setting, &loaded, &home, run).unwrap();
        let run = Run::of(placement.name, Memory::Bounded, 0, &measurement);
        assert!(run.requests > 0 && run.instant_per_second > 0.0, "{run:?}");
        let names: Vec<&str> = run
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        assert!(devices.ends_with(&names), "{names:?}");
        // Nothing is left for the next run.
        assert!(!home.exists());
    }
}
