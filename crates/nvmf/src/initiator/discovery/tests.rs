//! Discovery logs of controllers that follow a script.

use std::time::Duration;

use zerocopy::IntoBytes;

use super::*;
use crate::initiator::controller::Names;
use crate::initiator::fake::script::{Reply, Script, bytes, number};
use crate::wire::command::{FABRICS, SubmissionEntry, admin};
use crate::wire::fabrics::{kind, kind_of};
use crate::wire::{discovery, identify, properties};

fn entries(count: usize) -> Vec<Entry> {
    let address = "[2001:db8::1]:4420".parse().unwrap();
    let name = |number| format!("nqn.{number}");
    (0..count)
        .map(|number| discovery::entry(&name(number), KIND_IO, address))
        .collect()
}

/// Makes a discovery controller. `log` makes the log of the n-th command for it.
fn controller(
    attributes: u8,
    mut log: impl FnMut(u32) -> Vec<u8>,
) -> Controller<Script<impl FnMut(&SubmissionEntry) -> Reply>> {
    let mut identity: identify::Controller = identify::empty();
    identity.sgl = 1.into();
    identity.log_attributes = attributes;
    let mut reads = 0;
    let script = Script::new(move |entry: &SubmissionEntry| match entry.opcode {
        FABRICS if kind_of(entry) == kind::PROPERTY_GET => match entry.cdw11.get() {
            properties::CAPABILITIES => number(properties::capabilities(16)),
            _ => number(1),
        },
        admin::IDENTIFY => bytes(identity.as_bytes().to_vec()),
        admin::GET_LOG_PAGE => {
            let wanted = ((entry.cdw10.get() >> 16) as usize + 1) * 4;
            reads += 1;
            let mut page = log(reads).split_off(entry.cdw12.get() as usize);
            page.resize(wanted, 0);
            bytes(page)
        }
        _ => number(0),
    });
    let names = Names {
        host_id: [1; 16],
        host: "nqn.host".to_owned(),
        subsystem: DISCOVERY_NQN.to_owned(),
    };
    Controller::start(script, names, None, Duration::ZERO).unwrap()
}

#[test]
fn logs_are_read_with_offsets_and_without() {
    for attributes in [0, EXTENDED] {
        for count in [0, 1, 16, 17, 40] {
            let mut controller = controller(attributes, |_| discovery::log(9, &entries(count)));
            let found = read_log(&mut controller).unwrap();
            assert_eq!(found.len(), count);
            let Some(last) = found.last() else {
                continue;
            };
            let expected = Subsystem {
                nqn: format!("nqn.{}", count - 1),
                address: Some("[2001:db8::1]:4420".parse().unwrap()),
                has_namespaces: true,
            };
            assert_eq!(*last, expected);
        }
    }
}

#[test]
fn a_log_that_changes_is_read_again() {
    let mut controller = controller(EXTENDED, |reads| match reads {
        1 | 2 => discovery::log(1, &entries(3)),
        _ => discovery::log(2, &entries(4)),
    });
    assert_eq!(read_log(&mut controller).unwrap().len(), 4);
}

#[test]
fn logs_without_an_end_are_refused() {
    let mut restless = controller(EXTENDED, |reads| discovery::log(reads.into(), &entries(1)));
    assert!(matches!(read_log(&mut restless), Err(Error::Malformed(_))));
    let mut long = controller(EXTENDED, |_| {
        let mut log = discovery::log(1, &[]);
        log[8..16].fill(0xff);
        log
    });
    assert!(matches!(read_log(&mut long), Err(Error::Malformed(_))));
}

#[test]
fn entries_are_checked() {
    let found = |change: fn(&mut Entry)| {
        let mut entry = entries(1);
        change(&mut entry[0]);
        let log = discovery::log(1, &entry);
        read_log(&mut controller(EXTENDED, move |_| log.clone()))
    };
    assert_eq!(found(|entry| entry.transport = 1).unwrap()[0].address, None);
    assert_eq!(
        found(|entry| entry.service = [b'x'; 32]).unwrap()[0].address,
        None
    );
    assert!(!found(|entry| entry.kind = 3).unwrap()[0].has_namespaces);
    assert!(found(|entry| entry.subsystem = [0; 256]).is_err());
    assert!(found(|entry| entry.subsystem = [0xff; 256]).is_err());
}

#[test]
fn a_client_does_not_take_the_discovery_service_for_a_subsystem() {
    let settings = Settings::new("nqn.2026-11.org.example:host", [1; 16], DISCOVERY_NQN);
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let refused = crate::initiator::client::Client::connect(address, &settings);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}
