//! The host: it connects to a subsystem, brings a controller up and has it do commands.
//!
//! [`connection`] is the protocol of a queue's connection, without input and output.

pub mod connection;
mod receiver;
mod violation;
