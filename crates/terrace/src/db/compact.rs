//! Merging tables downwards: the policy decides, this file carries it out.
//!
//! The inputs stay listed until one edit replaces them by the outputs; their files go when the last
//! reader's version that lists them is gone. A merge that fails or is cut short throws its outputs
//! away and is decided anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_storage::{Purpose, Storage};

use crate::compaction::Versions;
use crate::compaction::drop_rules::DropRules;
use crate::compaction::legality::{check_legal, older_elsewhere};
use crate::compaction::merge::merge;
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::policy::{Choice, ChoiceKind, Policy};
use crate::cursor::Cursor;
use crate::db::Store;
use crate::db::table_files::TableFiles;
use crate::levels::{
    Edit, KeyspaceLevels, SubLevelCursor, TableAdded, TableMeta, TableMoved, TableRemoved,
};
use crate::options::Options;
use crate::table::{CursorOptions, table_path};
use crate::{Error, Result};

/// The policy that the options describe.
pub(crate) fn policy(options: &Options) -> Box<dyn Policy> {
    let same_form = |level: usize| {
        level > 0 && options.compression_of(level) == options.compression_of(level - 1)
    };
    Box::new(Leveled {
        level0_merge: options.level0_merge,
        level1_bytes: options.level1_bytes,
        level_ratio: options.level_ratio,
        same_form_as_above: (0..crate::levels::LEVELS).map(same_form).collect(),
    })
}

impl Store {
    /// The compaction worker's step: the most urgent merge or move of the first keyspace that
    /// has one.
    pub(crate) fn compaction_step(&self) -> Result<bool> {
        self.check_poison()?;
        let version = Arc::clone(&self.view.load().version);
        for levels in version.keyspaces.values() {
            if let Some(choice) = self.policy.pick(levels) {
                check_legal(levels, &choice).map_err(|broken| {
                    Error::invalid(format!(
                        "the policy chose against the order of ages: {broken}"
                    ))
                })?;
                self.carry_out(levels, &choice)?;
                self.delete_obsolete();
                return Ok(true);
            }
        }
        self.delete_obsolete();
        Ok(false)
    }

    fn carry_out(&self, levels: &KeyspaceLevels, choice: &Choice) -> Result<()> {
        match choice.kind {
            ChoiceKind::Move => self.move_tables(levels, choice),
            ChoiceKind::Merge => self.merge_tables(levels, choice),
        }
    }

    fn move_tables(&self, levels: &KeyspaceLevels, choice: &Choice) -> Result<()> {
        let moved = |number| TableMoved {
            keyspace: levels.id,
            number,
            to: choice.output,
        };
        let edit = Edit {
            tables_moved: choice
                .inputs
                .iter()
                .map(|input| moved(input.table.number))
                .collect(),
            ..Edit::default()
        };
        self.install(edit)?;
        self.counters
            .moves
            .fetch_add(choice.inputs.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn merge_tables(&self, levels: &KeyspaceLevels, choice: &Choice) -> Result<()> {
        self.check_space(choice)?;
        // After the version: whatever is in it is at or below a number visible by now, or stays.
        let snapshots = self.snapshots.stripes(|| self.visible());
        let older = |user_key: &[u8]| older_elsewhere(levels, choice, user_key);
        let rules = DropRules::new(&snapshots, &older);
        let mut files = TableFiles::new(self, levels.id, choice.output, Purpose::Compaction);
        let merged = merge(
            &mut self.inputs(choice),
            rules,
            self.options.table_bytes,
            &self.closing,
            &mut files,
        );
        let written = merged.and_then(|tables| {
            self.storage.sync_directory(self.directory())?;
            self.install(replace(levels, choice, &tables))
        });
        files.settle(written)?;
        self.counters.merges.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The versions of all inputs in order. The block cache is neither asked nor filled.
    fn inputs(&self, choice: &Choice) -> Versions {
        let options = CursorOptions::uncached(Purpose::Compaction);
        let cursor = |tables| -> Box<dyn Cursor + Send> {
            Box::new(SubLevelCursor::over_tables(tables, self.opener(options)))
        };
        // Each table on its own: inputs of one sub-level need not be neighbours.
        let inputs = choice.inputs.iter();
        Versions::new(
            inputs
                .map(|input| cursor(vec![Arc::clone(&input.table)]))
                .collect(),
        )
    }

    /// Inputs and outputs exist side by side for a while; better not begin than fail in the middle.
    fn check_space(&self, choice: &Choice) -> Result<()> {
        let needed_bytes = choice
            .inputs
            .iter()
            .map(|input| input.table.size_bytes)
            .sum();
        if self.storage.free_space_bytes(self.directory())? < needed_bytes {
            return Err(Error::NoSpace {
                path: self.path.clone(),
                needed_bytes,
            });
        }
        Ok(())
    }

    /// Makes an edit durable and shows its version to readers.
    pub(crate) fn install(&self, edit: Edit) -> Result<()> {
        let mut ledger = self.ledger.lock();
        self.record(&mut ledger, edit)?;
        let version = Arc::clone(&ledger.state.version);
        self.change_view(|view| view.version = version);
        Ok(())
    }

    /// Removes the files of tables that nobody lists any more. What cannot be removed now is an
    /// orphan, removed by the next opening.
    pub(crate) fn delete_obsolete(&self) {
        for number in self.obsolete.take() {
            self.tables.remove(number);
            let _ = self.storage.remove(&table_path(&self.path, number));
        }
    }

    /// Waits until no level is over its target.
    pub(crate) fn settle(&self) -> Result<()> {
        self.check_writable()?;
        while self.background.wait_for_compaction(self)? {
            self.check_writable()?;
        }
        Ok(())
    }
}

fn replace(levels: &KeyspaceLevels, choice: &Choice, tables: &[TableMeta]) -> Edit {
    let removed = |number| TableRemoved {
        keyspace: levels.id,
        number,
    };
    let added = |table: &TableMeta| TableAdded {
        place: choice.output,
        table: table.clone(),
    };
    Edit {
        tables_removed: choice
            .inputs
            .iter()
            .map(|input| removed(input.table.number))
            .collect(),
        tables_added: tables.iter().map(added).collect(),
        ..Edit::default()
    }
}
