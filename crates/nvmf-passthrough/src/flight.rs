//! Commands in flight, and those that are done again.
//!
//! While the kernel connects again, it fails commands of programs at once: with a status of the path
//! or, for commands that it took back, with `EINTR`. Commands that may be repeated then wait and are
//! sent again. The outcome of others is unknown.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use terrace_nvmf::initiator::connection::{Done, Transfer};
use terrace_nvmf::initiator::{Error, Result};
use terrace_nvmf::wire::{CompletionEntry, Status};

use crate::client::Settings;
use crate::command::Command;
use crate::data::{self, Data};
use crate::queue::{Commands, End, Outcome};
use crate::{Answer, Completion, Request, Ticket};

/// The longest wait at once.
const LOOK: Duration = Duration::from_millis(50);
/// The first pause before a command is done again. It doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);
const FAR: Duration = Duration::from_secs(1 << 30);
/// Type of the statuses that tell of the path to the controller.
const PATH: u16 = 3;

/// A submitted command.
struct Pending {
    request: Request,
    /// Number of times that the kernel took the command back after it had begun.
    attempts: u32,
    retry: Option<Retry>,
}

/// A command that failed and waits.
#[derive(Clone, Copy)]
struct Retry {
    since: Instant,
    next: Instant,
    pause: Duration,
}

/// The kind of a command's end.
enum Kind {
    /// The controller answered.
    Answered(End),
    /// The command's path broke. The error says how.
    Broken(Error),
    /// The kernel took the command back.
    TakenBack(Error),
    /// The kernel refused.
    Refused(Error),
}

/// The commands of a client.
pub struct Flight<Q> {
    queue: Q,
    settings: Settings,
    max_transfer: Option<u64>,
    pending: HashMap<u64, Pending>,
    /// Commands that are not with the kernel, in the order of their submission.
    waiting: VecDeque<u64>,
    completions: VecDeque<Completion>,
    next_ticket: u64,
    /// The queue's end.
    failure: Option<Error>,
}

impl<Q: Commands> Flight<Q> {
    /// Makes the flight over a queue. Commands may have `max_transfer` bytes of data.
    pub fn new(queue: Q, settings: Settings, max_transfer: Option<u64>) -> Self {
        Flight {
            queue,
            settings,
            max_transfer,
            pending: HashMap::new(),
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
            next_ticket: 0,
            failure: None,
        }
    }

    pub fn capacity(&self) -> usize {
        self.settings.depth
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Takes a command in. The next turn hands it to the kernel.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.check(&request)?;
        if self.pending.len() >= self.settings.depth {
            return Err(Error::QueueFull);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let pending = Pending {
            request,
            attempts: 0,
            retry: None,
        };
        self.pending.insert(ticket, pending);
        self.waiting.push_back(ticket);
        Ok(Ticket::new(ticket))
    }

    fn check(&self, request: &Request) -> Result<()> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        if matches!(request, Request::Read { .. } | Request::Write { .. }) {
            return Err(Error::InvalidArgument("the namespace has keys, no blocks"));
        }
        let (entry, transfer) = request.command()?;
        if entry.nsid.get() != self.settings.nsid {
            return Err(Error::InvalidArgument(
                "the device is of another namespace than the command",
            ));
        }
        let bytes = match &transfer {
            Transfer::None => 0,
            Transfer::Write(data) => data.len() as u64,
            Transfer::Read(bytes) => u64::from(*bytes),
        };
        if let Some(max_bytes) = self.max_transfer
            && bytes > max_bytes
        {
            return Err(Error::TooLong { bytes, max_bytes });
        }
        match data::fits(&transfer, entry.opcode) {
            true => Ok(()),
            false => Err(Error::InvalidArgument(
                "the opcode has another direction of data than the command",
            )),
        }
    }

    /// Moves commands along and returns those that have completed.
    pub fn poll(&mut self) -> Vec<Completion> {
        if !self.pending.is_empty() {
            self.turn(Instant::now());
        }
        self.completions.drain(..).collect()
    }

    /// Waits until a command completes, and returns all that have.
    pub fn wait(&mut self, timeout: Duration) -> Vec<Completion> {
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
    pub fn call(&mut self, request: Request) -> Result<Answer> {
        while self.pending.len() >= self.settings.depth {
            self.turn(Instant::now() + LOOK);
        }
        let ticket = self.submit(request)?;
        let is_wanted = |completion: &Completion| completion.ticket == ticket;
        loop {
            if let Some(place) = self.completions.iter().rposition(is_wanted)
                && let Some(completion) = self.completions.remove(place)
            {
                return completion.result;
            }
            self.turn(Instant::now() + LOOK);
        }
    }

    /// Moves commands along. Waits until `deadline` at most if there is nothing else to do.
    fn turn(&mut self, deadline: Instant) {
        let next = self.place();
        let deadline = next.map_or(deadline, |next| next.min(deadline));
        let timeout = deadline.saturating_duration_since(Instant::now()).min(LOOK);
        if self.waiting.len() == self.pending.len() {
            thread::sleep(timeout);
            return;
        }
        let mut outcomes = Vec::new();
        if let Err(source) = self.queue.wait(timeout, &mut outcomes) {
            self.fail_all(&io_error("the queue of commands", source));
        }
        for outcome in outcomes {
            self.take(outcome);
        }
    }

    /// Hands commands to the kernel whose time has come. Returns the time of the next one.
    fn place(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut is_full = false;
        for ticket in std::mem::take(&mut self.waiting) {
            let Some(pending) = self.pending.get(&ticket) else {
                continue;
            };
            let due = pending.retry.map_or(now, |retry| retry.next);
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            if due > now || is_full {
                self.waiting.push_back(ticket);
                continue;
            }
            match pending.request.command() {
                Ok((entry, transfer)) => {
                    let command = Command::new(&entry, self.settings.timeout);
                    let submitted = self.queue.submit(ticket, command, Data::new(transfer));
                    if submitted.is_err() {
                        is_full = true;
                        self.waiting.push_back(ticket);
                    }
                }
                Err(error) => self.end(ticket, Err(error)),
            }
        }
        next
    }

    /// Takes a command that the kernel has no more.
    fn take(&mut self, outcome: Outcome) {
        let ticket = outcome.tag;
        let Some(pending) = self.pending.get_mut(&ticket) else {
            return;
        };
        let is_repeatable = pending.request.is_repeatable();
        let error = match Kind::of(outcome.end) {
            Kind::Answered(end) => {
                let result = answer(&pending.request, end, outcome.data);
                return self.end(ticket, result);
            }
            Kind::Refused(error) => return self.end(ticket, Err(error)),
            _ if !is_repeatable => return self.end(ticket, Err(Error::UnknownOutcome)),
            Kind::TakenBack(error) => {
                pending.attempts += 1;
                error
            }
            Kind::Broken(error) => error,
        };
        let now = Instant::now();
        let retry = pending.retry.get_or_insert(Retry {
            since: now,
            next: now,
            pause: MIN_PAUSE,
        });
        if now - retry.since > self.settings.reconnect || pending.attempts >= self.settings.attempts
        {
            return self.end(ticket, Err(Error::Disconnected(Box::new(error))));
        }
        retry.next = now + retry.pause;
        retry.pause = (retry.pause * 2).min(MAX_PAUSE);
        self.waiting.push_back(ticket);
    }

    fn end(&mut self, ticket: u64, result: Result<Answer>) {
        self.pending.remove(&ticket);
        let ticket = Ticket::new(ticket);
        self.completions.push_back(Completion { ticket, result });
    }

    /// Ends all commands with the queue. Those with the kernel may still take effect.
    fn fail_all(&mut self, error: &Error) {
        self.failure = Some(error.clone());
        self.waiting.clear();
        let mut tickets: Vec<_> = self.pending.keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            let is_repeatable = self.pending[&ticket].request.is_repeatable();
            let error = match is_repeatable {
                true => error.clone(),
                false => Error::UnknownOutcome,
            };
            self.end(ticket, Err(error));
        }
    }
}

impl Kind {
    fn of(end: io::Result<End>) -> Self {
        match end {
            Ok(end) if is_of_path(end.status) => Kind::Broken(Error::Status(end.status)),
            Ok(end) => Kind::Answered(end),
            Err(source) => {
                let code = source.raw_os_error();
                let error = io_error("a command", source);
                match code {
                    // The controller may have done it.
                    Some(libc::EINTR | libc::EIO | libc::ETIMEDOUT | libc::EREMOTEIO) => {
                        Kind::TakenBack(error)
                    }
                    Some(libc::EAGAIN) => Kind::Broken(error),
                    // The controller has gone for good.
                    Some(libc::ENODEV | libc::ENXIO) => {
                        Kind::Refused(Error::Disconnected(Box::new(error)))
                    }
                    _ => Kind::Refused(error),
                }
            }
        }
    }
}

/// Returns the time after a duration; far off if the duration is longer than time is.
pub fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now + FAR)
}

/// Returns whether a status tells of the path to the controller: the kernel made it.
pub fn is_of_path(status: Status) -> bool {
    status.code() >> 8 == PATH
}

pub fn io_error(what: &'static str, source: io::Error) -> Error {
    let source = Arc::new(source);
    Error::Io { what, source }
}

/// Returns the result of a completed command.
fn answer(request: &Request, end: End, data: Data) -> Result<Answer> {
    // The kernel does not tell how many bytes came. A Retrieve has the length of the whole value.
    let max_bytes = match request {
        Request::Retrieve { .. } => end.result & u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let data = data.into_read(usize::try_from(max_bytes).unwrap_or(usize::MAX));
    let completion = CompletionEntry::new(0, 0, end.status, end.result);
    request.answer(Done {
        tag: 0,
        completion,
        data,
    })
}

#[cfg(test)]
mod tests;
