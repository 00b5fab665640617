use proptest::prelude::*;

use super::super::block_builder::BlockBuilder;
use super::super::fuzz::fuzz_block;
use super::*;
use crate::coding::put_varint;
use crate::key::Kind;

fn built(keys: &[&[u8]], restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    for (number, key) in keys.iter().enumerate() {
        let sequence = 100 - number as u64;
        builder.add(InternalKey::new(key, sequence, Kind::Put), &[number as u8]);
    }
    builder.finish(<[u8]>::to_vec)
}

/// Contents from raw entries (shared, unshared, value length, bytes) and restart points.
fn raw(entries: &[(u64, u64, u64, &[u8])], restarts: &[u32]) -> Vec<u8> {
    let mut contents = Vec::new();
    for (shared, unshared, value_length, bytes) in entries {
        put_varint(&mut contents, *shared);
        put_varint(&mut contents, *unshared);
        put_varint(&mut contents, *value_length);
        contents.extend_from_slice(bytes);
    }
    for restart in restarts {
        contents.extend_from_slice(&restart.to_le_bytes());
    }
    contents.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    contents
}

fn walk(contents: Vec<u8>) -> Result<usize, Malformed> {
    let mut cursor = BlockCursor::new(Arc::new(Block::new(contents)?));
    cursor.seek_to_first()?;
    let mut entries = 0;
    while cursor.valid() {
        entries += 1;
        cursor.next()?;
    }
    Ok(entries)
}

const TAG: &[u8] = &[1, 9, 0, 0, 0, 0, 0, 0];

#[test]
fn contents_that_are_no_block_are_refused() {
    assert_eq!(walk(raw(&[(0, 8, 0, TAG)], &[0])), Ok(1));
    for refused in [
        vec![],
        vec![0; 4],
        vec![0xff; 64],
        raw(&[], &[]),
        raw(&[(0, 8, 0, TAG)], &[]),
        raw(&[(0, 8, 0, TAG)], &[1]),
        raw(&[(0, 8, 0, TAG)], &[0, 0]),
        raw(&[(0, 8, 0, TAG)], &[0, 11]),
        raw(&[], &[0]),
    ] {
        assert!(Block::new(refused.clone()).is_err(), "{refused:?}");
    }
}

#[test]
fn entries_that_do_not_fit_are_refused() {
    for (shared, unshared, value_length) in [
        (0, 7, 1),
        (0, 9, 0),
        (0, u64::MAX, 0),
        (0, 8, u64::MAX),
        (1, 8, 0),
        (u64::MAX, 8, 0),
    ] {
        let contents = raw(&[(shared, unshared, value_length, TAG)], &[0]);
        let what = format!("{shared} {unshared} {value_length}");
        assert!(walk(contents.clone()).is_err(), "{what}");
        let block = Block::new(contents).unwrap();
        let target = InternalKey::seek(b"k", 1);
        assert!(block.find(target).is_err(), "{what}");
    }
    let second_shares_too_much = raw(&[(0, 8, 0, TAG), (1, 8, 0, TAG)], &[0]);
    assert!(walk(second_shares_too_much.clone()).is_err());
    let block = Block::new(second_shares_too_much).unwrap();
    assert!(block.find(InternalKey::seek(b"k", 1)).is_err());
}

#[test]
fn a_restart_point_between_entries_is_found_out() {
    let good = built(&[b"a", b"ab", b"abc"], 2);
    assert!(Block::new(good.clone()).unwrap().check_restarts().is_ok());
    let mut wrong = good;
    let second_restart = wrong.len() - 8;
    wrong[second_restart] += 1;
    assert!(Block::new(wrong).unwrap().check_restarts().is_err());
}

/// The comparison without rebuilt keys, where it is easiest to get wrong: keys that are prefixes
/// of each other, equal user keys on both sides of a restart point, targets between versions.
#[test]
fn find_and_seek_agree_on_every_target() {
    let keys: [&[u8]; 9] = [
        b"", b"a", b"a", b"a", b"ab", b"ab\0", b"abc", b"b", b"b\xff",
    ];
    for restart_interval in 1..10 {
        let block = Arc::new(Block::new(built(&keys, restart_interval)).unwrap());
        for target_key in [
            &b""[..],
            b"\0",
            b"a",
            b"a\0",
            b"ab",
            b"abb",
            b"abc",
            b"b",
            b"c",
        ] {
            for snapshot in 90..102 {
                let target = InternalKey::seek(target_key, snapshot);
                let mut cursor = BlockCursor::new(Arc::clone(&block));
                cursor.seek(target).unwrap();
                let found = block.find(target).unwrap();
                assert_eq!(found.is_some(), cursor.valid());
                if let Some(found) = found {
                    assert_eq!(found.tag, cursor.key().tag);
                    assert_eq!(block.bytes(found.value), cursor.value());
                    assert_eq!(found.same_user_key, cursor.key().user_key == target_key);
                }
                let expected = keys.iter().enumerate().position(|(number, key)| {
                    InternalKey::new(key, 100 - number as u64, Kind::Put) >= target
                });
                let value = cursor.valid().then(|| cursor.value()[0] as usize);
                assert_eq!(value, expected);
            }
        }
    }
}

proptest! {
    #[test]
    fn hostile_contents_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        fuzz_block(&bytes);
        let mut mutated = built(&[b"a", b"ab", b"abc", b"b", b"bcd", b"bce"], 2);
        for (index, byte) in edits {
            let position = index.index(mutated.len());
            mutated[position] = byte;
        }
        fuzz_block(&mutated);
    }
}

/// With a restart point between the two keys, which a step back crosses, and without.
#[test]
fn keys_that_do_not_ascend_end_every_walk() {
    let tag = Tag::new(1, Kind::Put).0.to_le_bytes();
    let entry = |key: &[u8]| [key, &tag[..]].concat();
    let keys = [entry(b"b"), entry(b"a")];
    let entries: Vec<_> = keys.iter().map(|key| (0, 9, 0, &key[..])).collect();
    for restarts in [&[0][..], &[0, 12]] {
        let contents = raw(&entries, restarts);
        let fault = walk(contents.clone()).unwrap_err();
        assert_eq!(fault.detail, DOES_NOT_ASCEND);
        let mut cursor = BlockCursor::new(Arc::new(Block::new(contents).unwrap()));
        let back = cursor.seek_to_last().and_then(|()| cursor.prev());
        assert_eq!(back.unwrap_err().detail, DOES_NOT_ASCEND);
    }
}

/// Such a value reads as an entry from its restart point on, and the next entry follows it.
#[test]
fn a_restart_point_within_a_value_is_no_way_back() {
    let tag = Tag::new(1, Kind::Put).0.to_le_bytes();
    let entry = |key: &[u8]| [key, &tag[..]].concat();
    let hidden = [&[0, 9, 0][..], &entry(b"y")].concat();
    let outer = [entry(b"b"), hidden].concat();
    let entries = [
        (0, 9, 0, &entry(b"a")[..]),
        (0, 9, 12, &outer[..]),
        (0, 9, 0, &entry(b"c")[..]),
    ];
    let block = Arc::new(Block::new(raw(&entries, &[0, 24])).unwrap());
    let mut cursor = BlockCursor::new(block);
    for target in [b"bb", b"c\0"] {
        let sought = cursor.seek(InternalKey::seek(target, 1));
        assert_eq!(sought.unwrap_err().detail, NO_ENTRY);
    }
    cursor.seek(InternalKey::seek(b"a", 1)).unwrap();
    let onwards = cursor.next().and_then(|()| cursor.next());
    assert!(onwards.is_ok() && cursor.key().user_key == b"c");
    assert_eq!(cursor.prev().unwrap_err().detail, NO_ENTRY);
}
