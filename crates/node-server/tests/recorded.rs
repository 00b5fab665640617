//! Commands as other projects' hosts build them, byte by byte, and the bytes of the answers.
//!
//! The submission entries below were worked out from these sources:
//!
//! - Mooncake: `kvcache-ai/Mooncake`, `mooncake-store/src/nvme_kv_executor_util.cpp` at 5625b5b. Keys of 16
//!   bytes whose 12th is always 01h, for bits 31:24 of CDW14 have the command set; stores with SINKE (bit 9
//!   of CDW11); CDW12 has the number of blocks of 512 bytes, minus one; values are rounded up to 4 KiB.
//! - NIXL: `ai-dynamo/nixl` pull request 1753, `src/plugins/rados-nkv/rados_nkv_key.cpp` (a key is the
//!   128-bit FNV-1a of its name) and SPDK's `lib/nvme/nvme_kv.c` (no options, CDW12 is 0).
//! - Linux: `drivers/nvme/host/tcp.c`. PSDT 01b, and a transport SGL (5Ah) also where there are no data.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use terrace_node_server::Running;

use self::support::{Place, StorePlace, value};

const HOST: &[u8] = b"nqn.2014-08.org.nvmexpress:uuid:host";

/// Store if absent of 128 KiB, by Mooncake.
const MOONCAKE_STORE: &str = "
    01 40 0100 01000000 1011121314151617 0000000000000000
    0000000000000000 00000200 000000 5a
    00000200 10020000 ff000000 00000000 18191a01 1c1d1e1f";
/// The first retrieve of a value of unknown size, by Mooncake: 4 KiB.
const MOONCAKE_RETRIEVE: &str = "
    02 40 0300 01000000 1011121314151617 0000000000000000
    0000000000000000 00100000 000000 5a
    00100000 10000000 07000000 00000000 18191a01 1c1d1e1f";
/// The second one, of the size that the first one told.
const MOONCAKE_RETRIEVE_ALL: &str = "
    02 40 0400 01000000 1011121314151617 0000000000000000
    0000000000000000 00000200 000000 5a
    00000200 10000000 ff000000 00000000 18191a01 1c1d1e1f";
/// Delete, by Mooncake.
const MOONCAKE_DELETE: &str = "
    10 40 0500 01000000 1011121314151617 0000000000000000
    0000000000000000 00000000 000000 5a
    00000000 10000000 00000000 00000000 18191a01 1c1d1e1f";
/// Store of 512 KiB under the name "nixl-key-0000001", by NIXL.
const NIXL_STORE: &str = "
    01 40 0600 01000000 1e693b52e8fadc63 0000000000000000
    0000000000000000 00000800 000000 5a
    00000800 10000000 00000000 00000000 d197f783 80a9f974";
/// The look-up of the cache, by NIXL: Exist.
const NIXL_EXIST: &str = "
    14 40 0700 01000000 1e693b52e8fadc63 0000000000000000
    0000000000000000 00000000 000000 5a
    00000000 10000000 00000000 00000000 d197f783 80a9f974";
/// Retrieve of 512 KiB, by NIXL.
const NIXL_RETRIEVE: &str = "
    02 40 0800 01000000 1e693b52e8fadc63 0000000000000000
    0000000000000000 00000800 000000 5a
    00000800 10000000 00000000 00000000 d197f783 80a9f974";
/// Identify Namespace of the Key Value command set (CNS 05h, CSI 01h), as an ioctl of the node has it.
const IDENTIFY_KEYS: &str = "
    06 40 0900 01000000 0000000000000000 0000000000000000
    0000000000000000 00100000 000000 5a
    05000000 00000001 00000000 00000000 00000000 00000000";
/// Identify Controller (CNS 01h) without a namespace, by Mooncake.
const IDENTIFY_CONTROLLER: &str = "
    06 40 0a00 00000000 0000000000000000 0000000000000000
    0000000000000000 00100000 000000 5a
    01000000 00000000 00000000 00000000 00000000 00000000";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A host that knows nothing but bytes.
struct Host {
    stream: TcpStream,
}

impl Host {
    /// Connects a queue of a controller; FFFFh makes one. Returns the number of the controller.
    fn connect(address: SocketAddr, subsystem: &str, queue: u8, controller: u16) -> (Self, u16) {
        let mut host = Host {
            stream: TcpStream::connect(address).unwrap(),
        };
        let mut initialize = vec![0; 128];
        initialize[2] = 128;
        initialize[4] = 128;
        host.stream.write_all(&initialize).unwrap();
        let answer = host.pdu();
        assert_eq!(answer[..8], bytes_of("01 00 80 00 80000000"));
        // Format 0, no padding, no digests, data PDUs of 1 MiB.
        assert_eq!(answer[8..16], bytes_of("0000 00 00 00001000"));
        let connect = format!(
            "7f 40 0000 01 000000 0000000000000000 0000000000000000 0000000000000000 00040000 \
             000000 01 0000 {queue:02x}00 1f00 00 00 00000000 {}",
            "00".repeat(12)
        );
        let mut data = vec![0; 1024];
        data[..16].fill(7);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
        data[512..512 + HOST.len()].copy_from_slice(HOST);
        host.command(&connect, &data);
        let answer = host.pdu();
        assert_eq!(answer[..8], bytes_of("05 00 18 00 18000000"));
        assert_eq!(answer[22..24], [0, 0], "success");
        (host, u16::from_le_bytes([answer[8], answer[9]]))
    }

    /// Sends a command with data in its capsule.
    fn command(&mut self, entry: &str, data: &[u8]) {
        let entry = bytes_of(entry);
        assert_eq!(entry.len(), 64);
        let all = (72 + data.len()) as u32;
        let data_at = if data.is_empty() { 0 } else { 72 };
        let header = [&[4, 0, 72, data_at], &all.to_le_bytes()[..]].concat();
        self.stream
            .write_all(&[&header, &entry[..], data].concat())
            .unwrap();
    }

    fn pdu(&mut self) -> Vec<u8> {
        let mut pdu = vec![0; 8];
        self.stream.read_exact(&mut pdu).unwrap();
        let bytes = u32::from_le_bytes(pdu[4..8].try_into().unwrap()) as usize;
        pdu.resize(bytes, 0);
        self.stream.read_exact(&mut pdu[8..]).unwrap();
        pdu
    }

    /// Answers the one R2T of a store with its value.
    fn transfer(&mut self, id: u8, value: &[u8]) {
        let asked = self.pdu();
        let bytes = (value.len() as u32).to_le_bytes();
        let tag = [asked[10], asked[11]];
        let expected = [
            &bytes_of("09 00 18 00 18000000")[..],
            &[id, 0],
            &tag,
            &[0; 4],
            &bytes,
            &[0; 4],
        ];
        assert_eq!(asked, expected.concat());
        let all = (24 + value.len() as u32).to_le_bytes();
        let data = [
            &[6, 4, 24, 24],
            &all[..],
            &[id, 0],
            &tag,
            &[0; 4],
            &bytes,
            &[0; 4],
            value,
        ];
        self.stream.write_all(&data.concat()).unwrap();
    }

    /// Takes the data of a command: one PDU, which says that it is the last.
    fn data(&mut self, id: u8) -> Vec<u8> {
        let pdu = self.pdu();
        let bytes = (pdu.len() - 24) as u32;
        let expected = [
            &[7, 4, 24, 24],
            &(bytes + 24).to_le_bytes()[..],
            &[id, 0, 0, 0],
            &[0; 4],
            &bytes.to_le_bytes(),
            &[0; 4],
        ];
        assert_eq!(pdu[..24], expected.concat());
        pdu[24..].to_vec()
    }

    /// Checks a completion: its first word, the queue's head, and the status as it stands there.
    fn completion(&mut self, id: u8, word: u32, head: u8, status: &str) {
        let expected = [
            &bytes_of("05 00 18 00 18000000")[..],
            &word.to_le_bytes(),
            &[0; 4],
            &[head, 0, 0, 0],
            &[id, 0],
            &bytes_of(status),
        ];
        assert_eq!(self.pdu(), expected.concat());
    }
}

const SUCCESS: &str = "0000";
/// Key Exists, not to be repeated, above the phase bit.
const KEY_EXISTS: &str = "1281";
const KEY_DOES_NOT_EXIST: &str = "0e81";

/// Brings a controller and an I/O queue up, as Linux does.
fn bring_up(running: &Running) -> (Host, Host) {
    let (address, nqn) = (running.addresses[0], &running.subsystem.nqn);
    let (mut admin, controller) = Host::connect(address, nqn, 0, 0xffff);
    let enable = format!(
        "7f 40 0b00 00 000000 0000000000000000 {} 00 000000 14000000 61004600 {}",
        "00".repeat(24),
        "00".repeat(12)
    );
    admin.command(&enable, &[]);
    admin.completion(0x0b, 0, 2, SUCCESS);
    let (queue, _) = Host::connect(address, nqn, 1, controller);
    (admin, queue)
}

fn all_commands(running: &Running, max_value: &str) {
    let (mut admin, mut queue) = bring_up(running);
    admin.command(IDENTIFY_KEYS, &[]);
    let keys = admin.data(9);
    admin.completion(9, 0, 3, SUCCESS);
    let namespace = &running.subsystem.namespaces[0];
    assert_eq!(keys.len(), 4096);
    assert_eq!(keys[..8], namespace.bytes.to_le_bytes());
    // Format 0: keys of 16 bytes, and the largest value.
    assert_eq!(keys[72..76], bytes_of("1000 00 00"));
    assert_eq!(keys[76..80], bytes_of(max_value));
    admin.command(IDENTIFY_CONTROLLER, &[]);
    let controller = admin.data(10);
    admin.completion(10, 0, 4, SUCCESS);
    // MDTS: 32 MiB.
    assert_eq!((controller.len(), controller[77]), (4096, 13));

    let small = value(128 << 10, 1);
    queue.command(MOONCAKE_STORE, &[]);
    queue.transfer(1, &small);
    queue.completion(1, 0, 2, SUCCESS);
    let again = MOONCAKE_STORE.replacen("0100", "0200", 1);
    queue.command(&again, &[]);
    // An engine may judge before or after it has the value.
    queue.existing(2, &small);
    queue.command(MOONCAKE_RETRIEVE, &[]);
    assert!(queue.data(3) == small[..4096]);
    queue.completion(3, 128 << 10, 4, SUCCESS);
    queue.command(MOONCAKE_RETRIEVE_ALL, &[]);
    assert!(queue.data(4) == small);
    queue.completion(4, 128 << 10, 5, SUCCESS);
    queue.command(MOONCAKE_DELETE, &[]);
    queue.completion(5, 0, 6, SUCCESS);
    // The key is gone, and a Delete of a missing key succeeds.
    queue.command(MOONCAKE_DELETE, &[]);
    queue.completion(5, 0, 7, SUCCESS);
    queue.command(MOONCAKE_RETRIEVE, &[]);
    queue.completion(3, 0, 8, KEY_DOES_NOT_EXIST);

    let large = value(512 << 10, 2);
    queue.command(NIXL_EXIST, &[]);
    queue.completion(7, 0, 9, KEY_DOES_NOT_EXIST);
    queue.command(NIXL_STORE, &[]);
    queue.transfer(6, &large);
    queue.completion(6, 0, 10, SUCCESS);
    queue.command(NIXL_EXIST, &[]);
    queue.completion(7, 0, 11, SUCCESS);
    queue.command(NIXL_RETRIEVE, &[]);
    assert!(queue.data(8) == large);
    queue.completion(8, 512 << 10, 12, SUCCESS);
}

impl Host {
    /// Takes the refusal of a store of a key that exists.
    fn existing(&mut self, id: u8, value: &[u8]) {
        let mut kind = [0];
        self.stream.peek(&mut kind).unwrap();
        if kind[0] == 9 {
            self.transfer(id, value);
        }
        self.completion(id, 0, 3, KEY_EXISTS);
    }
}

#[test]
fn the_hash_engine_answers_as_those_hosts_expect() {
    let place = Place::new();
    let running = Running::start(&place.config()).unwrap();
    all_commands(&running, "00000002");
}

#[test]
fn the_lsm_engine_answers_as_those_hosts_expect() {
    let place = StorePlace::new();
    let running = Running::start(&place.config()).unwrap();
    all_commands(&running, "00000002");
}
