//! Commands that wait for a key that another loop has: they can be taken back, and outlive the loop.

mod support;

use std::sync::Arc;

use support::{BUFFER_BYTES, Shape, new_disk};
use terrace_node::Key;
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Answer, Command, Condition, Engine, Event, Failure, Node, Worker};

type Results = Vec<(u64, Result<Answer, Failure>)>;

fn key() -> Key {
    Key::new(b"key").expect("legal")
}

fn store() -> Command {
    Command::Store {
        key: key(),
        value_bytes: 10_000,
        condition: Condition::Always,
    }
}

fn worker(node: &Arc<Node>, disk: &Disk) -> Worker {
    Worker::new(node, Box::new(disk.device()), BUFFER_BYTES).expect("a legal budget")
}

/// Polls some times. Pieces that are wanted go back filled with zeros.
fn results(worker: &mut Worker) -> Results {
    let mut results = Vec::new();
    for _ in 0..50 {
        let mut events = Vec::new();
        worker.poll(Wait::No, &mut events).expect("the disk works");
        for event in events {
            match event {
                Event::Want { tag, buffer, .. } => worker.supply(tag, buffer),
                Event::Piece { tag, buffer, .. } => worker.give_back(tag, buffer),
                Event::Done { tag, result } => results.push((tag, result)),
            }
        }
    }
    results
}

/// Has a loop own the key: its store waits for a piece.
fn owner(node: &Arc<Node>, disk: &Disk) -> Worker {
    let mut owner = worker(node, disk);
    owner.submit(1, 1, store());
    let mut events = Vec::new();
    owner.poll(Wait::No, &mut events).expect("the disk works");
    assert!(matches!(events[..], [Event::Want { tag: 1, .. }]));
    owner
}

#[test]
fn a_command_that_waits_for_its_key_can_be_taken_back() {
    let disk = new_disk(&Shape::default(), 1);
    let node = Node::open(&mut disk.device()).expect("a node");
    let _owner = owner(&node, &disk);
    let mut other = worker(&node, &disk);
    other.submit(1, 1, Command::Delete { key: key() });
    other.submit(2, 1, store());
    assert_eq!(results(&mut other), []);
    other.abort(1);
    other.abort(2);
    let aborted = Err(Failure::Aborted);
    assert_eq!(results(&mut other), [(1, aborted.clone()), (2, aborted)]);
    assert!(other.is_idle());
}

#[test]
fn the_end_of_a_loop_with_work_ends_the_waits_of_others() {
    let disk = new_disk(&Shape::default(), 1);
    let node = Node::open(&mut disk.device()).expect("a node");
    let owner = owner(&node, &disk);
    let mut other = worker(&node, &disk);
    other.submit(1, 1, Command::Delete { key: key() });
    other.submit(2, 1, store());
    assert_eq!(results(&mut other), []);
    drop(owner);
    let ended = results(&mut other);
    assert_eq!(ended[0], (1, Err(Failure::NotFound)));
    assert!(matches!(ended[1], (2, Err(Failure::Poisoned(_)))));
    // A later one does not wait for the loop that is gone.
    other.submit(3, 1, store());
    let later = results(&mut other);
    assert!(matches!(later[..], [(3, Err(Failure::Poisoned(_)))]));
    other.submit(4, 1, Command::Exist { key: key() });
    assert_eq!(results(&mut other), [(4, Err(Failure::NotFound))]);
}

#[test]
fn the_orderly_end_of_a_loop_leaves_others_at_work() {
    let disk = new_disk(&Shape::default(), 1);
    let node = Node::open(&mut disk.device()).expect("a node");
    let mut first = worker(&node, &disk);
    first.submit(1, 1, store());
    assert_eq!(results(&mut first), [(1, Ok(Answer::Stored))]);
    first.close().expect("an orderly end");
    let mut other = worker(&node, &disk);
    other.submit(1, 1, store());
    assert_eq!(results(&mut other), [(1, Ok(Answer::Stored))]);
}
