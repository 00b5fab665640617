//! The policies' view of superseded versions (`compaction/policy/superseded.rs`): the snapshots,
//! and the tables that are not to be tried again.

use terrace_lsm::compaction::oldest_snapshot::OldestSnapshot;
use terrace_lsm::compaction::policy::superseded::Seen;
use terrace_lsm::levels::Version;

use crate::db::Store;
use crate::db::owners::Reads;

impl Store {
    /// Returns the view of the present version.
    pub(crate) fn seen_superseded(&self) -> Seen {
        let view = self.reads.view.load();
        let keyspaces = view.version.keyspaces.values();
        Seen {
            set_back: keyspaces
                .flat_map(|levels| self.compactor.monitor.set_back_tables(levels))
                .collect(),
            snapshots: self.reads.snapshots.stripes(|| self.reads.visible()),
        }
    }
}

impl Reads {
    /// Returns the oldest snapshot, with the superseded versions that it keeps in all keyspaces.
    pub(crate) fn oldest_snapshot_of(&self, version: &Version) -> Option<OldestSnapshot> {
        let tables = version.tables().map(|(_, table)| &**table);
        let sequence = self.snapshots.oldest()?;
        Some(OldestSnapshot::of(sequence, tables))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_lsm::compaction::estimates::Duplicates;
    use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Reason};

    use crate::db::jobs::Ended;
    use crate::{Background, Db, KeyspaceId, Options};

    #[test]
    fn a_table_whose_merge_dropped_too_little_is_not_tried_again() {
        let options = Options {
            level0_merge: 10,
            background: Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        for key in 0..100u8 {
            db.put([key], b"value").unwrap();
        }
        db.flush().unwrap();
        let store = db.store();
        let version = Arc::clone(&store.reads.view.load().version);
        let levels = version.keyspace(KeyspaceId::DEFAULT).unwrap();
        let (output, table) = levels.tables().next().unwrap();
        assert!(store.seen_superseded().set_back.is_empty());
        let choice = Choice {
            reason: Reason::Superseded {
                level: 0,
                percent: 50,
            },
            kind: ChoiceKind::Merge,
            inputs: Vec::new(),
            output,
            predicted: Some(Duplicates::new(100, 50.0, 0)),
        };
        let ended = Ended::whole(levels.id, choice);
        let nothing_dropped = ended.past_without_drops(100);
        store.compactor.monitor.compare(&ended, &nothing_dropped);
        let set_back = store.seen_superseded().set_back;
        assert!(set_back.into_iter().eq([table.number]));
    }
}
