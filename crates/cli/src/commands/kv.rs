//! Keys of a storage node, through the network.

use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs};

use terrace_node_server::read_secrets;
use terrace_nvmf::auth::SecretPair;
use terrace_nvmf::initiator::client::{Client, Condition, Digests, Settings};
use terrace_nvmf::initiator::discovery::discover;
use terrace_nvmf::initiator::{Error, Result as KvResult};
use terrace_nvmf::wire::Status;
use terrace_nvmf::wire::fabrics::DISCOVERY_NQN;

use crate::arguments::{Kv, KvGet, KvKey, KvList, KvNode, KvPut};
use crate::commands::entries::value_from_stdin;
use crate::commands::print;
use crate::failure::{Failure, Result, exit};
use crate::node::failed;
use crate::text::{bytes_of, escape, json_entry, to_hex};

/// Bytes of keys that one command fetches.
const LIST_BYTES: u32 = 64 << 10;

pub fn run(what: &Kv) -> Result<()> {
    match what {
        Kv::Put(arguments) => put(arguments),
        Kv::Get(arguments) => get(arguments),
        Kv::Del(arguments) => del(arguments),
        Kv::Exists(arguments) => exists(arguments),
        Kv::List(arguments) => list(arguments),
    }
}

fn put(arguments: &KvPut) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let value = match &arguments.value {
        Some(value) => bytes_of(value, arguments.hex)?,
        None => value_from_stdin(arguments.hex)?,
    };
    let condition = match (arguments.if_exists, arguments.if_absent) {
        (true, _) => Condition::IfExists,
        (_, true) => Condition::IfAbsent,
        _ => Condition::None,
    };
    let mut client = connect(&arguments.node)?;
    let stored = client.store(arguments.node.namespace, key, &value, condition);
    ended(&arguments.node, client, stored)
}

fn get(arguments: &KvGet) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut client = connect(&arguments.node)?;
    let max_bytes = max_value_bytes(&mut client, &arguments.node)?;
    let found = client.retrieve(arguments.node.namespace, &key, max_bytes);
    let found = ended(&arguments.node, client, found)?;
    let found = found.ok_or(Failure::KeyNotFound)?;
    let (value, whole) = (found.bytes, found.value_bytes);
    if value.len() as u64 != whole {
        let what = format!(
            "{}: {} of {whole} bytes came",
            arguments.node.address,
            value.len()
        );
        return Err(failed(what, exit::CORRUPTION, None));
    }
    let mut text = if arguments.json {
        json_entry(&key, &value).to_string().into_bytes()
    } else if arguments.hex && !arguments.raw {
        to_hex(&value).into_bytes()
    } else {
        value
    };
    if !arguments.raw {
        text.push(b'\n');
    }
    print(text)
}

fn del(arguments: &KvKey) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut client = connect(&arguments.node)?;
    let deleted = client.delete(arguments.node.namespace, key);
    ended(&arguments.node, client, deleted).map(drop)
}

fn exists(arguments: &KvKey) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut client = connect(&arguments.node)?;
    let found = client.exists(arguments.node.namespace, key);
    match ended(&arguments.node, client, found)? {
        true => Ok(()),
        false => Err(Failure::KeyNotFound),
    }
}

fn list(arguments: &KvList) -> Result<()> {
    let node = &arguments.node;
    let mut client = connect(node)?;
    let from = arguments.from.as_ref();
    let mut from = from.map(|key| key_of(key, arguments.hex)).transpose()?;
    let mut left = arguments.limit.unwrap_or(usize::MAX);
    let mut is_first = true;
    while left > 0 {
        let listed = client.list(node.namespace, from.as_deref(), LIST_BYTES);
        let keys = listed.map_err(|error| failure(node, error))?;
        // Each part but the first begins with the last key of the part before it.
        let is_known = |key: &Vec<u8>| !is_first && from.as_ref() == Some(key);
        let fresh = keys
            .iter()
            .skip(usize::from(keys.first().is_some_and(is_known)));
        let mut text = String::new();
        let mut count = 0;
        for key in fresh.take(left) {
            let key = match arguments.hex {
                true => to_hex(key),
                false => escape(key),
            };
            text.push_str(&key);
            text.push('\n');
            count += 1;
        }
        print(text)?;
        let last = keys.last().cloned();
        if count == 0 || last.is_none() {
            break;
        }
        if last == from && !is_first {
            let what = format!("{}: the list does not go on", node.address);
            return Err(failed(what, exit::IO, None));
        }
        (left, from, is_first) = (left - count, last, false);
    }
    ended(node, client, Ok(()))
}

/// Ends the session in order and returns the command's result.
fn ended<T>(node: &KvNode, client: Client, result: KvResult<T>) -> Result<T> {
    let result = result.map_err(|error| failure(node, error));
    // The command counts; a node that is gone by now has done it.
    let _ = client.close();
    result
}

fn key_of(text: &OsStr, hex: bool) -> Result<Vec<u8>> {
    let key = bytes_of(text, hex)?;
    match key.len() {
        1..=16 => Ok(key),
        length => Err(Failure::Usage(format!(
            "the key has {length} bytes; keys of a storage node have 1 to 16"
        ))),
    }
}

/// Returns the largest value of the namespace, as the node announces it.
fn max_value_bytes(client: &mut Client, node: &KvNode) -> Result<u32> {
    let namespace = node.namespace;
    let announced = client.with_controller(|controller| controller.key_namespace(namespace));
    let announced = announced.map_err(|error| failure(node, error))?;
    Ok(announced.format.max_value.get())
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
        connected.map_err(|error| failure(node, error))
    };
    // A name may have several addresses, of which the node has one.
    let (&last, others) = addresses
        .split_last()
        .ok_or_else(|| Failure::Usage(format!("{} has no address", node.address)))?;
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
            path.display(),
            node.host_nqn
        ))),
    }
}

fn only_subsystem(node: &KvNode, address: SocketAddr, settings: &Settings) -> Result<String> {
    let found = discover(address, settings).map_err(|error| failure(node, error))?;
    let mut with_namespaces = found.into_iter().filter(|found| found.has_namespaces);
    match (with_namespaces.next(), with_namespaces.next()) {
        (Some(only), None) => Ok(only.nqn),
        (None, _) => Err(failed(
            format!("{} has no subsystem for {}", node.address, node.host_nqn),
            exit::NO_STORE,
            Some("the node's administrator allows hosts by name"),
        )),
        (Some(first), Some(second)) => Err(Failure::Usage(format!(
            "{} has several subsystems, among them {} and {}; choose one by --subsystem",
            node.address,
            escape(first.nqn.as_bytes()),
            escape(second.nqn.as_bytes())
        ))),
    }
}

fn addresses_of(text: &str) -> Result<Vec<SocketAddr>> {
    let resolved = text.to_socket_addrs().map_err(|error| {
        Failure::Usage(format!(
            "{text}: {error}; an address such as 192.0.2.7:4420 is expected"
        ))
    })?;
    Ok(resolved.collect())
}

/// Returns the failure that a node's answer is to the user.
fn failure(node: &KvNode, error: Error) -> Failure {
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
        (Error::InvalidArgument(_), _) => (exit::USAGE, None),
        (Error::Io { .. } | Error::Timeout(_) | Error::Closed, _) => (
            exit::IO,
            Some("check --address, and whether `terrace node serve` runs there"),
        ),
        _ => (exit::IO, None),
    };
    failed(format!("{}: {error}", node.address), code, hint)
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
