//! A server's loops.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace_node::device::{Access, Backend, Device, Medium, open_device};
use terrace_node::engine::{Node, Worker};
use terrace_node::lsm::LsmEngine;
use terrace_node::{Escaped, thread_start};
use terrace_nvmf::server::{Server, Stop};
use terrace_nvmf::target::{Registry, Subsystem};

use crate::backend::EngineBackend;
use crate::config::Config;
use crate::counted::{CountedDevice, DeviceCounts};
use crate::error::{Error, Result};
use crate::http::Http;
use crate::log::Log;
use crate::notify::notify;
use crate::opened::{LoopEngine, Opened, open_store};
use crate::status::Status;
use crate::subsystem::{max_transfer_shift, subsystem};

/// A server that runs.
pub struct Running {
    /// The subsystem that hosts connect to.
    pub subsystem: Subsystem,
    /// The addresses it listens on, with ports that the system chose.
    pub addresses: Vec<SocketAddr>,
    status: Arc<Status>,
    http: Option<Http>,
    log: Log,
    stop: Stop,
    loops: Vec<JoinHandle<Result<()>>>,
}

impl Running {
    /// Opens the node, recovers it and serves.
    ///
    /// # Errors
    /// An option is illegal, the node cannot be opened, or an address cannot be listened on.
    pub fn start(config: &Config) -> Result<Self> {
        Running::start_logged(config, Log::none())
    }

    /// Does the same, with lines for an operator.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub fn start_logged(config: &Config, log: Log) -> Result<Self> {
        config.check()?;
        if let Some(path) = &config.store {
            log.life(format_args!("opening the store {}", Escaped::path(path)));
            let store = open_store(config)?;
            let engine = || Ok(LsmEngine::new(&store, config.buffer_bytes)?);
            return Running::serve(config, log, store.clone(), None, engine);
        }
        let path = config.device.as_deref().unwrap_or("".as_ref());
        log.life(format_args!("opening the device {}", Escaped::path(path)));
        let medium = Arc::new(Medium::open(path, Access::Write)?);
        let open = || {
            Ok(open_device(
                Arc::clone(&medium),
                Backend::Auto,
                config.device_depth,
            )?)
        };
        Running::start_on(config, log, open)
    }

    /// Serves the node of a device that the caller opens, once for each loop: devices that fail when
    /// a test wants it, for one.
    ///
    /// # Errors
    /// As [`Running::start`], and those of `open`.
    pub fn start_on(
        config: &Config,
        log: Log,
        mut open: impl FnMut() -> Result<Box<dyn Device>>,
    ) -> Result<Self> {
        config.check()?;
        let counts = Arc::new(DeviceCounts::default());
        let mut counted = || -> Result<Box<dyn Device>> {
            let device = CountedDevice::new(open()?, &counts);
            Ok(Box::new(device))
        };
        let mut first = counted()?;
        let node = Node::open(&mut *first)?;
        let mut spare = Some(first);
        let engine = || {
            let device = spare.take().map_or_else(&mut counted, Ok)?;
            Ok(Worker::new(&node, device, config.buffer_bytes)?)
        };
        let opened = Arc::clone(&node) as Arc<dyn Opened>;
        Running::serve(config, log, opened, Some(Arc::clone(&counts)), engine)
    }

    /// Serves an opened node. `engine` makes the part of each loop.
    fn serve<E: LoopEngine>(
        config: &Config,
        log: Log,
        node: Arc<dyn Opened>,
        device: Option<Arc<DeviceCounts>>,
        mut engine: impl FnMut() -> Result<E>,
    ) -> Result<Self> {
        let subsystem = subsystem(&*node, config)?;
        let registry = Registry::new(vec![subsystem.clone()], config.max_controllers);
        registry.observe(Arc::new(log.clone()));
        let settings = config.settings(max_transfer_shift(&subsystem));
        let stop = Stop::new().map_err(Error::io("make an event"))?;
        let (mut servers, mut addresses) = (Vec::new(), Vec::new());
        for &address in &config.listen {
            let listener = listen(address)?;
            let own = listener.local_addr();
            addresses.push(own.map_err(Error::io("ask for an address"))?);
            for _ in 0..config.loops {
                let listener = listener.try_clone().map_err(Error::io("share a socket"))?;
                let backend = EngineBackend::new(engine()?, Arc::clone(&node), log.clone());
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
        let place = config.device.as_ref().or(config.store.as_ref());
        let status = Arc::new(Status {
            subsystem: subsystem.nqn.clone(),
            addresses: addresses.clone(),
            place: place.map_or_else(String::new, |place| place.display().to_string()),
            registry,
            node,
            device,
            stop: stop.clone(),
            started: (Instant::now(), SystemTime::now()),
        });
        let http = config.metrics;
        let http = http.map(|address| Http::start(address, Arc::clone(&status)));
        let http = http.transpose()?;
        let mut loops = Vec::new();
        for server in servers {
            match spawn(server, &stop) {
                Ok(thread) => loops.push(thread),
                Err(error) => {
                    // Nobody would stop those that have begun.
                    stop.stop();
                    loops.into_iter().for_each(|thread| drop(thread.join()));
                    return Err(error);
                }
            }
        }
        let running = Running {
            loops,
            subsystem,
            addresses,
            status,
            http,
            log,
            stop,
        };
        running.tell_of_start();
        Ok(running)
    }

    fn tell_of_start(&self) {
        for address in &self.addresses {
            let nqn = &self.subsystem.nqn;
            self.log.life(format_args!("serving {nqn} on {address}"));
        }
        if let Some(address) = self.metrics_address() {
            let what = format_args!("metrics on http://{address}/metrics, status on /status");
            self.log.life(what);
        }
    }

    /// Returns the address of metrics and status, with the port that the system chose.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address)
    }

    /// Returns the opened node, with its counters.
    pub fn node(&self) -> &dyn Opened {
        &*self.status.node
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
            if let Err(error) = &of_loop {
                self.log.fatal(format_args!("a loop ended: {error}"));
                self.stop.stop();
            }
            ended = ended.and(of_loop);
        }
        // Until now an operator can see the commands under way.
        drop(self.http);
        let ended = ended.and(self.status.node.close());
        match &ended {
            Ok(()) => self.log.life("stopped: the node is closed in order"),
            Err(error) => self
                .log
                .fatal(format_args!("stopped by a failure: {error}")),
        }
        ended
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
    let spawned = thread_start::start("terrace-loop", move || run(server, &stop));
    spawned.map_err(Error::io("start the thread"))
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

/// Serves until SIGTERM or SIGINT; a second one ends the process at once, as one before the start does.
/// `started` is called once hosts can connect. A service manager hears
/// of start and end.
///
/// # Errors
/// As [`Running::start`] and [`Running::wait`].
pub fn serve_until_signal(config: &Config, log: Log, started: impl FnOnce(&Running)) -> Result<()> {
    let running = Running::start_logged(config, log.clone())?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Error::io("wait for signals"))?;
    let (stop, handle) = (running.stopper(), signals.handle());
    let drain_seconds = config.drain_seconds;
    let wait = move || {
        let mut all = signals.forever();
        if let Some(signal) = all.next() {
            log.life(format_args!(
                "stopping by signal {signal}: commands under way get {drain_seconds} s"
            ));
            notify("STOPPING=1");
            stop.stop();
        }
        if let Some(signal) = all.next() {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let waiting = thread_start::start("terrace-signals", wait);
    let waiting = waiting.map_err(Error::io("start the thread"))?;
    started(&running);
    notify("READY=1");
    let ended = running.wait();
    handle.close();
    let _ = waiting.join();
    ended
}
