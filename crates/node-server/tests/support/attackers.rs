//! Hosts that harm others: they keep buffers, half-open connections, or send damaged PDUs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use terrace_nvmf::initiator::client::{Client, Condition, Key, Request, Settings};

use super::KEYS;

/// The key with the value that slow readers ask for.
pub const LARGE_KEY: &[u8] = b"large";
pub const LARGE_BYTES: u32 = 1 << 20;

/// A way to harm others.
#[derive(Clone, Copy, Debug)]
pub enum Attack {
    /// So many hosts ask for large values and take nothing.
    SlowReaders(u8),
    /// So many hosts begin stores and send no data.
    StuckWriters(u8),
    /// So many connections are opened and say nothing, or half a PDU.
    HalfOpen(usize),
    /// Threads send PDUs that are none, on one connection after the other.
    BadPdus(usize),
}

/// Attackers at work.
pub struct Attackers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Attackers {
    /// Begins an attack on a server.
    pub fn begin(address: SocketAddr, subsystem: &str, attack: Attack) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let count = match attack {
            Attack::BadPdus(threads) => threads,
            _ => 1,
        };
        let spawn = |_| {
            let (is_over, subsystem) = (Arc::clone(&is_over), subsystem.to_owned());
            thread::spawn(move || {
                let mut rounds = 0;
                while !is_over.load(Ordering::Relaxed) {
                    round(address, &subsystem, attack, &is_over, rounds);
                    rounds += 1;
                }
                rounds
            })
        };
        let threads = (0..count).map(spawn).collect();
        Attackers { is_over, threads }
    }

    /// Ends the attack. Returns how often each attacker began.
    pub fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let rounds = self.threads.into_iter().map(|thread| thread.join());
        rounds
            .map(|rounds| rounds.expect("no attacker panics"))
            .sum()
    }
}

fn round(address: SocketAddr, subsystem: &str, attack: Attack, is_over: &AtomicBool, number: u64) {
    match attack {
        Attack::SlowReaders(hosts) => {
            keep_buffers(address, subsystem, hosts, is_over, || Request::Retrieve {
                nsid: KEYS,
                key: Key::new(LARGE_KEY).unwrap(),
                max_bytes: LARGE_BYTES,
            })
        }
        Attack::StuckWriters(hosts) => {
            keep_buffers(address, subsystem, hosts, is_over, || Request::Store {
                nsid: KEYS,
                key: Key::new(b"stuck").unwrap(),
                value: vec![0; LARGE_BYTES as usize].into(),
                condition: Condition::None,
            })
        }
        Attack::HalfOpen(count) => {
            let mut open: Vec<TcpStream> = Vec::new();
            for at in 0..count {
                let Ok(mut stream) = TcpStream::connect(address) else {
                    continue;
                };
                if at % 2 == 0 {
                    let _ = stream.write_all(&initialize()[..60]);
                }
                open.push(stream);
            }
            rest(is_over, Duration::from_secs(2));
        }
        Attack::BadPdus(_) => send_bad_pdu(address, number),
    }
}

/// Has hosts begin commands whose answers or questions they never take.
fn keep_buffers(
    address: SocketAddr,
    subsystem: &str,
    hosts: u8,
    is_over: &AtomicBool,
    request: impl Fn() -> Request,
) {
    let mut all: Vec<Client> = Vec::new();
    for host in 0..hosts {
        let mut settings =
            Settings::new("nqn.2026-11.org.example:slow", [host + 100; 16], subsystem);
        settings.keep_alive = Duration::ZERO;
        // Its place may be taken by others, or its last connection's commands not over.
        let Ok(mut client) = Client::connect(address, &settings) else {
            continue;
        };
        for _ in 0..16 {
            let _ = client.submit(request());
        }
        client.poll();
        all.push(client);
    }
    rest(is_over, Duration::from_secs(3));
}

fn rest(is_over: &AtomicBool, time: Duration) {
    for _ in 0..time.as_millis() / 10 {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn initialize() -> [u8; 128] {
    let mut bytes = [0; 128];
    (bytes[2], bytes[4]) = (128, 128);
    bytes
}

/// Sends one of several damaged PDUs, and waits for the end of the connection.
fn send_bad_pdu(address: SocketAddr, number: u64) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let mut header = [0_u8; 72];
    (header[0], header[2], header[4]) = (4, 72, 72);
    let bytes: Vec<u8> = match number % 5 {
        // No kind of PDU.
        0 => vec![0xff; 128],
        // A command before the connection is initialized.
        1 => header.to_vec(),
        // A command of 4 GiB.
        2 => {
            header[4..8].fill(0xff);
            [&initialize()[..], &header].concat()
        }
        // Data that nobody asked for.
        3 => {
            (header[0], header[2], header[3], header[4]) = (6, 24, 24, 32);
            [&initialize()[..], &header[..32]].concat()
        }
        // A Connect of zeros.
        _ => {
            header[8] = 0x7f;
            header[12] = 1;
            [&initialize()[..], &header, &[0xff; 8]].concat()
        }
    };
    let _ = stream.write_all(&bytes);
    let mut answer = [0; 1024];
    while stream.read(&mut answer).is_ok_and(|bytes| bytes > 0) {}
}
