//! A program's access to a namespace of keys through its generic device.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use terrace_nvmf::initiator::{Error, Result};
use terrace_nvmf::wire::{Status, identify, kv};

use crate::error::OpenError;
use crate::flight::{Flight, after, is_of_path};
use crate::ioctl;
use crate::node::{Node, Place, Wanted};
use crate::queue::{Backend, Queue};
use crate::{Answer, Completion, Condition, Key, Request, Ticket, Value};

/// The pause between two questions to a controller that is out of reach.
const PAUSE: Duration = Duration::from_millis(200);

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of the namespace.
    pub nsid: u32,
    /// Name of the subsystem. Default any: only one may have such a namespace then.
    pub subsystem_nqn: Option<String>,
    /// The way of commands to the kernel. Default io_uring if possible.
    pub backend: Backend,
    /// The most commands in flight. Default 128.
    pub depth: usize,
    /// Time for a command: the kernel takes it back then, and connects again. Default 20 s.
    pub timeout: Duration,
    /// Time to wait for a kernel that connects again. Default 30 s.
    pub reconnect: Duration,
    /// Number of times to send a command that may be repeated, if the kernel takes it back. Default 3.
    /// While the kernel connects again, `reconnect` alone counts.
    pub attempts: u32,
    /// The place where the kernel shows its devices.
    pub place: Place,
}

impl Settings {
    fn wanted(&self) -> Wanted {
        Wanted {
            nsid: self.nsid,
            subsystem_nqn: self.subsystem_nqn.clone(),
        }
    }

    /// Makes settings with defaults.
    pub fn new(nsid: u32) -> Self {
        Settings {
            nsid,
            subsystem_nqn: None,
            backend: Backend::Auto,
            depth: 128,
            timeout: Duration::from_secs(20),
            reconnect: Duration::from_secs(30),
            attempts: 3,
            place: Place::default(),
        }
    }
}

/// A client of one namespace. It works in its caller's thread, with many commands in flight if the
/// caller wants: see [`Client::submit`].
///
/// If the kernel loses the controller, commands that may be repeated ([`Request::is_repeatable`])
/// wait and are repeated. Others that were sent fail with [`Error::UnknownOutcome`]. If the kernel
/// gives the controller up, commands fail with [`Error::Disconnected`]: a new client finds the
/// device, which may have another name by then.
pub struct Client {
    flight: Flight<Queue>,
    node: Arc<Node>,
    format: identify::KeyFormat,
}

impl Client {
    /// Finds the device of the namespace and opens it.
    ///
    /// # Errors
    /// No device is of the namespace, or several are; the namespace has no keys; the system refuses.
    pub fn open(settings: &Settings) -> std::result::Result<Self, OpenError> {
        Client::of(Node::find(&settings.place, &settings.wanted())?, settings)
    }

    /// Opens a device that the caller knows, and checks that it is of the namespace, and of the subsystem
    /// if one is named.
    ///
    /// # Errors
    /// The device is of another namespace; the namespace has no keys; the system refuses.
    pub fn open_device(
        path: impl AsRef<Path>,
        settings: &Settings,
    ) -> std::result::Result<Self, OpenError> {
        let node = Node::open(path.as_ref(), &settings.wanted(), &settings.place)?;
        Client::of(node, settings)
    }

    fn of(node: Node, settings: &Settings) -> std::result::Result<Self, OpenError> {
        let format = key_format(&node, settings)?;
        let node = Arc::new(node);
        let mut settings = settings.clone();
        settings.depth = settings.depth.max(1);
        let queue = Queue::new(&node, settings.backend, settings.depth);
        let queue = queue.map_err(|source| OpenError::Io {
            what: "preparing a queue of commands",
            path: node.path.clone(),
            source,
        })?;
        let flight = Flight::new(queue, settings, node.max_transfer_bytes);
        Ok(Client {
            flight,
            node,
            format,
        })
    }

    /// Returns the device's path.
    pub fn path(&self) -> &Path {
        &self.node.path
    }

    /// Returns the limits of keys and values, as the controller announces them.
    pub fn format(&self) -> &identify::KeyFormat {
        &self.format
    }

    /// Stores a value.
    ///
    /// # Errors
    /// [`Error::Status`] with [`Status::KEY_EXISTS`] or [`Status::KEY_DOES_NOT_EXIST`] if the
    /// condition does not hold. [`Error::UnknownOutcome`] if the connection broke and there is a
    /// condition. [`Error::TooLong`] if the value is longer than a transfer.
    pub fn store(
        &mut self,
        key: impl AsRef<[u8]>,
        value: &[u8],
        condition: Condition,
    ) -> Result<()> {
        let (nsid, key, value) = (self.node.nsid, Key::new(key)?, value.into());
        self.call(Request::Store {
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
    pub fn retrieve(&mut self, key: impl AsRef<[u8]>, max_bytes: u32) -> Result<Option<Value>> {
        let (nsid, key) = (self.node.nsid, Key::new(key)?);
        let answer = self.call(Request::Retrieve {
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
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (nsid, key) = (self.node.nsid, Key::new(key)?);
        let answer = self.call(Request::Delete { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Returns whether a key exists.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn exists(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (nsid, key) = (self.node.nsid, Key::new(key)?);
        let answer = self.call(Request::Exists { nsid, key });
        Ok(found(answer)?.is_some())
    }

    /// Lists keys in the controller's order, from `from` on, in `max_bytes` bytes at most. A list
    /// has 4 bytes, and each key takes 2 bytes and its own, in multiples of 4.
    ///
    /// # Errors
    /// The controller refuses, or is out of reach.
    pub fn list(&mut self, from: Option<&[u8]>, max_bytes: u32) -> Result<Vec<Vec<u8>>> {
        let from = from.map(Key::new).transpose()?;
        let answer = self.call(Request::List {
            nsid: self.node.nsid,
            from,
            max_bytes,
        })?;
        kv::read_keys(&answer.data).ok_or(Error::Malformed("list of keys"))
    }

    /// Returns the most commands that can be in flight.
    pub fn capacity(&self) -> usize {
        self.flight.capacity()
    }

    /// Returns the number of submitted commands that have not completed.
    pub fn in_flight(&self) -> usize {
        self.flight.in_flight()
    }

    /// Returns the most bytes of data that a command may have; none if the kernel does not tell.
    pub fn max_transfer(&self) -> Option<u64> {
        self.node.max_transfer_bytes
    }

    /// Submits a command. The command is on its way after the next [`Client::poll`] or
    /// [`Client::wait`].
    ///
    /// # Errors
    /// [`Error::QueueFull`] if as many commands are in flight as possible; [`Error::TooLong`] and
    /// [`Error::InvalidArgument`] if the command is not possible.
    pub fn submit(&mut self, request: Request) -> Result<Ticket> {
        self.flight.submit(request)
    }

    /// Moves commands along and returns those that have completed. Does not wait for any.
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

/// Returns the limits of a namespace of keys. To other namespaces a Store would be a write of blocks.
fn key_format(
    node: &Node,
    settings: &Settings,
) -> std::result::Result<identify::KeyFormat, OpenError> {
    let deadline = after(settings.reconnect);
    loop {
        let answer = ioctl::key_namespace(&node.file, node.nsid, settings.timeout);
        let is_early = Instant::now() < deadline;
        match answer {
            Ok(Ok(namespace)) if namespace.format.max_key.get() > 0 => return Ok(namespace.format),
            Ok(Err(status)) if is_of_path(status) && is_early => {}
            Ok(answer) => {
                return Err(OpenError::NoKeys {
                    path: node.path.clone(),
                    status: answer.err().unwrap_or(Status::INVALID_FIELD),
                });
            }
            Err(error) if is_passing(&error) && is_early => {}
            Err(source) => {
                return Err(OpenError::Io {
                    what: "asking for the limits of keys",
                    path: node.path.clone(),
                    source,
                });
            }
        }
        thread::sleep(PAUSE);
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
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
