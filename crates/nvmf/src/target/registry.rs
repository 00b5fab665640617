//! The controllers of a target, for all its connections.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use super::controller::Controller;
use super::lookouts::Lookouts;
use super::notice::{Notice, Observer, Party};
use super::statistics::{Counts, Host, Statistics};
use super::subsystem::Subsystem;
use crate::auth::Sequence;
use crate::wire::discovery;
use crate::wire::fabrics::DISCOVERY_NQN;

/// Addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The address that the host reached.
    pub own: SocketAddr,
    /// The host's address.
    pub peer: SocketAddr,
}

/// Subsystems and the controllers that hosts have of them.
pub struct Registry {
    subsystems: Vec<Subsystem>,
    max_controllers: usize,
    /// Bytes that capsules of all queues may take.
    reserved_bytes: AtomicUsize,
    /// The loops, which look at their sockets when a host connects again.
    pub(super) lookouts: Lookouts,
    /// Numbers of all challenges.
    pub(super) challenges: Arc<Sequence>,
    state: Mutex<State>,
    /// Counters of the loops; the first are of connections without a loop.
    statistics: Mutex<Vec<Arc<Statistics>>>,
    observer: OnceLock<Arc<dyn Observer>>,
}

#[derive(Default)]
struct State {
    controllers: HashMap<u16, Arc<Controller>>,
    /// Controllers that are gone, with commands that the backend may still have.
    ending: Vec<Arc<Controller>>,
    last: u16,
}

/// The numbers of controllers: above these the specification has others.
const MAX_CONTROLLER_ID: u16 = 0xffef;

impl Registry {
    /// Makes a registry of subsystems for `max_controllers` controllers at a time.
    pub fn new(subsystems: Vec<Subsystem>, max_controllers: usize) -> Arc<Self> {
        Arc::new(Registry {
            subsystems,
            max_controllers: max_controllers.min(usize::from(MAX_CONTROLLER_ID)),
            lookouts: Lookouts::default(),
            challenges: Arc::new(Sequence::new(&mut rand::rng())),
            reserved_bytes: AtomicUsize::new(0),
            state: Mutex::default(),
            statistics: Mutex::new(vec![Arc::default()]),
            observer: OnceLock::new(),
        })
    }

    /// Returns the number of controllers.
    pub fn controllers(&self) -> usize {
        self.state.lock().controllers.len()
    }

    /// Returns the hosts that have controllers, in the order of the controllers' numbers.
    pub fn hosts(&self, now: Instant) -> Vec<Host> {
        let mut all: Vec<_> = self.state.lock().controllers.values().cloned().collect();
        all.sort_by_key(|controller| controller.id);
        all.iter()
            .map(|controller| controller.describe(now))
            .collect()
    }

    /// Returns the counters of all loops.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        let all = self.statistics.lock();
        all.iter().for_each(|of_loop| of_loop.add_to(&mut sum));
        sum
    }

    /// Has `observer` hear of connections. The first one stays.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    pub(crate) fn notice(&self, party: &Party<'_>, notice: Notice<'_>) {
        if let Some(observer) = self.observer.get() {
            observer.notice(party, notice);
        }
    }

    /// Returns the counters of connections that have no loop.
    pub(super) fn common_statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics.lock()[0])
    }

    /// Makes the counters of a loop.
    pub(crate) fn new_statistics(&self) -> Arc<Statistics> {
        let made = Arc::new(Statistics::default());
        self.statistics.lock().push(Arc::clone(&made));
        made
    }

    pub(super) fn subsystem(&self, nqn: &str) -> Option<&Subsystem> {
        self.subsystems
            .iter()
            .find(|subsystem| subsystem.nqn == nqn)
    }

    /// Makes a controller, whose number no other living one has. None while all numbers are taken. It
    /// takes no place before [`Registry::count`].
    pub(super) fn add(
        &self,
        subsystem: Option<&Subsystem>,
        host: &str,
        host_id: [u8; 16],
        keep_alive_ms: u32,
        (peer, now): (SocketAddr, Instant),
    ) -> Option<Arc<Controller>> {
        let mut state = self.state.lock();
        if state.controllers.len() >= usize::from(MAX_CONTROLLER_ID) {
            return None;
        }
        let mut id = state.last;
        loop {
            id = if id >= MAX_CONTROLLER_ID { 1 } else { id + 1 };
            if !state.controllers.contains_key(&id) {
                break;
            }
        }
        state.last = id;
        let controller = Arc::new(Controller::new(
            id,
            subsystem.cloned(),
            host.to_owned(),
            host_id,
            keep_alive_ms,
            peer,
            now,
        ));
        state.controllers.insert(id, Arc::clone(&controller));
        Some(controller)
    }

    pub(super) fn find(&self, id: u16) -> Option<Arc<Controller>> {
        self.state.lock().controllers.get(&id).cloned()
    }

    /// Takes memory for the capsules of a queue. False if that would be more than `budget_bytes`.
    pub(super) fn reserve(&self, bytes: usize, budget_bytes: usize) -> bool {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let add = |reserved: usize| {
            let sum = reserved.checked_add(bytes)?;
            (sum <= budget_bytes).then_some(sum)
        };
        self.reserved_bytes.fetch_update(set, fetch, add).is_ok()
    }

    /// Gives memory of [`Registry::reserve`] back.
    pub(super) fn release(&self, bytes: usize) {
        let before = self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only what was reserved comes back");
    }

    /// Has a controller take a place among those of hosts. False if there are too many.
    pub(super) fn count(&self, controller: &Controller) -> bool {
        let state = self.state.lock();
        let others = state.controllers.values();
        let counted = others.filter(|other| other.is_counted.load(Ordering::Relaxed));
        let has_room = counted.count() < self.max_controllers;
        if has_room {
            controller.is_counted.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Takes a controller away. Its number is free; its commands are waited for.
    pub(super) fn remove(&self, controller: &Arc<Controller>) {
        controller.end();
        let mut state = self.state.lock();
        if state.controllers.remove(&controller.id).is_some() {
            state.ending.push(Arc::clone(controller));
        }
    }

    /// Returns whether a host has controllers, or had some with commands that the backend still has.
    pub(super) fn knows(&self, host: &str, host_id: [u8; 16]) -> bool {
        let state = self.state.lock();
        let mut all = state.controllers.values().chain(&state.ending);
        all.any(|controller| controller.host_id == host_id && controller.host == host)
    }

    /// Returns whether the backend still has commands of a controller that is gone and that the host
    /// had. Such a command could overtake its own repetition.
    pub(super) fn has_late_commands(&self, host: &str, host_id: [u8; 16]) -> bool {
        let mut state = self.state.lock();
        state
            .ending
            .retain(|controller| controller.in_flight.load(Ordering::SeqCst) > 0);
        let mut ending = state.ending.iter();
        ending.any(|controller| controller.host_id == host_id && controller.host == host)
    }

    /// Returns the discovery log for a host that reached `own`.
    pub(super) fn discovery_log(&self, host: &str, own: SocketAddr) -> Vec<u8> {
        let allowed = self
            .subsystems
            .iter()
            .filter(|subsystem| subsystem.allows(host));
        let mut entries = vec![discovery::entry(
            DISCOVERY_NQN,
            discovery::KIND_THIS_DISCOVERY,
            own,
        )];
        entries.extend(
            allowed.map(|subsystem| discovery::entry(&subsystem.nqn, discovery::KIND_IO, own)),
        );
        discovery::log(1, &entries)
    }
}
