use std::path::Path;

use terrace_lsm::table::copies::CopiedTable;

use super::*;

const OWNER: Owner = Owner {
    store_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
    tier_id: 8,
};

fn geometry() -> Geometry {
    Geometry::of(MIN_CACHE_BYTES)
}

fn block(number: u64, offset: u64) -> CopiedBlock {
    CopiedBlock {
        table: CopiedTable {
            number,
            identity: 7,
            file_bytes: 5000,
        },
        offset,
        length_bytes: 30,
    }
}

/// Returns a file with one segment of three entries.
fn specimen() -> Vec<u8> {
    let geometry = geometry();
    let mut file = encode_header(OWNER, geometry);
    file.resize(geometry.offset_of(0) as usize + HEAD_BYTES, 0);
    let at = geometry.offset_of(0);
    let mut items = Vec::new();
    for offset in [16, 300, 700] {
        let key = Key::of(OWNER.store_id, &block(3, offset));
        let place = file.len() as u64;
        encode_entry(&mut file, &key, &[offset as u8; 30], place);
        items.push(Item {
            hash: key.hash(),
            table: 3,
            position: (place - at) as u32,
            block_bytes: 30,
        });
    }
    let list = encode_list(&items);
    let head = Head {
        sequence: 9,
        list_position: (file.len() as u64 - at) as u32,
        entries: 3,
        list_checksum: list_checksum(&list, file.len() as u64),
    };
    file.extend(list);
    file[at as usize..at as usize + HEAD_BYTES].copy_from_slice(&head.encode(at));
    file
}

/// Returns the entries that a reader believes, with their keys.
fn believed(file: &[u8]) -> Vec<(Key, Vec<u8>)> {
    let at = geometry().offset_of(0);
    let segment = &file[at as usize..];
    let Some(head) = Head::decode(segment, at, geometry()) else {
        return Vec::new();
    };
    let list = &segment[head.list_position as usize..head.end_bytes() as usize];
    let items = decode_list(&head, list, at + u64::from(head.list_position));
    let items = items.unwrap_or_default().into_iter();
    let entries = items.filter_map(|item| {
        let begin = item.position as usize;
        let entry = &segment[begin..begin + item.entry_bytes() as usize];
        let (key, block) = decode_entry(entry, at + u64::from(item.position))?;
        Some((key, block.to_vec()))
    });
    entries.collect()
}

#[test]
fn a_file_is_the_golden_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cache-v1.bin");
    let file = specimen();
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&path, &file).unwrap();
    }
    assert_eq!(file, std::fs::read(&path).unwrap());
    fuzz_cache(&file);
    let entries = believed(&file);
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[1].1, [300u64 as u8; 30]);
    assert_eq!(entries[1].0, Key::of(OWNER.store_id, &block(3, 300)));
    assert!(is_header_of(&file[..HEADER_BYTES], OWNER, geometry()));
}

#[test]
fn no_bit_may_change() {
    let file = specimen();
    let whole = believed(&file);
    for bit in geometry().offset_of(0) as usize * 8..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let left = believed(&damaged);
        assert!(left.len() < whole.len(), "bit {bit}");
        assert!(left.iter().all(|entry| whole.contains(entry)), "bit {bit}");
    }
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = file[..HEADER_BYTES].to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_header_of(&damaged, OWNER, geometry()), "bit {bit}");
    }
}

#[test]
fn zeros_are_never_valid() {
    assert!(Head::decode(&[0; HEAD_BYTES], 0, geometry()).is_none());
    assert!(decode_entry(&[0; 100], 0).is_none());
    let head = Head {
        sequence: 1,
        list_position: 4000,
        entries: 1,
        list_checksum: list_checksum(&[0; ITEM_BYTES], 0),
    };
    assert!(decode_list(&head, &[0; ITEM_BYTES], 0).is_none());
    for (sequence, entries) in [(0, 1), (1, 0), (MAX_SEQUENCE + 1, 1), (1, u32::MAX)] {
        let head = Head {
            sequence,
            entries,
            ..head
        };
        assert!(Head::decode(&head.encode(0), 0, geometry()).is_none());
    }
    assert!(Head::decode(&head.encode(0), 0, geometry()).is_some());
}

#[test]
fn an_item_lies_inside_its_segment() {
    let item = |position, block_bytes| Item {
        hash: 1,
        table: 1,
        position,
        block_bytes,
    };
    let is_believed = |item: Item| {
        let list = encode_list(&[item]);
        let head = Head {
            sequence: 1,
            list_position: 1000,
            entries: 1,
            list_checksum: list_checksum(&list, 0),
        };
        decode_list(&head, &list, 0).is_some()
    };
    assert!(is_believed(item(32, 1000 - 32 - ENTRY_BYTES as u32)));
    assert!(!is_believed(item(32, 1000 - 31 - ENTRY_BYTES as u32)));
    assert!(!is_believed(item(31, 1)));
    assert!(!is_believed(item(u32::MAX, u32::MAX)));
}

#[test]
fn keys_tell_stores_tables_files_and_offsets_apart() {
    let first = Key::of(1, &block(3, 16));
    let mut other_identity = block(3, 16);
    other_identity.table.identity = 8;
    let mut other_length = block(3, 16);
    other_length.table.file_bytes = 5001;
    for other in [
        Key::of(2, &block(3, 16)),
        Key::of(1, &block(4, 16)),
        Key::of(1, &block(3, 17)),
        Key::of(1, &other_identity),
        Key::of(1, &other_length),
    ] {
        assert_ne!(other, first);
        assert_ne!(other.hash(), first.hash());
    }
}

#[test]
fn a_file_is_no_longer_than_it_may_be() {
    for cache_bytes in [
        MIN_CACHE_BYTES,
        MIN_CACHE_BYTES + 1,
        1 << 20,
        (1 << 20) + 4095,
        1 << 30,
        100 << 30,
        1 << 44,
    ] {
        let geometry = Geometry::of(cache_bytes);
        assert!(geometry.file_bytes() <= cache_bytes, "{geometry:?}");
        assert!(geometry.file_bytes() > cache_bytes - cache_bytes / 8 - (16 << 10));
        assert!(geometry.segments >= 4, "{geometry:?}");
        assert!(u32::try_from(geometry.segments).is_ok());
        assert_eq!(geometry.segment_bytes % FIRST_SEGMENT, 0);
    }
}
