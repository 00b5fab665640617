//! A connection with its socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_user_timeout};

use super::pace::Pace;
use super::poller::{Interest, Poller, Token};
use crate::target::admission::MAX_OWN_BYTES;
use crate::target::{Action, Connection, Ended};

/// Bytes of output above which no more commands are read.
const MAX_OUTPUT_BYTES: usize = 8 << 20;
/// Bytes that a host takes within the time for sending, or it is too slow.
const STEADY_BYTES: usize = 256 << 10;
/// Milliseconds without an answer of the host's system, after which the connection is lost.
const GONE_MS: u32 = 30_000;
/// Reads of one connection in one turn: others have theirs, too.
const READS: usize = 2;

pub(super) struct Peer<B> {
    pub(super) connection: Connection<B>,
    stream: TcpStream,
    interest: Interest,
    is_closed: bool,
    /// Since when the host is slow to take bytes that wait, and how many it has taken since.
    slow: Option<(Instant, usize)>,
    /// How fast the host moves bytes.
    pace: Pace,
}

/// Bytes that one read of an admin queue takes. Each command of 72 bytes may have an answer of 4 KiB.
const ADMIN_READ_BYTES: usize = 4 << 10;

impl<B: DerefMut<Target = [u8]>> Peer<B> {
    pub(super) fn new(
        stream: TcpStream,
        connection: Connection<B>,
        poller: &Poller,
        number: u64,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A host that lost its power never says so.
        set_socket_keepalive(&stream, true)?;
        set_tcp_user_timeout(&stream, GONE_MS)?;
        poller.add(stream.as_fd(), Token(number))?;
        Ok(Peer {
            connection,
            stream,
            interest: Interest::Read,
            is_closed: false,
            slow: None,
            pace: Pace::new(Instant::now()),
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
            let output = self.connection.output();
            let is_full = output.len() > MAX_OUTPUT_BYTES || output.own_bytes() > MAX_OWN_BYTES;
            if is_full || self.connection.ended().is_some() {
                return;
            }
            let room = match self.connection.is_admin() {
                true => &mut scratch[..ADMIN_READ_BYTES],
                false => &mut *scratch,
            };
            match self.stream.read(room) {
                Ok(0) => return self.connection.end(Ended::ByHost),
                Ok(bytes) => {
                    let now = Instant::now();
                    let (input, is_all) = (&room[..bytes], bytes < room.len());
                    self.pace.moved(bytes);
                    self.connection.receive(input, now, used_bytes, actions);
                    if is_all {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.connection.end(Ended::ByHost),
            }
        }
    }

    /// Sends as much as the socket takes, and waits for the next event.
    pub(super) fn send(&mut self, poller: &Poller, number: u64, actions: &mut Vec<Action<B>>) {
        while !self.connection.output().is_empty() && !self.is_closed {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            self.connection.output().fill(&mut slices);
            match self.stream.write_vectored(&slices) {
                Ok(0) => break,
                Ok(bytes) => {
                    self.taken(bytes);
                    self.pace.moved(bytes);
                    self.connection.sent(bytes, actions);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.slow.get_or_insert_with(|| (Instant::now(), 0));
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
        let is_full = self.connection.output().own_bytes() > MAX_OWN_BYTES;
        let wished = match waiting {
            0 => Interest::Read,
            1..=MAX_OUTPUT_BYTES if !is_full => Interest::Both,
            _ => Interest::Write,
        };
        if wished != self.interest {
            self.interest = wished;
            poller.change(self.stream.as_fd(), Token(number), wished);
        }
    }

    /// Takes note of bytes that the host took.
    fn taken(&mut self, bytes: usize) {
        if let Some((_, taken)) = &mut self.slow {
            *taken += bytes;
            if *taken >= STEADY_BYTES {
                self.slow = None;
            }
        }
    }

    /// Ends the connection if the host takes its bytes too slowly: they lie in buffers for which others
    /// wait.
    pub(super) fn check_sending(&mut self, now: Instant, limit: Duration) {
        if self.connection.output().is_empty() {
            self.slow = None;
        }
        let since = self.slow.map(|(since, _)| since);
        if since.is_some_and(|since| now.duration_since(since) > limit) {
            self.connection.end(Ended::Silence);
        }
    }

    /// Ends the connection if others wait for buffers that its host keeps without moving their bytes.
    pub(super) fn check_pace(&mut self, now: Instant, is_short: bool) {
        let is_slow = self.pace.is_slow(now, self.connection.holds_buffers());
        if is_slow && is_short {
            self.connection.end(Ended::Silence);
        }
    }

    /// Returns whether the host has closed its side.
    pub(super) fn has_hung_up(&self) -> bool {
        if self.is_closed {
            return false;
        }
        let mut descriptors = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let polled = poll(&mut descriptors, Some(&Default::default()));
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        polled.is_ok() && descriptors[0].revents().intersects(gone)
    }

    /// Closes the socket and takes the commands back, once. A socket that is still watched would wake
    /// the loop until the last command has ended.
    pub(super) fn close(&mut self, poller: &Poller, actions: &mut Vec<Action<B>>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.connection.close(actions);
        poller.remove(self.stream.as_fd());
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Returns whether nothing of the connection is left in the backend.
    pub(super) fn is_over(&self) -> bool {
        self.is_closed && self.connection.in_flight() == 0
    }
}
