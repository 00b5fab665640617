//! Commands in flight, over connections that may break.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::association::Association;
use super::connection::Transfer;
use super::controller::Controller;
use super::error::{Error, Result};
use super::queue::{Queue, after, wait};
use super::request::{Answer, Request};
use super::settings::Settings;

/// The longest wait for a stream before a look at the admin queue and at commands that take long.
const LOOK: Duration = Duration::from_millis(50);
/// The first pause between two attempts to connect. It doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The pace at which a connection moves data at least: 1 MB/s.
const SLOWEST_BYTES_PER_US: u64 = 1;

/// The name of a submitted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Ticket {
    /// Makes the name of a command. For clients over other transports: names are theirs alone.
    pub const fn new(number: u64) -> Self {
        Ticket(number)
    }
}

/// The end of a submitted command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The command.
    pub ticket: Ticket,
    /// Its result.
    pub result: Result<Answer>,
}

/// A submitted command.
struct Pending {
    request: Request,
    /// Bytes of data that it moves at most.
    bytes: u64,
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

/// The commands of a client, and the association that does them.
pub(super) struct Flight {
    address: SocketAddr,
    settings: Settings,
    association: Option<Association>,
    /// Number of associations that there were.
    generation: u64,
    retry: Option<Retry>,
    pending: HashMap<u64, Pending>,
    /// Bytes of data of all of them.
    pending_bytes: u64,
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
}

impl Flight {
    /// Connects.
    pub(super) fn start(address: SocketAddr, settings: Settings) -> Result<Self> {
        let mut flight = Flight {
            address,
            settings,
            association: None,
            generation: 0,
            retry: None,
            pending: HashMap::new(),
            pending_bytes: 0,
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
            next_ticket: 0,
            next_queue: 0,
            next_look: Instant::now(),
            max_transfer: None,
            capacity: 0,
        };
        flight.associate()?;
        Ok(flight)
    }

    /// Shuts the controller down in order.
    pub(super) fn close(mut self) -> Result<()> {
        match self.association.take() {
            Some(association) => association.with_controller(Controller::shut_down),
            None => Ok(()),
        }
    }

    /// Returns the number of associations that there were.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Lends the controller, for commands of its admin queue.
    pub(super) fn with_controller<T>(
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
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of submitted commands that have not completed.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Returns the most bytes of data that a command may have; none is no limit.
    pub(super) fn max_transfer(&self) -> Option<u64> {
        self.max_transfer
    }

    /// Takes a command in. The next turn puts it on a queue.
    pub(super) fn submit(&mut self, request: Request) -> Result<Ticket> {
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
            bytes,
            queue: None,
            deadline: after(self.settings.timeout),
            attempts: 0,
        };
        self.pending_bytes += bytes;
        self.pending.insert(ticket, pending);
        self.waiting.push_back(ticket);
        Ok(Ticket(ticket))
    }

    /// Moves commands along and returns those that have completed.
    pub(super) fn poll(&mut self) -> Vec<Completion> {
        if !self.pending.is_empty() {
            self.turn(Instant::now());
        }
        self.completions.drain(..).collect()
    }

    /// Waits until a command completes, and returns all that have. Returns none if none is in flight
    /// or `timeout` is over.
    pub(super) fn wait(&mut self, timeout: Duration) -> Vec<Completion> {
        let deadline = after(timeout);
        while self.completions.is_empty() && !self.pending.is_empty() {
            self.turn(deadline);
            if Instant::now() >= deadline {
                break;
            }
        }
        self.completions.drain(..).collect()
    }

    /// Does a command and waits for its result. Completions of other commands are kept.
    pub(super) fn call(&mut self, request: Request) -> Result<Answer> {
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
            self.retry = None;
            if let Some(pending) = self.take(done.tag) {
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
            // All data of commands before it may have to pass.
            let passing = Duration::from_micros(self.pending_bytes / SLOWEST_BYTES_PER_US);
            pending.deadline = after(self.settings.timeout + passing);
        }
        Ok(())
    }

    /// Takes a command out that is over.
    fn take(&mut self, ticket: u64) -> Option<Pending> {
        let pending = self.pending.remove(&ticket)?;
        self.pending_bytes -= pending.bytes;
        Some(pending)
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
        let is_over = self.put_off();
        if is_over {
            self.retry = None;
        }
        let mut tickets: Vec<u64> = self.pending.keys().copied().collect();
        tickets.sort_unstable();
        self.waiting.clear();
        for ticket in tickets {
            let Some(pending) = self.pending.get_mut(&ticket) else {
                continue;
            };
            let sent = pending.queue.take().is_some();
            if is_over && !sent {
                self.fail(ticket, Error::Disconnected(Box::new(error.clone())));
                continue;
            }
            if !sent
                || (!is_over
                    && pending.request.is_repeatable()
                    && pending.attempts < self.settings.attempts)
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

    /// Decides when to connect again. A connection on which no command has completed counts as an attempt
    /// that failed, so that a controller which ends each one is not asked without a pause. Returns
    /// whether the time for attempts is over.
    fn put_off(&mut self) -> bool {
        let now = Instant::now();
        let limit = self.settings.reconnect;
        let in_series = |retry: &&mut Retry| now.saturating_duration_since(retry.next) < limit;
        if let Some(retry) = self.retry.as_mut().filter(in_series) {
            retry.next = now + retry.pause;
            retry.pause = (retry.pause * 2).min(MAX_PAUSE);
            return now - retry.since >= limit;
        }
        self.retry = Some(Retry {
            since: now,
            next: now,
            pause: MIN_PAUSE,
        });
        false
    }

    fn fail(&mut self, ticket: u64, error: Error) {
        self.take(ticket);
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
        self.max_transfer = association.max_transfer;
        self.capacity = association.capacity();
        self.generation += 1;
        Ok(self.association.insert(association))
    }
}
