//! Namespaces as a node announces them.

mod support;

use rand::SeedableRng;
use rand::rngs::StdRng;
use support::{BUFFER_BYTES, Driver, key};
use terrace_node::device::Disk;
use terrace_node::engine::{Node, Worker, create};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, Kind};
use terrace_node::format::superblock::Superblock;
use terrace_node::lsm::{LsmEngine, LsmNamespace, LsmOptions};

#[test]
fn a_node_lists_its_namespaces_of_keys_and_blocks() {
    let requests = [
        NamespaceRequest {
            kind: Kind::Blocks,
            domain: Domain::CrashSafe,
            bytes: Some(100 << 12),
            max_value_bytes: 1,
            ..NamespaceRequest::new("disk")
        },
        NamespaceRequest {
            max_keys: Some(500),
            max_value_bytes: 1 << 20,
            ..NamespaceRequest::new("users")
        },
    ];
    let superblock = Superblock::new(2048, &requests, &mut StdRng::seed_from_u64(3)).unwrap();
    let disk = Disk::new(2048, 3);
    create(&mut disk.device(), &superblock).unwrap();
    let node = Node::open(&mut disk.device()).unwrap();
    let all = node.namespaces();
    let numbers = |at: usize| (all[at].nsid, all[at].kind, all[at].domain, &*all[at].name);
    assert_eq!(numbers(0), (1, Kind::Blocks, Domain::CrashSafe, "disk"));
    assert_eq!(numbers(1), (2, Kind::Keys, Domain::PowerSafe, "users"));
    assert_eq!(
        (all[0].size_bytes, all[0].used_bytes),
        (100 << 12, 100 << 12)
    );
    assert_eq!((all[0].max_keys, all[0].max_value_bytes), (None, 0));
    assert_eq!(
        (all[1].max_keys, all[1].max_value_bytes),
        (Some(500), 1 << 20)
    );
    assert_eq!(all[1].size_bytes, superblock.namespaces[1].data.bytes());
    assert!(all[1].used_bytes < 1 << 20, "{}", all[1].used_bytes);
    for (info, description) in all.iter().zip(&superblock.namespaces) {
        assert_eq!(
            (info.uuid, info.nguid),
            (description.uuid, description.nguid)
        );
    }
    let worker = Worker::new(&node, Box::new(disk.device()), BUFFER_BYTES).unwrap();
    let mut driver = Driver::new(worker);
    driver.put(2, key(1), vec![1; 1 << 20]).unwrap();
    let used = node.namespaces()[1].used_bytes - all[1].used_bytes;
    assert!(((1 << 20)..(2 << 20)).contains(&used), "{used}");
}

#[test]
fn the_lsm_engine_lists_its_namespaces_with_lasting_identifiers() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = |name: &str| {
        let namespaces = vec![LsmNamespace::new(4), LsmNamespace::new(2)];
        LsmEngine::open(LsmOptions::new(directory.path().join(name), namespaces)).unwrap()
    };
    let mut driver = Driver::new(open("one"));
    let before = driver.engine.namespaces().unwrap();
    for number in 0..4 {
        let value = support::value_of(&key(number), 1, 1 << 20);
        driver.put(4, key(number), value).unwrap();
    }
    driver.engine.db().flush().unwrap();
    let after = driver.engine.namespaces().unwrap();
    assert!(after[0].used_bytes >= 4 << 20, "{}", after[0].used_bytes);
    assert_eq!(after[1].used_bytes, 0);
    assert!(after.iter().all(|each| each.size_bytes >= each.used_bytes));
    assert_eq!((after[0].nsid, &*after[0].name), (4, "node-4"));
    assert_eq!((after[0].kind, after[0].max_keys), (Kind::Keys, None));
    assert_eq!(after[0].max_value_bytes, 32 << 20);
    let copy = directory.path().join("copy");
    driver.engine.db().checkpoint(&copy).unwrap();
    drop(driver);
    let copied = open("copy").namespaces().unwrap();
    assert_ne!(
        copied[0].nguid, before[0].nguid,
        "two nodes, two identifiers"
    );
    let reopened = open("one").namespaces().unwrap();
    let other = open("two").namespaces().unwrap();
    for at in 0..2 {
        assert_eq!(reopened[at].nguid, before[at].nguid);
        assert_eq!(reopened[at].uuid, before[at].uuid);
        assert_ne!(other[at].nguid, before[at].nguid);
    }
    assert_ne!(before[0].uuid, before[1].uuid);
    assert_ne!(before[0].nguid, before[1].nguid);
}
