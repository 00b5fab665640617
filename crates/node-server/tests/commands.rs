//! Commands through the wire: our host, our target, the engine on a file.

mod support;

use terrace_node_server::Running;
use terrace_nvmf::initiator::client::Client;
use terrace_nvmf::initiator::client::Condition;
use terrace_nvmf::wire::Status;

use self::support::{BLOCKS, KEYS, Place, client, settings, value};

fn store(client: &mut Client, key: &[u8], value: &[u8]) {
    client.store(KEYS, key, value, Condition::None).unwrap();
}

fn retrieve(client: &mut Client, key: &[u8]) -> Option<Vec<u8>> {
    let found = client.retrieve(KEYS, key, 32 << 20).unwrap();
    found.map(|found| found.bytes)
}

#[test]
fn values_of_all_sizes_come_back() {
    let place = Place::new();
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        let running = Running::start(&place.config()).unwrap();
        let mut settings = settings(&running);
        (settings.digests.header, settings.digests.data) = digests;
        let mut client = Client::connect(running.addresses[0], &settings).unwrap();
        for (seed, bytes) in [
            0,
            1,
            5,
            100,
            4096,
            8192,
            8193,
            100_000,
            983_040,
            983_041,
            8 << 20,
        ]
        .into_iter()
        .enumerate()
        {
            let (key, value) = (format!("key-{bytes}"), value(bytes, seed as u8));
            store(&mut client, key.as_bytes(), &value);
            assert!(
                retrieve(&mut client, key.as_bytes()).unwrap() == value,
                "{bytes} bytes, digests {digests:?}"
            );
        }
        client.close().unwrap();
        running.stopper().stop();
        running.wait().unwrap();
    }
}

#[test]
fn a_small_buffer_gets_the_front_and_the_whole_size() {
    let place = Place::new();
    let running = Running::start(&place.config()).unwrap();
    let mut client = client(&running);
    let value = value(3_000_000, 1);
    store(&mut client, b"k", &value);
    for bytes in [0_u32, 1, 4096, 1_000_000, 2_999_999] {
        let front = client.retrieve(KEYS, b"k", bytes).unwrap().unwrap();
        assert!(front.bytes == value[..bytes as usize], "{bytes}");
        assert_eq!(front.value_bytes, 3_000_000);
    }
}

#[test]
fn conditions_deletes_and_lists_are_as_the_command_set_has_them() {
    let place = Place::new();
    let running = Running::start(&place.config()).unwrap();
    let mut client = client(&running);
    let status = |result: terrace_nvmf::initiator::Result<()>| result.unwrap_err().status();
    let refused = client.store(KEYS, b"a", b"1", Condition::IfExists);
    assert_eq!(status(refused), Some(Status::KEY_DOES_NOT_EXIST));
    client.store(KEYS, b"a", b"1", Condition::IfAbsent).unwrap();
    let refused = client.store(KEYS, b"a", b"2", Condition::IfAbsent);
    assert_eq!(status(refused), Some(Status::KEY_EXISTS));
    client.store(KEYS, b"a", b"3", Condition::IfExists).unwrap();
    assert_eq!(retrieve(&mut client, b"a").unwrap(), b"3");
    assert!(client.exists(KEYS, b"a").unwrap());
    assert!(!client.exists(KEYS, b"b").unwrap());
    for number in 0..100_u8 {
        store(&mut client, &[number; 16], &[number]);
    }
    let mut listed = client.list(KEYS, None, 65536).unwrap();
    assert_eq!(listed.len(), 101);
    // From a key on, which is in the list.
    let from = listed[40].clone();
    let rest = client.list(KEYS, Some(&from), 65536).unwrap();
    assert_eq!(rest, listed[40..]);
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 101);
    client.delete(KEYS, b"a").unwrap();
    assert!(!client.exists(KEYS, b"a").unwrap());
    assert_eq!(client.retrieve(KEYS, b"a", 9).unwrap(), None);
}

#[test]
fn blocks_are_read_as_written() {
    let place = Place::new();
    let running = Running::start(&place.config()).unwrap();
    let mut client = client(&running);
    assert_eq!(client.block_bytes(BLOCKS).unwrap(), 4096);
    let data = value(1 << 20, 9);
    client.write(BLOCKS, 100, &data).unwrap();
    client.flush(BLOCKS).unwrap();
    assert!(client.read(BLOCKS, 100, 256).unwrap() == data);
    assert!(client.read(BLOCKS, 101, 1).unwrap() == data[4096..8192]);
    let beyond = client.read(BLOCKS, (64 << 20) / 4096, 1);
    assert_eq!(beyond.unwrap_err().status(), Some(Status::LBA_OUT_OF_RANGE));
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let place = Place::new();
    let running = Running::start(&place.config()).unwrap();
    let mut first = client(&running);
    for number in 0..200_u32 {
        store(
            &mut first,
            &number.to_be_bytes(),
            &value(5000, number as u8),
        );
    }
    running.stopper().stop();
    running.wait().unwrap();
    let running = Running::start(&place.config()).unwrap();
    let mut second = client(&running);
    for number in 0..200_u32 {
        let found = retrieve(&mut second, &number.to_be_bytes()).unwrap();
        assert!(found == value(5000, number as u8), "{number}");
    }
}
