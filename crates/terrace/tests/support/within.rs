//! Bounds on time: a test fails instead of hanging.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything here takes on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the outcome of `work`, or fails after the longest time.
pub fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(LONGEST) {
        Ok(done) => done,
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: a panic"),
        Err(RecvTimeoutError::Timeout) => panic!("{what}: not done after {LONGEST:?}"),
    }
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONGEST, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
