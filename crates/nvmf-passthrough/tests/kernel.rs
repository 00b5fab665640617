//! The kernel as the host of a node, and as a target.
//!
//! The variables name the devices to test with; `cargo xtask guest` boots a machine that has it, and
//! sets them. Without a variable its tests have nothing to test, and say so.
//!
//! - `TERRACE_NVME_KEYS`: number of a namespace of keys, which the kernel has a generic device of.
//! - `TERRACE_NVME_BLOCKS`: number of a namespace of blocks of the same subsystem.
//! - `TERRACE_NVME_SUBSYSTEM`: name of the subsystem.
//! - `TERRACE_NVME_RESTARTS`: the machine restarts the node when a test prints [`PLEASE_RESTART`].
//! - `TERRACE_NVME_NO_RING`: the kernel forbids io_uring.
//! - `TERRACE_NVMET`: address of the kernel's own target, and name of a subsystem with blocks.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use terrace_nvmf::initiator::client::{Client as TcpClient, Digests, Settings as TcpSettings};
use terrace_nvmf::wire::Status;
use terrace_nvmf_passthrough::{
    Backend, Client, Condition, Error, Key, OpenError, Request, Settings,
};

const PLEASE_RESTART: &str = "guest: please kill and restart the node";
const BACKENDS: [Backend; 2] = [Backend::Ring, Backend::Threads];
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Returns a variable; says so if it is not set.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        println!("not tested: {name} is not set (cargo xtask guest sets it)");
    }
    value
}

fn settings(backend: Backend) -> Option<Settings> {
    let nsid = variable("TERRACE_NVME_KEYS")?.parse().expect("a number");
    let mut settings = Settings::new(nsid);
    settings.subsystem_nqn = Some(variable("TERRACE_NVME_SUBSYSTEM")?);
    settings.backend = backend;
    Some(settings)
}

/// Bytes that differ by seed and place.
fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(bytes);
    value
}

#[test]
fn values_of_all_sizes_come_back() {
    for backend in BACKENDS {
        let Some(settings) = settings(backend) else {
            return;
        };
        let mut client = Client::open(&settings).unwrap();
        let (path, most) = (client.path().display().to_string(), client.max_transfer());
        println!("{backend:?}: {path}, transfers of {most:?} bytes");
        let keys: [&[u8]; 3] = [b"k", b"five5", b"sixteen bytes...."[..16].as_ref()];
        let sizes = [0, 1, 25, 4 * KIB, 100_000, 128 * KIB, MIB, 8 * MIB];
        for (number, bytes) in sizes.into_iter().enumerate() {
            let key = keys[number % keys.len()];
            let value = pattern(number as u64, bytes);
            client.store(key, &value, Condition::None).unwrap();
            assert!(client.exists(key).unwrap());
            let room = 8 * MIB as u32;
            let found = client.retrieve(key, room).unwrap().unwrap();
            assert_eq!(found.value_bytes, bytes as u64, "{bytes}");
            assert!(found.bytes == value, "{bytes} bytes, in a larger buffer");
            if bytes > 1 {
                let exact = client.retrieve(key, bytes as u32).unwrap().unwrap();
                assert!(exact.bytes == value, "{bytes} bytes, in their own room");
                let front = client.retrieve(key, 7.min(bytes as u32 - 1)).unwrap();
                let front = front.unwrap();
                assert_eq!(front.value_bytes, bytes as u64);
                assert_eq!(front.bytes, value[..7.min(bytes - 1)]);
            }
        }
        let mut all = client.list(None, 4096).unwrap();
        all.sort();
        let mut expected: Vec<_> = keys.iter().map(|key| key.to_vec()).collect();
        expected.sort();
        assert_eq!(all, expected);
        let again = client.store(keys[0], b"x", Condition::IfAbsent);
        assert_eq!(again.unwrap_err().status(), Some(Status::KEY_EXISTS));
        let absent = client.store("none", b"x", Condition::IfExists);
        let status = absent.unwrap_err().status();
        assert_eq!(status, Some(Status::KEY_DOES_NOT_EXIST));
        for key in keys {
            client.delete(key).unwrap();
            assert!(!client.exists(key).unwrap());
            assert_eq!(client.retrieve(key, 4096).unwrap(), None);
        }
        assert!(client.list(None, 4096).unwrap().is_empty());
    }
}

fn refused(opened: Result<Client, OpenError>) -> OpenError {
    opened.err().expect("a refusal")
}

#[test]
fn a_device_is_found_by_its_namespace_alone() {
    let Some(settings) = settings(Backend::Auto) else {
        return;
    };
    let client = Client::open(&settings).unwrap();
    let path = client.path().to_owned();
    assert_eq!(client.format().max_key.get(), 16);
    let most = client.max_transfer().expect("the limit in sysfs");
    assert!(u64::from(client.format().max_value.get()) <= most);
    drop(client);
    assert!(Client::open_device(&path, &settings).is_ok());

    let mut absent = settings.clone();
    absent.nsid = 4000;
    let error = refused(Client::open(&absent));
    println!("{error}");
    assert!(matches!(error, OpenError::NotFound { ref found, .. } if found.len() >= 2));
    let error = refused(Client::open_device(&path, &absent));
    assert!(matches!(error, OpenError::OtherNamespace { nsid, .. } if nsid == settings.nsid));
    let mut foreign = settings.clone();
    foreign.subsystem_nqn = Some("nqn.2026-01.example:none".into());
    let error = refused(Client::open(&foreign));
    assert!(matches!(error, OpenError::NotFound { .. }), "{error}");
    // A Store would be a write of blocks there.
    let mut blocks = settings;
    blocks.nsid = variable("TERRACE_NVME_BLOCKS").unwrap().parse().unwrap();
    let error = refused(Client::open(&blocks));
    println!("{error}");
    assert!(matches!(error, OpenError::NoKeys { .. }), "{error}");
}

#[test]
fn without_io_uring_commands_go_by_ioctl() {
    let Some(mut settings) = settings(Backend::Ring) else {
        return;
    };
    if variable("TERRACE_NVME_NO_RING").is_none() {
        return;
    }
    let error = refused(Client::open(&settings));
    println!("{error}");
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    settings.backend = Backend::Auto;
    let mut client = Client::open(&settings).unwrap();
    client.store("k", b"by ioctl", Condition::None).unwrap();
    let found = client.retrieve("k", 100).unwrap().unwrap();
    assert_eq!(found.bytes, b"by ioctl");
    client.delete("k").unwrap();
}

#[test]
fn commands_beyond_the_limits_are_refused() {
    let Some(settings) = settings(Backend::Auto) else {
        return;
    };
    let mut client = Client::open(&settings).unwrap();
    let most = client.max_transfer().unwrap();
    let key = Key::new("k").unwrap();
    let retrieve = |nsid, max_bytes| Request::Retrieve {
        nsid,
        key,
        max_bytes,
    };
    let error = client.call(retrieve(settings.nsid, most as u32 + 1));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::TooLong { max_bytes, .. } if max_bytes == most));
    assert!(client.call(retrieve(settings.nsid, most as u32)).is_err());
    assert!(client.call(retrieve(settings.nsid + 1, 10)).is_err());
    let blocks = Request::Read {
        nsid: settings.nsid,
        block: 0,
        blocks: 1,
        block_bytes: 4096,
    };
    assert!(client.call(blocks).is_err());
}

#[test]
fn many_commands_are_in_flight() {
    for backend in BACKENDS {
        let Some(settings) = settings(backend) else {
            return;
        };
        let mut client = Client::open(&settings).unwrap();
        let value = |number: u64| pattern(number, 1 + (number as usize * 397) % (16 * KIB));
        let key = |number: u64| Key::new(number.to_be_bytes()).unwrap();
        let (nsid, count) = (settings.nsid, 300);
        let store = |number: u64| Request::Store {
            nsid,
            key: key(number),
            value: value(number).into(),
            condition: Condition::None,
        };
        let retrieve = |number: u64| Request::Retrieve {
            nsid,
            key: key(number),
            max_bytes: 16 * KIB as u32,
        };
        let delete = |number: u64| Request::Delete {
            nsid,
            key: key(number),
        };
        for (round, request) in [&store as &dyn Fn(u64) -> Request, &retrieve, &delete]
            .into_iter()
            .enumerate()
        {
            let mut tickets = HashMap::new();
            let (mut next, mut most) = (0, 0);
            while next < count || client.in_flight() > 0 {
                while next < count && client.in_flight() < client.capacity() {
                    tickets.insert(client.submit(request(next)).unwrap(), next);
                    next += 1;
                }
                most = most.max(client.in_flight());
                for completion in client.wait(Duration::from_secs(60)) {
                    let number = tickets.remove(&completion.ticket).expect("a ticket");
                    let answer = completion.result.unwrap();
                    if round == 1 {
                        assert!(answer.data == value(number), "value {number}");
                    }
                }
            }
            assert!(tickets.is_empty());
            assert_eq!(most, client.capacity());
        }
        assert!(client.list(None, 4096).unwrap().is_empty());
    }
}

/// Returns how often the kernel has connected again.
fn reconnections() -> usize {
    let log = std::process::Command::new("dmesg").output().unwrap();
    String::from_utf8_lossy(&log.stdout)
        .matches("Successfully reconnected")
        .count()
}

/// Stores go on while the node is killed and started again. Acknowledged stores are there.
#[test]
fn stores_outlive_a_restart_of_the_node() {
    for backend in BACKENDS {
        let Some(mut settings) = settings(backend) else {
            return;
        };
        if variable("TERRACE_NVME_RESTARTS").is_none() {
            return;
        }
        settings.depth = 8;
        let mut client = Client::open(&settings).unwrap();
        // A key is stored once: a store that is repeated must not meet a later one.
        let key = |number: u64| Key::new((number << 8 | backend as u64).to_be_bytes()).unwrap();
        let value = |number: u64| pattern(number << 8 | backend as u64, 4 * KIB);
        let (mut next, mut has_asked, mut restarted_at) = (0, false, None);
        let (before, since) = (reconnections(), Instant::now());
        let mut looked = Instant::now();
        while restarted_at.is_none_or(|at| next < at + 50) {
            if next > 48 && !has_asked {
                has_asked = true;
                println!("\n{PLEASE_RESTART}");
            }
            while client.in_flight() < client.capacity() {
                let request = Request::Store {
                    nsid: settings.nsid,
                    key: key(next),
                    value: value(next).into(),
                    condition: Condition::None,
                };
                client.submit(request).unwrap();
                next += 1;
            }
            for completion in client.wait(Duration::from_millis(200)) {
                completion.result.expect("a store is repeated");
            }
            if restarted_at.is_none() && looked.elapsed() > Duration::from_millis(250) {
                looked = Instant::now();
                restarted_at = (reconnections() > before).then_some(next);
            }
            assert!(since.elapsed() < Duration::from_secs(60), "no restart");
        }
        while client.in_flight() > 0 {
            for completion in client.wait(Duration::from_millis(200)) {
                completion.result.expect("a store is repeated");
            }
        }
        let took = since.elapsed();
        println!("{backend:?}: {next} stores across a restart in {took:.1?}");
        for number in (0..next).filter(|number| number % 5 == 0 || *number < 100) {
            let found = client.retrieve(key(number).as_bytes(), 4 * KIB as u32);
            let found = found.unwrap().expect("an acknowledged store");
            assert!(found.bytes == value(number), "store {number}");
        }
    }
}

/// The client over TCP and the kernel's target.
#[test]
fn the_kernels_target_serves_the_client_over_tcp() {
    let Some(target) = variable("TERRACE_NVMET") else {
        return;
    };
    let (address, nqn) = target.split_once(' ').expect("an address and a name");
    let address = address.parse().expect("an address");
    for digests in [false, true] {
        let mut settings = TcpSettings::new("nqn.2026-01.example:host", [7; 16], nqn);
        settings.queues = 2;
        settings.digests = Digests {
            header: digests,
            data: digests,
        };
        let mut client = TcpClient::connect(address, &settings).unwrap();
        let block_bytes = client.block_bytes(1).unwrap() as usize;
        for (number, blocks) in [1, 8, 64, 250].into_iter().enumerate() {
            let data = pattern(number as u64 + u64::from(digests), blocks * block_bytes);
            client.write(1, 100, &data).unwrap();
            client.flush(1).unwrap();
            let found = client.read(1, 100, blocks as u32).unwrap();
            assert!(found == data, "{blocks} blocks");
        }
        let beyond = client.read(1, u64::MAX - 10, 1).unwrap_err();
        assert!(beyond.status().is_some(), "{beyond}");
        client.close().unwrap();
        println!("blocks of {block_bytes} bytes, digests {digests}: as written");
    }
}
