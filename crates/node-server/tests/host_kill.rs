//! A host dies of SIGKILL under load, time after time. Acknowledged stores are there, those under
//! way are there whole or not at all, and nothing of it comes later than the host's next connection.
//!
//! The host is this program again, in a process of its own. It prints each begun and each
//! acknowledged store. `TERRACE_HOST_KILLS` sets the number of kills.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node_server::Running;
use terrace_nvmf::initiator::client::{Client, Condition, Key, Request, Settings, Ticket};

use self::support::{KEYS, Place};

const ADDRESS: &str = "TERRACE_TEST_ADDRESS";
const SUBSYSTEM: &str = "nqn.2026-11.org.example:node";
/// Keys, and commands under way.
const NUMBERS: u64 = 40;
const DEPTH: usize = 24;

fn connect(address: SocketAddr) -> Client {
    let mut settings = Settings::new("nqn.2026-11.org.example:host", [9; 16], SUBSYSTEM);
    settings.queues = 2;
    Client::connect(address, &settings).unwrap()
}

fn key(number: u64) -> Key {
    Key::new(&number.to_be_bytes()[4..]).unwrap()
}

/// Returns a version's value; its first bytes are the version.
fn value(version: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(version);
    let bytes = match version % 3 {
        0 => random.random_range(8..200),
        1 => random.random_range(4000..200_000),
        _ => random.random_range(900_000..3_000_000),
    };
    let mut value = vec![0; bytes];
    random.fill(&mut value[..]);
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

/// The host's part: stores until it is killed.
#[test]
#[ignore = "the child process of the other test"]
fn child() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let mut client = connect(address.parse().unwrap());
    let mut version: u64 = std::env::var("TERRACE_TEST_FIRST")
        .unwrap()
        .parse()
        .unwrap();
    let mut random = SmallRng::seed_from_u64(version);
    let mut under_way: HashMap<Ticket, (u64, u64)> = HashMap::new();
    let say = |what: &str, number: u64, version: u64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{what} {number} {version}").unwrap();
        out.flush().unwrap();
    };
    loop {
        while under_way.len() < DEPTH {
            let number = random.random_range(0..NUMBERS);
            if under_way.values().any(|&(of, _)| of == number) {
                continue;
            }
            version += 1;
            say("begin", number, version);
            let ticket = client.submit(Request::Store {
                nsid: KEYS,
                key: key(number),
                value: value(version).into(),
                condition: Condition::None,
            });
            under_way.insert(ticket.unwrap(), (number, version));
        }
        for done in client.wait(Duration::from_millis(5)) {
            done.result.unwrap();
            let (number, version) = under_way.remove(&done.ticket).unwrap();
            say("done", number, version);
        }
    }
}

/// The values that a key may have.
#[derive(Clone, Default)]
struct Versions {
    acknowledged: u64,
    under_way: Vec<u64>,
}

/// Runs a host and kills it after a time. Takes note of its output.
fn run_host(address: SocketAddr, time: Duration, versions: &mut [Versions], last: &mut u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(ADDRESS, address.to_string())
        .env("TERRACE_TEST_FIRST", last.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader =
        std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    for line in reader.join().unwrap() {
        let mut words = line.split(' ');
        let what = words.next();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (Some("begin" | "done"), Some(of), Some(version)) = (what, number(), number()) else {
            continue;
        };
        let of_key = &mut versions[of as usize];
        if what == Some("begin") {
            of_key.under_way.push(version);
            *last = version.max(*last);
        } else {
            of_key.acknowledged = version;
            of_key.under_way.clear();
        }
    }
}

/// Reads the version of each key, whose value is whole.
fn read(client: &mut Client) -> Vec<u64> {
    let read_one = |number| {
        let found = client.retrieve(KEYS, key(number).as_bytes(), 4 << 20);
        let Some(found) = found.unwrap() else {
            return 0;
        };
        let version = u64::from_le_bytes(found.bytes[..8].try_into().unwrap());
        assert!(found.bytes == value(version), "a value of two halves");
        version
    };
    (0..NUMBERS).map(read_one).collect()
}

#[test]
fn kills_of_the_host_leave_what_it_was_told_and_nothing_that_comes_late() {
    let place = Place::new();
    let mut config = place.config();
    config.subsystem = Some(SUBSYSTEM.to_owned());
    config.loops = 2;
    let running = Running::start(&config).unwrap();
    let mut versions = vec![Versions::default(); NUMBERS as usize];
    let (mut last, mut random) = (0, SmallRng::seed_from_u64(3));
    let kills = std::env::var("TERRACE_HOST_KILLS").map_or(6, |text| text.parse().unwrap());
    for _ in 0..kills {
        let time = Duration::from_millis(random.random_range(150..500));
        run_host(running.addresses[0], time, &mut versions, &mut last);
        let mut client = connect(running.addresses[0]);
        let found = read(&mut client);
        for (of_key, &version) in versions.iter().zip(&found) {
            let is_legal = version == of_key.acknowledged || of_key.under_way.contains(&version);
            assert!(is_legal, "{version}, {}", of_key.acknowledged);
        }
        assert_eq!(read(&mut client), found, "a late command");
        client.close().unwrap();
        for (of_key, version) in versions.iter_mut().zip(found) {
            of_key.acknowledged = version;
            of_key.under_way.clear();
        }
    }
    assert!(last > 100, "{last} stores");
    println!("{last} stores");
    running.stopper().stop();
    running.wait().unwrap();
}
