//! Where the socket is: a file in the store's directory, however long that path is.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use terrace_storage::{Directory, ErrorKind};

use super::{NEW_SOCKET, SOCKET};

/// The most that the kernel takes for a socket's path, its end excluded.
const MAX_PATH_BYTES: usize = 107;

/// A path that the kernel takes for a socket's.
struct Address {
    path: PathBuf,
    /// A long path goes through a descriptor of the directory, open while the address is used.
    _directory: Option<File>,
}

impl Address {
    fn of(directory: &Path, name: &str) -> io::Result<Self> {
        let path = directory.join(name);
        if path.as_os_str().len() <= MAX_PATH_BYTES {
            return Ok(Address {
                path,
                _directory: None,
            });
        }
        let opened = File::open(directory)?;
        Ok(Address {
            path: through(opened.as_fd(), name),
            _directory: Some(opened),
        })
    }
}

/// Returns a path that leads to a name in an open directory, wherever that is by now. No system call
/// binds a socket relative to a descriptor.
fn through(directory: BorrowedFd<'_>, name: &str) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(directory.as_raw_fd().to_string())
        .join(name)
}

/// Listens in a store's directory, in place of a socket that a crash left. Only for who holds the
/// store's lock.
pub(super) fn listen(directory: &dyn Directory) -> io::Result<UnixListener> {
    let descriptor = directory.descriptor().ok_or(io::ErrorKind::Unsupported)?;
    let new = through(descriptor, NEW_SOCKET);
    remove(&new)?;
    let listener = UnixListener::bind(&new)?;
    // Nobody else finds the socket before only its owner may use it.
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    directory
        .rename(NEW_SOCKET, SOCKET)
        .map_err(io::Error::other)?;
    Ok(listener)
}

/// Removes the socket. Only for who holds the store's lock.
pub(super) fn remove_socket(directory: &dyn Directory) -> io::Result<()> {
    match directory.remove(SOCKET) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io::Error::other(error)),
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn connect(directory: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(&Address::of(directory, SOCKET)?.path)
}
