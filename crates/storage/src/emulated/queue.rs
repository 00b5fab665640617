//! The queue of a device: the deadline of each request, as a pure function of the requests before it.
//!
//! Reads and writes share one channel. While both have work left each gets half of it, else one gets the
//! whole. The state is the work left of each, in nanoseconds of the whole channel, at one moment. A
//! deadline follows from the work left when the request arrives, and never changes again: a later request
//! finds the work of the earlier ones left, and pays for them. So no work is lost and none counts twice.

use super::speed::{Place, Speed};

/// Longest idle time of the channel that a request may still use. It covers late timers and the bytes
/// read ahead on a hard disk.
const MAX_SPARE_NS: u64 = 1_000_000;

/// Writes of one open file that are not yet known to be on the medium.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Work of its writes in the cache.
    cached_ns: u64,
    /// Mark in [`Queue::sent_ns`] behind its last write that went to the device.
    sent_ns: u64,
    /// Whether it changed since its last sync began.
    is_changed: bool,
    /// End of its last sync.
    synced_ns: u64,
}

impl Dirty {
    /// Takes note of a change without bytes, such as a cut, that a sync makes durable.
    pub(super) fn change(&mut self) {
        self.is_changed = true;
    }
}

/// The work that a device has left.
#[derive(Debug)]
pub(super) struct Queue {
    speed: Speed,
    /// Work of writes that the cache holds.
    max_cached_ns: u64,
    /// Time at which the figures below were right.
    at_ns: u64,
    read_ns: u64,
    write_ns: u64,
    /// Time for which the channel was idle of late, and which no request has used.
    spare_ns: u64,
    /// Work of writes that no one has sent to the device yet.
    cached_ns: u64,
    /// Work of all writes ever sent to the device.
    sent_ns: u64,
    flush_begins_ns: u64,
    flush_ends_ns: u64,
}

impl Queue {
    /// Returns the queue of an idle device.
    pub(super) fn new(speed: Speed, cache_bytes: u64) -> Self {
        Queue {
            speed,
            max_cached_ns: speed.write_ns(cache_bytes, Place::Next),
            at_ns: 0,
            read_ns: 0,
            write_ns: 0,
            spare_ns: 0,
            cached_ns: 0,
            sent_ns: 0,
            flush_begins_ns: 0,
            flush_ends_ns: 0,
        }
    }

    /// Returns the deadline of a read that continues the last one. `late_ns` is the time by which the
    /// caller's last wait was too long.
    pub(super) fn read_next(&mut self, now_ns: u64, late_ns: u64, bytes: u64) -> u64 {
        self.advance(now_ns);
        let work_ns = self.speed.read_ns(bytes, Place::Next);
        let ahead_ns = self.speed.read_ahead_ns();
        self.read_ns += self.less_spare(work_ns, late_ns.saturating_add(ahead_ns));
        self.transferred_ns()
    }

    /// Returns the deadline of a read elsewhere. `depth` counts those under way, this one included.
    pub(super) fn read_elsewhere(
        &mut self,
        now_ns: u64,
        late_ns: u64,
        bytes: u64,
        depth: u64,
    ) -> u64 {
        self.advance(now_ns);
        let work_ns = self.speed.read_ns(bytes, Place::Elsewhere);
        self.read_ns += self.less_spare(work_ns, late_ns);
        let latency_ns = self.speed.latency_ns(depth, bytes);
        let arrived_ns = now_ns.saturating_sub(late_ns.min(latency_ns / 2));
        let writes_ns = self.read_ns.min(self.write_ns);
        self.transferred_ns()
            .max(arrived_ns + latency_ns + writes_ns)
    }

    /// Returns the deadline of a write into the cache: now, unless the cache is full.
    pub(super) fn write(
        &mut self,
        now_ns: u64,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> u64 {
        self.advance(now_ns);
        let work_ns = self.speed.write_ns(bytes, place);
        dirty.cached_ns += work_ns;
        dirty.is_changed = true;
        self.cached_ns += work_ns;
        let held_ns = self.cached_ns + self.write_ns;
        if held_ns <= self.max_cached_ns {
            return now_ns;
        }
        self.send(dirty);
        self.written_ns(self.write_ns.min(held_ns - self.max_cached_ns))
    }

    /// Returns the deadline of a write past the cache.
    pub(super) fn write_direct(
        &mut self,
        now_ns: u64,
        late_ns: u64,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> u64 {
        self.advance(now_ns);
        let work_ns = self.speed.write_ns(bytes, place);
        let work_ns = self.less_spare(work_ns, late_ns);
        self.write_ns += work_ns;
        self.sent_ns += work_ns;
        dirty.sent_ns = self.sent_ns;
        dirty.is_changed = true;
        self.written_ns(self.write_ns)
    }

    /// Returns the deadline of a write that is durable then. Other writes of the file stay as they are.
    pub(super) fn write_durable(
        &mut self,
        now_ns: u64,
        late_ns: u64,
        bytes: u64,
        place: Place,
        dirty: &mut Dirty,
    ) -> u64 {
        let was_changed = dirty.is_changed;
        let written_ns = self.write_direct(now_ns, 0, bytes, place, dirty);
        dirty.is_changed = was_changed;
        self.flush(written_ns, late_ns)
    }

    /// Sends the writes of a file to the device, and waits for nothing.
    pub(super) fn start_write_back(&mut self, now_ns: u64, dirty: &mut Dirty) {
        self.advance(now_ns);
        self.send(dirty);
    }

    /// Returns the deadline of a file's sync.
    pub(super) fn sync(&mut self, now_ns: u64, late_ns: u64, dirty: &mut Dirty) -> u64 {
        self.advance(now_ns);
        if !dirty.is_changed {
            // Another thread's sync may still be under way.
            return dirty.synced_ns.max(now_ns);
        }
        self.send(dirty);
        let behind_ns = self.sent_ns - dirty.sent_ns;
        let written_ns = self.written_ns(self.write_ns.saturating_sub(behind_ns));
        dirty.is_changed = false;
        dirty.synced_ns = self.flush(written_ns, late_ns);
        dirty.synced_ns
    }

    /// Returns the end of the first flush that begins at `ready_ns` or later.
    pub(super) fn flush(&mut self, ready_ns: u64, late_ns: u64) -> u64 {
        let sync_ns = self.speed.sync_ns();
        let ready_ns = ready_ns.saturating_sub(late_ns.min(sync_ns / 2));
        if ready_ns > self.flush_begins_ns || self.flush_ends_ns == 0 {
            self.flush_begins_ns = ready_ns.max(self.flush_ends_ns);
            self.flush_ends_ns = self.flush_begins_ns + sync_ns;
        }
        self.flush_ends_ns
    }

    /// Moves a file's writes from the cache to the device.
    fn send(&mut self, dirty: &mut Dirty) {
        let work_ns = std::mem::take(&mut dirty.cached_ns);
        if work_ns > 0 {
            self.cached_ns -= work_ns;
            self.write_ns += work_ns;
            self.sent_ns += work_ns;
            dirty.sent_ns = self.sent_ns;
        }
    }

    /// Returns the time at which all reads are done.
    fn transferred_ns(&self) -> u64 {
        self.at_ns + self.read_ns + self.read_ns.min(self.write_ns)
    }

    /// Returns the time at which the first `work_ns` of the writes are done.
    fn written_ns(&self, work_ns: u64) -> u64 {
        self.at_ns + work_ns + work_ns.min(self.read_ns)
    }

    /// Takes up to `max_ns` of a request's work from the idle time, and returns the rest.
    fn less_spare(&mut self, work_ns: u64, max_ns: u64) -> u64 {
        let done_ns = work_ns.min(max_ns).min(self.spare_ns);
        self.spare_ns -= done_ns;
        work_ns - done_ns
    }

    /// Does the work up to now.
    fn advance(&mut self, now_ns: u64) {
        let mut left_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        // While both have work, each gets half.
        let shared_ns = left_ns.min(2 * self.read_ns.min(self.write_ns));
        self.read_ns -= shared_ns / 2;
        self.write_ns -= shared_ns - shared_ns / 2;
        left_ns -= shared_ns;
        for work_ns in [&mut self.read_ns, &mut self.write_ns] {
            let done_ns = left_ns.min(*work_ns);
            *work_ns -= done_ns;
            left_ns -= done_ns;
        }
        self.spare_ns = MAX_SPARE_NS.min(self.spare_ns + left_ns);
    }
}
