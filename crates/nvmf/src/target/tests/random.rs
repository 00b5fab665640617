//! Streams in any fragments, and streams of any bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::world::*;
use crate::wire::command::admin::{GET_LOG_PAGE, IDENTIFY};
use crate::wire::kv;

/// Output that a session of a few KiB may cause.
const MAX_OUTPUT: usize = 1 << 20;

/// Returns a session of an I/O queue in the PDUs that it consists of.
fn session(digests: u8) -> Vec<Vec<u8>> {
    let value: Vec<u8> = (0..1200).map(|at| at as u8).collect();
    vec![
        capsule(digests, store_in_capsule(1, b"a", 300), &value[..300]),
        capsule(digests, key_command(kv::STORE, 2, b"b", 1200), &[]),
        data_pdu(digests, 0, 2, 0, 0, &value[..400]),
        capsule(digests, key_command(kv::EXIST, 3, b"a", 0), &[]),
        data_pdu(digests, 4, 2, 0, 400, &value[400..1000]),
        data_pdu(digests, 4, 2, 0, 1000, &value[1000..]),
        capsule(digests, key_command(kv::RETRIEVE, 4, b"b", 4096), &[]),
        capsule(digests, key_command(kv::LIST, 5, b"", 64), &[]),
        capsule(digests, key_command(kv::DELETE, 6, b"a", 0), &[]),
    ]
}

/// Returns a session of an admin queue.
fn admin_session(digests: u8) -> Vec<Vec<u8>> {
    [
        admin_command(IDENTIFY, 0, 1, 4096),
        admin_command(IDENTIFY, 1, 3, 4096),
        admin_command(GET_LOG_PAGE, 0, 5 | 63 << 16, 256),
        property_get(0, true),
    ]
    .into_iter()
    .map(|entry| capsule(digests, entry, &[]))
    .collect()
}

/// Sends fragments to an I/O queue. Returns the output.
fn output<'a>(digests: u8, fragments: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut world = World::new();
    let peer = world.ready(digests);
    for fragment in fragments {
        world.send(peer, fragment);
    }
    assert_eq!(world.memory.buffers_out, 0);
    std::mem::take(&mut world.peers[peer].got)
}

/// Checks that a damaged session leaves nothing behind.
fn check(digests: u8, is_admin: bool, bytes: &[u8], fragment: usize, is_stuck: bool) {
    let mut world = World::new();
    let peer = match is_admin {
        true => world.admin(digests, 1).0,
        false => world.ready(digests),
    };
    world.is_stuck = is_stuck;
    for fragment in bytes.chunks(fragment) {
        world.send(peer, fragment);
    }
    let connection = &world.peers[peer].connection;
    let waiting = connection.output().len();
    assert!(waiting + world.peers[peer].got.len() < MAX_OUTPUT);
    assert!(connection.in_flight() <= 8);
    world.close(peer);
    assert_eq!((world.memory.buffers_out, world.memory.jobs()), (0, 0));
    assert_eq!(world.peers[peer].connection.in_flight(), 0);
}

#[test]
fn fragments_do_not_change_the_output() {
    for digests in [0, 3] {
        let pdus = session(digests);
        let bytes = pdus.concat();
        let whole = output(digests, pdus.iter().map(Vec::as_slice));
        assert_eq!(super::pdus::pdus(&whole).last().unwrap().kind, 5);
        assert_eq!(output(digests, bytes.chunks(1)), whole);
        // One boundary, at each byte of each PDU.
        for at in 0..pdus.len() {
            for cut in 1..pdus[at].len() {
                let (front, back) = pdus[at].split_at(cut);
                let others = |range: std::ops::Range<usize>| pdus[range].iter().map(Vec::as_slice);
                let fragments = others(0..at)
                    .chain([front, back])
                    .chain(others(at + 1..pdus.len()));
                assert_eq!(output(digests, fragments), whole, "{at} {cut}");
            }
        }
    }
}

fn one_change() -> impl Strategy<Value = (prop::sample::Index, u8)> {
    (any::<prop::sample::Index>(), any::<u8>())
}

proptest! {
    #[test]
    fn any_bytes_leave_nothing_behind(bytes in vec(any::<u8>(), 0..600)) {
        let mut world = World::new();
        let peer = world.open();
        world.send(peer, &bytes);
        prop_assert!(world.peers[peer].got.len() <= 1024);
        check(0, false, &bytes, 100, false);
    }

    #[test]
    fn any_commands_leave_nothing_behind(
        entries in vec((vec(any::<u8>(), 64), 0_usize..8, any::<bool>()), 1..12),
        is_admin: bool,
        is_stuck: bool,
    ) {
        let opcodes = [kv::STORE, kv::RETRIEVE, kv::LIST, kv::DELETE, kv::EXIST, 0, 0x7f, 0x0a];
        let mut bytes = Vec::new();
        for (mut entry, opcode, is_short) in entries {
            entry[0] = opcodes[opcode];
            entry[4..8].copy_from_slice(&[1, 0, 0, 0]);
            // A descriptor of a transfer.
            entry[39] = 0x5a;
            entry[33..36].fill(0);
            if is_short {
                entry[41..44].fill(0);
                (entry[44], entry[45]) = (entry[44] % 17, entry[45] % 4);
            }
            bytes.extend(pdu(0, 4, 0, &entry, &[]));
        }
        check(0, is_admin, &bytes, usize::MAX, is_stuck);
    }

    #[test]
    fn damaged_sessions_leave_nothing_behind(
        digests in 0_u8..4,
        changes in vec(one_change(), 1..4),
        is_admin: bool,
        is_stuck: bool,
        fragment in 1_usize..500,
        left in any::<prop::sample::Index>(),
    ) {
        let pdus = if is_admin { admin_session(digests) } else { session(digests) };
        let mut bytes = pdus.concat();
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) = byte;
        }
        bytes.truncate(left.index(bytes.len() * 4).max(1));
        check(digests, is_admin, &bytes, fragment, is_stuck);
    }
}
