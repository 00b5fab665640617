use super::*;

fn hashes(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.map(|n| key_hash(&n.to_le_bytes(), 7))
}

fn builder(keys: u64) -> FilterBuilder {
    let mut builder = FilterBuilder::default();
    hashes(0..keys).for_each(|hash| builder.add(hash));
    builder
}

/// How often a filter errs, beside the formula by which memory is divided.
#[test]
fn filters_err_as_often_as_predicted() {
    let (keys, probes) = (60_000, 1_000_000u64);
    let builder = builder(keys);
    for kind in [FilterKind::SplitBlock, FilterKind::Fuse] {
        for bits_per_key in [5.0, 8.0, 9.3, 10.0, 12.6, 16.0, 20.0] {
            let (built, contents) = builder.build(FilterForm { kind, bits_per_key });
            assert_eq!(built, kind);
            let bits = contents.len() as f64 * 8.0 / keys as f64;
            assert!(
                bits < bits_per_key + 0.01 && bits > bits_per_key - 0.1,
                "{bits}"
            );
            let filter = Filter::new(kind, contents).unwrap();
            assert!(hashes(0..keys).all(|hash| filter.may_contain(hash)));
            let others = hashes(keys..keys + probes);
            let wrong = others.filter(|&hash| filter.may_contain(hash)).count() as f64;
            let expected = kind.chance(bits_per_key, keys as usize) * probes as f64;
            // Between two widths fuse filters err up to six in a hundred more often.
            let most = 1.1 * expected + 4.0 * expected.sqrt() + 1.0;
            let least = 0.93 * expected - 4.0 * expected.sqrt();
            let range = least..most;
            assert!(
                range.contains(&wrong),
                "{kind:?} {bits_per_key}: {wrong}, not {expected}"
            );
        }
    }
}

#[test]
fn what_cannot_be_a_fuse_filter_is_a_split_block_one() {
    let form = FilterForm {
        kind: FilterKind::Fuse,
        bits_per_key: 10.0,
    };
    for keys in [1, 2, 10, 50] {
        assert_eq!(builder(keys).build(form).0, FilterKind::SplitBlock);
    }
    let many = builder(3000);
    assert_eq!(many.build(form).0, FilterKind::Fuse);
    let (kind, contents) = many.build_within(form, 0);
    assert_eq!(kind, FilterKind::SplitBlock);
    let filter = Filter::new(kind, contents).unwrap();
    assert!(hashes(0..3000).all(|hash| filter.may_contain(hash)));
}

#[test]
fn kinds_keep_their_numbers() {
    for kind in [FilterKind::SplitBlock, FilterKind::Fuse] {
        assert_eq!(FilterKind::from_number(kind as u64), Some(kind));
    }
    assert_eq!(FilterKind::from_number(0), None);
    assert_eq!(FilterKind::from_number(3), None);
}
