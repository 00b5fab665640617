//! PDUs of hosts, and those that a target sends.

use zerocopy::{FromBytes, IntoBytes};

use crate::wire::digest::digest;
use crate::wire::fabrics::{Connect, ConnectData, kind};
use crate::wire::sgl::{IN_CAPSULE, Sgl, TRANSPORT};
use crate::wire::{CompletionEntry, SubmissionEntry, command, kv};

pub(super) const NQN: &str = "nqn.2026-11.org.example:store";
pub(super) const HOST: &str = "nqn.2026-11.org.example:host";
/// The largest value of namespace 1.
pub(super) const MAX_VALUE: u32 = 100_000;

/// A PDU of the target. Digests are checked and cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pdu {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// The header behind its first 8 bytes.
    pub(super) rest: Vec<u8>,
    pub(super) data: Vec<u8>,
}

impl Pdu {
    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.rest[at..at + 4].try_into().unwrap())
    }

    pub(super) fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.rest[at..at + 2].try_into().unwrap())
    }

    pub(super) fn completion(&self) -> CompletionEntry {
        assert_eq!(self.kind, 5, "{self:?}");
        CompletionEntry::read_from_bytes(&self.rest).unwrap()
    }
}

/// Cuts bytes into PDUs and checks their digests.
pub(super) fn pdus(mut bytes: &[u8]) -> Vec<Pdu> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let whole = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let (pdu, rest) = bytes.split_at(whole);
        bytes = rest;
        let (flags, header) = (pdu[1], usize::from(pdu[2]));
        let mut data = &pdu[header..];
        if flags & 1 != 0 {
            assert_eq!(data[..4], digest(&pdu[..header]));
            data = &data[4..];
        }
        if flags & 2 != 0 {
            let (front, sum) = data.split_at(data.len() - 4);
            assert_eq!(sum, digest(front));
            data = front;
        }
        all.push(Pdu {
            kind: pdu[0],
            flags,
            rest: pdu[8..header].to_vec(),
            data: data.to_vec(),
        });
    }
    all
}

/// Builds a PDU with its digests.
pub(super) fn pdu(digests: u8, kind: u8, mut flags: u8, rest: &[u8], data: &[u8]) -> Vec<u8> {
    let header = 8 + rest.len();
    let behind = header + if digests & 1 != 0 { 4 } else { 0 };
    let mut whole = behind + data.len();
    flags |= digests & 1;
    if !data.is_empty() && digests & 2 != 0 {
        flags |= 2;
        whole += 4;
    }
    let offset = if data.is_empty() { 0 } else { behind as u8 };
    let mut bytes = vec![kind, flags, header as u8, offset];
    bytes.extend((whole as u32).to_le_bytes());
    bytes.extend(rest);
    if digests & 1 != 0 {
        bytes.extend(digest(&bytes));
    }
    bytes.extend(data);
    if flags & 2 != 0 {
        bytes.extend(digest(data));
    }
    bytes
}

pub(super) fn initialize(digests: u8) -> Vec<u8> {
    let mut rest = [0; 120];
    rest[3] = digests;
    pdu(0, 0, 0, &rest, &[])
}

/// Builds a capsule. An entry without a descriptor gets that of its data.
pub(super) fn capsule(digests: u8, mut entry: SubmissionEntry, data: &[u8]) -> Vec<u8> {
    if entry.data.kind == 0 && !data.is_empty() {
        entry.data = Sgl::new(IN_CAPSULE, data.len() as u32);
    }
    pdu(digests, 4, 0, entry.as_bytes(), data)
}

/// Builds data of the host.
pub(super) fn host_data(flags: u8, command: u16, tag: u16, offset: u32, data: &[u8]) -> Vec<u8> {
    data_pdu(0, flags, command, tag, offset, data)
}

pub(super) fn data_pdu(
    digests: u8,
    flags: u8,
    command: u16,
    tag: u16,
    offset: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut rest = [command.to_le_bytes(), tag.to_le_bytes()].concat();
    rest.extend(offset.to_le_bytes());
    rest.extend((data.len() as u32).to_le_bytes());
    rest.extend([0; 4]);
    pdu(digests, 6, flags, &rest, data)
}

pub(super) fn connect(queue: u16, entries: u16) -> SubmissionEntry {
    Connect {
        format: 0,
        queue,
        queue_entries: entries,
        attributes: 0,
        keep_alive_ms: 0,
    }
    .to_entry()
}

pub(super) fn connect_data(host_id: u8, controller: u16) -> Vec<u8> {
    let data = ConnectData::new([host_id; 16], controller, NQN, HOST);
    data.as_bytes().to_vec()
}

pub(super) fn property_set(offset: u32, value: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(command::FABRICS, u32::from(kind::PROPERTY_SET));
    (entry.cdw11, entry.cdw12) = (offset.into(), value.into());
    entry
}

pub(super) fn property_get(offset: u32, has_eight_bytes: bool) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(command::FABRICS, u32::from(kind::PROPERTY_GET));
    entry.cdw10 = u32::from(has_eight_bytes).into();
    entry.cdw11 = offset.into();
    entry
}

/// Makes a command to namespace 1 with a key, and a transfer of `bytes` bytes.
pub(super) fn key_command(opcode: u8, id: u16, key: &[u8], bytes: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(opcode, 1);
    entry.command_id = id.into();
    kv::set_key(&mut entry, key, 0);
    entry.cdw10 = bytes.into();
    if bytes > 0 {
        entry.data = Sgl::new(TRANSPORT, bytes);
    }
    entry
}

/// Makes a Store whose data lie in the capsule.
pub(super) fn store_in_capsule(id: u16, key: &[u8], bytes: u32) -> SubmissionEntry {
    let mut entry = key_command(kv::STORE, id, key, bytes);
    entry.data = Sgl::new(IN_CAPSULE, bytes);
    entry
}

/// Makes an admin command that returns `bytes` bytes.
pub(super) fn admin_command(opcode: u8, nsid: u32, cdw10: u32, bytes: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(opcode, nsid);
    entry.cdw10 = cdw10.into();
    entry.data = Sgl::new(TRANSPORT, bytes);
    entry
}
