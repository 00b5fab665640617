//! The host: it connects to a subsystem, brings a controller up and has it do commands.
//!
//! [`connection`] is the protocol of a queue's connection, without input and output. A [`queue`]
//! adds a TCP stream, and a [`controller`] the commands of its admin queue. A [`client`] is the face
//! to a program: it connects again if a connection breaks. [`discovery`] lists subsystems.

mod association;
pub mod client;
pub mod connection;
pub mod controller;
pub mod discovery;
mod error;
#[cfg(test)]
mod fake;
mod flight;
mod output;
pub mod queue;
mod receiver;
mod request;
mod settings;
mod violation;

pub use self::error::{Error, Result};
