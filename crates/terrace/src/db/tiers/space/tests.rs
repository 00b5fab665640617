use std::path::PathBuf;

use terrace_storage::{Access, CrashSwitch, SimulatedStorage, Storage};

use super::*;

/// Returns the books of tiers 1, 2, ... with these capacities and reserves.
fn book(limits: &[(u64, u64)]) -> Arc<SpaceBook> {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    disk.create_directory(Path::new("/tier")).unwrap();
    let directory = disk.directory(Path::new("/tier"), Access::Owner).unwrap();
    let tiers = (1..).zip(limits);
    let tiers = tiers.map(|(number, &(capacity_bytes, reserve_bytes))| {
        let tier = TierRecord {
            number,
            id: 0,
            name: number.to_string(),
            path: PathBuf::new(),
            capacity_bytes,
            reserve_bytes,
            profile: None,
            state: TierUse::Open,
        };
        (tier, Some(Arc::clone(&directory)))
    });
    SpaceBook::new(tiers.collect(), &[])
}

fn to(tiers: &[u8], takes_reserve: bool) -> Destination {
    Destination {
        tiers: tiers.to_vec(),
        takes_reserve,
        is_exact: false,
    }
}

/// A fast tier lost its reserve to flushes although a slower one was empty.
#[test]
fn a_reserve_is_taken_once_no_tier_has_other_room() {
    let book = book(&[(100, 40), (100, 0)]);
    let tier = |bytes| {
        let reserved = book.reserve(&to(&[1, 2], true), bytes).unwrap();
        let tier = reserved.tier();
        reserved.into_file(bytes).unwrap();
        tier
    };
    assert_eq!(tier(60), 1);
    assert_eq!(tier(40), 2);
    assert_eq!(tier(60), 2);
    assert_eq!(tier(40), 1);
    assert!(book.reserve(&to(&[1, 2], true), 1).is_err());
    let ordinary = book.reserve(&to(&[1, 2], false), 1).unwrap_err();
    assert!(ordinary.is_no_space(), "{ordinary}");
}

/// A job with too low a guess failed in the same tier for ever: the margin stayed at half of the error.
#[test]
fn a_guess_that_was_too_low_asks_the_next_tier_after_one_failure() {
    let book = book(&[(10 + 18 + 18 + 15, 0), (1000, 0)]);
    let exact = Destination {
        is_exact: true,
        ..to(&[1], false)
    };
    book.reserve(&exact, 10).unwrap().into_file(10).unwrap();
    // The guess is 10, and the file has 18 bytes.
    let written = || {
        let reserved = book.reserve(&to(&[1, 2], false), 10).unwrap();
        (reserved.tier(), reserved.into_file(18).is_ok())
    };
    assert_eq!(written(), (1, true));
    assert_eq!(written(), (1, true), "with a margin of 8, of which 4 stay");
    // 15 bytes are left.
    assert_eq!(written(), (1, false));
    assert_eq!(written(), (2, true));
    // Nowhere else is room: after some attempts the guess alone counts.
    let fast = || book.reserve(&to(&[1], false), 10);
    assert!(fast().is_err());
    assert_eq!(book.accounts()[0].margin_bytes, 4);
    assert!(fast().is_ok());
    // A file of a known size says nothing of guesses.
    book.reserve(&exact, 5).unwrap().into_file(5).unwrap();
    assert_eq!(book.accounts()[0].margin_bytes, 4);
}
