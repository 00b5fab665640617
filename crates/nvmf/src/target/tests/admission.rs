//! Commands that wait for the connection's share of buffers, and those that take too long.

use std::sync::Arc;
use std::time::Duration;

use super::world::*;
use crate::target::Ended;
use crate::wire::command::admin::ABORT;
use crate::wire::{Status, kv};

const LATE: Duration = Duration::from_secs(16);

/// Sends stores of 900 bytes each under command identifiers from 1 on.
fn stores(world: &mut World, peer: usize, count: u16) {
    for id in 1..=count {
        let store = key_command(kv::STORE, id, &[id as u8], 900);
        world.send(peer, &capsule(0, store, &[]));
    }
}

/// Takes the ready-to-transfers: their command identifiers and tags.
fn asked(world: &mut World, peer: usize) -> Vec<(u16, u16)> {
    let pdus = world.take(peer);
    let asked = pdus.iter().filter(|pdu| pdu.kind == 9);
    asked.map(|pdu| (pdu.half(0), pdu.half(2))).collect()
}

#[test]
fn a_connection_holds_no_more_than_its_share() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.peers[peer].connection.set_share(9000);
    stores(&mut world, peer, 5);
    assert_eq!((world.memory.submitted, world.memory.buffers_out), (2, 2));
    // A command without data needs no share.
    let exist = key_command(kv::EXIST, 9, b"k", 0);
    world.send(peer, &capsule(0, exist, &[]));
    let mut seen = Vec::new();
    loop {
        let asked = asked(&mut world, peer);
        if asked.is_empty() {
            break;
        }
        for (id, tag) in asked {
            seen.push(id);
            world.receive(peer, &host_data(4, id, tag, 0, &[7; 900]));
            world.work();
            assert!(world.memory.buffers_out <= 2);
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    assert_eq!(world.memory.values.len(), 5);
    assert_eq!(world.peers[peer].connection.in_flight(), 0);
}

#[test]
fn one_command_fits_into_any_share() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.peers[peer].connection.set_share(0);
    stores(&mut world, peer, 2);
    assert_eq!(world.memory.submitted, 1);
    let (id, tag) = asked(&mut world, peer)[0];
    world.send(peer, &host_data(4, id, tag, 0, &[7; 900]));
    assert_eq!(world.memory.submitted, 2);
}

#[test]
fn answers_that_a_host_does_not_take_keep_its_lists_waiting() {
    let mut world = World::new();
    for number in 0..4000_u16 {
        let key = [b"a-key-of-16-by".as_slice(), &number.to_be_bytes()].concat();
        world.memory.values.insert(key, Vec::new());
    }
    let peer = world.ready(0);
    world.is_stuck = true;
    for id in 1..=7 {
        let list = key_command(kv::LIST, id, b"", 64 << 10);
        world.send(peer, &capsule(0, list, &[]));
    }
    assert!(world.memory.submitted < 7);
    let own_bytes = world.peers[peer].connection.output().own_bytes();
    assert!(own_bytes <= (256 + 65) << 10, "{own_bytes}");
    world.is_stuck = false;
    world.work();
    assert_eq!(world.memory.submitted, 7);
    assert_eq!(world.peers[peer].connection.in_flight(), 0);
}

#[test]
fn a_waiting_command_is_taken_back_without_the_backend() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.peers[peer].connection.set_share(0);
    stores(&mut world, peer, 3);
    world.take(peer);
    assert_eq!(world.peers[peer].connection.in_flight(), 3);
    let connection = &mut world.peers[peer].connection;
    assert!(connection.abort(2, &mut Vec::new()));
    let answers = world.take_after_work(peer);
    let done = answers[0].completion();
    assert_eq!((done.command_id.get(), done.status()), (2, Status::ABORTED));
    world.close(peer);
    assert_eq!(world.memory.submitted, 1);
    assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
    assert_eq!(world.peers[peer].connection.in_flight(), 0);
}

#[test]
fn a_command_that_takes_too_long_is_interrupted() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.peers[peer].connection.set_share(0);
    world.memory.is_frozen = true;
    stores(&mut world, peer, 2);
    assert_eq!(world.tick(peer, Duration::from_secs(14)), None);
    assert!(world.take(peer).is_empty());
    assert_eq!(world.tick(peer, LATE), None);
    // The waiting one ends at once, the other when the backend ends it.
    let waiting = world.take(peer)[0].completion();
    assert_eq!(waiting.command_id.get(), 2);
    assert_eq!(waiting.status(), Status::COMMAND_INTERRUPTED);
    assert!(waiting.status().may_retry());
    world.memory.thaw();
    world.work();
    let other = world.take(peer)[0].completion();
    assert_eq!(other.status(), Status::COMMAND_INTERRUPTED);
    assert!(world.memory.values.is_empty());
}

#[test]
fn a_store_that_is_interrupted_takes_no_effect_with_its_last_data() {
    let mut world = World::new();
    let peer = world.ready(0);
    let store = key_command(kv::STORE, 1, b"k", 1900);
    world.send(peer, &capsule(0, store, &[]));
    let (id, tag) = asked(&mut world, peer)[0];
    world.send(peer, &host_data(4, id, tag, 0, &[7; 1000]));
    let second = asked(&mut world, peer)[0];
    let connection = &mut world.peers[peer].connection;
    // The host sends within the time of a piece, so it keeps its connection.
    Arc::make_mut(&mut connection.settings).transfer = 2 * LATE;
    assert_eq!(world.tick(peer, LATE), None);
    world.send(peer, &host_data(4, id, second.1, 1000, &[7; 900]));
    let done = world.take(peer)[0].completion();
    assert_eq!(done.status(), Status::COMMAND_INTERRUPTED);
    assert!(world.memory.values.is_empty());
    assert_eq!(world.memory.buffers_out, 0);
}

#[test]
fn abort_is_answered_with_the_end_of_a_waiting_command() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    world.queue(0, controller, 1);
    let abort = admin_command(ABORT, 0, 2 << 16 | 1, 0);
    // Commands of other queues are out of reach.
    assert_eq!(world.execute(admin, abort, &[]).result(), 1);
}

#[test]
fn a_retrieve_of_one_byte_counts_the_buffer_that_it_takes() {
    let mut world = World::new();
    world.memory.values.insert(b"k".to_vec(), vec![1; 900]);
    let peer = world.ready(0);
    world.peers[peer].connection.set_share(128 << 10);
    world.is_stuck = true;
    for id in 1..=7 {
        let retrieve = key_command(kv::RETRIEVE, id, b"k", 1);
        world.send(peer, &capsule(0, retrieve, &[]));
    }
    assert_eq!(world.memory.submitted, 2);
    world.is_stuck = false;
    world.work();
    assert_eq!(world.memory.submitted, 7);
}

#[test]
fn a_change_that_took_effect_is_not_called_interrupted() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.memory.is_frozen = true;
    world.memory.ignores_aborts = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 1, b"k", 0), &[]));
    assert_eq!(world.tick(peer, LATE), None);
    world.memory.thaw();
    world.work();
    assert_eq!(world.take(peer)[0].completion().status(), Status::SUCCESS);
    assert_eq!(world.memory.values.len(), 1);
}

#[test]
fn a_host_that_still_takes_earlier_answers_has_time_to_send() {
    let mut world = World::new();
    world.memory.values.insert(b"k".to_vec(), vec![1; 900]);
    let peer = world.ready(0);
    world.is_stuck = true;
    let retrieve = key_command(kv::RETRIEVE, 1, b"k", 900);
    world.send(peer, &capsule(0, retrieve, &[]));
    let store = key_command(kv::STORE, 2, b"l", 900);
    world.send(peer, &capsule(0, store, &[]));
    // Above the time of a piece, but bytes leave.
    for seconds in [4, 8, 12] {
        world.peers[peer].connection.sent(1, &mut Vec::new());
        assert_eq!(world.tick(peer, Duration::from_secs(seconds)), None);
    }
    let ended = world.tick(peer, Duration::from_secs(18));
    assert_eq!(ended, Some(Ended::Silence), "none left");
}

#[test]
fn a_host_that_takes_answers_slowly_keeps_no_key_for_ever() {
    let mut world = World::new();
    world.memory.values.insert(b"k".to_vec(), vec![1; 900]);
    let peer = world.ready(0);
    let store = key_command(kv::STORE, 2, b"l", 900);
    world.send(peer, &capsule(0, store, &[]));
    world.is_stuck = true;
    let retrieve = key_command(kv::RETRIEVE, 1, b"k", 900);
    world.send(peer, &capsule(0, retrieve, &[]));
    let mut ended = None;
    for seconds in (4..28).step_by(4) {
        world.peers[peer].connection.sent(1, &mut Vec::new());
        ended = world.tick(peer, Duration::from_secs(seconds));
    }
    assert_eq!(ended, Some(Ended::Silence));
}
