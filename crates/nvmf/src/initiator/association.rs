//! A host's connections to a controller: the admin queue, the I/O queues, and the thread that keeps
//! the controller waiting.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::client::Settings;
use super::connection::{FABRICS_CAPSULE_DATA, Parameters};
use super::controller::{ADMIN_ENTRIES, Controller, Names};
use super::error::{Error, Result};
use super::queue::Queue;
use crate::wire::fabrics::DISCOVERY_NQN;

/// The shortest period of Keep Alive.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// A controller and its queues.
pub(super) struct Association {
    pub(super) queues: Vec<Queue>,
    /// The most bytes of data that a command may have.
    pub(super) max_transfer: Option<u64>,
    admin: Arc<Admin>,
    /// Handle of the admin queue's stream, to wake the thread if it waits for an answer.
    stream: TcpStream,
    keeper: Option<JoinHandle<()>>,
}

/// The admin queue, which the thread and the client share.
struct Admin {
    controller: Mutex<Controller<Queue>>,
    /// The queue is of no use any more.
    lost: AtomicBool,
    /// The thread is to end.
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Association {
    /// Connects all queues.
    pub(super) fn open(address: SocketAddr, settings: &Settings) -> Result<Self> {
        // It has no commands, and needs not prove itself: a false log could lead here.
        if settings.subsystem_nqn == DISCOVERY_NQN {
            let what = "the subsystem is the discovery service, which has no namespaces";
            return Err(Error::InvalidArgument(what));
        }
        let (controller, stream) = open_admin(address, settings)?;
        let mut association = Association {
            queues: Vec::new(),
            max_transfer: controller.max_transfer(),
            stream,
            admin: Arc::new(Admin {
                controller: Mutex::new(controller),
                lost: AtomicBool::new(false),
                stop: Mutex::new(false),
                wake: Condvar::new(),
            }),
            keeper: None,
        };
        association.open_queues(address, settings)?;
        if !settings.keep_alive.is_zero() {
            let period = (settings.keep_alive / 2).max(MIN_PERIOD);
            let admin = association.admin.clone();
            let keeper = thread::Builder::new()
                .name("nvmf-keep-alive".to_owned())
                .spawn(move || admin.keep_alive(period));
            let keeper = keeper.map_err(|error| Error::io("start a thread", error))?;
            association.keeper = Some(keeper);
        }
        Ok(association)
    }

    fn open_queues(&mut self, address: SocketAddr, settings: &Settings) -> Result<()> {
        let mut controller = self.admin.controller.lock();
        let count = controller.request_queues(settings.queues)?;
        let most = controller.max_queue_entries().min(u32::from(u16::MAX)) as u16;
        let entries = settings.queue_entries.min(most).max(2);
        let parameters = Parameters {
            digests: settings.digests,
            entries,
            capsule_data: controller.capsule_data(),
        };
        for number in 1..=count {
            let mut queue = Queue::open(address, parameters, settings.timeout)?;
            controller.connect_queue(&mut queue, number, entries)?;
            self.queues.push(queue);
        }
        Ok(())
    }

    /// Returns the most commands that can be in flight.
    pub(super) fn capacity(&mut self) -> usize {
        let queues = self.queues.iter_mut();
        queues.map(|queue| queue.connection().room()).sum()
    }

    /// Returns whether the admin queue is of no use any more.
    pub(super) fn is_lost(&self) -> bool {
        self.admin.lost.load(Ordering::Acquire)
    }

    /// Lends the controller.
    pub(super) fn with_controller<T>(
        &self,
        work: impl FnOnce(&mut Controller<Queue>) -> Result<T>,
    ) -> Result<T> {
        let result = work(&mut self.admin.controller.lock());
        if let Err(error) = &result {
            self.admin.note(error);
        }
        result
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        *self.admin.stop.lock() = true;
        self.admin.wake.notify_all();
        // The thread may wait for an answer that does not come. The stream may be gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(keeper) = self.keeper.take() {
            // A panic of the thread has been reported, and nothing depends on its result.
            let _ = keeper.join();
        }
    }
}

impl Admin {
    fn keep_alive(&self, period: Duration) {
        loop {
            let mut stop = self.stop.lock();
            if !*stop {
                self.wake.wait_for(&mut stop, period);
            }
            if *stop {
                return;
            }
            drop(stop);
            if let Err(error) = self.controller.lock().keep_alive() {
                self.note(&error);
                return;
            }
        }
    }

    /// Takes note of an error that ends the admin queue.
    fn note(&self, error: &Error) {
        if error.is_of_connection() {
            self.lost.store(true, Ordering::Release);
        }
    }
}

/// Connects an admin queue and brings its controller up. Returns also a handle of its stream.
pub(super) fn open_admin(
    address: SocketAddr,
    settings: &Settings,
) -> Result<(Controller<Queue>, TcpStream)> {
    let parameters = Parameters {
        digests: settings.digests,
        entries: ADMIN_ENTRIES,
        capsule_data: FABRICS_CAPSULE_DATA,
    };
    let queue = Queue::open(address, parameters, settings.timeout)?;
    let stream = queue.handle()?;
    let names = Names {
        host_id: settings.host_id,
        host: settings.host_nqn.clone(),
        subsystem: settings.subsystem_nqn.clone(),
    };
    let secrets = settings.secrets.clone();
    let controller = Controller::start(queue, names, secrets, settings.keep_alive)?;
    Ok((controller, stream))
}
