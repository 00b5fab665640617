//! A controller: the state between a host and a subsystem, shared by the host's queues.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::statistics::{Host, Traffic};
use super::subsystem::Subsystem;
use crate::wire::properties::{
    ALL_COMMAND_SETS, COMMAND_SET, ENABLE, READY, SHUTDOWN, SHUTDOWN_COMPLETE,
};

/// A controller.
pub(super) struct Controller {
    /// The number by which I/O queues name it.
    pub(super) id: u16,
    /// The subsystem; none is the discovery service.
    pub(super) subsystem: Option<Subsystem>,
    pub(super) host: String,
    pub(super) host_id: [u8; 16],
    pub(super) keep_alive_ms: AtomicU32,
    configuration: AtomicU32,
    status: AtomicU32,
    pub(super) queues: Mutex<Queues>,
    /// Namespaces in which a Delete of a missing key is an error.
    pub(super) strict_deletes: Mutex<BTreeSet<u32>>,
    /// Commands of all queues that the backend has.
    pub(super) in_flight: AtomicUsize,
    ended: AtomicBool,
    /// Whether the controller is one of those that are limited.
    pub(super) is_counted: AtomicBool,
    /// The address of the admin queue.
    peer: SocketAddr,
    pub(super) since: Instant,
    /// Whether the admin queue is a host's, authenticated if it must be.
    pub(super) has_entered: AtomicBool,
    pub(super) traffic: Traffic,
}

/// The numbers of a controller's I/O queues.
#[derive(Default)]
pub(super) struct Queues {
    /// Those that are connected, and whose hosts have proved their name if they must.
    pub(super) connected: BTreeSet<u16>,
    /// Those that are lost, with commands that the backend still has.
    pub(super) leaving: BTreeSet<u16>,
}

impl Controller {
    pub(super) fn new(
        id: u16,
        subsystem: Option<Subsystem>,
        host: String,
        host_id: [u8; 16],
        keep_alive_ms: u32,
        peer: SocketAddr,
        now: Instant,
    ) -> Self {
        Controller {
            id,
            subsystem,
            host,
            host_id,
            keep_alive_ms: AtomicU32::new(keep_alive_ms),
            configuration: AtomicU32::new(0),
            status: AtomicU32::new(0),
            queues: Mutex::default(),
            strict_deletes: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            peer,
            since: now,
            has_entered: AtomicBool::new(false),
            traffic: Traffic::default(),
        }
    }

    /// Describes the host for an operator.
    pub(super) fn describe(&self, now: Instant) -> Host {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let subsystem = self.subsystem.as_ref();
        let must_prove = subsystem.is_some_and(|subsystem| subsystem.secrets.is_some());
        Host {
            nqn: self.host.clone(),
            host_id: self.host_id,
            controller: self.id,
            subsystem: subsystem.map(|subsystem| subsystem.nqn.clone()),
            peer: self.peer,
            is_authenticated: must_prove && self.has_entered.load(Ordering::Relaxed),
            connected: now.saturating_duration_since(self.since),
            queues: self.queues.lock().connected.len(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            answers: count(&self.traffic.answers),
            received_bytes: count(&self.traffic.received_bytes),
            sent_bytes: count(&self.traffic.sent_bytes),
        }
    }

    pub(super) fn configuration(&self) -> u32 {
        self.configuration.load(Ordering::Relaxed)
    }

    pub(super) fn status(&self) -> u32 {
        self.status.load(Ordering::Relaxed)
    }

    /// Sets the configuration, and gets ready or shuts down as it says. False if it is not legal.
    pub(super) fn configure(&self, configuration: u32) -> bool {
        let set = configuration & COMMAND_SET;
        if configuration & ENABLE != 0 && !matches!(set, 0 | ALL_COMMAND_SETS) {
            return false;
        }
        self.configuration.store(configuration, Ordering::Relaxed);
        let mut status = 0;
        if configuration & ENABLE != 0 {
            status |= READY;
        }
        if configuration & SHUTDOWN != 0 {
            status |= SHUTDOWN_COMPLETE;
        }
        self.status.store(status, Ordering::Relaxed);
        true
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status() & (READY | SHUTDOWN_COMPLETE) == READY
    }

    /// Returns whether the host has chosen all command sets, without which it knows of blocks alone.
    pub(super) fn knows_keys(&self) -> bool {
        self.configuration() & COMMAND_SET == ALL_COMMAND_SETS
    }

    /// Takes the controller away: its queues end.
    pub(super) fn end(&self) {
        // Of a command that comes meanwhile, either its connection sees the end, or the wait for the
        // last command sees its count.
        self.ended.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}
