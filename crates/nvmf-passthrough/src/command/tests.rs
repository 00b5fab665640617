//! The bytes of each command, as `linux/nvme_ioctl.h` has its fields.

use terrace_nvmf::initiator::client::{Condition, Key, Request};

use super::*;
use crate::data::Data;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the bytes of a command, without the address, which must be there if data are.
fn bytes_of(request: &Request) -> [u8; 72] {
    let (entry, transfer) = request.command().unwrap();
    let mut data = Data::new(transfer);
    let mut command = Command::new(&entry, TIMEOUT);
    command.attach(&mut data).unwrap();
    let (address, bytes) = data.address();
    assert_eq!((command.address, command.data_bytes), (address, bytes));
    assert_eq!(command.address == 0, bytes == 0);
    command.address = 0;
    let field = command.ring_field();
    assert_eq!(field[72..], [0; 8]);
    let ioctl = IoctlCommand { command, result: 0 };
    assert_eq!(ioctl.as_bytes()[..72], field[..72]);
    field[..72].try_into().unwrap()
}

/// Builds the expected bytes: opcode, the two words of the key, bytes of data, CDW10, 11, 14 and 15.
fn expected(opcode: u8, key: [u32; 2], data: u32, words: [u32; 2], rest: [u32; 2]) -> [u8; 72] {
    let mut bytes = [0; 72];
    let mut put = |place: usize, word: u32| {
        bytes[place..place + 4].copy_from_slice(&word.to_le_bytes());
    };
    put(0, u32::from(opcode));
    put(4, 7);
    put(8, key[0]);
    put(12, key[1]);
    put(36, data);
    put(40, words[0]);
    put(44, words[1]);
    put(56, rest[0]);
    put(60, rest[1]);
    put(64, 20_000);
    bytes
}

#[test]
fn each_command_lies_as_the_kernel_has_it() {
    let (nsid, key) = (7, Key::new("hello").unwrap());
    let hello = [0x6c6c_6568, 0x6f];
    let store = |condition| Request::Store {
        nsid,
        key,
        value: vec![9; 25].into(),
        condition,
    };
    let of = |opcode, data, words| expected(opcode, hello, data, words, [0, 0]);
    assert_eq!(bytes_of(&store(Condition::None)), of(0x01, 25, [25, 5]));
    assert_eq!(
        bytes_of(&store(Condition::IfExists)),
        of(0x01, 25, [25, 0x105])
    );
    assert_eq!(
        bytes_of(&store(Condition::IfAbsent)),
        of(0x01, 25, [25, 0x205])
    );
    let max_bytes = 4096;
    let retrieve = Request::Retrieve {
        nsid,
        key,
        max_bytes,
    };
    assert_eq!(bytes_of(&retrieve), of(0x02, 4096, [4096, 5]));
    assert_eq!(
        bytes_of(&Request::Delete { nsid, key }),
        of(0x10, 0, [0, 5])
    );
    assert_eq!(
        bytes_of(&Request::Exists { nsid, key }),
        of(0x14, 0, [0, 5])
    );
    let from = Some(key);
    let list = Request::List {
        nsid,
        from,
        max_bytes,
    };
    assert_eq!(bytes_of(&list), of(0x06, 4096, [4096, 5]));
    let list = Request::List {
        nsid,
        from: None,
        max_bytes,
    };
    assert_eq!(
        bytes_of(&list),
        expected(0x06, [0, 0], 4096, [4096, 0], [0, 0])
    );
}

#[test]
fn the_longest_key_takes_both_places() {
    let key = Key::new("0123456789abcdef").unwrap();
    let bytes = bytes_of(&Request::Exists { nsid: 7, key });
    let words = [*b"0123", *b"4567", *b"89ab", *b"cdef"].map(u32::from_le_bytes);
    let expected = expected(0x14, [words[0], words[1]], 0, [0, 16], [words[2], words[3]]);
    assert_eq!(bytes, expected);
}

#[test]
fn the_numbers_of_the_calls_are_the_kernels() {
    use crate::ioctl::request;
    assert_eq!(request(0, 0x40, 0), 0x4e40);
    assert_eq!(request(3, 0x47, size_of::<IoctlCommand>()), 0xc050_4e47);
    assert_eq!(request(3, 0x48, size_of::<IoctlCommand>()), 0xc050_4e48);
    assert_eq!(request(3, 0x80, size_of::<Command>()), 0xc048_4e80);
}

#[test]
fn data_of_another_direction_are_refused() {
    let key = Key::new("k").unwrap();
    let exists = Request::Exists { nsid: 7, key };
    let (entry, _) = exists.command().unwrap();
    let mut command = Command::new(&entry, TIMEOUT);
    assert!(command.attach(&mut Data::for_read(8)).is_err());
    assert_eq!(command, Command::new(&entry, TIMEOUT));
}

#[test]
fn the_time_is_never_the_kernels_own() {
    let entry = SubmissionEntry::new(0, 1);
    assert_eq!(Command::new(&entry, Duration::ZERO).timeout_ms, 1);
    assert_eq!(Command::new(&entry, Duration::MAX).timeout_ms, u32::MAX);
}
