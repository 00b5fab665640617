//! A server's loops.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace_node::device::{Access, Backend, Device, Medium, open_device};
use terrace_node::engine::{Node, Worker};
use terrace_nvmf::server::{Server, Stop};
use terrace_nvmf::target::{Registry, Subsystem};

use crate::backend::EngineBackend;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::subsystem::{max_transfer_shift, subsystem};

/// A server that runs.
pub struct Running {
    /// The subsystem that hosts connect to.
    pub subsystem: Subsystem,
    /// The addresses it listens on, with ports that the system chose.
    pub addresses: Vec<SocketAddr>,
    node: Arc<Node>,
    stop: Stop,
    loops: Vec<JoinHandle<Result<()>>>,
}

impl Running {
    /// Opens the node, recovers it and serves.
    ///
    /// # Errors
    /// An option is illegal, the node cannot be opened, or an address cannot be listened on.
    pub fn start(config: &Config) -> Result<Self> {
        config.check()?;
        let medium = Arc::new(Medium::open(&config.device, Access::Write)?);
        let open_device = || -> Result<Box<dyn Device>> {
            Ok(open_device(
                Arc::clone(&medium),
                Backend::Auto,
                config.device_depth,
            )?)
        };
        let mut first = open_device()?;
        let node = Node::open(&mut *first)?;
        let subsystem = subsystem(&node.superblock, config)?;
        let registry = Registry::new(vec![subsystem.clone()], config.max_controllers);
        let settings = config.settings(max_transfer_shift(&node.superblock));
        let stop = Stop::new().map_err(Error::io("make an event"))?;
        let (mut loops, mut addresses) = (Vec::new(), Vec::new());
        let mut spare = Some(first);
        for &address in &config.listen {
            let listener = TcpListener::bind(address).map_err(|source| Error::Listen {
                address: address.to_string(),
                source,
            })?;
            addresses.push(
                listener
                    .local_addr()
                    .map_err(Error::io("ask for an address"))?,
            );
            for _ in 0..config.loops {
                let listener = listener.try_clone().map_err(Error::io("share a socket"))?;
                let device = spare.take().map_or_else(open_device, Ok)?;
                let worker = Worker::new(&node, device, config.buffer_bytes)?;
                let backend = EngineBackend::new(worker, Arc::clone(&node));
                let server = Server::new(
                    listener,
                    Arc::clone(&registry),
                    settings.clone(),
                    config.limits(),
                    backend,
                );
                let server = server.map_err(Error::io("make a poller"))?;
                loops.push((server, stop.clone()));
            }
        }
        let spawn = |(server, stop): (Server<EngineBackend>, Stop)| {
            let name = "terrace-loop".to_owned();
            thread::Builder::new()
                .name(name)
                .spawn(move || run(server, &stop))
                .map_err(Error::io("start a thread"))
        };
        let loops = loops.into_iter().map(spawn).collect::<Result<Vec<_>>>()?;
        Ok(Running {
            subsystem,
            addresses,
            node,
            stop,
            loops,
        })
    }

    /// Returns the opened node, with its counters.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the handle that stops the server.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until the server has stopped: commands under way have ended, and the node is closed in
    /// order.
    ///
    /// # Errors
    /// The device failed.
    pub fn wait(self) -> Result<()> {
        let mut ended = Ok(());
        for thread in self.loops {
            let of_loop = thread.join().unwrap_or_else(|_| {
                Err(Error::Io {
                    what: "go on after a panic",
                    source: std::io::ErrorKind::Other.into(),
                })
            });
            // A loop that failed ends the others.
            if of_loop.is_err() {
                self.stop.stop();
            }
            ended = ended.and(of_loop);
        }
        ended
    }
}

fn run(server: Server<EngineBackend>, stop: &Stop) -> Result<()> {
    let others = StopsOthers(stop);
    let backend = server.run(stop).map_err(Error::io("serve"))?;
    drop(others);
    Ok(backend.into_engine().close()?)
}

/// Has the other loops end when this one ends, in whatever way: a host would wait for a loop that is
/// gone.
struct StopsOthers<'a>(&'a Stop);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves until SIGTERM or SIGINT. `started` is called once hosts can connect.
///
/// # Errors
/// As [`Running::start`] and [`Running::wait`].
pub fn serve_until_signal(config: &Config, started: impl FnOnce(&Running)) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Error::io("wait for signals"))?;
    let running = Running::start(config)?;
    let (stop, handle) = (running.stopper(), signals.handle());
    let waiting = thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    });
    started(&running);
    let ended = running.wait();
    handle.close();
    let _ = waiting.join();
    ended
}
