//! A queue over a TCP stream.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::connection::{Connection, Done, Parameters, Transfer};
use super::error::{Error, Result};
use crate::wire::command::SubmissionEntry;

/// Bytes of one read from the stream.
const READ_BYTES: usize = 128 << 10;
/// Time without bytes after which a stream may have ended unseen.
const IDLE: Duration = Duration::from_millis(20);

/// A way to have commands done, one at a time.
pub trait Channel {
    /// Does a command and waits for its completion, be it a success or not.
    ///
    /// # Errors
    /// The connection broke, or the time is up. The channel is of no use then.
    fn execute(&mut self, entry: SubmissionEntry, transfer: Transfer) -> Result<Done>;
}

/// A queue: its connection and the stream below.
pub struct Queue {
    stream: TcpStream,
    connection: Connection,
    scratch: Box<[u8]>,
    timeout: Duration,
    /// When bytes came.
    latest: Instant,
}

impl Queue {
    /// Connects to a controller and agrees on the connection's parameters. `timeout` limits this and
    /// each later [`Channel::execute`].
    ///
    /// # Errors
    /// The address does not answer in time, or not as the protocol demands.
    pub fn open(address: SocketAddr, parameters: Parameters, timeout: Duration) -> Result<Self> {
        let deadline = after(timeout);
        let stream = TcpStream::connect_timeout(&address, timeout)
            .map_err(|error| Error::io("connect", error))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_nonblocking(true))
            .map_err(|error| Error::io("set up a stream", error))?;
        let mut queue = Queue {
            stream,
            connection: Connection::new(parameters),
            scratch: vec![0; READ_BYTES].into(),
            timeout,
            latest: Instant::now(),
        };
        while !queue.connection.is_ready() {
            queue.turn(deadline, "the connection's first response")?;
        }
        Ok(queue)
    }

    /// Returns another handle of the stream, to shut it down while the queue is in use.
    pub(super) fn handle(&self) -> Result<TcpStream> {
        let handle = self.stream.try_clone();
        handle.map_err(|error| Error::io("copy a stream's handle", error))
    }

    /// Returns the connection, to submit commands and take completed ones.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Sends as much output as the stream takes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self) -> Result<()> {
        while !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(0) => return Err(Error::Closed),
                Ok(bytes) => self.connection.sent(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("send", error)),
            }
        }
        Ok(())
    }

    /// Receives one read's bytes, if any are there. Returns whether some were.
    ///
    /// # Errors
    /// The connection broke, or the controller broke the protocol.
    pub fn receive(&mut self) -> Result<bool> {
        match self.stream.read(&mut self.scratch) {
            Ok(0) => Err(Error::Closed),
            Ok(bytes) => {
                self.latest = Instant::now();
                let result = self.connection.receive(&self.scratch[..bytes]);
                // The reason goes to the controller if the stream takes it at once.
                let sent = self.send();
                result?;
                sent.map(|()| true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(Error::io("receive", error)),
        }
    }

    /// Looks whether the stream has ended if no command has been in flight for a while.
    pub(super) fn check_idle(&mut self) -> Result<()> {
        if self.connection.is_idle() && self.latest.elapsed() > IDLE {
            self.receive()?;
        }
        Ok(())
    }

    /// Sends, waits until the stream is ready and receives. Fails if `deadline` passed: a controller
    /// that sends all the time gets no more time than a silent one.
    fn turn(&mut self, deadline: Instant, what: &'static str) -> Result<()> {
        if Instant::now() >= deadline {
            return Err(Error::Timeout(what));
        }
        self.send()?;
        if wait(std::slice::from_ref(self), deadline)? {
            self.send()?;
            self.receive()?;
        }
        Ok(())
    }
}

impl Channel for Queue {
    fn execute(&mut self, entry: SubmissionEntry, transfer: Transfer) -> Result<Done> {
        let deadline = after(self.timeout);
        self.connection.submit(entry, transfer, 0)?;
        loop {
            if let Some(done) = self.connection.completed() {
                return Ok(done);
            }
            self.turn(deadline, "a command")?;
        }
    }
}

/// Returns the time after `duration`, or in a day if the clock does not reach it.
pub(super) fn after(duration: Duration) -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now + DAY)
}

/// Waits until one of the queues' streams is ready: readable, or writable if output waits. Returns
/// false if `deadline` passed.
///
/// # Errors
/// The system refuses to wait.
pub(super) fn wait(queues: &[Queue], deadline: Instant) -> Result<bool> {
    let mut streams: Vec<PollFd<'_>> = queues
        .iter()
        .map(|queue| {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !queue.connection.output().is_empty());
            PollFd::new(&queue.stream, flags)
        })
        .collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs().min(3600) as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut streams, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Error::io("wait for a stream", error.into())),
        }
    }
}
