//! A server's loops.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace_node::device::{Access, Backend, Device, Medium, open_device};
use terrace_node::engine::{Node, Worker};
use terrace_node::lsm::LsmEngine;
use terrace_nvmf::server::{Server, Stop};
use terrace_nvmf::target::{Registry, Subsystem};

use crate::backend::EngineBackend;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::opened::{LoopEngine, Opened, open_store};
use crate::subsystem::{max_transfer_shift, subsystem};

/// A server that runs.
pub struct Running {
    /// The subsystem that hosts connect to.
    pub subsystem: Subsystem,
    /// The addresses it listens on, with ports that the system chose.
    pub addresses: Vec<SocketAddr>,
    node: Arc<dyn Opened>,
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
        if config.store.is_some() {
            let store = open_store(config)?;
            let engine = || Ok(LsmEngine::new(&store, config.buffer_bytes)?);
            return Running::serve(config, store.clone(), engine);
        }
        let path = config.device.as_deref().unwrap_or("".as_ref());
        let medium = Arc::new(Medium::open(path, Access::Write)?);
        Running::start_on(config, || {
            Ok(open_device(
                Arc::clone(&medium),
                Backend::Auto,
                config.device_depth,
            )?)
        })
    }

    /// Serves the node of a device that the caller opens, once for each loop: devices that fail when
    /// a test wants it, for one.
    ///
    /// # Errors
    /// As [`Running::start`], and those of `open`.
    pub fn start_on(
        config: &Config,
        mut open: impl FnMut() -> Result<Box<dyn Device>>,
    ) -> Result<Self> {
        config.check()?;
        let mut first = open()?;
        let node = Node::open(&mut *first)?;
        let mut spare = Some(first);
        let engine = || {
            let device = spare.take().map_or_else(&mut open, Ok)?;
            Ok(Worker::new(&node, device, config.buffer_bytes)?)
        };
        Running::serve(config, Arc::clone(&node) as Arc<dyn Opened>, engine)
    }

    /// Serves an opened node. `engine` makes the part of each loop.
    fn serve<E: LoopEngine>(
        config: &Config,
        node: Arc<dyn Opened>,
        mut engine: impl FnMut() -> Result<E>,
    ) -> Result<Self> {
        let subsystem = subsystem(&*node, config)?;
        let registry = Registry::new(vec![subsystem.clone()], config.max_controllers);
        let settings = config.settings(max_transfer_shift(&subsystem));
        let stop = Stop::new().map_err(Error::io("make an event"))?;
        let (mut servers, mut addresses) = (Vec::new(), Vec::new());
        for &address in &config.listen {
            let listener = listen(address)?;
            let own = listener.local_addr();
            addresses.push(own.map_err(Error::io("ask for an address"))?);
            for _ in 0..config.loops {
                let listener = listener.try_clone().map_err(Error::io("share a socket"))?;
                let backend = EngineBackend::new(engine()?, Arc::clone(&node));
                let server = Server::new(
                    listener,
                    Arc::clone(&registry),
                    settings.clone(),
                    config.limits(),
                    backend,
                );
                servers.push(server.map_err(Error::io("make a poller"))?);
            }
        }
        let loops = servers.into_iter().map(|server| spawn(server, &stop));
        Ok(Running {
            subsystem,
            addresses,
            node,
            loops: loops.collect::<Result<Vec<_>>>()?,
            stop,
        })
    }

    /// Returns the opened node, with its counters.
    pub fn node(&self) -> &dyn Opened {
        &*self.node
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
        ended.and(self.node.close())
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|source| Error::Listen {
        address: address.to_string(),
        source,
    })
}

fn spawn<E: LoopEngine>(
    server: Server<EngineBackend<E>>,
    stop: &Stop,
) -> Result<JoinHandle<Result<()>>> {
    let stop = stop.clone();
    let thread = thread::Builder::new().name("terrace-loop".to_owned());
    let spawned = thread.spawn(move || run(server, &stop));
    spawned.map_err(Error::io("start a thread"))
}

fn run<E: LoopEngine>(server: Server<EngineBackend<E>>, stop: &Stop) -> Result<()> {
    let others = StopsOthers(stop);
    let backend = server.run(stop).map_err(Error::io("serve"))?;
    drop(others);
    backend.into_engine().end()
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
