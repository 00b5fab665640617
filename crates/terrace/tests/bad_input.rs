//! Files that are no store, files of others, and arguments that no store takes: each gives a typed
//! error that names the remedy, and no file changes.

mod image;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use image::{Image, STORE};
use terrace::{Background, Db, Error, Options, WriteBatch, WriteOptions};
use terrace_storage::{CrashSwitch, SimulatedStorage};

/// The boot of every disk here.
const BOOT: u64 = 1;

fn options(disk: &SimulatedStorage) -> Options {
    let options = Options {
        storage: Arc::new(disk.clone()),
        ..Options::default()
    };
    Options {
        background: Background::Inline,
        ..support::script::tiny(options)
    }
}

fn real() -> Options {
    support::script::tiny(Options::default())
}

/// Returns a killed store with tables and frames.
fn specimen() -> Image {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    for number in 0..20u8 {
        db.put([number], [number; 50]).unwrap();
    }
    db.flush().unwrap();
    db.put(b"last", b"in an arena").unwrap();
    Image::of(&disk)
}

/// Returns a killed store that has no table yet.
fn specimen_without_tables() -> Image {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    db.put(b"only", b"in an arena").unwrap();
    Image::of(&disk)
}

/// Opens an image both ways. Returns the owner's error, which must be the reader's too, and must
/// have changed nothing.
fn refused(image: &Image) -> Error {
    let [reader, owner] = [true, false].map(|read_only| {
        let disk = image.disk(BOOT);
        let error = Db::open(
            STORE,
            Options {
                read_only,
                ..options(&disk)
            },
        )
        .unwrap_err();
        assert!(
            Image::of(&disk) == *image,
            "a refused opening has changed the files: {error}"
        );
        error
    });
    assert_eq!(
        std::mem::discriminant(&reader),
        std::mem::discriminant(&owner),
        "{reader}, {owner}"
    );
    assert!(owner.to_string().contains(STORE), "no path in: {owner}");
    owner
}

/// Asserts that a message holds all these words.
fn says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn a_missing_directory_is_no_store_unless_it_may_be_made() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    for given in [
        Options {
            create_if_missing: false,
            ..options(&disk)
        },
        Options {
            read_only: true,
            ..options(&disk)
        },
    ] {
        let error = Db::open(STORE, given).unwrap_err();
        assert!(matches!(error, Error::NoStore { .. }), "{error:?}");
        says(&error, &[STORE, "no such directory"]);
    }
    Db::open(STORE, options(&disk)).unwrap();
}

#[test]
fn an_existing_store_is_refused_if_a_new_one_was_asked_for() {
    let disk = specimen().disk(BOOT);
    let error = Db::open(
        STORE,
        Options {
            error_if_exists: true,
            ..options(&disk)
        },
    )
    .unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    says(&error, &[STORE, "error_if_exists"]);
}

#[test]
fn somebody_elses_files_are_named_and_left_alone() {
    let mut image = Image::default();
    image
        .files
        .insert("thesis.tex".to_owned(), b"\\documentclass{book}".to_vec());
    let error = refused(&image);
    assert!(matches!(error, Error::NoStore { .. }), "{error:?}");
    says(&error, &["thesis.tex", "empty"]);
}

#[test]
fn a_foreign_file_beside_a_store_is_left_alone() {
    let mut image = specimen();
    image.files.insert("notes.txt".to_owned(), b"mine".to_vec());
    let disk = image.disk(BOOT);
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert_eq!(
        db.get(b"last").unwrap().as_deref(),
        Some(&b"in an arena"[..])
    );
    db.close().unwrap();
    assert_eq!(Image::of(&disk).files["notes.txt"], b"mine");
}

#[test]
fn a_path_that_is_a_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "text").unwrap();
    for read_only in [true, false] {
        let error = Db::open(
            &path,
            Options {
                read_only,
                ..real()
            },
        )
        .unwrap_err();
        assert!(
            matches!(error, Error::Io(_) | Error::NoStore { .. }),
            "{error:?}"
        );
        says(&error, &[path.to_str().unwrap(), "irectory"]);
    }
    assert_eq!(fs::read(&path).unwrap(), b"text");
}

#[test]
fn a_directory_that_may_not_be_read_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    Db::open(&path, real()).unwrap().close().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let may_read_anyhow = fs::read_dir(&path).is_ok();
    let opened = Db::open(&path, real());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    if may_read_anyhow {
        return; // root
    }
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
    says(&error, &[path.to_str().unwrap(), "denied"]);
}

#[test]
fn a_store_has_one_owner_or_many_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let owner = Db::open(&path, real()).unwrap();
    owner.put(b"key", b"value").unwrap();
    for read_only in [true, false] {
        let error = Db::open(
            &path,
            Options {
                read_only,
                ..real()
            },
        )
        .unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
        says(&error, &[path.to_str().unwrap(), "LOCK"]);
    }
    owner.close().unwrap();

    let reader = || {
        Db::open(
            &path,
            Options {
                read_only: true,
                ..real()
            },
        )
        .unwrap()
    };
    let readers = [reader(), reader()];
    for reader in &readers {
        assert_eq!(reader.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        let error = reader.put(b"key", b"other").unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        says(&error, &["read-only"]);
    }
    let error = Db::open(&path, real()).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    drop(readers);
    Db::open(&path, real())
        .unwrap()
        .put(b"key", b"other")
        .unwrap();
}

#[test]
fn a_manifest_that_is_none_is_refused_by_name() {
    let image = specimen();
    let names = image.names(|name| name.starts_with("MANIFEST-"));
    let [manifest] = names.as_slice() else {
        panic!("{names:?}")
    };
    for damaged in [
        image.with(manifest, |bytes| bytes.clear()),
        image.with(manifest, |bytes| bytes.truncate(20)),
        image.with(manifest, |bytes| bytes[..8].copy_from_slice(b"SQLite f")),
    ] {
        let error = refused(&damaged);
        assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
        says(&error, &[manifest]);
    }
    let error = refused(&image.without(manifest));
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    says(&error, &[manifest]);
}

#[test]
fn a_current_that_is_none_is_refused_by_name() {
    let image = specimen();
    for content in [
        "",
        "\n",
        "MANIFEST-000001",
        "MANIFEST-000001\n",
        "../../etc/passwd 0\n",
    ] {
        let damaged = image.with("CURRENT", |bytes| *bytes = content.as_bytes().to_vec());
        let error = refused(&damaged);
        assert!(
            matches!(error, Error::Corruption { .. }),
            "{content:?}: {error:?}"
        );
        says(&error, &["CURRENT"]);
    }
    for image in [image, specimen_without_tables()] {
        let error = refused(&image.without("CURRENT"));
        assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
        says(&error, &["CURRENT"]);
    }
}

#[test]
fn a_missing_arena_is_a_lost_region() {
    let image = specimen();
    let mut lost = 0;
    for arena in image.names(|name| name.starts_with("arena-")) {
        let damaged = image.without(&arena);
        let disk = damaged.disk(BOOT);
        match Db::open(STORE, options(&disk)) {
            // It held nothing: a spare.
            Ok(db) => assert!(db.get(b"last").unwrap().is_some()),
            Err(Error::RegionLost { path, loss }) => {
                lost += 1;
                assert!(path.ends_with(&arena), "{path:?}");
                assert_eq!(loss.unwrap().kept, 20);
                says(&refused(&damaged), &[&arena, "20"]);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(lost > 0);
}

#[test]
fn a_missing_table_is_named() {
    let image = specimen();
    let tables = image.names(|name| name.ends_with(".table"));
    assert!(!tables.is_empty());
    for table in tables {
        let error = refused(&image.without(&table));
        assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
        says(&error, &[&table, "missing"]);
    }
}

/// The file of a merge or flush that the crash cut short has the number that the recovery wants.
#[test]
fn an_orphan_is_not_in_the_way_of_the_recovery() {
    let mut image = specimen();
    let numbers = image.names(|name| name.ends_with(".table"));
    let numbers = numbers
        .iter()
        .map(|name| name.strip_suffix(".table").unwrap().parse::<u64>());
    let highest = numbers.map(Result::unwrap).max().unwrap();
    for number in highest + 1..highest + 4 {
        image
            .files
            .insert(format!("{number}.table"), b"half a table".to_vec());
    }
    let disk = image.disk(BOOT);
    let db = Db::open(STORE, options(&disk)).unwrap();
    assert_eq!(
        db.get(b"last").unwrap().as_deref(),
        Some(&b"in an arena"[..])
    );
    db.close().unwrap();
    let left = Image::of(&disk);
    assert!(
        left.files.values().all(|bytes| bytes != b"half a table"),
        "an orphan is left"
    );
}

#[test]
fn keys_and_batches_that_are_too_large_are_refused_and_harm_nobody() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    let longest = vec![7; 65_535];
    db.put(&longest, b"fits").unwrap();
    assert_eq!(db.get(&longest).unwrap().as_deref(), Some(&b"fits"[..]));
    let error = db.put(vec![7; 65_536], b"").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    says(&error, &["65536", "65535"]);
    assert!(db.get(vec![7; 65_536]).unwrap().is_none());

    let mut batch = WriteBatch::new();
    batch.put(b"large", vec![1; 129 << 10]).unwrap();
    let error = db.write(batch, WriteOptions::default()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    says(&error, &["the largest may have", &(128 << 10).to_string()]);
    assert!(db.get(b"large").unwrap().is_none());
    db.put(b"large", vec![1; 127 << 10]).unwrap();
    assert_eq!(
        db.get(b"large").unwrap().map(|value| value.len()),
        Some(127 << 10)
    );
}

#[test]
fn a_closed_store_refuses_everything() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    let other = db.clone();
    db.close().unwrap();
    db.close().unwrap();
    let answers = [
        other.put(b"k", b"v"),
        other.get(b"k").map(|_| ()),
        other.iter(terrace::IterOptions::default()).map(|_| ()),
        other.flush(),
        other.compact(),
        other.persist(),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
    Db::open(STORE, options(&disk)).unwrap();
}

#[test]
fn an_option_out_of_range_is_refused_before_anything_is_made() {
    let disk = SimulatedStorage::new(BOOT, CrashSwitch::new());
    let error = Db::open(
        STORE,
        Options {
            arena_bytes: 1,
            ..options(&disk)
        },
    )
    .unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    says(&error, &["arena_bytes"]);
    let storage: &dyn terrace_storage::Storage = &disk;
    assert!(
        storage.list(Path::new(STORE)).is_err(),
        "a directory was made"
    );
}

/// `CURRENT` is gone, and nothing but the manifest is left in the store's own directory.
#[test]
fn a_first_manifest_is_the_remains_of_a_creation_only_if_no_edit_is_behind_its_first() {
    let mut image = specimen_without_tables();
    let name = "MANIFEST-000001";
    image.files.retain(|file, _| file == name);
    let length = u32::from_le_bytes(image.files[name][40..44].try_into().unwrap());
    let end = 32 + 16 + length.next_multiple_of(8) as usize;
    let refused = |image: &Image| {
        let disk = image.disk(BOOT);
        let error = Db::open(STORE, options(&disk)).unwrap_err();
        assert!(Image::of(&disk) == *image, "{error}");
        error
    };
    let whole = |_: &mut Vec<u8>| {};
    let header = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let edit = |bytes: &mut Vec<u8>| bytes[50] ^= 1;
    let changes: [fn(&mut Vec<u8>); 3] = [whole, header, edit];
    for change in changes {
        let error = refused(&image.with(name, change));
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
        says(&error, &["CURRENT", name]);
    }
    let newer = terrace_region::Front {
        magic: *b"TerrMani",
        version: 4,
    };
    let newer = image.with(name, |bytes| bytes[..16].copy_from_slice(&newer.encode()));
    let error = refused(&newer);
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    says(&error, &[name, "format 4"]);
    // The first edit and its mark reach the disk in any order.
    let first = image.with(name, |bytes| bytes.truncate(end + 32));
    for change in changes {
        let disk = first.with(name, change).disk(BOOT);
        Db::open(STORE, options(&disk)).unwrap().close().unwrap();
    }
}

/// The number behind such a file's is one that no name may have.
#[test]
fn files_with_the_last_number_are_in_nobodys_way() {
    let last = u64::MAX / 2;
    for name in [
        format!("MANIFEST-{last}"),
        format!("{last}.table.damaged"),
        format!("{last}.table.taken"),
        format!("{last}.table.unlisted"),
        format!("{last}.table.new"),
        format!("{last}.table"),
    ] {
        let mut image = specimen();
        let tables = image.names(|name| name.ends_with(".table"));
        let stray = match name.starts_with("MANIFEST") {
            true => b"stray".to_vec(),
            false => image.files[&tables[0]].clone(),
        };
        image.files.insert(name.clone(), stray);
        let (repaired, opened) = (image.disk(BOOT), image.disk(BOOT));
        let mut bare = image;
        bare.files
            .retain(|file, _| file != "CURRENT" && file != "MANIFEST-000001");
        let bare = bare.disk(BOOT);
        for disk in [&repaired, &bare] {
            let report = terrace_tools::repair::repair(STORE.as_ref(), options(disk), |_, _| {});
            report.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for disk in [opened, repaired, bare] {
            for round in 0..3u8 {
                let db = Db::open(STORE, options(&disk));
                let db = db.unwrap_or_else(|error| panic!("{name}, {round}: {error}"));
                // Edits until the manifest is rewritten.
                for number in 0..60u8 {
                    db.put([number], [round; 50]).unwrap();
                    db.flush().unwrap();
                }
                assert!(db.get(b"last").unwrap().is_some());
                db.close().unwrap();
            }
        }
    }
}
