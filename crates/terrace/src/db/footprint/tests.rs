use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const KEYSPACES: [u32; 2] = [1, 7];

/// A key, or a range of keys, in one of two keyspaces.
#[derive(Clone, Debug)]
enum Entry {
    Key(u32, Vec<u8>),
    Range(u32, Bound<Vec<u8>>, Bound<Vec<u8>>),
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..4, 0..3)
}

fn any_bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        any_key().prop_map(Bound::Included),
        any_key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let keyspace = prop::sample::select(KEYSPACES.to_vec());
    prop_oneof![
        2 => (keyspace.clone(), any_key()).prop_map(|(of, key)| Entry::Key(of, key)),
        1 => (keyspace, any_bound(), any_bound()).prop_map(|(of, from, to)| Entry::Range(of, from, to)),
    ]
}

/// Returns every key of up to two bytes below 4.
fn all_keys() -> Vec<Vec<u8>> {
    let single = (0u8..4).map(|byte| vec![byte]);
    let pairs = (0u8..4).flat_map(|first| (0u8..4).map(move |second| vec![first, second]));
    let mut keys: Vec<_> = [vec![]].into_iter().chain(single).chain(pairs).collect();
    keys.sort();
    keys
}

fn is_within(key: &[u8], from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let after = match from {
        Bound::Included(from) => key >= from.as_slice(),
        Bound::Excluded(from) => key > from.as_slice(),
        Bound::Unbounded => true,
    };
    let before = match to {
        Bound::Included(to) => key <= to.as_slice(),
        Bound::Excluded(to) => key < to.as_slice(),
        Bound::Unbounded => true,
    };
    after && before
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..Default::default() })]

    /// Keys and deleted ranges touch it just where a set of keys says so.
    #[test]
    fn it_has_what_was_added_and_nothing_else(
        entries in prop::collection::vec(any_entry(), 0..12),
        deleted in prop::collection::vec((any_key(), any_key()), 1..12),
    ) {
        let mut footprint = Footprint::default();
        let mut model = BTreeSet::new();
        for entry in &entries {
            match entry {
                Entry::Key(of, key) => {
                    footprint.add_key(KeyspaceId::from_number(*of), key);
                    model.insert((*of, key.clone()));
                }
                Entry::Range(of, from, to) => {
                    let span = Span::of(from.as_ref().map(|key| &**key), to.as_ref().map(|key| &**key));
                    footprint.add_span(KeyspaceId::from_number(*of), span);
                    let within = all_keys().into_iter().filter(|key| is_within(key, from, to));
                    model.extend(within.map(|key| (*of, key)));
                }
            }
        }
        footprint.settle();
        for of in KEYSPACES {
            let keyspace = KeyspaceId::from_number(of);
            for key in all_keys() {
                prop_assert_eq!(footprint.contains(keyspace, &key), model.contains(&(of, key)));
            }
            for (from, to) in &deleted {
                let first = footprint.first_in(keyspace, from, to);
                let is_in_model = model.iter().any(|(own, key)| *own == of && from <= key && key < to);
                // A span may hold keys of three bytes, which the model leaves out.
                prop_assert!(!is_in_model || first.is_some());
                prop_assert!(first.is_none_or(|key| footprint.contains(keyspace, key)));
            }
        }
        let spans: Vec<_> = footprint.spans().map(|(of, span)| (of, span.clone())).collect();
        for pair in spans.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0 || pair[0].1.end.as_ref().unwrap() < &pair[1].1.start);
        }
    }
}

/// A reader of one key must not fill memory.
#[test]
fn a_key_that_is_added_again_and_again_takes_little() {
    let mut footprint = Footprint::default();
    for number in 0..100_000u32 {
        footprint.add_key(KeyspaceId::DEFAULT, b"key");
        footprint.add_span(
            KeyspaceId::DEFAULT,
            Span::of(
                Bound::Unbounded,
                Bound::Excluded(&number.to_be_bytes()[3..]),
            ),
        );
    }
    assert!(footprint.bytes() < 64 << 10, "{}", footprint.bytes());
    footprint.settle();
    assert_eq!(footprint.keys().count() + footprint.spans().count(), 2);
}
