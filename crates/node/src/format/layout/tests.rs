use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::format::superblock::Superblock;

fn divide(blocks: u64, requests: &[NamespaceRequest]) -> Result<Vec<Description>> {
    layout(blocks, requests, &mut StdRng::seed_from_u64(1))
}

fn refusal(blocks: u64, requests: &[NamespaceRequest]) -> String {
    divide(blocks, requests).unwrap_err().to_string()
}

proptest! {
    #[test]
    fn a_layout_is_legal_and_wastes_little(
        device_blocks in 600..1u64 << 40,
        max_keys in prop::option::of(1..1000u64),
        first in prop::option::of(300..600u64),
    ) {
        let rest = NamespaceRequest { max_keys, ..NamespaceRequest::new("rest") };
        let first = first.filter(|first| first + 300 <= device_blocks).map(|blocks| NamespaceRequest {
            bytes: Some(blocks * 4096 + 4095),
            ..NamespaceRequest::new("first")
        });
        let requests: Vec<NamespaceRequest> = first.into_iter().chain([rest]).collect();
        let mut random = StdRng::seed_from_u64(1);
        let superblock = Superblock::new(device_blocks, &requests, &mut random).unwrap();
        let decoded = Superblock::decode(&superblock.encode(0), 0, device_blocks).unwrap();
        prop_assert_eq!(&decoded, &superblock);
        let rest = superblock.namespaces.last().unwrap();
        prop_assert_eq!(rest.whole.end(), device_blocks - 1);
        prop_assert!(rest.whole.end() - rest.data.end() < 20);
        prop_assert!(rest.data.start.is_multiple_of(16));
        prop_assert_eq!(rest.max_keys, max_keys.unwrap_or(rest.data.blocks));
    }
}

#[test]
fn the_journal_is_a_32nd_of_the_data_within_limits() {
    for (device_bytes, journal_blocks) in [(8u64 << 20, 64), (1 << 40, 65_536)] {
        let all = divide(device_bytes / 4096, &[NamespaceRequest::new("all")]).unwrap();
        assert_eq!(all[0].journal.blocks, journal_blocks);
    }
    let all = divide(1 << 20, &[NamespaceRequest::new("all")]).unwrap();
    assert_eq!(all[0].journal.blocks, all[0].data.blocks / 32);
}

#[test]
fn an_error_says_how_many_bytes_are_enough() {
    for max_keys in [None, Some(1), Some(1_000_000)] {
        let request = NamespaceRequest {
            max_keys,
            ..NamespaceRequest::new("all")
        };
        let error = refusal(10, std::slice::from_ref(&request));
        let bytes = error.strip_prefix("the namespaces need ").unwrap();
        let bytes: u64 = bytes.split(' ').next().unwrap().parse().unwrap();
        assert!(error.ends_with("the device has 40960"));
        assert!(divide(bytes / 4096 - 1, std::slice::from_ref(&request)).is_err());
        assert!(divide(bytes / 4096, std::slice::from_ref(&request)).is_ok());
        let small = NamespaceRequest {
            bytes: Some(4096),
            ..request
        };
        let error = refusal(1 << 30, &[small]);
        let least = bytes - 2 * 4096;
        assert_eq!(
            error,
            format!("namespace \"all\" needs at least {least} bytes")
        );
    }
}

#[test]
fn a_namespace_of_blocks_is_all_data() {
    let request = NamespaceRequest {
        kind: Kind::Blocks,
        bytes: Some(10 * 4096),
        ..NamespaceRequest::new("disk")
    };
    let disk = &divide(12, std::slice::from_ref(&request)).unwrap()[0];
    assert_eq!((disk.data, disk.whole.blocks), (disk.whole, 10));
    assert_eq!((disk.journal, disk.max_keys), (NO_EXTENT, 0));
    assert!(refusal(11, std::slice::from_ref(&request)).contains("need 49152 bytes"));
    let evicting = NamespaceRequest {
        when_full: WhenFull::Evict,
        ..request
    };
    assert!(refusal(12, &[evicting]).contains("no keys"));
}

#[test]
fn illegal_requests_are_refused() {
    let request = |name: &str| NamespaceRequest::new(name);
    assert!(refusal(1 << 20, &[request("")]).contains("name"));
    assert!(refusal(1 << 20, &[request("a\0b")]).contains("name"));
    assert!(refusal(1 << 20, &[request(&"n".repeat(33))]).contains("name"));
    assert!(refusal(1 << 20, &[request("a"), request("b")]).contains("rest"));
    let sized = NamespaceRequest {
        bytes: Some(8 << 20),
        ..request("a")
    };
    assert!(refusal(1 << 20, &[sized.clone(), sized.clone()]).contains("one name"));
    let many = vec![sized; 17];
    assert!(refusal(1 << 20, &many).contains("at most 16"));
    assert!(refusal((1 << 40) + 1, &[request("a")]).contains("2^40"));
    let with = |max_keys, max_value_bytes| NamespaceRequest {
        max_keys,
        max_value_bytes,
        ..request("a")
    };
    assert!(refusal(1 << 20, &[with(Some(0), 1)]).contains("keys"));
    assert!(refusal(1 << 20, &[with(Some(u64::MAX), 1)]).contains("keys"));
    assert!(refusal(1 << 20, &[with(None, 0)]).contains("largest value"));
    assert!(refusal(1 << 20, &[with(None, u32::MAX)]).contains("largest value"));
}

#[test]
fn random_numbers_differ_and_follow_the_generator() {
    let requests = ["a", "b"].map(|name| NamespaceRequest {
        bytes: Some(8 << 20),
        ..NamespaceRequest::new(name)
    });
    let [first, second] = &divide(1 << 20, &requests).unwrap()[..] else {
        panic!("two are asked for");
    };
    assert_ne!(first.secret, second.secret);
    assert_ne!(first.uuid, second.uuid);
    assert_ne!(first.nguid, second.nguid);
    assert_eq!((first.uuid[6] >> 4, first.uuid[8] >> 6), (4, 2));
    assert_eq!(divide(1 << 20, &requests).unwrap()[0], *first);
}
