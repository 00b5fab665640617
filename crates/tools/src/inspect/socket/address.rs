//! Where the socket is: a file in the store's directory, however long that path is.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net;
use terrace::offline::files::{NEW_SOCKET, SOCKET};
use terrace_storage::{Directory, ErrorKind, FileIdentity};

/// Maximum length of a socket's path in the kernel, its end excluded.
const MAX_PATH_BYTES: usize = 107;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

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

/// Listens in a store's directory, in place of a socket that a crash left. Only for the holder of
/// the store's lock.
pub(super) fn listen(directory: &dyn Directory) -> io::Result<(UnixListener, FileIdentity)> {
    let socket = bind(directory)?;
    net::listen(&socket, BACKLOG)?;
    let identity = directory
        .identity_of(NEW_SOCKET)
        .map_err(io::Error::other)?;
    directory
        .rename(NEW_SOCKET, SOCKET)
        .map_err(io::Error::other)?;
    Ok((socket.into(), identity))
}

/// Gives a socket its first name. It is private before that: the kernel makes the file with the mode
/// of the nameless socket, less the umask.
pub(super) fn bind(directory: &dyn Directory) -> io::Result<OwnedFd> {
    let descriptor = directory.descriptor().ok_or(io::ErrorKind::Unsupported)?;
    let new = through(descriptor, NEW_SOCKET);
    remove(&new)?;
    let (family, flags) = (net::AddressFamily::UNIX, net::SocketFlags::CLOEXEC);
    let socket = net::socket_with(family, net::SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &net::SocketAddrUnix::new(&new)?)?;
    Ok(socket)
}

/// Whether the other end may ask: it is the process's own user, or root.
///
/// The socket's mode says the same, but only at the time of the connection, and only of the name
/// that was used.
pub(super) fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    let peer = net::sockopt::socket_peercred(stream).map(|peer| peer.uid);
    peer.is_ok_and(|peer| peer == own || peer.is_root())
}

/// Removes a socket, if it is there: a copy that was restored into the directory may have an owner
/// with a socket of its own. The kernel gives the identity to no other file while the socket is bound.
pub(super) fn remove_socket(directory: &dyn Directory, socket: FileIdentity) -> io::Result<()> {
    if directory.identity_of(SOCKET).map_err(io::Error::other)? != socket {
        return Ok(());
    }
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
