use proptest::prelude::*;

use super::*;
use crate::auth::{Group, Hash};

#[test]
fn messages_lie_as_the_kernel_has_them() {
    let bytes = negotiate(0x0102, &[Hash::Sha256, Hash::Sha512], &[Group::Null]);
    assert_eq!(bytes.len(), 72);
    assert_eq!(bytes[..8], [0, 0, 0, 0, 2, 1, 0, 1]);
    assert_eq!(bytes[8..15], [1, 0, 2, 1, 1, 3, 0]);
    let bytes = negotiate(0, &[], &[Group::Null, Group::Ffdhe2048]);
    assert_eq!(bytes[8 + 34..8 + 37], [0, 1, 0]);

    let bytes = challenge(
        0x0102,
        Hash::Sha384,
        Group::Ffdhe2048,
        0x0708_090a,
        &[0xcc; 48],
        &[0xdd; 256],
    );
    let head = [1, 1, 0, 0, 2, 1, 48, 0, 2, 1, 0, 1, 10, 9, 8, 7];
    assert_eq!(bytes[..16], head);
    assert_eq!((bytes.len(), bytes[63], bytes[64]), (320, 0xcc, 0xdd));

    let bytes = reply(0x0102, &[0xaa; 32], Some((5, &[0xbb; 32])), &[0xee; 3]);
    let head = [1, 2, 0, 0, 2, 1, 32, 0, 1, 0, 3, 0, 5, 0, 0, 0];
    assert_eq!(bytes[..16], head);
    assert_eq!((bytes.len(), bytes[47], bytes[48]), (83, 0xaa, 0xbb));
    let bytes = reply(0x0102, &[0xaa; 32], None, &[]);
    let head = [1, 2, 0, 0, 2, 1, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes[..16], head);
    assert_eq!(bytes[48..], [0; 32]);

    let bytes = success1(0x0102, Hash::Sha256, Some(&[0xaa; 32]));
    let head = [1, 3, 0, 0, 2, 1, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!((bytes.len(), &bytes[..16]), (48, &head[..]));
    assert_eq!(success1(0, Hash::Sha256, None).len(), 16);
    assert_eq!(success2(0x0102)[..6], [1, 4, 0, 0, 2, 1]);
    assert_eq!(success2(0).len(), 16);
    let bytes = failure1(0x0102, Reason::HashUnusable);
    assert_eq!(bytes, [0, 0xf1, 0, 0, 2, 1, 1, 4]);
    let bytes = failure2(0x0102, Reason::Failed);
    assert_eq!(bytes, [0, 0xf0, 0, 0, 2, 1, 1, 1]);
}

fn all_messages() -> Vec<Vec<u8>> {
    let (c, v) = ([3; 64], [4; 256]);
    vec![
        negotiate(7, &[Hash::Sha256], &[Group::Null]),
        challenge(7, Hash::Sha512, Group::Ffdhe2048, 9, &c, &v),
        reply(7, &c, Some((1, &c)), &v),
        success1(7, Hash::Sha512, Some(&c)),
        success1(7, Hash::Sha512, None),
        success2(7),
        failure1(7, Reason::Failed),
        failure2(7, Reason::Failed),
    ]
}

#[test]
fn every_truncated_message_is_refused() {
    for message in all_messages() {
        let (_, rest) = Message::parse(&message).unwrap();
        assert!(rest.is_empty());
        for len in 0..message.len() {
            let error = Message::parse(&message[..len]).unwrap_err();
            assert_eq!(error, MessageError::Truncated);
        }
        let longer = [&message[..], &[0; 3]].concat();
        assert_eq!(Message::parse(&longer).unwrap().1, [0; 3]);
    }
}

#[test]
fn an_unknown_message_is_refused() {
    for (family, id) in [(0, 1), (0, 2), (0, 0xf2), (1, 0), (1, 5), (1, 0xf1), (2, 0)] {
        let bytes = [&[family, id][..], &[0; 400]].concat();
        let error = Message::parse(&bytes).unwrap_err();
        assert_eq!(error, MessageError::Unknown { family, id });
        assert_eq!(error.reason(), Reason::IncorrectMessage);
    }
}

#[test]
fn lists_that_are_too_long_are_none() {
    let mut descriptor = Descriptor::new(&[Hash::Sha256; 40], &[Group::Null; 40]);
    assert_eq!(descriptor.hashes().unwrap().len(), 30);
    assert_eq!(descriptor.groups().unwrap().len(), 30);
    (descriptor.hash_count, descriptor.group_count) = (31, 255);
    assert!(descriptor.hashes().is_none() && descriptor.groups().is_none());
}

#[test]
fn reasons_have_their_numbers() {
    for byte in 0..=255 {
        match Reason::from_byte(byte) {
            Some(reason) => assert_eq!(reason as u8, byte),
            None => assert!(!(1..=7).contains(&byte)),
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Message::parse(&bytes);
    }

    #[test]
    fn no_damage_panics(
        which in 0..8_usize,
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        len in any::<prop::sample::Index>(),
    ) {
        let mut message = all_messages().swap_remove(which);
        let at = at.index(message.len());
        message[at] = to;
        message.truncate(len.index(message.len()) + 1);
        if let Ok((Message::Negotiate(_, [descriptor, ..]), _)) = Message::parse(&message) {
            let _ = (descriptor.hashes(), descriptor.groups());
        }
    }
}
