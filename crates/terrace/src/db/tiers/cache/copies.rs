//! A cache as the readers of tables see it.

use terrace_lsm::sync::atomic::Ordering;
use terrace_lsm::table::copies::{BlockCopies, Copied, CopiedBlock};

use super::format::Key;
use super::writer::Offer;
use super::{TierCache, Writes};

impl BlockCopies for TierCache {
    fn look(&self, block: &CopiedBlock, is_counted: bool) -> Copied {
        if !self.is_on() {
            return Copied::Unwanted;
        }
        let key = Key::of(self.owner.store_id, block);
        let hash = key.hash();
        if is_counted && self.sketch.load().count(hash) {
            let limit = self.limit.load(Ordering::Relaxed);
            self.limit.store(limit / 2, Ordering::Relaxed);
        }
        if let Some(found) = self.find(&key, hash) {
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
            return Copied::Found(found);
        }
        self.counts.misses.fetch_add(1, Ordering::Relaxed);
        match is_counted && self.wants(hash, block.length_bytes) {
            true => Copied::Wanted,
            false => Copied::Unwanted,
        }
    }

    fn has(&self, block: &CopiedBlock) -> bool {
        let hash = Key::of(self.owner.store_id, block).hash();
        self.is_on() && self.index.get(hash).is_some()
    }

    fn offer(&self, block: &CopiedBlock, stored: Vec<u8>) {
        let key = Key::of(self.owner.store_id, block);
        let offer = Offer {
            hash: key.hash(),
            key,
            block: stored,
        };
        if !self.queue.lock().push(offer) {
            return;
        }
        match self.writes {
            Writes::InThread => {
                self.wished.notify_all();
            }
            // Another reader that is at it takes this block, too, or the next one does.
            Writes::Inline => {
                if let Some(mut writer) = self.writer.try_lock() {
                    self.work_with(&mut writer);
                }
            }
            Writes::Never => {}
        }
    }

    fn table_opened(&self, number: u64) {
        self.queue.lock().table_opened(number);
    }

    fn table_removed(&self, number: u64) {
        let next_sequence = self.next_sequence.load(Ordering::Relaxed);
        self.queue.lock().remove_table(number, next_sequence);
    }
}
