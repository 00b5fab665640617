//! The states that readers still look at.
//!
//! A merge may drop a version only if a newer one exists and no live snapshot lies between. So a
//! snapshot is registered, and a merge reads the list, under one lock. The number visible at that
//! moment counts as a snapshot too, since any later one is at or above it.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_lsm::read_point::ReadPoint;
use terrace_lsm::sync::Mutex;
use terrace_storage::ForkMark;

use crate::SequenceNumber;
use crate::db::Store;
use crate::db::bell::Bell;
use crate::db::owners::Reads;

/// The live snapshots of a store: numbers with their counts of holders.
#[derive(Debug)]
pub(crate) struct SnapshotList {
    live: Mutex<BTreeMap<SequenceNumber, usize>>,
    mark: ForkMark,
    /// Rung when a number is not held any more.
    bell: Arc<Bell>,
}

impl SnapshotList {
    pub(crate) fn new(mark: ForkMark) -> Self {
        SnapshotList {
            live: Mutex::default(),
            mark,
            bell: Arc::default(),
        }
    }

    /// Returns the bell that rings when a number is not held any more.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Makes a snapshot that keeps nothing: a forked child can read nothing by it.
    pub(crate) fn unregistered(self: &Arc<Self>, point: ReadPoint) -> Snapshot {
        Snapshot {
            held: Arc::new(Held {
                point,
                list: Arc::clone(self),
            }),
        }
    }

    /// Registers the state that `visible` gives.
    pub(crate) fn take(self: &Arc<Self>, visible: impl FnOnce() -> ReadPoint) -> Snapshot {
        let mut live = self.live.lock();
        let point = visible();
        *live.entry(point.sequence()).or_default() += 1;
        self.unregistered(point)
    }

    /// Returns the numbers a merge must preserve, ascending, the visible one included.
    pub(crate) fn stripes(&self, visible: impl FnOnce() -> SequenceNumber) -> Vec<SequenceNumber> {
        let live = self.live.lock();
        let mut stripes: Vec<_> = live.keys().copied().collect();
        let visible = visible();
        if stripes.last() != Some(&visible) {
            stripes.push(visible);
        }
        debug_assert!(
            stripes.is_sorted(),
            "a snapshot is above the visible number"
        );
        stripes
    }

    /// Returns the lowest number that is held.
    pub(crate) fn oldest(&self) -> Option<SequenceNumber> {
        self.live.lock().keys().next().copied()
    }

    /// Returns the count of snapshots. Several may have one number.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().values().sum()
    }
}

#[derive(Debug)]
struct Held {
    point: ReadPoint,
    list: Arc<SnapshotList>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // In a forked child no thread uses the list, and its lock may be held for ever.
        if self.list.mark.is_inherited() {
            return;
        }
        let mut live = self.list.live.lock();
        if let Some(count) = live.get_mut(&self.point.sequence()) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.point.sequence());
                drop(live);
                self.list.bell.ring();
            }
        }
    }
}

/// The store as it was at one moment. Cheap to clone; its state is kept until the last clone is
/// dropped.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
/// db.put(b"key", b"old")?;
/// let snapshot = db.snapshot();
/// db.put(b"key", b"new")?;
/// assert_eq!(db.get_at(&snapshot, b"key")?.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    /// Returns the number up to which every write is in the snapshot.
    pub fn sequence(&self) -> SequenceNumber {
        self.held.point.sequence()
    }

    pub(crate) fn read_point(&self) -> ReadPoint {
        self.held.point
    }

    pub(crate) fn is_of(&self, list: &Arc<SnapshotList>) -> bool {
        Arc::ptr_eq(&self.held.list, list)
    }
}

impl Store {
    /// Returns the present state as of now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        // Under the lock of the list, so that seconds and numbers of snapshots are in one order.
        self.reads.snapshots.take(|| {
            let seconds = self.lifecycle.clock.unix_seconds();
            ReadPoint::with_seconds(self.reads.visible(), seconds)
        })
    }
}

impl Reads {
    /// Registers the present state for one reader, which takes the time if a record asks for it.
    pub(crate) fn hold_present(&self) -> Snapshot {
        self.snapshots.take(|| ReadPoint::at(self.visible()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_until_its_last_holder_lets_go() {
        let list = Arc::new(SnapshotList::new(ForkMark::new().unwrap()));
        let first = list.take(|| ReadPoint::at(5));
        let second = list.take(|| ReadPoint::at(5));
        let clone = second.clone();
        assert_eq!((list.len(), list.stripes(|| 9)), (2, vec![5, 9]));
        drop((first, second));
        assert_eq!(list.stripes(|| 5), [5]);
        assert_eq!(list.len(), 1);
        drop(clone);
        assert_eq!((list.len(), list.stripes(|| 9)), (0, vec![9]));
    }

    /// A calendar that turns a page at each look.
    #[cfg(not(feature = "shuttle"))]
    #[derive(Debug, Default)]
    struct Calendar(std::sync::atomic::AtomicU64);

    #[cfg(not(feature = "shuttle"))]
    impl terrace_storage::Clock for Calendar {
        fn now_ns(&self) -> u64 {
            0
        }

        fn sleep(&self, _: std::time::Duration) {}

        fn unix_seconds(&self) -> u64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        }
    }

    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn reads_at_one_snapshot_agree_on_the_time() {
        let clock = Arc::new(Calendar(1_000.into()));
        let options = crate::Options::in_memory();
        let db = crate::Db::open_on("/store".as_ref(), options, clock.clone()).unwrap();
        let seconds = |snapshot: &Snapshot| snapshot.read_point().seconds(&*clock);
        let (first, later) = (db.snapshot(), db.snapshot());
        assert_eq!(seconds(&first), seconds(&first.clone()));
        assert!(seconds(&first) < seconds(&later));
    }
}
