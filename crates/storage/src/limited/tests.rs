//! All on simulated clocks: no test waits for time to pass.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::bucket::{Bucket, LEAST_BURST_BYTES};
use super::*;
use crate::{CountingStorage, CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage};

const SECOND_NS: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// Time passes only while a thread sleeps.
#[derive(Debug, Default)]
struct SleepingClock {
    now_ns: AtomicU64,
}

impl SleepingClock {
    fn advance(&self, time_ns: u64) {
        self.now_ns.fetch_add(time_ns, Ordering::SeqCst);
    }
}

impl Clock for SleepingClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) {
        self.advance(time.as_nanos() as u64);
    }
}

/// Time stands still; sleeps are counted.
#[derive(Debug, Default)]
struct StandingClock {
    sleeps: AtomicU64,
}

impl StandingClock {
    /// Waits until this many sleeps have begun since the call.
    fn wait_for_sleeps(&self, sleeps: u64) {
        let until = self.sleeps.load(Ordering::SeqCst) + sleeps;
        while self.sleeps.load(Ordering::SeqCst) < until {
            std::thread::yield_now();
        }
    }
}

impl Clock for StandingClock {
    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

fn limiter(bytes_per_second: u64) -> (Arc<SleepingClock>, RateLimiter) {
    let clock = Arc::new(SleepingClock::default());
    let limiter = RateLimiter::new(Some(bytes_per_second), Arc::clone(&clock) as Arc<dyn Clock>);
    (clock, limiter)
}

#[test]
fn merges_keep_to_the_rate() {
    for rate in [64 << 10, 10 * MIB, 777 * MIB + 13] {
        let (clock, limiter) = limiter(rate);
        let sizes = [256 << 10, 1, 4_097, 99_999, 256 << 10, 70_000];
        let mut bytes = 0;
        for size in sizes.iter().cycle().take(10_000) {
            limiter.pass(*size, Purpose::Compaction);
            bytes += size;
        }
        let expected_ns = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(rate);
        let now_ns = u128::from(clock.now_ns());
        let difference_ns = now_ns.abs_diff(expected_ns);
        assert!(
            difference_ns * 100 <= expected_ns,
            "{now_ns} ns, not {expected_ns}"
        );
        assert_eq!(limiter.waited().as_nanos(), now_ns);
        assert!(limiter.waits() > 0);
    }
}

#[test]
fn a_pause_saves_up_a_tenth_of_a_second_and_no_more() {
    let (clock, limiter) = limiter(100 * MIB);
    clock.advance(3600 * SECOND_NS);
    let before_ns = clock.now_ns();
    let mut at_once_bytes = 0;
    while clock.now_ns() == before_ns {
        at_once_bytes += MIB;
        limiter.pass(MIB, Purpose::Compaction);
    }
    // The burst, the write that it ends in, and the first that waited.
    assert_eq!(at_once_bytes, (10 + 1 + 1) * MIB);
}

#[test]
fn a_slow_rate_has_a_burst_of_some_writes_all_the_same() {
    let (clock, limiter) = limiter(64 << 10);
    clock.advance(3600 * SECOND_NS);
    let before_ns = clock.now_ns();
    (0..4).for_each(|_| limiter.pass(LEAST_BURST_BYTES / 4, Purpose::Compaction));
    assert_eq!(clock.now_ns(), before_ns);
}

#[test]
fn a_flush_does_not_wait_and_merges_pay_for_it() {
    let (clock, limiter) = limiter(10 * MIB);
    limiter.pass(20 * MIB, Purpose::Flush);
    limiter.pass(20 * MIB, Purpose::Flush);
    assert_eq!(clock.now_ns(), 0);
    assert_eq!(limiter.waits(), 0);
    limiter.pass(1, Purpose::Compaction);
    assert_eq!(clock.now_ns(), 4 * SECOND_NS);
    assert_eq!(limiter.waited(), Duration::from_secs(4));
}

#[test]
fn nothing_else_waits_or_counts() {
    let (clock, limiter) = limiter(64 << 10);
    for purpose in Purpose::ALL {
        if !matches!(
            purpose,
            Purpose::Flush | Purpose::Compaction | Purpose::Migration
        ) {
            limiter.pass(1 << 30, purpose);
        }
    }
    limiter.pass(1, Purpose::Compaction);
    assert_eq!(clock.now_ns(), 0);
}

#[test]
fn a_write_larger_than_the_burst_passes_and_is_paid_for_afterwards() {
    let (clock, limiter) = limiter(10 * MIB);
    limiter.pass(50 * MIB, Purpose::Compaction);
    assert_eq!(clock.now_ns(), 0);
    limiter.pass(1, Purpose::Compaction);
    assert_eq!(clock.now_ns(), 5 * SECOND_NS);
}

/// A flush, a change of the rate and the statistics find the bucket free while a merge waits; the
/// merge goes on when the rate says so, although the clock stands still.
#[test]
fn a_new_rate_reaches_those_who_wait() {
    let clock = Arc::new(StandingClock::default());
    let limiter = RateLimiter::new(Some(MIB), Arc::clone(&clock) as Arc<dyn Clock>);
    limiter.pass(1, Purpose::Flush);
    std::thread::scope(|scope| {
        let merges = [(); 3].map(|()| scope.spawn(|| limiter.pass(MIB, Purpose::Compaction)));
        clock.wait_for_sleeps(10);
        limiter.pass(MIB, Purpose::Flush);
        limiter.set_rate(Some(100 * MIB));
        assert_eq!(limiter.bytes_per_second(), Some(100 * MIB));
        clock.wait_for_sleeps(10);
        assert!(merges.iter().all(|merge| !merge.is_finished()));
        limiter.set_rate(None);
        merges.into_iter().for_each(|merge| merge.join().unwrap());
    });
    assert_eq!(limiter.bytes_per_second(), None);
    limiter.set_rate(Some(MIB));
    limiter.pass(1, Purpose::Compaction);
    assert_eq!(limiter.waits(), 1, "what was owed is forgotten");
}

#[test]
fn a_lifted_limit_lets_everybody_through_for_good() {
    let clock = Arc::new(StandingClock::default());
    let limiter = RateLimiter::new(Some(MIB), Arc::clone(&clock) as Arc<dyn Clock>);
    limiter.pass(1, Purpose::Flush);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| limiter.pass(MIB, Purpose::Compaction));
        }
        clock.wait_for_sleeps(10);
        limiter.lift();
    });
    limiter.set_rate(Some(MIB));
    limiter.pass(MIB, Purpose::Compaction);
    limiter.pass(MIB, Purpose::Compaction);
    assert_eq!(limiter.bytes_per_second(), None);
}

#[test]
fn a_higher_rate_shortens_the_wait_and_a_lower_one_the_savings() {
    let mut bucket = Bucket::new(Some(MIB), 0);
    bucket.take_in_advance(100 * MIB, 0);
    assert_eq!(bucket.take(1, 0), Some(100 * SECOND_NS));
    // Fifty seconds at the old rate are not paid at the new one.
    bucket.set_rate(Some(10 * MIB), 50 * SECOND_NS);
    assert_eq!(bucket.take(1, 50 * SECOND_NS), Some(5 * SECOND_NS));

    let mut bucket = Bucket::new(Some(1000 * MIB), 0);
    bucket.set_rate(Some(MIB), SECOND_NS);
    assert_eq!(bucket.take(MIB, SECOND_NS), None);
    assert_eq!(bucket.take(1, SECOND_NS), None, "the level is at zero");
    assert_eq!(bucket.take(1, SECOND_NS), Some(954), "a byte is owed");
}

#[test]
fn no_number_is_too_large() {
    for rate in [1, MIB, u64::MAX] {
        let mut bucket = Bucket::new(Some(rate), 0);
        for _ in 0..3 {
            bucket.take_in_advance(u64::MAX, 0);
        }
        assert!(bucket.take(u64::MAX, 0).is_some());
        let is_paid = bucket.take(u64::MAX, u64::MAX).is_none();
        assert_eq!(is_paid, rate == u64::MAX);
        assert!(bucket.take(1, 0).is_some(), "time does not go back");
        bucket.set_rate(Some(u64::MAX), u64::MAX);
        assert!(bucket.take(1, u64::MAX).is_some());
    }
}

/// The layer asks for each way of writing, and hands on its arguments.
#[test]
fn each_way_of_writing_is_limited() {
    let counting = Arc::new(CountingStorage::new(Arc::new(SimulatedStorage::new(
        1,
        CrashSwitch::new(),
    ))));
    let (clock, limiter) = limiter(MIB);
    let storage = LimitedStorage::new(Arc::clone(&counting) as Arc<dyn Storage>, Arc::new(limiter));
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    let file = storage.open(Path::new("/f"), options).unwrap();
    let bytes = vec![7; MIB as usize];
    assert_eq!(file.append(&bytes, Purpose::Compaction).unwrap(), 0);
    file.write_at(&bytes, MIB, Purpose::Compaction).unwrap();
    assert_eq!(clock.now_ns(), SECOND_NS);
    file.write_durable_at(&bytes, 2 * MIB, Purpose::Compaction)
        .unwrap();
    assert_eq!(clock.now_ns(), 2 * SECOND_NS);
    file.write_at(&bytes, 0, Purpose::Arena).unwrap();
    assert_eq!(file.append(&bytes, Purpose::Compaction).unwrap(), 3 * MIB);
    assert_eq!(clock.now_ns(), 3 * SECOND_NS);
    assert_eq!(file.length_bytes().unwrap(), 4 * MIB);
    let counts = counting.snapshot().of(Purpose::Compaction);
    assert_eq!((counts.written_bytes, counts.syncs), (4 * MIB, 1));
}

/// One step of the bucket's life.
#[derive(Clone, Copy, Debug)]
enum Event {
    Merge(u64),
    Flush(u64),
    Pass(u64),
    Rate(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..3 * MIB).prop_map(Event::Merge),
        (1..8 * MIB).prop_map(Event::Flush),
        (0..3 * SECOND_NS).prop_map(Event::Pass),
        (1..1000 * MIB).prop_map(Event::Rate),
    ]
}

proptest! {
    /// Merges that write as soon as they may: the wait is right to the nanosecond, and when one
    /// passes, all before it, flushes included, wrote no more than the rates have allowed.
    #[test]
    fn no_more_passes_than_the_rates_allow(
        first_rate in 1..1000 * MIB,
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (mut now_ns, mut rate) = (0, first_rate);
        let mut bucket = Bucket::new(Some(rate), now_ns);
        // Billionths of a byte, and bytes.
        let (mut allowed, mut written) = (0, 0);
        for event in events {
            match event {
                Event::Pass(time_ns) => {
                    now_ns += time_ns;
                    allowed += u128::from(rate) * u128::from(time_ns);
                }
                Event::Flush(bytes) => {
                    bucket.take_in_advance(bytes, now_ns);
                    written += u128::from(bytes);
                }
                Event::Rate(new) => {
                    bucket.set_rate(Some(new), now_ns);
                    rate = new;
                }
                Event::Merge(bytes) => {
                    if let Some(wait_ns) = bucket.take(bytes, now_ns) {
                        now_ns += wait_ns;
                        allowed += u128::from(rate) * u128::from(wait_ns);
                        prop_assert_eq!(bucket.take(bytes, now_ns - 1), Some(1));
                        prop_assert_eq!(bucket.take(bytes, now_ns), None);
                    }
                    prop_assert!(written * u128::from(SECOND_NS) <= allowed);
                    written += u128::from(bytes);
                }
            }
        }
    }
}
