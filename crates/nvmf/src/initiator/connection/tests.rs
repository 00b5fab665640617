//! Connections against controllers that follow a script, or break the protocol.

use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros};

use super::*;
use crate::initiator::fake::pdus::{data, initialize, initialize_fields, pdu, ready, response};
use crate::wire::command::block;
use crate::wire::digest::digest;
use crate::wire::kv;
use crate::wire::pdu::{
    DATA_BYTES, DIGEST_DATA, FLAG_HEADER_DIGEST, Fatal, HEADER_BYTES, Header, INITIALIZE_BYTES,
    Termination,
};

const NONE: Digests = Digests {
    header: false,
    data: false,
};
const BOTH: Digests = Digests {
    header: true,
    data: true,
};
const CAPSULE_DATA: usize = 64;

fn parameters(digests: Digests) -> Parameters {
    Parameters {
        digests,
        entries: 4,
        capsule_data: CAPSULE_DATA,
    }
}

/// Takes all output.
fn drain(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.sent(bytes.len());
    bytes
}

/// Makes a connection whose controller has accepted it.
fn connected(digests: Digests) -> Connection {
    let mut connection = Connection::new(parameters(digests));
    assert!(!connection.is_ready());
    assert_eq!(drain(&mut connection).len(), INITIALIZE_BYTES);
    connection.receive(&initialize(digests)).unwrap();
    assert!(connection.is_ready());
    connection
}

/// Puts a command out and returns its number and its PDU.
fn submit(connection: &mut Connection, transfer: Transfer, tag: u64) -> (u16, Vec<u8>) {
    let entry = SubmissionEntry::new(kv::RETRIEVE, 1);
    connection.submit(entry, transfer, tag).unwrap();
    let bytes = drain(connection);
    let (entry, _) = SubmissionEntry::read_from_prefix(&bytes[HEADER_BYTES..]).unwrap();
    (entry.command_id.get(), bytes)
}

fn write(bytes: usize) -> Transfer {
    Transfer::Write(pattern(bytes).into())
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251) as u8).collect()
}

/// Reads data PDUs to the controller: header, flags and data of each. Checks their digests.
fn host_data(digests: Digests, mut bytes: &[u8]) -> Vec<(Data, u8, Vec<u8>)> {
    let mut pdus = Vec::new();
    while !bytes.is_empty() {
        let (header, _) = Header::read_from_prefix(bytes).unwrap();
        assert_eq!(header.kind, Kind::HostData as u8);
        let (pdu, rest) = bytes.split_at(header.bytes.get() as usize);
        let (data, _) = Data::read_from_prefix(&pdu[HEADER_BYTES..]).unwrap();
        if digests.header {
            assert_eq!(pdu[DATA_BYTES..][..4], digest(&pdu[..DATA_BYTES]));
        }
        let carried = &pdu[usize::from(header.data_offset)..][..data.bytes.get() as usize];
        if digests.data {
            assert_eq!(pdu[pdu.len() - 4..], digest(carried));
        }
        pdus.push((data, header.flags, carried.to_vec()));
        bytes = rest;
    }
    pdus
}

/// Feeds bytes and returns the violation that they are.
fn violation(connection: &mut Connection, bytes: &[u8]) -> Violation {
    let violation = connection.receive(bytes).unwrap_err();
    assert_eq!(connection.receive(&[]), Err(violation), "it is kept");
    let refused = connection.submit(SubmissionEntry::new(0, 0), Transfer::None, 0);
    assert_eq!(refused, Err(Refusal::NotReady));
    violation
}

#[test]
fn a_read_survives_fragmentation_at_every_byte() {
    for digests in [NONE, BOTH] {
        let value = pattern(100);
        let mut stream = initialize(digests);
        stream.extend(data(digests, 0, 0, &value[..33], 0));
        stream.extend(data(digests, 0, 33, &value[33..], FLAG_LAST));
        stream.extend(response(digests, 0, Status::SUCCESS, 100));
        let begin = INITIALIZE_BYTES;
        for cut in begin..=stream.len() {
            let mut connection = connected(digests);
            assert_eq!(submit(&mut connection, Transfer::Read(4096), 7).0, 0);
            connection.receive(&stream[begin..cut]).unwrap();
            connection.receive(&stream[cut..]).unwrap();
            let done = connection.completed().unwrap();
            assert_eq!((done.tag, done.completion.result()), (7, 100));
            assert_eq!(done.data, value);
            assert_eq!(connection.room(), 3);
        }
        let mut connection = Connection::new(parameters(digests));
        for (at, byte) in stream.iter().enumerate() {
            if at == begin {
                submit(&mut connection, Transfer::Read(100), 7);
            }
            connection.receive(&[*byte]).unwrap();
        }
        assert_eq!(connection.completed().unwrap().data, value);
    }
}

#[test]
fn small_data_travel_in_the_capsule() {
    for digests in [NONE, BOTH] {
        let mut connection = connected(digests);
        let (id, bytes) = submit(&mut connection, write(CAPSULE_DATA), 1);
        let (header, _) = Header::read_from_prefix(&bytes).unwrap();
        let (entry, _) = SubmissionEntry::read_from_prefix(&bytes[HEADER_BYTES..]).unwrap();
        assert_eq!(header.bytes.get() as usize, bytes.len());
        assert_eq!(header.header_bytes, 72);
        assert_eq!(
            (entry.data.kind, entry.data.bytes.get()),
            (sgl::IN_CAPSULE, 64)
        );
        let offset = usize::from(header.data_offset);
        assert_eq!(bytes[offset..][..CAPSULE_DATA], pattern(CAPSULE_DATA));
        if digests.header {
            assert_eq!(bytes[72..76], digest(&bytes[..72]));
            assert_eq!(bytes[bytes.len() - 4..], digest(&pattern(CAPSULE_DATA)));
        }
        let answer = response(digests, id, Status::KEY_EXISTS, 0);
        connection.receive(&answer).unwrap();
        assert_eq!(
            connection.completed().unwrap().completion.status(),
            Status::KEY_EXISTS
        );
    }
}

#[test]
fn large_data_go_in_pieces_as_the_controller_asks() {
    for digests in [NONE, BOTH] {
        let mut connection = connected(digests);
        let (id, bytes) = submit(&mut connection, write(10_000), 1);
        let (entry, _) = SubmissionEntry::read_from_prefix(&bytes[HEADER_BYTES..]).unwrap();
        assert_eq!(
            (entry.data.kind, entry.data.bytes.get()),
            (sgl::TRANSPORT, 10_000)
        );
        assert_eq!(bytes.len(), 72 + 4 * usize::from(digests.header));
        connection.receive(&ready(digests, id, 9, 0, 9000)).unwrap();
        let mut all = Vec::new();
        let first = host_data(digests, &drain(&mut connection));
        let shape: Vec<_> = first
            .iter()
            .map(|(data, flags, bytes)| (data.offset.get(), flags & FLAG_LAST != 0, bytes.len()))
            .collect();
        assert_eq!(
            shape,
            [(0, false, 4096), (4096, false, 4096), (8192, true, 808)]
        );
        assert!(first.iter().all(|(data, ..)| data.transfer_tag.get() == 9));
        connection
            .receive(&ready(digests, id, 10, 9000, 1000))
            .unwrap();
        let second = host_data(digests, &drain(&mut connection));
        assert_eq!((second.len(), second[0].1 & FLAG_LAST), (1, FLAG_LAST));
        for (_, _, bytes) in first.iter().chain(&second) {
            all.extend_from_slice(bytes);
        }
        assert_eq!(all, pattern(10_000));
        let answer = response(digests, id, Status::SUCCESS, 0);
        connection.receive(&answer).unwrap();
        assert!(connection.completed().is_some());
    }
}

#[test]
fn transfers_of_several_commands_interleave() {
    let mut connection = connected(BOTH);
    let (first, _) = submit(&mut connection, write(6000), 1);
    let (second, _) = submit(&mut connection, write(3000), 2);
    let (third, _) = submit(&mut connection, Transfer::Read(100), 3);
    let mut stream = ready(BOTH, second, 1, 0, 1000);
    stream.extend(data(BOTH, third, 0, &[5; 10], 0));
    stream.extend(ready(BOTH, first, 2, 0, 6000));
    stream.extend(ready(BOTH, second, 3, 1000, 2000));
    stream.extend(data(BOTH, third, 10, &[6; 10], FLAG_LAST));
    connection.receive(&stream).unwrap();
    let sent = host_data(BOTH, &drain(&mut connection));
    let shape: Vec<_> = sent
        .iter()
        .map(|(data, _, bytes)| (data.command_id.get(), data.offset.get(), bytes.len()))
        .collect();
    let expected = [
        (second, 0, 1000),
        (first, 0, 4096),
        (first, 4096, 1904),
        (second, 1000, 2000),
    ];
    assert_eq!(shape, expected);
    for id in [third, first, second] {
        let answer = response(BOTH, id, Status::SUCCESS, 0);
        connection.receive(&answer).unwrap();
    }
    let tags: Vec<u64> = std::iter::from_fn(|| connection.completed())
        .map(|done| done.tag)
        .collect();
    assert_eq!(tags, [3, 1, 2]);
}

#[test]
fn output_leaves_in_any_pieces() {
    let mut connection = Connection::new(parameters(NONE));
    let mut whole = connected(NONE);
    connection.sent(INITIALIZE_BYTES);
    connection.receive(&initialize(NONE)).unwrap();
    let mut sent = Vec::new();
    for tag in 0..3 {
        let entry = SubmissionEntry::new(kv::STORE, 1);
        connection.submit(entry, write(50), tag).unwrap();
        whole.submit(entry, write(50), tag).unwrap();
        let bytes = connection.output()[..100].to_vec();
        connection.sent(100);
        sent.extend(bytes);
    }
    sent.extend(drain(&mut connection));
    assert_eq!(sent, drain(&mut whole));
    connection.sent(7);
    assert!(connection.output().is_empty());
}

#[test]
fn data_are_asked_for_in_order_and_within_the_command() {
    for (offset, bytes) in [
        (0, 10_001),
        (4, 100),
        (0, 0),
        (10_000, 1),
        (0, u32::MAX as usize),
    ] {
        let mut connection = connected(NONE);
        let (id, _) = submit(&mut connection, write(10_000), 1);
        assert_eq!(
            violation(&mut connection, &ready(NONE, id, 0, offset, bytes)),
            Violation::TransferOutOfRange {
                command: id,
                offset: offset as u32,
                bytes: bytes as u32
            }
        );
    }
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, write(10_000), 1);
    connection.receive(&ready(NONE, id, 0, 0, 5000)).unwrap();
    let again = violation(&mut connection, &ready(NONE, id, 0, 0, 5000));
    assert!(matches!(again, Violation::TransferOutOfRange { .. }));
    for transfer in [Transfer::None, Transfer::Read(10), write(10)] {
        let mut connection = connected(NONE);
        let (id, _) = submit(&mut connection, transfer, 1);
        let found = violation(&mut connection, &ready(NONE, id, 0, 0, 10));
        assert_eq!(found, Violation::UnexpectedTransfer(id));
    }
}

#[test]
fn data_stay_inside_the_buffer() {
    for (offset, bytes) in [(0, 101), (1, 10), (100, 1)] {
        let mut connection = connected(NONE);
        let (id, _) = submit(&mut connection, Transfer::Read(100), 1);
        let found = violation(&mut connection, &data(NONE, id, offset, &pattern(bytes), 0));
        assert!(matches!(found, Violation::DataOutOfRange { .. }), "{found}");
    }
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, Transfer::Read(100), 1);
    connection
        .receive(&data(NONE, id, 0, &pattern(60), 0))
        .unwrap();
    let found = violation(
        &mut connection,
        &data(NONE, id, 60, &pattern(41), FLAG_LAST),
    );
    assert!(matches!(found, Violation::DataOutOfRange { .. }));
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, Transfer::Read(100), 1);
    connection
        .receive(&data(NONE, id, 0, &pattern(60), FLAG_LAST))
        .unwrap();
    let found = violation(&mut connection, &data(NONE, id, 60, &pattern(4), FLAG_LAST));
    assert_eq!(found, Violation::UnexpectedData(id));
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, write(10), 1);
    let found = violation(&mut connection, &data(NONE, id, 0, &pattern(4), FLAG_LAST));
    assert_eq!(found, Violation::UnexpectedData(id));
}

#[test]
fn data_with_success_need_no_response() {
    let mut connection = connected(BOTH);
    let (id, _) = submit(&mut connection, Transfer::Read(100), 5);
    let flags = FLAG_LAST | FLAG_SUCCESS;
    connection
        .receive(&data(BOTH, id, 0, &pattern(60), flags))
        .unwrap();
    let done = connection.completed().unwrap();
    assert_eq!((done.tag, done.data.len()), (5, 60));
    let found = violation(&mut connection, &response(BOTH, id, Status::SUCCESS, 0));
    assert_eq!(found, Violation::UnknownCommand(id));
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, Transfer::Read(100), 5);
    let found = violation(&mut connection, &data(NONE, id, 0, &[1], FLAG_SUCCESS));
    assert_eq!(found, Violation::Flags(Kind::ControllerData, FLAG_SUCCESS));
}

#[test]
fn a_command_succeeds_with_all_its_data_only() {
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, write(10_000), 1);
    connection.receive(&ready(NONE, id, 0, 0, 5000)).unwrap();
    let found = violation(&mut connection, &response(NONE, id, Status::SUCCESS, 0));
    assert_eq!(found, Violation::MissingData(id));
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, Transfer::Read(100), 1);
    connection.receive(&data(NONE, id, 0, &[1; 8], 0)).unwrap();
    let found = violation(&mut connection, &response(NONE, id, Status::SUCCESS, 0));
    assert_eq!(found, Violation::MissingData(id));
    let mut connection = connected(NONE);
    let (id, _) = submit(&mut connection, write(10_000), 1);
    let failed = response(NONE, id, Status::CAPACITY_EXCEEDED, 0);
    connection.receive(&failed).unwrap();
    assert!(
        connection.completed().is_some(),
        "a failed one does without"
    );
}

#[test]
fn commands_that_are_not_in_flight_get_no_answers() {
    for id in [0, 1, 3, u16::MAX] {
        for bytes in [
            response(NONE, id, Status::SUCCESS, 0),
            ready(NONE, id, 0, 0, 10),
            data(NONE, id, 0, &[1], FLAG_LAST),
        ] {
            let mut connection = connected(NONE);
            let found = violation(&mut connection, &bytes);
            assert_eq!(found, Violation::UnknownCommand(id));
            let output = drain(&mut connection);
            assert_eq!(output[0], Kind::HostTermination as u8);
            assert_eq!(output[8], Fatal::InvalidHeaderField as u8);
            assert_eq!(output[10], 8, "the field is the command's number");
            assert_eq!(output[DATA_BYTES..], bytes[..24], "the header comes back");
        }
    }
}

#[test]
fn lengths_are_checked_before_anything_gathers() {
    let long = |kind: Kind, header_bytes: u8, bytes: u32| {
        let header = Header {
            kind: kind as u8,
            flags: 0,
            header_bytes,
            data_offset: 24,
            bytes: bytes.into(),
        };
        let mut connection = connected(NONE);
        violation(&mut connection, header.as_bytes())
    };
    let kind = Kind::Response;
    assert_eq!(long(kind, 24, u32::MAX), Violation::Length(kind, u32::MAX));
    assert_eq!(long(kind, 24, 23), Violation::Length(kind, 23));
    assert_eq!(long(kind, 25, 25), Violation::HeaderLength(kind, 25));
    let kind = Kind::ReadyToTransfer;
    assert_eq!(long(kind, 24, 25), Violation::Length(kind, 25));
    let kind = Kind::ControllerTermination;
    assert_eq!(long(kind, 24, 153), Violation::Length(kind, 153));
    assert_eq!(long(kind, 24, 8), Violation::Length(kind, 8));
    let kind = Kind::ControllerData;
    assert_eq!(long(kind, 24, 0), Violation::Length(kind, 0));
    let kind = Kind::InitializeResponse;
    assert_eq!(long(kind, 128, 128), Violation::UnexpectedKind(kind));
    let kind = Kind::Command;
    assert_eq!(long(kind, 72, 72), Violation::UnexpectedKind(kind));
    let mut connection = connected(NONE);
    assert_eq!(
        violation(&mut connection, &[8; 8]),
        Violation::UnknownKind(8)
    );
    let mut connection = connected(NONE);
    submit(&mut connection, Transfer::Read(100), 0);
    let mut short = data(NONE, 0, 0, &[1; 8], FLAG_LAST);
    short[4] += 1;
    let kind = Kind::ControllerData;
    assert_eq!(
        violation(&mut connection, &short),
        Violation::Length(kind, 33)
    );
}

#[test]
fn padding_before_data_is_skipped() {
    let mut connection = connected(NONE);
    submit(&mut connection, Transfer::Read(100), 0);
    let mut padded = data(NONE, 0, 0, &[7; 8], FLAG_LAST | FLAG_SUCCESS);
    padded[3] += 8;
    padded[4] += 8;
    padded.splice(24..24, [1; 8]);
    for byte in padded {
        connection.receive(&[byte]).unwrap();
    }
    assert_eq!(connection.completed().unwrap().data, [7; 8]);
    submit(&mut connection, Transfer::Read(100), 0);
    let mut early = data(NONE, 1, 0, &[7; 8], FLAG_LAST);
    early[3] = 20;
    assert_eq!(
        violation(&mut connection, &early),
        Violation::DataOffset(20)
    );
}

#[test]
fn digests_that_do_not_match_end_the_connection() {
    let answer = response(BOTH, 0, Status::SUCCESS, 0);
    for at in 8..answer.len() {
        let mut connection = connected(BOTH);
        submit(&mut connection, Transfer::None, 0);
        let mut damaged = answer.clone();
        damaged[at] ^= 1;
        assert_eq!(
            violation(&mut connection, &damaged),
            Violation::HeaderDigest
        );
        assert_eq!(drain(&mut connection)[8], Fatal::HeaderDigestError as u8);
    }
    let mut connection = connected(BOTH);
    submit(&mut connection, Transfer::Read(8), 0);
    let mut damaged = data(BOTH, 0, 0, &[7; 8], FLAG_LAST | FLAG_SUCCESS);
    damaged[30] ^= 1;
    assert_eq!(violation(&mut connection, &damaged), Violation::DataDigest);
    assert!(connection.completed().is_none());
    let mut connection = connected(BOTH);
    let found = violation(&mut connection, &response(NONE, 0, Status::SUCCESS, 0));
    assert_eq!(found, Violation::Flags(Kind::Response, 0));
    let mut connection = connected(NONE);
    let found = violation(&mut connection, &answer);
    assert_eq!(found, Violation::Flags(Kind::Response, FLAG_HEADER_DIGEST));
}

#[test]
fn the_first_response_is_checked() {
    let answer = |response: Initialize| {
        let mut connection = Connection::new(parameters(BOTH));
        let bytes = pdu(NONE, Kind::InitializeResponse, 0, response.as_bytes(), &[]);
        violation(&mut connection, &bytes)
    };
    let good = initialize_fields(3, 4096);
    let mut bad = good;
    bad.format = 1.into();
    assert_eq!(answer(bad), Violation::Format(1));
    bad = good;
    bad.data_alignment = 1;
    assert_eq!(answer(bad), Violation::Alignment(1));
    for digests in [0, DIGEST_DATA, 7] {
        assert_eq!(
            answer(initialize_fields(digests, 4096)),
            Violation::Digests(digests)
        );
    }
    for limit in [0, 4095, 4098] {
        assert_eq!(
            answer(initialize_fields(3, limit)),
            Violation::DataLimit(limit)
        );
    }
    let mut connection = Connection::new(parameters(NONE));
    let early = violation(&mut connection, &response(NONE, 0, Status::SUCCESS, 0));
    assert_eq!(early, Violation::UnexpectedKind(Kind::Response));
    let mut connection = Connection::new(parameters(NONE));
    let mut long = initialize(NONE);
    long[4] += 1;
    let kind = Kind::InitializeResponse;
    assert_eq!(
        violation(&mut connection, &long),
        Violation::Length(kind, 129)
    );
}

#[test]
fn the_controllers_reason_is_read() {
    let mut request = Termination::new_zeroed();
    request.status = 4.into();
    request.information = 77.into();
    let mut bytes = pdu(
        BOTH,
        Kind::ControllerTermination,
        0,
        request.as_bytes(),
        &[],
    );
    bytes[4] += 72;
    bytes.extend([9; 72]);
    let mut connection = connected(BOTH);
    assert_eq!(
        violation(&mut connection, &bytes),
        Violation::Terminated {
            status: 4,
            information: 77
        }
    );
    assert!(drain(&mut connection).is_empty(), "no answer is due");
}

#[test]
fn a_queue_has_room_for_one_less_than_its_entries() {
    let mut connection = connected(NONE);
    for tag in 0..3 {
        let (id, _) = submit(&mut connection, Transfer::None, tag);
        assert_eq!(u64::from(id), tag);
    }
    let entry = SubmissionEntry::new(block::FLUSH, 1);
    let refused = connection.submit(entry, Transfer::None, 3);
    assert_eq!(refused, Err(Refusal::QueueFull));
    connection
        .receive(&response(NONE, 1, Status::SUCCESS, 0))
        .unwrap();
    assert_eq!(connection.completed().unwrap().tag, 1);
    assert_eq!(submit(&mut connection, Transfer::None, 3).0, 1);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        digests in any::<(bool, bool)>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ready in any::<bool>(),
    ) {
        let digests = Digests { header: digests.0, data: digests.1 };
        let mut connection = Connection::new(parameters(digests));
        if ready {
            connection = connected(digests);
            submit(&mut connection, Transfer::Read(64), 1);
            submit(&mut connection, write(1000), 1);
        }
        let _ = connection.receive(&bytes);
    }

    #[test]
    fn damaged_answers_never_panic(
        digests in any::<(bool, bool)>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<proptest::sample::Index>(),
    ) {
        let digests = Digests { header: digests.0, data: digests.1 };
        let mut stream = data(digests, 0, 0, &[1; 20], 0);
        stream.extend(ready(digests, 1, 0, 0, 600));
        stream.extend(data(digests, 0, 20, &[1; 40], FLAG_LAST));
        stream.extend(response(digests, 0, Status::SUCCESS, 60));
        for (index, byte) in changes {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        let mut connection = connected(digests);
        submit(&mut connection, Transfer::Read(64), 1);
        submit(&mut connection, write(1000), 1);
        let (first, second) = stream.split_at(cut.index(stream.len()));
        let _ = connection.receive(first).and_then(|()| connection.receive(second));
        let done = connection.completed();
        prop_assert!(done.is_none_or(|done| done.data.len() <= 64));
        prop_assert!(connection.output().len() < 2000);
    }
}
