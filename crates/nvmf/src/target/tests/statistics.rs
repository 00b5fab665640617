//! Counters, hosts and notices of a target.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::world::*;
use crate::target::{Class, End, Ended, Notice, Observer, Operation, Party};
use crate::wire::kv;

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn notice(&self, party: &Party<'_>, notice: Notice<'_>) {
        let host = party.host.map_or("?", |host| host);
        let what = match notice {
            Notice::Disconnected { reason, .. } => format!("disconnected: {reason:?}"),
            other => format!("{other:?}"),
        };
        self.0
            .lock()
            .push(format!("{host} {}: {what}", party.queue));
    }
}

#[test]
fn commands_are_counted_by_kind_and_outcome() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let queue = world.queue(0, controller, 1);
    let in_capsule = capsule(0, store_in_capsule(1, b"k", 5), b"value");
    world.send(queue, &in_capsule);
    // A larger one is asked for.
    world.send(
        queue,
        &capsule(0, key_command(kv::STORE, 2, b"k", 1000), &[]),
    );
    let asked = world.take(queue).pop().unwrap();
    let tag = asked.half(2);
    world.send(queue, &host_data(4, 2, tag, 0, &[7; 1000]));
    world.send(
        queue,
        &capsule(0, key_command(kv::EXIST, 3, b"absent", 0), &[]),
    );
    world.send(queue, &capsule(0, key_command(0x77, 4, b"k", 0), &[]));
    let counts = world.registry.counts();
    let of =
        |operation: Operation, class: Class| counts.answers[operation as usize][class as usize];
    assert_eq!(of(Operation::Store, Class::Success), 2);
    assert_eq!(of(Operation::Exist, Class::Condition), 1);
    assert_eq!(of(Operation::Refused, Class::Invalid), 1);
    // Connect twice, and the property.
    assert_eq!(of(Operation::Fabrics, Class::Success), 3);
    let stores = counts.times[Operation::Store as usize].buckets;
    assert_eq!(stores.iter().sum::<u64>(), 2);
    assert_eq!(counts.transfers, 1);
    assert!(counts.received_bytes > 1000 && counts.sent_bytes > 100);
    let hosts = world.registry.hosts(Instant::now());
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].queues, hosts[0].in_flight), (1, 0));
    assert_eq!((hosts[0].controller, hosts[0].answers), (controller, 4 + 3));
    assert!(hosts[0].received_bytes > 1000 && !hosts[0].is_authenticated);
    world.close(queue);
    world.close(admin);
    assert_eq!(world.registry.counts().ended[End::ByHost as usize], 2);
    assert!(world.registry.hosts(Instant::now()).is_empty());
}

#[test]
fn hosts_that_come_go_and_fail_are_told_of_once() {
    let mut world = World::new();
    let notes = Arc::new(Notes::default());
    world
        .registry
        .observe(Arc::clone(&notes) as Arc<dyn Observer>);
    let (admin, controller) = world.admin(0, 1);
    let queue = world.queue(0, controller, 1);
    world.close(queue);
    let stranger = world.initialized(0);
    world.execute(stranger, connect(0, 7), &connect_data(0, controller));
    // No PDU has this type.
    let garbage = world.open();
    world.send(garbage, &[0x55; 8]);
    world.close(garbage);
    world.peers[admin].connection.end(Ended::Silence);
    world.close(admin);
    let host = HOST;
    let notes = notes.0.lock();
    assert_eq!(
        notes[..],
        [
            format!("{host} 0: Connected {{ is_authenticated: false }}"),
            format!("{host} 0: Refused(connect: invalid parameters (182h))"),
            "? 0: Ended(Violation(\"invalid field in a PDU header\"))".to_owned(),
            format!("{host} 0: disconnected: Silence"),
        ]
    );
}
