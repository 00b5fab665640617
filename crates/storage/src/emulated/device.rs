//! An emulated device: one queue for all its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clock::PreciseClock;
use super::queue::{Dirty, Queue};
use super::space::Space;
use super::speed::{Place, Speed};
use super::turn::{Turn, take_late_ns};
use crate::{Clock, DeviceProfile};

/// Size of a device's write cache for which no other is set.
const DEFAULT_WRITE_CACHE_BYTES: u64 = 64 << 20;

/// A device with the speed of a [`DeviceProfile`], which the storages on it share. Two devices do not
/// slow each other down.
///
/// ```
/// use terrace_storage::{DeviceProfile, EmulatedDevice};
/// let flash = EmulatedDevice::new("qlc", DeviceProfile::QLC)
///     .with_capacity_bytes(1 << 30)
///     .with_write_cache_bytes(16 << 20);
/// assert_eq!(flash.name(), "qlc");
/// ```
#[derive(Debug)]
pub struct EmulatedDevice {
    name: String,
    speed: Speed,
    clock: Arc<dyn Clock>,
    queue: Mutex<Queue>,
    /// Number of reads under way that do not continue another.
    elsewhere: AtomicU64,
    /// Whether requests take no time at the moment.
    is_instant: AtomicBool,
    space: Space,
}

impl EmulatedDevice {
    /// Returns an idle device with a write cache of 64 MiB, and the capacity of the storage below.
    pub fn new(name: &str, profile: DeviceProfile) -> Self {
        let speed = Speed::new(&profile);
        EmulatedDevice {
            name: name.to_owned(),
            speed,
            clock: Arc::new(PreciseClock::new()),
            queue: Mutex::new(Queue::new(speed, DEFAULT_WRITE_CACHE_BYTES)),
            elsewhere: AtomicU64::new(0),
            is_instant: AtomicBool::new(false),
            space: Space::default(),
        }
    }

    /// Waits by another clock than the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Bounds the bytes of the files that are opened through the device.
    #[must_use]
    pub fn with_capacity_bytes(mut self, capacity_bytes: u64) -> Self {
        self.space = Space::new(capacity_bytes);
        self
    }

    /// Sets the bytes of buffered writes that wait in memory for a sync.
    #[must_use]
    pub fn with_write_cache_bytes(self, bytes: u64) -> Self {
        EmulatedDevice {
            queue: Mutex::new(Queue::new(self.speed, bytes)),
            ..self
        }
    }

    /// Has requests take no time from now on, or again the time of the device. So an experiment that measures a
    /// state need not wait until the device has been brought into it.
    pub fn set_instant(&self, is_instant: bool) {
        self.is_instant.store(is_instant, Ordering::Relaxed);
    }

    /// Returns the name by which [`FileSystem::name`](crate::FileSystem::name) shows the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Begins a read. `None` if it need not wait.
    pub(super) fn read(self: &Arc<Self>, bytes: u64, place: Place) -> Option<Turn> {
        if place == Place::Next {
            return self.turn(|queue, now_ns, late_ns| queue.read_next(now_ns, late_ns, bytes));
        }
        let depth = 1 + self.elsewhere.fetch_add(1, Ordering::Relaxed);
        let turn =
            self.turn(|queue, now_ns, late_ns| queue.read_elsewhere(now_ns, late_ns, bytes, depth));
        match turn {
            Some(turn) => Some(turn.elsewhere()),
            None => {
                self.end_elsewhere();
                None
            }
        }
    }

    /// Takes a read from those elsewhere.
    pub(super) fn end_elsewhere(&self) {
        self.elsewhere.fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins a write into the cache. `None` if there is room.
    pub(super) fn write(
        self: &Arc<Self>,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> Option<Turn> {
        self.turn(|queue, now_ns, _| queue.write(now_ns, bytes, place, dirty))
    }

    /// Begins a write past the cache.
    pub(super) fn write_direct(
        self: &Arc<Self>,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> Option<Turn> {
        self.turn(|queue, now_ns, late_ns| queue.write_direct(now_ns, late_ns, bytes, place, dirty))
    }

    /// Begins a write that is durable at its end.
    pub(super) fn write_durable(
        self: &Arc<Self>,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> Option<Turn> {
        self.turn(|queue, now_ns, late_ns| {
            queue.write_durable(now_ns, late_ns, bytes, place, dirty)
        })
    }

    /// Sends a file's writes to the device.
    pub(super) fn start_write_back(&self, dirty: &mut Dirty) {
        if self.is_instant.load(Ordering::Relaxed) {
            return;
        }
        let mut queue = self.queue.lock();
        queue.start_write_back(self.clock.now_ns(), dirty);
    }

    /// Begins the sync of a file. `None` if nothing changed.
    pub(super) fn sync(self: &Arc<Self>, dirty: &mut Dirty) -> Option<Turn> {
        self.turn(|queue, now_ns, late_ns| queue.sync(now_ns, late_ns, dirty))
    }

    /// Begins the sync of names.
    pub(super) fn flush(self: &Arc<Self>) -> Option<Turn> {
        self.turn(|queue, now_ns, late_ns| queue.flush(now_ns, late_ns))
    }

    /// Begins a request, whose deadline the queue gives. An instant device leaves the queue as it is.
    fn turn(
        self: &Arc<Self>,
        deadline_ns: impl FnOnce(&mut Queue, u64, u64) -> u64,
    ) -> Option<Turn> {
        if self.is_instant.load(Ordering::Relaxed) {
            return None;
        }
        let late_ns = take_late_ns();
        let mut queue = self.queue.lock();
        // Under the lock, so that times do not go back.
        let now_ns = self.clock.now_ns();
        let deadline_ns = deadline_ns(&mut queue, now_ns, late_ns);
        (deadline_ns > now_ns).then(|| Turn::new(Arc::clone(self), deadline_ns))
    }
}
