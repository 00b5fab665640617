//! The deleted ranges that an iterator has to mind, and the reach of each.
//!
//! Layers (`sources.rs`) go from the youngest to the oldest. All versions of a key in an older
//! layer are older than those in a younger one. So the youngest layer with a visible tombstone over
//! a key decides. Everything in the layers below it is hidden as far as that tombstone reaches, and
//! they can be sought past it. In the layer itself the sequence numbers decide; above it nothing is
//! hidden.
//!
//! The last answer is kept with the keys for which it holds: between two edges of any range it is
//! the same. A store without range tombstones has no layers here, and the answer is one comparison.

use std::sync::Arc;

use terrace_lsm::key::MAX_SEQUENCE;
use terrace_lsm::levels::{SubLevel, Table};
use terrace_lsm::range_tombstones::RangeTombstones;

use crate::db::Store;
use crate::{Result, SequenceNumber};

/// The tombstone that decides for a key.
#[derive(Clone, Debug)]
pub(crate) struct Cover {
    /// The position of its layer in the merge.
    pub(crate) source: usize,
    /// Versions in that layer with lower numbers are hidden.
    pub(crate) sequence: SequenceNumber,
    /// The tombstone's range.
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    /// Keys around the range that the layer's tombstones hide together, without a gap. They hide
    /// every version in older layers there, whichever tombstone does it.
    pub(crate) all_start: Vec<u8>,
    pub(crate) all_end: Vec<u8>,
    /// The lowest number of a tombstone in the layer: versions in it with lower numbers are hidden
    /// as far as all of them reach.
    pub(crate) all_sequence: SequenceNumber,
}

impl Cover {
    /// Returns the versions to pass over: those below the returned number, from the first key up to
    /// the second. The tombstone hides the layer's own version with the number `sequence`.
    pub(crate) fn in_layer(&self, sequence: SequenceNumber) -> (SequenceNumber, &[u8], &[u8]) {
        match sequence < self.all_sequence {
            true => (self.all_sequence, &self.all_start, &self.all_end),
            false => (self.sequence, &self.start, &self.end),
        }
    }
}

/// The range tombstones in a view of one keyspace, read at one number.
pub(crate) struct RangeCover {
    /// Number of layers that lie on top of the store: readers see all their tombstones.
    on_top: usize,
    layers: Vec<RangesAt>,
    last: Option<Answer>,
}

/// The answer for a key, and the keys for which it holds.
struct Answer {
    within: Within,
    cover: Option<Cover>,
}

/// Keys from the first up to the second, excluded; `None` is no limit.
#[derive(Default)]
struct Within {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Within {
    fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key)
            && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Narrows the keys to those that both limits allow.
    fn narrow(&mut self, from: Option<&[u8]>, to: Option<&[u8]>) {
        if from > self.from.as_deref() {
            self.from = from.map(<[u8]>::to_vec);
        }
        if let Some(to) = to
            && self.to.as_deref().is_none_or(|present| to < present)
        {
            self.to = Some(to.to_vec());
        }
    }
}

/// The range tombstones of the layer at one position of the merge.
pub(crate) struct RangesAt {
    pub(crate) source: usize,
    pub(crate) ranges: Ranges,
}

/// The range tombstones of a layer.
pub(crate) enum Ranges {
    /// In memory, the youngest set first.
    Sets(Vec<Arc<RangeTombstones>>),
    /// Read from tables as the iterator comes to them.
    SubLevel {
        sub_level: Arc<SubLevel>,
        /// The table read last, by its position.
        read: Option<(usize, Arc<RangeTombstones>)>,
    },
}

impl Ranges {
    /// Returns those in memory, the youngest set first; `None` without a set.
    #[inline]
    pub(crate) fn of_sets(sets: Vec<Arc<RangeTombstones>>) -> Option<Self> {
        (!sets.is_empty()).then_some(Ranges::Sets(sets))
    }

    /// Returns those of a sub-level; `None` if its tables have none.
    #[inline]
    pub(crate) fn of_sub_level(sub_level: &Arc<SubLevel>) -> Option<Self> {
        let has_ranges = !sub_level.tables_with_ranges().is_empty();
        has_ranges.then(|| Ranges::SubLevel {
            sub_level: Arc::clone(sub_level),
            read: None,
        })
    }
}

impl RangeCover {
    /// Makes a cover of range tombstones, those of the youngest layer first. The first `on_top` layers of
    /// the merge lie on top of the store.
    #[inline]
    pub(crate) fn new(on_top: usize, layers: Vec<RangesAt>) -> Self {
        RangeCover {
            on_top,
            layers,
            last: None,
        }
    }

    /// Returns the tombstone that decides for `key` at `snapshot`, which is the same in all calls.
    ///
    /// # Errors
    /// Those of opening a table.
    #[inline]
    pub(crate) fn of_key(
        &mut self,
        store: &Store,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Result<Option<&Cover>> {
        if self.layers.is_empty() {
            return Ok(None);
        }
        let known = self.last.as_ref();
        if !known.is_some_and(|last| last.within.contains(key)) {
            self.last = Some(self.ask_layers(store, key, snapshot)?);
        }
        Ok(self.last.as_ref().and_then(|last| last.cover.as_ref()))
    }

    fn ask_layers(
        &mut self,
        store: &Store,
        key: &[u8],
        snapshot: SequenceNumber,
    ) -> Result<Answer> {
        let mut within = Within::default();
        for layer in &mut self.layers {
            let up_to = match layer.source < self.on_top {
                true => MAX_SEQUENCE,
                false => snapshot,
            };
            let cover = layer.cover(store, key, up_to, &mut within)?;
            if cover.is_some() {
                return Ok(Answer { within, cover });
            }
        }
        let cover = None;
        Ok(Answer { within, cover })
    }
}

impl RangesAt {
    /// Returns the layer's newest tombstone over a key. Narrows `within` to the keys for which that
    /// holds.
    fn cover(
        &mut self,
        store: &Store,
        key: &[u8],
        snapshot: SequenceNumber,
        within: &mut Within,
    ) -> Result<Option<Cover>> {
        let source = self.source;
        match &mut self.ranges {
            Ranges::Sets(sets) => {
                let mut covers = sets
                    .iter()
                    .filter_map(|set| cover_in(set, source, key, snapshot, within));
                // Those of the younger sets are newer.
                let newest = covers.next();
                covers.for_each(drop);
                Ok(newest.map(|newest| reach_together(newest, sets, key, snapshot)))
            }
            Ranges::SubLevel { sub_level, read } => {
                let Some((at, table)) = table_near(sub_level, key, within) else {
                    return Ok(None);
                };
                if read.as_ref().is_none_or(|(position, _)| *position != at) {
                    let open = table.open(&store.files.tables)?;
                    *read = open.range_tombstones().map(|set| (at, Arc::clone(set)));
                }
                let Some((_, set)) = read else {
                    return Ok(None);
                };
                let (smallest, end) = (&table.bounds.smallest, table.bounds.end());
                let cover = cover_in(set, source, key, snapshot, within);
                within.narrow(Some(smallest), Some(&end));
                let sets = std::slice::from_ref(set);
                let cover = cover.map(|cover| reach_together(cover, sets, key, snapshot));
                Ok(cover.map(|cover| Cover {
                    start: cover.start.max(smallest.clone()),
                    end: cover.end.min(end.clone()),
                    all_start: cover.all_start.max(smallest.clone()),
                    all_end: cover.all_end.min(end),
                    ..cover
                }))
            }
        }
    }
}

fn cover_in(
    set: &RangeTombstones,
    source: usize,
    key: &[u8],
    snapshot: SequenceNumber,
    within: &mut Within,
) -> Option<Cover> {
    let (from, to) = set.segment_of(key);
    within.narrow(from, to);
    set.newest_covering(key, snapshot).map(|found| Cover {
        source,
        sequence: found.sequence,
        start: found.start.to_vec(),
        end: found.end.to_vec(),
        all_start: found.start.to_vec(),
        all_end: found.end.to_vec(),
        all_sequence: 0,
    })
}

/// Extends a cover to the keys around `key` that the sets of its layer cover without a gap.
fn reach_together(
    mut cover: Cover,
    sets: &[Arc<RangeTombstones>],
    key: &[u8],
    snapshot: SequenceNumber,
) -> Cover {
    /// Maximum number of rounds for sets that extend each other's cover.
    const ROUNDS: usize = 16;
    let mut end: &[u8] = key;
    let mut start: &[u8] = &cover.start;
    for _ in 0..ROUNDS {
        let (end_before, start_before) = (end, start);
        for set in sets {
            end = set.covered_until(end, snapshot).unwrap_or(end);
            start = set.covered_from(start, snapshot).unwrap_or(start);
        }
        if (end, start) == (end_before, start_before) {
            break;
        }
    }
    let (start, end) = (start.to_vec(), end.to_vec());
    cover.all_end = end.max(cover.all_end);
    cover.all_start = start;
    let oldest = sets.iter().map(|set| set.oldest_sequence()).min();
    cover.all_sequence = oldest.unwrap_or(0);
    cover
}

/// Returns the table of a sub-level that holds range tombstones and may hold `key`, with its
/// position. Where there is none, it narrows `within` to the gap around the key.
fn table_near<'a>(
    sub_level: &'a SubLevel,
    key: &[u8],
    within: &mut Within,
) -> Option<(usize, &'a Arc<Table>)> {
    let with_ranges = sub_level.tables_with_ranges();
    let table = |at: Option<&u32>| {
        let at = *at? as usize;
        sub_level.tables.get(at).map(|table| (at, table))
    };
    let next = with_ranges.partition_point(|at| {
        table(Some(at)).is_some_and(|(_, table)| table.bounds.ends_before(key))
    });
    let before = next.checked_sub(1).and_then(|at| with_ranges.get(at));
    let next = table(with_ranges.get(next));
    if let Some((_, table)) = next
        && table.bounds.contains(key)
    {
        return next;
    }
    let end_before = table(before).map(|(_, table)| table.bounds.end());
    let smallest_next = next.map(|(_, table)| table.bounds.smallest.as_slice());
    within.narrow(end_before.as_deref(), smallest_next);
    None
}
