//! A node in a file, its server in this process, and clients of it.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod attackers;
pub mod child;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_node::device::{Access, Backend, Medium, create_file, open_device};
use terrace_node::engine::create;
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, Kind};
use terrace_node::format::superblock::Superblock;
use terrace_node_server::{Config, DomainOption, NamespaceOptions, Running};
use terrace_nvmf::initiator::client::{Client, Settings};

/// The namespace of keys.
pub const KEYS: u32 = 1;
/// The namespace of blocks.
pub const BLOCKS: u32 = 2;

const DEVICE_BYTES: u64 = 256 << 20;

/// A node's file, which goes with it.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// Makes a node with a namespace of keys and one of blocks.
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Place { directory };
        let path = place.path();
        create_file(&path, DEVICE_BYTES, false, &mut |_| ()).unwrap();
        let mut keys = NamespaceRequest::new("keys");
        keys.domain = Domain::PowerSafe;
        let mut blocks = NamespaceRequest::new("blocks");
        (blocks.kind, blocks.bytes) = (Kind::Blocks, Some(64 << 20));
        let blocks_of_device = DEVICE_BYTES / 4096;
        let requests = [keys, blocks];
        let superblock = Superblock::new(blocks_of_device, &requests, &mut rand::rng()).unwrap();
        let medium = Arc::new(Medium::open(&path, Access::Write).unwrap());
        let mut device = open_device(medium, Backend::Auto, 4).unwrap();
        create(&mut *device, &superblock).unwrap();
        place
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("node")
    }

    /// Returns the options of a server on a free port.
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.path());
        config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        config
    }
}

/// The namespace of a store whose stores need not survive a power cut.
pub const CRASH_SAFE: u32 = 5;

/// A store's directory, which goes with it.
pub struct StorePlace {
    directory: tempfile::TempDir,
}

impl StorePlace {
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        StorePlace { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Returns the options of a server on a free port, with two namespaces.
    pub fn config(&self) -> Config {
        store_config(self.path())
    }
}

/// Returns the options of a server of a store, on a free port and with two namespaces.
pub fn store_config(path: PathBuf) -> Config {
    let mut config = Config::of_store(path);
    let mut crash_safe = NamespaceOptions::new(CRASH_SAFE);
    crash_safe.domain = DomainOption::CrashSafe;
    crash_safe.max_value_bytes = 1 << 20;
    config.namespaces = vec![NamespaceOptions::new(KEYS), crash_safe];
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    config
}

/// Returns bytes that differ by size, place and seed.
pub fn value(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) ^ (at >> 8) as u8)
        .collect()
}

/// Returns the settings of a client with two queues.
pub fn settings(running: &Running) -> Settings {
    let mut settings = Settings::new(
        "nqn.2014-08.org.nvmexpress:uuid:host",
        [7; 16],
        &running.subsystem.nqn,
    );
    settings.queues = 2;
    settings
}

pub fn client(running: &Running) -> Client {
    Client::connect(running.addresses[0], &settings(running)).unwrap()
}
