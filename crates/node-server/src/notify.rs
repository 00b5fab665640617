//! Messages to the service manager: `sd_notify(3)`, which is a datagram.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager of the server's state, if one waits for it.
pub(crate) fn notify(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        // A service manager that does not listen is no reason not to serve.
        let _ = send(socket.as_bytes(), state);
    }
}

fn send(socket: &[u8], state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => {
            SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::from_bytes(socket)))?
        }
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_a_path_and_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("terrace-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, socket) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.as_os_str().as_bytes().to_vec(),
            ),
            (
                UnixDatagram::bind_addr(&abstract_name).unwrap(),
                format!("@{name}").into_bytes(),
            ),
        ] {
            send(&socket, "READY=1").unwrap();
            let mut bytes = [0; 64];
            let count = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"READY=1");
        }
        assert!(send(b"/nowhere/at/all", "READY=1").is_err());
    }
}
