//! One connection: a queue of a host. Bytes go in, actions and bytes come out.

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::action::{Action, Ended};
use super::authentication::is_authentication;
use super::backend::{Answer, Command, Event, Key};
use super::command::{Data, decode};
use super::controller::Controller;
use super::fabrics::Connecting;
use super::flight::{Flight, Flights};
use super::identify;
use super::output::Output;
use super::reader::{Item, Reader, Violation};
use super::registry::{Ports, Registry};
use super::settings::Settings;
use super::statistics::{Operation, Statistics};
use crate::auth;
use crate::wire::kv::{self, KeyList};
use crate::wire::pdu::{
    DIGEST_DATA, DIGEST_HEADER, Fatal, HEADER_BYTES, Header, INITIALIZE_BYTES, Initialize, Kind,
};
use crate::wire::{Status, SubmissionEntry, command, sgl};

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
    number: u64,
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
    capsule: Vec<u8>,
    pub(super) flights: Flights<B>,
    /// The connection's share of the backend's buffers, in bytes.
    pub(super) share_bytes: usize,
    /// Bytes that came from the host or went to it.
    pub(super) moved_bytes: u64,
    /// Whether the host has taken bytes since the last tick.
    has_sent: bool,
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
    is_stopping: bool,
    /// The time as it was told last.
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

/// Half of the most time that a discovery controller has between two commands.
const DISCOVERY_MS: u32 = 60_000;

/// Bits of a tag that are the command's slot.
const SLOT_BITS: u32 = 16;

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

    /// Returns the reason, once the connection has ended. What is left of the output may still be sent.
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

    /// Takes bytes of the host.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        now: Instant,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) {
        self.now = now;
        self.moved_bytes += input.len() as u64;
        let bytes = input.len() as u64;
        self.statistics
            .received_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if let Some(controller) = &self.controller {
            let received = &controller.traffic.received_bytes;
            received.fetch_add(bytes, Ordering::Relaxed);
        }
        while self.ended.is_none() {
            match self.reader.next(&mut input) {
                Ok(None) => return,
                Ok(Some(item)) => {
                    if let Err(violation) = self.item(item, &mut input, used_bytes, actions) {
                        self.violated(violation);
                    }
                }
                Err(violation) => self.violated(violation),
            }
        }
    }

    fn item(
        &mut self,
        item: Item,
        input: &mut &[u8],
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        match item {
            Item::Header(kind) => self.header(kind),
            Item::Data(bytes) => {
                let (data, rest) = input.split_at(bytes);
                *input = rest;
                self.data(data);
                Ok(())
            }
            Item::End(is_intact) => self.end_of_pdu(is_intact, used_bytes, actions),
        }
    }

    /// Looks at a header before its data come.
    fn header(&mut self, kind: Kind) -> Result<(), Violation> {
        match (kind, &self.phase) {
            (Kind::InitializeRequest, Phase::Initialize) => self.initialize(),
            (Kind::HostTermination, _) => {
                self.current = Current::Termination;
                Ok(())
            }
            (_, Phase::Initialize | Phase::Held(_)) | (Kind::InitializeRequest, _) => {
                Err(Fatal::SequenceError.into())
            }
            (Kind::Command, _) => {
                let entry = SubmissionEntry::read_from_bytes(&self.reader.header()[HEADER_BYTES..]);
                self.capsule.clear();
                self.current = Current::Command(Box::new(entry.expect("a header of 72 bytes")));
                Ok(())
            }
            (Kind::HostData, _) => self.host_data(),
            _ => Err(Violation::field(0)),
        }
    }

    fn initialize(&mut self) -> Result<(), Violation> {
        let request = Initialize::read_from_bytes(&self.reader.header()[HEADER_BYTES..]);
        let request = request.expect("a header of 128 bytes");
        if request.format.get() != 0 {
            return Err(Violation {
                fatal: Fatal::UnsupportedParameter,
                offset: HEADER_BYTES as u32,
            });
        }
        // Data to the host are not padded.
        if request.data_alignment != 0 {
            return Err(Violation {
                fatal: Fatal::UnsupportedParameter,
                offset: HEADER_BYTES as u32 + 2,
            });
        }
        let mut response = Initialize::new_zeroed();
        response.digests = request.digests & (DIGEST_HEADER | DIGEST_DATA);
        response.limit = self.settings.max_data_bytes.into();
        let header = Header {
            kind: Kind::InitializeResponse as u8,
            flags: 0,
            header_bytes: INITIALIZE_BYTES as u8,
            data_offset: 0,
            bytes: (INITIALIZE_BYTES as u32).into(),
        };
        self.output.push(header.as_bytes());
        self.output.push(response.as_bytes());
        self.header_digests = response.digests & DIGEST_HEADER != 0;
        self.data_digests = response.digests & DIGEST_DATA != 0;
        self.phase = Phase::Connect;
        Ok(())
    }

    fn data(&mut self, data: &[u8]) {
        match &self.current {
            Current::Command(_) => self.capsule.extend_from_slice(data),
            Current::Data { slot, .. } => {
                let flight = self.flights.get(*slot);
                // A command that was taken back has no piece any more.
                if let Some(wanted) = flight.and_then(|flight| flight.wanted.front_mut()) {
                    let at = wanted.filled as usize;
                    wanted.buffer[at..at + data.len()].copy_from_slice(data);
                    wanted.filled += data.len() as u32;
                }
            }
            Current::Termination | Current::None => {}
        }
    }

    fn end_of_pdu(
        &mut self,
        is_intact: bool,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None => {
                self.reader
                    .set_digests(self.header_digests, self.data_digests);
                Ok(())
            }
            Current::Termination => {
                self.end(Ended::ByHost);
                Ok(())
            }
            Current::Data { slot, is_last } => {
                if let Some(flight) = self.flights.get(slot).filter(|_| !is_intact) {
                    flight.failure.get_or_insert(Status::TRANSPORT_ERROR);
                }
                if is_last {
                    self.piece_is_there(slot, actions);
                }
                Ok(())
            }
            Current::Command(entry) => {
                self.last_command = self.now;
                self.command(*entry, is_intact, used_bytes, actions)
            }
        }
    }

    fn command(
        &mut self,
        entry: SubmissionEntry,
        is_intact: bool,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        if let Some(head) = &mut self.head {
            *head = (*head + 1) % self.queue_entries;
        }
        self.answering = match entry.opcode {
            command::FABRICS => Operation::Fabrics,
            _ if self.queue == 0 => Operation::Admin,
            _ => Operation::Refused,
        };
        let command_id = entry.command_id.get();
        if matches!(self.phase, Phase::Authenticate) && !is_authentication(&entry) {
            self.respond(command_id, Status::AUTHENTICATION_REQUIRED, 0);
            return Ok(());
        }
        if !is_intact {
            self.respond(command_id, Status::TRANSPORT_ERROR, 0);
            return Ok(());
        }
        if let Err(status) = self.check_descriptor(&entry) {
            self.respond(command_id, status, 0);
            return Ok(());
        }
        if entry.opcode == command::FABRICS {
            return self.fabrics_command(&entry);
        }
        if !matches!(self.phase, Phase::Ready) {
            self.respond(command_id, Status::SEQUENCE_ERROR, 0);
            return Ok(());
        }
        if self.queue == 0 {
            self.admin_command(&entry, used_bytes, actions);
            return Ok(());
        }
        self.io_command(&entry, actions)
    }

    /// Checks that the data are where the descriptor says.
    fn check_descriptor(&self, entry: &SubmissionEntry) -> Result<(), Status> {
        let bytes = entry.data.bytes.get() as usize;
        match entry.data.kind {
            sgl::IN_CAPSULE if entry.data.address.get() != 0 => Err(Status::SGL_OFFSET_INVALID),
            sgl::IN_CAPSULE if bytes != self.capsule.len() => Err(Status::SGL_LENGTH_INVALID),
            sgl::IN_CAPSULE | sgl::TRANSPORT => {
                let max = 1_usize << self.settings.max_transfer_shift;
                match bytes <= max {
                    true => Ok(()),
                    false => Err(Status::INVALID_FIELD),
                }
            }
            _ if bytes == 0 => Ok(()),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }

    fn io_command(
        &mut self,
        entry: &SubmissionEntry,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        let command_id = entry.command_id.get();
        if self.flights.len() >= usize::from(self.queue_entries) {
            return Err(Fatal::SequenceError.into());
        }
        if self.flights.find(command_id).is_some() {
            self.respond(command_id, Status::COMMAND_ID_CONFLICT, 0);
            return Ok(());
        }
        // Counted first: whoever takes the controller away sees the command, or it sees the end.
        self.count_in_flight(1);
        match self.decode(entry) {
            Err(status) => {
                self.count_in_flight(-1);
                self.respond(command_id, status, 0);
            }
            Ok((command, data)) => {
                let is_in_capsule = entry.data.kind == sgl::IN_CAPSULE;
                let from_capsule = is_in_capsule && matches!(data, Data::FromHost(_));
                let capsule = from_capsule.then(|| std::mem::take(&mut self.capsule));
                let nsid = entry.nsid.get();
                self.flights.insert(Flight {
                    command_id,
                    nsid,
                    opcode: entry.opcode,
                    operation: Operation::of(&command),
                    data,
                    command: Some(command),
                    began: self.now,
                    capsule,
                    wanted: Default::default(),
                    asked: self.now,
                    sending: 0,
                    is_done: false,
                    failure: None,
                });
                self.admit(actions);
            }
        }
        Ok(())
    }

    /// Refuses new commands from now on; the host may send them again elsewhere. Data of commands under
    /// way are taken.
    pub fn refuse_commands(&mut self) {
        self.is_stopping = true;
    }

    fn decode(&self, entry: &SubmissionEntry) -> Result<(Command, Data), Status> {
        if self.is_stopping {
            return Err(Status::NAMESPACE_NOT_READY);
        }
        let controller = self.controller.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        if !controller.is_ready() || controller.has_ended() {
            return Err(Status::SEQUENCE_ERROR);
        }
        let subsystem = controller.subsystem.as_ref();
        let subsystem = subsystem.ok_or(Status::INVALID_OPCODE)?;
        let nsid = entry.nsid.get();
        let mut visible = identify::visible(subsystem, controller);
        let namespace = visible.find(|namespace| namespace.nsid == nsid);
        let (command, data) = decode(entry, namespace.ok_or(Status::INVALID_NAMESPACE)?)?;
        if matches!(data, Data::ToHost(_)) && entry.data.kind == sgl::IN_CAPSULE {
            return Err(Status::SGL_TYPE_INVALID);
        }
        Ok((command, data))
    }

    /// Takes an event of the backend for one of the connection's commands.
    pub fn event(&mut self, event: Event<B>, actions: &mut Vec<Action<B>>) {
        match event {
            Event::Want {
                tag,
                offset,
                bytes,
                buffer,
            } => self.want(tag, offset, bytes, buffer, actions),
            Event::Piece {
                tag,
                offset,
                at,
                bytes,
                is_last,
                buffer,
            } => self.piece(tag, offset, at, bytes, is_last, buffer, actions),
            Event::Done { tag, result } => {
                self.done(tag, result);
                self.admit(actions);
            }
        }
    }

    fn done(&mut self, tag: u64, result: Result<Answer, Status>) {
        let slot = slot_of(tag);
        let Some(flight) = self.flights.done(slot) else {
            debug_assert!(false, "a command ends once");
            return;
        };
        debug_assert!(flight.wanted.is_empty(), "a command ends without pieces");
        let (command_id, failure) = (flight.command_id, flight.failure);
        let (opcode, nsid, data) = (flight.opcode, flight.nsid, flight.data);
        self.answering = flight.operation;
        let time = self.now.saturating_duration_since(flight.began);
        self.statistics.took(flight.operation, time);
        self.flights.free_if_over(slot);
        self.count_in_flight(-1);
        if self.ended.is_some() {
            return self.give_number_back();
        }
        match (failure, result) {
            // It took effect before it could be taken back.
            (Some(Status::COMMAND_INTERRUPTED), Ok(Answer::Done)) => {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (Some(status), _) => self.respond(command_id, status, 0),
            (None, Ok(Answer::Done)) => self.respond(command_id, Status::SUCCESS, 0),
            (None, Ok(Answer::Retrieved(bytes))) => {
                self.respond(command_id, Status::SUCCESS, u64::from(bytes));
            }
            (None, Ok(Answer::Keys(keys))) => {
                let Data::ToHost(max_bytes) = data else {
                    return self.respond(command_id, Status::INTERNAL_ERROR, 0);
                };
                let list = key_list(&keys, max_bytes as usize);
                self.send_data(command_id, &list);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            (None, Err(Status::KEY_DOES_NOT_EXIST))
                if opcode == kv::DELETE && !self.is_delete_strict(nsid) =>
            {
                self.respond(command_id, Status::SUCCESS, 0);
            }
            // That status is one of the Key Value command set.
            (None, Err(Status::UNRECOVERED_ERROR)) if self.answering == Operation::Read => {
                self.respond(command_id, Status::UNRECOVERED_READ_ERROR, 0);
            }
            (None, Err(status)) => self.respond(command_id, status, 0),
        }
    }

    fn is_delete_strict(&self, nsid: u32) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|controller| controller.strict_deletes.lock().contains(&nsid))
    }

    /// Takes note of the connection's end. The first reason counts.
    pub fn end(&mut self, reason: Ended) {
        self.ended.get_or_insert(reason);
    }

    /// Gives all buffers back and takes all commands back, after the end. [`Connection::in_flight`]
    /// becomes 0 when the backend has ended them.
    pub fn close(&mut self, actions: &mut Vec<Action<B>>) {
        self.end(Ended::ByHost);
        self.tell_of_end();
        let flights = &mut self.flights;
        self.output.clear(|tag, buffer| {
            actions.push(Action::GiveBack { tag, buffer });
            flights.piece_left(slot_of(tag));
        });
        self.withdraw_all();
        let number = self.number;
        for (slot, flight) in self.flights.iter_mut() {
            let tag = number << SLOT_BITS | u64::from(slot);
            for wanted in flight.wanted.drain(..) {
                let buffer = wanted.buffer;
                // It may lack data.
                actions.push(Action::GiveBack { tag, buffer });
            }
            actions.push(Action::Abort { tag });
        }
        self.registry
            .release(std::mem::take(&mut self.reserved_bytes));
        let Some(controller) = &self.controller else {
            return;
        };
        if self.queue == 0 {
            return self.registry.remove(controller);
        }
        if self.has_number {
            let mut queues = controller.queues.lock();
            queues.connected.remove(&self.queue);
            queues.leaving.insert(self.queue);
        }
        self.give_number_back();
    }

    /// Takes the queue's number. False if another connection has it.
    pub(super) fn take_number(&mut self) -> bool {
        let Some(controller) = self.controller.as_ref().filter(|_| self.queue > 0) else {
            return true;
        };
        if !self.has_number {
            let mut queues = controller.queues.lock();
            let is_free = !queues.leaving.contains(&self.queue);
            self.has_number = is_free && queues.connected.insert(self.queue);
        }
        self.has_number
    }

    /// Lets another connection have the number of a queue that is lost, once the backend has ended all
    /// of its commands: such a command could overtake its own repetition.
    fn give_number_back(&mut self) {
        let Some(controller) = self.controller.as_ref().filter(|_| self.has_number) else {
            return;
        };
        if self.flights.len() == 0 && controller.queues.lock().leaving.remove(&self.queue) {
            self.has_number = false;
        }
    }

    /// Ends the connection if its time is over.
    pub fn tick(&mut self, now: Instant, actions: &mut Vec<Action<B>>) {
        self.now = now;
        self.interrupt(actions);
        // A host that takes what is before the question hears it later, and may not be read meanwhile.
        if std::mem::take(&mut self.has_sent) && !self.output.is_empty() {
            self.flights.ask_anew(now);
        }
        // It has its key and its buffers meanwhile, for which others wait.
        if self.flights.is_late(now, self.settings.transfer) {
            self.end(Ended::Silence);
            return;
        }
        let is_late = now.duration_since(self.began) > self.settings.handshake;
        if is_late && !matches!(self.phase, Phase::Ready) {
            self.end(Ended::Silence);
            return;
        }
        let Some(controller) = &self.controller else {
            return;
        };
        if controller.has_ended() {
            self.end(Ended::ControllerGone);
            return;
        }
        let mut keep_alive = controller.keep_alive_ms.load(Ordering::Relaxed);
        // Whoever asks for the log has proved nothing, and may not stay.
        if controller.subsystem.is_none() && !(1..DISCOVERY_MS).contains(&keep_alive) {
            keep_alive = DISCOVERY_MS;
        }
        // The host sends twice as often; its clock may be slower than this one.
        let limit = Duration::from_millis(u64::from(keep_alive) * 2);
        let is_silent = now.duration_since(self.last_command) > limit;
        if self.queue == 0 && keep_alive > 0 && is_silent {
            self.end(Ended::Silence);
        }
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

fn key_list(keys: &[Key], max_bytes: usize) -> Vec<u8> {
    let mut list = KeyList::new(max_bytes);
    for key in keys {
        if !list.push(key.as_bytes()) {
            break;
        }
    }
    list.into_bytes()
}
