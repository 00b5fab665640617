//! Values in both directions, and data of the host that are not as they were asked for.

use std::time::{Duration, Instant};

use super::world::*;
use crate::target::Ended;
use crate::wire::{Status, kv};

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

/// Begins a Store by transfers. Returns the tag and the size of the first one.
fn begin_store(world: &mut World, peer: usize, id: u16, bytes: u32) -> (u16, u32) {
    let answers = world.call(peer, key_command(kv::STORE, id, b"key", bytes), &[]);
    assert_eq!(answers.len(), 1, "one transfer at a time");
    let request = &answers[0];
    assert_eq!((request.kind, request.half(0), request.word(4)), (9, id, 0));
    (request.half(2), request.word(8))
}

#[test]
fn a_store_in_a_capsule_is_retrieved() {
    for digests in 0..4 {
        let mut world = World::new();
        let peer = world.ready(digests);
        let value = value(1500);
        let done = world.execute(peer, store_in_capsule(1, b"k", 1500), &value);
        assert!(done.status().is_success());
        assert_eq!(done.queue_head.get(), 2, "behind Connect and this command");
        let (data, done) = world.fetch(peer, key_command(kv::RETRIEVE, 2, b"k", 4096));
        assert_eq!((data, done.result()), (value.clone(), 1500));
        // A small buffer gets the front, and the size of the whole.
        let (data, done) = world.fetch(peer, key_command(kv::RETRIEVE, 3, b"k", 1001));
        assert_eq!((&data[..], done.result()), (&value[..1001], 1500));
        assert!(done.status().is_success());
        let (data, done) = world.fetch(peer, key_command(kv::RETRIEVE, 4, b"k", 0));
        assert_eq!((data.len(), done.result()), (0, 1500));
        assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
    }
}

#[test]
fn a_store_by_transfers_comes_in_pieces() {
    for digests in 0..4 {
        let mut world = World::new();
        let peer = world.ready(digests);
        let value = value(2500);
        let (mut tag, mut bytes) = begin_store(&mut world, peer, 5, 2500);
        let mut at = 0;
        loop {
            // A piece comes in two PDUs, with another command between.
            let (from, to) = (at as usize, (at + bytes) as usize);
            let front = data_pdu(digests, 0, 5, tag, at, &value[from..from + 100]);
            world.send(peer, &front);
            assert!(world.take(peer).is_empty());
            let status = world.status(peer, key_command(kv::EXIST, 9, b"key", 0), &[]);
            assert_eq!(status, Status::KEY_DOES_NOT_EXIST);
            let back = data_pdu(digests, 4, 5, tag, at + 100, &value[from + 100..to]);
            world.send(peer, &back);
            let answers = world.take(peer);
            assert_eq!(answers.len(), 1);
            if answers[0].kind == 5 {
                assert!(answers[0].completion().status().is_success());
                break;
            }
            assert_eq!(
                answers[0].word(4),
                at + bytes,
                "transfers follow each other"
            );
            (at, tag, bytes) = (at + bytes, answers[0].half(2), answers[0].word(8));
        }
        assert_eq!(world.memory.values[&b"key"[..]], value);
        assert_eq!(world.memory.buffers_out, 0);
    }
}

#[test]
fn an_empty_value_needs_no_transfer() {
    let mut world = World::new();
    let peer = world.ready(0);
    let done = world.execute(peer, key_command(kv::STORE, 1, b"e", 0), &[]);
    assert!(done.status().is_success());
    let (data, done) = world.fetch(peer, key_command(kv::RETRIEVE, 1, b"e", 64));
    assert_eq!((data.len(), done.result()), (0, 0));
}

/// Begins a Store, sends the bytes that `damage` makes of its tag, and checks the termination.
fn check_data(damage: impl Fn(u16) -> Vec<u8>, status: u16, offset: u32) {
    let mut world = World::new();
    let peer = world.ready(0);
    begin_store(&mut world, peer, 1, 2500);
    let (tag, _) = begin_store(&mut world, peer, 5, 2500);
    assert_eq!(world.memory.buffers_out, 4);
    world.send(peer, &damage(tag));
    world.check_terminated(peer, status, offset);
    assert!(world.memory.values.is_empty());
}

#[test]
fn data_with_an_unknown_tag_end_the_connection() {
    check_data(|tag| host_data(0, 5, tag + 1, 0, &[0; 8]), 1, 10);
    check_data(|_| host_data(0, 5, 0xffff, 0, &[0; 8]), 1, 10);
}

#[test]
fn data_of_another_command_end_the_connection() {
    check_data(|tag| host_data(0, 1, tag, 0, &[0; 8]), 1, 8);
}

#[test]
fn data_that_do_not_follow_end_the_connection() {
    check_data(|tag| host_data(0, 5, tag, 1, &[0; 8]), 4, 0);
    let twice = |tag| [0, 0].map(|at| host_data(0, 5, tag, at, &[0; 8])).concat();
    check_data(twice, 4, 0);
    check_data(|tag| host_data(4, 5, tag, 1000, &[0; 1000]), 4, 0);
}

#[test]
fn data_beyond_the_transfer_end_the_connection() {
    check_data(|tag| host_data(4, 5, tag, 0, &[0; 1001]), 4, 0);
    let two = |tag| {
        let front = host_data(0, 5, tag, 0, &[0; 600]);
        [front, host_data(4, 5, tag, 600, &[0; 401])].concat()
    };
    check_data(two, 4, 0);
}

#[test]
fn a_last_flag_out_of_place_ends_the_connection() {
    check_data(|tag| host_data(0, 5, tag, 0, &[0; 1000]), 1, 1);
    check_data(|tag| host_data(4, 5, tag, 0, &[0; 999]), 1, 1);
}

#[test]
fn data_without_bytes_end_the_connection() {
    check_data(|tag| host_data(0, 5, tag, 0, &[]), 4, 0);
    check_data(|tag| host_data(4, 5, tag, 0, &[]), 4, 0);
}

#[test]
fn data_with_another_length_than_the_pdu_end_the_connection() {
    let damage = |tag| {
        let mut bytes = host_data(0, 5, tag, 0, &[0; 8]);
        bytes[16] = 9;
        bytes
    };
    check_data(damage, 1, 16);
}

#[test]
fn data_larger_than_the_limit_end_the_connection() {
    check_data(|tag| host_data(0, 5, tag, 0, &[0; 4097]), 5, 0);
}

#[test]
fn a_host_that_vanishes_stores_nothing() {
    let mut world = World::new();
    let peer = world.ready(0);
    let (tag, _) = begin_store(&mut world, peer, 5, 1500);
    world.send(peer, &host_data(4, 5, tag, 0, &[1; 1000]));
    world.send(peer, &host_data(0, 5, tag, 1000, &[1; 400]));
    world.close(peer);
    assert!(world.memory.values.is_empty(), "a torn value");
    assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
}

#[test]
fn a_piece_that_is_wanted_after_the_end_stores_nothing() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.memory.is_frozen = true;
    world.send(
        peer,
        &capsule(0, key_command(kv::STORE, 5, b"key", 700), &[]),
    );
    world.send(peer, &[9; 8]);
    world.memory.thaw();
    world.work();
    assert!(world.memory.values.is_empty(), "bytes of no host");
    world.check_terminated(peer, 1, 0);
}

#[test]
fn output_that_nobody_takes_returns_its_buffers() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.execute(peer, store_in_capsule(1, b"k", 2000), &value(2000));
    world.is_stuck = true;
    let retrieve = key_command(kv::RETRIEVE, 2, b"k", 4096);
    world.send(peer, &capsule(0, retrieve, &[]));
    assert_eq!(world.memory.buffers_out, 2);
    world.close(peer);
    assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
}

#[test]
fn a_piece_that_waits_keeps_the_tag_of_its_command() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.execute(peer, store_in_capsule(1, b"k", 900), &value(900));
    world.is_stuck = true;
    let retrieve = key_command(kv::RETRIEVE, 2, b"k", 4096);
    world.send(peer, &capsule(0, retrieve, &[]));
    assert_eq!(world.peers[peer].connection.in_flight(), 0, "it has ended");
    // The host may not know yet, but it may send another command, and this identifier is free.
    for id in [3, 4] {
        let store = store_in_capsule(id, &[id as u8], 900);
        world.send(peer, &capsule(0, store, &value(900)));
    }
    world.is_stuck = false;
    world.work();
    let answers = world.take(peer);
    let statuses = answers.iter().filter(|pdu| pdu.kind == 5);
    assert!(
        statuses
            .clone()
            .all(|pdu| pdu.completion().status().is_success())
    );
    assert_eq!(statuses.count(), 3);
    assert_eq!(world.memory.values.len(), 3);
    assert_eq!(world.memory.buffers_out, 0);
    // Slots are used again.
    world.execute(peer, store_in_capsule(5, b"k", 900), &value(900));
}

#[test]
fn a_host_that_sends_no_data_is_ended() {
    let mut world = World::new();
    let peer = world.ready(0);
    begin_store(&mut world, peer, 1, 900);
    let began = Instant::now();
    for (seconds, is_over) in [(4, false), (6, true)] {
        let connection = &mut world.peers[peer].connection;
        connection.tick(began + Duration::from_secs(seconds), &mut Vec::new());
        assert_eq!(connection.ended() == Some(&Ended::Silence), is_over);
    }
    world.close(peer);
    assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
    assert!(world.memory.values.is_empty());
}
