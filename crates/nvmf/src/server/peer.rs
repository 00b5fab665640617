//! A connection with its socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::poller::{Interest, Poller, Token};
use crate::target::{Action, Connection, Ended};

/// Bytes of output above which no more commands are read.
const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// Reads of one connection in one turn: others have theirs, too.
const READS: usize = 8;

pub(super) struct Peer<B> {
    pub(super) connection: Connection<B>,
    stream: TcpStream,
    interest: Interest,
    is_reading: bool,
    is_closed: bool,
    /// Since when the host has taken no byte of those that wait.
    stalled: Option<Instant>,
}

impl<B: DerefMut<Target = [u8]>> Peer<B> {
    pub(super) fn new(
        stream: TcpStream,
        connection: Connection<B>,
        poller: &Poller,
        number: u64,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        poller.add(stream.as_fd(), Token(number))?;
        Ok(Peer {
            connection,
            stream,
            interest: Interest::Read,
            is_reading: true,
            is_closed: false,
            stalled: None,
        })
    }

    /// Reads and takes commands.
    pub(super) fn receive(
        &mut self,
        scratch: &mut [u8],
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) {
        for _ in 0..READS {
            let is_full = self.connection.output().len() > MAX_OUTPUT_BYTES;
            if !self.is_reading || is_full || self.connection.ended().is_some() {
                return;
            }
            match self.stream.read(scratch) {
                Ok(0) => return self.connection.end(Ended::ByHost),
                Ok(bytes) => {
                    let now = Instant::now();
                    let input = &scratch[..bytes];
                    self.connection.receive(input, now, used_bytes, actions);
                    if bytes < scratch.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.connection.end(Ended::ByHost),
            }
        }
    }

    /// Sends as much as the socket takes, and waits for what comes next.
    pub(super) fn send(&mut self, poller: &Poller, number: u64, actions: &mut Vec<Action<B>>) {
        while !self.connection.output().is_empty() && !self.is_closed {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            self.connection.output().fill(&mut slices);
            match self.stream.write_vectored(&slices) {
                Ok(0) => break,
                Ok(bytes) => {
                    self.stalled = None;
                    self.connection.sent(bytes, actions);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stalled.get_or_insert_with(Instant::now);
                    break;
                }
                Err(_) => {
                    self.connection.end(Ended::ByHost);
                    break;
                }
            }
        }
        if self.is_closed {
            return;
        }
        let waiting = self.connection.output().len();
        let wished = match (waiting, self.is_reading && waiting <= MAX_OUTPUT_BYTES) {
            (0, true) => Interest::Read,
            (0, false) => Interest::Nothing,
            (_, true) => Interest::Both,
            (_, false) => Interest::Write,
        };
        if wished != self.interest {
            self.interest = wished;
            poller.change(self.stream.as_fd(), Token(number), wished);
        }
    }

    /// Ends the connection if the host has taken nothing for too long.
    pub(super) fn check_sending(&mut self, now: Instant, limit: Duration) {
        if self.connection.output().is_empty() {
            self.stalled = None;
        }
        let is_over = self
            .stalled
            .is_some_and(|since| now.duration_since(since) > limit);
        if is_over {
            self.connection.end(Ended::Silence);
        }
    }

    pub(super) fn stop_reading(&mut self) {
        self.is_reading = false;
    }

    /// Returns whether the host has closed its side.
    pub(super) fn has_hung_up(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let polled = poll(&mut descriptors, Some(&Default::default()));
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        polled.is_ok() && descriptors[0].revents().intersects(gone)
    }

    /// Closes the socket and takes the commands back, once.
    pub(super) fn close(&mut self, actions: &mut Vec<Action<B>>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.connection.close(actions);
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Returns whether nothing of the connection is left in the backend.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.connection.in_flight() == 0
    }
}
