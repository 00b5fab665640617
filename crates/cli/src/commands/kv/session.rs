//! The way to a namespace: through the network, or through a device of the kernel.

use std::net::{SocketAddr, ToSocketAddrs};

use terrace_node_server::read_secrets;
use terrace_nvmf::auth::SecretPair;
use terrace_nvmf::initiator::client::{Client, Condition, Digests, Settings, Value};
use terrace_nvmf::initiator::discovery::discover;
use terrace_nvmf::initiator::{Error, Result as KvResult};
use terrace_nvmf::wire::Status;
use terrace_nvmf::wire::fabrics::DISCOVERY_NQN;
use terrace_nvmf_passthrough as passthrough;
use terrace_storage::Escaped;

use crate::arguments::KvNode;
use crate::failure::{Failure, Result, exit};
use crate::node::failed;
use crate::text::{escape, shown};

const OUT_OF_REACH: &str = "check --address, and whether `terrace node serve` runs there";

/// A namespace that commands go to.
pub struct Session {
    way: Way,
    /// The address or the device, for messages.
    place: String,
}

enum Way {
    Network { client: Box<Client>, nsid: u32 },
    Kernel(Box<passthrough::Client>),
}

impl Session {
    pub fn open(node: &KvNode) -> Result<Self> {
        if !node.local && node.device.is_none() {
            return Ok(Session {
                way: Way::Network {
                    client: Box::new(connect(node)?),
                    nsid: node.namespace,
                },
                place: place(node),
            });
        }
        let mut settings = passthrough::Settings::new(node.namespace);
        settings.subsystem_nqn.clone_from(&node.subsystem);
        let client = match &node.device {
            Some(path) => passthrough::Client::open_device(path, &settings),
            None => passthrough::Client::open(&settings),
        };
        let client = client.map_err(not_opened)?;
        Ok(Session {
            place: shown(client.path()),
            way: Way::Kernel(Box::new(client)),
        })
    }

    /// Returns the address or the device.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn store(&mut self, key: &[u8], value: &[u8], condition: Condition) -> KvResult<()> {
        match &mut self.way {
            Way::Network { client, nsid } => client.store(*nsid, key, value, condition),
            Way::Kernel(client) => client.store(key, value, condition),
        }
    }

    /// Returns a value, or its first bytes if it is larger than the namespace's largest.
    pub fn retrieve(&mut self, key: &[u8]) -> KvResult<Option<Value>> {
        match &mut self.way {
            Way::Network { client, nsid } => {
                let nsid = *nsid;
                let format = client
                    .with_controller(|controller| controller.key_namespace(nsid))?
                    .format;
                client.retrieve(nsid, key, format.max_value.get())
            }
            Way::Kernel(client) => client.retrieve(key, client.format().max_value.get()),
        }
    }

    pub fn delete(&mut self, key: &[u8]) -> KvResult<bool> {
        match &mut self.way {
            Way::Network { client, nsid } => client.delete(*nsid, key),
            Way::Kernel(client) => client.delete(key),
        }
    }

    pub fn exists(&mut self, key: &[u8]) -> KvResult<bool> {
        match &mut self.way {
            Way::Network { client, nsid } => client.exists(*nsid, key),
            Way::Kernel(client) => client.exists(key),
        }
    }

    pub fn list(&mut self, from: Option<&[u8]>, max_bytes: u32) -> KvResult<Vec<Vec<u8>>> {
        match &mut self.way {
            Way::Network { client, nsid } => client.list(*nsid, from, max_bytes),
            Way::Kernel(client) => client.list(from, max_bytes),
        }
    }

    /// Ends the session in order and returns the command's result.
    pub fn end<T>(self, result: KvResult<T>) -> Result<T> {
        let result = result.map_err(|error| self.failure(error));
        if let Way::Network { client, .. } = self.way {
            // The command counts; a node that is gone by now has done it.
            let _ = client.close();
        }
        result
    }

    /// Returns the failure that an answer is to the user.
    pub fn failure(&self, error: Error) -> Failure {
        let out_of_reach = match self.way {
            Way::Network { .. } => OUT_OF_REACH,
            Way::Kernel(_) => "`nvme list-subsys` shows whether the kernel has a connection",
        };
        failure(&self.place, error, out_of_reach)
    }
}

/// Returns the failure that a device which cannot be used is to the user.
fn not_opened(error: passthrough::OpenError) -> Failure {
    use passthrough::OpenError;
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    let (code, hint) = match &error {
        OpenError::NotFound { .. } => (
            exit::NO_STORE,
            Some("`nvme connect` makes the devices of a node; --namespace chooses one"),
        ),
        OpenError::Ambiguous { .. } => (exit::USAGE, Some("choose one by --subsystem")),
        OpenError::OtherNamespace { .. } | OpenError::OtherSubsystem { .. } => (
            exit::USAGE,
            Some("--local finds the device of a namespace by its number"),
        ),
        OpenError::NoKeys { .. } => (
            exit::NO_STORE,
            Some("`terrace node status` shows a node's namespaces; --namespace chooses one"),
        ),
        OpenError::Io { source, .. } => match source.kind() {
            NotFound => (exit::NO_STORE, None),
            PermissionDenied => (
                exit::IO,
                Some("the kernel asks for the device's write permission, or for CAP_SYS_ADMIN"),
            ),
            _ => (exit::IO, None),
        },
        _ => (exit::IO, None),
    };
    // It names the path.
    let what = Escaped::message(&error.to_string()).to_string();
    failed(what, code, hint)
}

fn connect(node: &KvNode) -> Result<Client> {
    let addresses = addresses_of(&node.address)?;
    let secrets = secrets_of(node)?;
    let settings = |subsystem: &str| {
        let mut settings = Settings::new(&node.host_nqn, rand::random(), subsystem);
        settings.digests = Digests {
            header: node.digests,
            data: node.digests,
        };
        settings.secrets.clone_from(&secrets);
        settings
    };
    let connect_to = |address| {
        let subsystem = match &node.subsystem {
            Some(subsystem) => subsystem.clone(),
            None => only_subsystem(node, address, &settings(DISCOVERY_NQN))?,
        };
        let connected = Client::connect(address, &settings(&subsystem));
        connected.map_err(|error| failure(&place(node), error, OUT_OF_REACH))
    };
    // A name may have several addresses, of which the node has one.
    let (&last, others) = addresses
        .split_last()
        .ok_or_else(|| Failure::Usage(format!("{} has no address", place(node))))?;
    for &address in others {
        if let Ok(client) = connect_to(address) {
            return Ok(client);
        }
    }
    connect_to(last)
}

/// Returns the secrets of this host, of the file that is named.
fn secrets_of(node: &KvNode) -> Result<Option<SecretPair>> {
    let Some(path) = &node.secrets else {
        return Ok(None);
    };
    let secrets = read_secrets(path).map_err(|error| Failure::Usage(error.to_string()))?;
    match secrets.get(&node.host_nqn) {
        Some(pair) => Ok(Some(pair.clone())),
        None => Err(Failure::Usage(format!(
            "{} has no line of {}; --host-nqn names this host",
            shown(path),
            escape(node.host_nqn.as_bytes())
        ))),
    }
}

fn only_subsystem(node: &KvNode, address: SocketAddr, settings: &Settings) -> Result<String> {
    let found =
        discover(address, settings).map_err(|error| failure(&place(node), error, OUT_OF_REACH))?;
    let mut with_namespaces = found.into_iter().filter(|found| found.has_namespaces);
    match (with_namespaces.next(), with_namespaces.next()) {
        (Some(only), None) => Ok(only.nqn),
        (None, _) => Err(failed(
            format!(
                "{} has no subsystem for {}",
                place(node),
                escape(node.host_nqn.as_bytes())
            ),
            exit::NO_STORE,
            Some("the node's administrator allows hosts by name"),
        )),
        (Some(first), Some(second)) => Err(Failure::Usage(format!(
            "{} has several subsystems, among them {} and {}; choose one by --subsystem",
            place(node),
            escape(first.nqn.as_bytes()),
            escape(second.nqn.as_bytes())
        ))),
    }
}

/// Returns the address for a message.
fn place(node: &KvNode) -> String {
    escape(node.address.as_bytes())
}

fn addresses_of(text: &str) -> Result<Vec<SocketAddr>> {
    let resolved = text.to_socket_addrs().map_err(|error| {
        Failure::Usage(format!(
            "{}: {error}; an address such as 192.0.2.7:4420 is expected",
            escape(text.as_bytes())
        ))
    })?;
    Ok(resolved.collect())
}

/// Returns the failure that a node's answer is to the user. `out_of_reach` is the hint if there is none.
fn failure(place: &str, error: Error, out_of_reach: &'static str) -> Failure {
    let secrets = "--secrets names the file with this host's secret, --host-nqn this host";
    let (code, hint) = match (cause(&error), cause(&error).status()) {
        (_, Some(status)) => match code_of(status) {
            exit::KEY_NOT_FOUND => return Failure::KeyNotFound,
            exit::NO_STORE => (
                exit::NO_STORE,
                Some("`terrace node status` shows a node's namespaces; --namespace chooses one"),
            ),
            code if status == Status::CONNECT_INVALID_HOST => (code, Some(secrets)),
            code => (code, None),
        },
        (
            Error::AuthenticationRequired | Error::AuthenticationFailed(_) | Error::Unauthenticated,
            _,
        ) => (exit::USAGE, Some(secrets)),
        (Error::InvalidArgument(_) | Error::TooLong { .. }, _) => (exit::USAGE, None),
        (Error::Io { .. } | Error::Timeout(_) | Error::Closed, _) => (exit::IO, Some(out_of_reach)),
        _ => (exit::IO, None),
    };
    failed(format!("{place}: {error}"), code, hint)
}

/// Returns the error that broke a connection, where it broke.
fn cause(error: &Error) -> &Error {
    match error {
        Error::Disconnected(inner) => cause(inner),
        other => other,
    }
}

/// Returns the exit code that a status is to a script.
fn code_of(status: Status) -> u8 {
    let is = |other: Status| status.code() == other.code();
    let of_usage = [
        Status::INVALID_FIELD,
        Status::INVALID_OPCODE,
        Status::INVALID_VALUE_SIZE,
        Status::INVALID_KEY_SIZE,
        Status::KEY_EXISTS,
        Status::CONNECT_INVALID_HOST,
        Status::CONNECT_INVALID_PARAMETERS,
    ];
    match status {
        _ if is(Status::KEY_DOES_NOT_EXIST) => exit::KEY_NOT_FOUND,
        _ if is(Status::CAPACITY_EXCEEDED) => exit::NO_SPACE,
        _ if is(Status::INVALID_NAMESPACE) => exit::NO_STORE,
        _ if is(Status::UNRECOVERED_ERROR) || is(Status::UNRECOVERED_READ_ERROR) => {
            exit::CORRUPTION
        }
        _ if is(Status::CONNECT_BUSY) || is(Status::NAMESPACE_NOT_READY) => exit::BUSY,
        _ if of_usage.into_iter().any(is) => exit::USAGE,
        _ => exit::IO,
    }
}
