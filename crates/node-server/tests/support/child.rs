//! A server in a process of its own: the test program again, at its ignored test `child`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace_node_server::{Config, Running};

use super::{Place, StorePlace, store_config};

const PATH: &str = "TERRACE_TEST_NODE";
/// Set if the path is a store's.
const STORE: &str = "TERRACE_TEST_STORE";
pub const SUBSYSTEM: &str = "nqn.2026-11.org.example:node";

/// Serves the node that the parent names until the process is killed.
pub fn serve(adapt: impl FnOnce(&mut Config)) {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let mut config = match std::env::var_os(STORE) {
        Some(_) => store_config(path.into()),
        None => Config::new(path),
    };
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    config.subsystem = Some(SUBSYSTEM.to_owned());
    adapt(&mut config);
    let running = Running::start(&config).unwrap();
    // The harness has begun a line of its own.
    println!("\naddress {}", running.addresses[0]);
    running.wait().unwrap();
}

pub struct Server {
    child: Child,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(place: &Place) -> Self {
        Server::begin(&place.path(), false)
    }

    pub fn start_store(place: &StorePlace) -> Self {
        Server::begin(&place.path(), true)
    }

    fn begin(path: &Path, is_store: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(PATH, path)
            .envs(is_store.then_some((STORE, "1")))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.map(Result::unwrap).find_map(|line| {
            let address = line.strip_prefix("address ")?;
            Some(address.parse().unwrap())
        });
        let address = address.expect("the server starts");
        Server { child, address }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the most memory that the process had, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
        kib.expect("a size").trim().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
