//! A program's access to the namespaces of a subsystem.
//!
//! A client works in its caller's thread, with many commands in flight if the caller wants: see
//! [`Client::submit`]. Programs with several threads have a client in each. One thread of its own
//! sends Keep Alive.
//!
//! If a connection breaks, the client connects again and repeats the commands that may be repeated
//! ([`Request::is_repeatable`]). Others that were sent fail with [`Error::UnknownOutcome`]. A
//! controller may still do the first copy of a repeated command later: a program that stores a key
//! twice within such a time must not rely on the order.
//!
//! ```no_run
//! use terrace_nvmf::initiator::client::{Client, Condition, Settings};
//!
//! # fn main() -> terrace_nvmf::initiator::Result<()> {
//! let address = ([127, 0, 0, 1], 4420).into();
//! let settings = Settings::new("nqn.2026-01.example:host", [1; 16], "nqn.2026-01.example:keys");
//! let mut client = Client::connect(address, &settings)?;
//! client.store(1, "key", b"value", Condition::IfAbsent)?;
//! let value = client.retrieve(1, "key", 4096)?;
//! assert_eq!(value.unwrap().bytes, b"value");
//! client.close()?;
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

pub use super::connection::Digests;
use super::controller::Controller;
use super::error::{Error, Result};
use super::flight::Flight;
pub use super::flight::{Completion, Ticket};
use super::queue::Queue;
pub use super::request::{Answer, Condition, Key, Request};
pub use super::settings::Settings;
use crate::wire::kv;
use crate::wire::status::Status;

/// A value, or its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes that the caller had room for.
    pub bytes: Vec<u8>,
    /// Length of the whole value.
    pub value_bytes: u64,
}

/// A host that is connected to a subsystem.
pub struct Client {
    flight: Flight,
    /// Bytes of a block by namespace, of the flight's `generation`.
    block_bytes: HashMap<u32, u32>,
    generation: u64,
}

impl Client {
    /// Connects to a subsystem.
    ///
    /// # Errors
    /// The subsystem does not answer in time, refuses, or lacks something that the client needs.
    pub fn connect(address: SocketAddr, settings: &Settings) -> Result<Self> {
        Ok(Client {
            flight: Flight::start(address, settings.clone())?,
            block_bytes: HashMap::new(),
            generation: 0,
        })
    }

    /// Shuts the controller down in order and ends the connections. Commands in flight are lost.
    ///
    /// # Errors
    /// The controller does not shut down. The connections have ended nevertheless.
    pub fn close(self) -> Result<()> {
        self.flight.close()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// [`Error::Status`] with [`Status::KEY_EXISTS`] or [`Status::KEY_DOES_NOT_EXIST`] if the
    /// condition does not hold. [`Error::UnknownOutcome`] if the connection broke and there is a
    /// condition.
    pub fn store(
        &mut self,
        nsid: u32,
        key: impl AsRef<[u8]>,
        value: &[u8],
        condition: Condition,
    ) -> Result<()> {
        let (key, value) = (Key::new(key)?, value.into());
        self.flight
            .call(Request::Store {
                nsid,
                key,
                value,
                condition,
            })
            .map(drop)
    }

    /// Returns a key's value, or its first `max_bytes` bytes; none if the key does not exist.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn retrieve(
        &mut self,
        nsid: u32,
        key: impl AsRef<[u8]>,
        max_bytes: u32,
    ) -> Result<Option<Value>> {
        let key = Key::new(key)?;
        let answer = self.flight.call(Request::Retrieve {
            nsid,
            key,
            max_bytes,
        });
        let value = found(answer)?.map(|answer| Value {
            value_bytes: answer.result,
            bytes: answer.data,
        });
        Ok(value)
    }

    /// Deletes a key and its value. Returns false if the controller says that the key does not
    /// exist, which it does only if it is configured so.
    ///
    /// # Errors
    /// [`Error::UnknownOutcome`] if the connection broke.
    pub fn delete(&mut self, nsid: u32, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        let answer = self.flight.call(Request::Delete { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Returns whether a key exists.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn exists(&mut self, nsid: u32, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = Key::new(key)?;
        let answer = self.flight.call(Request::Exists { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Lists keys in the controller's order, from `from` on, in `max_bytes` bytes at most. A list
    /// has 4 bytes, and each key takes 2 bytes and its own, in multiples of 4.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn list(&mut self, nsid: u32, from: Option<&[u8]>, max_bytes: u32) -> Result<Vec<Vec<u8>>> {
        let from = from.map(Key::new).transpose()?;
        let answer = self.flight.call(Request::List {
            nsid,
            from,
            max_bytes,
        })?;
        kv::read_keys(&answer.data).ok_or(Error::Malformed("list of keys"))
    }

    /// Returns the bytes of a block of a namespace.
    ///
    /// # Errors
    /// The controller refuses, or the size is not a power of two from 512 bytes to 1 MiB.
    pub fn block_bytes(&mut self, nsid: u32) -> Result<u32> {
        // A namespace may have another format after a break.
        if self.generation != self.flight.generation() {
            self.generation = self.flight.generation();
            self.block_bytes.clear();
        }
        if let Some(bytes) = self.block_bytes.get(&nsid) {
            return Ok(*bytes);
        }
        let namespace = self.with_controller(|controller| controller.block_namespace(nsid))?;
        let power = namespace.block_format[2];
        if namespace.format & 0b0110_1111 != 0 || !(9..=20).contains(&power) {
            return Err(Error::Unsupported("a block size that the client knows"));
        }
        self.block_bytes.insert(nsid, 1 << power);
        Ok(1 << power)
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn read(&mut self, nsid: u32, block: u64, blocks: u32) -> Result<Vec<u8>> {
        let block_bytes = self.block_bytes(nsid)?;
        let answer = self.flight.call(Request::Read {
            nsid,
            block,
            blocks,
            block_bytes,
        })?;
        Ok(answer.data)
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn write(&mut self, nsid: u32, block: u64, data: &[u8]) -> Result<()> {
        let block_bytes = self.block_bytes(nsid)?;
        let data = data.into();
        self.flight
            .call(Request::Write {
                nsid,
                block,
                data,
                block_bytes,
            })
            .map(drop)
    }

    /// Makes earlier writes durable.
    ///
    /// # Errors
    /// [`Error::UnknownOutcome`] if the connection broke.
    pub fn flush(&mut self, nsid: u32) -> Result<()> {
        self.flight.call(Request::Flush { nsid }).map(drop)
    }

    /// Lends the controller, for commands of its admin queue.
    ///
    /// # Errors
    /// No connection is possible, or `work` failed.
    pub fn with_controller<T>(
        &mut self,
        work: impl FnOnce(&mut Controller<Queue>) -> Result<T>,
    ) -> Result<T> {
        self.flight.with_controller(work)
    }

    /// Returns the most commands that can be in flight.
    pub fn capacity(&self) -> usize {
        self.flight.capacity()
    }

    /// Returns the number of submitted commands that have not completed.
    pub fn in_flight(&self) -> usize {
        self.flight.in_flight()
    }

    /// Returns the most bytes of data that a command may have; none is no limit.
    pub fn max_transfer(&self) -> Option<u64> {
        self.flight.max_transfer()
    }

    /// Submits a command. The command is on its way after the next [`Client::poll`] or
    /// [`Client::wait`].
    ///
    /// # Errors
    /// [`Error::QueueFull`] if as many commands are in flight as possible;
    /// [`Error::InvalidArgument`] if the command is not possible.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.flight.submit(request)
    }

    /// Moves commands along and returns those that have completed. Does not wait for any, except
    /// that an attempt to connect again takes its time.
    pub fn poll(&mut self) -> Vec<Completion> {
        self.flight.poll()
    }

    /// Waits until a command completes, and returns all that have. Returns none if none is in flight
    /// or `timeout` is over.
    pub fn wait(&mut self, timeout: Duration) -> Vec<Completion> {
        self.flight.wait(timeout)
    }

    /// Does a command and waits for its result. Completions of other commands are kept.
    ///
    /// # Errors
    /// The command is not possible, or failed.
    pub fn call(&mut self, request: Request) -> Result<Answer> {
        self.flight.call(request)
    }
}

/// Returns none in place of the error that a key does not exist.
fn found(answer: Result<Answer>) -> Result<Option<Answer>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Status(status)) if status.code() == Status::KEY_DOES_NOT_EXIST.code() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
