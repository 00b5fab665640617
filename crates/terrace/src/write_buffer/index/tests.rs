use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use terrace_lsm::key::{Kind, MAX_SEQUENCE};
use terrace_lsm::table::key_hash;

use super::*;
use crate::write_buffer::record::encode;

const SEED: u64 = 3;
const FIRST_SEQUENCE: u64 = 100;

impl RecordBytes for Vec<u8> {
    fn bytes_from(&self, offset: u32) -> &[u8] {
        &self[offset as usize..]
    }
}

/// Records one behind the other, and their offsets.
fn image(records: &[(u32, Vec<u8>)]) -> (Vec<u8>, Vec<u32>) {
    let mut image = vec![0; 5];
    let mut offsets = Vec::new();
    for (number, (keyspace, key)) in records.iter().enumerate() {
        offsets.push(image.len() as u32);
        let value = vec![b'v'; number % 7];
        encode(&mut image, Kind::Put, *keyspace, key, &value);
    }
    (image, offsets)
}

fn insert(
    index: &Index,
    image: &Vec<u8>,
    offsets: &[u32],
    numbers: std::ops::Range<usize>,
) -> Result<(), Refused> {
    let mut inserter = index.inserter();
    for number in numbers {
        let hash = key_hash(image.key(offsets[number]), SEED);
        let sequence = FIRST_SEQUENCE + number as u64;
        inserter.insert(offsets[number], hash, sequence, image)?;
    }
    Ok(())
}

fn get(index: &Index, image: &Vec<u8>, keyspace: u32, key: &[u8], snapshot: u64) -> Option<u64> {
    let hash = key_hash(key, SEED);
    let entry = index.get(keyspace, key, hash, snapshot, image)?;
    assert_eq!(entry.keyspace, keyspace);
    assert_eq!(
        &image[entry.key_offset as usize..][..entry.key_bytes as usize],
        key
    );
    Some(entry.tag.sequence())
}

/// Returns the entries of a keyspace, each run in its order.
fn run_entries(index: &Index, image: &Vec<u8>, keyspace: u32) -> Vec<Vec<(Vec<u8>, u64)>> {
    let runs = index.runs(image);
    let entries = |run: &Arc<Run>| {
        let places = run.places_from(0, run.len()).iter();
        let entry = |place: &Place| {
            let sequence = index.entry(place, image).unwrap().tag.sequence();
            (image.key(place.record_offset).to_vec(), sequence)
        };
        places.map(entry).collect()
    };
    runs.of(keyspace).iter().map(entries).collect()
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0u8..3, 0..12),
        prop::collection::vec(0u8..3, 0..4).prop_map(|end| [b"a common part", &end[..]].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, ..Default::default() })]

    #[test]
    fn agrees_with_a_sorted_map(
        records in prop::collection::vec((1u32..3, key()), 1..300),
        stops in prop::collection::vec(0usize..300, 0..12),
        probes in prop::collection::vec((1u32..3, key(), 90u64..420), 1..50),
    ) {
        let (image, offsets) = image(&records);
        let index = Index::new(1 << 20);
        let mut stops: Vec<_> = stops.into_iter().filter(|&stop| stop < records.len()).collect();
        stops.push(records.len());
        stops.sort_unstable();
        let mut inserted = 0;
        // Newest first within a key: the model stores the sequence negated.
        let mut model = BTreeMap::new();
        for stop in stops {
            insert(&index, &image, &offsets, inserted..stop).unwrap();
            for (number, (keyspace, key)) in records.iter().enumerate().take(stop).skip(inserted) {
                let sequence = FIRST_SEQUENCE as i64 + number as i64;
                model.insert((*keyspace, key.clone(), -sequence), number);
            }
            inserted = stop;
            // A reader that asks for order in between leaves runs; the next reader builds on them.
            for keyspace in 1..3 {
                let runs = run_entries(&index, &image, keyspace);
                let newest_first = |run: &Vec<(Vec<u8>, u64)>| {
                    run.is_sorted_by(|a, b| a.0 < b.0 || a.0 == b.0 && a.1 > b.1)
                };
                prop_assert!(runs.iter().all(newest_first));
                let mut found = runs.concat();
                found.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                let expected: Vec<_> = model
                    .keys()
                    .filter(|(space, ..)| *space == keyspace)
                    .map(|(_, key, negated)| (key.clone(), -negated as u64))
                    .collect();
                prop_assert_eq!(found, expected);
            }
            for (keyspace, key, snapshot) in &probes {
                let from = (*keyspace, key.clone(), -(*snapshot as i64));
                let expected = model
                    .range((Bound::Included(from), Bound::Unbounded))
                    .next()
                    .filter(|((space, found, _), _)| space == keyspace && found == key)
                    .map(|((.., negated), _)| -negated as u64);
                prop_assert_eq!(get(&index, &image, *keyspace, key, *snapshot), expected);
            }
        }
    }

    #[test]
    fn a_bound_in_a_run_is_where_a_scan_finds_it(
        keys in prop::collection::vec(key(), 1..100),
        probes in prop::collection::vec((key(), 90u64..220), 1..50),
    ) {
        let records: Vec<_> = keys.into_iter().map(|key| (1, key)).collect();
        let (image, offsets) = image(&records);
        let index = Index::new(1 << 20);
        insert(&index, &image, &offsets, 0..records.len()).unwrap();
        let runs = index.runs(&image);
        let run = &runs.of(1)[0];
        let tag_of = |place: &Place| index.entry(place, &image).unwrap().tag;
        for (key, snapshot) in probes {
            let tag = Tag::seek(snapshot);
            let is_before = |place: &&Place| {
                let other = image.key(place.record_offset);
                other < &key[..] || other == key && tag_of(place) > tag
            };
            let expected = run.places_from(0, run.len()).iter().filter(is_before).count();
            prop_assert_eq!(run.lower_bound(&key, tag, &image, tag_of), expected);
        }
    }
}

#[test]
fn the_memory_bound_holds_and_what_is_in_stays() {
    let count = if cfg!(miri) { 9_000 } else { 100_000u32 };
    let records: Vec<_> = (0..count).map(|n| (1, n.to_le_bytes().to_vec())).collect();
    let (image, offsets) = image(&records);
    let index = Index::new(u64::from(count) / 3 * MAX_ENTRY_BYTES);
    let mut inserted = 0;
    while insert(&index, &image, &offsets, inserted..inserted + 1).is_ok() {
        inserted += 1;
        // Beside the bytes counted by entry: one chunk of them, and the smallest tables. The run is
        // not sorted yet.
        let entry_bytes = MAX_ENTRY_BYTES - size_of::<Place>() as u64;
        let bound = inserted as u64 * entry_bytes + (64 << 10) + 64 * 128;
        assert!(index.memory_bytes() <= bound, "{inserted} entries");
    }
    assert!(inserted >= count as usize / 3 && index.len() as usize == inserted);
    index.runs(&image);
    let bound = inserted as u64 * MAX_ENTRY_BYTES + (64 << 10) + 64 * 128;
    assert!(index.memory_bytes() <= bound);
    for (number, (_, key)) in records.iter().enumerate() {
        let expected = (number < inserted).then_some(FIRST_SEQUENCE + number as u64);
        assert_eq!(get(&index, &image, 1, key, MAX_SEQUENCE), expected);
    }
}

#[test]
fn runs_are_counted_while_somebody_holds_them() {
    let records: Vec<_> = (0..1000u32)
        .map(|n| (1, n.to_be_bytes().to_vec()))
        .collect();
    let (image, offsets) = image(&records);
    let index = Index::new(1 << 20);
    insert(&index, &image, &offsets, 0..500).unwrap();
    let before = index.memory_bytes();
    let held = index.runs(&image);
    let first_run = index.memory_bytes() - before;
    assert!(first_run >= 500 * 16);
    insert(&index, &image, &offsets, 500..1000).unwrap();
    let before = index.memory_bytes();
    assert_eq!(
        index.runs(&image).of(1).len(),
        1,
        "the runs were not merged"
    );
    assert!(index.memory_bytes() >= before + 1000 * 16);
    let with_both = index.memory_bytes();
    drop(held);
    assert_eq!(index.memory_bytes(), with_both - first_run);
}

#[test]
fn a_sequence_number_that_does_not_follow_is_refused() {
    let (image, offsets) = image(&[(1, b"a".to_vec()), (1, b"b".to_vec())]);
    let index = Index::new(1 << 20);
    insert(&index, &image, &offsets, 0..1).unwrap();
    let mut inserter = index.inserter();
    let hash = key_hash(b"b", SEED);
    let refused = inserter.insert(offsets[1], hash, FIRST_SEQUENCE + 2, &image);
    assert_eq!(refused, Err(Refused::Gap));
}

/// Overwrites keys while readers get them and walk the runs: a reader finds all entries that were
/// published before it began.
#[test]
fn readers_find_what_was_published_before_they_began() {
    let count: usize = if cfg!(miri) { 60 } else { 40_000 };
    let records: Vec<_> = (0..count)
        .map(|n| {
            (
                1,
                ((n % (count / 2)) as u32 * 0x9E37).to_le_bytes().to_vec(),
            )
        })
        .collect();
    let (image, offsets) = image(&records);
    let index = Index::new(16 << 20);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (index, image, records, done) = (&index, &image, &records, &done);
            scope.spawn(move || {
                let mut probe = 1usize;
                while !done.load(Ordering::Acquire) {
                    let published = index.len() as usize;
                    if published == 0 {
                        continue;
                    }
                    if reader == 0 {
                        let found: usize = run_entries(index, image, 1).iter().map(Vec::len).sum();
                        assert!(found >= published);
                    }
                    for _ in 0..100 {
                        probe = probe
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let number = (probe >> 32) % published;
                        let snapshot = FIRST_SEQUENCE + number as u64;
                        let found = get(index, image, 1, &records[number].1, snapshot);
                        assert_eq!(found, Some(snapshot));
                    }
                }
            });
        }
        for number in 0..count {
            insert(&index, &image, &offsets, number..number + 1).unwrap();
        }
        done.store(true, Ordering::Release);
    });
}
