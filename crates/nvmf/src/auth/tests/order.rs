//! Messages out of order, and replayed ones.

use super::*;

#[test]
fn every_message_out_of_order_fails_the_controller() {
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    let mut messages = both.messages();
    messages.push(message::failure1(TRANSACTION, Reason::Failed));
    messages.push(message::failure2(TRANSACTION, Reason::Failed));
    // Steps of the host: nothing, Negotiate, Reply, Success2.
    for steps in 0..=3 {
        for received in [false, true] {
            for (number, wrong) in messages.iter().enumerate() {
                let legal = match (steps, received) {
                    (0 | 3, false) => number == 0,
                    (1, true) => number == 2 || number == 6,
                    (2, true) => number == 4 || number == 6,
                    (3, true) | (0, true) => continue,
                    _ => false,
                };
                if legal {
                    continue;
                }
                let mut both = Both::equal(Hash::Sha256, Group::Null, true);
                step(&mut both, steps, received);
                both.controller.send(wrong);
                let case = format!("{steps} steps, received {received}, message {number}");
                assert_eq!(both.controller.outcome(), Outcome::Running, "{case}");
                assert_eq!(both.failure1(), Reason::IncorrectMessage, "{case}");
            }
        }
    }
}

#[test]
fn a_receive_out_of_order_fails_the_controller() {
    for (steps, received) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut both = Both::equal(Hash::Sha256, Group::Null, true);
        step(&mut both, steps, received);
        assert_eq!(both.failure1(), Reason::IncorrectMessage, "{steps} steps");
        // The failure stays.
        let negotiate = message::negotiate(1, &HASHES, &GROUPS);
        both.controller.send(&negotiate);
        assert_eq!(both.failure1(), Reason::IncorrectMessage);
    }
}

#[test]
fn every_message_out_of_order_fails_the_host() {
    let mut messages = Both::equal(Hash::Sha256, Group::Null, true).messages();
    messages.push(message::failure2(TRANSACTION, Reason::Failed));
    for (steps, legal) in [(1, 1), (2, 3)] {
        for (number, wrong) in messages.iter().enumerate() {
            if number == legal {
                continue;
            }
            let mut both = Both::equal(Hash::Sha256, Group::Null, true);
            step(&mut both, steps, false);
            assert_eq!(both.host.action(), Action::Receive);
            both.host.received(wrong, &mut both.random);
            assert_eq!(
                both.failure2(),
                Reason::IncorrectMessage,
                "message {number}"
            );
        }
    }
}

#[test]
fn a_receive_without_need_fails_the_host() {
    let messages = Both::equal(Hash::Sha256, Group::Null, true).messages();
    let mut both = Both::equal(Hash::Sha256, Group::Null, true);
    both.host.received(&messages[1], &mut both.random);
    assert_eq!(both.failure2(), Reason::IncorrectMessage);
    both.host.received(&messages[1], &mut both.random);
    assert!(matches!(both.host.action(), Action::Stop(Err(_))));
}

#[test]
fn a_replayed_message_is_refused() {
    for group in GROUPS {
        let messages = Both::equal(Hash::Sha256, group, true).messages();
        for number in [2, 3] {
            let mut both = Both::equal(Hash::Sha256, group, true);
            // Another place in the generator's sequence: challenges and exponents differ.
            let _ = both.random.next_u64();
            let (result, outcome) = both.run(|current, message| {
                if current == number {
                    messages[number].clone()
                } else {
                    message
                }
            });
            assert!(result.is_err(), "message {number}");
            assert!(matches!(outcome, Outcome::Failed(_)), "message {number}");
        }
    }
}
