//! The engine as the backend of a target: the same commands in other words.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use terrace_node::Key;
use terrace_node::block::Buffer;
use terrace_node::device::Wait;
use terrace_node::engine::{self, Engine, Failure};
use terrace_nvmf::target::{Answer, Backend, Command, Condition, Event, Key as WireKey};
use terrace_nvmf::wire::Status;

use crate::log::Log;
use crate::opened::Opened;

/// A loop's part of the engine, for a target.
pub struct EngineBackend<E> {
    engine: E,
    node: Arc<dyn Opened>,
    log: Log,
    events: Vec<engine::Event>,
}

impl<E: Engine> EngineBackend<E> {
    /// Makes the backend of one loop.
    pub fn new(engine: E, node: Arc<dyn Opened>, log: Log) -> Self {
        EngineBackend {
            engine,
            node,
            log,
            events: Vec::new(),
        }
    }

    /// Returns the engine.
    pub fn into_engine(self) -> E {
        self.engine
    }
}

impl<E: Engine> Backend for EngineBackend<E> {
    type Buffer = Buffer;

    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        self.engine.submit(tag, nsid, to_engine(command));
    }

    fn supply(&mut self, tag: u64, buffer: Buffer) {
        self.engine.supply(tag, buffer);
    }

    fn give_back(&mut self, tag: u64, buffer: Buffer) {
        self.engine.give_back(tag, buffer);
    }

    fn abort(&mut self, tag: u64) {
        self.engine.abort(tag);
    }

    fn poll(&mut self, events: &mut Vec<Event<Buffer>>) -> io::Result<()> {
        let polled = self.engine.poll(Wait::No, &mut self.events);
        polled.map_err(|error| io::Error::other(error.to_string()))?;
        let log = &self.log;
        let all = self.events.drain(..);
        events.extend(all.map(|event| from_engine(event, log)));
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.engine.readiness()
    }

    fn buffer_bytes(&self) -> usize {
        self.engine.buffer_bytes()
    }

    fn is_short_of_buffers(&self) -> bool {
        self.engine.is_short_of_buffers()
    }

    fn used_bytes(&self, nsid: u32) -> u64 {
        self.node.used_bytes(nsid)
    }
}

fn key(key: &WireKey) -> Key {
    Key::new(key.as_bytes()).expect("both have 1 to 16 bytes")
}

fn to_engine(command: Command) -> engine::Command {
    match command {
        Command::Store {
            key: of,
            value_bytes,
            condition,
        } => engine::Command::Store {
            key: key(&of),
            value_bytes,
            condition: match condition {
                Condition::Always => engine::Condition::Always,
                Condition::IfExists => engine::Condition::IfExists,
                Condition::IfAbsent => engine::Condition::IfAbsent,
            },
        },
        Command::Retrieve { key: of, max_bytes } => engine::Command::Retrieve {
            key: key(&of),
            max_bytes,
        },
        Command::Delete { key: of } => engine::Command::Delete { key: key(&of) },
        Command::Exist { key: of } => engine::Command::Exist { key: key(&of) },
        Command::List { from, max_keys } => engine::Command::List {
            from: from.as_ref().map(key),
            max_keys,
        },
        Command::Read { first, blocks } => engine::Command::Read { first, blocks },
        Command::Write {
            first,
            blocks,
            is_durable,
        } => engine::Command::Write {
            first,
            blocks,
            is_durable,
        },
        Command::Flush => engine::Command::Flush,
    }
}

fn from_engine(event: engine::Event, log: &Log) -> Event<Buffer> {
    match event {
        engine::Event::Want {
            tag,
            offset,
            bytes,
            buffer,
        } => Event::Want {
            tag,
            offset,
            bytes,
            buffer,
        },
        engine::Event::Piece {
            tag,
            offset,
            at,
            bytes,
            is_last,
            buffer,
        } => Event::Piece {
            tag,
            offset,
            at,
            bytes,
            is_last,
            buffer,
        },
        engine::Event::Done { tag, result } => Event::Done {
            tag,
            result: result.map(answer).map_err(|failure| {
                log.failure(&failure);
                status(&failure)
            }),
        },
    }
}

fn answer(answer: engine::Answer) -> Answer {
    match answer {
        engine::Answer::Retrieved(bytes) => Answer::Retrieved(bytes),
        engine::Answer::Keys(keys) => Answer::Keys(
            keys.iter()
                .filter_map(|key| WireKey::new(key.as_bytes()))
                .collect(),
        ),
        _ => Answer::Done,
    }
}

/// Returns the status that tells a host of a failure.
fn status(failure: &Failure) -> Status {
    match failure {
        Failure::NoNamespace => Status::INVALID_NAMESPACE,
        Failure::NotFound => Status::KEY_DOES_NOT_EXIST,
        Failure::KeyExists => Status::KEY_EXISTS,
        Failure::InvalidValueSize => Status::INVALID_VALUE_SIZE,
        Failure::CapacityExceeded => Status::CAPACITY_EXCEEDED,
        Failure::OutOfRange => Status::LBA_OUT_OF_RANGE,
        Failure::Unrecovered(_) => Status::UNRECOVERED_ERROR,
        Failure::WriteFailed(_) => Status::WRITE_FAULT,
        Failure::Poisoned(_) => Status::WRITE_PROTECTED,
        Failure::Aborted => Status::ABORTED,
    }
}
