//! PDUs as a controller makes them.

use zerocopy::{FromZeros, IntoBytes};

use crate::initiator::connection::Digests;
use crate::wire::completion::CompletionEntry;
use crate::wire::digest::digest;
use crate::wire::pdu::{Data, HEADER_BYTES, Header, Initialize, Kind};
use crate::wire::status::Status;

/// Makes a PDU as a controller does.
pub fn pdu(digests: Digests, kind: Kind, flags: u8, structure: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let plain = matches!(kind, Kind::InitializeResponse | Kind::ControllerTermination);
    let header_digest = digests.header && !plain;
    let data_digest = digests.data && !data.is_empty();
    let header_bytes = HEADER_BYTES + structure.len();
    let offset = header_bytes + 4 * usize::from(header_digest);
    let header = Header {
        kind: kind as u8,
        flags: flags | u8::from(header_digest) | u8::from(data_digest) << 1,
        header_bytes: header_bytes as u8,
        data_offset: if kind == Kind::ControllerData {
            offset as u8
        } else {
            0
        },
        bytes: ((offset + data.len() + 4 * usize::from(data_digest)) as u32).into(),
    };
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(structure);
    if header_digest {
        bytes.extend(digest(&bytes));
    }
    bytes.extend_from_slice(data);
    if data_digest {
        bytes.extend(digest(data));
    }
    bytes
}

pub fn initialize_fields(digests: u8, limit: u32) -> Initialize {
    let mut response = Initialize::new_zeroed();
    response.digests = digests;
    response.limit = limit.into();
    response
}

pub fn initialize(digests: Digests) -> Vec<u8> {
    let bits = u8::from(digests.header) | u8::from(digests.data) << 1;
    let response = initialize_fields(bits, 4096);
    pdu(
        digests,
        Kind::InitializeResponse,
        0,
        response.as_bytes(),
        &[],
    )
}

pub fn data_header(id: u16, tag: u16, offset: usize, bytes: usize) -> Data {
    Data {
        command_id: id.into(),
        transfer_tag: tag.into(),
        offset: (offset as u32).into(),
        bytes: (bytes as u32).into(),
        reserved: [0; 4],
    }
}

pub fn data(digests: Digests, id: u16, offset: usize, bytes: &[u8], flags: u8) -> Vec<u8> {
    let header = data_header(id, 0, offset, bytes.len());
    pdu(
        digests,
        Kind::ControllerData,
        flags,
        header.as_bytes(),
        bytes,
    )
}

pub fn ready(digests: Digests, id: u16, tag: u16, offset: usize, bytes: usize) -> Vec<u8> {
    let header = data_header(id, tag, offset, bytes);
    pdu(digests, Kind::ReadyToTransfer, 0, header.as_bytes(), &[])
}

pub fn response(digests: Digests, id: u16, status: Status, result: u64) -> Vec<u8> {
    let completion = CompletionEntry::new(id, 0, status, result);
    pdu(digests, Kind::Response, 0, completion.as_bytes(), &[])
}
