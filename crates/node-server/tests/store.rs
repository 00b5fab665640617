//! The LSM engine through the wire: our host, our target, a store in a directory.

mod support;

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace_node_server::{Config, Running};
use terrace_nvmf::initiator::client::{Client, Condition};
use terrace_nvmf::wire::Status;

use self::support::{CRASH_SAFE, KEYS, StorePlace, client, settings, value};

fn stop(running: Running) {
    running.stopper().stop();
    running.wait().unwrap();
}

fn retrieve(client: &mut Client, nsid: u32, key: &[u8]) -> Option<Vec<u8>> {
    let found = client.retrieve(nsid, key, 32 << 20).unwrap();
    found.map(|found| found.bytes)
}

fn status<T: std::fmt::Debug>(result: terrace_nvmf::initiator::Result<T>) -> Option<Status> {
    result.unwrap_err().status()
}

const SIZES: [usize; 11] = [
    0,
    1,
    100,
    4096,
    8192,
    8193,
    65_536,
    65_537,
    983_040,
    983_041,
    8 << 20,
];

#[test]
fn values_of_all_sizes_come_back_and_survive_a_restart() {
    let place = StorePlace::new();
    let running = Running::start(&place.config()).unwrap();
    let mut settings = settings(&running);
    (settings.digests.header, settings.digests.data) = (true, true);
    let mut first = Client::connect(running.addresses[0], &settings).unwrap();
    for (seed, bytes) in (0..).zip(SIZES) {
        let key = format!("key-{bytes}");
        let value = value(bytes, seed);
        let stored = first.store(KEYS, key.as_bytes(), &value, Condition::None);
        stored.unwrap();
        assert!(
            retrieve(&mut first, KEYS, key.as_bytes()).unwrap() == value,
            "{bytes}"
        );
    }
    let small = first.retrieve(KEYS, b"key-8388608", 1000).unwrap().unwrap();
    assert_eq!((small.bytes.len(), small.value_bytes), (1000, 8 << 20));
    let too_large = first.store(CRASH_SAFE, b"k", &value((1 << 20) + 1, 0), Condition::None);
    assert_eq!(status(too_large), Some(Status::INVALID_VALUE_SIZE));
    first
        .store(CRASH_SAFE, b"k", b"v", Condition::None)
        .unwrap();
    let names = running.subsystem.clone();
    stop(running);

    let running = Running::start(&place.config()).unwrap();
    // Hosts know the subsystem and its namespaces by these.
    assert_eq!(running.subsystem.nqn, names.nqn);
    assert_eq!(running.subsystem.serial, names.serial);
    let uuids = |subsystem: &terrace_nvmf::target::Subsystem| {
        let all = subsystem.namespaces.iter();
        all.map(|namespace| (namespace.nsid, namespace.uuid))
            .collect::<Vec<_>>()
    };
    assert_eq!(uuids(&running.subsystem), uuids(&names));
    assert_ne!(uuids(&names)[0].1, uuids(&names)[1].1);
    let mut second = client(&running);
    for (seed, bytes) in (0..).zip(SIZES) {
        let key = format!("key-{bytes}");
        let found = retrieve(&mut second, KEYS, key.as_bytes()).unwrap();
        assert!(found == value(bytes, seed), "{bytes}");
    }
    assert_eq!(retrieve(&mut second, CRASH_SAFE, b"k").unwrap(), b"v");
    stop(running);
}

#[test]
fn conditions_and_deletes_are_as_the_command_set_has_them() {
    let place = StorePlace::new();
    let running = Running::start(&place.config()).unwrap();
    let mut client = client(&running);
    let refused = client.store(KEYS, b"a", b"1", Condition::IfExists);
    assert_eq!(status(refused), Some(Status::KEY_DOES_NOT_EXIST));
    client.store(KEYS, b"a", b"1", Condition::IfAbsent).unwrap();
    let refused = client.store(KEYS, b"a", b"2", Condition::IfAbsent);
    assert_eq!(status(refused), Some(Status::KEY_EXISTS));
    // A value in pieces takes the same way.
    let large = value(200_000, 3);
    let refused = client.store(KEYS, b"a", &large, Condition::IfAbsent);
    assert_eq!(status(refused), Some(Status::KEY_EXISTS));
    client
        .store(KEYS, b"a", &large, Condition::IfExists)
        .unwrap();
    assert!(retrieve(&mut client, KEYS, b"a").unwrap() == large);
    // The other namespace has keys of its own.
    assert!(!client.exists(CRASH_SAFE, b"a").unwrap());
    assert!(client.exists(KEYS, b"a").unwrap());
    client.flush(KEYS).unwrap();
    client.delete(KEYS, b"a").unwrap();
    assert!(!client.exists(KEYS, b"a").unwrap());
    assert_eq!(retrieve(&mut client, KEYS, b"a"), None);
    let unknown = client.store(9, b"a", b"1", Condition::None);
    assert_eq!(status(unknown), Some(Status::INVALID_NAMESPACE));
    stop(running);
}

#[test]
fn lists_ascend_bytewise_from_any_place() {
    let place = StorePlace::new();
    let running = Running::start(&place.config()).unwrap();
    let mut client = client(&running);
    let mut random = SmallRng::seed_from_u64(4);
    let mut model = BTreeMap::new();
    while model.len() < 300 {
        let mut key = vec![0; random.random_range(1..=16)];
        // Few letters, so that keys are fronts of each other.
        key.fill_with(|| *b"\x00a\xff".get(random.random_range(0..3)).unwrap());
        client.store(KEYS, &key, b"", Condition::None).unwrap();
        model.insert(key, ());
    }
    let all: Vec<Vec<u8>> = model.keys().cloned().collect();
    assert_eq!(client.list(KEYS, None, 65_536).unwrap(), all);
    for start in [
        &b"\x00"[..],
        b"a",
        b"ab",
        b"a\x00\xff",
        b"\xff\xff\xff\xff\xff",
    ] {
        let expected: Vec<_> = all.iter().filter(|key| key[..] >= *start).collect();
        let listed = client.list(KEYS, Some(start), 65_536).unwrap();
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{start:?}");
    }
    // A small buffer has whole keys alone, and the next list goes on at the last of them.
    let mut listed = client.list(KEYS, None, 256).unwrap();
    assert!(listed.len() < 64, "{}", listed.len());
    while listed.len() < all.len() {
        let last = listed.last().cloned();
        let more = client.list(KEYS, last.as_deref(), 256).unwrap();
        assert_eq!(Some(&more[0]), last.as_ref());
        listed.extend_from_slice(&more[1..]);
    }
    assert_eq!(listed, all);
    stop(running);
}

#[test]
fn several_loops_and_addresses_share_the_store() {
    let place = StorePlace::new();
    let mut config = place.config();
    config.loops = 2;
    config.listen.push(config.listen[0]);
    let running = Running::start(&config).unwrap();
    let mut clients = [0, 1, 0, 1].map(|at| {
        let address = running.addresses[at];
        Client::connect(address, &settings(&running)).unwrap()
    });
    for (number, client) in (0..).zip(&mut clients) {
        for at in 0..50_u8 {
            let stored = client.store(KEYS, [at], &[number; 70_000], Condition::IfAbsent);
            match number {
                0 => stored.unwrap(),
                _ => assert_eq!(status(stored), Some(Status::KEY_EXISTS)),
            }
        }
    }
    for client in &mut clients {
        assert!(retrieve(client, KEYS, &[7]).unwrap() == [0; 70_000]);
    }
    stop(running);
}

#[test]
fn a_store_in_use_is_refused_and_options_of_the_store_count() {
    let place = StorePlace::new();
    let running = Running::start(&place.config()).unwrap();
    let refused = Running::start(&place.config()).err().unwrap().to_string();
    assert!(refused.contains("is open elsewhere"), "{refused}");
    stop(running);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[constants]\nmax_batch_bytes = 1_048_576").unwrap();
    let config = Config {
        store_options: Some(file.path().to_owned()),
        ..place.config()
    };
    let refused = Running::start(&config).err().unwrap().to_string();
    assert!(refused.contains("batches of 4 MiB"), "{refused}");
    std::fs::write(file.path(), "max_batch = 1").unwrap();
    let refused = Running::start(&config).err().unwrap().to_string();
    assert!(refused.contains("max_batch"), "{refused}");
}
