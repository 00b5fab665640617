//! Connections of the host: a thread takes one for a command, and gives it back.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use terrace_nvmf::initiator::client::{Client, Settings};
use terrace_nvmf::initiator::{Error, Result};

/// Connections that are there before the first operation, so that none is timed: the paper's clients.
pub const PAPER_CLIENTS: usize = 15;

/// As many connections as threads have been in a command at one time.
pub struct Clients {
    address: SocketAddr,
    settings: Settings,
    idle: Mutex<Vec<Client>>,
}

impl Clients {
    /// Opens `count` connections.
    ///
    /// # Errors
    /// The node refuses.
    pub fn connect((address, settings): (SocketAddr, Settings), count: usize) -> Result<Self> {
        let idle = (0..count).map(|_| Client::connect(address, &settings));
        Ok(Clients {
            idle: Mutex::new(idle.collect::<Result<_>>()?),
            address,
            settings,
        })
    }

    /// Does a command, or a few, on a connection that no other thread uses meanwhile.
    ///
    /// # Errors
    /// As the command has them, and those of a new connection.
    pub fn run<T>(&self, work: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let idle = self.lock().pop();
        let mut client = match idle {
            Some(client) => client,
            None => Client::connect(self.address, &self.settings)?,
        };
        let done = work(&mut client);
        self.lock().push(client);
        done
    }

    /// Ends all connections that are idle.
    ///
    /// # Errors
    /// The first that a controller has.
    pub fn close(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.lock());
        let mut ended = Ok(());
        for client in all {
            ended = ended.and(client.close());
        }
        ended
    }

    // No holder of the lock panics half-way: the list is whole.
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = self.lock().len();
        f.debug_struct("Clients").field("idle", &idle).finish()
    }
}

/// Returns the error of a completed command that should not have failed so.
pub fn unexpected(what: &'static str) -> Error {
    Error::Malformed(what)
}
