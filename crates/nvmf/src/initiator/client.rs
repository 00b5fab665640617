//! A program's access to the namespaces of a subsystem.
//!
//! A client works in its caller's thread, with many commands in flight if the caller wants: see
//! [`Client::submit`]. Programs with several threads have a client in each. One thread of its own
//! sends Keep Alive.
//!
//! If a connection breaks, the client connects again and repeats the commands that may be repeated
//! ([`Request::is_repeatable`]). Others that were sent fail with [`Error::UnknownOutcome`]. A
//! controller may still do the first copy of a repeated command later: a program that stores a key
//! twice within such a time must not rely on the order.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::association::Association;
pub use super::connection::Digests;
use super::connection::Transfer;
use super::controller::Controller;
use super::error::{Error, Result};
use super::queue::{Queue, wait};
pub use super::request::{Answer, Condition, Key, Request};
use crate::wire::kv;
use crate::wire::status::Status;

/// The longest wait for a stream before a look at the admin queue and at commands that take long.
const LOOK: Duration = Duration::from_millis(50);
/// The first pause between two attempts to connect. It doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

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
    /// Time for a command, and for a step of the bring-up. Default 10 s.
    pub timeout: Duration,
    /// Time for attempts to connect again. Default 30 s.
    pub reconnect: Duration,
    /// Number of times to send a command that may be repeated. Default 3.
    pub attempts: u32,
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
            timeout: Duration::from_secs(10),
            reconnect: Duration::from_secs(30),
            attempts: 3,
        }
    }
}

/// The name of a submitted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The end of a submitted command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The command.
    pub ticket: Ticket,
    /// Its result.
    pub result: Result<Answer>,
}

/// A value, or its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes that the caller had room for.
    pub bytes: Vec<u8>,
    /// Length of the whole value.
    pub value_bytes: u64,
}

/// A submitted command.
struct Pending {
    request: Request,
    /// The queue with the command; none while it waits for one.
    queue: Option<usize>,
    deadline: Instant,
    attempts: u32,
}

/// Attempts to connect again.
struct Retry {
    /// When the connection broke.
    since: Instant,
    next: Instant,
    pause: Duration,
}

/// A host that is connected to a subsystem.
pub struct Client {
    address: SocketAddr,
    settings: Settings,
    association: Option<Association>,
    retry: Option<Retry>,
    pending: HashMap<u64, Pending>,
    /// Commands without a queue, in the order of their submission.
    waiting: VecDeque<u64>,
    completions: VecDeque<Completion>,
    next_ticket: u64,
    next_queue: usize,
    /// When to look for commands that take too long.
    next_look: Instant,
    /// The most bytes of data that a command may have.
    max_transfer: Option<u64>,
    capacity: usize,
    block_bytes: HashMap<u32, u32>,
}

impl Client {
    /// Connects to a subsystem.
    ///
    /// # Errors
    /// The subsystem does not answer in time, refuses, or lacks something that the client needs.
    pub fn connect(address: SocketAddr, settings: &Settings) -> Result<Self> {
        let mut client = Client {
            address,
            settings: settings.clone(),
            association: None,
            retry: None,
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
            next_ticket: 0,
            next_queue: 0,
            next_look: Instant::now(),
            max_transfer: None,
            capacity: 0,
            block_bytes: HashMap::new(),
        };
        client.associate()?;
        Ok(client)
    }

    /// Shuts the controller down in order and ends the connections. Commands in flight are lost.
    ///
    /// # Errors
    /// The controller does not shut down. The connections have ended nevertheless.
    pub fn close(mut self) -> Result<()> {
        match self.association.take() {
            Some(association) => association.with_controller(Controller::shut_down),
            None => Ok(()),
        }
    }

    /// Stores a value.
    ///
    /// # Errors
    /// [`Error::Status`] with [`Status::KEY_EXISTS`] or [`Status::KEY_DOES_NOT_EXIST`] if the
    /// condition does not hold. [`Error::UnknownOutcome`] if the connection broke and there is a
    /// condition.
    pub fn store(
        &mut self,
        nsid: u32,
        key: impl AsRef<[u8]>,
        value: &[u8],
        condition: Condition,
    ) -> Result<()> {
        let (key, value) = (Key::new(key)?, value.into());
        self.call(Request::Store {
            nsid,
            key,
            value,
            condition,
        })
        .map(drop)
    }

    /// Returns a key's value, or its first `max_bytes` bytes; none if the key does not exist.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn retrieve(
        &mut self,
        nsid: u32,
        key: impl AsRef<[u8]>,
        max_bytes: u32,
    ) -> Result<Option<Value>> {
        let key = Key::new(key)?;
        let answer = self.call(Request::Retrieve {
            nsid,
            key,
            max_bytes,
        });
        let value = found(answer)?.map(|answer| Value {
            value_bytes: answer.result,
            bytes: answer.data,
        });
        Ok(value)
    }

    /// Deletes a key and its value. Returns false if the controller says that the key does not
    /// exist, which it does only if it is configured so.
    ///
    /// # Errors
    /// [`Error::UnknownOutcome`] if the connection broke.
    pub fn delete(&mut self, nsid: u32, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        let answer = self.call(Request::Delete { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Returns whether a key exists.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn exists(&mut self, nsid: u32, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        let answer = self.call(Request::Exists { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Lists keys in the controller's order, from `from` on, in `max_bytes` bytes at most. A list
    /// has 4 bytes, and each key takes 2 bytes and its own, in multiples of 4.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn list(&mut self, nsid: u32, from: Option<&[u8]>, max_bytes: u32) -> Result<Vec<Vec<u8>>> {
        let from = from.map(Key::new).transpose()?;
        let answer = self.call(Request::List {
            nsid,
            from,
            max_bytes,
        })?;
        kv::read_keys(&answer.data).ok_or(Error::Malformed("list of keys"))
    }

    /// Returns the bytes of a block of a namespace.
    ///
    /// # Errors
    /// The controller refuses, or the size is not a power of two from 512 bytes to 1 MiB.
    pub fn block_bytes(&mut self, nsid: u32) -> Result<u32> {
        if let Some(bytes) = self.block_bytes.get(&nsid) {
            return Ok(*bytes);
        }
        let namespace = self.with_controller(|controller| controller.block_namespace(nsid))?;
        let power = namespace.block_format[2];
        if namespace.format & 0b0110_1111 != 0 || !(9..=20).contains(&power) {
            return Err(Error::Unsupported("a block size that the client knows"));
        }
        self.block_bytes.insert(nsid, 1 << power);
        Ok(1 << power)
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn read(&mut self, nsid: u32, block: u64, blocks: u32) -> Result<Vec<u8>> {
        let block_bytes = self.block_bytes(nsid)?;
        let answer = self.call(Request::Read {
            nsid,
            block,
            blocks,
            block_bytes,
        })?;
        Ok(answer.data)
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn write(&mut self, nsid: u32, block: u64, data: &[u8]) -> Result<()> {
        let block_bytes = self.block_bytes(nsid)?;
        let data = data.into();
        self.call(Request::Write {
            nsid,
            block,
            data,
            block_bytes,
        })
        .map(drop)
    }

    /// Makes earlier writes durable.
    ///
    /// # Errors
    /// [`Error::UnknownOutcome`] if the connection broke.
    pub fn flush(&mut self, nsid: u32) -> Result<()> {
        self.call(Request::Flush { nsid }).map(drop)
    }

    /// Lends the controller, for commands of its admin queue.
    ///
    /// # Errors
    /// No connection is possible, or `work` failed.
    pub fn with_controller<T>(
        &mut self,
        work: impl FnOnce(&mut Controller<Queue>) -> Result<T>,
    ) -> Result<T> {
        if let Some(association) = &self.association
            && association.is_lost()
        {
            self.break_off(&Error::Closed);
        }
        match &self.association {
            Some(association) => association.with_controller(work),
            None => self.associate()?.with_controller(work),
        }
    }

    /// Returns the most commands that can be in flight.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of submitted commands that have not completed.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Returns the most bytes of data that a command may have; none is no limit.
    pub fn max_transfer(&self) -> Option<u64> {
        self.max_transfer
    }

    /// Submits a command. The command is on its way after the next [`Client::poll`] or
    /// [`Client::wait`].
    ///
    /// # Errors
    /// [`Error::QueueFull`] if as many commands are in flight as possible;
    /// [`Error::InvalidArgument`] if the command is not possible.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        let (_, transfer) = request.command()?;
        let bytes = match &transfer {
            Transfer::None => 0,
            Transfer::Write(data) => data.len() as u64,
            Transfer::Read(bytes) => u64::from(*bytes),
        };
        if self.max_transfer.is_some_and(|most| bytes > most) {
            return Err(Error::InvalidArgument(
                "the controller moves less data at a time",
            ));
        }
        if self.pending.len() >= self.capacity {
            return Err(Error::QueueFull);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let pending = Pending {
            request,
            queue: None,
            deadline: Instant::now() + self.settings.timeout,
            attempts: 0,
        };
        self.pending.insert(ticket, pending);
        self.waiting.push_back(ticket);
        Ok(Ticket(ticket))
    }

    /// Moves commands along and returns those that have completed. Does not wait for any, except
    /// that an attempt to connect again takes its time.
    pub fn poll(&mut self) -> Vec<Completion> {
        if !self.pending.is_empty() {
            self.turn(Instant::now());
        }
        self.completions.drain(..).collect()
    }

    /// Waits until a command completes, and returns all that have. Returns none if none is in flight
    /// or `timeout` is over.
    pub fn wait(&mut self, timeout: Duration) -> Vec<Completion> {
        let deadline = Instant::now() + timeout;
        while self.completions.is_empty() && !self.pending.is_empty() {
            self.turn(deadline);
            if Instant::now() >= deadline {
                break;
            }
        }
        self.completions.drain(..).collect()
    }

    /// Does a command and waits for its result. Completions of other commands are kept.
    ///
    /// # Errors
    /// The command is not possible, or failed.
    pub fn call(&mut self, request: Request) -> Result<Answer> {
        while self.pending.len() >= self.capacity {
            self.turn(Instant::now() + LOOK);
        }
        let ticket = self.submit(request)?;
        while self.pending.contains_key(&ticket.0) {
            self.turn(Instant::now() + LOOK);
        }
        let mut completions = self.completions.iter();
        let place = completions.rposition(|completion| completion.ticket == ticket);
        match place.and_then(|place| self.completions.remove(place)) {
            Some(completion) => completion.result,
            None => Err(Error::UnknownTicket),
        }
    }

    /// Moves commands along. Waits until `deadline` at most if there is nothing else to do.
    fn turn(&mut self, deadline: Instant) {
        if self.association.is_none() && !self.reconnect(deadline) {
            return;
        }
        let result = self.exchange(deadline).and_then(|()| self.look());
        if let Err(error) = result {
            self.break_off(&error);
        }
    }

    /// Sends commands, waits for answers and takes them.
    fn exchange(&mut self, deadline: Instant) -> Result<()> {
        self.place()?;
        let Some(association) = &mut self.association else {
            return Ok(());
        };
        for queue in &mut association.queues {
            queue.send()?;
        }
        wait(&association.queues, deadline.min(Instant::now() + LOOK))?;
        let mut result = Ok(());
        let mut all_done = Vec::new();
        for queue in &mut association.queues {
            result = result
                .and_then(|()| queue.send())
                .and_then(|()| queue.receive().map(drop));
            // Answers that came before the end count.
            while let Some(done) = queue.connection().completed() {
                all_done.push(done);
            }
        }
        for done in all_done {
            if let Some(pending) = self.pending.remove(&done.tag) {
                let ticket = Ticket(done.tag);
                let result = pending.request.answer(done);
                self.completions.push_back(Completion { ticket, result });
            }
        }
        result
    }

    /// Puts waiting commands on queues, in turn.
    fn place(&mut self) -> Result<()> {
        let Some(association) = &mut self.association else {
            return Ok(());
        };
        if self.waiting.is_empty() {
            return Ok(());
        }
        if association.is_lost() {
            return Err(Error::Closed);
        }
        let count = association.queues.len();
        while let Some(&ticket) = self.waiting.front() {
            let with_room = (0..count)
                .map(|step| (self.next_queue + step) % count)
                .find(|&number| association.queues[number].connection().room() > 0);
            let Some(number) = with_room else {
                break;
            };
            let queue = &mut association.queues[number];
            self.next_queue = number + 1;
            // A stream that ended while nothing was in flight does no harm if it is seen in time.
            queue.check_idle()?;
            self.waiting.pop_front();
            let Some(pending) = self.pending.get_mut(&ticket) else {
                continue;
            };
            let (entry, transfer) = pending.request.command()?;
            queue.connection().submit(entry, transfer, ticket)?;
            pending.queue = Some(number);
            pending.attempts += 1;
            pending.deadline = Instant::now() + self.settings.timeout;
        }
        Ok(())
    }

    /// Looks now and then for a lost admin queue and for commands that take too long.
    fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK;
        let mut sent = self
            .pending
            .values()
            .filter(|pending| pending.queue.is_some());
        if sent.any(|pending| pending.deadline <= now) {
            return Err(Error::Timeout("a command"));
        }
        match &self.association {
            Some(association) if association.is_lost() => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Ends all connections after an error. Commands that may be repeated wait for new ones.
    fn break_off(&mut self, error: &Error) {
        self.association = None;
        let now = Instant::now();
        self.retry.get_or_insert(Retry {
            since: now,
            next: now,
            pause: MIN_PAUSE,
        });
        let mut tickets: Vec<u64> = self.pending.keys().copied().collect();
        tickets.sort_unstable();
        self.waiting.clear();
        for ticket in tickets {
            let Some(pending) = self.pending.get_mut(&ticket) else {
                continue;
            };
            let sent = pending.queue.take().is_some();
            if !sent
                || (pending.request.is_repeatable() && pending.attempts < self.settings.attempts)
            {
                self.waiting.push_back(ticket);
                continue;
            }
            let error = match pending.request.is_repeatable() {
                true => Error::Disconnected(Box::new(error.clone())),
                false => Error::UnknownOutcome,
            };
            self.fail(ticket, error);
        }
    }

    fn fail(&mut self, ticket: u64, error: Error) {
        self.pending.remove(&ticket);
        self.completions.push_back(Completion {
            ticket: Ticket(ticket),
            result: Err(error),
        });
    }

    /// Tries to connect again if it is time to, and waits until then. Returns whether there is a
    /// connection.
    fn reconnect(&mut self, deadline: Instant) -> bool {
        let now = Instant::now();
        if let Some(retry) = &self.retry
            && retry.next > now
        {
            thread::sleep(retry.next.min(deadline).saturating_duration_since(now));
            if Instant::now() < retry.next {
                return false;
            }
        }
        let Err(error) = self.associate() else {
            return true;
        };
        let now = Instant::now();
        let retry = self.retry.get_or_insert(Retry {
            since: now,
            next: now,
            pause: MIN_PAUSE,
        });
        if error.is_transient() && now - retry.since < self.settings.reconnect {
            retry.next = now + retry.pause;
            retry.pause = (retry.pause * 2).min(MAX_PAUSE);
            return false;
        }
        self.retry = None;
        for ticket in std::mem::take(&mut self.waiting) {
            self.fail(ticket, Error::Disconnected(Box::new(error.clone())));
        }
        false
    }

    /// Connects and takes note of the controller's limits.
    fn associate(&mut self) -> Result<&Association> {
        let mut association = Association::open(self.address, &self.settings)?;
        self.retry = None;
        self.max_transfer = association.max_transfer;
        self.capacity = association.capacity();
        self.block_bytes.clear();
        Ok(self.association.insert(association))
    }
}

/// Returns none in place of the error that a key does not exist.
fn found(answer: Result<Answer>) -> Result<Option<Answer>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Status(status)) if status.code() == Status::KEY_DOES_NOT_EXIST.code() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
