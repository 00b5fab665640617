//! A node in a file, served from a thread of this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_node::block::BLOCK_BYTES;
use terrace_node::device::{Access, Backend, Device, Medium, create_file, open_device};
use terrace_node::engine::{Statistics, create};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, Kind};
use terrace_node::format::superblock::Superblock;
use terrace_node_server::{Config, Running};
use terrace_nvmf::initiator::client::{Client, Settings as ClientSettings};

use crate::settings::{DurabilityClass, Settings};
use crate::{Error, Result};

/// The option of `Settings::own` that names a file to be used, filled and of the right size. Without it a
/// run makes one in its directory.
pub const FILE_OPTION: &str = "file";

/// The namespace that a node has.
pub const NAMESPACE: u32 = 1;

/// Room for bytes beside the data: logs, inputs of merges, replaced values.
const ROOM: u64 = 3;
const LEAST_BYTES: u64 = 256 << 20;
const DEVICE_DEPTH: usize = 128;

/// Name of a file in a run's directory once its node has been made.
const MARK: &str = "node-was-made";

/// The contents of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A namespace of keys.
    Keys,
    /// A namespace of blocks.
    Blocks,
}

/// A node that is served.
pub struct Served {
    running: Running,
    address: SocketAddr,
    /// Whether the node was made just now.
    pub is_new: bool,
}

impl Served {
    /// Serves the node of a run's directory, and makes it if there is none.
    ///
    /// # Errors
    /// The file cannot be made or opened, or the node refuses it.
    pub fn open(directory: &Path, settings: &Settings, content: Content) -> Result<Served> {
        let file = file_of(directory, settings)?;
        let mark = directory.join(MARK);
        let is_new = !mark.exists();
        if is_new {
            make_node(&file, settings, content)?;
            std::fs::write(mark, [])?;
        }
        let mut config = Config::new(file);
        config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let running = Running::start(&config)?;
        let address = running.addresses.first().copied();
        Ok(Served {
            address: address.ok_or_else(|| Error::from("the node listens nowhere"))?,
            running,
            is_new,
        })
    }

    /// Connects a host.
    ///
    /// # Errors
    /// The node refuses.
    pub fn connect(&self) -> Result<Client> {
        Ok(Client::connect(self.address, &self.client_settings())?)
    }

    /// Returns the node's address, and the settings of its clients.
    pub fn target(&self) -> (SocketAddr, ClientSettings) {
        (self.address, self.client_settings())
    }

    fn client_settings(&self) -> ClientSettings {
        let host = "nqn.2014-08.org.nvmexpress:uuid:5f2a6e0e-6d1c-4a52-9f8e-7465727261636";
        ClientSettings::new(host, [1; 16], &self.running.subsystem.nqn)
    }

    /// Returns the counters of the namespace of keys.
    pub fn statistics(&self) -> Option<Statistics> {
        self.running.node().statistics(NAMESPACE)
    }

    /// Ends the server. The node is closed in order.
    ///
    /// # Errors
    /// The device failed.
    pub fn stop(self) -> Result<()> {
        self.running.stopper().stop();
        Ok(self.running.wait()?)
    }
}

/// Makes a file that can hold a node with so much data, filled so that no write changes the file system's
/// own records.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn make_file(path: &Path, data_bytes: u64) -> Result<()> {
    let bytes = (data_bytes * ROOM + LEAST_BYTES).next_multiple_of(1 << 20);
    Ok(create_file(path, bytes, false, &mut |_| ())?)
}

/// Returns the file in the settings, or one in the run's directory, made where it is missing.
fn file_of(directory: &Path, settings: &Settings) -> Result<PathBuf> {
    if let Some(other) = settings.own.keys().find(|name| *name != FILE_OPTION) {
        let text = format!("the node has no option {other}; it has {FILE_OPTION}");
        return Err(text.into());
    }
    if let Some(file) = settings.own.get(FILE_OPTION) {
        return Ok(file.into());
    }
    let file = directory.join("node");
    if !file.exists() {
        make_file(&file, settings.expected_data_bytes)?;
    }
    Ok(file)
}

fn make_node(file: &Path, settings: &Settings, content: Content) -> Result<()> {
    let mut request = NamespaceRequest::new("bench");
    // Blocks are durable when the host flushes them, as those of a disk are.
    request.domain = match (content, settings.durability) {
        (Content::Keys, DurabilityClass::PowerCut) => Domain::PowerSafe,
        _ => Domain::CrashSafe,
    };
    if content == Content::Blocks {
        request.kind = Kind::Blocks;
    }
    let medium = Arc::new(Medium::open(file, Access::Write)?);
    let blocks = medium.bytes / BLOCK_BYTES as u64;
    let superblock = Superblock::new(blocks, &[request], &mut rand::rng())?;
    let mut device: Box<dyn Device> = open_device(medium, Backend::Auto, DEVICE_DEPTH)?;
    Ok(create(&mut *device, &superblock)?)
}
