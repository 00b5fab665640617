//! Forged arenas: good checksums over bytes that no store writes.

use std::path::Path;
use std::sync::Arc;

use terrace::{Db, Error};
use terrace_region::{Frame, Region, WrittenOptions};
use terrace_storage::{CrashSwitch, SimulatedStorage, Storage};

use crate::foreign::{active_and_spare, assert_settled, header, own_number};
use crate::image::{Image, STORE};
use crate::specimen::{BOOT, is_manifest, of_default, open, options, repaired};

const ARENA_BYTES: u64 = 16 << 10;
const GOOD: &[u8] = &[1, 1, 1, 1, b'k', b'v'];

/// Returns a killed store whose arenas hold nothing, and the last number in its tables.
fn flushed() -> (Image, u64) {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    (0..60u8).for_each(|number| db.put([number], [number; 40]).unwrap());
    db.flush().unwrap();
    let last = db.statistics().sequences.visible;
    (Image::of(&disk), last)
}

/// Returns an arena of a store with these payloads, one write each.
fn arena(store: u128, slot: u64, generation: u64, from: u64, payloads: &[&[u8]]) -> Vec<u8> {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let directory = Path::new(STORE);
    disk.create_directory(directory).unwrap();
    let region = Region::written(
        Arc::new(disk.clone()),
        directory,
        store.to_le_bytes(),
        ARENA_BYTES,
        WrittenOptions::default(),
    );
    let region = region.unwrap();
    let arena = loop {
        let free = region.reserve(ARENA_BYTES).unwrap();
        if free.number() == slot {
            break region.activate(free, generation).unwrap();
        }
    };
    for (first_sequence, payload) in (from..).zip(payloads) {
        let frame = Frame {
            first_sequence,
            record_count: 1,
            persisted_until: from - 1,
            payload: &[payload],
        };
        arena.append(&frame).unwrap();
    }
    Image::of(&disk)
        .files
        .remove(&format!("arena-{slot}"))
        .unwrap()
}

fn without_manifest(image: &Image) -> Image {
    let mut bare = image.clone();
    bare.files.retain(|name, _| !is_manifest(name));
    bare
}

#[test]
fn a_frame_of_records_that_are_none_ends_what_is_taken_of_its_arena() {
    let (image, last) = flushed();
    let (active, _) = active_and_spare(&image);
    let of_active = header(&image, &active);
    let two_records = [GOOD, GOOD].concat();
    // A keyspace of 2^31, as a varint.
    let no_keyspace = [&[1, 0x80, 0x80, 0x80, 0x80, 8, 1, 1], &b"kv"[..]].concat();
    for bad in [
        &[0xff; 8][..],
        &two_records,
        &[4, 1, 1, 0, b'k'],
        &no_keyspace,
    ] {
        let good = [1, 1, 1, 1, b'l', b'v'];
        let forged = arena(
            own_number(&image),
            of_active.slot,
            of_active.generation,
            last + 1,
            &[GOOD, bad, &good],
        );
        let image = image.with(&active, |bytes| bytes.clone_from(&forged));
        let refused = Db::open(STORE, options(&image.disk(BOOT)));
        assert!(matches!(refused, Err(Error::Corruption { .. })), "{bad:?}");
        for image in [without_manifest(&image), image] {
            let disk = image.disk(BOOT);
            let report = repaired(&disk);
            assert_eq!(report.writes_from_arenas, 1, "{report:?}");
            assert_eq!(report.dropped, Some((last + 2, last + 3)), "{report:?}");
            assert!(report.arena_damage.is_some());
            let kept = &Image::of(&disk).files[&format!("{active}.damaged")];
            assert!(*kept == forged);
            assert_settled(&disk);
            let db = open(&disk);
            assert_eq!(of_default(&db).len(), 61, "{report:?}");
            db.put(b"new", b"value").unwrap();
            assert!(db.statistics().sequences.visible > last + 3);
        }
    }
}

#[test]
fn an_arena_whose_generation_leaves_no_room_is_put_aside() {
    let (image, last) = flushed();
    for generation in [u64::MAX / 2, u64::MAX] {
        let forged = arena(own_number(&image), 9, generation, last + 1, &[GOOD]);
        let mut image = image.clone();
        image.files.insert("arena-9".to_owned(), forged.clone());
        for image in [without_manifest(&image), image] {
            let disk = image.disk(BOOT);
            repaired(&disk);
            let after = Image::of(&disk);
            assert!(after.files["arena-9.damaged"] == forged);
            assert_settled(&disk);
            assert_eq!(of_default(&open(&disk)).len(), 60);
        }
    }
}
