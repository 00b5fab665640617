//! Clients against a controller that fails on demand.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use super::*;
use crate::initiator::connection::Violation;
use crate::initiator::fake::peer::{BLOCKS, Fault, KEYS, Peer, SUBSYSTEM};
use crate::wire::command::block;

const BOTH: Digests = Digests {
    header: true,
    data: true,
};

fn settings() -> Settings {
    let mut settings = Settings::new("nqn.2026-01.test:host", [7; 16], SUBSYSTEM);
    settings.queues = 2;
    settings.queue_entries = 8;
    settings.reconnect = Duration::from_secs(5);
    settings
}

fn client(peer: &Peer) -> Client {
    Client::connect(peer.address, &settings()).unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 253) as u8).collect()
}

#[test]
fn keys_are_stored_retrieved_listed_and_deleted() {
    for digests in [Digests::default(), BOTH] {
        let peer = Peer::start();
        let mut settings = settings();
        settings.digests = digests;
        let mut client = Client::connect(peer.address, &settings).unwrap();
        for bytes in [0, 1, 512, 513, 9000, 20_000] {
            let value = pattern(bytes);
            client.store(KEYS, "key", &value, Condition::None).unwrap();
            let found = client.retrieve(KEYS, "key", 65_536).unwrap().unwrap();
            assert_eq!((found.value_bytes, &found.bytes), (bytes as u64, &value));
        }
        let prefix = client.retrieve(KEYS, "key", 100).unwrap().unwrap();
        assert_eq!((prefix.value_bytes, prefix.bytes), (20_000, pattern(100)));
        assert_eq!(client.retrieve(KEYS, "other", 100).unwrap(), None);
        assert!(client.exists(KEYS, "key").unwrap());
        client.store(KEYS, "a2", b"", Condition::IfAbsent).unwrap();
        let again = client.store(KEYS, "a2", b"", Condition::IfAbsent);
        assert_eq!(again.unwrap_err().status(), Some(Status::KEY_EXISTS));
        let absent = client.store(KEYS, "b", b"", Condition::IfExists);
        assert_eq!(
            absent.unwrap_err().status(),
            Some(Status::KEY_DOES_NOT_EXIST)
        );
        let all = client.list(KEYS, None, 4096).unwrap();
        assert_eq!(all, [b"a2".to_vec(), b"key".to_vec()]);
        assert_eq!(client.list(KEYS, Some(b"b"), 4096).unwrap(), [b"key"]);
        assert!(client.delete(KEYS, "key").unwrap());
        assert!(!client.delete(KEYS, "key").unwrap());
        assert!(!client.exists(KEYS, "key").unwrap());
        client.close().unwrap();
        assert!(peer.state.shut_down.load(Ordering::SeqCst));
    }
}

#[test]
fn blocks_are_written_and_read() {
    let peer = Peer::start();
    let mut client = client(&peer);
    assert_eq!(client.block_bytes(BLOCKS).unwrap(), 512);
    client.write(BLOCKS, 3, &pattern(20 * 512)).unwrap();
    client.flush(BLOCKS).unwrap();
    assert_eq!(client.read(BLOCKS, 3, 20).unwrap(), pattern(20 * 512));
    assert_eq!(client.read(BLOCKS, 0, 3).unwrap(), [0; 3 * 512]);
    assert!(client.write(BLOCKS, 0, &[0; 513]).is_err());
    assert!(client.read(BLOCKS, 0, 0).is_err());
}

#[test]
fn namespaces_are_identified() {
    let peer = Peer::start();
    let mut client = client(&peer);
    let found = client.with_controller(|controller| {
        assert_eq!(controller.namespaces()?, [1, 2]);
        assert_eq!(controller.key_namespace(KEYS)?.format.max_key.get(), 16);
        assert_eq!(controller.any_namespace(KEYS)?.status, 1);
        Ok((controller.command_set(1)?, controller.command_set(2)?))
    });
    assert_eq!(found.unwrap(), (kv::COMMAND_SET, 0));
    assert_eq!(client.max_transfer(), Some(128 << 10));
    assert!(client.retrieve(KEYS, "a", 1 << 20).is_err(), "too much");
}

#[test]
fn many_commands_are_in_flight_on_all_queues() {
    let peer = Peer::start();
    let mut client = client(&peer);
    assert_eq!(client.capacity(), 14);
    let mut tickets = HashSet::new();
    for number in 0..14_u8 {
        let request = Request::Store {
            nsid: KEYS,
            key: Key::new([number + 1]).unwrap(),
            value: vec![number; 100].into(),
            condition: Condition::None,
        };
        assert!(tickets.insert(client.submit(request).unwrap()));
    }
    let key = Key::new("a").unwrap();
    let one_more = client.submit(Request::Exists { nsid: KEYS, key });
    assert!(matches!(one_more, Err(Error::QueueFull)));
    assert!(client.exists(KEYS, [14]).is_ok(), "a call waits for room");
    while !tickets.is_empty() {
        let completions = client.wait(Duration::from_secs(10));
        assert!(!completions.is_empty());
        for completion in completions {
            completion.result.unwrap();
            assert!(tickets.remove(&completion.ticket));
        }
    }
    assert_eq!((client.in_flight(), client.poll().len()), (0, 0));
    assert_eq!(peer.state.values.lock().len(), 14);
}

#[test]
fn commands_that_do_no_harm_are_repeated() {
    let faults = [Fault::CloseBefore, Fault::CloseAfter, Fault::WrongCommand];
    for fault in faults {
        let peer = Peer::start();
        let mut client = client(&peer);
        for opcode in [kv::STORE, kv::RETRIEVE, kv::EXIST, kv::LIST] {
            peer.fail(opcode, fault);
        }
        client
            .store(KEYS, "key", b"value", Condition::None)
            .unwrap();
        let value = client.retrieve(KEYS, "key", 100).unwrap().unwrap();
        assert_eq!(value.bytes, b"value");
        assert!(client.exists(KEYS, "key").unwrap());
        assert_eq!(client.list(KEYS, None, 100).unwrap().len(), 1);
        assert_eq!(peer.count(kv::STORE), 2, "{fault:?}");
        assert_eq!(peer.count(kv::LIST), 2, "{fault:?}");
    }
}

#[test]
fn other_commands_have_an_unknown_outcome() {
    let peer = Peer::start();
    let mut client = client(&peer);
    for (fault, stored) in [(Fault::CloseBefore, false), (Fault::CloseAfter, true)] {
        peer.fail(kv::STORE, fault);
        peer.fail(kv::DELETE, fault);
        peer.fail(block::FLUSH, fault);
        let lost = client.store(KEYS, "new", b"v", Condition::IfAbsent);
        assert!(matches!(lost, Err(Error::UnknownOutcome)), "{lost:?}");
        assert_eq!(client.exists(KEYS, "new").unwrap(), stored);
        let lost = client.delete(KEYS, "new");
        assert!(matches!(lost, Err(Error::UnknownOutcome)), "{lost:?}");
        assert!(!client.exists(KEYS, "new").unwrap());
        let lost = client.flush(BLOCKS);
        assert!(matches!(lost, Err(Error::UnknownOutcome)), "{lost:?}");
    }
    assert_eq!(peer.count(kv::DELETE), 2);
}

#[test]
fn a_command_without_an_answer_runs_out_of_time() {
    let peer = Peer::start();
    let mut settings = settings();
    settings.timeout = Duration::from_millis(200);
    settings.attempts = 2;
    let mut client = Client::connect(peer.address, &settings).unwrap();
    peer.fail(kv::EXIST, Fault::Silence);
    assert!(!client.exists(KEYS, "key").unwrap(), "the second time");
    peer.fail(kv::EXIST, Fault::Silence);
    peer.fail(kv::EXIST, Fault::Silence);
    match client.exists(KEYS, "key").unwrap_err() {
        Error::Disconnected(error) => assert!(matches!(*error, Error::Timeout(_))),
        error => panic!("{error:?}"),
    }
    peer.fail(kv::DELETE, Fault::Silence);
    let lost = client.delete(KEYS, "key");
    assert!(matches!(lost, Err(Error::UnknownOutcome)), "{lost:?}");
}

#[test]
fn a_violation_is_the_reason_of_the_last_attempt() {
    let peer = Peer::start();
    let mut settings = settings();
    settings.attempts = 1;
    let mut client = Client::connect(peer.address, &settings).unwrap();
    peer.fail(kv::EXIST, Fault::WrongCommand);
    match client.exists(KEYS, "key").unwrap_err() {
        Error::Disconnected(error) => {
            assert!(matches!(
                *error,
                Error::Violation(Violation::UnknownCommand(_))
            ));
        }
        error => panic!("{error:?}"),
    }
}

#[test]
fn a_stream_that_ends_in_idle_time_loses_nothing() {
    let peer = Peer::start();
    let mut client = client(&peer);
    client
        .store(KEYS, "key", b"value", Condition::None)
        .unwrap();
    peer.close_all();
    thread::sleep(Duration::from_millis(100));
    assert!(client.delete(KEYS, "key").unwrap());
    assert_eq!(peer.count(kv::DELETE), 1);
}

#[test]
fn attempts_to_connect_end() {
    let peer = Peer::start();
    let mut settings = settings();
    settings.reconnect = Duration::from_millis(300);
    let mut client = Client::connect(peer.address, &settings).unwrap();
    peer.state.refuses.store(true, Ordering::SeqCst);
    peer.close_all();
    thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    let lost = client.delete(KEYS, "key");
    assert!(
        matches!(lost, Err(Error::Disconnected(_))),
        "it was not sent: {lost:?}"
    );
    assert!(begin.elapsed() >= Duration::from_millis(250));
    peer.state.refuses.store(false, Ordering::SeqCst);
    assert!(!client.exists(KEYS, "key").unwrap(), "the client lives on");
}

#[test]
fn keep_alive_goes_on_without_commands() {
    let peer = Peer::start();
    let mut settings = settings();
    settings.keep_alive = Duration::from_millis(40);
    let client = Client::connect(peer.address, &settings).unwrap();
    let begin = Instant::now();
    while peer.state.keep_alives.load(Ordering::SeqCst) < 3 {
        assert!(begin.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
    drop(client);
}

#[test]
fn refusals_to_connect_have_their_reasons() {
    let peer = Peer::start();
    let mut wrong = settings();
    wrong.subsystem_nqn = "nqn.none".to_owned();
    let refused = Client::connect(peer.address, &wrong).err().unwrap();
    assert_eq!(refused.status(), Some(Status::CONNECT_INVALID_PARAMETERS));
    wrong.subsystem_nqn = String::new();
    let refused = Client::connect(peer.address, &wrong).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument(_)));
    peer.state
        .asks_for_authentication
        .store(true, Ordering::SeqCst);
    let refused = Client::connect(peer.address, &settings()).err().unwrap();
    assert!(matches!(refused, Error::AuthenticationRequired));
}

#[test]
fn a_controller_that_ends_each_connection_is_not_asked_without_pause() {
    let peer = Peer::start();
    let mut settings = settings();
    (settings.attempts, settings.reconnect) = (10_000, Duration::from_millis(500));
    let mut client = Client::connect(peer.address, &settings).unwrap();
    for _ in 0..10_000 {
        peer.fail(kv::EXIST, Fault::CloseBefore);
    }
    let ended = client.exists(KEYS, "key");
    assert!(matches!(ended, Err(Error::Disconnected(_))), "{ended:?}");
    let count = peer.count(kv::EXIST);
    assert!((2..100).contains(&count), "{count} connections");
}
