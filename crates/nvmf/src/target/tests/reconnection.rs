//! Hosts that connect again: no late command may overtake its repetition.

use super::world::*;
use crate::target::Lookout;
use crate::wire::fabrics::DYNAMIC_CONTROLLER;
use crate::wire::{Status, kv};

/// Sends a store in a capsule, which the backend keeps for a while.
fn begin_store(world: &mut World, peer: usize) {
    world.memory.is_frozen = true;
    world.send(peer, &capsule(0, key_command(kv::STORE, 7, b"k", 0), &[]));
}

#[test]
fn a_lost_queue_is_connected_again_once_its_commands_have_ended() {
    let mut world = World::new();
    let (_, controller) = world.admin(0, 1);
    let lost = world.queue(0, controller, 1);
    begin_store(&mut world, lost);
    world.close(lost);
    let again = world.initialized(0);
    let data = connect_data(1, controller);
    assert!(world.call(again, connect(1, 7), &data).is_empty());
    assert!(world.peers[again].connection.is_held());
    // Another number of the same controller is free.
    let other = world.initialized(0);
    let done = world.execute(other, connect(2, 7), &data);
    assert!(done.status().is_success());
    world.memory.thaw();
    world.work();
    world.peers[again].connection.go_on();
    let answers = world.take_after_work(again);
    assert!(answers[0].completion().status().is_success());
}

#[test]
fn a_connect_of_a_known_host_waits_for_the_look_of_all_loops() {
    let mut world = World::new();
    let (mut one, mut two) = (Lookout::new(&world.registry), Lookout::new(&world.registry));
    // An unknown host waits for nothing.
    let (_, controller) = world.admin(0, 1);
    assert_eq!((one.owed(), two.owed()), (None, None));
    let second = world.initialized(0);
    let data = connect_data(1, DYNAMIC_CONTROLLER);
    assert!(world.call(second, connect(0, 7), &data).is_empty());
    assert!(world.peers[second].connection.awaits_look());
    one.looked(one.owed().expect("a look"));
    world.peers[second].connection.go_on();
    assert!(world.take_after_work(second).is_empty());
    two.looked(two.owed().expect("a look"));
    world.peers[second].connection.go_on();
    let answers = world.take_after_work(second);
    assert!(answers[0].completion().status().is_success());
    // A queue that is there already may be lost.
    world.queue(0, controller, 1);
    let again = world.initialized(0);
    let data = connect_data(1, controller);
    assert!(world.call(again, connect(1, 7), &data).is_empty());
    one.looked(one.owed().expect("a look"));
    drop(two);
    world.peers[again].connection.go_on();
    let answers = world.take_after_work(again);
    assert_eq!(answers[0].completion().status(), Status::SEQUENCE_ERROR);
}
