//! From ICReq to namespaces, as hosts do it.

use zerocopy::{FromBytes, IntoBytes};

use super::world::*;
use crate::wire::command::admin::{GET_LOG_PAGE, IDENTIFY};
use crate::wire::fabrics::{ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER};
use crate::wire::identify::{
    AnyNamespace, BlockNamespace, Controller, KeyNamespace, cns, descriptors,
};
use crate::wire::{Status, SubmissionEntry, kv};

fn identify(what: u8, nsid: u32, set: u8) -> SubmissionEntry {
    let mut entry = admin_command(IDENTIFY, nsid, u32::from(what), 4096);
    entry.cdw11 = (u32::from(set) << 24).into();
    entry
}

fn log(page: u8, words: u32) -> SubmissionEntry {
    let cdw10 = u32::from(page) | (words - 1) << 16;
    admin_command(GET_LOG_PAGE, 0, cdw10, words * 4)
}

#[test]
fn an_initialization_is_answered() {
    for digests in 0..4 {
        let mut world = World::new();
        let peer = world.open();
        world.send(peer, &initialize(digests));
        assert_eq!(world.peers[peer].got.len(), 128);
        let answer = &world.take(peer)[0];
        assert_eq!((answer.kind, answer.flags), (1, 0));
        assert_eq!(answer.rest[..4], [0, 0, 0, digests]);
        assert_eq!(answer.word(4), 4096);
        assert!(answer.rest[8..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_controller_gets_ready() {
    let mut world = World::new();
    let peer = world.initialized(0);
    let done = world.execute(peer, connect(0, 7), &connect_data(1, DYNAMIC_CONTROLLER));
    assert!(done.status().is_success());
    assert_eq!(done.dw0.get() >> 16, 0, "no authentication");
    let capabilities = world.execute(peer, property_get(0, true), &[]).result();
    assert_eq!(capabilities & 0xffff, 7, "entries of a queue");
    assert_eq!(capabilities >> 37 & 0xff, 0x41, "command sets");
    assert!(capabilities >> 24 & 0xff > 0, "time to get ready");
    let mut register = |offset| world.execute(peer, property_get(offset, false), &[]);
    assert_eq!(register(8).result(), 0x2_0000);
    assert_eq!((register(0x14).result(), register(0x1c).result()), (0, 0));
    assert_eq!(register(0).status(), Status::INVALID_FIELD);
    assert_eq!(register(0x30).status(), Status::INVALID_FIELD);
    for (value, ready) in [(0x46_0060, 0), (0x46_0061, 1), (0x46_0060, 0)] {
        assert!(
            world
                .status(peer, property_set(0x14, value), &[])
                .is_success()
        );
        let done = world.execute(peer, property_get(0x14, false), &[]);
        assert_eq!(done.result(), u64::from(value));
        let done = world.execute(peer, property_get(0x1c, false), &[]);
        assert_eq!(done.result(), ready);
    }
    let odd = property_set(0x14, 0x46_0071);
    assert_eq!(world.status(peer, odd, &[]), Status::INVALID_FIELD);
}

#[test]
fn a_controller_identifies_itself() {
    let mut world = World::new();
    let (peer, id) = world.admin(3, 1);
    let (data, _) = world.fetch(peer, identify(cns::CONTROLLER, 0, 0));
    let bytes = Controller::read_from_bytes(&data).unwrap();
    assert_eq!(bytes.controller_id.get(), id);
    assert_eq!(bytes.version.get(), 0x2_0000);
    assert_eq!((bytes.kind, bytes.max_transfer), (1, 13));
    assert_eq!(
        (bytes.submission_sizes, bytes.completion_sizes),
        (0x66, 0x44)
    );
    assert!(bytes.keep_alive_granularity.get() > 0);
    assert_eq!(bytes.sgl.get() & 0b11, 1);
    assert_eq!(bytes.sgl.get() >> 20 & 1, 1, "offsets");
    assert_eq!(bytes.command_capsule.get() * 16 - 64, 2048);
    assert_eq!(
        (
            bytes.response_capsule.get(),
            bytes.capsule_data_offset.get()
        ),
        (1, 0)
    );
    assert_eq!((bytes.max_commands.get(), bytes.namespaces.get()), (8, 3));
    assert_eq!(
        &bytes.subsystem[..=NQN.len()],
        [NQN.as_bytes(), &[0]].concat()
    );
    assert_eq!(&bytes.serial[..4], b"S1  ");
}

#[test]
fn namespaces_identify_themselves() {
    let mut world = World::new();
    let (peer, _) = world.admin(0, 1);
    let mut get = |what, nsid, set| world.fetch(peer, identify(what, nsid, set)).0;
    assert_eq!(
        get(cns::ACTIVE_NAMESPACES, 0, 0)[..12],
        [1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        get(cns::ACTIVE_NAMESPACES, 1, 0)[..8],
        [3, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        get(cns::ACTIVE_NAMESPACES_OF_SET, 0, 1)[..8],
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    let bytes = get(cns::DESCRIPTORS, 1, 0);
    let all: Vec<_> = descriptors(&bytes).collect();
    assert_eq!(all, [(2, &[1; 16][..]), (3, &[1; 16][..]), (4, &[1][..])]);
    let bytes = get(cns::DESCRIPTORS, 3, 0);
    assert!(descriptors(&bytes).any(|found| found == (4, &[0][..])));
    let bytes = get(cns::NAMESPACE_OF_SET, 1, 1);
    let keys = KeyNamespace::read_from_bytes(&bytes).unwrap();
    assert_eq!(
        (keys.size.get(), keys.used.get(), keys.formats),
        (1 << 30, 77, 0)
    );
    assert_eq!(keys.format.max_key.get(), 16);
    assert_eq!(keys.format.max_value.get(), MAX_VALUE);
    let bytes = get(cns::NAMESPACE_OF_ANY_SET, 1, 0);
    let any = AnyNamespace::read_from_bytes(&bytes).unwrap();
    assert_eq!((any.sharing, any.status), (1, 1));
    for nsid in [1, 3] {
        // Hosts of SPDK take a namespace without capacity for one that is not there.
        let bytes = get(cns::NAMESPACE, nsid, 0);
        let blocks = BlockNamespace::read_from_bytes(&bytes).unwrap();
        assert_eq!(
            (blocks.size.get(), blocks.capacity.get()),
            (1 << 18, 1 << 18)
        );
    }
    let sets = get(cns::COMMAND_SETS, 0, 0);
    assert_eq!(sets[..8], [0b11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(get(cns::CONTROLLER_OF_SET, 0, 1), [0; 4096]);
}

#[test]
fn an_identify_that_is_not_legal_fails() {
    let mut world = World::new();
    let (peer, _) = world.admin(0, 1);
    for (what, nsid, set, status) in [
        (cns::NAMESPACE, 2, 0, Status::INVALID_NAMESPACE),
        (cns::DESCRIPTORS, 0, 0, Status::INVALID_NAMESPACE),
        (cns::NAMESPACE_OF_SET, 1, 0, Status::INVALID_FIELD),
        (cns::NAMESPACE_OF_SET, 3, 1, Status::INVALID_FIELD),
        (cns::CONTROLLER_OF_SET, 0, 2, Status::INVALID_FIELD),
        (0x7f, 0, 0, Status::INVALID_FIELD),
    ] {
        assert_eq!(world.status(peer, identify(what, nsid, set), &[]), status);
    }
    // A small buffer gets the front.
    let mut entry = identify(cns::CONTROLLER, 0, 0);
    entry.data.bytes = 100.into();
    assert_eq!(world.fetch(peer, entry).0.len(), 100);
}

#[test]
fn a_host_of_blocks_sees_no_keys() {
    let mut world = World::new();
    let peer = world.initialized(0);
    world.execute(peer, connect(0, 7), &connect_data(1, DYNAMIC_CONTROLLER));
    assert!(
        world
            .status(peer, property_set(0x14, 0x46_0001), &[])
            .is_success()
    );
    let (data, _) = world.fetch(peer, identify(cns::ACTIVE_NAMESPACES, 0, 0));
    assert_eq!(data[..8], [3, 0, 0, 0, 0, 0, 0, 0]);
    let status = world.status(peer, identify(cns::DESCRIPTORS, 1, 0), &[]);
    assert_eq!(status, Status::INVALID_NAMESPACE);
}

#[test]
fn effects_of_keys_are_exact() {
    let mut world = World::new();
    let (peer, _) = world.admin(0, 1);
    let mut entry = log(5, 1024);
    entry.cdw14 = (1 << 24).into();
    let (data, _) = world.fetch(peer, entry);
    let effects =
        |opcode: usize| u32::from_le_bytes(data[1024 + opcode * 4..][..4].try_into().unwrap());
    for opcode in 0..256 {
        let expected = match opcode as u8 {
            kv::STORE | kv::DELETE => 0b11,
            kv::RETRIEVE | kv::LIST | kv::EXIST | 0 => 0b1,
            _ => 0,
        };
        assert_eq!(effects(opcode), expected, "{opcode:x}");
    }
    assert_eq!(data.len(), 4096);
    assert!(data[2048..].iter().all(|&byte| byte == 0));
    let mut entry = log(5, 4);
    (entry.cdw12, entry.cdw14) = ((1024 + 4).into(), (1 << 24).into());
    assert_eq!(world.fetch(peer, entry).0[..8], [3, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(
        world.status(peer, log(0x6f, 4), &[]),
        Status::INVALID_LOG_PAGE
    );
    let mut entry = log(5, 4);
    entry.data.bytes = 15.into();
    assert_eq!(world.status(peer, entry, &[]), Status::SGL_LENGTH_INVALID);
}

#[test]
fn a_discovery_log_has_the_address_that_the_host_reached() {
    let mut world = World::new();
    let peer = world.initialized(0);
    let data = ConnectData::new([1; 16], DYNAMIC_CONTROLLER, DISCOVERY_NQN, HOST);
    let done = world.execute(peer, connect(0, 7), data.as_bytes());
    assert!(done.status().is_success());
    assert!(
        world
            .status(peer, property_set(0x14, 0x46_0061), &[])
            .is_success()
    );
    let (data, _) = world.fetch(peer, identify(cns::CONTROLLER, 0, 0));
    assert_eq!(data[111], 2, "a controller of discovery");
    let (head, _) = world.fetch(peer, log(0x70, 256));
    assert_eq!((head.len(), head[8]), (1024, 2));
    let (all, _) = world.fetch(peer, log(0x70, 768));
    let entry = &all[2048..];
    assert_eq!(
        entry[..3],
        [3, 1, 2],
        "TCP, IPv4, a subsystem of namespaces"
    );
    assert_eq!(&entry[32..37], b"4420 ");
    assert_eq!(
        &entry[256..=256 + NQN.len()],
        [NQN.as_bytes(), &[0]].concat()
    );
    assert_eq!(&entry[512..522], b"192.0.2.7 ");
    assert_eq!(all[1024 + 2], 3, "the discovery service itself");
    let status = world.status(peer, identify(cns::NAMESPACE, 1, 0), &[]);
    assert_eq!(status, Status::INVALID_FIELD);
}

#[test]
fn living_controllers_have_numbers_of_their_own() {
    let mut world = World::new();
    let all: Vec<_> = (1..=16).map(|host| world.admin(0, host)).collect();
    let mut numbers: Vec<u16> = all.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), world.registry.controllers()), (16, 16));
    let peer = world.initialized(0);
    let data = connect_data(20, DYNAMIC_CONTROLLER);
    assert_eq!(
        world.status(peer, connect(0, 7), &data),
        Status::CONNECT_BUSY
    );
    world.close(all[4].0);
    let (_, number) = world.admin(0, 30);
    let others = all.iter().enumerate().filter(|(at, _)| *at != 4);
    assert!(others.into_iter().all(|(_, (_, other))| *other != number));
}
