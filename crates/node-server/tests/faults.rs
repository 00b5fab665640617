//! Failures of the device, as a host sees them: the status of the command, and the commands that still succeed.

mod support;

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use terrace_node::device::{
    Access, Backend, Device, Fault, Faults, FaultyDevice, Kind, Medium, open_device,
};
use terrace_node_server::{Log, Running};
use terrace_nvmf::initiator::Result;
use terrace_nvmf::initiator::client::{Client, Condition};
use terrace_nvmf::wire::Status;

use self::support::{BLOCKS, KEYS, Place, client, value};

const EIO: i32 = 5;

/// Serves a node whose device fails as `faults` say.
fn start(place: &Place, faults: &Faults) -> Running {
    let mut config = place.config();
    config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let medium = Arc::new(Medium::open(place.path(), Access::Write).unwrap());
    let open = || {
        let device = open_device(Arc::clone(&medium), Backend::Auto, 32)?;
        Ok(Box::new(FaultyDevice::new(device, faults.clone())) as Box<dyn Device>)
    };
    Running::start_on(&config, Log::none(), open).unwrap()
}

fn status<T: std::fmt::Debug>(result: Result<T>) -> Status {
    let error = result.unwrap_err();
    error.status().unwrap_or_else(|| panic!("{error}"))
}

fn store(client: &mut Client, key: &[u8], value: &[u8]) -> Result<()> {
    client.store(KEYS, key, value, Condition::None)
}

fn retrieve(client: &mut Client, key: &[u8]) -> Result<Vec<u8>> {
    let found = client.retrieve(KEYS, key, 1 << 20)?;
    Ok(found.expect("the key is there").bytes)
}

/// Returns whether the server says that all is well.
fn is_healthy(running: &Running) -> bool {
    let mut stream = TcpStream::connect(running.metrics_address().unwrap()).unwrap();
    stream.write_all(b"GET /status HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    status["healthy"].as_bool().unwrap()
}

#[test]
fn a_value_that_cannot_be_read_is_an_unrecovered_error_of_its_key() {
    let place = Place::new();
    let faults = Faults::new();
    let running = start(&place, &faults);
    let mut client = client(&running);
    let (bad, good) = (value(50_000, 1), value(50_000, 2));
    store(&mut client, b"bad", &bad).unwrap();
    store(&mut client, b"good", &good).unwrap();
    faults.fail_kind(Kind::Read, EIO);
    let failed = status(retrieve(&mut client, b"bad"));
    assert_eq!(failed, Status::UNRECOVERED_ERROR);
    assert_eq!(failed.code(), 0x88);
    // Exist and List read no device.
    assert!(client.exists(KEYS, b"bad").unwrap());
    assert_eq!(client.list(KEYS, None, 4096).unwrap().len(), 2);
    faults.clear();
    assert!(retrieve(&mut client, b"bad").unwrap() == bad);

    // Damage on the device is found by the checksum.
    let file = OpenOptions::new().write(true).open(place.path()).unwrap();
    let image = std::fs::read(place.path()).unwrap();
    let front = &bad[..4096];
    let at = image.chunks(4096).position(|block| block == front).unwrap() as u64 * 4096;
    file.write_all_at(b"damage", at + 100).unwrap();
    file.sync_all().unwrap();
    assert_eq!(
        status(retrieve(&mut client, b"bad")),
        Status::UNRECOVERED_ERROR
    );
    assert!(retrieve(&mut client, b"good").unwrap() == good);
    assert!(is_healthy(&running));
    // A new value takes its place.
    store(&mut client, b"bad", &good).unwrap();
    assert!(retrieve(&mut client, b"bad").unwrap() == good);
}

#[test]
fn blocks_that_cannot_be_read_are_an_unrecovered_read_error() {
    let place = Place::new();
    let faults = Faults::new();
    let running = start(&place, &faults);
    let mut client = client(&running);
    client.write(BLOCKS, 7, &value(4096, 1)).unwrap();
    faults.fail_kind(Kind::Read, EIO);
    let failed = client.read(BLOCKS, 7, 1);
    assert_eq!(status(failed), Status::UNRECOVERED_READ_ERROR);
    faults.clear();
    faults.fail_kind(Kind::Write, EIO);
    let failed = client.write(BLOCKS, 7, &value(4096, 2));
    assert_eq!(status(failed), Status::WRITE_FAULT);
    faults.clear();
    assert!(client.read(BLOCKS, 7, 1).unwrap() == value(4096, 1));
}

#[test]
fn a_full_namespace_is_capacity_exceeded_until_there_is_room() {
    let place = Place::new();
    let running = start(&place, &Faults::new());
    let mut client = client(&running);
    let of = value(8 << 20, 3);
    let mut stored = 0_u8;
    let full = loop {
        match store(&mut client, &[stored], &of) {
            Ok(()) => stored += 1,
            failed => break status(failed),
        }
        assert!(stored < 100, "the device has 256 MiB");
    };
    assert_eq!((full, full.code()), (Status::CAPACITY_EXCEEDED, 0x81));
    assert!(stored > 10, "{stored}");
    assert!(client.exists(KEYS, [0]).unwrap() && !client.exists(KEYS, [stored]).unwrap());
    assert!(is_healthy(&running));
    client.delete(KEYS, [0]).unwrap();
    store(&mut client, &[stored], &of).unwrap();
}

#[test]
fn a_value_that_cannot_be_written_is_a_write_fault_and_no_more() {
    let place = Place::new();
    let faults = Faults::new();
    let running = start(&place, &faults);
    let mut client = client(&running);
    store(&mut client, b"k", b"before").unwrap();
    faults.add(Fault {
        kind: Some(Kind::Write),
        times: Some(1),
        errno: EIO,
        ..Fault::default()
    });
    let failed = status(store(&mut client, b"k", &value(500_000, 1)));
    assert_eq!((failed, failed.code()), (Status::WRITE_FAULT, 0x280));
    assert_eq!(retrieve(&mut client, b"k").unwrap(), b"before");
    store(&mut client, b"k", &value(500_000, 1)).unwrap();
    assert!(is_healthy(&running));
}

#[test]
fn a_failed_flush_makes_the_node_read_only_until_it_is_opened_again() {
    let place = Place::new();
    let faults = Faults::new();
    let running = start(&place, &faults);
    let mut client = client(&running);
    store(&mut client, b"k", &value(10_000, 1)).unwrap();
    faults.add(Fault {
        kind: Some(Kind::Flush),
        times: Some(1),
        errno: EIO,
        ..Fault::default()
    });
    let failed = status(store(&mut client, b"k", &value(10_000, 2)));
    assert_eq!((failed, failed.code()), (Status::WRITE_PROTECTED, 0x20));
    // The device is well again, and its losses are unknown.
    for _ in 0..2 {
        let failed = status(store(&mut client, b"l", b"v"));
        assert_eq!(failed, Status::WRITE_PROTECTED);
    }
    assert_eq!(status(client.delete(KEYS, b"k")), Status::WRITE_PROTECTED);
    let failed = client.write(BLOCKS, 0, &value(4096, 1));
    assert_eq!(status(failed), Status::WRITE_PROTECTED);
    assert!(retrieve(&mut client, b"k").unwrap() == value(10_000, 1));
    assert!(client.exists(KEYS, b"k").unwrap());
    assert!(!is_healthy(&running));
    drop(client);
    running.stopper().stop();
    // Closing in order would need a write.
    let _ = running.wait();

    let running = start(&place, &Faults::new());
    let mut client = self::client(&running);
    let found = retrieve(&mut client, b"k").unwrap();
    // The store that failed may have been durable.
    assert!(found == value(10_000, 1) || found == value(10_000, 2));
    store(&mut client, b"k", &value(10_000, 3)).unwrap();
    assert!(is_healthy(&running));
}
