//! Waiting on many descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;

/// A descriptor's number. Connections have numbers from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token(pub(super) u64);

impl Token {
    pub(super) const LISTENER: Token = Token(u64::MAX);
    pub(super) const BACKEND: Token = Token(u64::MAX - 1);
    pub(super) const STOP: Token = Token(u64::MAX - 2);
}

/// The directions that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Nothing,
    Read,
    Write,
    Both,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    pub(super) is_readable: bool,
    pub(super) has_hung_up: bool,
}

pub(super) struct Poller {
    epoll: OwnedFd,
}

/// The most events of one wait.
const EVENTS: usize = 256;

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll })
    }

    pub(super) fn add(&self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token.0);
        Ok(epoll::add(
            &self.epoll,
            descriptor,
            data,
            flags(Interest::Read),
        )?)
    }

    pub(super) fn change(&self, descriptor: BorrowedFd<'_>, token: Token, interest: Interest) {
        let data = epoll::EventData::new_u64(token.0);
        let changed = epoll::modify(&self.epoll, descriptor, data, flags(interest));
        debug_assert!(changed.is_ok(), "the descriptor is watched");
    }

    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        let removed = epoll::delete(&self.epoll, descriptor);
        debug_assert!(removed.is_ok(), "the descriptor is watched");
    }

    /// Waits until a descriptor is ready or the time has come.
    pub(super) fn wait(&self, until: Instant) -> io::Result<Vec<Ready>> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = rustix::event::Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut events = Vec::with_capacity(EVENTS);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, spare, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        Ok(events.iter().map(ready).collect())
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let hung_up = epoll::EventFlags::RDHUP;
    match interest {
        Interest::Nothing => hung_up,
        Interest::Read => hung_up | epoll::EventFlags::IN,
        Interest::Write => hung_up | epoll::EventFlags::OUT,
        Interest::Both => hung_up | epoll::EventFlags::IN | epoll::EventFlags::OUT,
    }
}

fn ready(event: &epoll::Event) -> Ready {
    // The structure is packed: copies, no references.
    let (data, flags) = (event.data, event.flags);
    let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
    Ready {
        token: Token(data.u64()),
        is_readable: flags.contains(epoll::EventFlags::IN),
        has_hung_up: flags.intersects(gone),
    }
}
