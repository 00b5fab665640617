//! Hosts against queues that demand authentication, without sockets.

mod host;
mod queue;

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use crate::auth::message::MAX_MESSAGE_BYTES;
use crate::auth::{self, Authenticated, Failure, Group, Policy, SecretPair, Secrets};
use crate::initiator::connection::{self, Digests, Done, FABRICS_CAPSULE_DATA, Parameters};
use crate::initiator::connection::{Connection as HostConnection, Transfer};
use crate::initiator::controller::Controller;
use crate::initiator::queue::Channel;
use crate::initiator::{self, Error};
use crate::target::{Action, Answer, Command, Connection, Ended, Event, Kind, Namespace};
use crate::target::{Ports, Registry, Settings, Subsystem};
use crate::wire::command::{FABRICS, admin};
use crate::wire::fabrics::{
    AUTHENTICATION_REQUIRED, Connect, ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER, kind,
};
use crate::wire::{Status, SubmissionEntry, kv, properties};

const HOST: &str = "nqn.2026-01.example:host";
const STRANGER: &str = "nqn.2026-01.example:stranger";
const SUBSYSTEM: &str = "nqn.2026-01.example:keys";
const HOST_SECRET: &str = "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
const CONTROLLER_SECRET: &str = "DHHC-1:02:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:";
const ENTRIES: u16 = 32;

/// Reads a pair of secrets; without one of the controller, authentication is one-way.
fn pair(host: &str, controller: Option<&str>) -> SecretPair {
    SecretPair {
        host: auth::Secret::parse(host).unwrap(),
        controller: controller.map(|text| auth::Secret::parse(text).unwrap()),
    }
}

fn one_way() -> SecretPair {
    pair(HOST_SECRET, None)
}

fn mutual() -> SecretPair {
    pair(HOST_SECRET, Some(CONTROLLER_SECRET))
}

fn registry(secrets: Option<&str>, max_controllers: usize) -> Arc<Registry> {
    let secrets = secrets.map(|text| Arc::new(Secrets::parse(text).unwrap()));
    let namespace = Namespace {
        nsid: 1,
        kind: Kind::Keys {
            max_value_bytes: 1 << 20,
            max_keys: 0,
        },
        bytes: 1 << 30,
        uuid: [7; 16],
    };
    let subsystem = Subsystem {
        nqn: SUBSYSTEM.to_owned(),
        serial: "1".to_owned(),
        model: "model".to_owned(),
        firmware: "1".to_owned(),
        namespaces: vec![namespace],
        allowed_hosts: None,
        secrets,
    };
    Registry::new(vec![subsystem], max_controllers)
}

/// Makes a registry whose subsystem knows the secrets of [`HOST`].
fn guarded() -> Arc<Registry> {
    guarded_for(16)
}

/// Makes the same for `max_controllers` controllers.
fn guarded_for(max_controllers: usize) -> Arc<Registry> {
    let secrets = format!("{HOST} {HOST_SECRET} {CONTROLLER_SECRET}");
    registry(Some(&secrets), max_controllers)
}

/// A queue: the host's side and the target's, with a backend that does all at once.
struct Link {
    host: HostConnection,
    target: Connection<Vec<u8>>,
    began: Instant,
    /// Commands that the backend got.
    submitted: Vec<Command>,
}

impl Link {
    fn new(registry: &Arc<Registry>) -> Self {
        let address = ([127, 0, 0, 1], 4420).into();
        let ports = Ports {
            own: address,
            peer: address,
        };
        let began = Instant::now();
        let settings = Arc::new(Settings::default());
        let parameters = Parameters {
            digests: Digests::default(),
            entries: ENTRIES,
            capsule_data: FABRICS_CAPSULE_DATA,
        };
        let mut link = Link {
            host: HostConnection::new(parameters),
            target: Connection::new(1, settings, registry.clone(), ports, began),
            began,
            submitted: Vec::new(),
        };
        link.exchange().unwrap();
        link
    }

    /// Moves bytes until none are left.
    fn exchange(&mut self) -> Result<(), connection::Violation> {
        loop {
            let bytes = self.host.output().to_vec();
            self.host.sent(bytes.len());
            let mut actions = Vec::new();
            self.target
                .receive(&bytes, self.began, &|_| 0, &mut actions);
            self.target.go_on();
            for action in std::mem::take(&mut actions) {
                if let Action::Submit { tag, command, .. } = action {
                    self.submitted.push(command);
                    let result = Ok(Answer::Done);
                    self.target.event(Event::Done { tag, result }, &mut actions);
                }
            }
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            self.target.output().fill(&mut slices);
            let answer: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            self.target.sent(answer.len(), &mut actions);
            self.host.receive(&answer)?;
            if bytes.is_empty() && answer.is_empty() {
                return Ok(());
            }
        }
    }

    /// Does a command and returns its status, result and data.
    fn done(&mut self, entry: SubmissionEntry, transfer: Transfer) -> (Status, u64, Vec<u8>) {
        let done = self.execute(entry, transfer).unwrap();
        let (status, result) = (done.completion.status(), done.completion.result());
        (status, result, done.data)
    }

    fn status(&mut self, entry: SubmissionEntry, transfer: Transfer) -> Status {
        self.done(entry, transfer).0
    }

    fn connect(&mut self, host: &str, queue: u16, controller: u16) -> (Status, u64) {
        let connect = Connect {
            format: 0,
            queue,
            queue_entries: ENTRIES - 1,
            attributes: 0,
            keep_alive_ms: 5000,
        };
        let data = ConnectData::new([1; 16], controller, SUBSYSTEM, host);
        let transfer = Transfer::Write(data.as_bytes().into());
        let (status, result, _) = self.done(connect.to_entry(), transfer);
        (status, result)
    }

    /// Makes an admin queue that is connected and not authenticated. Returns its controller, too.
    fn connected(registry: &Arc<Registry>) -> (Self, u16) {
        let mut link = Link::new(registry);
        let (status, result) = link.connect(HOST, 0, DYNAMIC_CONTROLLER);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(result as u32 >> 16 << 16, AUTHENTICATION_REQUIRED);
        (link, result as u16)
    }

    /// Authenticates as far as `steps` steps go. None if the attempt has not ended then.
    fn authenticate(
        &mut self,
        secrets: &SecretPair,
        policy: Policy,
        steps: usize,
    ) -> Option<Result<Authenticated, Failure>> {
        let names = auth::Names {
            host: HOST.to_owned(),
            subsystem: SUBSYSTEM.to_owned(),
        };
        let challenges = Arc::new(auth::Sequence::new(&mut rand::rng()));
        let mut host = auth::Host::new(names, secrets, policy, challenges, 9);
        for _ in 0..steps {
            match host.action() {
                auth::Action::Send(message) => {
                    let entry = auth::Transfer::new(message.len() as u32).to_send();
                    let status = self.status(entry, Transfer::Write(message.into()));
                    assert_eq!(status, Status::SUCCESS);
                }
                auth::Action::Receive => {
                    let (status, _, data) = self.fetch(MAX_MESSAGE_BYTES);
                    assert_eq!((status, data.len()), (Status::SUCCESS, 4096));
                    host.received(&data, &mut rand::rng());
                }
                auth::Action::Stop(result) => return Some(result),
            }
        }
        None
    }

    fn fetch(&mut self, bytes: u32) -> (Status, u64, Vec<u8>) {
        let entry = auth::Transfer::new(bytes).to_receive();
        self.done(entry, Transfer::Read(bytes))
    }

    fn tick(&mut self, after: Duration) -> Option<Ended> {
        self.target.tick(self.began + after, &mut Vec::new());
        self.target.ended().cloned()
    }
}

impl Channel for Link {
    fn execute(&mut self, entry: SubmissionEntry, transfer: Transfer) -> initiator::Result<Done> {
        self.host.submit(entry, transfer, 0)?;
        self.exchange()?;
        self.host.completed().ok_or(Error::Closed)
    }
}

fn names(subsystem: &str) -> initiator::controller::Names {
    initiator::controller::Names {
        host_id: [1; 16],
        host: HOST.to_owned(),
        subsystem: subsystem.to_owned(),
    }
}

/// Brings a controller up by the host's own code.
fn start(
    registry: &Arc<Registry>,
    secrets: Option<SecretPair>,
) -> initiator::Result<Controller<Link>> {
    let link = Link::new(registry);
    Controller::start(link, names(SUBSYSTEM), secrets, Duration::from_secs(5))
}

fn property(offset: u32) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(FABRICS, u32::from(kind::PROPERTY_GET));
    entry.cdw11 = offset.into();
    entry
}

fn exist() -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(kv::EXIST, 1);
    kv::set_key(&mut entry, b"key", 0);
    entry
}
