//! Retrieves of 4 KiB beside a stream of large stores of another host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use terrace_nvmf::initiator::client::{Client, Settings};

use super::{Load, retrieve, run_node, store};

const LARGE_BYTES: usize = 32 << 20;
/// The measurement.
pub const NAME: &str = "4 KiB retrieves, depth 8, beside 32 MiB stores";
const LOAD: Load = Load {
    name: "4 KiB retrieves",
    depth: 8,
    sent: 0,
    received: 0,
    fio: None,
    keys: 50_000,
    request: |number| retrieve(number, 4096),
};

/// Returns how many times as long the slowest retrieve of 100 takes beside the stores as alone, and the
/// bytes a second that the stores have.
pub fn run(
    client: &mut Client,
    address: SocketAddr,
    settings: &Settings,
    seconds: f64,
    random: &mut SmallRng,
) -> (f64, f64) {
    let (_, alone) = run_node(client, &LOAD, seconds, random);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (is_over, mut settings) = (Arc::clone(&is_over), settings.clone());
        settings.host_id = [2; 16];
        thread::spawn(move || write_large(address, &settings, &is_over))
    };
    thread::sleep(Duration::from_millis(200));
    let (_, beside) = run_node(client, &LOAD, seconds, random);
    is_over.store(true, Ordering::Relaxed);
    let stores = writer.join().expect("no store fails");
    let rate = stores as f64 * LARGE_BYTES as f64 / (seconds + 0.2);
    (beside.as_secs_f64() / alone.as_secs_f64(), rate)
}

/// Stores large values, two at a time, until the end. Returns their number.
fn write_large(address: SocketAddr, settings: &Settings, is_over: &AtomicBool) -> u64 {
    let mut client = Client::connect(address, settings).expect("the server");
    let (mut begun, mut ended) = (0, 0);
    while !is_over.load(Ordering::Relaxed) || begun > ended {
        while !is_over.load(Ordering::Relaxed) && begun - ended < 2 {
            let request = store(100_000 + begun % 8, LARGE_BYTES);
            client.submit(request).expect("room in the queue");
            begun += 1;
        }
        for done in client.wait(Duration::from_millis(50)) {
            done.result.expect("no store fails");
            ended += 1;
        }
    }
    ended
}
