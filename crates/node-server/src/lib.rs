//! The storage node's server: an engine of [`terrace_node`] behind the target of [`terrace_nvmf`].
//!
//! [`Config`] is the file of options, [`Running`] the process's loops. One loop has a thread, a part
//! of the engine and a listener. With the hash engine it has a queue of the device, too.

#![forbid(unsafe_code)]

mod backend;
mod config;
mod counted;
mod error;
mod exposition;
mod http;
mod log;
mod notify;
mod opened;
mod running;
mod secrets;
mod status;
mod subsystem;

pub use self::backend::EngineBackend;
pub use self::config::{Config, DomainOption, NamespaceOptions};
pub use self::error::{Error, Result};
pub use self::log::Log;
pub use self::opened::Opened;
pub use self::running::{Running, serve_until_signal};
pub use self::secrets::read_secrets;
