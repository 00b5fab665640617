//! Limits of connections.

use std::time::Duration;

/// Limits of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most entries of a queue.
    pub queue_entries: u16,
    /// The most I/O queues of a controller.
    pub max_queues: u16,
    /// The most data of a command's capsule; a multiple of 16.
    pub capsule_data_bytes: u32,
    /// Memory for the data of capsules of all queues; a Connect beyond it is refused for a while.
    pub capsule_budget_bytes: usize,
    /// The most bytes of a data PDU from the host; a multiple of 4, at least 4096.
    pub max_data_bytes: u32,
    /// The most data of a command as a power of two, at least 12.
    pub max_transfer_shift: u8,
    /// The time in which a connection becomes a queue, authenticated if it must be.
    pub handshake: Duration,
    /// The time after which a command is taken back. With that of a piece, it stays below the 30 s
    /// after which hosts reset a controller.
    pub command: Duration,
    /// The time in which a host sends a piece that it was asked for.
    pub transfer: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            queue_entries: 128,
            max_queues: 64,
            capsule_data_bytes: 8192,
            capsule_budget_bytes: 256 << 20,
            max_data_bytes: 1 << 20,
            max_transfer_shift: 25,
            handshake: Duration::from_secs(10),
            command: Duration::from_secs(15),
            transfer: Duration::from_secs(5),
        }
    }
}
