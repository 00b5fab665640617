//! Keys, options, lists and features.

use super::world::*;
use crate::wire::command::admin::{GET_FEATURES, SET_FEATURES};
use crate::wire::features::KEY_VALUE;
use crate::wire::{Status, kv};

#[test]
fn a_key_has_one_to_sixteen_bytes() {
    let mut world = World::new();
    let peer = world.ready(0);
    for opcode in [kv::STORE, kv::RETRIEVE, kv::DELETE, kv::EXIST, kv::LIST] {
        for length in [0, 17, 255] {
            let bytes = if opcode == kv::LIST { 64 } else { 0 };
            let mut entry = key_command(opcode, 1, b"k", bytes);
            entry.cdw11 = length.into();
            if opcode == kv::LIST && length == 0 {
                continue;
            }
            let status = world.status(peer, entry, &[]);
            assert_eq!(status, Status::INVALID_KEY_SIZE, "{opcode:x} {length}");
        }
    }
    for key in [&b"k"[..], b"0123456789abcdef"] {
        let entry = key_command(kv::STORE, 1, key, 0);
        assert!(world.status(peer, entry, &[]).is_success());
        assert!(world.memory.values.contains_key(key));
    }
}

#[test]
fn options_that_are_not_known_are_refused() {
    let mut world = World::new();
    let peer = world.ready(0);
    for (opcode, known) in [
        (kv::STORE, 0b111),
        (kv::RETRIEVE, 1),
        (kv::DELETE, 0),
        (kv::EXIST, 0),
        (kv::LIST, 0),
    ] {
        for option in (0..8).map(|bit| 1 << bit).filter(|bit| bit & known == 0) {
            let mut entry = key_command(opcode, 1, b"k", 0);
            kv::set_key(&mut entry, b"k", option);
            let status = world.status(peer, entry, &[]);
            assert_eq!(status, Status::INVALID_FIELD, "{opcode:x} {option:x}");
        }
    }
    assert_eq!(world.memory.submitted, 0);
}

#[test]
fn a_store_may_depend_on_the_key() {
    let mut world = World::new();
    let peer = world.ready(0);
    let mut store = |options| {
        let mut entry = key_command(kv::STORE, 1, b"k", 0);
        kv::set_key(&mut entry, b"k", options);
        world.status(peer, entry, &[])
    };
    let both = kv::STORE_IF_EXISTS | kv::STORE_IF_ABSENT;
    assert_eq!(store(both), Status::INVALID_FIELD);
    assert_eq!(store(kv::STORE_IF_EXISTS), Status::KEY_DOES_NOT_EXIST);
    assert!(store(kv::STORE_IF_ABSENT).is_success());
    assert_eq!(store(kv::STORE_IF_ABSENT), Status::KEY_EXISTS);
    assert!(store(kv::STORE_IF_EXISTS | kv::STORE_UNCOMPRESSED).is_success());
}

#[test]
fn a_size_lies_within_the_descriptor() {
    let mut world = World::new();
    let peer = world.ready(0);
    for opcode in [kv::STORE, kv::RETRIEVE, kv::LIST] {
        let mut entry = key_command(opcode, 1, b"k", 100);
        entry.cdw10 = 101.into();
        let status = world.status(peer, entry, &[]);
        assert_eq!(status, Status::SGL_LENGTH_INVALID);
    }
    let large = key_command(kv::STORE, 1, b"k", MAX_VALUE + 1);
    assert_eq!(world.status(peer, large, &[]), Status::INVALID_VALUE_SIZE);
    assert_eq!(world.memory.submitted, 0);
    // A larger descriptor is none of the value's.
    let mut entry = store_in_capsule(1, b"k", 8);
    entry.cdw10 = 5.into();
    assert!(world.status(peer, entry, b"12345678").is_success());
    assert_eq!(world.memory.values[&b"k"[..]], b"12345");
}

#[test]
fn fields_without_a_meaning_are_ignored() {
    let mut world = World::new();
    let peer = world.ready(0);
    let mut entry = store_in_capsule(1, b"k", 5);
    entry.cdw12 = 0xffff_ffff.into();
    entry.cdw13 = 0xffff_ffff.into();
    entry.cdw11 = (entry.cdw11.get() | 0xffff_0000).into();
    entry.metadata = u64::MAX.into();
    assert!(world.status(peer, entry, b"value").is_success());
    // A key's bytes behind its length count for nothing.
    let mut entry = key_command(kv::RETRIEVE, 1, b"k", 100);
    (entry.cdw3, entry.cdw15) = (7.into(), 9.into());
    (entry.cdw12, entry.cdw13) = (1.into(), 2.into());
    assert_eq!(world.fetch(peer, entry).0, b"value");
}

#[test]
fn a_list_begins_with_its_key() {
    let mut world = World::new();
    let peer = world.ready(3);
    for key in [&b"b"[..], b"a", b"abc", b"abcdef", b"c"] {
        assert!(
            world
                .status(peer, key_command(kv::STORE, 1, key, 0), &[])
                .is_success()
        );
    }
    let mut list = |key: &[u8], bytes| {
        let (data, done) = world.fetch(peer, key_command(kv::LIST, 1, key, bytes));
        assert!(done.status().is_success());
        data
    };
    let all = list(b"", 4096);
    let expected = [
        &[5, 0, 0, 0, 1, 0, b'a', 0, 3, 0][..],
        b"abc\0\0\0\x06\0abcdef\x01\0b\0\x01\0c\0",
    ];
    assert_eq!(all, expected.concat());
    let keys = |bytes: &[u8]| kv::read_keys(bytes).unwrap();
    assert_eq!(
        keys(&list(b"abc", 4096)),
        [&b"abc"[..], b"abcdef", b"b", b"c"]
    );
    assert_eq!(keys(&list(b"abd", 4096)), [b"b", b"c"]);
    assert!(keys(&list(b"d", 4096)).is_empty());
    // Only whole keys.
    assert_eq!(keys(&list(b"", 15)), [b"a"]);
    assert_eq!(keys(&list(b"", 16)), [&b"a"[..], b"abc"]);
    assert_eq!(list(b"", 4), [0; 4]);
    let small = key_command(kv::LIST, 1, b"", 3);
    assert_eq!(world.status(peer, small, &[]), Status::INVALID_FIELD);
}

#[test]
fn a_delete_of_a_missing_key_fails_by_choice() {
    let mut world = World::new();
    let (admin, controller) = world.admin(0, 1);
    let peer = world.queue(0, controller, 1);
    let delete = key_command(kv::DELETE, 1, b"k", 0);
    assert!(world.status(peer, delete, &[]).is_success());
    for (value, status) in [(1, Status::KEY_DOES_NOT_EXIST), (0, Status::SUCCESS)] {
        let mut set = admin_command(SET_FEATURES, 1, u32::from(KEY_VALUE), 0);
        set.cdw11 = value.into();
        assert!(world.status(admin, set, &[]).is_success());
        let get = admin_command(GET_FEATURES, 1, u32::from(KEY_VALUE), 0);
        assert_eq!(world.execute(admin, get, &[]).result(), u64::from(value));
        assert_eq!(world.status(peer, delete, &[]), status);
    }
    let mut set = admin_command(SET_FEATURES, 1, u32::from(KEY_VALUE), 0);
    set.cdw11 = 2.into();
    assert_eq!(world.status(admin, set, &[]), Status::INVALID_FIELD);
    let set = admin_command(SET_FEATURES, 3, u32::from(KEY_VALUE), 0);
    assert_eq!(world.status(admin, set, &[]), Status::INVALID_NAMESPACE);
}

#[test]
fn data_of_a_feature_stay_within_the_descriptor() {
    let mut world = World::new();
    let (admin, _) = world.admin(0, 1);
    let (data, _) = world.fetch(admin, admin_command(GET_FEATURES, 0, 0x81, 16));
    assert_eq!(data, [1; 16]);
    let (data, _) = world.fetch(admin, admin_command(GET_FEATURES, 0, 0x81, 8));
    assert!(data.len() <= 8);
}

#[test]
fn a_command_names_a_namespace_of_its_kind() {
    let mut world = World::new();
    let peer = world.ready(0);
    for nsid in [0, 2, u32::MAX] {
        let mut entry = key_command(kv::EXIST, 1, b"k", 0);
        entry.nsid = nsid.into();
        assert_eq!(world.status(peer, entry, &[]), Status::INVALID_NAMESPACE);
    }
    let mut entry = key_command(kv::EXIST, 1, b"k", 0);
    entry.nsid = 3.into();
    assert_eq!(world.status(peer, entry, &[]), Status::INVALID_OPCODE);
    let entry = key_command(0x7e, 1, b"k", 0);
    assert_eq!(world.status(peer, entry, &[]), Status::INVALID_OPCODE);
}
