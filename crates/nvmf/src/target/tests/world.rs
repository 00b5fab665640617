//! A target with a store in memory, and hosts that speak to it by raw bytes.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory::Memory;
pub(super) use super::pdus::*;
use crate::target::{Action, Connection, Ended, Event, Kind, Namespace, Ports, Registry};
use crate::target::{Settings, Subsystem};
use crate::wire::fabrics::DYNAMIC_CONTROLLER;
use crate::wire::{CompletionEntry, Status, SubmissionEntry};

pub(super) struct Peer {
    pub(super) connection: Connection<Vec<u8>>,
    /// Bytes that the target sent.
    pub(super) got: Vec<u8>,
    digests: u8,
}

pub(super) struct World {
    pub(super) registry: Arc<Registry>,
    settings: Arc<Settings>,
    pub(super) memory: Memory,
    pub(super) peers: Vec<Peer>,
    actions: Vec<Action<Vec<u8>>>,
    /// Whether output stays where it is.
    pub(super) is_stuck: bool,
}

fn number_of(event: &Event<Vec<u8>>) -> usize {
    let (Event::Want { tag, .. } | Event::Piece { tag, .. } | Event::Done { tag, .. }) = event;
    Connection::<Vec<u8>>::number_of(*tag) as usize
}

impl World {
    pub(super) fn new() -> Self {
        let keys = Kind::Keys {
            max_value_bytes: MAX_VALUE,
            max_keys: 0,
        };
        let namespace = |nsid, kind| Namespace {
            nsid,
            kind,
            bytes: 1 << 30,
            uuid: [nsid as u8; 16],
        };
        let subsystem = Subsystem {
            nqn: NQN.to_owned(),
            serial: "S1".to_owned(),
            model: "terrace".to_owned(),
            firmware: "1".to_owned(),
            namespaces: vec![
                namespace(1, keys),
                namespace(3, Kind::Blocks { block_shift: 12 }),
            ],
            allowed_hosts: None,
            secrets: None,
        };
        let settings = Settings {
            queue_entries: 8,
            capsule_data_bytes: 2048,
            max_data_bytes: 4096,
            ..Settings::default()
        };
        World {
            registry: Registry::new(vec![subsystem], 16),
            settings: Arc::new(settings),
            memory: Memory::default(),
            peers: Vec::new(),
            actions: Vec::new(),
            is_stuck: false,
        }
    }

    /// Limits the memory for data of capsules, for connections from now on.
    pub(super) fn limit_capsules(&mut self, bytes: usize) {
        Arc::make_mut(&mut self.settings).capsule_budget_bytes = bytes;
    }

    /// Opens a connection. Returns its number.
    pub(super) fn open(&mut self) -> usize {
        let number = self.peers.len();
        let ports = Ports {
            own: "192.0.2.7:4420".parse().unwrap(),
            peer: "192.0.2.9:999".parse().unwrap(),
        };
        let (settings, registry) = (Arc::clone(&self.settings), Arc::clone(&self.registry));
        self.peers.push(Peer {
            connection: Connection::new(number as u64, settings, registry, ports, Instant::now()),
            got: Vec::new(),
            digests: 0,
        });
        number
    }

    /// Opens a connection and initializes it.
    pub(super) fn initialized(&mut self, digests: u8) -> usize {
        let peer = self.open();
        self.send(peer, &initialize(digests));
        assert_eq!(self.take(peer).len(), 1);
        self.peers[peer].digests = digests;
        peer
    }

    /// Brings a controller up. Returns its connection and its number.
    pub(super) fn admin(&mut self, digests: u8, host_id: u8) -> (usize, u16) {
        let peer = self.initialized(digests);
        let done = self.execute(
            peer,
            connect(0, 7),
            &connect_data(host_id, DYNAMIC_CONTROLLER),
        );
        assert!(done.status().is_success(), "{:?}", done.status());
        let done = self.execute(peer, property_set(0x14, 0x46_0061), &[]);
        assert!(done.status().is_success());
        (peer, self.controller_of(peer))
    }

    fn controller_of(&self, peer: usize) -> u16 {
        self.peers[peer].connection.controller.as_ref().unwrap().id
    }

    /// Brings a controller up with one I/O queue. Returns the connection of the queue.
    pub(super) fn ready(&mut self, digests: u8) -> usize {
        let (_, controller) = self.admin(digests, 1);
        self.queue(digests, controller, 1)
    }

    /// Connects I/O queue 1 of a controller.
    pub(super) fn queue(&mut self, digests: u8, controller: u16, host_id: u8) -> usize {
        let peer = self.initialized(digests);
        let done = self.execute(peer, connect(1, 7), &connect_data(host_id, controller));
        assert!(done.status().is_success(), "{:?}", done.status());
        peer
    }

    pub(super) fn send(&mut self, peer: usize, bytes: &[u8]) {
        self.receive(peer, bytes);
        self.work();
    }

    /// Hands bytes to a connection and does nothing else.
    pub(super) fn receive(&mut self, peer: usize, bytes: &[u8]) {
        let connection = &mut self.peers[peer].connection;
        connection.receive(bytes, Instant::now(), &|_| 77, &mut self.actions);
        connection.go_on();
    }

    /// Carries actions and events out until nothing is left.
    pub(super) fn work(&mut self) {
        loop {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Submit { tag, command, .. } => self.memory.submit(tag, command),
                    Action::Supply { tag, buffer } => self.memory.supply(tag, buffer),
                    Action::GiveBack { tag, .. } => self.memory.give_back(tag),
                    Action::Abort { tag } => self.memory.abort(tag),
                }
            }
            let events = std::mem::take(&mut self.memory.events);
            for event in events {
                let connection = &mut self.peers[number_of(&event)].connection;
                connection.event(event, &mut self.actions);
            }
            for peer in self.peers.iter_mut().filter(|_| !self.is_stuck) {
                let mut slices: Vec<IoSlice<'_>> = Vec::new();
                peer.connection.output().fill(&mut slices);
                let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                peer.connection.sent(bytes.len(), &mut self.actions);
                peer.got.extend(bytes);
            }
            if self.actions.is_empty() && self.memory.events.is_empty() {
                return;
            }
        }
    }

    /// Takes the PDUs that the target sent.
    pub(super) fn take(&mut self, peer: usize) -> Vec<Pdu> {
        let got = std::mem::take(&mut self.peers[peer].got);
        pdus(&got)
    }

    /// Takes the PDUs that the target sends once it has done its work.
    pub(super) fn take_after_work(&mut self, peer: usize) -> Vec<Pdu> {
        self.work();
        self.take(peer)
    }

    /// Sends a command with its data in the capsule. Returns the target's PDUs.
    pub(super) fn call(&mut self, peer: usize, entry: SubmissionEntry, data: &[u8]) -> Vec<Pdu> {
        let bytes = capsule(self.peers[peer].digests, entry, data);
        self.send(peer, &bytes);
        self.take(peer)
    }

    /// Does a command whose only answer is a completion.
    pub(super) fn execute(
        &mut self,
        peer: usize,
        entry: SubmissionEntry,
        data: &[u8],
    ) -> CompletionEntry {
        let answers = self.call(peer, entry, data);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].completion()
    }

    /// Does a command that returns data. Returns them with the completion.
    pub(super) fn fetch(
        &mut self,
        peer: usize,
        entry: SubmissionEntry,
    ) -> (Vec<u8>, CompletionEntry) {
        let answers = self.call(peer, entry, &[]);
        let (last, data) = answers.split_last().unwrap();
        let mut all = Vec::new();
        for (at, pdu) in data.iter().enumerate() {
            assert_eq!((pdu.kind, pdu.word(4) as usize), (7, all.len()));
            assert_eq!(pdu.flags & 4 != 0, at + 1 == data.len(), "the last flag");
            all.extend(&pdu.data);
        }
        (all, last.completion())
    }

    /// Tells a connection the time, `after` from now.
    pub(super) fn tick(&mut self, peer: usize, after: Duration) -> Option<Ended> {
        let connection = &mut self.peers[peer].connection;
        connection.tick(Instant::now() + after, &mut self.actions);
        let ended = connection.ended().cloned();
        self.work();
        ended
    }

    /// Closes a connection, as its host's end does.
    pub(super) fn close(&mut self, peer: usize) {
        self.peers[peer].connection.close(&mut self.actions);
        self.work();
    }

    /// Checks that a connection has ended with a termination, and that its buffers come back.
    pub(super) fn check_terminated(&mut self, peer: usize, status: u16, offset: u32) {
        let last = self.take(peer).pop().expect("a termination");
        assert_eq!(
            (last.kind, last.half(0), last.word(2)),
            (3, status, offset),
            "{last:?}"
        );
        let ended = self.peers[peer].connection.ended();
        assert!(matches!(ended, Some(Ended::Violation(_))), "{ended:?}");
        self.close(peer);
        assert_eq!(self.memory.buffers_out, 0);
        assert_eq!(self.peers[peer].connection.in_flight(), 0);
    }

    pub(super) fn status(&mut self, peer: usize, entry: SubmissionEntry, data: &[u8]) -> Status {
        self.execute(peer, entry, data).status()
    }
}
