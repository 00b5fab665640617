//! The root of a file system of its own: `mkfs` leaves a directory `lost+found` there.

use std::fs;
use std::path::Path;

use terrace::{Db, Error, Options};
use terrace_tools::repair::RepairOptions;

const NAME: &str = "lost+found";

/// Returns a directory with the contents of a new ext4.
fn root() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(NAME)).unwrap();
    directory
}

fn check(path: &Path) {
    let db = Db::open(path, Options::default()).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(db);
    let report = terrace_tools::inspect::verify(path, Options::default(), |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let options = RepairOptions::default();
    let report =
        terrace_tools::repair::repair_with(path, Options::default(), options, |_, _| {}).unwrap();
    assert!(!report.is_changed() && report.left.is_empty(), "{report:?}");
    assert!(path.join(NAME).is_dir());
}

#[test]
fn the_root_of_a_file_system_takes_a_store_and_a_checkpoint() {
    let (root_of_store, root_of_copy) = (root(), root());
    let (store, copy) = (root_of_store.path(), root_of_copy.path());
    let db = Db::open(store, Options::default()).unwrap();
    db.put(b"key", b"value").unwrap();
    db.checkpoint(copy).unwrap();
    drop(db);
    check(store);
    check(copy);
}

#[test]
fn a_store_that_is_not_there_is_told_as_in_an_empty_directory() {
    let root = root();
    let options = Options {
        create_if_missing: false,
        ..Options::default()
    };
    match Db::open(root.path(), options) {
        Err(Error::NoStore { detail, .. }) => assert_eq!(detail, "the directory is empty"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_of_that_name_is_foreign_everywhere() {
    let store = tempfile::tempdir().unwrap();
    let db = Db::open(store.path(), Options::default()).unwrap();
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join(NAME), "mine").unwrap();
    let error = Db::open(other.path(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::NoStore { .. }), "{error}");
    let error = db.checkpoint(other.path()).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    let third = tempfile::tempdir().unwrap();
    let options = Options {
        region_dir: Some(other.path().to_path_buf()),
        ..Options::default()
    };
    let error = Db::open(third.path(), options).unwrap_err();
    assert!(matches!(error, Error::WrongRegion { .. }), "{error}");
}
