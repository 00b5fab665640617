//! Digests that do not match, and headers that are not legal.

use super::world::*;
use crate::target::Ended;
use crate::wire::{Status, command, kv};

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let mut world = World::new();
    let peer = world.ready(3);
    let mut bytes = capsule(3, key_command(kv::EXIST, 1, b"k", 0), &[]);
    bytes[72] ^= 1;
    world.send(peer, &bytes);
    world.check_terminated(peer, 3, 0);
}

#[test]
fn a_wrong_digest_of_a_capsules_data_fails_the_command() {
    let mut world = World::new();
    let peer = world.ready(3);
    let mut bytes = capsule(3, store_in_capsule(1, b"k", 100), &[7; 100]);
    bytes[80] ^= 1;
    world.send(peer, &bytes);
    let answers = world.take(peer);
    assert_eq!(answers[0].completion().status(), Status::TRANSPORT_ERROR);
    assert_eq!(world.memory.submitted, 0);
    // The connection goes on.
    let done = world.execute(peer, store_in_capsule(1, b"k", 100), &[7; 100]);
    assert!(done.status().is_success());
}

#[test]
fn a_wrong_digest_of_transferred_data_has_no_effect() {
    for (damaged, bytes) in [(0, 1000), (0, 1500), (1, 1500), (1, 2500)] {
        let mut world = World::new();
        let peer = world.ready(2);
        let store = key_command(kv::STORE, 5, b"key", bytes);
        let mut answers = world.call(peer, store, &[]);
        let mut piece = 0;
        while answers[0].kind == 9 {
            let (tag, at, size) = (answers[0].half(2), answers[0].word(4), answers[0].word(8));
            let (half, rest) = (size / 2, size - size / 2);
            let mut front = data_pdu(2, 0, 5, tag, at, &vec![7; half as usize]);
            if piece == damaged {
                front[30] ^= 1;
            }
            world.send(peer, &front);
            let back = data_pdu(2, 4, 5, tag, at + half, &vec![7; rest as usize]);
            world.send(peer, &back);
            answers = world.take(peer);
            piece += 1;
        }
        assert_eq!(answers[0].completion().status(), Status::TRANSPORT_ERROR);
        assert!(world.memory.values.is_empty(), "{damaged} {bytes}");
        assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
    }
}

/// Sends bytes to a queue that is ready, and checks the termination.
fn check(digests: u8, bytes: &[u8], status: u16, offset: u32) {
    let mut world = World::new();
    let peer = world.ready(digests);
    world.send(peer, bytes);
    world.check_terminated(peer, status, offset);
}

fn changed(at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = capsule(0, store_in_capsule(1, b"k", 100), &[7; 100]);
    bytes[at] = byte;
    bytes
}

#[test]
fn a_kind_that_hosts_do_not_send_ends_the_connection() {
    for kind in [1, 3, 5, 7, 8, 9, 10, 255] {
        check(0, &changed(0, kind), 1, 0);
    }
}

#[test]
fn a_wrong_header_length_ends_the_connection() {
    for length in [0, 24, 71, 73, 255] {
        check(0, &changed(2, length), 1, 2);
    }
}

#[test]
fn a_wrong_place_of_data_ends_the_connection() {
    for place in [0, 71, 76, 255] {
        check(0, &changed(3, place), 1, 3);
    }
}

#[test]
fn digest_flags_that_were_not_agreed_on_end_the_connection() {
    check(0, &changed(1, 1), 1, 1);
    check(0, &changed(1, 2), 1, 1);
    check(1, &changed(1, 0), 1, 1);
    let mut bytes = capsule(2, store_in_capsule(1, b"k", 100), &[7; 100]);
    bytes[1] = 0;
    check(2, &bytes, 1, 1);
}

#[test]
fn a_length_that_is_too_small_or_too_large_ends_the_connection() {
    check(0, &changed(4, 71), 1, 4);
    check(
        0,
        &capsule(0, store_in_capsule(1, b"k", 2049), &[0; 2049]),
        5,
        0,
    );
    let mut bytes = changed(7, 0xff);
    bytes.truncate(8);
    check(0, &bytes, 5, 0);
    check(0, &[2, 0, 24, 0, 255, 255, 0, 0], 1, 4);
}

#[test]
fn a_second_initialization_ends_the_connection() {
    check(0, &initialize(0), 2, 0);
}

#[test]
fn a_first_pdu_is_an_initialization() {
    let mut world = World::new();
    let peer = world.open();
    world.send(peer, &capsule(0, connect(0, 7), &[]));
    world.check_terminated(peer, 2, 0);
}

#[test]
fn an_unsupported_initialization_ends_the_connection() {
    for (at, offset) in [(8, 8), (10, 10)] {
        let mut world = World::new();
        let peer = world.open();
        let mut bytes = initialize(0);
        bytes[at] = 1;
        world.send(peer, &bytes);
        world.check_terminated(peer, 6, offset);
    }
}

#[test]
fn a_termination_of_the_host_ends_the_connection() {
    for digests in 0..4 {
        let mut world = World::new();
        let peer = world.ready(digests);
        let mut bytes = vec![2, 0, 24, 0, 96, 0, 0, 0];
        bytes.extend([0; 88]);
        world.send(peer, &bytes);
        let ended = world.peers[peer].connection.ended();
        assert_eq!(ended, Some(&Ended::ByHost), "digests {digests}");
        assert!(world.take(peer).is_empty());
    }
}

#[test]
fn a_descriptor_that_does_not_fit_fails_the_command() {
    let mut world = World::new();
    let peer = world.ready(0);
    let mut entry = store_in_capsule(1, b"k", 100);
    entry.data.address = 4.into();
    let status = world.status(peer, entry, &[0; 100]);
    assert_eq!(status, Status::SGL_OFFSET_INVALID);
    let status = world.status(peer, store_in_capsule(1, b"k", 101), &[0; 100]);
    assert_eq!(status, Status::SGL_LENGTH_INVALID);
    let mut entry = key_command(kv::STORE, 1, b"k", 100);
    entry.data.kind = 0x40;
    assert_eq!(world.status(peer, entry, &[]), Status::SGL_TYPE_INVALID);
    let retrieve = store_in_capsule(1, b"k", 0);
    let retrieve = crate::wire::SubmissionEntry {
        opcode: kv::RETRIEVE,
        ..retrieve
    };
    assert_eq!(world.status(peer, retrieve, &[]), Status::SGL_TYPE_INVALID);
    let entry = key_command(kv::STORE, 1, b"k", (1 << 25) + 1);
    assert_eq!(world.status(peer, entry, &[]), Status::INVALID_FIELD);
    assert_eq!(world.memory.submitted, 0);
    let entry = command::SubmissionEntry::new(command::block::FLUSH, 1);
    assert!(world.status(peer, entry, &[]).is_success());
}
