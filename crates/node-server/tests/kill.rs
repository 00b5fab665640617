//! A server dies of SIGKILL under load, time after time. Its host connects again, and finds every
//! value that was acknowledged, or one that was under way, whole.
//!
//! The server is this program again, in a process of its own. `TERRACE_SERVER_KILLS` sets the number of
//! kills.

mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_nvmf::initiator::client::{Client, Condition, Key, Request, Settings, Ticket};

use self::support::child::{self, Server};
use self::support::{KEYS, Place, StorePlace};

/// Keys, and commands under way.
const NUMBERS: u64 = 60;
const DEPTH: usize = 24;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The server's part: serves until it is killed.
#[test]
#[ignore = "the child process of the other test"]
fn child() {
    child::serve(|_| ());
}

fn connect(server: &Server) -> Client {
    let host = "nqn.2026-11.org.example:host";
    let mut settings = Settings::new(host, [9; 16], child::SUBSYSTEM);
    (settings.queues, settings.attempts) = (2, 1);
    settings.reconnect = Duration::from_millis(1);
    Client::connect(server.address, &settings).unwrap()
}

/// The values that a key may have: the acknowledged one first, then those under way. 0 is none.
#[derive(Default)]
struct Versions {
    acknowledged: u64,
    under_way: Vec<u64>,
}

fn key(number: u64) -> Key {
    Key::new(&number.to_be_bytes()[4..]).unwrap()
}

/// Returns a version's value; its first bytes are the version.
fn value(version: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(version);
    let bytes = match version % 4 {
        0 => random.random_range(8..200),
        1 => random.random_range(4000..9000),
        2 => random.random_range(30_000..200_000),
        _ => random.random_range(900_000..1_100_000),
    };
    let mut value = vec![0; bytes];
    random.fill(&mut value[..]);
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

/// Changes keys until the time has come and the server is gone.
fn load(
    client: &mut Client,
    server: &mut Server,
    versions: &mut [Versions],
    last: &mut u64,
    until: Instant,
    random: &mut SmallRng,
) {
    let mut under_way: HashMap<Ticket, (u64, u64)> = HashMap::new();
    let mut is_killed = false;
    loop {
        while !is_killed && under_way.len() < DEPTH {
            let number = random.random_range(0..NUMBERS);
            if under_way.values().any(|&(of, _)| of == number) {
                continue;
            }
            let is_delete = random.random_range(0..8) == 0;
            *last += 1;
            let version = if is_delete { 0 } else { *last };
            let request = match is_delete {
                true => Request::Delete {
                    nsid: KEYS,
                    key: key(number),
                },
                false => Request::Store {
                    nsid: KEYS,
                    key: key(number),
                    value: value(version).into(),
                    condition: Condition::None,
                },
            };
            versions[number as usize].under_way.push(version);
            let ticket = client.submit(request).unwrap();
            under_way.insert(ticket, (number, version));
        }
        if !is_killed && Instant::now() >= until {
            server.kill();
            is_killed = true;
        }
        for done in client.wait(Duration::from_millis(5)) {
            let (number, version) = under_way.remove(&done.ticket).unwrap();
            if done.result.is_ok() {
                let of_key = &mut versions[number as usize];
                of_key.acknowledged = version;
                of_key.under_way.clear();
            } else {
                assert!(is_killed, "{:?}", done.result);
            }
        }
        if is_killed && under_way.is_empty() {
            return;
        }
    }
}

/// Reads every key, and takes what is there for acknowledged.
fn check(client: &mut Client, versions: &mut [Versions]) {
    for (number, of_key) in versions.iter_mut().enumerate() {
        let found = client.retrieve(KEYS, key(number as u64).as_bytes(), 4 << 20);
        let found = found.unwrap().map(|found| found.bytes);
        let version = found.as_ref().map_or(0, |found| {
            u64::from_le_bytes(found[..8].try_into().unwrap())
        });
        let is_legal = version == of_key.acknowledged || of_key.under_way.contains(&version);
        assert!(
            is_legal,
            "key {number}: {version} is there, {} was acknowledged, {:?} were under way",
            of_key.acknowledged, of_key.under_way
        );
        if let Some(found) = found {
            assert!(
                found == value(version),
                "key {number}: a value of two halves"
            );
        }
        of_key.acknowledged = version;
        of_key.under_way.clear();
    }
}

fn survive_kills(start: impl Fn() -> Server) {
    let mut versions: Vec<Versions> = (0..NUMBERS).map(|_| Versions::default()).collect();
    let (mut last, mut random) = (0, SmallRng::seed_from_u64(7));
    for _ in 0..setting("TERRACE_SERVER_KILLS", 6) {
        let mut server = start();
        let mut client = connect(&server);
        check(&mut client, &mut versions);
        let until = Instant::now() + Duration::from_millis(random.random_range(50..400));
        load(
            &mut client,
            &mut server,
            &mut versions,
            &mut last,
            until,
            &mut random,
        );
    }
    let server = start();
    check(&mut connect(&server), &mut versions);
    assert!(last > 100, "{last} changes");
    println!("{last} changes");
}

#[test]
fn what_was_acknowledged_survives_kills_of_the_server() {
    let place = Place::new();
    survive_kills(|| Server::start(&place));
}

#[test]
fn what_was_acknowledged_survives_kills_of_a_store_s_server() {
    let place = StorePlace::new();
    survive_kills(|| Server::start_store(&place));
}
