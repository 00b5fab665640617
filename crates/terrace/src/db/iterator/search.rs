//! The search of an iterator: from a place on to the next key that its snapshot sees.
//!
//! The search steps over a few hidden versions and rows, and seeks past more. It asks which deleted
//! ranges hide a key, and which stretch of keys is known to hold nothing.

use std::ops::Range;
use std::sync::Arc;

use terrace_lsm::block_value::TableValue;
use terrace_lsm::compaction::Versions;
use terrace_lsm::cursor::Cursor;
use terrace_lsm::key::{InternalKey, MAX_SEQUENCE, Tag};
use terrace_lsm::read_point::ReadPoint;

use super::IterOptions;
use crate::db::Store;
use crate::db::empty_stretch::{Keys, Stretch};
use crate::db::passed_over::{Due, PassedKeys};
use crate::db::sources::{MakeLayer, Source};
use crate::{KeyspaceId, Result, SequenceNumber};

/// The search of an iterator in a merge, and the row that it has found.
pub(super) struct Search {
    pub(super) store: Arc<Store>,
    pub(super) keyspace: KeyspaceId,
    /// With the snapshot that keeps the versions of `point`.
    pub(super) options: IterOptions,
    /// The state that all moves see.
    pub(super) point: ReadPoint,
    /// The layers on top of the store, from the youngest on.
    pub(super) on_top: Vec<MakeLayer>,
    /// The highest number of a version that the search sees.
    pub(super) newest: SequenceNumber,
    pub(super) key: Vec<u8>,
    pub(super) value: RowValue,
    /// The key from which on the move notes hidden keys.
    pub(super) noted_from: Vec<u8>,
    /// The last key passed over; none of its versions is visible.
    pub(super) passed_key: Vec<u8>,
    /// The key from which on the move pays for hidden keys: not for those of a remembered stretch.
    pub(super) paid_from: Vec<u8>,
    /// Work that the move has paid for. The end of the move begins it.
    pub(super) due: Due,
}

/// Keys that a move has passed over.
#[derive(Default)]
struct Passed {
    count: u32,
    /// Number of keys passed over since `Search::noted_from`, up to `passed_key`.
    notes: u32,
    in_arenas: u32,
    in_tables: u32,
}

impl Passed {
    /// Number of hidden keys after which a move looks for a known stretch.
    const LOOK: u32 = 8;
    /// Number of hidden keys that are worth a new stretch, or a longer one.
    const LEAST_NOTES: u32 = 16;
    /// Number of hidden keys that are worth a payment.
    const LEAST_PAID: u32 = 64;

    fn note(&mut self, is_in_arena: bool) {
        self.count += 1;
        self.notes += 1;
        match is_in_arena {
            true => self.in_arenas += 1,
            false => self.in_tables += 1,
        }
    }

    fn is_worth_paying(&self) -> bool {
        self.in_arenas + self.in_tables >= Passed::LEAST_PAID
    }

    /// Returns whether it is time to look for a stretch, which is once a move.
    fn is_to_look(&self) -> bool {
        self.count == Passed::LOOK
    }

    fn begin_notes(&mut self) {
        self.count = Passed::LOOK + 1;
        self.notes = 0;
    }

    fn is_worth_telling(&self) -> bool {
        self.count > Passed::LOOK && self.notes >= Passed::LEAST_NOTES
    }
}

impl Search {
    /// Returns the merge, and whether it stands where it was left. A merge is new, and does not, if
    /// the old one was taken away or pins too much.
    pub(super) fn renew<'s>(
        &self,
        held: &'s mut Option<Box<Source>>,
    ) -> Result<(&'s mut Source, bool)> {
        let positioned = held
            .as_deref()
            .is_some_and(|source| !self.store.reads.is_to_be_released(source));
        if !positioned {
            *held = None;
        }
        let source = match held {
            Some(source) => source,
            none => {
                let view = self.store.reads.view.load_full();
                let options = self.options.of_tables();
                let on_top = &self.on_top;
                let source = self
                    .store
                    .files
                    .source(view, self.keyspace, options, on_top)?;
                none.insert(Box::new(source))
            }
        };
        Ok((source, positioned))
    }

    /// Returns whether a merge of level 0 is due: a seek has asked each of its sub-levels, and may have
    /// paid the last of its price.
    pub(super) fn pays_for_merge(&self, source: &Source) -> bool {
        self.store.pays_for_merge(self.keyspace, &source.view)
    }

    /// Ends a seek: begins a merge that is due, now that no lock here is in its way. From this seek
    /// on, blocks may also have more of the memory.
    pub(super) fn end_seek(&mut self, is_merge_due: bool) {
        if self.options.fill_cache && !self.options.verify {
            self.store.settle_boundary();
        }
        if is_merge_due {
            self.store
                .lifecycle
                .background
                .compaction_wanted(&self.store);
        }
        if self.due.is_any() {
            self.begin_due();
        }
    }

    /// Begins the work that the move has paid for. The iterator no longer holds its source.
    #[cold]
    pub(super) fn begin_due(&mut self) {
        self.store.begin_paid_work(std::mem::take(&mut self.due));
    }

    /// Finds the first visible key from a place within the bounds on. Later keys are not below the
    /// lower one.
    #[inline]
    pub(super) fn find_forward(&mut self, source: &mut Source) -> Result<bool> {
        let mut passed = Passed::default();
        let found = self.pass_forward(source, &mut passed)?;
        if passed.is_worth_telling() && !source.has_layers_on_top() {
            let to = behind(&self.passed_key);
            let from = self.noted_from.clone();
            let paid = Keys {
                from: self.paid_from.clone(),
                to: to.clone(),
            };
            self.pay(source, &passed, paid);
            self.tell_of_stretch(Keys { from, to });
        }
        Ok(found)
    }

    /// Pays for the keys that were passed over one by one.
    #[cold]
    fn pay(&mut self, source: &Source, passed: &Passed, keys: Keys) {
        if passed.is_worth_paying() && keys.from < keys.to {
            let passed = PassedKeys {
                keys,
                in_arenas: passed.in_arenas,
                in_tables: passed.in_tables,
            };
            let paid = self
                .store
                .pays_for_passed_over(self.keyspace, &source.view, &passed);
            self.due.flush |= paid.flush;
            self.due.merge |= paid.merge;
        }
    }

    #[cold]
    fn tell_of_stretch(&self, seen: Keys) {
        let snapshot = self.point.sequence();
        if seen.from < seen.to && !self.store.reads.is_dropped(self.keyspace) {
            let stretches = &self.store.reads.empty_stretches;
            let written = || self.store.written_if_idle();
            stretches.offer(self.keyspace, seen, snapshot, written);
        }
    }

    /// Returns the stretch without visible keys that the merge stands in.
    fn stretch_at(&self, versions: &Versions) -> Option<Arc<Stretch>> {
        let (key, snapshot) = (versions.key().user_key, self.point.sequence());
        self.store
            .reads
            .empty_stretches
            .around(self.keyspace, key, snapshot)
    }

    /// Goes on behind a stretch without visible keys, if the merge stands in one. Layers before `first` lie
    /// on top: they stay, since the store does not know their keys.
    #[cold]
    fn look_forward(
        &mut self,
        versions: &mut Versions,
        first: usize,
        passed: &mut Passed,
    ) -> Result<()> {
        passed.begin_notes();
        match self.stretch_at(versions) {
            Some(stretch) => {
                replace(&mut self.noted_from, &stretch.keys.from);
                replace(&mut self.paid_from, &stretch.keys.to);
                versions.skip_forward(first, before_versions_of(&stretch.keys.to))
            }
            None => {
                replace(&mut self.noted_from, versions.key().user_key);
                replace(&mut self.paid_from, versions.key().user_key);
                Ok(())
            }
        }
    }

    /// Goes on before a stretch, coming from the other side.
    #[cold]
    fn look_backward(
        &mut self,
        versions: &mut Versions,
        first: usize,
        passed: &mut Passed,
    ) -> Result<()> {
        passed.begin_notes();
        match self.stretch_at(versions) {
            Some(stretch) => {
                replace(&mut self.noted_from, &stretch.keys.to);
                replace(&mut self.paid_from, &stretch.keys.from);
                versions.skip_backward(first, before_versions_of(&stretch.keys.from))
            }
            None => {
                self.noted_from = behind(versions.key().user_key);
                replace(&mut self.paid_from, &self.noted_from);
                Ok(())
            }
        }
    }

    #[inline]
    fn pass_forward(&mut self, source: &mut Source, passed: &mut Passed) -> Result<bool> {
        let Source {
            versions,
            cover,
            arenas,
            ..
        } = source;
        let snapshot = self.point.sequence();
        while versions.valid() {
            let key = versions.key();
            if !self.options.below_upper(key.user_key) {
                return Ok(false);
            }
            if !self.sees(versions, key.sequence()) {
                skip_newer(versions, snapshot, &mut self.key)?;
                continue;
            }
            let cover = cover.of_key(&self.store, key.user_key, snapshot)?;
            if let Some(cover) = cover.filter(|cover| key.sequence() < cover.sequence) {
                if versions.source().is_some_and(|at| at > cover.source) {
                    versions.skip_forward(cover.source + 1, before_versions_of(&cover.all_end))?;
                } else {
                    passed.note(is_in(arenas, versions.source()));
                    replace(&mut self.passed_key, key.user_key);
                    let (below, _, end) = cover.in_layer(key.sequence());
                    versions.pass_hidden(below, end)?;
                    if passed.is_to_look() && versions.valid() {
                        self.look_forward(versions, arenas.start, passed)?;
                    }
                }
                continue;
            }
            let live = self.folds_to_value(key.tag, versions)?;
            replace(&mut self.key, key.user_key);
            if live {
                self.value.show(versions);
                return Ok(true);
            }
            passed.note(is_in(arenas, versions.source()));
            skip_key(versions, &self.key)?;
            std::mem::swap(&mut self.key, &mut self.passed_key);
            if passed.is_to_look() && versions.valid() {
                self.look_forward(versions, arenas.start, passed)?;
            }
        }
        Ok(false)
    }

    /// Returns whether the search sees the version that the merge stands on. Above the read point,
    /// it sees only versions of layers on top: a forged table may hold their numbers, too.
    #[inline]
    fn sees(&self, versions: &Versions, sequence: SequenceNumber) -> bool {
        sequence <= self.point.sequence()
            || self.point.sees(sequence) && is_before(versions.source(), self.on_top.len())
    }

    /// Returns whether the version that the merge stands on is a value, if it decides for its key.
    #[inline]
    fn folds_to_value(&mut self, tag: Tag, versions: &Versions) -> Result<bool> {
        let (value, file) = (|| versions.value(), || versions.file());
        self.store.folds_to_value(tag, &mut self.point, value, file)
    }

    /// Finds the last visible key from a place within the bounds back. Earlier keys are not above the upper
    /// one.
    pub(super) fn find_backward(&mut self, source: &mut Source) -> Result<bool> {
        let mut passed = Passed::default();
        let found = self.pass_backward(source, &mut passed)?;
        if passed.is_worth_telling() && !source.has_layers_on_top() {
            let (from, to) = (self.passed_key.clone(), self.noted_from.clone());
            let paid = Keys {
                from: from.clone(),
                to: self.paid_from.clone(),
            };
            self.pay(source, &passed, paid);
            self.tell_of_stretch(Keys { from, to });
        }
        Ok(found)
    }

    fn pass_backward(&mut self, source: &mut Source, passed: &mut Passed) -> Result<bool> {
        let Source {
            versions,
            cover,
            arenas,
            ..
        } = source;
        let snapshot = self.point.sequence();
        while versions.valid() {
            let key = versions.key();
            let user_key = key.user_key;
            if !self.options.above_lower(user_key) {
                return Ok(false);
            }
            let cover = cover.of_key(&self.store, user_key, snapshot)?;
            if let Some(cover) = cover {
                let source = versions.source();
                if source.is_some_and(|at| at > cover.source) {
                    let start = before_versions_of(&cover.all_start);
                    versions.skip_backward(cover.source + 1, start)?;
                    continue;
                }
                if source == Some(cover.source) && key.sequence() < cover.sequence {
                    let (below, start, _) = cover.in_layer(key.sequence());
                    versions.pass_hidden_back(below, start)?;
                    continue;
                }
            }
            let hidden_below = cover.map_or(0, |cover| cover.sequence);
            replace(&mut self.key, user_key);
            let (live, source) = self.pass_key_backward(versions, hidden_below)?;
            if live {
                return Ok(true);
            }
            passed.note(is_in(arenas, source));
            std::mem::swap(&mut self.key, &mut self.passed_key);
            if passed.is_to_look() && versions.valid() {
                self.look_backward(versions, arenas.start, passed)?;
            }
        }
        Ok(false)
    }

    /// Steps back over all versions of `self.key`; the last visible one met decides, unless its
    /// number is below the one of a deleted range. Returns whether it is shown, and its source.
    fn pass_key_backward(
        &mut self,
        versions: &mut Versions,
        hidden_below: SequenceNumber,
    ) -> Result<(bool, Option<usize>)> {
        let (mut live, mut source) = (false, None);
        for _ in 0..STEPS {
            if !versions.valid() || versions.key().user_key != self.key.as_slice() {
                return Ok((live, source));
            }
            let tag = versions.key().tag;
            if self.sees(versions, tag.sequence()) {
                source = versions.source();
                live = tag.sequence() >= hidden_below && self.folds_to_value(tag, versions)?;
                if live {
                    self.value.show(versions);
                }
            }
            versions.prev()?;
        }
        if !versions.valid() || versions.key().user_key != self.key.as_slice() {
            return Ok((live, source));
        }
        // From the other side: the first version that the read point sees is the newest.
        versions.seek(InternalKey::seek(&self.key, self.newest))?;
        let is_newest = self.newest == self.point.sequence();
        if !is_newest && !self.sees(versions, versions.key().sequence()) {
            versions.seek(InternalKey::seek(&self.key, self.point.sequence()))?;
        }
        source = versions.source();
        let key = versions.key();
        live = versions.valid()
            && key.user_key == self.key.as_slice()
            && key.sequence() >= hidden_below
            && self.folds_to_value(key.tag, versions)?;
        if live {
            self.value.show(versions);
        }
        seek_last_before(versions, before_versions_of(&self.key))?;
        Ok((live, source))
    }
}

/// The value of the row that an iterator shows. The merge it came from may be taken away meanwhile.
#[derive(Default)]
pub(super) struct RowValue {
    copied: Vec<u8>,
    /// Counts in place of the copy.
    held: Option<TableValue>,
}

impl RowValue {
    /// A smaller copy costs less than counting the holders of its block, which threads share.
    const LEAST_HELD_BYTES: usize = 512;

    fn show(&mut self, versions: &Versions) {
        let bytes = versions.value();
        if bytes.len() >= RowValue::LEAST_HELD_BYTES {
            versions.hold_value(&mut self.held);
        } else {
            self.held = None;
        }
        if self.held.is_none() {
            replace(&mut self.copied, bytes);
        }
    }

    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.held.as_deref().unwrap_or(&self.copied)
    }
}

pub(super) fn replace(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}

/// Moves to the last version before a place.
pub(super) fn seek_last_before(versions: &mut Versions, past: InternalKey<'_>) -> Result<()> {
    versions.seek(past)?;
    if versions.valid() {
        versions.prev()
    } else {
        versions.seek_to_last()
    }
}

/// Returns whether a layer is one of the first `layers`.
fn is_before(layer: Option<usize>, layers: usize) -> bool {
    layer.is_some_and(|layer| layer < layers)
}

/// Returns whether a layer of the merge is a MemTable.
fn is_in(arenas: &Range<usize>, layer: Option<usize>) -> bool {
    layer.is_some_and(|layer| arenas.contains(&layer))
}

/// Returns the first key behind a key.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Returns the place before every version of a key.
pub(super) fn before_versions_of(key: &[u8]) -> InternalKey<'_> {
    InternalKey::seek(key, MAX_SEQUENCE)
}

/// Returns the place after every version of a key.
pub(super) fn after_versions_of(key: &[u8]) -> InternalKey<'_> {
    InternalKey {
        user_key: key,
        tag: Tag(0),
    }
}

/// A few steps are cheaper than a seek; many versions of one key are not.
const STEPS: usize = 8;

/// Goes from a version newer than the snapshot to one that is not, or to another key. `buffer`
/// takes the key.
fn skip_newer(
    versions: &mut Versions,
    snapshot: SequenceNumber,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    replace(buffer, versions.key().user_key);
    for _ in 0..STEPS {
        versions.next()?;
        let key = versions.key();
        if !versions.valid() || key.sequence() <= snapshot || key.user_key != buffer.as_slice() {
            return Ok(());
        }
    }
    versions.seek(InternalKey::seek(buffer, snapshot))
}

/// Goes to the first version of another key, past those of `key`. The present version may be one of
/// these.
pub(super) fn skip_key(versions: &mut Versions, key: &[u8]) -> Result<()> {
    for _ in 0..STEPS {
        if !versions.valid() || versions.key().user_key != key {
            return Ok(());
        }
        versions.next()?;
    }
    if versions.valid() && versions.key().user_key == key {
        versions.seek(after_versions_of(key))?;
    }
    Ok(())
}
