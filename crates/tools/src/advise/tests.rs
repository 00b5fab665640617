use std::path::PathBuf;
use std::time::Duration;

use terrace::{LevelStatistics, TierCacheStatistics, TierStatistics};
use terrace_lsm::time_profile::{PathProfile, StageProfile};

use super::*;

const GIB: u64 = 1 << 30;

/// Returns the statistics of a store with levels 0, 1 and 3 in its own directory, and a tier without tables.
fn statistics() -> Statistics {
    let mut statistics = Statistics::default();
    let bytes = [GIB, 10 * GIB, 0, 100 * GIB, 0, 0, 0];
    statistics.levels = bytes.map(|bytes| level(bytes, 0)).to_vec();
    for (number, reads) in [(0, 1_000), (1, 10_000), (3, 100_000)] {
        statistics.levels[number] = level(bytes[number], reads);
    }
    let mut own = tier("store", 1, DeviceProfile::NVME_960_PRO);
    own.level_bytes = bytes.to_vec();
    own.files_bytes = bytes.iter().sum();
    statistics.tiers = vec![own, tier("disk", 2, DeviceProfile::WD10EZEX)];
    statistics.time.paths = vec![
        path(
            "get",
            150_000,
            &[("search in block", 2), ("system call: read", 9)],
        ),
        path(
            "write",
            50_000,
            &[("index insert", 1), ("persist", 100), ("held back", 7)],
        ),
        path("merge", 3, &[("merging", 1)]),
    ];
    statistics
}

fn level(bytes: u64, reads: u64) -> LevelStatistics {
    let mut level = LevelStatistics::default();
    level.bytes = bytes;
    level.reads = reads;
    level.read_bytes = reads * 4096;
    level.compaction_written_bytes = reads * 1000;
    level
}

fn tier(name: &str, number: u8, profile: DeviceProfile) -> TierStatistics {
    let mut tier = TierStatistics::default();
    tier.name = name.to_owned();
    tier.number = number;
    tier.path = PathBuf::from("/mnt").join(name);
    tier.state = "open".to_owned();
    tier.room_bytes = 1000 * GIB;
    tier.level_bytes = vec![0; 7];
    tier.profile = Some(profile);
    tier
}

fn path(name: &str, operations: u64, stages: &[(&str, u64)]) -> PathProfile {
    let stages = stages.iter().map(|&(name, seconds)| {
        let mut stage = StageProfile::default();
        stage.stage = name.to_owned();
        stage.time = Duration::from_secs(seconds);
        stage
    });
    let mut path = PathProfile::default();
    path.path = name.to_owned();
    path.operations = operations;
    path.stages = stages.collect();
    path
}

fn request() -> AdviceRequest {
    AdviceRequest {
        processors: Some(4),
        ..AdviceRequest::default()
    }
}

fn levels(advice: &Advice) -> Vec<String> {
    let placements = advice.placements.iter();
    let mut levels: Vec<String> = placements
        .map(|placement| placement.levels.join(" "))
        .collect();
    levels.sort();
    levels
}

#[test]
fn each_placement_that_fits_is_listed_from_the_fastest() {
    let advice = advise(&statistics(), &request()).unwrap();
    assert_eq!(
        levels(&advice),
        [
            "disk disk disk disk",
            "store disk disk disk",
            "store store store disk",
            "store store store store",
        ],
        "level 2 is empty and lies with level 1"
    );
    let speeds = advice.placements.iter();
    let speeds: Vec<f64> = speeds
        .map(|placement| placement.requests_per_second)
        .collect();
    assert!(speeds.is_sorted_by(|one, next| one >= next), "{speeds:?}");
    let best = advice.best().unwrap();
    assert!(best.is_present && advice.placements[0] == *best);
    assert_eq!(
        advice.level_tiers().unwrap(),
        r#"level_tiers = ["store", "store", "store", "store"]"#
    );
    let slowest = advice.placements.last().unwrap();
    assert_eq!(slowest.bound, "waits for disk");
    assert!(slowest.price < best.price / 10.0);
    assert_eq!(slowest.worn_out_years, None);
    assert!(best.worn_out_years.unwrap() > 0.0);
    assert_eq!(advice.levels[3].reads, 0.5);
    let all = advise(
        &statistics(),
        &AdviceRequest {
            any_order: true,
            ..request()
        },
    )
    .unwrap();
    assert_eq!(all.placements.len(), 8);
}

#[test]
fn the_time_on_a_processor_leaves_out_waits() {
    let advice = advise(&statistics(), &request()).unwrap();
    assert_eq!(advice.requests, 200_000);
    // Two seconds of gets and one of writes.
    assert!((advice.cpu_us - 15.0).abs() < 1e-9, "{}", advice.cpu_us);
    assert!((advice.background_cpu_us - 5.0).abs() < 1e-9);
    let given = AdviceRequest {
        cpu_us: Some(7.0),
        threads: Some(3),
        ..request()
    };
    let advice = advise(&statistics(), &given).unwrap();
    assert_eq!(
        (advice.cpu_us, advice.threads, advice.processors),
        (7.0, 3, 4)
    );
}

#[test]
fn requests_are_counted_by_all_that_were_timed() {
    let mut statistics = statistics();
    let get = &mut statistics.time.paths[0];
    (get.one_in, get.watched, get.operations) = (224, 600, 224 * 600);
    let timed = &mut statistics.latencies.get;
    (timed.one_in, timed.count) = (32, 4400);
    let advice = advise(&statistics, &request()).unwrap();
    // One get of 28 was timed or watched.
    assert_eq!(advice.requests, 28 * 5000 + 50_000);
}

#[test]
fn the_better_placement_is_advised_with_its_options() {
    let mut statistics = statistics();
    let [own, disk] = &mut statistics.tiers[..] else {
        panic!();
    };
    std::mem::swap(&mut own.level_bytes, &mut disk.level_bytes);
    std::mem::swap(&mut own.files_bytes, &mut disk.files_bytes);
    let advice = advise(&statistics, &request()).unwrap();
    let (present, best) = (advice.present().unwrap(), advice.best().unwrap());
    assert_eq!(present.levels, ["disk"; 4]);
    assert_eq!(best.levels, ["store"; 4]);
    assert!(best.requests_per_second > 10.0 * present.requests_per_second);
    // A device that nobody has yet.
    let mut request = request();
    request.devices.push("new=nvme-gen4:1TiB".parse().unwrap());
    request.goal = AdviceGoal::Price;
    let advice = advise(&statistics, &request).unwrap();
    assert_eq!(advice.tiers[0].name, "new");
    assert_eq!(advice.tiers[0].number, None);
    assert_eq!(
        advice.level_tiers().unwrap(),
        r#"level_tiers = ["new", "new", "new", "new"]"#
    );
}

#[test]
fn capacities_reserves_and_states_bound_the_placements() {
    let mut statistics = statistics();
    let own = &mut statistics.tiers[0];
    own.capacity_bytes = Some(113 * GIB);
    let present_only = advise(&statistics, &request()).unwrap();
    assert_eq!(
        present_only.placements.len(),
        4,
        "the present one is listed though it is tight"
    );
    let present = present_only.present().unwrap();
    assert!(!present.fits && !present.is_best, "{present:?}");
    assert!(present_only.best().unwrap().fits);
    assert!(present_only.notes[0].starts_with("the present placement does not fit"));
    let own = &mut statistics.tiers[0];
    own.level_bytes[3] = 0;
    statistics.tiers[1].level_bytes[3] = 100 * GIB;
    let advice = advise(&statistics, &request()).unwrap();
    assert_eq!(
        levels(&advice),
        [
            "disk disk disk disk",
            "store disk disk disk",
            "store store store disk"
        ]
    );
    statistics.tiers[0].reserve_bytes = 104 * GIB;
    let advice = advise(&statistics, &request()).unwrap();
    assert!(!levels(&advice).contains(&"store store store store".to_owned()));
    statistics.tiers[1].state = "draining".to_owned();
    let refused = advise(&statistics, &request()).unwrap_err();
    assert_eq!(refused, Error::NothingFits { bytes: 111 * GIB });
    statistics.tiers[0].reserve_bytes = 0;
    statistics.tiers[0].capacity_bytes = None;
    let advice = advise(&statistics, &request()).unwrap();
    assert_eq!(levels(&advice), ["store store store store"]);
    assert_eq!(advice.present(), None);
    assert_eq!(
        advice.notes,
        ["the tier disk is draining, and takes no level"]
    );
}

#[test]
fn the_cache_of_a_tier_counts_against_its_capacity() {
    let mut statistics = statistics();
    statistics.tiers[0].capacity_bytes = Some(150 * GIB);
    let advice = advise(&statistics, &request()).unwrap();
    assert!(advice.present().unwrap().fits);
    let mut cache = TierCacheStatistics::default();
    cache.capacity_bytes = 40 * GIB;
    statistics.tiers[0].cache = Some(cache);
    let advice = advise(&statistics, &request()).unwrap();
    assert_eq!(advice.tiers[0].cache_bytes, 40 * GIB);
    assert!(!advice.present().unwrap().fits);
}

#[test]
fn a_present_placement_that_does_not_fit_is_never_the_best() {
    let mut statistics = statistics();
    // 60 % of the last level lie on flash that cannot take all of it.
    statistics.tiers[0].capacity_bytes = Some(90 * GIB);
    statistics.tiers[0].level_bytes[3] = 60 * GIB;
    statistics.tiers[1].level_bytes[3] = 40 * GIB;
    let advice = advise(&statistics, &request()).unwrap();
    let (present, best) = (advice.present().unwrap(), advice.best().unwrap());
    assert_eq!(present.levels, ["store"; 4]);
    assert!(present.requests_per_second > best.requests_per_second);
    assert_eq!(best.levels[3], "disk");
    // Nothing else is left.
    statistics.tiers[1].capacity_bytes = Some(90 * GIB);
    let advice = advise(&statistics, &request()).unwrap();
    assert_eq!((advice.placements.len(), advice.best()), (1, None));
    assert_eq!(advice.level_tiers(), None);
    let last = advice.notes.last().unwrap();
    assert!(last.starts_with("no placement of whole levels fits"));
}

#[test]
fn a_profile_without_a_speed_of_transfers_is_refused() {
    let break_it: [fn(&mut DeviceProfile); 2] = [
        |profile| profile.write_bytes_per_second = 0.0,
        |profile| profile.read_bytes_per_second = 0.0,
    ];
    for (break_it, name) in break_it.into_iter().zip(["write", "read"]) {
        let mut statistics = statistics();
        break_it(statistics.tiers[1].profile.as_mut().unwrap());
        let refused = advise(&statistics, &request()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(r#"the profile of the tier "disk" has no {name}_bytes_per_second"#)
        );
        let hint = refused.hint().unwrap();
        assert!(hint.starts_with("run terrace tier probe /mnt/disk and"));
    }
}

#[test]
fn hostile_counts_overflow_no_sum() {
    let mut statistics = statistics();
    for level in &mut statistics.levels {
        level.bytes = u64::MAX;
        level.flushed_bytes = u64::MAX;
        level.compaction_written_bytes = u64::MAX;
    }
    for tier in &mut statistics.tiers {
        tier.level_bytes.fill(u64::MAX);
        tier.reserve_bytes = u64::MAX;
        tier.files_bytes = u64::MAX;
    }
    for path in &mut statistics.time.paths {
        (path.operations, path.watched) = (u64::MAX, u64::MAX);
        for stage in &mut path.stages {
            stage.time = Duration::MAX;
        }
    }
    statistics.latencies.get.count = u64::MAX;
    let advice = advise(&statistics, &request()).unwrap();
    assert!(advice.best().is_none() && advice.present().is_some());
    assert_eq!(advice.requests, u64::MAX);
    statistics.tiers[0].state = "draining".to_owned();
    statistics.tiers[0].level_bytes[0] = u64::MAX;
    statistics.tiers[1].level_bytes.fill(0);
    let refused = advise(&statistics, &request()).unwrap_err();
    assert_eq!(refused, Error::NothingFits { bytes: u64::MAX });
}

#[test]
fn doubts_are_noted() {
    let mut statistics = statistics();
    statistics.tiers[1].level_bytes[1] = 5 * GIB;
    statistics.tiers[0].level_bytes[1] = 5 * GIB + 1;
    statistics.tiers[1].profile = Some(DeviceProfile {
        price_per_gb: 0.0,
        ..DeviceProfile::WD10EZEX
    });
    let advice = advise(&statistics, &request()).unwrap();
    assert_eq!(advice.notes.len(), 2, "{:?}", advice.notes);
    assert!(advice.notes[0].starts_with("level 1 lies on several tiers"));
    assert!(advice.notes[1].contains("disk has no price"));
    assert_eq!(advice.present().unwrap().levels[1], "store");
}

#[test]
fn missing_facts_are_refused_with_the_next_step() {
    let mut unknown = statistics();
    unknown.tiers[1].profile = None;
    let refused = advise(&unknown, &request()).unwrap_err();
    assert_eq!(refused.to_string(), r#"the tier "disk" has no profile"#);
    let hint = refused.hint().unwrap();
    assert!(
        hint.starts_with("run terrace tier probe /mnt/disk and"),
        "{hint}"
    );
    let given = AdviceRequest {
        profiles: vec![("disk".to_owned(), DeviceProfile::QLC)],
        ..request()
    };
    let advice = advise(&unknown, &given).unwrap();
    assert_eq!(advice.tiers[1].profile, DeviceProfile::QLC);
}

#[test]
fn without_tables_or_requests_there_is_no_advice() {
    let mut idle = statistics();
    idle.time.paths.clear();
    let refused = advise(&idle, &request()).unwrap_err();
    assert_eq!(refused, Error::NoTraffic { requests: 0 });
    assert!(refused.hint().unwrap().contains("--traffic FILE"));
    let mut empty = statistics();
    empty.levels.clear();
    let refused = advise(&empty, &request()).unwrap_err();
    assert_eq!(refused, Error::NoTables);
    let other = AdviceRequest {
        profiles: vec![("tape".to_owned(), DeviceProfile::QLC)],
        ..request()
    };
    let refused = advise(&statistics(), &other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"there is no tier "tape"; there are store, disk"#
    );
    let mut twice = request();
    twice.devices.push("disk=qlc:1TiB".parse().unwrap());
    let refused = advise(&statistics(), &twice).unwrap_err();
    assert_eq!(refused, Error::SameName("disk".to_owned()));
}

#[test]
fn advice_comes_back_from_json() {
    let advice = advise(&statistics(), &request()).unwrap();
    let text = serde_json::to_string(&advice).unwrap();
    assert_eq!(
        serde_json::from_str::<Advice>(&text).unwrap().tiers,
        advice.tiers
    );
}
