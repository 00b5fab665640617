//! NVMe Key Value commands through the generic devices of Linux, `/dev/ngXnY`.
//!
//! The kernel is the host: it connects, keeps the connections and connects again. A program hands it
//! commands for one namespace. [`Client`] has the face of `terrace_nvmf`'s client over TCP, and the
//! same requests, answers and errors.
//!
//! [`node`] finds the device of a namespace by its number, never by its name: the kernel numbers
//! devices in the order in which it finds namespaces. Commands go by io_uring, many in flight; where
//! the kernel has no io_uring, or forbids it, threads call `ioctl(2)`.
//!
//! ```no_run
//! use terrace_nvmf_passthrough::{Client, Condition, Settings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut client = Client::open(&Settings::new(1))?;
//! client.store("key", b"value", Condition::IfAbsent)?;
//! let value = client.retrieve("key", 4096)?;
//! assert_eq!(value.unwrap().bytes, b"value");
//! # Ok(())
//! # }
//! ```
//!
//! Commands need the privileges that the kernel asks for: `CAP_SYS_ADMIN` before Linux 6.2, and since
//! then the permission to write to the device.

#![deny(unsafe_code)]

mod client;
mod command;
mod data;
mod error;
mod flight;
mod ioctl;
pub mod node;
mod queue;
mod ring;
mod threads;

pub use client::{Client, Settings};
pub use error::OpenError;
pub use node::Place;
pub use queue::Backend;
pub use terrace_nvmf::initiator::client::{
    Answer, Completion, Condition, Key, Request, Ticket, Value,
};
pub use terrace_nvmf::initiator::{Error, Result};
