use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn encoded(key: &impl EncodeKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_last(&mut bytes);
    bytes
}

/// Two keys keep their order as bytes and come back, alone and before another part.
fn check<K: DecodeKey + Ord + Debug + Clone>(one: K, other: K) {
    assert_eq!(encoded(&one).cmp(&encoded(&other)), one.cmp(&other));
    assert_eq!(K::decode_last(&encoded(&one)), Some(one.clone()));
    let before = |key: &K, number: u8| encoded(&(key.clone(), number));
    for (first, second) in [(0, 255), (255, 0), (7, 7)] {
        let order = (one.clone(), first).cmp(&(other.clone(), second));
        assert_eq!(before(&one, first).cmp(&before(&other, second)), order);
    }
    let (again, number) = <(K, u8)>::decode_last(&before(&one, 9)).unwrap();
    assert_eq!((again, number), (one, 9));
}

/// Texts and bytes with many zeros and prefixes of each other.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()],
        0..6,
    )
}

proptest! {
    #[test]
    fn numbers_keep_their_order(one: (i64, u32), other: (i64, u32), wide: [i128; 2], small: [i8; 2]) {
        check(one, other);
        check(wide[0], wide[1]);
        check(small[0], small[1]);
        check(u128::from(one.1), u128::from(other.1));
    }

    #[test]
    fn bytes_and_texts_keep_their_order(one in bytes(), other in bytes(), texts in [".{0,4}", ".{0,4}"]) {
        check(one.clone(), other.clone());
        check((one.clone(), other.clone()), (other, one));
        let [first, second] = texts;
        check((first.clone(), second.clone(), 1u8), (second, first, 1u8));
    }

    #[test]
    fn other_parts_keep_their_order(
        one: (bool, char, Option<u16>),
        other: (bool, char, Option<u16>),
        texts: [Option<String>; 2],
    ) {
        check(one, other);
        let [first, second] = texts;
        check(first, second);
        check([one.0 as u8, 3], [other.0 as u8, 3]);
    }

    /// Bytes of another program: a key that is read is written as the same bytes.
    #[test]
    fn foreign_bytes_are_refused_or_come_back(foreign in bytes()) {
        fn try_one<K: DecodeKey>(foreign: &[u8]) {
            if let Some(key) = K::decode_last(foreign) {
                assert_eq!(encoded(&key), foreign);
            }
        }
        try_one::<(String, u8)>(&foreign);
        try_one::<(Vec<u8>, Vec<u8>)>(&foreign);
        try_one::<(bool, char)>(&foreign);
        try_one::<Option<String>>(&foreign);
        try_one::<(u8, Option<i8>, [u8; 2])>(&foreign);
        try_one::<(u8, u8, u8, bool)>(&foreign);
    }
}

/// The stored form, as docs/formats.md shows it.
#[test]
fn keys_have_their_documented_form() {
    assert_eq!(encoded(&"lisbon".to_string()), b"lisbon");
    assert_eq!(encoded(&258u32), [0, 0, 1, 2]);
    assert_eq!(encoded(&-1i16), [0x7f, 0xff]);
    assert_eq!(encoded(&("a\0".to_string(), 'b')), *b"a\0\xff\0\x01\0\0\0b");
    assert_eq!(encoded(&(true, Some(vec![0u8]))), [1, 1, 0]);
    assert_eq!(encoded(&None::<u64>), [0]);
}
