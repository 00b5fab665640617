//! Clients that authenticate to a server over sockets.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::*;
use crate::auth::{Failure, Secret, SecretPair, Secrets};
use crate::initiator::Error;
use crate::initiator::client::{self, Client};
use crate::target::{Answer, Command, Kind, Namespace, Subsystem};
use crate::wire::Status;

const HOST: &str = "nqn.2026-01.example:host";
const SUBSYSTEM: &str = "nqn.2026-01.example:keys";
const HOST_SECRET: &str = "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
const CONTROLLER_SECRET: &str = "DHHC-1:02:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:";

/// A backend that has every key and no value.
struct AllKeys {
    done: Vec<u64>,
    readiness: OwnedFd,
}

impl Backend for AllKeys {
    type Buffer = Vec<u8>;

    fn submit(&mut self, tag: u64, _: u32, _: Command) {
        self.done.push(tag);
    }

    fn supply(&mut self, _: u64, _: Vec<u8>) {}

    fn give_back(&mut self, _: u64, _: Vec<u8>) {}

    fn abort(&mut self, _: u64) {}

    fn poll(&mut self, events: &mut Vec<Event<Vec<u8>>>) -> io::Result<()> {
        events.extend(self.done.drain(..).map(|tag| Event::Done {
            tag,
            result: Ok(Answer::Done),
        }));
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    fn buffer_bytes(&self) -> usize {
        0
    }

    fn is_short_of_buffers(&self) -> bool {
        false
    }

    fn used_bytes(&self, _: u32) -> u64 {
        0
    }
}

/// Runs a server that knows the secrets of [`HOST`] while `work` runs.
fn serve(work: impl FnOnce(SocketAddr)) {
    let secrets = format!("{HOST} {HOST_SECRET} {CONTROLLER_SECRET}");
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
        secrets: Some(Arc::new(Secrets::parse(&secrets).unwrap())),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let backend = AllKeys {
        done: Vec::new(),
        readiness: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
    };
    let registry = Registry::new(vec![subsystem], 16);
    let (settings, limits) = (Settings::default(), Limits::default());
    let server = Server::new(listener, registry, settings, limits, backend).unwrap();
    let stop = Stop::new().unwrap();
    let served = stop.clone();
    let loop_thread = thread::spawn(move || server.run(&served).map(drop));
    work(address);
    stop.stop();
    loop_thread.join().unwrap().unwrap();
}

fn settings(host: &str, secret: &str, controller: Option<&str>) -> client::Settings {
    let mut settings = client::Settings::new(host, [1; 16], SUBSYSTEM);
    settings.queues = 2;
    settings.secrets = Some(SecretPair {
        host: Secret::parse(secret).unwrap(),
        controller: controller.map(|text| Secret::parse(text).unwrap()),
    });
    settings
}

#[test]
fn a_client_with_secrets_does_commands() {
    serve(|address| {
        for controller in [None, Some(CONTROLLER_SECRET)] {
            let settings = settings(HOST, HOST_SECRET, controller);
            let mut client = Client::connect(address, &settings).unwrap();
            assert!(client.exists(1, "key").unwrap());
            client.close().unwrap();
        }
    });
}

#[test]
fn a_client_with_wrong_secrets_hears_the_reason() {
    serve(|address| {
        for (secret, controller, is_by_peer) in [
            (CONTROLLER_SECRET, None, true),
            (HOST_SECRET, Some(HOST_SECRET), false),
        ] {
            let settings = settings(HOST, secret, controller);
            let refused = Client::connect(address, &settings).err();
            let Some(Error::AuthenticationFailed(failure)) = refused else {
                panic!("{refused:?}");
            };
            let found = matches!(failure, Failure::RefusedByPeer { .. });
            assert_eq!(found, is_by_peer);
        }
    });
}

#[test]
fn a_client_without_a_secret_in_the_file_is_refused() {
    serve(|address| {
        let settings = settings("nqn.2026-01.example:stranger", HOST_SECRET, None);
        let refused = Client::connect(address, &settings).err();
        let status = refused.and_then(|error| error.status());
        assert_eq!(status, Some(Status::CONNECT_INVALID_HOST));
    });
}
