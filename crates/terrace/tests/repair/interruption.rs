//! Repairs that die or fail on the way are run again.

use std::sync::Arc;

use crate::image::{Image, STORE};
use crate::specimen::{BOOT, Scripted, contents, open, options, repaired, tables, written_once};
use crate::support;
use terrace::{Db, Options};
use terrace_storage::{CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan};
use terrace_tools::repair::repair;

/// Dies at every step. The rest is repaired, and an attempt to open it before loses nothing.
#[test]
fn a_repair_cut_short_at_any_step_is_taken_up_again() {
    let scripted = Scripted::new(8, 260, false);
    let (once, _) = written_once();
    let table = tables(&once).pop().unwrap();
    let arena = once.names(|name| name.starts_with("arena-")).pop().unwrap();
    let bare = scripted.without_manifest();
    let damaged_table = once.with(&table, |bytes| bytes[40] ^= 1);
    let damaged_arena = once.with(&arena, |bytes| bytes[4096 + 200] ^= 1);
    let complete = |image: &Image| {
        let disk = image.disk(BOOT);
        repaired(&disk);
        contents(&open(&disk))
    };
    let without_another = damaged_table.without(&tables(&once)[0]);
    let lost = |image: Image| {
        let mut image = image;
        image.files.remove("CURRENT").unwrap();
        image
    };
    let manifest = scripted
        .image
        .names(|name| name.starts_with("MANIFEST"))
        .pop()
        .unwrap();
    let no_current = lost(scripted.image.clone());
    let all_of_it = lost(damaged_table.clone());
    let images = [
        (bare, vec![]),
        (damaged_table, vec![table.clone()]),
        (without_another, vec![table.clone()]),
        (damaged_arena, vec![arena]),
        (no_current, vec![manifest]),
        (all_of_it, vec![table]),
    ];
    for (image, damaged) in images {
        let expected = complete(&image);
        for kind in [CrashKind::Kill, CrashKind::PowerCut] {
            let mut steps = 0;
            for step in 0.. {
                let switch = CrashSwitch::new();
                let disk = image
                    .disk(BOOT)
                    .crash(CrashKind::Kill, step, switch.clone());
                switch.freeze_at(step);
                let done = repair(STORE.as_ref(), options(&disk), |_, _| {});
                let is_over = !switch.is_frozen();
                let disk = disk.crash(kind, step, CrashSwitch::new());
                let opened = Db::open(STORE, options(&disk)).and_then(|db| db.close());
                if is_over {
                    done.unwrap();
                    opened.unwrap();
                    steps = step;
                } else {
                    repaired(&disk);
                }
                println!("{kind:?} {step}");
                support::model::assert_same(&contents(&open(&disk)), &expected);
                let after = Image::of(&disk);
                let left = after.names(|name| name.ends_with(".new"));
                assert!(left.is_empty(), "{left:?}");
                let is_kept = |file: &String| {
                    let kept = after.names(|name| name.starts_with(&format!("{file}.damaged")));
                    kept.iter()
                        .any(|name| after.files[name] == image.files[file])
                };
                // After a power cut a damaged frame is a torn tail, and no damage.
                let is_told =
                    |file: &&String| kind == CrashKind::Kill || !file.starts_with("arena-");
                assert!(
                    damaged.iter().filter(is_told).all(is_kept),
                    "{kind:?} {step}"
                );
                if is_over {
                    break;
                }
            }
            assert!(steps > 5, "{steps}");
        }
    }
}

/// Every file operation fails once; the next repair succeeds.
#[test]
fn a_repair_that_failed_is_run_again() {
    let scripted = Scripted::new(8, 260, false);
    let bare = scripted.without_manifest();
    let (once, _) = written_once();
    let table = tables(&once).pop().unwrap();
    let damaged_table = once.with(&table, |bytes| bytes[40] ^= 1);
    let arena = once.names(|name| name.starts_with("arena-")).pop().unwrap();
    let damaged_arena = once.with(&arena, |bytes| bytes[4096 + 200] ^= 1);
    for image in [bare, damaged_table, damaged_arena] {
        let whole = image.disk(BOOT);
        repaired(&whole);
        let expected = contents(&open(&whole));
        let mut failures = 0;
        for fault in [Fault::Io, Fault::NoSpace] {
            for at in 0.. {
                let disk = image.disk(BOOT);
                let plan = FaultPlan::new(FaultFilter::everything());
                let failing = FailingStorage::new(Arc::new(disk.clone()), plan.clone());
                plan.fail_at(at, fault);
                let options = Options {
                    storage: Arc::new(failing),
                    ..options(&disk)
                };
                let done = repair(STORE.as_ref(), options, |_, _| {});
                if plan.failures() == 0 {
                    done.unwrap();
                    break;
                }
                failures += usize::from(done.is_err());
                repaired(&disk);
                println!("{fault:?} {at} {done:?}");
                support::model::assert_same(&contents(&open(&disk)), &expected);
            }
        }
        assert!(failures > 20, "{failures}");
    }
}
