use proptest::prelude::*;

use super::*;
use crate::draw::Pareto;

const PARETO: Sizes = Sizes::Pareto {
    distribution: Pareto {
        theta: 0.0,
        k: 0.2615,
        sigma: 25.45,
    },
    below: 1024,
};

fn fixed(bytes: u32) -> Values {
    Values::new(Sizes::Fixed { bytes }, 1.0, 1)
}

fn value(values: &Values, record: u64, version: u32) -> Vec<u8> {
    let mut value = b"old".to_vec();
    values.write_into(record, version, &mut value);
    value
}

fn both(version: u32) -> Versions {
    Versions {
        least: version,
        greatest: version,
    }
}

#[test]
fn values_check_at_any_length() {
    for bytes in [
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        11,
        12,
        13,
        99,
        100,
        1000,
        32 << 10,
        3 << 20,
    ] {
        for ratio in [1.0, 0.5, 0.3, 0.05, 0.0] {
            let values = Values::new(Sizes::Fixed { bytes }, ratio, 1);
            for (record, version) in [(0, 0), (77, 3), (1 << 40, 250)] {
                let value = value(&values, record, version);
                assert_eq!(value.len(), bytes as usize);
                let expected = if bytes < 2 { 0 } else { version };
                assert_eq!(values.check(record, &value), Ok(both(expected)), "{bytes}");
            }
        }
    }
}

#[test]
fn a_whole_head_holds_any_version_and_tells_the_record() {
    let values = fixed(12);
    let value = value(&values, u64::MAX - 5, u32::MAX);
    assert_eq!(values.check(u64::MAX - 5, &value), Ok(both(u32::MAX)));
    assert_eq!(values.record_of(&value), Some(u64::MAX - 5));
    assert_eq!(fixed(11).record_of(&value[..11]), None);
    assert_eq!(values.record_of(&[]), None);
}

#[test]
fn versions_and_records_have_unlike_values() {
    let values = fixed(100);
    let first = value(&values, 1, 0);
    for other in [value(&values, 1, 1), value(&values, 2, 0)] {
        let alike = first.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(alike < 25, "{alike} bytes alike");
    }
    assert_eq!(first, value(&values.clone(), 1, 0));
    assert_ne!(
        first,
        value(&Values::new(Sizes::Fixed { bytes: 100 }, 1.0, 2), 1, 0)
    );
}

#[test]
fn a_value_of_another_record_is_known_as_such() {
    let expected = Mismatch::OtherRecord {
        record: 5,
        field: 0,
        found: 6,
        version: 9,
    };
    for values in [fixed(1000), Values::new(PARETO, 1.0, 1)] {
        // A record with a value long enough for a whole tag.
        let value = value(&values, 6, 9);
        assert!(value.len() >= 12);
        assert_eq!(values.check(5, &value), Err(expected));
    }
    assert_eq!(
        expected.to_string(),
        "the value of record 5 is, in field 0, that of record 6 in version 9"
    );
    let short = fixed(4);
    assert!(short.check(5, &value(&short, 6, 9)).is_err());
}

#[test]
fn a_wrong_length_is_told() {
    let values = fixed(100);
    let whole = value(&values, 3, 0);
    let error = values.check(3, &whole[..99]).unwrap_err();
    let expected = Mismatch::Length {
        record: 3,
        expected: 100,
        found: 99,
    };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        "the value of record 3 has 99 bytes instead of 100"
    );
    let fields = Values::new(Sizes::YCSB, 1.0, 1);
    let mut whole = value(&fields, 3, 0);
    whole.push(0);
    assert!(matches!(
        fields.check(3, &whole),
        Err(Mismatch::Length { .. })
    ));
    assert!(matches!(
        fields.patch(3, 0, 1, &mut whole),
        Err(Mismatch::Length { .. })
    ));
    let pareto = Values::new(PARETO, 1.0, 1);
    let whole = value(&pareto, 3, 0);
    assert!(pareto.check(3, &whole[..whole.len() - 1]).is_err());
}

#[test]
fn any_flipped_bit_is_found_and_its_place_told() {
    for ratio in [1.0, 0.5] {
        let values = Values::new(Sizes::YCSB, ratio, 1);
        let whole = value(&values, 8, 2);
        for at in 0..whole.len() {
            let mut mangled = whole.clone();
            mangled[at] ^= 1;
            let Err(Mismatch::Mangled {
                record: 8, field, ..
            }) = values.check(8, &mangled)
            else {
                panic!("byte {at}");
            };
            assert_eq!(field as usize, at / 100);
        }
    }
    let values = fixed(1000);
    let mut mangled = value(&values, 8, 2);
    let expected = mangled[500];
    mangled[500] = !expected;
    let error = Mismatch::Mangled {
        record: 8,
        field: 0,
        at: 500,
        expected,
        found: !expected,
    };
    assert_eq!(values.check(8, &mangled), Err(error));
}

#[test]
fn patched_fields_have_their_own_versions() {
    let values = Values::new(Sizes::YCSB, 1.0, 1);
    let mut patched = value(&values, 4, 0);
    for (field, version) in [(3, 7), (9, 2), (0, 5), (3, 8)] {
        values.patch(4, field, version, &mut patched).unwrap();
    }
    let versions = Versions {
        least: 0,
        greatest: 8,
    };
    assert_eq!(values.check(4, &patched), Ok(versions));
    let new = value(&values, 4, 8);
    assert_eq!(patched[300..400], new[300..400]);
    let mut other_way = value(&values, 4, 1);
    for field in 0..10 {
        values.patch(4, field, 6, &mut other_way).unwrap();
    }
    assert_eq!(other_way, value(&values, 4, 6));
    assert_eq!(values.record_of(&patched), Some(4));
}

#[test]
fn fields_in_each_others_place_are_found() {
    let values = Values::new(Sizes::YCSB, 1.0, 1);
    let mut value = value(&values, 4, 0);
    let (first, second) = value.split_at_mut(100);
    first.swap_with_slice(&mut second[..100]);
    assert!(values.check(4, &value).is_err());
}

#[test]
fn a_patched_value_without_fields_is_a_new_one() {
    let values = Values::new(PARETO, 1.0, 1);
    let mut patched = value(&values, 4, 0);
    values.patch(4, 3, 9, &mut patched).unwrap();
    assert_eq!(patched, value(&values, 4, 9));
}

#[test]
fn pareto_sizes_are_mixgraphs() {
    let sizes: Vec<u64> = (0..100_000).map(|record| PARETO.bytes(record, 0)).collect();
    assert!(sizes.iter().all(|size| (10..1024).contains(size)));
    // sigma/(1-k) is 34.5; rounding up and the least size of 10 add to it.
    let mean = sizes.iter().sum::<u64>() as f64 / 1e5;
    assert!((35.5..38.5).contains(&mean), "{mean}");
    // 1 - (1 + 20 k/sigma)^(-1/k) is 51.1 %.
    let to_20 = sizes.iter().filter(|size| **size <= 20).count();
    assert!((50_600..51_600).contains(&to_20), "{to_20}");
    assert_ne!(
        (0..100).map(|v| PARETO.bytes(7, v)).collect::<Vec<_>>(),
        sizes[..100]
    );
}

/// Bytes that a codec cannot avoid, by the definition of the pieces: those that do not repeat a
/// piece's fresh part before.
fn fresh_bytes(value: &[u8], fresh: usize) -> usize {
    (0..value.len())
        .filter(|at| at % 100 < fresh || value[*at] != value[at - fresh])
        .count()
}

#[test]
fn a_ratio_is_the_share_of_bytes_that_do_not_repeat() {
    for (ratio, fresh) in [(0.5, 50), (0.25, 25), (0.8, 80)] {
        let values = Values::new(Sizes::Fixed { bytes: 4000 }, ratio, 1);
        assert_eq!(fresh_bytes(&value(&values, 1, 1), fresh), 40 * fresh);
    }
    let random = value(&fixed(4000), 1, 1);
    assert!(fresh_bytes(&random, 50) > 3950);
}

proptest! {
    #[test]
    fn whatever_is_written_checks_and_tells_its_version(
        record in 0..u64::MAX >> 1, version: u32, ratio in 0.0..1.2f64, bytes in 8u32..600,
    ) {
        let values = Values::new(Sizes::Fixed { bytes }, ratio, 3);
        prop_assert_eq!(values.check(record, &value(&values, record, version)), Ok(both(version)));
        let values = Values::new(PARETO, ratio, 3);
        prop_assert_eq!(values.check(record, &value(&values, record, version)), Ok(both(version)));
    }
}
