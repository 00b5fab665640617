//! Measures a good client while other hosts attack, beside the same client alone.
//!
//! `cargo bench -p terrace-node-server --bench floods -- --seconds 3 --runs 3`; without arguments a tiny
//! run, which is what the gate does. The figures are the client's rate under each attack, as a part of
//! its rate while the same attack goes at another server of this machine, and of its rate alone:
//! attackers have the same processors. Each is the median of the runs, which alternate, with the least
//! and the most.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use terrace_node_server::Running;
use terrace_nvmf::initiator::client::{Client, Condition, Key, Request};

use self::support::attackers::{Attack, Attackers, LARGE_BYTES, LARGE_KEY};
use self::support::{KEYS, Place, client};

/// Values of the good client, and its commands under way.
const VALUE_BYTES: usize = 32 << 10;
const DEPTH: usize = 16;

const ATTACKS: [(&str, Attack); 4] = [
    ("100 slow readers", Attack::SlowReaders(100)),
    ("100 stuck writers", Attack::StuckWriters(100)),
    ("1,000 half-open connections", Attack::HalfOpen(1000)),
    ("damaged PDUs from 2 threads", Attack::BadPdus(2)),
];

/// Returns the commands a second of a client that stores and retrieves.
fn rate(client: &mut Client, seconds: f64) -> f64 {
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let (mut begun, mut ended) = (0_u64, 0_u64);
    while began.elapsed() < limit || begun > ended {
        while began.elapsed() < limit && begun - ended < DEPTH as u64 {
            let key = Key::new((begun / 2 % 1000).to_be_bytes()).expect("eight bytes");
            let request = match begun % 2 {
                0 => Request::Store {
                    nsid: KEYS,
                    key,
                    value: vec![1; VALUE_BYTES].into(),
                    condition: Condition::None,
                },
                _ => Request::Exists { nsid: KEYS, key },
            };
            client.submit(request).expect("room in the queue");
            begun += 1;
        }
        for done in client.wait(Duration::from_secs(1)) {
            let is_absent = |error: &terrace_nvmf::initiator::Error| {
                error.status() == Some(terrace_nvmf::wire::Status::KEY_DOES_NOT_EXIST)
            };
            assert!(
                done.result.as_ref().map_or_else(is_absent, |_| true),
                "{done:?}"
            );
            ended += 1;
        }
    }
    ended as f64 / began.elapsed().as_secs_f64()
}

fn number(name: &str, default: f64) -> f64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let value = arguments.nth(1);
    value.map_or(default, |text| text.parse().expect("a number"))
}

/// Lets this process have as many descriptors as the system allows: both sides of the connections.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a legal limit");
}

/// Starts a node, and returns it with a client that has stored the value of slow readers.
fn serve(place: &Place) -> (Running, Client) {
    let running = Running::start(&place.config()).expect("the node");
    let mut client = client(&running);
    let large = vec![3; LARGE_BYTES as usize];
    let stored = client.store(KEYS, LARGE_KEY, &large, Condition::None);
    stored.expect("room for a value");
    (running, client)
}

/// Returns the client's rate while a server is attacked.
fn rate_beside(attack: Attack, attacked: &Running, client: &mut Client, seconds: f64) -> f64 {
    let (address, subsystem) = (attacked.addresses[0], &attacked.subsystem.nqn);
    let attackers = Attackers::begin(address, subsystem, attack);
    std::thread::sleep(Duration::from_millis(500));
    let rate = rate(client, seconds);
    let rounds = attackers.end();
    if std::env::var_os("ROUNDS").is_some() {
        eprintln!("{rounds} rounds, {rate:.0}/s");
    }
    rate
}

/// Returns the middle of some ratios, the least and the most.
fn spread(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.2} ({least:.2} to {most:.2})", ratios[ratios.len() / 2])
}

fn main() {
    raise_descriptors();
    let (seconds, runs) = (number("--seconds", 0.1), number("--runs", 1.0) as usize);
    let places = [Place::new(), Place::new()];
    let [(running, mut client), (other, _)] = places.each_ref().map(serve);
    for (name, attack) in ATTACKS {
        let (mut of_alone, mut of_elsewhere) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            let alone = rate(&mut client, seconds);
            let elsewhere = rate_beside(attack, &other, &mut client, seconds);
            let attacked = rate_beside(attack, &running, &mut client, seconds);
            of_alone.push(attacked / alone);
            of_elsewhere.push(attacked / elsewhere);
        }
        let (of_alone, of_elsewhere) = (spread(&mut of_alone), spread(&mut of_elsewhere));
        println!("{name:<28} {of_elsewhere:<22} {of_alone}");
    }
    drop(client);
    for running in [running, other] {
        running.stopper().stop();
        running.wait().expect("an orderly end");
    }
}
