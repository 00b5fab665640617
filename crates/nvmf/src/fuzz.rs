//! Entry points for fuzzers and the test that replays their inputs: hostile bytes in, nothing out; a
//! panic is the finding, and so is a buffer or a command that does not come back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use zerocopy::IntoBytes;

use crate::auth::message::Message;
use crate::initiator::connection::{Connection as Host, Digests, Parameters, Transfer};
use crate::target::{
    Action, Answer, Command, Connection, Event, Kind, Namespace, Ports, Registry, Settings,
    Subsystem,
};
use crate::wire::fabrics::{Connect, ConnectData, DYNAMIC_CONTROLLER, NO_FLOW_CONTROL};
use crate::wire::pdu::{self, Header};
use crate::wire::properties::{ALL_COMMAND_SETS, CONFIGURATION, ENABLE, ENTRY_SIZES};
use crate::wire::sgl::{IN_CAPSULE, Sgl};
use crate::wire::{CompletionEntry, Status, SubmissionEntry, fabrics, kv};

const SUBSYSTEM: &str = "nqn.2026-11.org.example:fuzz";
const HOST: &str = "nqn.2026-11.org.example:host";
/// The most bytes of a piece.
const PIECE_BYTES: u32 = 700;

/// Feeds a target the bytes of a host. The first byte gives the state of the session, and the
/// fragments in which the others come.
pub fn nvmf_target(bytes: &[u8]) {
    run_target(bytes);
}

/// Returns the number of commands that the backend did to their end.
fn run_target(bytes: &[u8]) -> usize {
    let Some((&mode, bytes)) = bytes.split_first() else {
        return 0;
    };
    let mut world = World::new();
    world.open(mode & 0b11);
    let fragment = match mode >> 2 & 0b11 {
        0 => usize::MAX,
        1 => 1,
        2 => 7,
        _ => 64,
    };
    for part in bytes.chunks(fragment.min(bytes.len().max(1))) {
        world.receive(part);
    }
    let ended = world.ended;
    world.close();
    ended
}

/// Feeds a host the bytes of a target, with commands under way.
pub fn nvmf_host(bytes: &[u8]) {
    let Some((&mode, bytes)) = bytes.split_first() else {
        return;
    };
    let mut host = Host::new(Parameters {
        digests: Digests {
            header: mode & 1 != 0,
            data: mode & 2 != 0,
        },
        entries: 8,
        capsule_data: 512,
    });
    let length = if mode & 4 != 0 { 5 } else { bytes.len().max(1) };
    for part in bytes.chunks(length) {
        if host.is_ready() && host.room() > 0 {
            let transfer = match host.room() % 3 {
                0 => Transfer::None,
                1 => Transfer::Read(1000),
                _ => Transfer::Write(vec![7; 3000].into()),
            };
            let _ = host.submit(SubmissionEntry::new(kv::RETRIEVE, 1), transfer, 1);
        }
        if host.receive(part).is_err() {
            return;
        }
        let waiting = host.output().len();
        host.sent(waiting);
        while host.completed().is_some() {}
    }
}

/// Reads a message of authentication.
pub fn nvmf_message(bytes: &[u8]) {
    let _ = Message::parse(bytes);
}

/// Returns seeds of [`nvmf_target`]: their names, and sessions that a host might send.
pub fn target_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut store = SubmissionEntry::new(kv::STORE, 1);
    kv::set_key(&mut store, b"key", 0);
    store.cdw10 = 20.into();
    let mut retrieve = SubmissionEntry::new(kv::RETRIEVE, 1);
    kv::set_key(&mut retrieve, b"key", 0);
    retrieve.command_id = 1.into();
    retrieve.cdw10 = 4096.into();
    retrieve.data = Sgl::new(crate::wire::sgl::TRANSPORT, 4096);
    let mut transferred = store;
    transferred.cdw10 = 900.into();
    transferred.data = Sgl::new(crate::wire::sgl::TRANSPORT, 900);
    let data = pdu::Data {
        command_id: 0.into(),
        transfer_tag: 0.into(),
        offset: 0.into(),
        bytes: PIECE_BYTES.into(),
        reserved: [0; 4],
    };
    let data = frame(
        6,
        pdu::FLAG_LAST,
        data.as_bytes(),
        &[5; PIECE_BYTES as usize],
    );
    let whole = [initialize(), connect(0, DYNAMIC_CONTROLLER), configure()].concat();
    // Data answer a request of the target: byte by byte, it comes before them.
    vec![
        ("session", [vec![0], whole].concat()),
        (
            "capsule",
            [vec![3], capsule(store, &[9; 20]), capsule(retrieve, &[])].concat(),
        ),
        (
            "transfer",
            [vec![7], capsule(transferred, &[]), data].concat(),
        ),
        (
            "identify",
            [vec![2], capsule(SubmissionEntry::new(6, 1), &[])].concat(),
        ),
    ]
}

/// Returns a seed of [`nvmf_message`]: a Negotiate with three hashes and two groups.
pub fn negotiate() -> Vec<u8> {
    let mut bytes = vec![0; 72];
    bytes[4..12].copy_from_slice(&[1, 0, 0, 1, 1, 0, 3, 2]);
    bytes[12..15].copy_from_slice(&[1, 2, 3]);
    bytes[42..44].copy_from_slice(&[0, 1]);
    bytes
}

/// Returns seeds of [`nvmf_host`]: their names, and answers that a target might send.
pub fn host_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut response = [0; 120];
    // The most bytes of a data PDU: 4096.
    response[5] = 0x10;
    let answer = frame(
        5,
        0,
        CompletionEntry::new(0, 1, Status::SUCCESS, 0).as_bytes(),
        &[],
    );
    let data = |kind, flags, bytes: u32, of: &[u8]| {
        let data = pdu::Data {
            command_id: 0.into(),
            transfer_tag: 0.into(),
            offset: 0.into(),
            bytes: bytes.into(),
            reserved: [0; 4],
        };
        frame(kind, flags, data.as_bytes(), of)
    };
    let ready = frame(1, 0, &response, &[]);
    let fetched = data(7, pdu::FLAG_LAST, 10, &[1; 10]);
    let asked = data(9, 0, 3000, &[]);
    vec![
        ("answer", [vec![4], ready.clone(), answer].concat()),
        ("data", [vec![4], ready.clone(), fetched].concat()),
        ("transfer", [vec![4], ready, asked].concat()),
    ]
}

/// A target with a backend that answers at once, and forgets.
struct World {
    registry: Arc<Registry>,
    settings: Arc<Settings>,
    admin: Connection<Vec<u8>>,
    queue: Option<Connection<Vec<u8>>>,
    actions: Vec<Action<Vec<u8>>>,
    /// Bytes that a command still moves, and whether it is a store.
    jobs: HashMap<u64, (u32, u32, bool)>,
    buffers_out: usize,
    /// Commands that were done.
    ended: usize,
}

impl World {
    fn new() -> Self {
        let namespace = |nsid, kind| Namespace {
            nsid,
            kind,
            bytes: 1 << 30,
            uuid: [nsid as u8; 16],
        };
        let keys = Kind::Keys {
            max_value_bytes: 1 << 20,
            max_keys: 0,
        };
        let subsystem = Subsystem {
            nqn: SUBSYSTEM.to_owned(),
            serial: "1".to_owned(),
            model: "fuzz".to_owned(),
            firmware: "1".to_owned(),
            namespaces: vec![
                namespace(1, keys),
                namespace(2, Kind::Blocks { block_shift: 12 }),
            ],
            allowed_hosts: None,
            secrets: None,
        };
        let registry = Registry::new(vec![subsystem], 8);
        let settings = Arc::new(Settings {
            queue_entries: 8,
            ..Settings::default()
        });
        let admin = connection(0, &settings, &registry);
        World {
            registry,
            settings,
            admin,
            queue: None,
            actions: Vec::new(),
            jobs: HashMap::new(),
            buffers_out: 0,
            ended: 0,
        }
    }

    /// Goes through the first steps of a session: a connection, a controller, a queue.
    fn open(&mut self, steps: u8) {
        if steps > 0 {
            self.receive(&initialize());
        }
        if steps > 1 {
            self.receive(&connect(0, DYNAMIC_CONTROLLER));
            self.receive(&configure());
        }
        if steps > 2 {
            self.queue = Some(connection(1, &self.settings, &self.registry));
            self.receive(&initialize());
            // The first controller has the first number.
            self.receive(&connect(1, 1));
        }
    }

    fn connection(&mut self) -> &mut Connection<Vec<u8>> {
        self.queue.as_mut().unwrap_or(&mut self.admin)
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut actions = std::mem::take(&mut self.actions);
        let connection = self.connection();
        connection.receive(bytes, Instant::now(), &|_| 0, &mut actions);
        connection.go_on();
        self.actions = actions;
        self.work();
    }

    fn close(&mut self) {
        let mut actions = std::mem::take(&mut self.actions);
        if let Some(queue) = &mut self.queue {
            queue.close(&mut actions);
        }
        self.admin.close(&mut actions);
        self.actions = actions;
        self.work();
        assert_eq!((self.buffers_out, self.jobs.len()), (0, 0), "all come back");
        assert_eq!(self.connection().in_flight(), 0);
    }

    fn work(&mut self) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Submit { tag, command, .. } => self.submit(tag, &command),
                    Action::Supply { tag, .. } => {
                        self.buffers_out -= 1;
                        self.go_on(tag);
                    }
                    Action::GiveBack { tag, .. } => {
                        self.buffers_out -= 1;
                        if self.jobs.get(&tag).is_some_and(|job| job.2) {
                            self.end(tag, Err(Status::ABORTED));
                        }
                    }
                    Action::Abort { .. } => {}
                }
            }
            let mut actions = std::mem::take(&mut self.actions);
            let connection = self.connection();
            let waiting = connection.output().len();
            connection.sent(waiting, &mut actions);
            self.actions = actions;
        }
    }

    fn submit(&mut self, tag: u64, command: &Command) {
        let (bytes, is_store) = match command {
            Command::Store { value_bytes, .. } => (*value_bytes, true),
            Command::Write { blocks, .. } => (blocks << 12, true),
            Command::Retrieve { max_bytes, .. } => ((*max_bytes).min(PIECE_BYTES), false),
            Command::Read { blocks, .. } => ((blocks << 12).min(PIECE_BYTES), false),
            _ => (0, false),
        };
        assert!(self.jobs.insert(tag, (0, bytes, is_store)).is_none());
        self.go_on(tag);
    }

    /// Moves the next piece of a command, or ends it.
    fn go_on(&mut self, tag: u64) {
        let Some((moved, bytes, is_store)) = self.jobs.get(&tag).copied() else {
            return;
        };
        let piece = (bytes - moved).min(PIECE_BYTES);
        if piece == 0 {
            return self.end(tag, Ok(Answer::Done));
        }
        self.jobs.insert(tag, (moved + piece, bytes, is_store));
        self.buffers_out += 1;
        let buffer = vec![1; piece as usize];
        if is_store {
            return self.event(Event::Want {
                tag,
                offset: moved,
                bytes: piece,
                buffer,
            });
        }
        self.event(Event::Piece {
            tag,
            offset: moved,
            at: 0,
            bytes: piece,
            is_last: true,
            buffer,
        });
        self.end(tag, Ok(Answer::Retrieved(bytes)));
    }

    fn end(&mut self, tag: u64, result: Result<Answer, Status>) {
        self.jobs.remove(&tag);
        self.ended += usize::from(result.is_ok());
        self.event(Event::Done { tag, result });
    }

    fn event(&mut self, event: Event<Vec<u8>>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.connection().event(event, &mut actions);
        self.actions = actions;
    }
}

fn connection(
    number: u64,
    settings: &Arc<Settings>,
    registry: &Arc<Registry>,
) -> Connection<Vec<u8>> {
    let own = std::net::SocketAddr::from(([127, 0, 0, 1], 4420));
    let ports = Ports { own, peer: own };
    let (settings, registry) = (Arc::clone(settings), Arc::clone(registry));
    Connection::new(number, settings, registry, ports, Instant::now())
}

fn frame(kind: u8, flags: u8, rest: &[u8], data: &[u8]) -> Vec<u8> {
    let length = pdu::HEADER_BYTES + rest.len();
    let header = Header {
        kind,
        flags,
        header_bytes: length as u8,
        data_offset: if data.is_empty() { 0 } else { length as u8 },
        bytes: ((length + data.len()) as u32).into(),
    };
    [header.as_bytes(), rest, data].concat()
}

fn initialize() -> Vec<u8> {
    frame(0, 0, &[0; 120], &[])
}

fn capsule(mut entry: SubmissionEntry, data: &[u8]) -> Vec<u8> {
    if !data.is_empty() {
        entry.data = Sgl::new(IN_CAPSULE, data.len() as u32);
    }
    frame(4, 0, entry.as_bytes(), data)
}

fn connect(queue: u16, controller: u16) -> Vec<u8> {
    let entry = Connect {
        format: 0,
        queue,
        queue_entries: 7,
        attributes: NO_FLOW_CONTROL,
        keep_alive_ms: 0,
    };
    let data = ConnectData::new([1; 16], controller, SUBSYSTEM, HOST);
    capsule(entry.to_entry(), data.as_bytes())
}

fn configure() -> Vec<u8> {
    let kind = u32::from(fabrics::kind::PROPERTY_SET);
    let mut entry = SubmissionEntry::new(crate::wire::command::FABRICS, kind);
    entry.cdw11 = CONFIGURATION.into();
    entry.cdw12 = (ENTRY_SIZES | ALL_COMMAND_SETS | ENABLE).into();
    capsule(entry, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_reach_the_backend() {
        let ended: Vec<usize> = target_seeds()
            .iter()
            .map(|(_, seed)| run_target(seed))
            .collect();
        assert_eq!(ended, [0, 2, 0, 0]);
        // The transfer of 900 bytes is of two pieces, of which the seed has the first.
        let (_, mut seed) = target_seeds().swap_remove(2);
        let mut rest = frame(6, pdu::FLAG_LAST, &[0; 16], &[5; 200]);
        rest[12..16].copy_from_slice(&PIECE_BYTES.to_le_bytes());
        rest[16..20].copy_from_slice(&200_u32.to_le_bytes());
        seed.extend(rest);
        assert_eq!(run_target(&seed), 1);
    }
}
