//! A TCP echo of the same sizes on loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::Load;

/// Returns exchanges a second with a peer that answers each message of a size with one of another.
pub fn run(load: &Load, seconds: f64) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sent, received) = (load.sent, load.received);
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let (mut input, output) = (vec![0; sent], vec![1; received]);
        while stream.read_exact(&mut input).is_ok() && stream.write_all(&output).is_ok() {}
    });
    let mut stream = TcpStream::connect(address).expect("the peer");
    stream.set_nodelay(true).expect("a socket");
    let mut writer = stream.try_clone().expect("a socket");
    let (permits, taken) = mpsc::channel::<()>();
    let sender = thread::spawn(move || {
        let output = vec![2; sent];
        while taken.recv().is_ok() && writer.write_all(&output).is_ok() {}
    });
    for _ in 0..load.depth {
        permits.send(()).expect("the sender");
    }
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut input = vec![0; received];
    let mut count = 0_u64;
    while began.elapsed() < limit && stream.read_exact(&mut input).is_ok() {
        count += 1;
        permits.send(()).expect("the sender");
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    drop(permits);
    let _ = stream.shutdown(Shutdown::Both);
    let _ = (sender.join(), peer.join());
    rate
}
