//! The directories of tiers at an opening.

use std::path::Path;

use terrace::{Db, DeviceProfile, Error, Options, TierOptions};
use terrace_storage::{CrashKind, CrashSwitch, Purpose, SimulatedStorage, Storage};

use super::{
    MIDDLE, SLOW, STORE, check, disk, fill, options, table_bytes, with_level_tiers, with_three,
};

fn three(disk: &SimulatedStorage) -> Options {
    with_level_tiers(
        with_three(options(disk), 1 << 20, 1 << 20),
        &["fast", "middle", "slow"],
    )
}

/// Returns the disk after the death of every process, with a directory under another name.
fn with_renamed(disk: &SimulatedStorage, from: &str, to: &str) -> SimulatedStorage {
    let disk = disk.crash(CrashKind::Kill, 0, CrashSwitch::new());
    let access = terrace_storage::Access::Owner;
    disk.create_directory(Path::new(to)).unwrap();
    let (source, target) = (
        disk.directory(Path::new(from), access).unwrap(),
        disk.directory(Path::new(to), access).unwrap(),
    );
    for entry in source.list().unwrap() {
        source.link(&entry.name, &*target, &entry.name).unwrap();
        source.remove(&entry.name).unwrap();
    }
    disk
}

#[test]
fn levels_lie_in_their_tiers_and_later_openings_find_them_without_an_option() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..600);
    let tiers = db.tiers();
    let names: Vec<&str> = tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names, ["fast", "middle", "slow"]);
    assert!(tiers[2].tables > 0, "{tiers:?}");
    for (at, tier) in tiers.iter().enumerate() {
        let strangers = tier.level_bytes.iter().enumerate();
        let mut strangers = strangers.filter(|(level, bytes)| (*level).min(2) != at && **bytes > 0);
        assert_eq!(strangers.next(), None, "{tier:?}");
    }
    check(&db, 0..600);
    for tier in db.tiers() {
        let [flush, compaction, read] =
            [Purpose::Flush, Purpose::Compaction, Purpose::Read].map(|purpose| tier.io.of(purpose));
        let is_own = tier.number == 1;
        assert_eq!(flush.written_bytes > 0, is_own, "{tier:?}");
        assert_eq!(tier.io.of(Purpose::Arena).writes, 0);
        assert!(
            is_own || tier.tables == 0 || compaction.written_bytes > 0,
            "{tier:?}"
        );
        assert!(
            is_own || tier.tables > 0 || tier.io.directory_syncs == 0,
            "{tier:?}"
        );
        assert!(tier.tables == 0 || read.reads > 0, "{tier:?}");
    }
    db.close().unwrap();

    let db = Db::open(STORE, options(&disk)).unwrap();
    check(&db, 0..600);
    assert_eq!(db.tiers()[1].capacity_bytes, Some(1 << 20));
    assert!(db.verify(|_, _| ()).unwrap().problems.is_empty());
    // Without names for levels, tables go to the fastest tier, which has room for all.
    while db.wait_for_migration().unwrap() {}
    assert_eq!(table_bytes(&disk, SLOW), 0);
    check(&db, 0..600);
    db.close().unwrap();

    let reading = Options {
        read_only: true,
        ..options(&disk)
    };
    check(&Db::open(STORE, reading).unwrap(), 0..600);
}

#[test]
fn profiles_give_the_order_of_tiers_where_all_are_known() {
    let disk = disk();
    let mut options = three(&disk);
    options.tiers[0].profile = Some(DeviceProfile::SSD_850_PRO);
    options.tiers[1].profile = Some(DeviceProfile::WD10EZEX);
    let names = |db: &Db| -> Vec<String> { db.tiers().into_iter().map(|t| t.name).collect() };
    let db = Db::open(STORE, options.clone()).unwrap();
    assert_eq!(names(&db), ["fast", "middle", "slow"]);
    db.close().unwrap();
    options.tiers[2].profile = Some(DeviceProfile::NVME_GEN4);
    let db = Db::open(STORE, options).unwrap();
    assert_eq!(names(&db), ["slow", "fast", "middle"]);
    db.close().unwrap();
    let db = Db::open(STORE, self::options(&disk)).unwrap();
    assert_eq!(names(&db), ["slow", "fast", "middle"]);
    assert_eq!(db.tiers()[2].profile, Some(DeviceProfile::WD10EZEX));
}

/// Operators drain and remove tiers by their names, so no two tiers may have the same one.
#[test]
fn the_stores_own_directory_takes_no_other_tiers_name() {
    let disk = disk();
    Db::open(STORE, three(&disk)).unwrap().close().unwrap();
    let before = disk.list(Path::new(STORE)).unwrap();
    let renamed = Options {
        tiers: vec![TierOptions::of_store("slow")],
        ..options(&disk)
    };
    let error = Db::open(STORE, renamed).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("slow is the name of another tier"),
        "{error}"
    );
    assert_eq!(disk.list(Path::new(STORE)).unwrap(), before);
    Db::open(STORE, three(&disk)).unwrap();
}

#[test]
fn a_tier_that_moved_is_found_where_the_option_says() {
    let first = disk();
    let db = Db::open(STORE, three(&first)).unwrap();
    fill(&db, 0..600);
    db.close().unwrap();
    let disk = with_renamed(&first, SLOW, "/elsewhere");
    let error = Db::open(STORE, options(&disk)).unwrap_err();
    let Error::TierLost {
        tier,
        path,
        missing,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((tier.as_str(), path.as_path()), ("slow", Path::new(SLOW)));
    assert!(!missing.files.is_empty(), "{error}");
    assert_eq!(missing.keyspaces, ["default"]);

    let mut moved = three(&disk);
    moved.tiers[2] = TierOptions::new("slow", "/elsewhere");
    let db = Db::open(STORE, moved).unwrap();
    check(&db, 0..600);
    db.close().unwrap();
    // The manifest has its new place.
    check(&Db::open(STORE, options(&disk)).unwrap(), 0..600);
}

#[test]
fn a_directory_that_is_anothers_is_refused_and_nothing_is_written() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..600);
    let busy = Db::open("/other", three(&disk)).unwrap_err();
    assert!(matches!(busy, Error::WrongTier { .. }), "{busy}");
    db.close().unwrap();

    let refusal = |tier: TierOptions| {
        let options = Options {
            tiers: vec![tier],
            ..options(&disk)
        };
        Db::open("/other", options).unwrap_err()
    };
    let foreign = refusal(TierOptions::new("slow", SLOW));
    assert!(matches!(foreign, Error::WrongTier { .. }), "{foreign}");
    let own = refusal(TierOptions::new("slow", "/other"));
    assert!(matches!(own, Error::InvalidArgument(_)), "{own}");
    disk.create_directory(Path::new("/full")).unwrap();
    let mode = terrace_storage::OpenOptions::buffered(terrace_storage::OpenMode::CreateNew);
    disk.open(Path::new("/full/letter"), mode).unwrap();
    let full = refusal(TierOptions::new("slow", "/full"));
    assert!(full.to_string().contains("letter"), "{full}");
    assert_eq!(disk.list(Path::new("/full")).unwrap().len(), 1);

    let mut swapped = three(&disk);
    swapped.tiers[1].directory = Some(SLOW.into());
    swapped.tiers[2].directory = Some(MIDDLE.into());
    let error = Db::open(STORE, swapped).unwrap_err();
    assert!(
        error.to_string().contains("it is tier 3 of this store"),
        "{error}"
    );
    check(&Db::open(STORE, options(&disk)).unwrap(), 0..600);
}

#[test]
fn a_second_owner_of_a_tier_is_refused() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..100);
    // A copy of the store's own directory, made while its owner lives.
    let copy = with_renamed_copy(&disk);
    let error = Db::open("/copy", options(&copy)).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    db.close().unwrap();
}

/// Links the files of the store into another directory of the same disk.
fn with_renamed_copy(disk: &SimulatedStorage) -> SimulatedStorage {
    let access = terrace_storage::Access::Owner;
    disk.create_directory(Path::new("/copy")).unwrap();
    let source = disk.directory(Path::new(STORE), access).unwrap();
    let target = disk.directory(Path::new("/copy"), access).unwrap();
    for entry in source.list().unwrap() {
        let name = entry.name.as_str();
        let file = source
            .open(
                name,
                terrace_storage::OpenOptions::buffered(terrace_storage::OpenMode::Read),
            )
            .unwrap();
        let length = file.length_bytes().unwrap() as usize;
        let bytes = file
            .read_vec_at(length, 0, terrace_storage::Purpose::Other)
            .unwrap();
        let mode = terrace_storage::OpenOptions::buffered(terrace_storage::OpenMode::CreateNew);
        let copy = target.open(name, mode).unwrap();
        copy.write_at(&bytes, 0, terrace_storage::Purpose::Other)
            .unwrap();
    }
    disk.clone()
}

#[test]
fn a_checkpoint_is_one_directory_that_opens_by_itself() {
    let disk = disk();
    let db = Db::open(STORE, three(&disk)).unwrap();
    fill(&db, 0..600);
    db.checkpoint("/checkpoint").unwrap();
    db.close().unwrap();
    let copy = Db::open("/checkpoint", options(&disk)).unwrap();
    check(&copy, 0..600);
    assert_eq!(copy.tiers().len(), 1);
    fill(&copy, 600..700);
    copy.close().unwrap();
    assert!(
        table_bytes(&disk, SLOW) > 0,
        "the store's own tables are there"
    );
    check(&Db::open(STORE, options(&disk)).unwrap(), 0..600);
}

#[test]
fn tiers_are_added_drained_and_removed_while_the_store_is_open() {
    let disk = disk();
    let db = Db::open(STORE, options(&disk)).unwrap();
    fill(&db, 0..600);
    db.add_tier(&TierOptions::new("slow", SLOW)).unwrap();
    let again = db
        .add_tier(&TierOptions::new("slow", "/another"))
        .unwrap_err();
    assert!(matches!(again, Error::InvalidArgument(_)), "{again}");
    let taken = db.add_tier(&TierOptions::new("other", SLOW)).unwrap_err();
    assert!(matches!(taken, Error::InvalidArgument(_)), "{taken}");
    for name in ["nothing", "store"] {
        let refused = db.drain_tier(name).unwrap_err();
        assert!(matches!(refused, Error::InvalidArgument(_)), "{refused}");
    }
    let form = with_level_tiers(options(&disk), &["store", "slow"]).default_keyspace;
    db.create_keyspace("cold", form).unwrap();
    let cold = db.keyspace("cold").unwrap();
    for number in 0..600u32 {
        cold.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    while db.wait_for_migration().unwrap() {}
    assert!(table_bytes(&disk, SLOW) > 0);
    let reasons = db.placed_tables(&cold).unwrap();
    assert!(
        reasons.iter().any(|table| table.tier == "slow"),
        "{reasons:?}"
    );
    let full = db.remove_tier("slow").unwrap_err();
    assert!(full.to_string().contains("drain it"), "{full}");
    db.drain_tier("slow").unwrap();
    while db.wait_for_migration().unwrap() {}
    assert_eq!(table_bytes(&disk, SLOW), 0);
    db.remove_tier("slow").unwrap();
    assert_eq!(db.tiers().len(), 1);
    check(&db, 0..600);
    db.close().unwrap();

    // The directory is nobody's, so another store may have it.
    let other = Options {
        tiers: vec![TierOptions::new("x", SLOW)],
        ..options(&disk)
    };
    Db::open("/other", other).unwrap().close().unwrap();
    let db = Db::open(STORE, options(&disk)).unwrap();
    check(&db, 0..600);
    let cold = db.keyspace("cold").unwrap();
    assert_eq!(cold.get(599u32.to_be_bytes()).unwrap().unwrap().len(), 100);
}
