//! Readers beside the inserter, under thousands of schedules.

use terrace_lsm::key::Kind;
use terrace_lsm::sync::{schedules, thread};
use terrace_lsm::table::key_hash;

use super::*;
use crate::write_buffer::record::encode;

const SEED: u64 = 3;
const KEYS: [&[u8]; 5] = [b"a", b"b", b"a", b"c", b"a"];

/// Records one behind the other, and their offsets; record `n` has number `n + 1`.
struct Image {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl RecordBytes for Image {
    fn bytes_from(&self, offset: u32) -> &[u8] {
        &self.bytes[offset as usize..]
    }
}

fn image() -> Image {
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    for key in KEYS {
        offsets.push(bytes.len() as u32);
        encode(&mut bytes, Kind::Put, 1, key, b"value");
    }
    Image { bytes, offsets }
}

struct Stage {
    index: Index,
    image: Image,
    /// As the store's visible number: raised when a frame's records are in the index.
    visible: AtomicU64,
}

impl Stage {
    fn insert(&self, numbers: std::ops::Range<usize>) {
        let mut inserter = self.index.inserter();
        for number in numbers.clone() {
            let hash = key_hash(KEYS[number], SEED);
            let (offset, sequence) = (self.image.offsets[number], number as u64 + 1);
            inserter
                .insert(offset, hash, sequence, &self.image)
                .unwrap();
        }
        drop(inserter);
        self.visible.store(numbers.end as u64, Ordering::Release);
    }

    fn check_keys(&self) {
        for key in [b"a", b"b", b"c"] {
            let snapshot = self.visible.load(Ordering::Acquire);
            let hash = key_hash(key, SEED);
            let found = self.index.get(1, key, hash, snapshot, &self.image);
            let newest = (1..=snapshot)
                .rev()
                .find(|&number| KEYS[number as usize - 1] == key);
            assert_eq!(found.map(|entry| entry.tag.sequence()), newest);
        }
    }

    fn check_order(&self) {
        let snapshot = self.visible.load(Ordering::Acquire);
        let runs = self.index.runs(&self.image);
        let mut found = Vec::new();
        for run in runs.of(1).iter() {
            for place in run.places_from(0, run.len()) {
                let entry = self.index.entry(place, &self.image).unwrap();
                found.push(entry.tag.sequence());
            }
        }
        found.sort_unstable();
        let all = 1..=found.len() as u64;
        assert!(found.iter().copied().eq(all), "{found:?}");
        assert!(found.len() as u64 >= snapshot, "{found:?} at {snapshot}");
    }
}

#[test]
fn what_is_visible_is_found_by_key_and_in_order() {
    let run = || {
        let stage = Arc::new(Stage {
            index: Index::new(1 << 12),
            image: image(),
            visible: AtomicU64::new(0),
        });
        // Two readers ask for the order: they may sort at the same time, or one waits for the
        // other.
        let bodies: [fn(&Stage); 4] = [
            Stage::check_keys,
            Stage::check_keys,
            Stage::check_order,
            Stage::check_order,
        ];
        let is_filled = |stage: &Stage| stage.visible.load(Ordering::Acquire) == KEYS.len() as u64;
        let readers: Vec<_> = bodies
            .into_iter()
            .map(|body| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || {
                    while !is_filled(&stage) {
                        body(&stage);
                    }
                })
            })
            .collect();
        stage.insert(0..1);
        stage.insert(1..3);
        stage.insert(3..5);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        stage.check_keys();
        stage.check_order();
    };
    schedules::check_random(run, 1_000);
}
