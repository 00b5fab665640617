//! Directories that hold no manifest, or not the one they name.

use super::*;

#[test]
fn a_directory_without_current_is_no_store_or_a_damaged_one() {
    let storage = shared(&new_storage());
    let answer = |storage: &dyn Storage| load_at(storage, directory()).unwrap_err();
    let no_store = |storage: &dyn Storage, reason: &str| match answer(storage) {
        Error::NoStore { detail, .. } => assert!(detail.contains(reason), "{detail}"),
        error => panic!("{error}"),
    };
    storage.create_directory(directory()).unwrap();
    no_store(&*storage, "is empty");
    put(&*storage, "LOCK", b"");
    no_store(&*storage, "is empty");
    put(&*storage, "holiday.jpg", b"");
    no_store(&*storage, "holds other files");
    put(&*storage, "MANIFEST-000001", &encode_header(1)[..9]);
    no_store(&*storage, "creation was interrupted");
    put(&*storage, "000004.table", b"");
    assert!(matches!(answer(&*storage), Error::Corruption { .. }));

    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    storage.remove(&directory().join("CURRENT")).unwrap();
    match answer(&*storage) {
        Error::Corruption { file, detail, .. } => {
            assert!(
                file.ends_with("CURRENT") && detail.contains("MANIFEST-000001"),
                "{detail}"
            );
        }
        error => panic!("{error}"),
    }
    let created = create_at(storage, directory(), identity(), OPTIONS);
    assert!(matches!(created, Err(Error::Corruption { .. })));
}

#[test]
fn a_store_is_not_created_over_another() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let created = create_at(storage, directory(), identity(), OPTIONS);
    assert!(matches!(created, Err(Error::InvalidArgument(_))));
}

#[test]
fn the_first_current_replaces_none() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    // Another process has made a store since the directory was seen empty.
    let switched = switch_at(&*storage, directory(), 7);
    assert!(matches!(switched, Err(SwitchError::Unchanged(_))));
    load_at(&*storage, directory()).unwrap();
}

#[test]
fn a_current_that_names_a_missing_manifest_is_an_error() {
    let storage = shared(&new_storage());
    storage.create_directory(directory()).unwrap();
    assert!(switch_at(&*storage, directory(), 7).is_ok());
    let error = load_at(&*storage, directory()).unwrap_err();
    assert!(
        matches!(&error, Error::Corruption { file, detail, .. }
            if file.ends_with("CURRENT") && detail.contains("MANIFEST-000007")),
        "{error}"
    );
}

#[test]
fn a_missing_directory_is_told_from_an_unreadable_one() {
    let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::OpenDirectory]));
    let storage = FailingStorage::new(shared(&new_storage()), plan.clone());
    plan.fail_from(0, Fault::Io);
    match load_at(&storage, directory()).unwrap_err() {
        Error::Io(error) => assert_ne!(error.kind(), ErrorKind::NotFound),
        error => panic!("{error}"),
    }
}
