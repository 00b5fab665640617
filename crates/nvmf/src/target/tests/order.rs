//! Commands out of order, too many of them, and those that a lost connection leaves behind.

use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::world::*;
use crate::target::Ended;
use crate::wire::command::admin::{ABORT, ASYNC_EVENT_REQUEST, GET_LOG_PAGE, IDENTIFY, KEEP_ALIVE};
use crate::wire::fabrics::{ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER};
use crate::wire::{Status, SubmissionEntry, kv};

#[test]
fn commands_before_connect_fail() {
    let mut world = World::new();
    let peer = world.initialized(0);
    for entry in [
        admin_command(IDENTIFY, 0, 1, 4096),
        key_command(kv::EXIST, 1, b"k", 0),
        property_get(0, true),
        property_set(0x14, 0x46_0061),
    ] {
        assert_eq!(world.status(peer, entry, &[]), Status::SEQUENCE_ERROR);
    }
}

#[test]
fn commands_before_ready_fail() {
    let mut world = World::new();
    let peer = world.initialized(0);
    let done = world.execute(peer, connect(0, 7), &connect_data(1, DYNAMIC_CONTROLLER));
    let controller = done.result() as u16;
    let identify = admin_command(IDENTIFY, 0, 1, 4096);
    assert_eq!(world.status(peer, identify, &[]), Status::SEQUENCE_ERROR);
    let keep_alive = SubmissionEntry::new(KEEP_ALIVE, 0);
    assert!(world.status(peer, keep_alive, &[]).is_success());
    let other = world.initialized(0);
    let status = world.status(other, connect(1, 7), &connect_data(1, controller));
    assert_eq!(status, Status::SEQUENCE_ERROR);
}

#[test]
fn commands_after_a_shutdown_fail() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    assert!(
        world
            .status(admin, property_set(0x14, 0x46_4061), &[])
            .is_success()
    );
    let done = world.execute(admin, property_get(0x1c, false), &[]);
    assert_eq!(done.result() & 0b1100, 0b1000);
    let store = key_command(kv::STORE, 1, b"k", 0);
    assert_eq!(world.status(peer, store, &[]), Status::SEQUENCE_ERROR);
}

#[test]
fn commands_on_the_wrong_queue_fail() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    let store = key_command(kv::STORE, 1, b"k", 0);
    assert_eq!(world.status(admin, store, &[]), Status::INVALID_OPCODE);
    let keep_alive = SubmissionEntry::new(KEEP_ALIVE, 1);
    assert_eq!(world.status(peer, keep_alive, &[]), Status::INVALID_OPCODE);
    let set = property_set(0x14, 0);
    assert_eq!(world.status(peer, set, &[]), Status::INVALID_FIELD);
    let again = world.status(peer, connect(2, 7), &connect_data(1, controller));
    assert_eq!(again, Status::SEQUENCE_ERROR);
}

#[test]
fn a_connect_that_is_not_legal_fails() {
    let mut world = World::new();
    let (_, controller) = world.admin(0, 1);
    world.queue(0, controller, 1);
    let any = DYNAMIC_CONTROLLER;
    for (entry, data, status) in [
        (
            connect(0, 0),
            connect_data(1, any),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(0, 32),
            connect_data(1, any),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(0, 7),
            connect_data(0, any),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(0, 7),
            connect_data(1, 1),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(2, 7),
            connect_data(1, 99),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(65, 7),
            connect_data(1, controller),
            Status::CONNECT_INVALID_PARAMETERS,
        ),
        (
            connect(2, 7),
            connect_data(2, controller),
            Status::CONNECT_INVALID_HOST,
        ),
        (
            connect(1, 7),
            connect_data(1, controller),
            Status::SEQUENCE_ERROR,
        ),
        (connect(0, 7), vec![0; 1023], Status::SGL_LENGTH_INVALID),
    ] {
        let peer = world.initialized(0);
        let done = world.execute(peer, entry, &data);
        assert_eq!(done.status(), status, "{entry:?}");
    }
}

#[test]
fn a_command_identifier_in_use_is_refused() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.memory.is_frozen = true;
    let exist = key_command(kv::EXIST, 7, b"k", 0);
    assert!(world.call(peer, exist, &[]).is_empty());
    assert_eq!(world.status(peer, exist, &[]), Status::COMMAND_ID_CONFLICT);
    world.memory.thaw();
    world.work();
    let done = world.take(peer)[0].completion();
    assert_eq!(done.status(), Status::KEY_DOES_NOT_EXIST);
}

#[test]
fn more_commands_than_entries_end_the_connection() {
    let mut world = World::new();
    let peer = world.ready(0);
    world.memory.is_frozen = true;
    for id in 0..8 {
        let answers = world.call(peer, key_command(kv::EXIST, id, b"k", 0), &[]);
        assert!(answers.is_empty());
    }
    world.send(peer, &capsule(0, key_command(kv::EXIST, 8, b"k", 0), &[]));
    world.memory.thaw();
    world.check_terminated(peer, 2, 0);
}

#[test]
fn late_commands_hold_a_connect_of_their_host() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    world.memory.is_frozen = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 7, b"k", 0), &[]));
    world.close(peer);
    world.close(admin);
    let same = world.initialized(0);
    let data = connect_data(1, DYNAMIC_CONTROLLER);
    let answers = world.call(same, connect(0, 7), &data);
    assert!(answers.is_empty() && world.peers[same].connection.is_held());
    let other = world.initialized(0);
    let done = world.execute(other, connect(0, 7), &connect_data(2, DYNAMIC_CONTROLLER));
    assert!(done.status().is_success());
    world.memory.thaw();
    world.work();
    world.peers[same].connection.go_on();
    world.work();
    let answers = world.take(same);
    assert!(answers[0].completion().status().is_success());
}

#[test]
fn a_held_connect_takes_no_other_command() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    world.memory.is_frozen = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 7, b"k", 0), &[]));
    world.close(peer);
    world.close(admin);
    let same = world.initialized(0);
    let data = connect_data(1, DYNAMIC_CONTROLLER);
    assert!(world.call(same, connect(0, 7), &data).is_empty());
    world.send(same, &capsule(0, property_get(0, true), &[]));
    world.memory.thaw();
    world.check_terminated(same, 2, 0);
}

#[test]
fn a_queue_of_a_controller_that_is_gone_takes_no_commands() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    world.close(admin);
    let store = key_command(kv::STORE, 1, b"k", 0);
    // No status: the host sends it again by another controller.
    assert!(world.call(peer, store, &[]).is_empty());
    assert_eq!(
        world.peers[peer].connection.ended(),
        Some(&Ended::ControllerGone)
    );
    assert_eq!(
        world.memory.submitted, 0,
        "it could overtake the host's next controller"
    );
}

#[test]
fn log_pages_that_nobody_takes_stay_small() {
    let mut world = World::new();
    let (admin, _) = world.admin(0, 1);
    world.is_stuck = true;
    // 32 MiB of the effects log in each command.
    let mut entry = admin_command(GET_LOG_PAGE, 0, 5 | 0xffff << 16, 1 << 25);
    entry.cdw11 = 0x7f.into();
    let commands = capsule(0, entry, &[]).repeat(1000);
    world.send(admin, &commands);
    assert!(world.peers[admin].connection.output().len() < 1000 * 4200);
    world.close(admin);
}

#[test]
fn a_silent_connection_ends() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    let idle = world.open();
    let later = Instant::now() + Duration::from_secs(11);
    for (number, ended) in [(admin, None), (peer, None), (idle, Some(&Ended::Silence))] {
        let connection = &mut world.peers[number].connection;
        connection.tick(later, &mut Vec::new());
        assert_eq!(connection.ended(), ended);
    }
    world.close(admin);
    let connection = &mut world.peers[peer].connection;
    connection.tick(later, &mut Vec::new());
    assert_eq!(connection.ended(), Some(&Ended::ControllerGone));
}

#[test]
fn an_admin_queue_without_keep_alive_ends() {
    let mut world = World::new();
    let peer = world.initialized(0);
    let mut entry = connect(0, 7);
    entry.cdw12 = 5000.into();
    let done = world.execute(peer, entry, &connect_data(1, DYNAMIC_CONTROLLER));
    assert!(done.status().is_success());
    let connection = &mut world.peers[peer].connection;
    let now = Instant::now();
    connection.tick(now + Duration::from_secs(9), &mut Vec::new());
    assert_eq!(connection.ended(), None);
    connection.tick(now + Duration::from_secs(11), &mut Vec::new());
    assert_eq!(connection.ended(), Some(&Ended::Silence));
}

#[test]
fn event_requests_stay_pending_until_an_abort() {
    let mut world = World::new();
    let (admin, _) = world.admin(0, 1);
    let request = |id: u16| {
        let mut entry = SubmissionEntry::new(ASYNC_EVENT_REQUEST, 0);
        entry.command_id = id.into();
        entry
    };
    for id in 1..=4 {
        assert!(world.call(admin, request(id), &[]).is_empty());
    }
    let status = world.status(admin, request(5), &[]);
    assert_eq!(status, Status::TOO_MANY_EVENT_REQUESTS);
    let abort = admin_command(ABORT, 0, 2 << 16, 0);
    let answers = world.call(admin, abort, &[]);
    let aborted = answers[0].completion();
    assert_eq!(
        (aborted.command_id.get(), aborted.status()),
        (2, Status::ABORTED)
    );
    assert_eq!(answers[1].completion().result(), 0);
    // No such command.
    assert_eq!(world.execute(admin, abort, &[]).result(), 1);
}

#[test]
fn a_held_connect_of_a_closed_connection_makes_no_controller() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    world.memory.is_frozen = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 7, b"k", 0), &[]));
    world.close(peer);
    world.close(admin);
    let same = world.initialized(0);
    world.call(same, connect(0, 7), &connect_data(1, DYNAMIC_CONTROLLER));
    world.close(same);
    world.memory.thaw();
    world.work();
    world.peers[same].connection.go_on();
    assert_eq!(world.registry.controllers(), 0);
}

#[test]
fn late_commands_hold_no_other_host_with_the_same_identifier() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    world.memory.is_frozen = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 7, b"k", 0), &[]));
    world.close(peer);
    world.close(admin);
    let data = ConnectData::new(
        [1; 16],
        DYNAMIC_CONTROLLER,
        NQN,
        "nqn.2026-11.org.example:other",
    );
    let other = world.initialized(0);
    let done = world.execute(other, connect(0, 7), data.as_bytes());
    assert!(done.status().is_success());
}

#[test]
fn a_server_that_stops_refuses_new_commands_and_ends_old_ones() {
    let mut world = World::new();
    let peer = world.ready(0);
    let answers = world.call(peer, key_command(kv::STORE, 1, b"k", 900), &[]);
    let tag = answers[0].half(2);
    world.peers[peer].connection.refuse_commands();
    let status = world.status(peer, key_command(kv::EXIST, 2, b"k", 0), &[]);
    assert_eq!(status, Status::NAMESPACE_NOT_READY);
    // One of blocks gets no status, which would reach the host's file system.
    let mut read = SubmissionEntry::new(crate::wire::command::block::READ, 3);
    read.command_id = 3.into();
    assert!(world.call(peer, read, &[]).is_empty());
    world.send(peer, &host_data(4, 1, tag, 0, &[7; 900]));
    let answers = world.take(peer);
    assert!(answers[0].completion().status().is_success());
    assert_eq!(world.peers[peer].connection.in_flight(), 0);
}

#[test]
fn capsules_of_all_queues_stay_within_their_budget() {
    let mut world = World::new();
    world.limit_capsules(3 * 8 * 2048);
    let (first, controller) = world.admin(0, 1);
    let queue = world.queue(0, controller, 1);
    let (second, _) = world.admin(0, 2);
    let busy = world.initialized(0);
    let data = connect_data(3, DYNAMIC_CONTROLLER);
    for _ in 0..2 {
        let done = world.execute(busy, connect(0, 7), &data);
        assert_eq!(done.status(), Status::CONNECT_BUSY);
        assert!(done.status().may_retry());
    }
    for peer in [queue, first, second] {
        world.close(peer);
    }
    for _ in 0..3 {
        world.admin(0, 4);
    }
    assert!(world.execute(busy, connect(0, 7), &data).status() == Status::CONNECT_BUSY);
}

#[test]
fn a_discovery_queue_takes_little_memory_and_may_not_stay() {
    let mut world = World::new();
    world.limit_capsules(2048);
    let data = ConnectData::new(
        [1; 16],
        DYNAMIC_CONTROLLER,
        DISCOVERY_NQN,
        "nqn.2026-11.any:host",
    );
    let peer = world.initialized(0);
    let done = world.execute(peer, connect(0, 7), data.as_bytes());
    assert!(done.status().is_success());
    assert!(!world.peers[peer].connection.is_settled());
    // Under any Keep Alive.
    for keep_alive_ms in [0, 60_000, u32::MAX] {
        let connection = &mut world.peers[peer].connection;
        let controller = connection.controller.as_ref().expect("it is connected");
        let of_controller = &controller.keep_alive_ms;
        of_controller.store(keep_alive_ms, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(world.tick(peer, Duration::from_secs(100)), None);
    }
    let ended = world.tick(peer, Duration::from_secs(601));
    assert_eq!(ended, Some(Ended::Silence));
}

#[test]
fn a_connect_that_is_refused_keeps_no_memory() {
    let mut world = World::new();
    world.limit_capsules(2 * 8 * 2048);
    let data = ConnectData::new([1; 16], DYNAMIC_CONTROLLER, "nqn.x", "nqn.host");
    for _ in 0..3 {
        let stranger = world.initialized(0);
        let done = world.execute(stranger, connect(0, 7), data.as_bytes());
        assert_eq!(done.status(), Status::CONNECT_INVALID_PARAMETERS);
    }
    world.admin(0, 1);
}

#[test]
fn an_admin_queue_has_the_size_that_hosts_choose() {
    let mut world = World::new();
    let peer = world.initialized(0);
    let data = connect_data(1, DYNAMIC_CONTROLLER);
    let done = world.execute(peer, connect(0, 31), &data);
    assert!(done.status().is_success());
}

#[test]
fn a_connection_that_is_refused_again_and_again_ends() {
    let mut world = World::new();
    let peer = world.initialized(0);
    for number in 1..=4 {
        let done = world.execute(peer, connect(0, 0), &connect_data(1, DYNAMIC_CONTROLLER));
        assert_eq!(done.status(), Status::CONNECT_INVALID_PARAMETERS);
        let is_over = world.peers[peer].connection.ended().is_some();
        assert_eq!(is_over, number == 4);
    }
}
