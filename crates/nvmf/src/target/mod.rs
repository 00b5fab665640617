//! The side that serves namespaces. Its core does no input or output.
//!
//! A [`Connection`] takes the bytes of one host's queue and appends [`Action`]s; events of the
//! backend go in as well, and the bytes to send come out of its [`Output`]. Controllers are known to
//! all connections of a [`Registry`].

mod action;
mod admin;
pub(crate) mod admission;
mod authentication;
mod backend;
mod command;
mod completing;
mod connection;
mod controller;
mod ending;
mod fabrics;
mod flight;
mod identify;
mod io;
mod log;
mod lookouts;
mod notice;
mod output;
mod reader;
mod receiving;
mod registry;
mod sending;
mod settings;
pub(crate) mod statistics;
mod subsystem;
mod transfer;

#[cfg(test)]
mod tests;

pub use self::action::{Action, Ended};
pub use self::backend::{Answer, Backend, Command, Condition, Event, Key};
pub use self::connection::Connection;
pub use self::lookouts::Lookout;
pub use self::notice::{Notice, Observer, Party};
pub use self::output::Output;
pub use self::registry::{Ports, Registry};
pub use self::settings::Settings;
pub use self::statistics::{BUCKETS, Class, Counts, End, Host, Operation, Times};
pub use self::subsystem::{Kind, Namespace, Subsystem};
