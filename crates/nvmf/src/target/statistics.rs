//! Counters of a target. Each loop adds to its own, by relaxed operations; readers sum them up.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::action::Ended;
use super::backend::Command;
use crate::wire::Status;

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$of])* $name,)*
        }

        impl $kind {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$kind] = &[$($kind::$name,)*];

            /// Returns the name, in lower case with underscores.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$name => $text,)*
                }
            }
        }
    };
}

names! {
    /// The kind of a command.
    Operation {
        /// Store.
        Store = "store",
        /// Retrieve.
        Retrieve = "retrieve",
        /// Delete.
        Delete = "delete",
        /// Exist.
        Exist = "exist",
        /// List.
        List = "list",
        /// Read of blocks.
        Read = "read",
        /// Write of blocks.
        Write = "write",
        /// Flush.
        Flush = "flush",
        /// A command of an I/O queue that was refused before it reached the backend.
        Refused = "refused",
        /// A command of the admin queue.
        Admin = "admin",
        /// Connect, properties and authentication.
        Fabrics = "fabrics",
    }
}

names! {
    /// The class of a status.
    Class {
        /// Success.
        Success = "success",
        /// A key that is there or is not.
        Condition = "condition",
        /// Capacity Exceeded.
        Capacity = "capacity",
        /// The device failed, or takes no changes any more.
        Media = "media",
        /// The host may try again.
        Retry = "retry",
        /// The host took the command back.
        Aborted = "aborted",
        /// The command is not legal, or not allowed.
        Invalid = "invalid",
    }
}

names! {
    /// The reason for the end of a connection.
    End {
        /// The host ended it.
        ByHost = "by_host",
        /// The host violated the protocol.
        Violation = "violation",
        /// The host was silent or slow.
        Silence = "silence",
        /// There is no memory for the queue, or there are too many controllers.
        NoRoom = "no_room",
        /// Another connection is the same queue.
        QueueTaken = "queue_taken",
        /// The controller is gone.
        ControllerGone = "controller_gone",
        /// The server stops.
        Stopping = "stopping",
        /// Host and controller did not authenticate.
        Unauthenticated = "unauthenticated",
    }
}

impl Operation {
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Store { .. } => Operation::Store,
            Command::Retrieve { .. } => Operation::Retrieve,
            Command::Delete { .. } => Operation::Delete,
            Command::Exist { .. } => Operation::Exist,
            Command::List { .. } => Operation::List,
            Command::Read { .. } => Operation::Read,
            Command::Write { .. } => Operation::Write,
            Command::Flush => Operation::Flush,
        }
    }
}

impl Class {
    fn of(status: Status) -> Self {
        match status {
            _ if status.is_success() => Class::Success,
            Status::KEY_DOES_NOT_EXIST | Status::KEY_EXISTS => Class::Condition,
            Status::CAPACITY_EXCEEDED => Class::Capacity,
            Status::WRITE_FAULT
            | Status::WRITE_PROTECTED
            | Status::UNRECOVERED_ERROR
            | Status::UNRECOVERED_READ_ERROR => Class::Media,
            Status::ABORTED => Class::Aborted,
            _ if status.may_retry() => Class::Retry,
            _ => Class::Invalid,
        }
    }
}

impl End {
    fn of(reason: &Ended) -> Self {
        match reason {
            Ended::ByHost => End::ByHost,
            Ended::Violation(_) => End::Violation,
            Ended::Silence => End::Silence,
            Ended::NoRoom => End::NoRoom,
            Ended::QueueTaken => End::QueueTaken,
            Ended::ControllerGone => End::ControllerGone,
            Ended::Stopping => End::Stopping,
            Ended::Unauthenticated(_) => End::Unauthenticated,
        }
    }
}

/// Operations that the backend carries out.
const TIMED: usize = Operation::Refused as usize;
const OPERATIONS: usize = Operation::ALL.len();
const CLASSES: usize = Class::ALL.len();
const ENDS: usize = End::ALL.len();

/// Buckets of a histogram: bucket `n` counts times below `1 << n` microseconds that no bucket before
/// it counts; the last one counts all others.
pub const BUCKETS: usize = 26;

/// Times of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Number of operations, by [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
    /// Sum of the times in microseconds.
    pub sum_us: u64,
}

/// Counters as they are at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at once, since there were too many.
    pub refused: u64,
    /// Connections that ended, by [`End`].
    pub ended: [u64; ENDS],
    /// Bytes that hosts sent.
    pub received_bytes: u64,
    /// Bytes that hosts took.
    pub sent_bytes: u64,
    /// Answers, by [`Operation`] and [`Class`].
    pub answers: [[u64; CLASSES]; OPERATIONS],
    /// Times from a command to its answer, by [`Operation`]; those up to [`Operation::Flush`].
    pub times: [Times; TIMED],
    /// Transfers that hosts were asked for (R2T).
    pub transfers: u64,
    /// Time that finished transfers took the hosts, in microseconds.
    pub transfer_us: u64,
}

/// The counters of one loop.
#[derive(Default)]
pub(crate) struct Statistics {
    accepted: AtomicU64,
    refused: AtomicU64,
    ended: [AtomicU64; ENDS],
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    answers: [[AtomicU64; CLASSES]; OPERATIONS],
    times: [LoopTimes; TIMED],
    transfers: AtomicU64,
    transfer_us: AtomicU64,
}

#[derive(Default)]
struct LoopTimes {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Statistics {
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self, reason: &Ended) {
        self.ended[End::of(reason) as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn answered(&self, operation: Operation, status: Status) {
        let class = Class::of(status) as usize;
        self.answers[operation as usize][class].fetch_add(1, Relaxed);
    }

    pub(super) fn took(&self, operation: Operation, time: Duration) {
        let Some(times) = self.times.get(operation as usize) else {
            return;
        };
        let us = microseconds(time);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        times.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Relaxed);
        times.sum_us.fetch_add(us, Relaxed);
    }

    pub(super) fn transfer_began(&self) {
        self.transfers.fetch_add(1, Relaxed);
    }

    pub(super) fn transfer_ended(&self, time: Duration) {
        self.transfer_us.fetch_add(microseconds(time), Relaxed);
    }

    /// Adds the counters to a sum.
    pub(super) fn add_to(&self, sum: &mut Counts) {
        let add = |sum: &mut u64, counter: &AtomicU64| *sum += counter.load(Relaxed);
        add(&mut sum.accepted, &self.accepted);
        add(&mut sum.refused, &self.refused);
        add(&mut sum.received_bytes, &self.received_bytes);
        add(&mut sum.sent_bytes, &self.sent_bytes);
        add(&mut sum.transfers, &self.transfers);
        add(&mut sum.transfer_us, &self.transfer_us);
        for (sum, counter) in sum.ended.iter_mut().zip(&self.ended) {
            add(sum, counter);
        }
        let answers = self.answers.as_flattened().iter();
        for (sum, counter) in sum.answers.as_flattened_mut().iter_mut().zip(answers) {
            add(sum, counter);
        }
        for (sum, times) in sum.times.iter_mut().zip(&self.times) {
            add(&mut sum.sum_us, &times.sum_us);
            for (sum, counter) in sum.buckets.iter_mut().zip(&times.buckets) {
                add(sum, counter);
            }
        }
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A host with a controller, as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of the host.
    pub nqn: String,
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Number of its controller.
    pub controller: u16,
    /// Name of the subsystem; none for the discovery service.
    pub subsystem: Option<String>,
    /// The address that the admin queue came from.
    pub peer: SocketAddr,
    /// Whether the host has proved its name.
    pub is_authenticated: bool,
    /// The time since the host connected.
    pub connected: Duration,
    /// I/O queues.
    pub queues: usize,
    /// Commands that have not ended.
    pub in_flight: usize,
    /// Answers of all queues.
    pub answers: u64,
    /// Bytes that the host sent.
    pub received_bytes: u64,
    /// Bytes that the host took.
    pub sent_bytes: u64,
}

/// The counters of a host.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) answers: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_add_up_and_times_fall_into_their_buckets() {
        let loops = [Statistics::default(), Statistics::default()];
        for of_loop in &loops {
            of_loop.answered(Operation::Store, Status::SUCCESS);
            of_loop.took(Operation::Store, Duration::ZERO);
            of_loop.took(Operation::Store, Duration::from_micros(1));
            of_loop.took(Operation::Store, Duration::from_micros(1023));
            of_loop.took(Operation::Store, Duration::from_secs(1 << 30));
        }
        loops[0].answered(Operation::Flush, Status::WRITE_PROTECTED);
        // The commands of the admin queue are not timed.
        loops[0].took(Operation::Admin, Duration::ZERO);
        loops[1].ended(&Ended::Violation("x"));
        let mut sum = Counts::default();
        loops.iter().for_each(|of_loop| of_loop.add_to(&mut sum));
        assert_eq!(sum.answers[Operation::Store as usize][0], 2);
        assert_eq!(
            sum.answers[Operation::Flush as usize][Class::Media as usize],
            1
        );
        assert_eq!(sum.ended[End::Violation as usize], 1);
        let store = sum.times[Operation::Store as usize];
        let filled: Vec<_> = (0..BUCKETS).filter(|&at| store.buckets[at] == 2).collect();
        assert_eq!(filled, [0, 1, 10, BUCKETS - 1]);
    }

    #[test]
    fn each_status_has_a_class() {
        for (status, class) in [
            (Status::KEY_EXISTS, Class::Condition),
            (Status::CAPACITY_EXCEEDED, Class::Capacity),
            (Status::UNRECOVERED_ERROR, Class::Media),
            (Status::WRITE_FAULT, Class::Media),
            (Status::CONNECT_BUSY, Class::Retry),
            (Status::ABORTED, Class::Aborted),
            (Status::AUTHENTICATION_REQUIRED, Class::Invalid),
        ] {
            assert_eq!(Class::of(status), class, "{status}");
        }
    }
}
