//! Random tables against a sorted list of their versions.

use proptest::prelude::*;

use super::*;
use crate::cursor::Cursor;

/// Returns short keys over a small alphabet: shared prefixes, the empty key, several versions of
/// each.
fn versions() -> impl Strategy<Value = Vec<Version>> {
    let key = prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 0xff]), 0..7);
    let value = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(Just(b'v'), 100..400),
    ];
    prop::collection::vec((key, 1u64..60, any::<bool>(), value), 1..200).prop_map(|raw| {
        let mut versions: Vec<Version> = raw
            .into_iter()
            .map(|(key, sequence, put, value)| match put {
                true => version(&key, sequence, Kind::Put, &value),
                false => version(&key, sequence, Kind::Delete, b""),
            })
            .collect();
        versions.sort_by(|a, b| internal(a).cmp(&internal(b)));
        versions.dedup_by(|a, b| a.0 == b.0 && a.1.sequence() == b.1.sequence());
        versions
    })
}

fn filter_form() -> impl Strategy<Value = FilterForm> {
    let kind = prop::sample::select(vec![FilterKind::SplitBlock, FilterKind::Fuse]);
    (kind, 0u32..24).prop_map(|(kind, bits)| FilterForm {
        kind,
        bits_per_key: f64::from(bits),
    })
}

fn table_options() -> impl Strategy<Value = TableOptions> {
    let compression =
        prop::sample::select(vec![Compression::None, Compression::Lz4, Compression::Zstd]);
    let block_bytes = prop::sample::select(vec![1, 40, 200, 4096]);
    (compression, block_bytes, 1usize..18, filter_form()).prop_map(
        |(compression, block_bytes, restart_interval, filter)| TableOptions {
            restart_interval,
            filter,
            ..options(compression, block_bytes)
        },
    )
}

fn expect_at(cursor: &TableCursor, versions: &[Version], index: Option<usize>) {
    let expected = index.and_then(|index| versions.get(index));
    assert_eq!(cursor.valid(), expected.is_some());
    if let Some(expected) = expected {
        assert_eq!(cursor.key(), internal(expected));
        assert_eq!(cursor.value(), expected.2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_get_finds_the_newest_visible_version(
        versions in versions(),
        options in table_options(),
        probes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, 0u64..62), 60),
    ) {
        let storage = memory();
        let properties = write(&storage, &versions, options);
        let table = open(&storage).unwrap();
        prop_assert_eq!(table.properties(), &properties);
        for (index, change, snapshot) in probes {
            let mut key = versions[index.index(versions.len())].0.clone();
            match change {
                1 => key.push(0),
                2 => drop(key.pop()),
                _ => {}
            }
            let expected = versions
                .iter()
                .find(|v| v.0 == key && v.1.sequence() <= snapshot)
                .map(|v| (v.1, v.2.clone()));
            prop_assert_eq!(get(&table, &key, snapshot).unwrap(), expected);
        }
    }

    #[test]
    fn a_cursor_goes_where_a_sorted_list_does(
        versions in versions(),
        options in table_options(),
        steps in prop::collection::vec((0u8..8, any::<prop::sample::Index>(), 0u64..62), 120),
    ) {
        let storage = memory();
        write(&storage, &versions, options);
        let table = open(&storage).unwrap();
        let mut cursor = table.cursor(CursorOptions::user_read());
        let mut at: Option<usize> = None;
        for (step, index, snapshot) in steps {
            match (step, at) {
                (0, _) => {
                    cursor.seek_to_first().unwrap();
                    at = Some(0);
                }
                (1, _) => {
                    cursor.seek_to_last().unwrap();
                    at = Some(versions.len() - 1);
                }
                (2..=4, Some(index)) => {
                    cursor.next().unwrap();
                    at = Some(index + 1).filter(|&next| next < versions.len());
                }
                (5..=6, Some(index)) => {
                    cursor.prev().unwrap();
                    at = index.checked_sub(1);
                }
                _ => {
                    let mut key = versions[index.index(versions.len())].0.clone();
                    if snapshot % 3 == 0 {
                        key.push(1);
                    }
                    let target = InternalKey::seek(&key, snapshot);
                    cursor.seek(target).unwrap();
                    at = versions.iter().position(|v| internal(v) >= target);
                }
            }
            expect_at(&cursor, &versions, at);
        }
    }
}
