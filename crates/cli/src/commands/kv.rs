//! Keys of a storage node, through the network or the kernel.

mod session;

use std::ffi::OsStr;

use terrace_nvmf::initiator::client::Condition;

use self::session::Session;
use crate::arguments::{Kv, KvGet, KvKey, KvList, KvPut};
use crate::commands::entries::{print_value, value_from_stdin};
use crate::failure::{Failure, Result, exit};
use crate::node::failed;
use crate::output::print;
use crate::text::{bytes_of, escape, to_hex};

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
    let mut session = Session::open(&arguments.node)?;
    let stored = session.store(&key, &value, condition);
    session.end(stored)
}

fn get(arguments: &KvGet) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut session = Session::open(&arguments.node)?;
    let place = session.place().to_owned();
    let found = session.retrieve(&key);
    let found = session.end(found)?.ok_or(Failure::KeyNotFound)?;
    let (value, whole) = (found.bytes, found.value_bytes);
    if value.len() as u64 != whole {
        let what = format!("{place}: {} of {whole} bytes came", value.len());
        return Err(failed(what, exit::CORRUPTION, None));
    }
    print_value(&key, &value, arguments.hex, arguments.raw, arguments.json)
}

fn del(arguments: &KvKey) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut session = Session::open(&arguments.node)?;
    let deleted = session.delete(&key);
    session.end(deleted).map(drop)
}

fn exists(arguments: &KvKey) -> Result<()> {
    let key = key_of(&arguments.key, arguments.hex)?;
    let mut session = Session::open(&arguments.node)?;
    let found = session.exists(&key);
    match session.end(found)? {
        true => Ok(()),
        false => Err(Failure::KeyNotFound),
    }
}

fn list(arguments: &KvList) -> Result<()> {
    let mut session = Session::open(&arguments.node)?;
    let from = arguments.from.as_ref();
    let mut from = from.map(|key| key_of(key, arguments.hex)).transpose()?;
    let mut left = arguments.limit.unwrap_or(usize::MAX);
    let mut is_first = true;
    while left > 0 {
        let listed = session.list(from.as_deref(), LIST_BYTES);
        let keys = listed.map_err(|error| session.failure(error))?;
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
            let what = format!("{}: the list does not go on", session.place());
            return Err(failed(what, exit::IO, None));
        }
        (left, from, is_first) = (left - count, last, false);
    }
    session.end(Ok(()))
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
