//! Hosts that harm others: a good client's commands succeed meanwhile, and the server's memory stays
//! within its bound.
//!
//! The server is this program again, in a process of its own. `benches/floods.rs` measures the rates.

mod support;

use std::time::Duration;

use terrace_nvmf::initiator::client::{Client, Condition, Settings};

use self::support::attackers::{Attack, Attackers, LARGE_BYTES, LARGE_KEY};
use self::support::child::{self, Server};
use self::support::{KEYS, Place};

/// The server's budgets of buffers and of capsules.
const BUFFER_BYTES: usize = 8 << 20;
const CAPSULE_BYTES: usize = 64 << 20;
/// The other memory of the server: the program, its index, and 256 KiB for each connection.
const OTHER_BYTES: u64 = 128 << 20;

/// The server's part: serves until it is killed.
#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    child::serve(|config| {
        config.buffer_bytes = BUFFER_BYTES;
        config.capsule_bytes = CAPSULE_BYTES;
        config.max_connections = 300;
        // The pace has to do, not the time for sending.
        config.send_seconds = 3600;
    });
}

fn connect(server: &Server) -> Client {
    let host = "nqn.2026-11.org.example:good";
    let mut settings = Settings::new(host, [1; 16], child::SUBSYSTEM);
    settings.queues = 2;
    Client::connect(server.address, &settings).expect("a good client connects")
}

/// Has a good client work, before which it connects, while others attack.
fn check(attack: Attack) {
    let place = Place::new();
    let server = Server::start(&place);
    let large = vec![3; LARGE_BYTES as usize];
    let mut first = connect(&server);
    first
        .store(KEYS, LARGE_KEY, &large, Condition::None)
        .unwrap();
    let attackers = Attackers::begin(server.address, child::SUBSYSTEM, attack);
    std::thread::sleep(Duration::from_millis(500));
    let mut late = connect(&server);
    for round in 0..30_u32 {
        let client = if round % 2 == 0 {
            &mut first
        } else {
            &mut late
        };
        let (key, value) = (round.to_be_bytes(), vec![round as u8; 300_000]);
        client.store(KEYS, key, &value, Condition::None).unwrap();
        let found = client.retrieve(KEYS, key, 300_000).unwrap();
        assert!(found.expect("it was stored").bytes == value, "{round}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(attackers.end() > 0);
    let bound = (BUFFER_BYTES + CAPSULE_BYTES) as u64 + OTHER_BYTES;
    let peak = server.peak_bytes();
    assert!(peak < bound, "{peak} bytes of memory");
}

#[test]
fn hosts_that_take_nothing_keep_no_buffers_from_others() {
    check(Attack::SlowReaders(40));
}

#[test]
fn hosts_that_send_no_data_keep_no_buffers_from_others() {
    check(Attack::StuckWriters(40));
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    check(Attack::HalfOpen(400));
}

#[test]
fn damaged_pdus_end_their_connections_alone() {
    check(Attack::BadPdus(2));
}
