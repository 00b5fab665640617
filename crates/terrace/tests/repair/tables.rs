//! Damaged, missing and foreign tables.

use std::path::{Path, PathBuf};

use crate::image::{Image, STORE};
use crate::specimen::{
    BOOT, is_manifest, of_default, open, options, repaired, tables, written_once,
};
use terrace::Db;
use terrace_storage::{CrashSwitch, SimulatedStorage};
use terrace_tools::inspect;

/// One block of 256 bytes is damaged: the others of the table are not lost with it.
#[test]
fn of_a_damaged_table_only_the_damaged_blocks_are_lost() {
    let (image, content) = written_once();
    for name in tables(&image) {
        for with_manifest in [true, false] {
            let mut damaged = image.with(&name, |bytes| bytes[40] ^= 1);
            if !with_manifest {
                damaged.files.retain(|name, _| !is_manifest(name));
            }
            let disk = damaged.disk(BOOT);
            assert!(Db::open(STORE, options(&disk)).is_ok() == with_manifest);
            let report = repaired(&disk);
            let [table] = &report.damaged[..] else {
                panic!("{report:?}")
            };
            assert!(report.may_resurrect() && table.entries_kept > 0);
            let aside = PathBuf::from(format!("{STORE}/{name}.damaged"));
            assert_eq!(table.kept_as.as_deref(), Some(aside.as_path()));
            assert_eq!(
                Image::of(&disk).files[&format!("{name}.damaged")],
                damaged.files[&name]
            );
            let found = of_default(&open(&disk));
            let lost = content.len() - found.len();
            assert!((1..=5).contains(&lost), "{lost}");
            assert!(found.iter().all(|(key, value)| content[key] == *value));
            if let Some(entries) = table.entries {
                assert_eq!(entries - table.entries_kept, lost as u64);
            }
        }
    }
}

#[test]
fn a_table_that_is_missing_or_no_table_takes_only_its_own_keys_with_it() {
    let (image, content) = written_once();
    let names = tables(&image);
    assert!(names.len() > 3);
    let mut lost_in_all = 0;
    for name in &names {
        let garbage = image.with(name, |bytes| {
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55)
        });
        for damaged in [image.without(name), garbage] {
            let disk = damaged.disk(BOOT);
            let report = repaired(&disk);
            assert_eq!(
                (report.damaged.len(), report.damaged[0].entries_kept),
                (1, 0)
            );
            let found = of_default(&open(&disk));
            assert!(found.iter().all(|(key, value)| content[key] == *value));
            lost_in_all += content.len() - found.len();
        }
    }
    // 551 are in tables, which are taken away one by one, each twice.
    assert_eq!(lost_in_all, 2 * 551);
}

/// No arena holds anything, and no other table tells the seed of the hashes or a higher number.
#[test]
fn the_only_table_is_read_although_a_block_is_damaged() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for number in 0..60u8 {
        db.put([number], [number; 40]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let mut image = Image::of(&disk);
    image.files.retain(|name, _| name.ends_with(".table"));
    let [table] = &tables(&image)[..] else {
        panic!("{:?}", tables(&image))
    };
    let dump = inspect::dump(&disk, &Path::new(STORE).join(table)).unwrap();
    let filter = dump
        .items
        .iter()
        .find(|item| item.kind == "filter")
        .unwrap();
    // In a data block, and in the filter, which is not needed.
    for (offset, least) in [(40, 54), (filter.offset as usize + 4, 60)] {
        let disk = image.with(table, |bytes| bytes[offset] ^= 1).disk(BOOT);
        let report = repaired(&disk);
        assert!(
            report.damaged[0].entries_kept >= least,
            "{offset}: {report:?}"
        );
        let db = open(&disk);
        let found = of_default(&db);
        assert!(found.len() >= least as usize);
        // A new write is newer than the rows that were read.
        for key in found.keys() {
            db.put(key, b"new").unwrap();
        }
        assert!(of_default(&db).values().all(|value| value == b"new"));
    }
}
