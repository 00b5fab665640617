//! A running server, as an operator sees it.

mod metrics;
mod report;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use terrace_nvmf::server::Stop;
use terrace_nvmf::target::Registry;

use crate::counted::DeviceCounts;
use crate::opened::Opened;

/// The sources of a server's status.
pub(crate) struct Status {
    pub(crate) subsystem: String,
    pub(crate) addresses: Vec<SocketAddr>,
    /// The device or the store's directory.
    pub(crate) place: String,
    pub(crate) registry: Arc<Registry>,
    pub(crate) node: Arc<dyn Opened>,
    /// None if the engine has no device of its own.
    pub(crate) device: Option<Arc<DeviceCounts>>,
    pub(crate) stop: Stop,
    pub(crate) started: (Instant, SystemTime),
}
