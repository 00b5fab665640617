//! Damaged messages.

use proptest::prelude::*;

use super::*;

/// Bytes without meaning: reserved ones, and lists behind their lengths.
fn is_ignored(number: usize, at: usize) -> bool {
    match number {
        _ if matches!(at, 2 | 3) => true,
        0 => at == 9 || (13..42).contains(&at) || at > 42,
        1 => at == 7,
        2 => at == 7 || at == 9,
        3 => at == 7 || (9..16).contains(&at),
        _ => at >= 6,
    }
}

fn damaged(group: Group, mask: u8, number: usize, at: usize) {
    let mut both = Both::equal(Hash::Sha256, group, true);
    let (result, outcome) = both.run(|current, mut message| {
        if current == number {
            message[at] ^= mask;
        }
        message
    });
    let place = format!("message {number}, byte {at}");
    if is_ignored(number, at) {
        assert!(result.is_ok(), "{place}");
        return;
    }
    // Success2 is the last word, so the host has accepted before it is damaged.
    assert!(result.is_err() || number == 4, "{place}");
    assert!(!matches!(outcome, Outcome::Authenticated(_)), "{place}");
}

#[test]
fn every_damaged_byte_is_refused() {
    let messages = Both::equal(Hash::Sha256, Group::Null, true).messages();
    assert_eq!(messages.len(), 5);
    for (number, message) in messages.iter().enumerate() {
        for at in 0..message.len() {
            for mask in [0x01, 0x80] {
                damaged(Group::Null, mask, number, at);
            }
        }
    }
}

#[test]
fn damaged_public_values_are_refused() {
    let (challenge, reply) = (16 + 32, 16 + 64);
    for at in (9..12).chain((challenge..challenge + 256).step_by(17)) {
        damaged(Group::Ffdhe2048, 1, 1, at);
    }
    for at in (10..12).chain((reply..reply + 256).step_by(17)) {
        damaged(Group::Ffdhe2048, 1, 2, at);
    }
}

#[test]
fn public_values_that_give_the_secret_away_are_refused() {
    let mut one = [0; 256];
    one[255] = 1;
    for value in [[0; 256], one, [0xff; 256]] {
        for (number, start) in [(1, 16 + 32), (2, 16 + 64)] {
            let mut both = Both::equal(Hash::Sha256, Group::Ffdhe2048, false);
            let (result, outcome) = both.run(|current, mut message| {
                if current == number {
                    message[start..].copy_from_slice(&value);
                }
                message
            });
            assert!(result.is_err() && matches!(outcome, Outcome::Failed(_)));
        }
    }
}

#[test]
fn bytes_behind_a_message_matter_to_the_controller_only() {
    for (number, accepted) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
        let mut both = Both::equal(Hash::Sha256, Group::Null, true);
        let (_, outcome) = both.run(|current, mut message| {
            if current == number {
                message.resize(ROOM, 0);
            }
            message
        });
        let authenticated = matches!(outcome, Outcome::Authenticated(_));
        assert_eq!(authenticated, accepted, "message {number}");
    }
}

#[test]
fn an_illegal_negotiation_is_refused() {
    let good = Both::equal(Hash::Sha256, Group::Null, false)
        .messages()
        .swap_remove(0);
    for (at, to, reason) in [
        (6, 1, Reason::SecureChannelMismatch),
        (7, 0, Reason::IncorrectPayload),
        (7, 2, Reason::IncorrectPayload),
        (8, 2, Reason::ProtocolUnusable),
        (10, 31, Reason::IncorrectPayload),
        (11, 31, Reason::IncorrectPayload),
        (10, 0, Reason::HashUnusable),
        (11, 0, Reason::GroupUnusable),
        (12, 4, Reason::HashUnusable),
        (42, 2, Reason::GroupUnusable),
    ] {
        let mut both = Both::equal(Hash::Sha256, Group::Null, false);
        let mut bad = good.clone();
        bad[at] = to;
        both.controller.send(&bad);
        assert_eq!(both.controller.outcome(), Outcome::Running);
        assert_eq!(both.failure1(), reason, "byte {at}");
    }
    let mut both = Both::equal(Hash::Sha256, Group::Null, false);
    both.controller.send(&[0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(both.failure1(), Reason::ProtocolUnusable);
    // DH-HMAC-CHAP may be the second of the protocols.
    let mut two = good[..8].to_vec();
    two[7] = 2;
    two.extend([9; 64]);
    two.extend(&good[8..]);
    let mut both = Both::equal(Hash::Sha256, Group::Null, false);
    both.controller.send(&two);
    assert_eq!(both.receive()[1], 1);
}

/// Changes bytes of the message `number`, and returns the results of host and controller.
fn refused(
    mutual: bool,
    number: usize,
    changes: &[(usize, u8)],
) -> (Result<Authenticated, Failure>, Outcome) {
    let mut both = Both::equal(Hash::Sha256, Group::Null, mutual);
    both.run(|current, mut message| {
        if current == number {
            for &(at, to) in changes {
                message[at] = to;
            }
        }
        message
    })
}

#[test]
fn an_illegal_challenge_is_refused() {
    for (changes, reason) in [
        (&[(4, 0)][..], Reason::IncorrectPayload),
        (&[(6, 31)], Reason::IncorrectPayload),
        (&[(8, 0)], Reason::HashUnusable),
        // A hash function and a group that the host did not offer.
        (&[(8, 2)], Reason::HashUnusable),
        (&[(9, 1)], Reason::GroupUnusable),
        (&[(9, 2)], Reason::GroupUnusable),
        (
            &[(12, 0), (13, 0), (14, 0), (15, 0)],
            Reason::IncorrectPayload,
        ),
    ] {
        let (result, outcome) = refused(true, 1, changes);
        assert_eq!(result, Err(Failure::Refused(reason)), "{changes:?}");
        let refused = Failure::RefusedByPeer {
            code: 1,
            explanation: reason as u8,
        };
        assert_eq!(outcome, Outcome::Failed(refused), "{changes:?}");
    }
}

#[test]
fn an_illegal_reply_is_refused() {
    for changes in [
        &[(4, 0)][..],
        &[(6, 31)],
        &[(8, 2)],
        // A challenge with the number 0.
        &[(12, 0), (13, 0), (14, 0), (15, 0)],
    ] {
        let (_, outcome) = refused(true, 2, changes);
        let refused = Failure::Refused(Reason::IncorrectPayload);
        assert_eq!(outcome, Outcome::Failed(refused), "{changes:?}");
    }
    // Without a challenge of the host, its number has no meaning.
    assert!(refused(false, 2, &[(12, 1)]).0.is_ok());
}

#[test]
fn an_illegal_success_is_refused() {
    for mutual in [false, true] {
        for change in [(4, 0), (6, 31), (8, 2)] {
            let (result, _) = refused(mutual, 3, &[change]);
            let refused = Failure::Refused(Reason::IncorrectPayload);
            assert_eq!(result, Err(refused), "{change:?}");
        }
    }
}

#[test]
fn a_failure_of_another_attempt_is_refused() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    let (_, outcome) = both.run(|number, message| match number {
        4 => message::failure2(TRANSACTION + 1, Reason::Failed),
        _ => message,
    });
    assert_eq!(outcome, Outcome::Running);
    assert_eq!(both.failure1(), Reason::IncorrectPayload);
}

proptest! {
    #[test]
    fn no_bytes_panic_or_authenticate(
        messages in prop::collection::vec(
            (any::<bool>(), 0..2_u8, prop::sample::select(vec![0, 1, 2, 3, 4, 0xf0, 0xf1]),
             prop::collection::vec(any::<u8>(), 0..200)),
            0..8,
        ),
    ) {
        let mut both = Both::equal(Hash::Sha256, Group::Null, true);
        for (receive, family, id, tail) in messages {
            let payload = [&[family, id][..], &tail].concat();
            let _ = both.host.action();
            both.host.received(&payload, &mut both.random);
            both.controller.send(&payload);
            if receive {
                let _ = both.controller.receive(tail.len() * 4, &mut both.random);
            }
            prop_assert!(!matches!(both.controller.outcome(), Outcome::Authenticated(_)));
        }
        prop_assert!(!matches!(both.host.action(), Action::Stop(Ok(_))));
    }

    #[test]
    fn no_damage_panics_or_authenticates(
        number in 0..4_usize,
        len in any::<prop::sample::Index>(),
        tail in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let mut both = Both::equal(Hash::Sha256, Group::Null, true);
        let mut changed = false;
        let (result, outcome) = both.run(|current, mut message| {
            if current == number {
                let original = message.clone();
                message.truncate(len.index(message.len()));
                message.extend(&tail);
                let end = message.len().min(original.len());
                changed = (0..end).any(|at| {
                    !is_ignored(number, at) && message[at] != original[at]
                }) || message.len() < original.len();
            }
            message
        });
        if changed {
            prop_assert!(result.is_err() && !matches!(outcome, Outcome::Authenticated(_)));
        }
    }
}
