//! Settings of a client.

use std::time::Duration;

use super::connection::Digests;
use crate::auth::SecretPair;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the host.
    pub host_nqn: String,
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Name of the subsystem.
    pub subsystem_nqn: String,
    /// I/O queues to ask for. Default 1.
    pub queues: u16,
    /// Entries of an I/O queue. One less is in flight at most. Default 128.
    pub queue_entries: u16,
    /// Time without Keep Alive after which the controller gives the host up. Zero is none. Default
    /// 5 s.
    pub keep_alive: Duration,
    /// Digests of the connections. Default none.
    pub digests: Digests,
    /// Time for a command, and for a step of the bring-up. A command has a second more for each
    /// megabyte of data in flight. Default 25 s: targets take a command back after 20 s.
    pub timeout: Duration,
    /// Time for attempts to connect again. Default 30 s.
    pub reconnect: Duration,
    /// Number of times to send a command that may be repeated. Default 3.
    pub attempts: u32,
    /// Secrets for a subsystem that asks for authentication. With a secret of the controller, a
    /// controller must authenticate itself as well. Default none.
    pub secrets: Option<SecretPair>,
}

impl Settings {
    /// Makes settings with defaults.
    pub fn new(
        host_nqn: impl Into<String>,
        host_id: [u8; 16],
        subsystem_nqn: impl Into<String>,
    ) -> Self {
        Settings {
            host_nqn: host_nqn.into(),
            host_id,
            subsystem_nqn: subsystem_nqn.into(),
            queues: 1,
            queue_entries: 128,
            keep_alive: Duration::from_secs(5),
            digests: Digests::default(),
            timeout: Duration::from_secs(25),
            reconnect: Duration::from_secs(30),
            attempts: 3,
            secrets: None,
        }
    }
}
