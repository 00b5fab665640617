//! Queues of a target whose host does as it likes.

use super::*;

const ALL_STEPS: usize = 8;

/// Asserts that a queue refuses all commands but those of authentication, and does none.
fn assert_refuses_all(link: &mut Link) {
    let is_other = |kind: &u8| {
        let own = [kind::AUTHENTICATION_SEND, kind::AUTHENTICATION_RECEIVE];
        !own.contains(kind)
    };
    let fabrics = (0..=u8::MAX).filter(is_other).map(|kind| (FABRICS, kind));
    let others = (0..=u8::MAX).filter(|&opcode| opcode != FABRICS);
    for (opcode, nsid) in others.map(|opcode| (opcode, 1)).chain(fabrics) {
        let entry = SubmissionEntry::new(opcode, u32::from(nsid));
        for transfer in [
            Transfer::None,
            Transfer::Write(vec![1; 1024].into()),
            Transfer::Read(4096),
        ] {
            let answer = link.done(entry, transfer);
            let expected = (Status::AUTHENTICATION_REQUIRED, 0, Vec::new());
            assert_eq!(answer, expected, "{entry:?}");
        }
    }
    assert!(link.submitted.is_empty() && link.target.event_requests.is_empty());
}

#[test]
fn hosts_authenticate_with_each_group_one_way_and_mutually() {
    for group in [Group::Null, Group::Ffdhe2048] {
        for secrets in [one_way(), mutual()] {
            let policy = Policy {
                groups: vec![group],
                ..Policy::default()
            };
            let (mut link, _) = Link::connected(&guarded());
            let result = link.authenticate(&secrets, policy, ALL_STEPS);
            let authenticated = result.unwrap().unwrap();
            assert_eq!(authenticated.group, group);
            assert_eq!(authenticated.mutual, secrets.controller.is_some());
            let (status, result, _) = link.done(property(properties::VERSION), Transfer::None);
            assert_eq!(status, Status::SUCCESS);
            assert_eq!(result, u64::from(properties::VERSION_2_0));
        }
    }
}

#[test]
fn an_admin_queue_refuses_all_before_authentication() {
    let (mut link, _) = Link::connected(&guarded());
    let mut enable = SubmissionEntry::new(FABRICS, u32::from(kind::PROPERTY_SET));
    enable.cdw11 = properties::CONFIGURATION.into();
    enable.cdw12 = properties::ENABLE.into();
    let mut silent = SubmissionEntry::new(admin::SET_FEATURES, 0);
    silent.cdw10 = u32::from(crate::wire::features::KEEP_ALIVE).into();
    for entry in [enable, silent] {
        let status = link.status(entry, Transfer::None);
        assert_eq!(status, Status::AUTHENTICATION_REQUIRED);
    }
    assert_refuses_all(&mut link);
    let controller = link.target.controller.clone().unwrap();
    let keep_alive = &controller.keep_alive_ms;
    assert_eq!(keep_alive.load(std::sync::atomic::Ordering::Relaxed), 5000);
    assert_eq!((controller.configuration(), controller.status()), (0, 0));
    // The refusals do not disturb an attempt, either.
    let result = link.authenticate(&one_way(), Policy::default(), ALL_STEPS);
    assert!(result.unwrap().is_ok());
}

#[test]
fn all_is_refused_in_the_middle_of_an_attempt() {
    for steps in 1..=4 {
        let (mut link, _) = Link::connected(&guarded());
        let result = link.authenticate(&mutual(), Policy::default(), steps);
        assert_eq!(result, None);
        assert_refuses_all(&mut link);
    }
}

#[test]
fn an_io_queue_needs_its_own_authentication() {
    let registry = guarded();
    let controller = start(&registry, Some(one_way())).unwrap();
    let mut link = Link::new(&registry);
    let (status, result) = link.connect(HOST, 1, controller.id());
    assert_eq!(status, Status::SUCCESS);
    let demand = u32::from(controller.id()) | AUTHENTICATION_REQUIRED;
    assert_eq!(result as u32, demand);
    let status = link.status(exist(), Transfer::None);
    assert_eq!(status, Status::AUTHENTICATION_REQUIRED);
    assert_refuses_all(&mut link);
    let result = link.authenticate(&one_way(), Policy::default(), ALL_STEPS);
    assert!(result.unwrap().is_ok());
    assert_eq!(link.status(exist(), Transfer::None), Status::SUCCESS);
    assert_eq!(link.submitted.len(), 1);
}

#[test]
fn an_io_queue_does_not_connect_before_its_admin_queue_is_authenticated() {
    let registry = guarded();
    let (_admin, id) = Link::connected(&registry);
    let mut link = Link::new(&registry);
    let refused = link.connect(HOST, 1, id);
    assert_eq!(refused, (Status::SEQUENCE_ERROR, 0));
    let refused = link.connect(STRANGER, 1, id);
    assert_eq!(refused, (Status::CONNECT_INVALID_HOST, 0));
}

#[test]
fn a_host_without_a_secret_is_refused() {
    let registry = guarded();
    let mut link = Link::new(&registry);
    let refused = link.connect(STRANGER, 0, DYNAMIC_CONTROLLER);
    assert_eq!(refused, (Status::CONNECT_INVALID_HOST, 0));
    assert_eq!(registry.controllers(), 0);
}

#[test]
fn a_wrong_secret_ends_the_connection_behind_the_failure() {
    let (mut link, _) = Link::connected(&guarded());
    let wrong = pair(CONTROLLER_SECRET, None);
    let result = link.authenticate(&wrong, Policy::default(), ALL_STEPS);
    let failure = Failure::RefusedByPeer {
        code: 1,
        explanation: auth::Reason::Failed as u8,
    };
    assert_eq!(result, Some(Err(failure)));
    let failure = Failure::Refused(auth::Reason::Failed);
    assert_eq!(link.target.ended(), Some(&Ended::Unauthenticated(failure)));
}

#[test]
fn a_queue_that_never_authenticates_ends_in_time() {
    let handshake = Settings::default().handshake;
    let late = handshake + Duration::from_millis(1);
    for steps in 0..=4 {
        let registry = guarded();
        let controller = start(&registry, Some(one_way())).unwrap();
        let (admin, _) = Link::connected(&registry);
        let mut io = Link::new(&registry);
        io.connect(HOST, 1, controller.id());
        for mut link in [admin, io] {
            // The limit of Keep Alive is another one.
            let keep_alive = &link.target.controller.as_ref().unwrap().keep_alive_ms;
            keep_alive.store(0, std::sync::atomic::Ordering::Relaxed);
            link.authenticate(&mutual(), Policy::default(), steps);
            assert_eq!(link.tick(handshake), None);
            assert_eq!(link.tick(late), Some(Ended::Silence), "{steps}");
        }
    }
}

#[test]
fn a_queue_that_proves_nothing_takes_no_number() {
    let registry = guarded();
    let controller = start(&registry, Some(one_way())).unwrap();
    let (mut stranger, mut host) = (Link::new(&registry), Link::new(&registry));
    stranger.connect(HOST, 2, controller.id());
    host.connect(HOST, 2, controller.id());
    let result = host.authenticate(&mutual(), Policy::default(), ALL_STEPS);
    assert!(matches!(result, Some(Ok(_))));
    assert_eq!(host.target.ended(), None);
    // A later one with the same number has to go, even with the secret.
    stranger.authenticate(&mutual(), Policy::default(), ALL_STEPS);
    assert_eq!(stranger.target.ended(), Some(&Ended::QueueTaken));
}

#[test]
fn queues_that_prove_nothing_take_no_place_of_hosts() {
    let registry = guarded_for(2);
    let strangers: Vec<_> = (0..5).map(|_| Link::connected(&registry)).collect();
    for _ in 0..2 {
        let (mut host, _) = Link::connected(&registry);
        let result = host.authenticate(&mutual(), Policy::default(), ALL_STEPS);
        assert!(matches!(result, Some(Ok(_))));
        assert_eq!(host.target.ended(), None);
        std::mem::forget(host);
    }
    let (mut third, _) = Link::connected(&registry);
    third.authenticate(&mutual(), Policy::default(), ALL_STEPS);
    assert_eq!(third.target.ended(), Some(&Ended::NoRoom));
    drop(strangers);
}

#[test]
fn an_authenticated_queue_outlives_the_handshake() {
    let registry = guarded();
    let controller = start(&registry, Some(one_way())).unwrap();
    let mut link = Link::new(&registry);
    link.connect(HOST, 2, controller.id());
    link.authenticate(&mutual(), Policy::default(), ALL_STEPS);
    assert_eq!(link.tick(Settings::default().handshake * 2), None);
}

#[test]
fn a_ready_queue_authenticates_again_and_serves_meanwhile() {
    for steps in [3, ALL_STEPS] {
        let (mut link, _) = Link::connected(&guarded());
        link.authenticate(&one_way(), Policy::default(), ALL_STEPS);
        link.authenticate(&mutual(), Policy::default(), steps);
        let status = link.status(property(properties::STATUS), Transfer::None);
        assert_eq!(status, Status::SUCCESS);
    }
}

#[test]
fn a_new_attempt_that_fails_shuts_the_queue() {
    let (mut link, _) = Link::connected(&guarded());
    link.authenticate(&one_way(), Policy::default(), ALL_STEPS);
    let wrong = pair(CONTROLLER_SECRET, None);
    assert_eq!(link.authenticate(&wrong, Policy::default(), 3), None);
    let status = link.status(property(properties::STATUS), Transfer::None);
    assert_eq!(status, Status::AUTHENTICATION_REQUIRED);
    assert_eq!(link.target.ended(), None);
    assert_eq!(link.fetch(MAX_MESSAGE_BYTES).0, Status::SUCCESS);
    let ended = link.target.ended();
    assert!(matches!(ended, Some(Ended::Unauthenticated(_))));
}

#[test]
fn fields_of_the_transfer_are_checked_and_change_nothing() {
    let (mut link, _) = Link::connected(&guarded());
    let message = |bytes: usize| Transfer::Write(vec![0; bytes].into());
    let of = auth::Transfer::new;
    let other = auth::Transfer {
        protocol: 0xea,
        ..of(16)
    };
    let long = 8196;
    for (entry, transfer, status) in [
        (
            of(16).to_send(),
            Transfer::Read(16),
            Status::SGL_TYPE_INVALID,
        ),
        (of(16).to_receive(), message(16), Status::SGL_TYPE_INVALID),
        (other.to_send(), message(16), Status::INVALID_FIELD),
        (
            other.to_receive(),
            Transfer::Read(16),
            Status::INVALID_FIELD,
        ),
        (of(17).to_send(), message(16), Status::SGL_LENGTH_INVALID),
        (
            of(long).to_send(),
            message(long as usize),
            Status::SGL_TYPE_INVALID,
        ),
        (
            of(long).to_receive(),
            Transfer::Read(long),
            Status::INVALID_FIELD,
        ),
    ] {
        assert_eq!(link.status(entry, transfer), status, "{entry:?}");
    }
    link.authenticate(&one_way(), Policy::default(), 1);
    let (status, _, data) = link.fetch(64);
    assert_eq!((status, data.len()), (Status::INVALID_FIELD, 0));
    let (status, _, data) = link.fetch(500);
    assert_eq!((status, data.len()), (Status::SUCCESS, 500));
    assert!(data[400..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_queue_without_demand_has_no_authentication() {
    let mut link = Link::new(&registry(None, 16));
    let (status, result) = link.connect(STRANGER, 0, DYNAMIC_CONTROLLER);
    assert_eq!((status, result >> 16), (Status::SUCCESS, 0));
    assert_eq!(link.fetch(4096).0, Status::INVALID_OPCODE);
}
