//! LSM-trie (Wu, Xu, Shao, Jiang: LSM-trie, USENIX ATC 2015), of which there is no store here. Its
//! tables are in the order of hashes, so that nothing could be scanned.
//!
//! A node of the trie stands for the keys whose hashes begin with some bits, and holds tables that
//! came one after the other. When it has its number of them, all are merged, and the result is
//! divided among its children by the next bits of the hashes. Nothing else is a reason to merge.
//! Nodes of the last level have no children: tables that come there stay, however many they are and
//! however much they have in common.
//!
//! Hashes spread keys evenly, so all nodes of a level fill and go down at the same time. One list
//! of spans of writes stands for a level. Writes in memory go down in tables as large as Terrace's
//! arenas and of the same form.

use serde::{Deserialize, Serialize};
use terrace::{Error, Result};
use terrace_lsm::compaction::policy::Reason;

use super::content::Content;
use super::description::Simulation;
use super::form::{TableForm, writes_per_arena};
use super::load::{Load, Span};
use super::outcome::{Outcome, Recorder};
use super::run::TELL_FLUSHES;

/// The numbers of an LSM-trie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrieForm {
    /// Children of a node.
    pub fan_out: u32,
    /// Tables of a node that send it down.
    pub tables: u32,
    /// The level whose nodes have no children. `None`: the first one of which full nodes would hold every
    /// key.
    pub last_level: Option<u32>,
}

impl Default for TrieForm {
    /// As published: eight children, eight tables.
    fn default() -> Self {
        TrieForm {
            fan_out: 8,
            tables: 8,
            last_level: None,
        }
    }
}

/// A trie deeper than that has more nodes than there are keys.
const MOST_LEVELS: u32 = 40;

struct Trie {
    load: Load,
    table: TableForm,
    form: TrieForm,
    last_level: usize,
    /// The tables of each level's nodes, oldest first.
    levels: Vec<Vec<Content>>,
}

impl Trie {
    fn new(simulation: &Simulation, form: TrieForm, arena_writes: u64) -> Result<Trie> {
        if form.fan_out < 2 || form.tables < 2 || form.last_level.is_some_and(|l| l > MOST_LEVELS) {
            return Err(Error::invalid(
                "a trie's fan_out and tables must be 2 at least, its last_level 40 at most",
            ));
        }
        let holds = |level: u32| {
            let nodes = f64::from(form.fan_out).powi(level as i32);
            nodes * f64::from(form.tables) * arena_writes as f64
        };
        let first = (0..MOST_LEVELS).find(|level| holds(*level) >= simulation.keys as f64);
        let last_level = form.last_level.or(first).unwrap_or(MOST_LEVELS) as usize;
        Ok(Trie {
            load: Load::of(simulation),
            table: TableForm::measured(simulation)?,
            form,
            last_level,
            levels: vec![Vec::new(); last_level + 1],
        })
    }

    fn nodes(&self, level: usize) -> f64 {
        f64::from(self.form.fan_out).powi(level as i32)
    }

    /// Returns the bytes of the same table in all nodes of a level.
    fn bytes_of(&self, content: Content, level: usize) -> f64 {
        let nodes = self.nodes(level);
        let entries = content.entries(&self.load) / nodes;
        let tombstones = content.tombstones(&self.load) / nodes;
        nodes * self.table.file_bytes(entries, tombstones)
    }

    fn level_bytes(&self, level: usize, contents: &[Content]) -> f64 {
        let tables = contents.iter();
        tables.map(|content| self.bytes_of(*content, level)).sum()
    }

    fn size_bytes(&self) -> f64 {
        let levels = self.levels.iter().enumerate();
        levels
            .map(|(level, contents)| self.level_bytes(level, contents))
            .sum()
    }

    fn sub_levels(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// Sends full levels down, the upper ones first.
    fn go_down(&mut self, recorder: &mut Recorder) {
        for level in 0..self.last_level {
            let full = self.levels.get(level).map_or(0, Vec::len) >= self.form.tables as usize;
            let Some(contents) = self.levels.get_mut(level).filter(|_| full) else {
                return;
            };
            let merged = std::mem::take(contents);
            let count = merged.len();
            let read_bytes = self.level_bytes(level, &merged);
            let is_last = level + 1 == self.last_level;
            let is_oldest = is_last && self.levels.last().is_some_and(Vec::is_empty);
            let Some(content) = merged.into_iter().reduce(Content::with) else {
                return;
            };
            let content = if is_oldest { content.purged() } else { content };
            let written_bytes = self.bytes_of(content, level + 1);
            let reason = Reason::SubLevels {
                level: u8::try_from(level).unwrap_or(u8::MAX),
                count,
            };
            recorder.merge_began(reason, read_bytes as u64);
            recorder.merge_wrote(reason, written_bytes as u64);
            // Node by node: beside all there is as much as one of them writes.
            let beside = written_bytes / self.nodes(level);
            recorder.see(
                read_bytes + self.size_bytes() + beside,
                self.sub_levels() + count,
            );
            if let Some(below) = self.levels.get_mut(level + 1) {
                below.push(content);
            }
        }
    }
}

pub(super) fn run(
    simulation: &Simulation,
    form: TrieForm,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome> {
    if simulation.speeds.is_some() {
        return Err(Error::invalid("a trie is simulated without speeds"));
    }
    let arena_writes = writes_per_arena(simulation)?;
    let mut trie = Trie::new(simulation, form, arena_writes)?;
    let all = Span {
        from: 0.0,
        to: trie.load.writes(),
    };
    let distinct = trie.load.distinct_keys(all) - trie.load.tombstones(all);
    let mut recorder = Recorder::new(simulation, distinct);
    let (mut done, mut flushes) = (0, 0u64);
    while done < simulation.writes {
        let writes = arena_writes.min(simulation.writes - done);
        recorder.pass(writes as f64, done, trie.size_bytes(), trie.sub_levels());
        let content = Content::flushed(Span {
            from: done as f64,
            to: (done + writes) as f64,
        });
        recorder.flushed(trie.bytes_of(content, 0) as u64);
        if let Some(root) = trie.levels.first_mut() {
            root.push(content);
        }
        done += writes;
        trie.go_down(&mut recorder);
        recorder.see(trie.size_bytes(), trie.sub_levels());
        recorder.mark(done, trie.size_bytes(), trie.sub_levels());
        flushes += 1;
        if flushes.is_multiple_of(TELL_FLUSHES) {
            progress(done as f64 / simulation.writes as f64);
        }
    }
    recorder.loaded(None);
    Ok(recorder.settled(trie.size_bytes(), None))
}
