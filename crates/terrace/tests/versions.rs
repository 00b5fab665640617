//! Versions of formats: damage never passes for another release's file. Such a file is refused by
//! its name, left alone and named by a repair that goes on with the rest.

mod image;
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Image, STORE};
use support::script::tiny;
use terrace::{Background, Db, Error, Options, Result};
use terrace_region::Front;
use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};
use terrace_tools::inspect;
use terrace_tools::repair::{ManifestRepair, RepairReport};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const BOOT: u64 = 1;
const REGION_DIR: &str = "/fast";
const KEYS: u8 = 120;

fn options(disk: &SimulatedStorage) -> Options {
    tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        ..Options::default()
    })
}

fn options_with_region(disk: &SimulatedStorage) -> Options {
    Options {
        region_dir: Some(REGION_DIR.into()),
        ..options(disk)
    }
}

fn put_all(db: &Db) {
    for key in 0..KEYS {
        db.put([key], [key; 40]).unwrap();
    }
}

/// Returns a closed store with several tables that do not overlap.
fn specimen() -> Image {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    put_all(&db);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let image = Image::of(&disk);
    assert!(tables(&image).len() > 1);
    image
}

fn tables(image: &Image) -> Vec<String> {
    image.names(|name| name.ends_with(".table"))
}

fn path(name: &str) -> PathBuf {
    Path::new(STORE).join(name)
}

fn repair(options: Options) -> Result<RepairReport> {
    terrace_tools::repair::repair(STORE.as_ref(), options, |_, _| {})
}

fn verify(disk: &SimulatedStorage) -> Vec<inspect::Problem> {
    let report = inspect::verify(STORE.as_ref(), options(disk), |_, _| {});
    report.unwrap().problems
}

/// Returns the number of keys that are there, each with its value.
fn keys(db: &Db) -> Result<usize> {
    let entries = db.iter(Default::default())?.entries();
    let entries: Vec<_> = entries.collect::<Result<_>>()?;
    assert!(entries.iter().all(|(key, value)| *value == [key[0]; 40]));
    Ok(entries.len())
}

fn reopened(options: Options) -> Db {
    Db::open(STORE, options).unwrap()
}

fn is_damage_of(error: &Error, name: &str) -> bool {
    matches!(error, Error::Corruption { file, .. } if file.ends_with(name))
}

fn is_unsupported(error: &Error, name: &str) -> bool {
    matches!(error, Error::Unsupported { file, .. } if file.ends_with(name))
}

#[test]
fn a_flipped_bit_of_a_tables_header_or_trailer_is_damage_and_repair_goes_on() {
    let image = specimen();
    let name = &tables(&image)[0];
    let length = image.files[name].len();
    for byte in (0..16).chain(length - 32..length) {
        for bit in 0..8 {
            let flipped = image.with(name, |bytes| bytes[byte] ^= 1 << bit);
            let disk = flipped.disk(BOOT);
            let what = format!("byte {byte}, bit {bit}");
            let problems = verify(&disk);
            assert_eq!(problems.len(), 1, "{what}");
            assert!(is_damage_of(&problems[0].error, name), "{what}");
            let read = keys(&reopened(options(&disk)));
            assert!(
                read.is_ok_and(|count| byte < 16 && count == usize::from(KEYS)) || byte >= 16,
                "{what}"
            );
            let report = repair(options(&disk)).unwrap();
            assert_eq!((report.damaged.len(), report.left.len()), (1, 0), "{what}");
            assert!(verify(&disk).is_empty(), "{what}");
            let left = keys(&reopened(options(&disk))).unwrap();
            assert!(left == usize::from(KEYS) || byte >= 16, "{what}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_manifests_header_is_damage_and_repair_goes_on() {
    let image = specimen();
    let name = &image.names(|name| name.starts_with("MANIFEST"))[0];
    for bit in 0..32 * 8 {
        let disk = image
            .with(name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8))
            .disk(BOOT);
        let error = Db::open(STORE, options(&disk)).unwrap_err();
        assert!(is_damage_of(&error, name), "bit {bit}: {error}");
        let report = repair(options(&disk)).unwrap();
        assert!(
            matches!(report.manifest, ManifestRepair::Rebuilt(_)),
            "bit {bit}"
        );
        let db = reopened(options(&disk));
        assert_eq!(keys(&db).unwrap(), usize::from(KEYS), "bit {bit}");
    }
}

/// Returns a killed store whose writes are in a region directory alone.
fn with_region() -> SimulatedStorage {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options_with_region(&disk)).unwrap();
    put_all(&db);
    drop(db);
    disk
}

fn read(disk: &SimulatedStorage, file: &Path) -> Vec<u8> {
    let file = disk
        .open(file, OpenOptions::buffered(OpenMode::Read))
        .unwrap();
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0, Purpose::Other).unwrap();
    bytes
}

fn write(disk: &SimulatedStorage, file: &Path, bytes: &[u8]) {
    let file = disk
        .open(file, OpenOptions::buffered(OpenMode::ReadWrite))
        .unwrap();
    file.write_at(bytes, 0, Purpose::Other).unwrap();
}

#[test]
fn a_flipped_bit_of_a_region_file_is_damage_and_repair_goes_on() {
    let file = Path::new(REGION_DIR).join("REGION");
    let good = read(&with_region(), &file);
    assert_eq!(good.len(), 56);
    for bit in 0..good.len() * 8 {
        let disk = with_region();
        let mut bytes = read(&disk, &file);
        bytes[bit / 8] ^= 1 << (bit % 8);
        write(&disk, &file, &bytes);
        let error = Db::open(STORE, options_with_region(&disk)).unwrap_err();
        assert!(is_damage_of(&error, "REGION"), "bit {bit}: {error}");
        let report = repair(options_with_region(&disk)).unwrap();
        assert!(
            report.region_damage.is_some() && report.left.is_empty(),
            "bit {bit}"
        );
        let db = reopened(options_with_region(&disk));
        assert_eq!(keys(&db).unwrap(), usize::from(KEYS), "bit {bit}");
    }
}

/// Makes a table one of a later format: its front and its trailer say so under their sums.
fn make_newer(bytes: &mut [u8]) {
    let magic = *b"TerTable";
    bytes[..16].copy_from_slice(&Front { magic, version: 3 }.encode());
    let start = bytes.len() - 32;
    let trailer = &mut bytes[start..];
    trailer[12..16].copy_from_slice(&3u32.to_le_bytes());
    let sum = xxh3_64_with_seed(&trailer[..16], start as u64);
    trailer[16..24].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_newer_table_is_refused_by_its_name_and_repair_leaves_it_and_goes_on() {
    let image = specimen();
    let names = tables(&image);
    for with_manifest in [true, false] {
        let mut newer = image.with(&names[0], |bytes| make_newer(bytes));
        // Beside it a damaged one.
        newer = newer.with(&names[1], |bytes| bytes[40] ^= 1);
        if !with_manifest {
            newer.files.remove("CURRENT");
        }
        let disk = newer.disk(BOOT);
        if with_manifest {
            let error = keys(&reopened(options(&disk))).unwrap_err();
            assert!(is_unsupported(&error, &names[0]), "{error}");
            let problems = verify(&disk);
            assert!(
                problems
                    .iter()
                    .any(|found| is_unsupported(&found.error, &names[0]))
            );
        }
        let report = repair(options(&disk)).unwrap();
        assert_eq!((report.damaged.len(), report.left.len()), (1, 1));
        let left = &report.left[0];
        assert!(left.file == path(&names[0]) && left.is_newer());
        // The newer release would remove the first name: no edit lists the table any more.
        let kept = format!("{}.unlisted", names[0]);
        assert_eq!(left.kept_as, Some(path(&kept)));
        assert!(is_unsupported(&left.error, &names[0]));
        assert_eq!(report.tables_unlisted, 1);
        assert!(report.is_changed() && report.may_resurrect());
        assert!(verify(&disk).is_empty());
        // No opening removes it or gives its number away.
        for _ in 0..2 {
            let db = reopened(options(&disk));
            let found = keys(&db).unwrap();
            assert!(found > 0 && found < usize::from(KEYS));
            db.put([0], [0; 40]).unwrap();
            db.flush().unwrap();
            db.compact_range(..).unwrap();
            db.close().unwrap();
        }
        let before = Image::of(&disk);
        assert_eq!(before.files[&names[0]], newer.files[&names[0]]);
        assert_eq!(before.files[&kept], newer.files[&names[0]]);
        let again = repair(options(&disk)).unwrap();
        assert_eq!((again.left.len(), again.tables_unlisted), (1, 0));
        assert!(!again.is_changed());
        assert_eq!(Image::of(&disk), before);
    }
}

#[test]
fn a_newer_table_that_nobody_lists_is_no_orphan_and_keeps_its_number() {
    let image = specimen();
    let names = tables(&image);
    let mut with_more = image.clone();
    let mut newer = image.files[&names[0]].clone();
    make_newer(&mut newer);
    let old: u64 = 100;
    // The number that the next table would have, and one that no table ever has.
    let last = names
        .iter()
        .map(|name| name.strip_suffix(".table").unwrap());
    let next = last
        .map(|number| number.parse::<u64>().unwrap())
        .max()
        .unwrap()
        + 1;
    let kept = [next, next + 1, u64::MAX].map(|number| format!("{number}.table"));
    for name in &kept {
        with_more.files.insert(name.clone(), newer.clone());
    }
    // An orphan of this release goes.
    let orphan = format!("{}.table", next + old);
    with_more
        .files
        .insert(orphan.clone(), image.files[&names[0]].clone());
    let disk = with_more.disk(BOOT);
    let db = reopened(options(&disk));
    put_all(&db);
    db.flush().unwrap();
    assert_eq!(keys(&db).unwrap(), usize::from(KEYS));
    drop(db);
    let after = Image::of(&disk);
    assert!(kept.iter().all(|name| after.files[name] == newer));
    assert!(!after.files.contains_key(&orphan));
}

#[test]
fn a_manifest_of_another_version_is_refused_by_its_name_and_left_alone() {
    let image = specimen();
    let name = &image.names(|name| name.starts_with("MANIFEST"))[0];
    let magic = *b"TerrMani";
    let newer = Front { magic, version: 4 }.encode();
    let last = Front { magic, version: 2 }.encode();
    // Version 1 had zeros in the place of the sum.
    let first = *b"TerrMani\x01\0\0\0\0\0\0\0";
    let others = [(newer, "format 4"), (last, "format 2"), (first, "format 1")];
    for (front, version) in others {
        let image = image.with(name, |bytes| bytes[..16].copy_from_slice(&front));
        let disk = image.disk(BOOT);
        let opened = Db::open(STORE, options(&disk)).map(drop);
        for error in [opened.unwrap_err(), repair(options(&disk)).unwrap_err()] {
            assert!(is_unsupported(&error, name), "{error}");
            assert!(error.to_string().contains(version), "{error}");
        }
        assert_eq!(Image::of(&disk), image);
    }
}

#[test]
fn a_newer_region_is_refused_by_its_name_and_repair_goes_on_with_the_tables() {
    let disk = with_region();
    // The entries of tables, too.
    reopened(options_with_region(&disk)).flush().unwrap();
    let file = Path::new(REGION_DIR).join("REGION");
    let magic = *b"TerrRegn";
    write(&disk, &file, &Front { magic, version: 3 }.encode());
    let region = read(&disk, &file);
    let error = Db::open(STORE, options_with_region(&disk)).unwrap_err();
    assert!(is_unsupported(&error, "REGION"), "{error}");
    let tables = tables(&Image::of(&disk));
    let mut table = read(&disk, &path(&tables[0]));
    table[40] ^= 1;
    write(&disk, &path(&tables[0]), &table);
    let report = repair(options_with_region(&disk)).unwrap();
    assert_eq!((report.damaged.len(), report.left.len()), (1, 1));
    assert_eq!(report.left[0].file, file);
    assert!(is_unsupported(&report.left[0].error, "REGION"));
    assert_eq!(read(&disk, &file), region);
    let again = repair(options_with_region(&disk)).unwrap();
    assert!(again.left.len() == 1 && !again.is_changed());
}

/// A table that an earlier repair wrote and another release is to read.
#[test]
fn a_newer_table_without_its_name_is_no_remains_of_a_repair() {
    let image = specimen();
    let name = tables(&image).remove(0);
    let mut newer = image.files[&name].clone();
    make_newer(&mut newer);
    let new = format!("{name}.new");
    // Listed: it gets its name.
    let mut listed = image.without(&name);
    listed.files.insert(new.clone(), newer.clone());
    let disk = listed.disk(BOOT);
    let report = repair(options(&disk)).unwrap();
    assert!(report.is_resumed, "{report:?}");
    assert!(report.left.iter().any(|left| left.file == path(&name)));
    let after = Image::of(&disk);
    assert!(after.files[&name] == newer && !after.files.contains_key(&new));
    // Not listed: it stays.
    let mut unlisted = image;
    unlisted
        .files
        .insert("900.table.new".to_owned(), newer.clone());
    let disk = unlisted.disk(BOOT);
    assert!(!repair(options(&disk)).unwrap().is_changed());
    let db = reopened(options(&disk));
    put_all(&db);
    db.close().unwrap();
    assert!(Image::of(&disk).files["900.table.new"] == newer);
}

/// Puts a `REGION` of a newer release in the place of the store's own, which is returned.
fn make_region_newer(disk: &SimulatedStorage) -> Vec<u8> {
    let file = Path::new(REGION_DIR).join("REGION");
    let own = read(disk, &file);
    let magic = *b"TerrRegn";
    write(disk, &file, &Front { magic, version: 3 }.encode());
    own
}

#[test]
fn arenas_behind_a_newer_region_stay_listed_in_a_new_manifest() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options_with_region(&disk)).unwrap();
    put_all(&db);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.put([200], [200; 40]).unwrap();
    db.persist().unwrap();
    drop(db);
    let region = make_region_newer(&disk);
    // A listed table is gone, and one is there that is not listed.
    let names = tables(&Image::of(&disk));
    disk.rename(&path(&names[0]), &path("900.table")).unwrap();
    let report = repair(options_with_region(&disk)).unwrap();
    assert!(matches!(report.manifest, ManifestRepair::Rebuilt(_)));
    // As the newer release would find it.
    write(&disk, &Path::new(REGION_DIR).join("REGION"), &region);
    let db = reopened(options_with_region(&disk));
    assert!(db.get([200]).unwrap().is_some());
    assert_eq!(keys(&db).unwrap(), usize::from(KEYS) + 1);
}

#[test]
fn unlisted_tables_are_not_taken_in_without_the_arenas_behind_a_newer_region() {
    let disk = with_region();
    reopened(options_with_region(&disk)).flush().unwrap();
    let db = reopened(options_with_region(&disk));
    db.put([200], [200; 40]).unwrap();
    db.persist().unwrap();
    drop(db);
    let names = tables(&Image::of(&disk));
    let table = read(&disk, &path(&names[0]));
    let new = OpenOptions::buffered(OpenMode::CreateNew);
    let file = disk.open(&path("900.table.unlisted"), new).unwrap();
    file.write_at(&table, 0, Purpose::Other).unwrap();
    make_region_newer(&disk);
    let before = Image::of(&disk);
    let options = Options {
        take_unlisted: true,
        ..options_with_region(&disk)
    };
    let refused = repair(options).unwrap_err().to_string();
    assert!(refused.contains("REGION"), "{refused}");
    assert_eq!(Image::of(&disk), before);
}
