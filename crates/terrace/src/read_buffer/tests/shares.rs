//! The script in tests/golden/read_buffer_memory.txt: the state of a buffer in, its memory out;
//! `TERRACE_BLESS=1` writes the answers again.

use std::sync::Arc;

use terrace_lsm::golden::check_script;

use super::*;

/// A structure that holds nothing, and says that it takes a number of bytes.
struct Fake {
    memory_bytes: u64,
    least_bytes: u64,
    limit_bytes: Arc<AtomicU64>,
}

impl Structure for Fake {
    fn get(&self, _: &Key<'_>, _: SequenceNumber, _: SequenceNumber) -> Option<Found> {
        None
    }

    fn forward(&self, _: &Key<'_>, _: Version<'_>, _: bool) -> bool {
        false
    }

    fn invalidate(&self, _: &Key<'_>, _: SequenceNumber) {}

    fn fill(&self, _: &Key<'_>, _: Version<'_>, _: SequenceNumber) -> Fill {
        Fill::NotWanted
    }

    fn clear(&self) {}

    fn limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    fn shrink(&self, _: u64) {}

    fn least_bytes(&self) -> u64 {
        self.least_bytes
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Lets a window of scans that miss their blocks pass.
fn yield_to_scans(boundary: &Boundary) {
    let mut seeks = 1;
    while !boundary.sought() {
        seeks += 1;
    }
    let ever = Ever {
        gets: 0,
        block_misses: Some(seeks),
    };
    assert!(boundary.look(ever, 0) && boundary.is_yielded());
}

fn answer(line: &str) -> String {
    let (mut own, mut holds, mut least) = (0, 0, 0);
    let (mut is_awake, mut is_yielded) = (true, false);
    for measure in line.split_whitespace() {
        let (name, value) = measure.split_once('=').unwrap_or((measure, "0"));
        let value = value.parse().unwrap();
        match name {
            "own" => own = value,
            "holds" => holds = value,
            "least" => least = value,
            "asleep" => is_awake = false,
            "yielded" => is_yielded = true,
            _ => panic!("no measure {name}"),
        }
    }
    let buffer = buffer(Settings::default(), own);
    let limit_bytes = Arc::new(AtomicU64::new(0));
    let fake = Fake {
        memory_bytes: holds,
        least_bytes: least,
        limit_bytes: Arc::clone(&limit_bytes),
    };
    assert!(buffer.structure.set(Box::new(fake)).is_ok());
    buffer.awake.store(is_awake, Ordering::SeqCst);
    if is_yielded {
        yield_to_scans(&buffer.boundary);
    }
    buffer.settle_limit();
    let limit_bytes = limit_bytes.load(Ordering::Relaxed);
    assert_eq!(buffer.statistics().capacity_bytes, limit_bytes);
    format!("limit {limit_bytes}, claim {}", claimed(&buffer))
}

#[test]
fn a_buffer_takes_the_memory_that_the_script_says() {
    check_script(
        env!("CARGO_MANIFEST_DIR"),
        "read_buffer_memory.txt",
        30,
        answer,
    );
}

/// Other consumers hold memory that the options would give to it.
#[test]
fn a_buffer_is_limited_to_what_others_leave() {
    let buffer = buffer(Settings::default(), 1 << 20);
    let limit_bytes = Arc::new(AtomicU64::new(0));
    let fake = Fake {
        memory_bytes: 1 << 19,
        least_bytes: 0,
        limit_bytes: Arc::clone(&limit_bytes),
    };
    assert!(buffer.structure.set(Box::new(fake)).is_ok());
    buffer.awake.store(true, Ordering::SeqCst);
    for (others_bytes, left_bytes) in [(1 << 18, 3 << 18), (0, 1 << 20)] {
        assert_eq!(claimed_beside(&buffer, others_bytes), left_bytes);
        assert_eq!(limit_bytes.load(Ordering::Relaxed), left_bytes);
        assert_eq!(buffer.statistics().capacity_bytes, left_bytes);
    }
}
