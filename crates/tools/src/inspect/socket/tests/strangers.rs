//! Connections of users without permission.

use rustix::fs::Mode;
use rustix::process::{Uid, umask};
use rustix::thread::set_thread_uid;
use terrace::offline::files::NEW_SOCKET;

use super::*;
use crate::inspect::socket::address;

const STRANGER: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Lets every user into a directory.
fn open_up(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn a_socket_is_private_from_the_moment_it_has_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let before = umask(Mode::empty());
    let opened = terrace_storage::RealStorage;
    let opened = terrace_storage::Storage::directory(
        &opened,
        directory.path(),
        terrace_storage::Access::Owner,
    );
    let bound = address::bind(&*opened.unwrap());
    umask(before);
    let _socket = bound.unwrap();
    assert_eq!(mode(&directory.path().join(NEW_SOCKET)), 0o600);
}

/// Returns the answer to another user's client; `None` if this process may not become
/// another user.
fn told_to_a_stranger(store: &Path, request: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can ask as another user");
        return None;
    }
    let (store, request) = (store.to_path_buf(), request.to_owned());
    let told = std::thread::spawn(move || {
        // Of this thread alone.
        set_thread_uid(Uid::from_raw(STRANGER)).unwrap();
        said(&store, request.as_bytes())
    });
    Some(told.join().unwrap())
}

#[test]
fn another_user_is_hung_up_on_and_has_no_directory_made() {
    let (directory, path, db) = owner();
    db.put(b"key", b"value").unwrap();
    // The modes do not matter here.
    for opened in [directory.path(), &path, &path.join("inspect")] {
        open_up(opened);
    }
    let made = directory.path().join("made");
    let checkpoint = format!(
        "{{\"version\":1,\"request\":\"checkpoint\",\"directory\":{:?}}}\n",
        made.to_str().unwrap()
    );
    for request in ["{\"version\":1,\"request\":\"statistics\"}\n", &checkpoint] {
        let Some(told) = told_to_a_stranger(&path, request) else {
            return;
        };
        assert_eq!(told, "");
    }
    assert!(!made.exists());
    assert_eq!(db.statistics().strangers_refused, 2);
    // The same request by the owner's own user is carried out.
    assert!(said(&path, checkpoint.as_bytes()).contains("\"version\":1"));
    assert!(made.exists());
}
