//! Hosts against controllers.

mod damage;
mod order;

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::message::{self, Message};
use super::testing::{controller_secret, hex, host_secret, names};
use super::*;

const ROOM: usize = message::MAX_MESSAGE_BYTES as usize;
const TRANSACTION: u16 = 0x0506;
const HASHES: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];
const GROUPS: [Group; 2] = [Group::Null, Group::Ffdhe2048];

fn policy(hash: Hash, group: Group) -> Policy {
    Policy {
        hashes: vec![hash],
        groups: vec![group],
    }
}

fn pair(mutual: bool) -> SecretPair {
    SecretPair {
        host: host_secret(1),
        controller: mutual.then(|| controller_secret(2)),
    }
}

/// A host, a controller and their generator.
struct Both {
    host: Host,
    controller: Controller,
    random: StdRng,
}

impl Both {
    fn new(host: (SecretPair, Policy), controller: (SecretPair, Policy)) -> Self {
        let random = StdRng::seed_from_u64(1);
        let sequence = || Arc::new(Sequence::new(&mut StdRng::seed_from_u64(2)));
        let (secrets, policy) = host;
        let host = Host::new(names(), &secrets, policy, sequence(), TRANSACTION);
        let (secrets, policy) = controller;
        let controller = Controller::new(names(), &secrets, policy, sequence());
        Both {
            host,
            controller,
            random,
        }
    }

    fn equal(hash: Hash, group: Group, mutual: bool) -> Self {
        let policy = policy(hash, group);
        Both::new((pair(mutual), policy.clone()), (pair(mutual), policy))
    }

    fn next_host(&mut self) {
        let (pair, policy) = (pair(true), Policy::default());
        let sequence = Arc::new(Sequence::new(&mut self.random));
        self.host = Host::new(names(), &pair, policy, sequence, TRANSACTION);
    }

    /// Runs until the host stops. `change` gets each message with its number from 0.
    fn run(
        &mut self,
        mut change: impl FnMut(usize, Vec<u8>) -> Vec<u8>,
    ) -> (Result<Authenticated, Failure>, Outcome) {
        for number in 0.. {
            match self.host.action() {
                Action::Send(payload) => self.controller.send(&change(number, payload)),
                Action::Receive => {
                    let payload = self.controller.receive(ROOM, &mut self.random).unwrap();
                    let payload = change(number, payload);
                    self.host.received(&payload, &mut self.random);
                }
                Action::Stop(result) => return (result, self.controller.outcome()),
            }
        }
        unreachable!()
    }

    /// Runs unchanged, and returns the messages.
    fn messages(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let (result, _) = self.run(|_, message| {
            messages.push(message.clone());
            message
        });
        assert!(result.is_ok());
        messages
    }

    fn receive(&mut self) -> Vec<u8> {
        self.controller.receive(ROOM, &mut self.random).unwrap()
    }

    /// Fetches a failure from the controller.
    fn failure1(&mut self) -> Reason {
        let payload = self.receive();
        let Ok((Message::Failure1(failure), [])) = Message::parse(&payload) else {
            panic!("no failure: {payload:?}");
        };
        assert_eq!(failure.code, 1);
        let reason = Reason::from_byte(failure.explanation).unwrap();
        let failed = Outcome::Failed(Failure::Refused(reason));
        assert_eq!(self.controller.outcome(), failed);
        reason
    }

    /// Takes a failure from the host.
    fn failure2(&mut self) -> Reason {
        let Action::Send(payload) = self.host.action() else {
            panic!("the host is content");
        };
        let Ok((Message::Failure2(failure), [])) = Message::parse(&payload) else {
            panic!("no failure: {payload:?}");
        };
        let reason = Reason::from_byte(failure.explanation).unwrap();
        let stopped = Action::Stop(Err(Failure::Refused(reason)));
        assert_eq!(self.host.action(), stopped);
        reason
    }
}

const REFUSED_BY_PEER: Failure = Failure::RefusedByPeer {
    code: 1,
    explanation: Reason::Failed as u8,
};

#[test]
fn every_hash_and_group_authenticates() {
    for hash in HASHES {
        for group in GROUPS {
            for mutual in [false, true] {
                let mut both = Both::equal(hash, group, mutual);
                let expected = Authenticated {
                    hash,
                    group,
                    mutual,
                };
                let result = both.run(|_, message| message);
                assert_eq!(result, (Ok(expected), Outcome::Authenticated(expected)));
            }
        }
    }
}

#[test]
fn a_controller_with_a_secret_serves_a_host_without() {
    let mut both = Both::new(
        (pair(false), Policy::default()),
        (pair(true), Policy::default()),
    );
    let (result, _) = both.run(|_, message| message);
    assert!(!result.unwrap().mutual);
}

#[test]
fn the_controller_prefers_by_its_own_order() {
    let own = Policy {
        hashes: vec![Hash::Sha384, Hash::Sha512],
        groups: vec![Group::Null, Group::Ffdhe2048],
    };
    let mut both = Both::new((pair(true), Policy::default()), (pair(true), own));
    let result = both.run(|_, message| message).0.unwrap();
    assert_eq!((result.hash, result.group), (Hash::Sha384, Group::Null));
}

#[test]
fn the_negotiation_of_linux_is_understood() {
    // Three hash functions and six groups; four of the groups are unknown here.
    let mut negotiate = vec![0, 0, 0, 0, 6, 5, 0, 1, 1, 0, 3, 6, 1, 2, 3];
    negotiate.resize(8 + 34, 0);
    negotiate.extend(0..6);
    negotiate.resize(72, 0);
    let mut both = Both::new(
        (pair(true), Policy::default()),
        (pair(true), Policy::default()),
    );
    both.controller.send(&negotiate);
    let challenge = both.receive();
    let head = [1, 1, 0, 0, 6, 5, 64, 0, 3, 1, 0, 1];
    assert_eq!(challenge[..12], head);
    assert_eq!(challenge.len(), 16 + 64 + 256);
}

#[test]
fn a_policy_without_a_common_choice_is_refused() {
    for (own, reason) in [
        (policy(Hash::Sha384, Group::Null), Reason::HashUnusable),
        (
            policy(Hash::Sha256, Group::Ffdhe2048),
            Reason::GroupUnusable,
        ),
    ] {
        let offered = policy(Hash::Sha256, Group::Null);
        let mut both = Both::new((pair(false), offered), (pair(false), own));
        let (result, outcome) = both.run(|_, message| message);
        let explanation = reason as u8;
        let refused = Failure::RefusedByPeer {
            code: 1,
            explanation,
        };
        assert_eq!(result, Err(refused));
        assert_eq!(outcome, Outcome::Failed(Failure::Refused(reason)));
    }
}

/// Lets the host send `steps` messages, and receive an answer to the last one or not.
fn step(both: &mut Both, steps: usize, receive_last: bool) {
    for index in 0..steps {
        let Action::Send(payload) = both.host.action() else {
            panic!("nothing to send");
        };
        both.controller.send(&payload);
        if index + 1 < steps || receive_last {
            assert_eq!(both.host.action(), Action::Receive);
            let payload = both.receive();
            both.host.received(&payload, &mut both.random);
        }
    }
}

#[test]
fn a_wrong_secret_of_the_host_is_refused() {
    for group in GROUPS {
        for wrong in [host_secret(2), host_secret(0), controller_secret(1)] {
            let policy = policy(Hash::Sha256, group);
            let wrong = SecretPair {
                host: wrong,
                ..pair(true)
            };
            let mut both = Both::new((wrong, policy.clone()), (pair(true), policy));
            let (result, outcome) = both.run(|_, message| message);
            assert_eq!(result, Err(REFUSED_BY_PEER));
            assert_eq!(outcome, Outcome::Failed(Failure::Refused(Reason::Failed)));
        }
    }
}

#[test]
fn a_wrong_secret_of_the_controller_is_refused() {
    let wrong = SecretPair {
        controller: Some(host_secret(1)),
        ..pair(true)
    };
    let policy = policy(Hash::Sha256, Group::Null);
    let mut both = Both::new((pair(true), policy.clone()), (wrong, policy));
    let (result, outcome) = both.run(|_, message| message);
    assert_eq!(result, Err(Failure::Refused(Reason::Failed)));
    assert_eq!(outcome, Outcome::Failed(REFUSED_BY_PEER));
}

#[test]
fn a_controller_without_a_secret_cannot_answer() {
    let policy = policy(Hash::Sha256, Group::Null);
    let mut both = Both::new((pair(true), policy.clone()), (pair(false), policy));
    let (result, outcome) = both.run(|_, message| message);
    assert_eq!(result, Err(REFUSED_BY_PEER));
    assert_eq!(outcome, Outcome::Failed(Failure::Refused(Reason::Failed)));
}

#[test]
fn a_controller_that_omits_its_answer_is_refused() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    let (result, _) = both.run(|number, message| match number {
        3 => message::success1(TRANSACTION, Hash::Sha256, None),
        _ => message,
    });
    assert_eq!(result, Err(Failure::Refused(Reason::IncorrectPayload)));
}

#[test]
fn an_answer_without_a_question_is_refused() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, false);
    let (result, _) = both.run(|number, message| match number {
        3 => message::success1(TRANSACTION, Hash::Sha256, Some(&[0; 32])),
        _ => message,
    });
    assert_eq!(result, Err(Failure::Refused(Reason::IncorrectPayload)));
}

#[test]
fn a_challenge_is_new_in_every_attempt() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    let one = both.messages().swap_remove(1);
    both.next_host();
    let two = both.messages().swap_remove(1);
    let sequence = |message: &[u8]| u32::from_le_bytes(message[12..16].try_into().unwrap());
    assert_eq!(sequence(&two), sequence(&one).wrapping_add(1));
    assert_ne!(one[16..], two[16..]);
}

#[test]
fn an_authenticated_queue_authenticates_again() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    both.messages();
    both.next_host();
    step(&mut both, 2, true);
    let outcome = both.controller.outcome();
    assert!(matches!(outcome, Outcome::Authenticated(_)));
    both.controller.send(&[2; 99]);
    assert_eq!(both.controller.outcome(), Outcome::Running);
    assert_eq!(both.failure1(), Reason::IncorrectMessage);
}

#[test]
fn a_small_buffer_gets_nothing_and_changes_nothing() {
    let mut both = Both::equal(Hash::Sha256, Group::Ffdhe2048, true);
    for needed_bytes in [16 + 32 + 256, 16 + 32] {
        let Action::Send(payload) = both.host.action() else {
            panic!("nothing to send");
        };
        both.controller.send(&payload);
        let result = both.controller.receive(needed_bytes - 1, &mut both.random);
        assert_eq!(result, Err(ReceiveError { needed_bytes }));
        let payload = both.controller.receive(needed_bytes, &mut both.random);
        let payload = payload.unwrap();
        assert_eq!(payload.len(), needed_bytes);
        assert_eq!(both.host.action(), Action::Receive);
        both.host.received(&payload, &mut both.random);
    }
    let (result, outcome) = both.run(|_, message| message);
    assert!(result.is_ok() && matches!(outcome, Outcome::Authenticated(_)));
}

#[test]
fn a_host_answers_a_challenge_as_another_program_does() {
    let mut random = StdRng::seed_from_u64(1);
    let sequence = Arc::new(Sequence::new(&mut random));
    let mut host = Host::new(
        names(),
        &pair(false),
        Policy::default(),
        sequence,
        TRANSACTION,
    );
    assert!(matches!(host.action(), Action::Send(_)));
    let mut challenge = vec![1, 1, 0, 0, 6, 5, 32, 0, 1, 0, 0, 0, 4, 3, 2, 1];
    challenge.extend(0..32);
    host.received(&challenge, &mut random);
    let Action::Send(reply) = host.action() else {
        panic!("the challenge was refused");
    };
    let answer = "67368694355ec84aa04cc6fe3b7cb2d3dc6bbbe31449fd49af063bd56bd6e363";
    assert_eq!(reply[16..48], hex(answer));
}

#[test]
fn no_challenge_has_the_number_0() {
    let sequence = Sequence(AtomicU32::new(u32::MAX));
    assert_eq!([sequence.next(), sequence.next()], [u32::MAX, 1]);
}

#[test]
fn a_failure_of_a_peer_is_printed() {
    let failure = Failure::RefusedByPeer {
        code: 1,
        explanation: 4,
    };
    assert_eq!(
        failure.to_string(),
        "the peer refused: no usable hash function"
    );
    let failure = Failure::RefusedByPeer {
        code: 2,
        explanation: 4,
    };
    assert_eq!(
        failure.to_string(),
        "the peer refused: code 2, explanation 4"
    );
}
