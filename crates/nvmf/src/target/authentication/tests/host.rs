//! The host's own code against queues of a target.

use super::*;

#[test]
fn a_host_with_secrets_uses_all_queues() {
    for secrets in [one_way(), mutual()] {
        let registry = guarded();
        let controller = start(&registry, Some(secrets)).unwrap();
        for queue in 1..=2 {
            let mut link = Link::new(&registry);
            let connected = controller.connect_queue(&mut link, queue, ENTRIES);
            connected.unwrap();
            assert_eq!(link.status(exist(), Transfer::None), Status::SUCCESS);
        }
    }
}

#[test]
fn a_host_without_a_secret_is_told_of_the_demand() {
    let refused = start(&guarded(), None).err();
    assert!(matches!(refused, Some(Error::AuthenticationRequired)));
}

#[test]
fn a_wrong_secret_of_the_host_is_an_error_of_authentication() {
    let wrong = pair(CONTROLLER_SECRET, None);
    let Some(Error::AuthenticationFailed(failure)) = start(&guarded(), Some(wrong)).err() else {
        panic!("the secret is wrong");
    };
    assert!(matches!(failure, Failure::RefusedByPeer { code: 1, .. }));
}

#[test]
fn a_host_refuses_a_controller_with_a_wrong_secret() {
    let wrong = pair(HOST_SECRET, Some(HOST_SECRET));
    let refused = start(&guarded(), Some(wrong)).err();
    let failure = Failure::Refused(auth::Reason::Failed);
    assert!(matches!(refused, Some(Error::AuthenticationFailed(found)) if found == failure));
}

#[test]
fn a_host_with_a_controller_secret_insists_on_it() {
    // The controller has no secret of its own.
    let one_sided = registry(Some(&format!("{HOST} {HOST_SECRET}")), 16);
    let refused = start(&one_sided, Some(mutual())).err();
    assert!(matches!(refused, Some(Error::AuthenticationFailed(_))));
    // The controller asks for nothing.
    let refused = start(&registry(None, 16), Some(mutual())).err();
    assert!(matches!(refused, Some(Error::Unauthenticated)));
    assert!(start(&registry(None, 16), Some(one_way())).is_ok());
}

#[test]
fn discovery_needs_no_authentication_and_hides_subsystems_from_strangers() {
    let registry = guarded();
    for (host, expected) in [(HOST, 1), (STRANGER, 0)] {
        let mut names = names(DISCOVERY_NQN);
        names.host = host.to_owned();
        let link = Link::new(&registry);
        let started = Controller::start(link, names, Some(mutual()), Duration::ZERO);
        let mut controller = started.unwrap();
        let log = initiator::discovery::read_log(&mut controller).unwrap();
        let found = log.iter().filter(|entry| entry.nqn == SUBSYSTEM);
        assert_eq!(found.count(), expected);
    }
}
