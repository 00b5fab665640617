//! Bring-ups of controllers that follow a script.

use super::*;
use crate::initiator::fake::script::{Reply, Script, bytes, number};
use crate::wire::command::admin::{IDENTIFY, KEEP_ALIVE, SET_FEATURES};
use crate::wire::fabrics::kind::{CONNECT, PROPERTY_GET, PROPERTY_SET};
use crate::wire::fabrics::kind_of;
use crate::wire::properties::{CAPABILITIES, CONFIGURATION, STATUS, VERSION};
use crate::wire::status::Status;

/// The answers of a scripted controller.
#[derive(Clone)]
struct Answers {
    connect: u64,
    capabilities: u64,
    /// Statuses in the order of their queries; the last one stays.
    statuses: Vec<u64>,
    identity: identify::Controller,
    queues: u64,
}

impl Default for Answers {
    fn default() -> Self {
        let mut identity: identify::Controller = identify::empty();
        identity.controller_id = 5.into();
        identity.sgl = 1.into();
        identity.keep_alive_granularity = 1.into();
        identity.command_capsule = 260.into();
        Answers {
            connect: 5,
            capabilities: properties::capabilities(64),
            statuses: vec![0, 0, 1],
            identity,
            queues: 0,
        }
    }
}

impl Answers {
    fn script(mut self) -> Script<impl FnMut(&SubmissionEntry) -> Reply> {
        Script::new(move |entry| match (entry.opcode, kind_of(entry)) {
            (FABRICS, CONNECT) => number(self.connect),
            (FABRICS, PROPERTY_GET) => number(match entry.cdw11.get() {
                CAPABILITIES => self.capabilities,
                VERSION => 0x0001_0400,
                _ if self.statuses.len() > 1 => self.statuses.remove(0),
                _ => self.statuses[0],
            }),
            (IDENTIFY, _) => bytes(self.identity.as_bytes().to_vec()),
            (SET_FEATURES, _) => number(self.queues),
            _ => number(0),
        })
    }

    fn start(self) -> Result<Controller<Script<impl FnMut(&SubmissionEntry) -> Reply>>> {
        Controller::start(self.script(), names(), None, Duration::from_secs(5))
    }

    fn refused(self) -> Error {
        self.start().err().unwrap()
    }
}

fn names() -> Names {
    Names {
        host_id: [1; 16],
        host: "nqn.host".to_owned(),
        subsystem: "nqn.subsystem".to_owned(),
    }
}

/// A command of the bring-up: opcode, type of fabrics command, dwords 11 and 12.
fn shape(entry: &SubmissionEntry) -> (u8, u8, u32, u32) {
    let (cdw11, cdw12) = (entry.cdw11.get(), entry.cdw12.get());
    (entry.opcode, kind_of(entry), cdw11, cdw12)
}

#[test]
fn the_bring_up_has_the_order_of_the_specification() {
    let mut controller = Answers::default().start().unwrap();
    controller.keep_alive().unwrap();
    let commands: Vec<_> = controller.channel.commands.iter().map(shape).collect();
    let expected = [
        (FABRICS, CONNECT, 31, 5000),
        (FABRICS, PROPERTY_GET, CAPABILITIES, 0),
        (FABRICS, PROPERTY_SET, CONFIGURATION, 0x0046_0060),
        (FABRICS, PROPERTY_SET, CONFIGURATION, 0x0046_0061),
        (FABRICS, PROPERTY_GET, STATUS, 0),
        (FABRICS, PROPERTY_GET, STATUS, 0),
        (FABRICS, PROPERTY_GET, STATUS, 0),
        (FABRICS, PROPERTY_GET, VERSION, 0),
        (IDENTIFY, 0, 0, 0),
        (KEEP_ALIVE, 0, 0, 0),
    ];
    assert_eq!(commands, expected);
    assert_eq!(controller.version(), 0x0001_0400);
    assert_eq!(controller.id(), 5);
    assert_eq!(controller.max_queue_entries(), 64);
    assert_eq!(controller.capsule_data(), 4096);
    assert_eq!(controller.max_transfer(), None);
}

#[test]
fn all_command_sets_are_enabled_only_if_there_are_several() {
    let mut answers = Answers::default();
    answers.capabilities &= !ALL_COMMAND_SETS;
    let controller = answers.start().unwrap();
    assert_eq!(controller.configuration, 0x0046_0001);
}

#[test]
fn shutdown_waits_for_its_end() {
    let answers = Answers {
        statuses: vec![1, 1, 0b0101, 0b1001],
        ..Answers::default()
    };
    let mut controller = answers.start().unwrap();
    controller.shut_down().unwrap();
    assert_eq!(controller.configuration, 0x0046_4061);
}

#[test]
fn a_controller_that_does_not_get_ready_runs_out_of_time() {
    let answers = Answers {
        statuses: vec![0],
        ..Answers::default()
    };
    assert!(matches!(answers.refused(), Error::Timeout(_)));
    let answers = Answers {
        statuses: vec![u64::from(properties::FATAL)],
        ..Answers::default()
    };
    assert!(matches!(answers.refused(), Error::Unsupported(_)));
}

#[test]
fn controllers_that_lack_something_are_refused() {
    let with = |change: fn(&mut identify::Controller)| {
        let mut answers = Answers::default();
        change(&mut answers.identity);
        answers.refused()
    };
    assert!(matches!(
        with(|it| it.controller_id = 6.into()),
        Error::Malformed(_)
    ));
    assert!(matches!(
        with(|it| it.sgl = 0.into()),
        Error::Unsupported(_)
    ));
    assert!(matches!(
        with(|it| it.keep_alive_granularity = 0.into()),
        Error::Unsupported(_)
    ));
    assert!(matches!(
        with(|it| it.capsule_data_offset = 1.into()),
        Error::Unsupported(_)
    ));
    assert!(matches!(
        with(|it| it.command_capsule = 3.into()),
        Error::Malformed(_)
    ));
}

#[test]
fn authentication_is_asked_for_by_either_bit() {
    for bit in [16, 17] {
        let answers = Answers {
            connect: 5 | 1 << bit,
            ..Answers::default()
        };
        assert!(matches!(answers.refused(), Error::AuthenticationRequired));
    }
}

#[test]
fn a_refused_connect_has_its_status() {
    let script = Script::new(|_: &SubmissionEntry| (Status::CONNECT_INVALID_HOST, 0, Vec::new()));
    let refused = Controller::start(script, names(), None, Duration::ZERO).err();
    assert_eq!(
        refused.unwrap().status(),
        Some(Status::CONNECT_INVALID_HOST)
    );
    let mut long = names();
    long.host = "n".repeat(224);
    let script = Script::new(|_: &SubmissionEntry| number(0));
    let refused = Controller::start(script, long, None, Duration::ZERO).err();
    assert!(matches!(refused.unwrap(), Error::InvalidArgument(_)));
}

#[test]
fn the_lesser_number_of_queues_counts() {
    for (granted, wanted, expected) in [
        (0x0003_0001, 8, 2),
        (0x0001_0003, 8, 2),
        (0x003f_003f, 8, 8),
        (0xffff_ffff, 8, 8),
        (0, 0, 1),
    ] {
        let answers = Answers {
            queues: granted,
            ..Answers::default()
        };
        let mut controller = answers.start().unwrap();
        assert_eq!(controller.request_queues(wanted).unwrap(), expected);
    }
}

#[test]
fn lists_of_namespaces_go_on_over_pages() {
    let controller = |list: fn(u32) -> Vec<u8>| {
        let mut script = Answers::default().script();
        let channel = Script::new(move |entry| {
            if entry.cdw10.get() as u8 == cns::ACTIVE_NAMESPACES && entry.opcode == IDENTIFY {
                return bytes(list(entry.nsid.get()));
            }
            let done = script.execute(*entry, Transfer::None).unwrap();
            (
                done.completion.status(),
                done.completion.result(),
                done.data,
            )
        });
        Controller::start(channel, names(), None, Duration::ZERO).unwrap()
    };
    let mut long = controller(|after| identify::namespace_list(1..=2500, after));
    assert!(long.namespaces().unwrap().into_iter().eq(1..=2500));
    let mut endless = controller(|_| identify::namespace_list(1..=1024, 0));
    assert!(matches!(endless.namespaces(), Err(Error::Malformed(_))));
    let mut short = controller(|_| vec![1, 0, 0, 0]);
    assert!(matches!(short.namespaces(), Err(Error::Malformed(_))));
}
