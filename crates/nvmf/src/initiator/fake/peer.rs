//! A controller behind a listener, with one thread for each connection. It checks the PDUs of hosts
//! by panics of its threads, which hosts see as closed streams.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use parking_lot::Mutex;
use zerocopy::{FromBytes, IntoBytes};

use super::pdus;
use crate::initiator::connection::Digests;
use crate::wire::command::{FABRICS, SubmissionEntry, admin, block};
use crate::wire::digest::digest;
use crate::wire::fabrics::{Connect, ConnectData, kind, kind_of};
use crate::wire::identify::{self, cns};
use crate::wire::kv::{self, KeyField, KeyList};
use crate::wire::pdu::{Data, FLAG_LAST, HEADER_BYTES, Header, Initialize, Kind};
use crate::wire::status::Status;
use crate::wire::{properties, sgl};

/// The subsystem's name.
pub const SUBSYSTEM: &str = "nqn.2026-01.test:subsystem";
/// The namespace of keys.
pub const KEYS: u32 = 1;
/// The namespace of blocks.
pub const BLOCKS: u32 = 2;
/// Data in a capsule of an I/O queue.
const CAPSULE_DATA: usize = 512;
/// Data that the controller asks for at a time.
const ASK_BYTES: usize = 9000;
const CONTROLLER: u16 = 7;

/// The way in which an I/O command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The stream closes before the command is done.
    CloseBefore,
    /// The stream closes after the command is done and before its answer.
    CloseAfter,
    /// The command gets no answer.
    Silence,
    /// The answer is for another command.
    WrongCommand,
}

/// The state that tests set and look at.
#[derive(Default)]
pub struct State {
    pub values: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub blocks: Mutex<Vec<u8>>,
    /// Faults by opcode. Each happens once.
    pub faults: Mutex<Vec<(u8, Fault)>>,
    /// Opcodes of I/O commands, as they came.
    pub commands: Mutex<Vec<u8>>,
    /// Connections are closed as they come.
    pub refuses: AtomicBool,
    pub asks_for_authentication: AtomicBool,
    pub keep_alives: AtomicU32,
    pub shut_down: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// A listening controller.
pub struct Peer {
    pub address: SocketAddr,
    pub state: Arc<State>,
}

impl Peer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        *state.blocks.lock() = vec![0; 64 << 10];
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), shared.clone());
                if state.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                state.streams.lock().push(stream.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = Session::new(stream, state).serve();
                });
            }
        });
        Peer { address, state }
    }

    pub fn fail(&self, opcode: u8, fault: Fault) {
        self.state.faults.lock().push((opcode, fault));
    }

    /// Closes all streams.
    pub fn close_all(&self) {
        for stream in self.state.streams.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns how many commands with this opcode came.
    pub fn count(&self, opcode: u8) -> usize {
        let commands = self.state.commands.lock();
        commands.iter().filter(|&&found| found == opcode).count()
    }
}

/// A connection.
struct Session {
    stream: TcpStream,
    state: Arc<State>,
    digests: Digests,
    queue: u16,
    configuration: u32,
}

/// Status, result and data.
type Answer = (Status, u64, Vec<u8>);

const DONE: Answer = (Status::SUCCESS, 0, Vec::new());

impl Session {
    fn new(stream: TcpStream, state: Arc<State>) -> Self {
        stream.set_nodelay(true).unwrap();
        Session {
            stream,
            state,
            digests: Digests::default(),
            queue: 0,
            configuration: 0,
        }
    }

    fn serve(mut self) -> io::Result<()> {
        let (kind, request, _) = self.pdu()?;
        assert_eq!(kind, Kind::InitializeRequest);
        let request = Initialize::read_from_bytes(&request).unwrap();
        let digests = Digests {
            header: request.digests & 1 != 0,
            data: request.digests & 2 != 0,
        };
        self.stream.write_all(&pdus::initialize(digests))?;
        self.digests = digests;
        loop {
            let (kind, entry, data) = self.pdu()?;
            assert_eq!(kind, Kind::Command);
            let entry = SubmissionEntry::read_from_bytes(&entry).unwrap();
            let data = self.data_of(&entry, data)?;
            let fault = self.fault(&entry);
            if fault == Some(Fault::CloseBefore) {
                return self.stream.shutdown(Shutdown::Both);
            }
            let answer = self.answer(&entry, &data);
            match fault {
                None => self.respond(entry.command_id.get(), &answer)?,
                Some(Fault::Silence) => {}
                Some(Fault::WrongCommand) => self.respond(entry.command_id.get() + 1, &answer)?,
                Some(_) => return self.stream.shutdown(Shutdown::Both),
            }
        }
    }

    fn fault(&self, entry: &SubmissionEntry) -> Option<Fault> {
        if self.queue == 0 || entry.opcode == FABRICS {
            return None;
        }
        self.state.commands.lock().push(entry.opcode);
        let mut faults = self.state.faults.lock();
        let place = faults
            .iter()
            .position(|(opcode, _)| *opcode == entry.opcode)?;
        Some(faults.remove(place).1)
    }

    /// Reads a PDU: kind, structure and data.
    fn pdu(&mut self) -> io::Result<(Kind, Vec<u8>, Vec<u8>)> {
        let mut bytes = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes)?;
        let header = Header::read_from_bytes(&bytes).unwrap();
        bytes.resize(header.bytes.get() as usize, 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..])?;
        let header_bytes = usize::from(header.header_bytes);
        let structure = bytes[HEADER_BYTES..header_bytes].to_vec();
        if self.digests.header {
            assert_eq!(bytes[header_bytes..][..4], digest(&bytes[..header_bytes]));
        }
        let mut data = Vec::new();
        if header.data_offset > 0 {
            data = bytes[usize::from(header.data_offset)..].to_vec();
            if self.digests.data {
                let end = data.len() - 4;
                assert_eq!(data[end..], digest(&data[..end]));
                data.truncate(end);
            }
        }
        Ok((Kind::from_byte(header.kind).unwrap(), structure, data))
    }

    /// Returns a command's data to the controller. Asks for them if they are not in the capsule.
    fn data_of(&mut self, entry: &SubmissionEntry, mut data: Vec<u8>) -> io::Result<Vec<u8>> {
        let bytes = entry.data.bytes.get() as usize;
        if entry.data.kind == sgl::IN_CAPSULE {
            assert_eq!(data.len(), bytes);
            let fabrics = entry.opcode == FABRICS;
            assert!(self.queue == 0 || fabrics || bytes <= CAPSULE_DATA);
            return Ok(data);
        }
        if entry.opcode != kv::STORE || self.queue == 0 {
            return Ok(data);
        }
        let id = entry.command_id.get();
        while data.len() < bytes {
            let wanted = ASK_BYTES.min(bytes - data.len());
            let ask = pdus::ready(self.digests, id, 3, data.len(), wanted);
            self.stream.write_all(&ask)?;
            let end = data.len() + wanted;
            while data.len() < end {
                let (kind, header, part) = self.pdu()?;
                if kind == Kind::Command {
                    panic!("the host submits one command at a time here");
                }
                assert_eq!(kind, Kind::HostData);
                let header = Data::read_from_bytes(&header).unwrap();
                assert_eq!(header.offset.get() as usize, data.len());
                data.extend(part);
            }
        }
        Ok(data)
    }

    fn respond(&mut self, id: u16, (status, result, data): &Answer) -> io::Result<()> {
        let mut offset = 0;
        for chunk in data.chunks(1000) {
            let last = offset + chunk.len() == data.len();
            let flags = if last { FLAG_LAST } else { 0 };
            let pdu = pdus::data(self.digests, id, offset, chunk, flags);
            self.stream.write_all(&pdu)?;
            offset += chunk.len();
        }
        let response = pdus::response(self.digests, id, *status, *result);
        self.stream.write_all(&response)
    }

    fn answer(&mut self, entry: &SubmissionEntry, data: &[u8]) -> Answer {
        if entry.opcode == FABRICS {
            return self.fabrics(entry, data);
        }
        match (self.queue, entry.nsid.get(), entry.opcode) {
            (0, nsid, admin::IDENTIFY) => self.identify(entry, nsid),
            (0, _, admin::SET_FEATURES) => (Status::SUCCESS, 0x0001_0001, Vec::new()),
            (0, _, admin::KEEP_ALIVE) => {
                self.state.keep_alives.fetch_add(1, Ordering::SeqCst);
                DONE
            }
            (1.., KEYS, opcode) => self.keys(entry, opcode, data),
            (1.., BLOCKS, opcode) => self.blocks(entry, opcode, data),
            _ => (Status::INVALID_OPCODE, 0, Vec::new()),
        }
    }

    fn fabrics(&mut self, entry: &SubmissionEntry, data: &[u8]) -> Answer {
        let number = |value| (Status::SUCCESS, value, Vec::new());
        match kind_of(entry) {
            kind::CONNECT => {
                let connect = Connect::from_entry(entry);
                let data = ConnectData::read_from_bytes(data).unwrap();
                self.queue = connect.queue;
                if data.subsystem() != Some(SUBSYSTEM) {
                    return (Status::CONNECT_INVALID_PARAMETERS, 0, Vec::new());
                }
                let expected = if connect.queue == 0 {
                    0xffff
                } else {
                    CONTROLLER
                };
                assert_eq!(data.controller_id.get(), expected);
                let authentication = self.state.asks_for_authentication.load(Ordering::SeqCst);
                number(u64::from(CONTROLLER) | u64::from(authentication) << 17)
            }
            kind::PROPERTY_SET => {
                assert_eq!(entry.cdw11.get(), properties::CONFIGURATION);
                self.configuration = entry.cdw12.get();
                number(0)
            }
            _ => number(match entry.cdw11.get() {
                properties::CAPABILITIES => properties::capabilities(16),
                properties::VERSION => u64::from(properties::VERSION_2_0),
                _ => self.status(),
            }),
        }
    }

    fn status(&self) -> u64 {
        if self.configuration & properties::SHUTDOWN != 0 {
            self.state.shut_down.store(true, Ordering::SeqCst);
            return u64::from(properties::SHUTDOWN_COMPLETE | properties::READY);
        }
        u64::from(self.configuration & properties::ENABLE)
    }

    fn identify(&self, entry: &SubmissionEntry, nsid: u32) -> Answer {
        let data = match entry.cdw10.get() as u8 {
            cns::CONTROLLER => {
                let mut identity: identify::Controller = identify::empty();
                identity.controller_id = CONTROLLER.into();
                identity.sgl = identify::SGL_SUPPORT.into();
                identity.keep_alive_granularity = 10.into();
                identity.command_capsule = (4 + CAPSULE_DATA as u32 / 16).into();
                identity.max_transfer = 5;
                identity.as_bytes().to_vec()
            }
            cns::ACTIVE_NAMESPACES => identify::namespace_list([1, 2].into_iter(), nsid),
            cns::DESCRIPTORS => {
                let mut descriptors = identify::Descriptors::default();
                let set = if nsid == KEYS { kv::COMMAND_SET } else { 0 };
                descriptors.push(identify::descriptor::COMMAND_SET, &[set]);
                descriptors.into_bytes()
            }
            cns::NAMESPACE_OF_SET => {
                let mut namespace: identify::KeyNamespace = identify::empty();
                namespace.format.max_key = 16.into();
                namespace.as_bytes().to_vec()
            }
            cns::NAMESPACE_OF_ANY_SET => {
                let mut namespace: identify::AnyNamespace = identify::empty();
                namespace.status = 1;
                namespace.as_bytes().to_vec()
            }
            _ => {
                let mut namespace: identify::BlockNamespace = identify::empty();
                namespace.block_format[2] = 9;
                namespace.as_bytes().to_vec()
            }
        };
        (Status::SUCCESS, 0, data)
    }

    fn keys(&self, entry: &SubmissionEntry, opcode: u8, data: &[u8]) -> Answer {
        let mut values = self.state.values.lock();
        let field = KeyField::from_entry(entry);
        let key = field.key().unwrap_or(&[]).to_vec();
        let room = entry.cdw10.get() as usize;
        let missing = (Status::KEY_DOES_NOT_EXIST, 0, Vec::new());
        match opcode {
            kv::STORE => {
                let options = kv::options(entry);
                if options & kv::STORE_IF_ABSENT != 0 && values.contains_key(&key) {
                    return (Status::KEY_EXISTS, 0, Vec::new());
                }
                if options & kv::STORE_IF_EXISTS != 0 && !values.contains_key(&key) {
                    return missing;
                }
                assert_eq!(room, data.len());
                values.insert(key, data.to_vec());
                DONE
            }
            kv::RETRIEVE => values.get(&key).map_or(missing, |value| {
                let prefix = value[..room.min(value.len())].to_vec();
                (Status::SUCCESS, value.len() as u64, prefix)
            }),
            kv::DELETE => values.remove(&key).map_or(missing, |_| DONE),
            kv::EXIST => values.get(&key).map_or(missing, |_| DONE),
            _ => {
                let mut list = KeyList::new(room);
                values.range(key..).all(|(key, _)| list.push(key));
                (Status::SUCCESS, 0, list.into_bytes())
            }
        }
    }

    fn blocks(&self, entry: &SubmissionEntry, opcode: u8, data: &[u8]) -> Answer {
        let mut blocks = self.state.blocks.lock();
        let start = entry.cdw10.get() as usize * 512;
        let bytes = (entry.cdw12.get() as usize + 1) * 512;
        match opcode {
            block::FLUSH => DONE,
            block::WRITE => {
                blocks[start..][..bytes].copy_from_slice(data);
                DONE
            }
            _ => (Status::SUCCESS, 0, blocks[start..][..bytes].to_vec()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
