//! One connection: a queue of a host. Bytes go in, actions and bytes come out.

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::action::{Action, Ended};
use super::controller::Controller;
use super::fabrics::Connecting;
use super::flight::Flights;
use super::output::Output;
use super::reader::Reader;
use super::registry::{Ports, Registry};
use super::settings::Settings;
use super::statistics::{Operation, Statistics};
use crate::auth;
use crate::wire::SubmissionEntry;

/// The stages of a connection's life.
pub(super) enum Phase {
    /// Before ICReq.
    Initialize,
    /// Before Connect.
    Connect,
    /// A Connect waits for commands that the host's earlier connections left behind.
    Held(Box<Connecting>),
    /// A queue of a controller whose host must authenticate before all else.
    Authenticate,
    /// A queue of a controller.
    Ready,
}

/// A queue of a host.
pub struct Connection<B> {
    pub(super) statistics: Arc<Statistics>,
    /// The kind of the command that is answered next.
    pub(super) answering: Operation,
    /// The upper bits of the tags of its commands.
    pub(super) number: u64,
    pub(super) settings: Arc<Settings>,
    pub(super) registry: Arc<Registry>,
    pub(super) ports: Ports,
    pub(super) phase: Phase,
    pub(super) controller: Option<Arc<Controller>>,
    /// The queue's number; 0 is the admin queue.
    pub(super) queue: u16,
    /// Whether the queue's number is taken.
    pub(super) has_number: bool,
    pub(super) queue_entries: u16,
    /// Memory that the queue's capsules may take.
    pub(super) reserved_bytes: usize,
    /// Place of the queue's head; none without flow control.
    pub(super) head: Option<u16>,
    /// The controller's side of authentication; none if the subsystem asks for none.
    pub(super) authentication: Option<Box<auth::Controller>>,
    pub(super) reader: Reader,
    pub(super) header_digests: bool,
    pub(super) data_digests: bool,
    /// The PDU at hand.
    pub(super) current: Current,
    /// The data of the capsule at hand.
    pub(super) capsule: Vec<u8>,
    pub(super) flights: Flights<B>,
    /// The connection's share of the backend's buffers, in bytes.
    pub(super) share_bytes: usize,
    /// Bytes that came from the host or went to it.
    pub(super) moved_bytes: u64,
    /// Whether the host has taken bytes since the last tick.
    pub(super) has_sent: bool,
    /// Connects that were refused for good.
    pub(super) refused_connects: u32,
    /// Whether the queue counts with others: its memory is taken, and its controller is one of them.
    pub(super) is_counted: bool,
    pub(super) output: Output<B>,
    /// Event requests that stay pending.
    pub(super) event_requests: Vec<u16>,
    /// The start of the handshake: of the connection, or of a new authentication that failed.
    pub(super) began: Instant,
    pub(super) last_command: Instant,
    /// Whether new commands are refused, for the server is about to stop.
    pub(super) is_stopping: bool,
    /// The last time that the caller gave.
    pub(super) now: Instant,
    pub(super) ended: Option<Ended>,
}

/// The PDU whose data come next.
pub(super) enum Current {
    None,
    Command(Box<SubmissionEntry>),
    /// The slot of a transfer, and whether this is to be its last data.
    Data {
        slot: u16,
        is_last: bool,
    },
    Termination,
}

/// Bits of a tag that are the command's slot.
pub(super) const SLOT_BITS: u32 = 16;

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Makes a connection. `number` has at most 48 bits, and no other living connection has it.
    pub fn new(
        number: u64,
        settings: Arc<Settings>,
        registry: Arc<Registry>,
        ports: Ports,
        now: Instant,
    ) -> Self {
        let capsule_data = settings.capsule_data_bytes as usize;
        let max_data = settings.max_data_bytes as usize;
        Connection {
            statistics: registry.common_statistics(),
            answering: Operation::Fabrics,
            number,
            settings,
            registry,
            ports,
            phase: Phase::Initialize,
            controller: None,
            queue: 0,
            has_number: false,
            queue_entries: 1,
            reserved_bytes: 0,
            head: None,
            authentication: None,
            reader: Reader::new(capsule_data, max_data),
            header_digests: false,
            data_digests: false,
            current: Current::None,
            capsule: Vec::new(),
            flights: Flights::new(),
            share_bytes: usize::MAX,
            moved_bytes: 0,
            has_sent: false,
            refused_connects: 0,
            is_counted: false,
            output: Output::new(),
            event_requests: Vec::new(),
            began: now,
            last_command: now,
            is_stopping: false,
            now,
            ended: None,
        }
    }

    /// Has the connection add to the counters of its loop.
    pub(crate) fn count_in(&mut self, statistics: Arc<Statistics>) {
        self.statistics = statistics;
    }

    /// Tells the connection the time.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns the number of the connection that a tag belongs to.
    pub fn number_of(tag: u64) -> u64 {
        tag >> SLOT_BITS
    }

    /// Returns the bytes to send.
    pub fn output(&self) -> &Output<B> {
        &self.output
    }

    /// Takes note of bytes that were sent.
    pub fn sent(&mut self, bytes: usize, actions: &mut Vec<Action<B>>) {
        self.has_sent |= bytes > 0;
        self.moved_bytes += bytes as u64;
        self.statistics
            .sent_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(controller) = &self.controller {
            let sent = &controller.traffic.sent_bytes;
            sent.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let flights = &mut self.flights;
        self.output.advance(bytes, |tag, buffer| {
            actions.push(Action::GiveBack { tag, buffer });
            flights.piece_left(slot_of(tag));
        });
        self.admit(actions);
    }

    /// Returns the reason, once the connection has ended. The rest of the output may still be sent.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Returns the number of commands that have not ended.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Returns whether a Connect waits, which [`Connection::go_on`] tries again.
    pub fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held(_))
    }

    /// Returns whether the connection is a queue of a subsystem's host, authenticated if it must be.
    pub fn is_settled(&self) -> bool {
        let controller = self.controller.as_ref();
        let has_subsystem = controller.is_some_and(|controller| controller.subsystem.is_some());
        has_subsystem && matches!(self.phase, Phase::Ready)
    }

    /// Returns whether the connection is the admin queue, or none yet.
    pub fn is_admin(&self) -> bool {
        self.queue == 0
    }

    /// Returns whether buffers of the backend are with the host or on the way to it.
    pub fn holds_buffers(&self) -> bool {
        self.flights.holds_buffers()
    }

    pub(super) fn capsule(&self) -> &[u8] {
        &self.capsule
    }

    pub(super) fn count_in_flight(&self, change: isize) {
        if let Some(controller) = &self.controller {
            let count = &controller.in_flight;
            // One order with the look at the controller's end, see `Controller::end`.
            count.fetch_add(change as usize, Ordering::SeqCst);
        }
    }

    pub(super) fn tag(&self, slot: u16) -> u64 {
        self.number << SLOT_BITS | u64::from(slot)
    }
}

pub(super) fn slot_of(tag: u64) -> u16 {
    tag as u16
}
