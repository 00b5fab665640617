//! A target on sockets: an event loop that sleeps on its connections and on its backend.
//!
//! One loop has one backend and one listener. Several loops of a process share a [`Registry`]; the
//! system spreads connections over their listeners.

mod pace;
mod peer;
mod poller;
mod stop;

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::peer::Peer;
use self::poller::{Interest, Poller, Token};
pub use self::stop::Stop;
use crate::target::statistics::Statistics;
use crate::target::{
    Action, Backend, Connection, Ended, Event, Lookout, Notice, Party, Ports, Registry, Settings,
};

/// Limits of a server's loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at a time.
    pub max_connections: usize,
    /// The time in which a host takes bytes that wait for it.
    pub send_timeout: Duration,
    /// The time that commands under way get when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_connections: 1024,
            send_timeout: Duration::from_secs(15),
            drain: Duration::from_secs(10),
        }
    }
}

/// A loop of a target.
pub struct Server<B: Backend> {
    listener: TcpListener,
    registry: Arc<Registry>,
    settings: Arc<Settings>,
    limits: Limits,
    backend: B,
    poller: Poller,
    lookout: Lookout,
    statistics: Arc<Statistics>,
    /// The share of the backend's buffers that a connection has, in bytes.
    share_bytes: usize,
    peers: HashMap<u64, Peer<B::Buffer>>,
    /// Connections with bytes to send or an end to look at.
    touched: Vec<u64>,
    last_number: u64,
    is_accepting: bool,
    /// Connections that were accepted since the last tick.
    accepted: usize,
    events: Vec<Event<B::Buffer>>,
    actions: Vec<Action<B::Buffer>>,
    scratch: Vec<u8>,
}

/// How often connections are looked at for their time.
const TICK: Duration = Duration::from_millis(100);
/// Connections that one turn accepts, and those of a tick: hosts that only connect take a small part
/// of the loop's time.
const ACCEPTS: usize = 4;
const ACCEPTS_OF_TICK: usize = 200;
/// Bytes that one read takes.
const READ_BYTES: usize = 256 << 10;

impl<B: Backend> Server<B> {
    /// Makes a loop that accepts on `listener`.
    ///
    /// # Errors
    /// The system gives no descriptor to wait on.
    pub fn new(
        listener: TcpListener,
        registry: Arc<Registry>,
        settings: Settings,
        limits: Limits,
        backend: B,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(listener.as_fd(), Token::LISTENER)?;
        poller.add(backend.readiness(), Token::BACKEND)?;
        Ok(Server {
            listener,
            lookout: Lookout::new(&registry),
            statistics: registry.new_statistics(),
            registry,
            settings: Arc::new(settings),
            limits,
            share_bytes: backend.buffer_bytes(),
            backend,
            poller,
            peers: HashMap::new(),
            touched: Vec::new(),
            last_number: 0,
            is_accepting: true,
            accepted: 0,
            events: Vec::new(),
            actions: Vec::new(),
            scratch: vec![0; READ_BYTES],
        })
    }

    /// Serves until `stop` is used, then lets commands under way end. Returns the backend.
    ///
    /// # Errors
    /// The backend is broken, or the system refuses to wait.
    pub fn run(mut self, stop: &Stop) -> io::Result<B> {
        self.poller.add(stop.as_fd(), Token::STOP)?;
        let mut next_tick = Instant::now() + TICK;
        while !stop.is_used() {
            self.turn(next_tick)?;
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick();
                self.work()?;
            }
        }
        self.poller.remove(stop.as_fd());
        self.drain()?;
        Ok(self.backend)
    }

    /// One turn: sleeps until something is to be done, and does it.
    fn turn(&mut self, until: Instant) -> io::Result<()> {
        let ready = self.poller.wait(until)?;
        if self.lookout.owed().is_some() {
            self.look();
        }
        // Ends first: a host that connects again must not meet its own late commands.
        for event in &ready {
            if event.has_hung_up
                && let Some(peer) = self.peers.get_mut(&event.token.0)
            {
                peer.connection.end(Ended::ByHost);
                self.touched.push(event.token.0);
            }
        }
        let mut held = Vec::new();
        for event in &ready {
            match event.token {
                Token::LISTENER => self.accept(),
                Token::BACKEND | Token::STOP => {}
                Token(number) => {
                    if event.is_readable && self.receive(number) {
                        held.push(number);
                    }
                    self.touched.push(number);
                }
            }
        }
        self.carry_connects_out(&held);
        self.work()
    }

    /// Carries actions out and hands events on until nothing is left, then sends.
    fn work(&mut self) -> io::Result<()> {
        loop {
            self.act();
            self.backend.poll(&mut self.events)?;
            if self.events.is_empty() && self.actions.is_empty() {
                self.send();
                if self.actions.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let mut events = std::mem::take(&mut self.events);
            // One look at the clock for all of them.
            let now = Instant::now();
            for event in events.drain(..) {
                let number = Connection::<B::Buffer>::number_of(tag_of(&event));
                if let Some(peer) = self.peers.get_mut(&number) {
                    peer.connection.set_time(now);
                    peer.connection.event(event, &mut self.actions);
                    self.touched.push(number);
                }
            }
            self.events = events;
        }
    }

    fn act(&mut self) {
        for action in self.actions.drain(..) {
            match action {
                Action::Submit { tag, nsid, command } => self.backend.submit(tag, nsid, command),
                Action::Supply { tag, buffer } => self.backend.supply(tag, buffer),
                Action::GiveBack { tag, buffer } => self.backend.give_back(tag, buffer),
                Action::Abort { tag } => self.backend.abort(tag),
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            if self.accepted >= ACCEPTS_OF_TICK {
                return self.pause_accepting();
            }
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The host is gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // No descriptor or no memory is left: the next tick looks again.
                Err(_) => return self.pause_accepting(),
            };
            self.accepted += 1;
            let Ok(own) = stream.local_addr() else {
                continue;
            };
            if self.peers.len() >= self.limits.max_connections && !self.end_a_stranger() {
                self.statistics.refused();
                let party = Party {
                    peer,
                    host: None,
                    subsystem: None,
                    queue: 0,
                };
                self.registry.notice(&party, Notice::TooMany);
                continue;
            }
            self.last_number += 1;
            let number = self.last_number;
            let now = Instant::now();
            let (settings, registry) = (Arc::clone(&self.settings), Arc::clone(&self.registry));
            let ports = Ports { own, peer };
            let mut connection = Connection::new(number, settings, registry, ports, now);
            connection.set_share(self.share_bytes);
            connection.count_in(Arc::clone(&self.statistics));
            if let Ok(peer) = Peer::new(stream, connection, &self.poller, number) {
                self.statistics.accepted();
                self.peers.insert(number, peer);
            }
        }
    }

    /// Accepts nothing until the next tick.
    fn pause_accepting(&mut self) {
        self.is_accepting = false;
        let (listener, nothing) = (self.listener.as_fd(), Interest::Nothing);
        self.poller.change(listener, Token::LISTENER, nothing);
    }

    /// Reads from a connection. Returns whether a Connect waits.
    fn receive(&mut self, number: u64) -> bool {
        let Some(peer) = self.peers.get_mut(&number) else {
            return false;
        };
        let backend = &self.backend;
        let used_bytes = |nsid| backend.used_bytes(nsid);
        peer.receive(&mut self.scratch, &used_bytes, &mut self.actions);
        peer.connection.is_held()
    }

    /// Carries Connects out, behind one look at all sockets if any must wait for it.
    fn carry_connects_out(&mut self, held: &[u64]) {
        let mut all = held.iter().filter_map(|number| self.peers.get(number));
        if all.any(|peer| peer.connection.awaits_look()) {
            self.look();
        }
        for number in held {
            if let Some(peer) = self.peers.get_mut(number) {
                peer.connection.go_on();
            }
        }
    }

    /// Ends the oldest connection that is no queue of a host yet, so that hosts that only
    /// connect keep no other host out. Returns false if all are queues.
    fn end_a_stranger(&mut self) -> bool {
        let strangers = self.peers.iter_mut().filter(|(_, peer)| {
            let connection = &peer.connection;
            !connection.is_settled() && connection.ended().is_none()
        });
        let Some((&number, peer)) = strangers.min_by_key(|(number, _)| **number) else {
            return false;
        };
        peer.connection.end(Ended::Silence);
        self.touched.push(number);
        true
    }

    /// Ends the connections that their hosts have closed, even if they still hold unread bytes.
    fn look(&mut self) {
        let owed = self.lookout.owed();
        for (&number, peer) in &mut self.peers {
            if peer.has_hung_up() {
                peer.connection.end(Ended::ByHost);
                peer.close(&self.poller, &mut self.actions);
                self.touched.push(number);
            }
        }
        if let Some(owed) = owed {
            self.lookout.looked(owed);
        }
    }

    /// Sends the output of connections, and ends those that are over.
    fn send(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for number in touched.drain(..) {
            let Some(peer) = self.peers.get_mut(&number) else {
                continue;
            };
            peer.send(&self.poller, number, &mut self.actions);
            if peer.connection.ended().is_some() {
                peer.close(&self.poller, &mut self.actions);
            }
            if peer.is_over() {
                self.peers.remove(&number);
            }
        }
        self.touched = touched;
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.accepted = 0;
        if !self.is_accepting {
            self.is_accepting = true;
            let (listener, read) = (self.listener.as_fd(), Interest::Read);
            self.poller.change(listener, Token::LISTENER, read);
        }
        self.tick_peers(now);
    }

    /// Looks at the time of all connections.
    fn tick_peers(&mut self, now: Instant) {
        let busy = self
            .peers
            .values()
            .filter(|peer| peer.connection.in_flight() > 0);
        self.share_bytes = self.backend.buffer_bytes() / (1 + busy.count());
        let is_short = self.backend.is_short_of_buffers();
        for (&number, peer) in &mut self.peers {
            peer.connection.set_share(self.share_bytes);
            peer.connection.tick(now, &mut self.actions);
            peer.check_sending(now, self.limits.send_timeout);
            peer.check_pace(now, is_short);
            peer.connection.go_on();
            if peer.connection.ended().is_some() || !peer.connection.output().is_empty() {
                self.touched.push(number);
            }
        }
    }

    /// Takes no more commands, and lets those under way end for a while.
    fn drain(&mut self) -> io::Result<()> {
        self.poller.remove(self.listener.as_fd());
        for peer in self.peers.values_mut() {
            peer.connection.refuse_commands();
        }
        let is_busy = |peer: &Peer<B::Buffer>| {
            peer.connection.in_flight() > 0 || !peer.connection.output().is_empty()
        };
        self.drain_while(is_busy)?;
        for (&number, peer) in &mut self.peers {
            peer.connection.end(Ended::Stopping);
            peer.close(&self.poller, &mut self.actions);
            self.touched.push(number);
        }
        self.drain_while(|peer| peer.connection.in_flight() > 0)?;
        if self.peers.is_empty() {
            return Ok(());
        }
        let what = "commands under way do not end";
        Err(io::Error::new(io::ErrorKind::TimedOut, what))
    }

    /// Goes on, within the time for it, while there is such a connection.
    fn drain_while(&mut self, is_such: impl Fn(&Peer<B::Buffer>) -> bool) -> io::Result<()> {
        let limit = Instant::now() + self.limits.drain;
        self.work()?;
        let mut next_tick = Instant::now() + TICK;
        while self.peers.values().any(&is_such) && Instant::now() < limit {
            self.turn(next_tick)?;
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick_peers(Instant::now());
                self.work()?;
            }
        }
        Ok(())
    }
}

fn tag_of<B>(event: &Event<B>) -> u64 {
    match event {
        Event::Want { tag, .. } | Event::Piece { tag, .. } | Event::Done { tag, .. } => *tag,
    }
}

#[cfg(test)]
mod tests;
