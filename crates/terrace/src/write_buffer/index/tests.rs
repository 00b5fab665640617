use std::collections::BTreeSet;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::key::Kind;

impl KeyBytes for Vec<u8> {
    fn key_bytes(&self, offset: u32, length: u32) -> &[u8] {
        &self[offset as usize..][..length as usize]
    }
}

fn key(text: &mut Vec<u8>, bytes: &[u8]) -> (u32, u32) {
    let offset = text.len() as u32;
    text.extend_from_slice(bytes);
    (offset, bytes.len() as u32)
}

fn entry(keyspace: u32, (key_offset, key_bytes): (u32, u32), sequence: u64) -> Entry {
    let tag = Tag::new(sequence, Kind::Put);
    Entry {
        keyspace,
        tag,
        key_offset,
        key_bytes,
        value_bytes: sequence as u32,
    }
}

fn all(index: &Index, keys: &Vec<u8>) -> Vec<(u32, Vec<u8>, u64)> {
    let mut found = Vec::new();
    let mut node = index.first();
    while let Some(at) = node {
        let entry = index.entry(at);
        let key = keys.key_bytes(entry.key_offset, entry.key_bytes).to_vec();
        found.push((entry.keyspace, key, entry.tag.sequence()));
        node = index.next(at);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 64 }, ..Default::default() })]

    #[test]
    fn agrees_with_a_sorted_set(
        inserts in prop::collection::vec((1u32..3, prop::collection::vec(0u8..3, 0..12)), 1..200),
        probes in prop::collection::vec((1u32..3, prop::collection::vec(0u8..3, 0..12), 0u64..250), 1..50),
    ) {
        let mut text = Vec::new();
        let spans: Vec<_> = inserts.iter().map(|(_, bytes)| key(&mut text, bytes)).collect();
        let index = Index::new(1 << 20);
        // Newest first within a key: the model stores the sequence negated.
        let mut model = BTreeSet::new();
        for (sequence, ((keyspace, bytes), &span)) in inserts.iter().zip(&spans).enumerate() {
            index.insert(entry(*keyspace, span, sequence as u64), &text).unwrap();
            model.insert((*keyspace, bytes.clone(), -(sequence as i64)));
        }
        let expected: Vec<_> =
            model.iter().map(|(space, key, negated)| (*space, key.clone(), -negated as u64)).collect();
        prop_assert_eq!(all(&index, &text), expected);
        for (keyspace, bytes, snapshot) in probes {
            let target = Target { keyspace, key: &bytes, tag: Tag::seek(snapshot) };
            let place = (keyspace, bytes.clone(), -(snapshot as i64));
            let sequence = |node: Option<Node>| node.map(|node| index.entry(node).tag.sequence());
            let after = model.range(place.clone()..).next().map(|found| -found.2 as u64);
            let before = model.range(..place).next_back().map(|found| -found.2 as u64);
            prop_assert_eq!(sequence(index.seek(&target, &text)), after);
            prop_assert_eq!(sequence(index.seek_before(&target, &text)), before);
        }
    }
}

#[test]
fn the_memory_bound_holds_and_what_is_in_stays() {
    let mut text = Vec::new();
    let span = key(&mut text, b"key");
    let index = Index::new(1);
    let mut inserted = 0;
    while index.insert(entry(1, span, inserted), &text).is_ok() {
        inserted += 1;
    }
    assert!(inserted > 1000);
    assert_eq!(index.memory_bytes(), u64::from(CHUNK_WORDS) * 4);
    assert_eq!(all(&index, &text).len() as u64, inserted);
}

#[test]
fn several_inserters_and_readers_see_whole_ordered_entries() {
    const THREADS: u64 = 4;
    let each: u64 = if cfg!(miri) { 20 } else { 5_000 };
    let mut text = Vec::new();
    let spans: Vec<_> = (0..THREADS * each)
        .map(|i| {
            key(
                &mut text,
                &(i.wrapping_mul(0x9E37_79B9) as u32).to_be_bytes(),
            )
        })
        .collect();
    let index = Index::new(64 << 20);
    let done = Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (index, text, spans, done) = (&index, &text, &spans, &done);
            scope.spawn(move || {
                for i in (thread..THREADS * each).step_by(THREADS as usize) {
                    index.insert(entry(1, spans[i as usize], i), text).unwrap();
                }
                *done.lock().unwrap() += 1;
            });
        }
        scope.spawn(|| {
            while *done.lock().unwrap() < THREADS {
                let found = all(&index, &text);
                assert!(found.is_sorted_by(|a, b| a.1 < b.1));
            }
        });
    });
    assert_eq!(all(&index, &text).len() as u64, THREADS * each);
}
