//! Damaged files: every bit flipped, every truncation, blocks moved, and lies under good checksums.

use proptest::prelude::*;

use super::*;
use crate::Error;
use crate::cursor::Cursor;
use crate::table::forging::{self, forge};
use crate::table::walk::BlockRole;

fn small_table(compression: Compression) -> (Vec<Version>, Vec<u8>) {
    let mut versions = Vec::new();
    for number in 0..18u64 {
        let key = format!("k{number:02}");
        let value = format!("{number}").repeat(12);
        if number % 5 == 0 {
            versions.push(version(key.as_bytes(), 50 + number, Kind::Delete, b""));
        }
        versions.push(version(
            key.as_bytes(),
            10 + number,
            Kind::Put,
            value.as_bytes(),
        ));
    }
    let storage = memory();
    let options = TableOptions {
        restart_interval: 3,
        ..options(compression, 120)
    };
    write(&storage, &versions, options);
    (versions, storage.bytes(PATH))
}

fn is_typed(error: &Error) -> bool {
    matches!(error, Error::Corruption { .. } | Error::Unsupported { .. })
}

/// Asserts that any bytes give a typed error or exactly the written versions, and never a clean
/// bill.
fn assert_harmless(bytes: Vec<u8>, versions: &[Version], what: &str) {
    let storage = memory();
    storage.put(PATH, bytes);
    let table = match open(&storage) {
        Ok(table) => table,
        Err(error) => return assert!(is_typed(&error), "{what}: {error}"),
    };
    assert!(
        table.verify().is_err_and(|e| is_typed(&e)),
        "{what}: verified"
    );
    for expected in versions {
        match get(&table, &expected.0, expected.1.sequence()) {
            Ok(found) => {
                assert_eq!(found, Some((expected.1, expected.2.clone())), "{what}");
            }
            Err(error) => assert!(is_typed(&error), "{what}: {error}"),
        }
    }
    for missing in [&b"a"[..], b"k", b"k055", b"z"] {
        match get(&table, missing, 99) {
            Ok(found) => assert_eq!(found, None, "{what}"),
            Err(error) => assert!(is_typed(&error), "{what}: {error}"),
        }
    }
    let mut cursor = table.cursor(CursorOptions::user_read());
    let mut step = cursor.seek_to_first();
    for expected in versions {
        if let Err(error) = step {
            assert!(is_typed(&error) && !cursor.valid(), "{what}: {error}");
            return;
        }
        assert_eq!(cursor.key(), internal(expected), "{what}");
        assert_eq!(cursor.value(), expected.2, "{what}");
        step = cursor.next();
    }
    assert!(step.is_ok() && !cursor.valid(), "{what}");
}

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

#[test]
fn no_flipped_bit_passes() {
    for compression in COMPRESSIONS {
        let (versions, bytes) = small_table(compression);
        for position in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[position] ^= 1 << bit;
                let what = format!("{compression:?}, byte {position}, bit {bit}");
                assert_harmless(flipped, &versions, &what);
            }
        }
    }
}

#[test]
fn no_truncated_or_extended_file_opens() {
    for compression in COMPRESSIONS {
        let (_, bytes) = small_table(compression);
        let opens = |bytes: &[u8]| {
            let storage = memory();
            storage.put(PATH, bytes.to_vec());
            open(&storage).map(drop)
        };
        opens(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(opens(&bytes[..length]).is_err_and(|e| is_typed(&e)));
        }
        for more in [1, 16, 32, bytes.len()] {
            let longer = [&bytes[..], &bytes[..more]].concat();
            assert!(opens(&longer).is_err_and(|e| is_typed(&e)));
        }
    }
}

/// Returns the places of the blocks with a role, in the order of the file.
pub(super) fn places(bytes: &[u8], role: BlockRole) -> Vec<std::ops::Range<usize>> {
    let blocks = forging::blocks(bytes).unwrap().into_iter();
    let blocks = blocks.filter(|(found, _)| *found == role);
    blocks.map(|(_, place)| place).collect()
}

#[test]
fn good_blocks_in_each_others_place_do_not_pass() {
    let (versions, bytes) = small_table(Compression::None);
    let data = places(&bytes, BlockRole::Data);
    let (first, second) = data
        .iter()
        .zip(&data[1..])
        .find(|(a, b)| a.len() == b.len())
        .expect("two neighbours of equal length");
    let mut swapped = bytes.clone();
    swapped[first.clone()].copy_from_slice(&bytes[second.clone()]);
    swapped[second.clone()].copy_from_slice(&bytes[first.clone()]);
    assert_harmless(swapped, &versions, "swapped blocks");
}

fn verify(bytes: Vec<u8>) -> String {
    let storage = memory();
    storage.put(PATH, bytes);
    let checked = open(&storage).and_then(|table| table.verify());
    checked.map_or_else(|error| error.to_string(), |_| "nothing wrong".to_owned())
}

fn replace(contents: &mut [u8], from: &[u8], to: &[u8]) {
    let found = contents.windows(from.len()).position(|w| w == from);
    contents[found.unwrap()..][..to.len()].copy_from_slice(to);
}

type Change = fn(&mut [u8]);

#[test]
fn verify_sees_through_good_checksums() {
    let (_, good) = small_table(Compression::None);
    assert_eq!(verify(good.clone()), "nothing wrong");
    let forged = |role, change: Change| {
        let mut bytes = good.clone();
        let place = places(&bytes, role)[0].clone();
        forge(&mut bytes, place, change);
        verify(bytes)
    };
    let cases: [(BlockRole, Change, &str); 7] = [
        (
            BlockRole::Data,
            |c| replace(c, b"k00", b"k17"),
            "do not ascend",
        ),
        (
            BlockRole::Data,
            |c| replace(c, b"k00", b"j00"),
            "filter denies",
        ),
        // The tag's kind follows the key.
        (
            BlockRole::Data,
            |c| replace(c, b"k00\x02", b"k00\x09"),
            "unknown kind",
        ),
        (
            BlockRole::Data,
            |c| replace(c, b"k00\x02", b"k00\x01"),
            "footer's figures",
        ),
        (BlockRole::Filter, |c| c.fill(0), "filter denies"),
        (
            BlockRole::Footer,
            |c| replace(c, &[4, 1, 22], &[4, 1, 23]),
            "footer's figures",
        ),
        (
            BlockRole::IndexPartition,
            |c| replace(c, b"k0", b"j0"),
            "index's key",
        ),
    ];
    for (role, change, expected) in cases {
        let found = forged(role, change);
        assert!(
            found.contains(expected),
            "{role:?}: {found:?} is not {expected:?}"
        );
    }
}

/// Any block with any bytes changed under a good checksum: found out or not, it must not panic.
#[test]
fn forged_blocks_do_not_panic() {
    let roles = [
        BlockRole::Data,
        BlockRole::IndexPartition,
        BlockRole::TopIndex,
        BlockRole::Filter,
        BlockRole::Footer,
    ];
    let (_, good) = small_table(Compression::None);
    crate::table::fuzz::fuzz_table(&good);
    for role in roles {
        for place in places(&good, role) {
            for position in 0..place.len() - 13 {
                for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                    let mut forged = good.clone();
                    forge(&mut forged, place.clone(), |contents| {
                        contents[position] = value
                    });
                    crate::table::fuzz::fuzz_table(&forged);
                }
            }
        }
    }
}

/// A top index whose key is not its partition's last: a seek and a step back from it came to the
/// same place for ever.
#[test]
fn an_index_that_disagrees_with_its_blocks_is_an_error_that_names_the_block() {
    let (_, good) = small_table(Compression::None);
    for role in [BlockRole::TopIndex, BlockRole::IndexPartition] {
        let mut forged = good.clone();
        forge(&mut forged, places(&good, role)[0].clone(), lower_first_key);
        let storage = memory();
        storage.put(PATH, forged);
        let table = open(&storage).unwrap();
        for backwards in [false, true] {
            let error = walk(&table, backwards).unwrap_err().to_string();
            let is_named = error.contains(PATH) && error.contains("at byte");
            assert!(is_named, "{role:?}: {error}");
        }
    }
}

/// Lowers the first key of an index block by one: a prefix of length 0, the length of the rest, that
/// of the value, the user key, eight bytes of a tag.
fn lower_first_key(contents: &mut [u8]) {
    let last = 2 + contents[1] as usize - 8;
    contents[last] -= 1;
}

fn walk(table: &Arc<TableReader>, backwards: bool) -> crate::Result<()> {
    let mut cursor = table.cursor(CursorOptions::user_read());
    match backwards {
        false => cursor.seek_to_first()?,
        true => cursor.seek_to_last()?,
    }
    for _ in 0..1000 {
        match backwards {
            _ if !cursor.valid() => return Ok(()),
            false => cursor.next()?,
            true => cursor.prev()?,
        }
    }
    panic!("the walk does not end");
}

proptest! {
    /// Any bytes of any blocks changed under good checksums: every walk ends and goes one way.
    #[test]
    fn walks_over_forged_blocks_end(
        changes in prop::collection::vec((any::<u8>(), 0u16..300, any::<u8>()), 1..8),
    ) {
        let change = |(block, at, byte): (u8, u16, u8)| {
            let [low, high] = at.to_le_bytes();
            [block, low, high, byte]
        };
        let changes: Vec<u8> = changes.into_iter().flat_map(change).collect();
        crate::table::fuzz::fuzz_forged(&changes);
    }
}
