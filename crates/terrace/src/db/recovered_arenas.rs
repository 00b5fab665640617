//! The way of recovered writes from arenas to tables.
//!
//! The writes in arenas go to tables before the first new one: a recovered arena is never
//! appended to. One edit installs the tables and retires every arena that was live, so that a crash in
//! between finds the state of before. Where space is short, each arena has an edit of its own, oldest
//! first, as in a store that goes on. Arenas that find no room even so stay sealed, for a later flush.

use terrace_lsm::levels::{ArenaHome, Edit};

use crate::db::Store;
use crate::db::flush::ToFlush;
use crate::db::owners::ManifestLog;
use crate::db::recover::{RecoveredWrites, TakenArena};
use crate::options::Durability;
use crate::{Error, Result};

impl Store {
    /// Moves the recovered writes to tables and retires every arena that was live. Arenas for which a
    /// full disk has no room stay sealed until a later flush.
    pub(crate) fn finish_recovery(&self, recovered: RecoveredWrites) -> Result<()> {
        let left = self.flush_recovered(recovered)?;
        self.recycle_retired()?;
        if matches!(self.manifest_log.arena_home, ArenaHome::Region { .. }) {
            self.remove_left_arenas()?;
        }
        self.keep_unflushed(&left)?;
        self.writes.region.end_recovery();
        Ok(())
    }

    /// Installs the tables of all arenas by one edit. Where the disk does not take them beside the
    /// arenas, one arena after the other goes to tables and gives its space back. Returns the
    /// arenas that find no room even so.
    fn flush_recovered(&self, recovered: RecoveredWrites) -> Result<Vec<TakenArena>> {
        let bytes = recovered.bytes();
        let all = || {
            let arenas = ToFlush::Found(&recovered.arenas);
            self.flush_all(
                arenas,
                self.manifest_log.live_generations(),
                recovered.last_sequence,
            )
        };
        match self.with_reserve(all) {
            Err(error) if error.is_no_space() && self.is_home_recorded() => {
                self.flush_one_by_one(recovered)
            }
            flushed => {
                flushed.map_err(|error| self.files.name_need(error, bytes))?;
                Ok(Vec::new())
            }
        }
    }

    /// Returns whether the first edit of an opening has no change of the region and no loss to
    /// record. All older arenas must be retired by the same edit: they are looked for where the
    /// manifest says.
    fn is_home_recorded(&self) -> bool {
        let ledger = self.manifest_log.ledger.lock();
        let recorded = Durability::of(ledger.state.identity.domain);
        self.manifest_log
            .arena_home
            .is_same(&ledger.state.arena_home)
            && self.writes.durability.same_region_as(recorded)
            && ledger.loss.is_none()
    }

    fn flush_one_by_one(&self, recovered: RecoveredWrites) -> Result<Vec<TakenArena>> {
        let bytes = recovered.bytes();
        let flush = |arenas: &[TakenArena], generations: Vec<u64>, last_sequence| {
            let arenas = ToFlush::Found(arenas);
            // No table goes along: its space would not come back before the end of the opening.
            self.with_reserve(|| self.flush_with(arenas, generations.clone(), last_sequence, 0))
        };
        let give_back = || {
            self.recycle_retired()?;
            // Before the sync, btrfs gives nothing back.
            Ok::<_, Error>(self.manifest_log.arena_directory.sync()?)
        };
        // Slots go from here on, those of arenas without a frame first.
        self.keep_slots_from(u64::MAX)?;
        give_back()?;
        if !recovered.empty.is_empty() && !recovered.arenas.is_empty() {
            let edit = Edit {
                arenas_retired: recovered.empty.clone(),
                ..Edit::default()
            };
            let recorded = self.record(&mut self.manifest_log.ledger.lock(), edit);
            recorded.map_err(|error| self.files.name_need(error, bytes))?;
            give_back()?;
        }
        let may_wait = self.manifest_log.may_wait(&recovered);
        let mut arenas = recovered.arenas;
        loop {
            let (generations, last_sequence) = match &arenas[..] {
                [oldest, _, ..] => (vec![oldest.generation()], oldest.last_taken()),
                _ => (
                    self.manifest_log.live_generations(),
                    recovered.last_sequence,
                ),
            };
            let oldest = arenas.get(..1).unwrap_or_default();
            match flush(oldest, generations, last_sequence) {
                Err(error) if error.is_no_space() && may_wait => break,
                flushed => {
                    let needed_bytes = oldest.iter().map(TakenArena::frame_bytes).sum();
                    flushed.map_err(|error| self.files.name_need(error, needed_bytes))?;
                }
            }
            if arenas.len() < 2 {
                arenas.clear();
                break;
            }
            // A file keeps its space as long as somebody has it open.
            drop(arenas.remove(0));
            give_back()?;
        }
        self.keep_slots_from(0)?;
        Ok(arenas)
    }

    /// Takes arenas that found no room in tables as sealed ones, oldest first.
    fn keep_unflushed(&self, arenas: &[TakenArena]) -> Result<()> {
        let mut memtables = Vec::with_capacity(arenas.len());
        for arena in arenas {
            let resumed = arena.resume(&self.writes.region);
            let memtable = resumed.map_err(|error| {
                let error = error.with_loss(self.manifest_log.ledger.lock().state.loss());
                self.files.name_need(error, arena.frame_bytes())
            })?;
            if self.check_can_persist().is_ok() {
                // The frames of new writes will promise these.
                let persisted = memtable.arena().persist();
                persisted.map_err(|error| self.persist_failed(error))?;
            }
            memtables.push(memtable);
        }
        memtables.reverse();
        if !memtables.is_empty() {
            self.files.reserve.met_full_disk();
            self.change_view(|view| view.memtables = memtables.clone());
        }
        Ok(())
    }

    /// Gives back the slots that the manifest does not list.
    fn recycle_retired(&self) -> Result<()> {
        for slot in self
            .writes
            .region
            .slots()
            .map_err(|error| self.region_error(error))?
        {
            let is_live = self
                .manifest_log
                .ledger
                .lock()
                .state
                .is_in_live_slot(slot.number);
            if !slot.header.is_left_alone() && !is_live {
                self.writes.recycle(slot.number);
            }
        }
        Ok(())
    }
}

impl ManifestLog {
    /// Returns the generations of the arenas that the manifest lists.
    fn live_generations(&self) -> Vec<u64> {
        let ledger = self.ledger.lock();
        ledger.state.live_arenas.keys().copied().collect()
    }

    /// Returns whether new writes may go on behind arenas that are not flushed: these end where the new
    /// numbers begin, and hold nothing that recovery dropped. Otherwise the next recovery would find a
    /// gap, or take numbers twice.
    fn may_wait(&self, recovered: &RecoveredWrites) -> bool {
        let generations = recovered.arenas.iter().map(TakenArena::generation);
        let last_taken = recovered.arenas.last().map(TakenArena::last_taken);
        let is_followed = recovered.arenas.iter().any(TakenArena::is_followed);
        !is_followed
            && recovered.report.dropped.is_none()
            && last_taken == Some(recovered.last_sequence)
            && generations.eq(self.live_generations())
    }
}
