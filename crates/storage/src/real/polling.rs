//! Reads of a device for which a thread waits on the processor.
//!
//! A thread that sleeps until a device answers pays for it twice. Its processor goes idle, which
//! under a hypervisor is an exit and an interrupt to come back. Then the kernel has to wake the
//! thread. Together that was a third of a read of 4 KiB from a virtual disk. Here the request goes
//! to the kernel through an io_uring, and the thread watches the queue of completions. It sleeps
//! once the answer is so late that sleeping adds little.
//!
//! A thread that watches keeps a processor from others, so
//! - there are half as many rings as processors (none where there is one, 16 at most); a thread
//!   that finds them taken sleeps as usual. The rings belong to the process, as the processors do;
//! - a watch with a long interruption shows that others want the processor: for a while all sleep;
//! - threads watch a device only if its answers come sooner that way: now and then a read waits the
//!   other way, to compare. A disk's answers come no sooner, nor do those of a busy device, or
//!   where an idle processor watches for itself, as some guests do.
//!
//! After any failure here, a plain read follows.

#[cfg_attr(not(feature = "io-uring"), path = "polling/no_ring.rs")]
mod ring;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::ring::Ring;
use crate::ForkMark;

/// Time for which all readers sleep after an interruption.
const RETREAT: Duration = Duration::from_millis(10);
/// Each ring takes a descriptor.
const MOST_RINGS: usize = 16;
/// A longer read keeps the device busy for long enough to sleep.
const LONGEST_BYTES: usize = 64 << 10;
/// One read in this many waits the way that seems to be worse.
const TRIAL: u32 = 32;
/// A read moves a known median by one part in this many: too little for one read to decide.
const LEARNING: u32 = 32;
/// Maximum number of attempts at a lock that is held for less than a microsecond.
const MOST_LOOKS: usize = 100;

/// Times of a device's reads, asleep and watched: medians, as far as they can be followed, since a
/// few reads take many times as long as the others.
#[derive(Debug, Default)]
pub(super) struct Pace {
    asleep_us: AtomicU32,
    watched_us: AtomicU32,
    reads: AtomicU32,
}

impl Pace {
    /// Reads once, as `pread` does, on the processor if that is worth it; else as `sleeping` does.
    pub(super) fn read(
        &self,
        file: &fs::File,
        buffer: &mut [u8],
        offset: u64,
        sleeping: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if buffer.len() > LONGEST_BYTES {
            return sleeping(buffer);
        }
        let begun = Instant::now();
        let watched = self
            .is_to_watch()
            .then(|| rings()?.read(file, buffer, offset))
            .flatten();
        let (count, median_us) = match watched {
            Some(count) => (count, &self.watched_us),
            None => (sleeping(buffer)?, &self.asleep_us),
        };
        learn(median_us, begun.elapsed());
        Ok(count)
    }

    /// Returns whether to watch for the next read: if that saves a tenth of the time, trials aside.
    fn is_to_watch(&self) -> bool {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let asleep_us = u64::from(self.asleep_us.load(Ordering::Relaxed));
        let watched_us = u64::from(self.watched_us.load(Ordering::Relaxed));
        // A way that was never tried has 0.
        let is_worth_it = watched_us * 10 < asleep_us * 9 || watched_us == 0;
        is_worth_it != reads.is_multiple_of(TRIAL)
    }
}

/// Moves a median towards the time of a read. Of two readers that learn at once, one may be
/// forgotten.
fn learn(median_us: &AtomicU32, took: Duration) {
    let took_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
    let known_us = median_us.load(Ordering::Relaxed);
    let step_us = (known_us / LEARNING).max(1);
    let learned_us = match known_us {
        0 => took_us,
        _ if took_us < known_us => known_us - step_us,
        _ if took_us > known_us => known_us.saturating_add(step_us),
        _ => known_us,
    };
    median_us.store(learned_us, Ordering::Relaxed);
}

/// Returns the pace of a file's device, which all its open files share.
///
/// None while another thread holds the lock for long: in a forked child that thread may be one of
/// the parent's, and the lock stays held. Such a file is read asleep.
pub(super) fn pace_of(file: &fs::File) -> io::Result<Option<Arc<Pace>>> {
    let device = file.metadata()?.dev();
    let look = |_| {
        PACES.try_lock().or_else(|| {
            thread::yield_now();
            None
        })
    };
    let Some(mut paces) = (0..MOST_LOOKS).find_map(look) else {
        return Ok(None);
    };
    if let Some(known) = paces.get(&device).and_then(Weak::upgrade) {
        return Ok(Some(known));
    }
    let pace = Arc::new(Pace::default());
    paces.insert(device, Arc::downgrade(&pace));
    Ok(Some(pace))
}

static PACES: Mutex<BTreeMap<u64, Weak<Pace>>> = Mutex::new(BTreeMap::new());

/// Returns whether this process may wait for reads on the processor: there is more than one, and
/// the kernel knows how (5.19) and lets it, which not every container does.
pub(super) fn is_possible() -> bool {
    rings().is_some_and(|rings| rings.are_of_this_process() && !rings.slots.is_empty())
}

/// Returns the rings. None while another thread makes them: in a forked child that thread may be
/// one of the parent's, and never ends.
fn rings() -> Option<&'static Rings> {
    static RINGS: OnceLock<Rings> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(rings) = RINGS.get() {
        return Some(rings);
    }
    // The lock keeps other threads out of the next call.
    let _turn = MAKING.try_lock()?;
    Some(RINGS.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Rings::new((processors / 2).min(MOST_RINGS))
    }))
}

/// The rings of this process, and when they may be watched again.
struct Rings {
    /// None in the place of a ring that the kernel did not serve.
    slots: Vec<Mutex<Option<Ring>>>,
    /// A fork shares the rings' memory, but not the locks on them. The number of a process would not
    /// tell a child: the first one of a namespace has the number 1 in its own.
    mark: Option<ForkMark>,
    epoch: Instant,
    retreat_ends_us: AtomicU64,
}

impl Rings {
    /// Makes `count` rings, or none.
    fn new(count: usize) -> Self {
        let slots = (0..count).map(|_| Ring::new().map(|ring| Mutex::new(Some(ring))));
        Rings {
            slots: slots.collect::<io::Result<_>>().unwrap_or_default(),
            mark: ForkMark::new().ok(),
            epoch: Instant::now(),
            retreat_ends_us: AtomicU64::new(0),
        }
    }

    fn are_of_this_process(&self) -> bool {
        self.mark.is_some_and(|mark| !mark.is_inherited())
    }

    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// Returns the number of bytes read; none if there was no successful read.
    fn read(&self, file: &fs::File, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let is_retreat = self.now_us() < self.retreat_ends_us.load(Ordering::Relaxed);
        if is_retreat || !self.are_of_this_process() {
            return None;
        }
        let mut slots = self.slots.iter();
        let mut slot = slots.find_map(|slot| slot.try_lock().filter(|slot| slot.is_some()))?;
        let Some(answer) = slot.as_mut()?.read(file, buffer, offset) else {
            *slot = None;
            return None;
        };
        drop(slot);
        if answer.was_interrupted {
            let end_us = self.now_us() + RETREAT.as_micros() as u64;
            self.retreat_ends_us.store(end_us, Ordering::Relaxed);
        }
        usize::try_from(answer.result).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: usize = 4096;

    /// Returns a file of pages, each filled with its number.
    fn numbered_pages(count: u8) -> fs::File {
        let file = tempfile::tempfile().unwrap();
        for page in 0..count {
            let offset = u64::from(page) * PAGE as u64;
            file.write_all_at(&[page; PAGE], offset).unwrap();
        }
        file
    }

    /// Returns whether files here can be read without a sleep: else rings read nothing.
    fn can_be_read_awake() -> bool {
        let mut bytes = [0; 1];
        let mut buffers = [io::IoSliceMut::new(&mut bytes)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(numbered_pages(1), &mut buffers, 0, flags).is_ok()
    }

    /// Returns rings, or none where the kernel or a container does not give any.
    fn some_rings(count: usize) -> Option<Rings> {
        let rings = Rings::new(count);
        (!rings.slots.is_empty() && can_be_read_awake()).then_some(rings)
    }

    #[test]
    fn a_ring_reads_what_is_there_and_no_more() {
        let Some(rings) = some_rings(1) else { return };
        let file = numbered_pages(200);
        for page in (0..200).rev() {
            let mut buffer = [0xEE; PAGE];
            let count = rings.read(&file, &mut buffer, page * PAGE as u64);
            assert_eq!(count, Some(PAGE));
            assert_eq!(buffer, [page as u8; PAGE]);
            rings.retreat_ends_us.store(0, Ordering::Relaxed);
        }
        let mut buffer = [0xEE; PAGE];
        assert_eq!(
            rings.read(&file, &mut buffer, 200 * PAGE as u64 - 10),
            Some(10)
        );
        assert_eq!(buffer[..10], [199; 10]);
        assert_eq!(buffer[10..], [0xEE; PAGE - 10]);
    }

    #[test]
    fn what_a_ring_cannot_read_is_left_to_a_plain_read() {
        let Some(rings) = some_rings(1) else { return };
        let directory = fs::File::open("/").unwrap();
        let mut buffer = [0; PAGE];
        assert_eq!(rings.read(&directory, &mut buffer, 0), None);
        rings.retreat_ends_us.store(0, Ordering::Relaxed);
        let file = numbered_pages(1);
        assert_eq!(
            rings.read(&file, &mut buffer, 0),
            Some(PAGE),
            "the ring is free again"
        );
    }

    #[test]
    fn who_finds_no_ring_or_a_processor_that_others_want_sleeps() {
        let Some(mut rings) = some_rings(1) else {
            return;
        };
        let file = numbered_pages(1);
        let read = |rings: &Rings| rings.read(&file, &mut [0; PAGE], 0);
        assert_eq!(read(&Rings::new(0)), None);
        let taken = rings.slots[0].lock();
        assert_eq!(read(&rings), None);
        drop(taken);
        assert_eq!(read(&rings), Some(PAGE));
        let end_us = rings.now_us() + 3_600_000_000;
        rings.retreat_ends_us.store(end_us, Ordering::Relaxed);
        assert_eq!(read(&rings), None);
        rings.retreat_ends_us.store(0, Ordering::Relaxed);
        *rings.slots[0].lock() = None;
        assert_eq!(read(&rings), None, "not served");
        rings.slots.push(Mutex::new(Ring::new().ok()));
        assert_eq!(read(&rings), Some(PAGE), "by the next one");
        rings.mark = None;
        assert_eq!(read(&rings), None, "a parent's");
    }

    #[test]
    fn many_threads_read_their_own() {
        let Some(rings) = some_rings(2) else { return };
        let file = numbered_pages(100);
        let by_rings = AtomicU32::new(0);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (rings, file, by_rings) = (&rings, &file, &by_rings);
                scope.spawn(move || {
                    for turn in 0..2000 {
                        let page = (turn * 7 + thread * 31) % 100;
                        let mut buffer = [0; PAGE];
                        match rings.read(file, &mut buffer, page * PAGE as u64) {
                            Some(count) => {
                                assert_eq!(buffer[..count], [page as u8; PAGE]);
                                by_rings.fetch_add(1, Ordering::Relaxed);
                            }
                            None => rings.retreat_ends_us.store(0, Ordering::Relaxed),
                        }
                    }
                });
            }
        });
        assert!(by_rings.into_inner() > 0);
    }

    /// Returns the number of watched reads out of 1000, on a device whose answers take these times
    /// asleep and watched.
    fn watched_of_1000(pace: &Pace, asleep_us: u64, watched_us: u64) -> usize {
        let read = |_| {
            let is_watched = pace.is_to_watch();
            let (median_us, micros) = match is_watched {
                true => (&pace.watched_us, watched_us),
                false => (&pace.asleep_us, asleep_us),
            };
            learn(median_us, Duration::from_micros(micros));
            is_watched
        };
        (0..1000).map(read).filter(|is_watched| *is_watched).count()
    }

    #[test]
    fn only_a_device_that_answers_sooner_so_is_watched() {
        let pace = Pace::default();
        assert!(watched_of_1000(&pace, 70, 45) > 900, "a quick device");
        watched_of_1000(&pace, 67, 65);
        assert!(watched_of_1000(&pace, 67, 65) < 50, "no sooner");
        watched_of_1000(&pace, 70, 45);
        assert!(watched_of_1000(&pace, 70, 45) > 900, "quick again");
        let disk = Pace::default();
        assert!(watched_of_1000(&disk, 8_000, 8_000) < 50);
        let others = Pace::default();
        assert!(
            watched_of_1000(&others, 4_000_000_000, 4_000_000_000) < 50,
            "stuck"
        );
    }

    #[test]
    fn a_few_slow_reads_do_not_decide() {
        let median_us = AtomicU32::new(0);
        for turn in 0..10_000 {
            let micros = if turn % 20 == 0 { 300_000 } else { 47 };
            learn(&median_us, Duration::from_micros(micros));
        }
        let learned_us = median_us.into_inner();
        assert!((45..=52).contains(&learned_us), "{learned_us}");
    }

    #[test]
    fn files_of_one_device_share_what_is_known_of_it() {
        let (one, other) = (numbered_pages(1), numbered_pages(2));
        let [one, other] = [&one, &other].map(|file| pace_of(file).unwrap().unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        let elsewhere = fs::File::open("/proc/self/stat").unwrap();
        let elsewhere = pace_of(&elsewhere).unwrap().unwrap();
        assert!(!Arc::ptr_eq(&one, &elsewhere));
        // As in a child whose parent had another thread here.
        let _held = PACES.lock();
        assert!(pace_of(&numbered_pages(1)).unwrap().is_none());
    }

    #[test]
    fn a_read_is_had_whichever_way() {
        let pace = Pace::default();
        let file = numbered_pages(3);
        for turn in 0..100 {
            let mut buffer = [0xEE; PAGE];
            let page = turn % 3;
            let offset = page * PAGE as u64;
            let count = pace.read(&file, &mut buffer, offset, |buffer| {
                file.read_at(buffer, offset)
            });
            assert_eq!(count.unwrap(), PAGE);
            assert_eq!(buffer, [page as u8; PAGE]);
        }
        let failed = pace.read(&fs::File::open("/").unwrap(), &mut [0; 10], 0, |_| {
            Err(io::ErrorKind::IsADirectory.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
