//! One partition of the space: a bitmap, and a summary of each zone of it.

use super::bitmap::Bitmap;

/// Blocks of a zone. A summary of each zone is kept, so most zones cost a search 8 bytes.
pub(super) const ZONE_BLOCKS: usize = 4096;

/// A summary of a zone. Runs that touch its borders may go on in the neighbours.
#[derive(Clone, Copy)]
struct Zone {
    free: u16,
    /// The free blocks at the beginning.
    prefix: u16,
    /// The free blocks at the end.
    suffix: u16,
    /// The longest run that touches no border; `UNKNOWN` if the zone has changed.
    inner: u16,
}

const UNKNOWN: u16 = u16::MAX;

/// A run of free blocks that a search has met.
pub(super) enum Run {
    /// Reaches from a block to before another; touches the border of a zone.
    Whole(usize, usize),
    /// The longest run inside a zone: number of the zone, and length.
    Inner(usize, usize),
}

impl Run {
    pub(super) fn len(&self) -> usize {
        match *self {
            Run::Whole(from, to) => to - from,
            Run::Inner(_, len) => len,
        }
    }
}

pub(super) struct Partition {
    blocks: usize,
    bitmap: Bitmap,
    zones: Vec<Zone>,
    free: usize,
    /// Where the next search begins.
    next: usize,
}

impl Partition {
    /// Makes a partition of free blocks.
    pub(super) fn new(blocks: usize) -> Self {
        let zone = |zone: usize| {
            let size = (blocks - zone * ZONE_BLOCKS).min(ZONE_BLOCKS) as u16;
            Zone {
                free: size,
                prefix: size,
                suffix: size,
                inner: 0,
            }
        };
        Partition {
            blocks,
            bitmap: Bitmap::new(blocks),
            zones: (0..blocks.div_ceil(ZONE_BLOCKS)).map(zone).collect(),
            free: blocks,
            next: 0,
        }
    }

    /// Returns the first block of `from..to` that is in use.
    pub(super) fn used_in(&self, from: usize, to: usize) -> Option<usize> {
        self.bitmap.next(from, to, false)
    }

    /// Marks `from..to` as free or used. Returns the number of blocks for which that is new.
    pub(super) fn mark(&mut self, from: usize, to: usize, free: bool) -> usize {
        let mut changed = 0;
        for number in from / ZONE_BLOCKS..to.div_ceil(ZONE_BLOCKS) {
            let (start, end) = self.bounds(number);
            let here = self.bitmap.mark(from.max(start), to.min(end), free);
            let zone = &mut self.zones[number];
            zone.free = if free {
                zone.free + here as u16
            } else {
                zone.free - here as u16
            };
            zone.inner = UNKNOWN;
            changed += here;
        }
        self.free = if free {
            self.free + changed
        } else {
            self.free - changed
        };
        changed
    }

    /// Returns the first block of a zone and the one behind its last.
    fn bounds(&self, zone: usize) -> (usize, usize) {
        let start = zone * ZONE_BLOCKS;
        (start, (start + ZONE_BLOCKS).min(self.blocks))
    }

    /// Returns the summary of a zone, brought up to date.
    fn zone(&mut self, number: usize) -> Zone {
        #[cfg(test)]
        self.bitmap.looked.set(self.bitmap.looked.get() + 1);
        let mut zone = self.zones[number];
        if zone.inner != UNKNOWN {
            return zone;
        }
        let (start, end) = self.bounds(number);
        (zone.prefix, zone.suffix, zone.inner) = (0, 0, 0);
        // A zone that is all free or all used needs no look.
        if usize::from(zone.free) == end - start {
            (zone.prefix, zone.suffix) = (zone.free, zone.free);
        } else if zone.free > 0 {
            for run in self.bitmap.runs(start, end) {
                let len = (run.1 - run.0) as u16;
                match run {
                    (from, _) if from == start => zone.prefix = len,
                    (_, to) if to == end => zone.suffix = len,
                    _ => zone.inner = zone.inner.max(len),
                }
            }
        }
        self.zones[number] = zone;
        zone
    }

    /// Visits the runs of free blocks from zone `first` on, around the end: all that touch the border
    /// of a zone, and the longest inside each zone. Until the visitor returns an answer.
    ///
    /// A run over several zones is visited as soon as it has `enough` blocks, and again when it is
    /// longer. One that begins before zone `first` is visited without its beginning, and at the end
    /// whole.
    pub(super) fn runs<T>(
        &mut self,
        first: usize,
        enough: usize,
        mut visit: impl FnMut(&mut Self, Run) -> Option<T>,
    ) -> Option<T> {
        let count = self.zones.len();
        // The first block of a run that reaches the end of the zone before.
        let mut open = None;
        for step in 0..2 * count {
            let number = (first + step) % count;
            let (start, end) = self.bounds(number);
            if number == 0
                && let Some(from) = open.take()
                && let Some(answer) = visit(self, Run::Whole(from, self.blocks))
            {
                return Some(answer);
            }
            let again = step >= count;
            if again && open.is_none() {
                break;
            }
            let zone = self.zone(number);
            let from = open.take().unwrap_or(start);
            let to = start + usize::from(zone.prefix);
            let closed = to < end;
            if !closed {
                open = Some(from);
            }
            if from < to
                && (closed || to - from >= enough)
                && let Some(answer) = visit(self, Run::Whole(from, to))
            {
                return Some(answer);
            }
            if !closed {
                continue;
            }
            if again {
                break;
            }
            if zone.inner > 0
                && let Some(answer) = visit(self, Run::Inner(number, zone.inner.into()))
            {
                return Some(answer);
            }
            open = (zone.suffix > 0).then(|| end - usize::from(zone.suffix));
        }
        None
    }

    /// Iterates over the runs inside a zone that touch no border of it.
    pub(super) fn inner_runs(&self, zone: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (start, end) = self.bounds(zone);
        let inside = move |&(from, to): &(usize, usize)| from > start && to < end;
        self.bitmap.runs(start, end).filter(inside)
    }

    /// Takes a run of `blocks`, the next one that is long enough. Returns its first block.
    pub(super) fn take(&mut self, blocks: usize) -> Option<usize> {
        if blocks > self.free {
            return None;
        }
        let start = self.near(blocks).or_else(|| self.far(blocks))?;
        self.mark(start, start + blocks, false);
        self.next = (start + blocks) % self.blocks;
        Some(start)
    }

    /// Looks in the rest of the present zone.
    fn near(&self, blocks: usize) -> Option<usize> {
        let number = self.next / ZONE_BLOCKS;
        if blocks > usize::from(self.zones[number].free) {
            return None;
        }
        let mut runs = self.bitmap.runs(self.next, self.bounds(number).1);
        runs.find(|run| run.1 - run.0 >= blocks).map(|run| run.0)
    }

    /// Looks everywhere.
    fn far(&mut self, blocks: usize) -> Option<usize> {
        let first = self.next / ZONE_BLOCKS;
        self.runs(first, blocks, |this, run| match run {
            Run::Whole(from, to) => (to - from >= blocks).then_some(from),
            Run::Inner(zone, len) if len >= blocks => {
                let mut runs = this.inner_runs(zone);
                runs.find(|run| run.1 - run.0 >= blocks).map(|run| run.0)
            }
            Run::Inner(..) => None,
        })
    }

    /// Returns the length of the longest run.
    pub(super) fn longest(&mut self) -> usize {
        let mut longest = 0;
        self.runs(0, usize::MAX, |_, run| {
            longest = longest.max(run.len());
            None::<()>
        });
        longest
    }

    /// Visits the small zones of `small` blocks, a part of a zone each, that are not all free and have
    /// as many free blocks as `least` returns then: first block, the one behind the last, free blocks.
    pub(super) fn small_zones(
        &self,
        small: usize,
        least: impl Fn() -> usize,
        mut visit: impl FnMut(usize, usize, usize),
    ) {
        for (number, zone) in self.zones.iter().enumerate() {
            let (start, end) = self.bounds(number);
            let most = usize::from(zone.free).min(small - 1);
            if most < least() || usize::from(zone.free) == end - start {
                continue;
            }
            for from in (start..end).step_by(small) {
                let to = (from + small).min(end);
                let free = self.bitmap.count(from, to);
                if free < to - from && free >= least() {
                    visit(from, to, free);
                }
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bitmap.memory_bytes() + self.zones.capacity() * size_of::<Zone>()
    }

    /// Returns the words of the bitmap and the summaries that were looked at so far.
    #[cfg(test)]
    pub(super) fn looked(&self) -> u64 {
        self.bitmap.looked.get()
    }
}
