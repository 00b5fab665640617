//! The capacities of tiers hold, whatever is written, and a full store comes back by itself.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{Db, Options, TierOptions};
use terrace_storage::SimulatedStorage;

use super::{MIDDLE, SLOW, STORE, check, disk, fill, options, table_bytes, with_three};

/// Checks the directories against the books, and both against the capacities.
fn check_capacities(db: &Db, disk: &SimulatedStorage) {
    for tier in db.tiers() {
        let on_disk = table_bytes(disk, tier.path.to_str().unwrap());
        let capacity = tier.capacity_bytes.unwrap_or(u64::MAX);
        assert!(on_disk <= capacity, "{on_disk} bytes in {tier:?}");
        assert_eq!(on_disk, tier.files_bytes, "{tier:?}");
        assert_eq!(tier.reserved_bytes, 0, "nothing is written now: {tier:?}");
    }
}

#[test]
fn no_tier_goes_beyond_its_capacity_with_random_sizes() {
    for seed in 0..6 {
        let disk = disk();
        let mut random = SmallRng::seed_from_u64(seed);
        let fast = random.random_range(24..120) << 10;
        let middle = random.random_range(60..300) << 10;
        let db = Db::open(STORE, with_three(options(&disk), fast, middle)).unwrap();
        for _ in 0..1500 {
            let key = format!("key-{:05}", random.random_range(0..600));
            let length = random.random_range(0..1500);
            match random.random_range(0..10) {
                0 => db.delete(&key).unwrap(),
                _ => {
                    let value: Vec<u8> = (0..length).map(|_| random.random::<u8>()).collect();
                    db.put(&key, value).unwrap();
                }
            }
            check_capacities(&db, &disk);
        }
        db.flush().unwrap();
        db.compact().unwrap();
        while db.wait_for_migration().unwrap() {}
        check_capacities(&db, &disk);
        assert!(table_bytes(&disk, MIDDLE) + table_bytes(&disk, SLOW) > 0);
        assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
        assert_eq!(
            db.statistics().step_failures,
            0,
            "{:?}",
            db.statistics().last_error
        );
        db.close().unwrap();
    }
}

#[test]
fn the_fast_tier_is_used() {
    let disk = disk();
    let db = Db::open(STORE, with_three(options(&disk), 64 << 10, 128 << 10)).unwrap();
    fill(&db, 0..2000);
    let tiers = db.tiers();
    // Half of what it may hold, at least: the rest is for the upper levels to be written once more.
    assert!(tiers[0].files_bytes > 20 << 10, "{tiers:?}");
    assert!(tiers[1].files_bytes > 50 << 10, "{tiers:?}");
    assert!(tiers[2].files_bytes > 100 << 10, "{tiers:?}");
    check(&db, 0..2000);
}

#[test]
fn a_full_store_refuses_writes_and_comes_back_by_deletes() {
    let disk = disk();
    let mut full = options(&disk);
    full.tiers = vec![
        TierOptions {
            capacity_bytes: Some(160 << 10),
            reserve_bytes: 60 << 10,
            ..TierOptions::of_store("fast")
        },
        TierOptions {
            capacity_bytes: Some(80 << 10),
            reserve_bytes: 30 << 10,
            ..TierOptions::new("middle", MIDDLE)
        },
    ];
    let db = Db::open(STORE, full.clone()).unwrap();
    let mut written = 0;
    let error = loop {
        match db.put(format!("key-{written:05}"), super::value(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 5000, "the capacities are no limit");
    };
    assert!(error.is_no_space(), "{error}");
    check_capacities(&db, &disk);
    check(&db, 0..written);
    for number in 0..written {
        let deleted = db.delete(format!("key-{number:05}"));
        assert!(deleted.is_ok(), "delete {number} of {written}: {deleted:?}");
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    fill(&db, 0..written / 2);
    check(&db, 0..written / 2);
    check_capacities(&db, &disk);
    db.close().unwrap();
    let db = Db::open(STORE, Options { ..full }).unwrap();
    check(&db, 0..written / 2);
}
