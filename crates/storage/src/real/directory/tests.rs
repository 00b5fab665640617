use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

use rustix::fs::{CWD, mknodat};

use super::*;
use crate::{ErrorKind, Purpose, RealStorage, Storage};

const CREATE: OpenOptions = OpenOptions::buffered(OpenMode::CreateNew);
const READ: OpenOptions = OpenOptions::buffered(OpenMode::Read);

fn opened(path: &Path) -> Arc<dyn Directory> {
    RealStorage.directory(path, Access::Owner).unwrap()
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_moved_directory_is_still_the_one_that_was_opened() {
    let root = tempfile::tempdir().unwrap();
    let (path, moved) = (root.path().join("store"), root.path().join("moved"));
    RealStorage.create_directory(&path).unwrap();
    let directory = opened(&path);
    fs::rename(&path, &moved).unwrap();
    RealStorage.create_directory(&path).unwrap();
    directory.open("a", CREATE).unwrap();
    directory.rename("a", "b").unwrap();
    directory.link("b", &*directory, "c").unwrap();
    directory.link("b", &*opened(&path), "d").unwrap();
    directory.sync().unwrap();
    assert!(moved.join("b").exists() && moved.join("c").exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    assert!(!directory.is_removed().unwrap());
    assert_ne!(
        directory.identity().unwrap(),
        opened(&path).identity().unwrap()
    );
}

#[test]
fn a_removed_directory_says_so() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    RealStorage.create_directory(&path).unwrap();
    let directory = opened(&path);
    fs::remove_dir(&path).unwrap();
    assert!(directory.is_removed().unwrap());
    let error = directory.open("a", CREATE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn only_regular_files_are_opened_and_nothing_is_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let fifo = root.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    fs::write(root.path().join("file"), b"x").unwrap();
    symlink("file", root.path().join("link")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    fs::create_dir(root.path().join("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let directory = opened(root.path());
    for name in ["fifo", "link", "loop", "directory", "socket"] {
        for mode in [OpenMode::Read, OpenMode::ReadWrite] {
            let options = OpenOptions::buffered(mode);
            let error = directory.open(name, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotAFile, "{name}: {error}");
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains("not a regular file"),
                "{text}"
            );
        }
        let error = directory.lock(name, LockKind::Exclusive).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFile, "{name}: {error}");
    }
    let listed = directory.list().unwrap();
    assert_eq!(listed.len(), 6, "a link to itself is listed: {listed:?}");
}

#[test]
fn reads_of_an_open_file_may_wait() {
    let root = tempfile::tempdir().unwrap();
    let directory = RealDirectory::open(root.path(), Access::Owner).unwrap();
    directory.open("f", CREATE).unwrap();
    let file = directory.open_regular("f", OFlags::RDONLY).unwrap();
    assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
}

#[test]
fn new_files_are_the_owners_alone_unless_they_are_widened() {
    let root = tempfile::tempdir().unwrap();
    let own = root.path().join("own");
    RealStorage.create_directory(&own).unwrap();
    opened(&own).open("f", CREATE).unwrap();
    let lock = opened(&own).lock("LOCK", LockKind::Exclusive).unwrap();
    assert_eq!(mode_of(&own), 0o700);
    assert_eq!(mode_of(&own.join("f")), 0o600);
    assert_eq!(mode_of(&own.join("LOCK")), 0o600);
    drop(lock);

    let wide = root.path().join("wide");
    RealStorage
        .create_directory_for(&wide, Access::Umask)
        .unwrap();
    let directory = RealStorage.directory(&wide, Access::Umask).unwrap();
    directory.open("f", CREATE).unwrap();
    let usual = root.path().join("usual");
    fs::write(&usual, b"").unwrap();
    assert_eq!(mode_of(&wide.join("f")), mode_of(&usual));

    fs::set_permissions(own.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    opened(&own).open("f", READ).unwrap();
    assert_eq!(
        mode_of(&own.join("f")),
        0o640,
        "an existing file keeps its mode"
    );
}

#[test]
fn a_file_is_locked_by_the_opening_that_writes_it() {
    let root = tempfile::tempdir().unwrap();
    let directory = opened(root.path());
    let file = directory.open("f", CREATE).unwrap();
    let lock = file.lock(LockKind::Exclusive).unwrap();
    assert_eq!(
        lock.identity().unwrap(),
        directory.identity_of("f").unwrap()
    );
    file.write_at(b"written all the same", 0, Purpose::Other)
        .unwrap();
    let other = directory
        .open("f", OpenOptions::buffered(OpenMode::ReadWrite))
        .unwrap();
    let error = other.lock(LockKind::Shared).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(lock);
    other.lock(LockKind::Exclusive).unwrap();
}

#[test]
fn a_shared_lock_asks_only_to_read() {
    let root = tempfile::tempdir().unwrap();
    let directory = RealDirectory::open(root.path(), Access::Owner).unwrap();
    let error = directory.lock("LOCK", LockKind::Shared).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        !root.path().join("LOCK").exists(),
        "a shared lock makes no file"
    );
    drop(directory.lock("LOCK", LockKind::Exclusive).unwrap());
    let file = directory.open_regular("LOCK", OFlags::RDONLY).unwrap();
    // The superuser passes every permission check, so the test looks at the flags of the opening.
    assert_eq!(
        fcntl_getfl(&file).unwrap() & OFlags::ACCMODE,
        OFlags::RDONLY
    );
}

/// Takes a lease on an open file, or gives it up. Returns whether the file system grants it.
#[expect(unsafe_code, reason = "no crate in use knows leases")]
fn lease(file: &fs::File, kind: i32) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: both take numbers only. The signal of a broken lease would end the process.
    unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
    }
}

/// A file server or a backup program may hold a lease for a moment.
#[test]
fn a_leased_file_is_waited_for_and_is_not_taken_for_a_locked_one() {
    let root = tempfile::tempdir().unwrap();
    let directory = opened(root.path());
    drop(directory.open("f", CREATE).unwrap());
    let leased = fs::File::open(root.path().join("f")).unwrap();
    if !lease(&leased, libc::F_RDLCK) {
        eprintln!("no leases here");
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(lease(&leased, libc::F_UNLCK));
        });
        let options = OpenOptions::buffered(OpenMode::ReadWrite);
        directory.open("f", options).unwrap();
    });
}
