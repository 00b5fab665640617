//! The levels of a simulated store: those of a real one, with tables that have no files.
//!
//! Policies choose, and edits change the levels, as in a store: the same code checks ages and
//! overlaps. Only the output of a merge is computed instead of read.
//!
//! With real sizes a large load would have a million tables. Beyond [`MOST_TABLES`] they are larger
//! here, and slices with them. But they never are more than a small part of their level: policies
//! weigh tables against the tables of the next level.

use std::sync::Arc;

use terrace::offline::policy_settings;
use terrace::{Error, KeyspaceId, Result};
use terrace_lsm::compaction::claim::Claim;
use terrace_lsm::compaction::drop_rules;
use terrace_lsm::compaction::legality::{check_legal, older_elsewhere};
use terrace_lsm::compaction::policy::settings::CompactionPolicy;
use terrace_lsm::compaction::policy::tombstones::{Seen, Tombstones};
use terrace_lsm::compaction::policy::{Choice, ChoiceKind, Input, Policy, described_by};
use terrace_lsm::compaction::slices::{Sample, Slice, divide, slice_bytes, slice_edit};
use terrace_lsm::compaction::targets::{Shape, Targets};
use terrace_lsm::levels::{
    Domain, Edit, FIRST_SUB_LEVEL_NUMBER, Identity, KeyspaceLevels, LEVELS, ManifestState,
    StructureError, TableAdded, TableMeta, TableMoved,
};

use super::content::{Content, Keys, Piece, key_at, overlaid};
use super::description::Simulation;
use super::form::{TableForm, writes_per_arena};
use super::known::{Contents, Known, piece};
use super::load::{Load, Span};

/// Approximate maximum of the tables of a whole load, where policies choose among tables.
const MOST_TABLES: f64 = 512.0;
/// The same where they choose sub-levels.
const MOST_OF_SUB_LEVELS: f64 = 128.0;
/// Minimum number of tables of a full level, where there is a number to choose.
const LEAST_TABLES: u64 = 64;
/// Places in each input at which a slice may end.
const SAMPLES: u64 = 16;

/// A simulated store's levels, with all that is needed to change them.
pub(crate) struct SimulatedLevels {
    pub(crate) load: Load,
    pub(crate) policy: Box<dyn Policy>,
    form: TableForm,
    contents: Contents,
    state: ManifestState,
    next_sub_level: u64,
    /// Writes that a flush takes.
    pub(crate) arena_writes: u64,
    /// Writes that are in tables.
    pub(crate) flushed_writes: u64,
    table_bytes: [u64; LEVELS],
    slice_bytes: u64,
    workers: usize,
}

/// Tables that a slice of a merge would become.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    tables: Vec<(TableMeta, Content)>,
    pub(crate) size_bytes: u64,
}

impl SimulatedLevels {
    pub(crate) fn of(simulation: &Simulation) -> Result<SimulatedLevels> {
        let form = TableForm::measured(simulation)?;
        let options = &simulation.options;
        let identity = Identity {
            store_id: 1,
            hash_seed: 1,
            domain: Domain::Volatile,
        };
        let state = ManifestState::begin(&ManifestState::first_edit(identity));
        let keyspace = options.default_keyspace.clone();
        let table_bytes = table_bytes(simulation, &form);
        let times = table_bytes.iter().max().map_or(1, |largest| {
            largest / options.default_keyspace.table_bytes.max(1)
        });
        Ok(SimulatedLevels {
            load: Load::of(simulation),
            policy: Box::new(Tombstones {
                inner: described_by(&policy_settings(options), &keyspace, false),
                percent: options.tombstone_percent,
                // The time of tombstones is the calendar's, of which there is none here.
                age_seconds: 0,
                seen: Arc::new(Seen {
                    oldest_snapshot: u64::MAX,
                    ..Seen::default()
                }),
            }),
            form,
            contents: Contents::new(),
            state: state.map_err(refused)?,
            next_sub_level: FIRST_SUB_LEVEL_NUMBER,
            arena_writes: writes_per_arena(simulation)?,
            flushed_writes: 0,
            table_bytes,
            slice_bytes: options.constants.slice_bytes.saturating_mul(times.max(1)),
            workers: options.compaction_threads,
        })
    }

    /// # Errors
    /// There always is a default keyspace.
    pub(crate) fn levels(&self) -> Result<&Arc<KeyspaceLevels>> {
        let levels = self.state.version.keyspace(KeyspaceId::DEFAULT);
        levels.ok_or_else(|| Error::invalid("a simulation without a keyspace"))
    }

    /// Returns the bytes of all tables.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.levels().map_or(0, |levels| levels.size_bytes())
    }

    /// Returns the number of sub-levels, which a read of an absent key asks.
    pub(crate) fn sub_levels(&self) -> usize {
        self.levels()
            .map_or(0, |levels| levels.sub_levels().count())
    }

    pub(crate) fn known(&self, busy: Vec<u64>) -> Known<'_> {
        Known {
            load: &self.load,
            contents: &self.contents,
            busy,
        }
    }

    /// Flushes the next writes to a table in level 0, and returns its bytes.
    pub(crate) fn flush(&mut self, writes: u64) -> Result<u64> {
        let span = Span {
            from: self.flushed_writes as f64,
            to: (self.flushed_writes + writes) as f64,
        };
        self.flushed_writes += writes;
        let content = Content::flushed(span);
        let name = self.new_name();
        let place = self.state.next_flush_place(KeyspaceId::DEFAULT, name);
        let whole = Piece {
            keys: Keys::ALL,
            content,
        };
        let mut outputs = Outputs::default();
        self.add_table(&mut outputs, &[whole]);
        let tables = self.numbered(&outputs);
        let added = tables.iter().map(|(table, _)| TableAdded {
            place,
            table: table.clone(),
        });
        let edit = Edit {
            tables_added: added.collect(),
            ..Edit::default()
        };
        self.install(&edit, &tables)?;
        Ok(outputs.size_bytes)
    }

    /// Returns the policy's choice beside the merges under way.
    pub(crate) fn pick(&self, under_way: &[Claim], busy: Vec<u64>) -> Result<Option<Choice>> {
        let levels = self.levels()?;
        let Some(choice) = self.policy.pick(levels, under_way, &self.known(busy)) else {
            return Ok(None);
        };
        check_legal(levels, &choice).map_err(|broken| {
            Error::invalid(format!(
                "the policy chose against the order of ages: {broken}"
            ))
        })?;
        Ok(Some(choice))
    }

    /// Returns a name that no sub-level has.
    pub(crate) fn new_name(&mut self) -> u64 {
        self.next_sub_level += 1;
        self.next_sub_level - 1
    }

    pub(crate) fn move_tables(&mut self, choice: &Choice) -> Result<()> {
        let moved = choice.inputs.iter().map(|input| TableMoved {
            keyspace: KeyspaceId::DEFAULT,
            number: input.table.number,
            to: choice.output,
        });
        let edit = Edit {
            tables_moved: moved.collect(),
            ..Edit::default()
        };
        self.install(&edit, &[])
    }

    /// Divides a merge as the store does.
    pub(crate) fn slices(&self, choice: &Choice) -> Vec<Slice> {
        let total: u64 = choice
            .inputs
            .iter()
            .map(|input| input.table.size_bytes)
            .sum();
        let each = slice_bytes(
            total,
            self.workers,
            self.table_bytes_at(choice),
            self.slice_bytes,
        );
        if total <= each {
            return vec![Slice {
                input_bytes: total,
                ..Slice::ALL
            }];
        }
        let samples = choice.inputs.iter().flat_map(|input| {
            let keys = Keys::of(&input.table.bounds);
            let bytes = input.table.size_bytes / SAMPLES;
            (1..=SAMPLES).map(move |number| Sample {
                user_key: key_at(keys.at(number as f64 / SAMPLES as f64)),
                bytes,
            })
        });
        divide(samples.collect(), each)
    }

    /// Returns the tables that a slice of a merge would write.
    pub(crate) fn merged(&self, choice: &Choice, slice: &Slice) -> Outputs {
        let each = slice.even_table_bytes(self.table_bytes_at(choice));
        let most_entries = self.form.entries_of(each as f64).max(1.0);
        let inputs: Vec<Piece> = choice
            .inputs
            .iter()
            .filter_map(|input| self.input_in(input, slice))
            .collect();
        let pieces: Vec<Piece> = overlaid(inputs)
            .into_iter()
            .map(|piece| self.written(choice, piece))
            .collect();
        let entries_of = |piece: &Piece| piece.keys.share() * piece.content.entries(&self.load);
        let mut left: f64 = pieces.iter().map(entries_of).sum();
        let mut outputs = Outputs::default();
        let mut of_table: Vec<Piece> = Vec::new();
        let mut free = most_entries;
        for mut rest in pieces {
            loop {
                let entries = entries_of(&rest);
                // The last entry goes to the table before: a table of a part of one is none.
                if entries <= free || left - free < 1.0 {
                    (free, left) = (free - entries, left - entries);
                    of_table.push(rest);
                    break;
                }
                let end = rest.keys.at(free / entries);
                let keys = Keys {
                    to: end,
                    ..rest.keys
                };
                of_table.push(Piece { keys, ..rest });
                self.add_table(&mut outputs, &std::mem::take(&mut of_table));
                left -= free;
                (rest.keys.from, free) = (end, most_entries);
            }
        }
        self.add_table(&mut outputs, &of_table);
        outputs
    }

    /// Returns a piece as a merge writes it: where there is nothing older, tombstones go.
    fn written(&self, choice: &Choice, piece: Piece) -> Piece {
        let (from, to) = (key_at(piece.keys.from), key_at(piece.keys.to));
        let older = |levels: &Arc<KeyspaceLevels>| {
            older_elsewhere(levels, choice, drop_rules::Keys::Range(&from, &to))
        };
        let keeps =
            self.load.tombstones(piece.content.span) == 0.0 || self.levels().map_or(true, older);
        match keeps {
            true => piece,
            false => Piece {
                content: piece.content.purged(),
                ..piece
            },
        }
    }

    /// Puts a slice's outputs in the place of its inputs. All slices before it are installed.
    pub(crate) fn install_slice(
        &mut self,
        choice: &Choice,
        slice: &Slice,
        outputs: &Outputs,
    ) -> Result<()> {
        let tables = self.numbered(outputs);
        let metas: Vec<TableMeta> = tables.iter().map(|(table, _)| table.clone()).collect();
        let edit = slice_edit(KeyspaceId::DEFAULT, choice, slice, &metas);
        self.install(&edit, &tables)
    }

    /// Returns outputs with the numbers that they are listed under.
    fn numbered(&self, outputs: &Outputs) -> Vec<(TableMeta, Content)> {
        let numbers = self.state.next_table_number..;
        let tables = numbers.zip(&outputs.tables);
        let numbered = |(number, (table, content)): (u64, &(TableMeta, Content))| {
            let table = TableMeta {
                number,
                ..table.clone()
            };
            (table, *content)
        };
        tables.map(numbered).collect()
    }

    fn input_in(&self, input: &Input, slice: &Slice) -> Option<Piece> {
        let whole = piece(&self.contents, &input.table)?;
        let keys = whole
            .keys
            .within(slice.from.as_deref(), slice.to.as_deref())?;
        Some(Piece { keys, ..whole })
    }

    fn table_bytes_at(&self, choice: &Choice) -> u64 {
        let at_level = self.table_bytes.get(usize::from(choice.output.level));
        at_level.copied().unwrap_or(1)
    }

    /// Adds one table of neighbouring pieces, unless they hold next to nothing.
    fn add_table(&self, outputs: &mut Outputs, pieces: &[Piece]) {
        const LEAST_ENTRIES: f64 = 0.5;
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return;
        };
        let sum = |read: &dyn Fn(&Piece) -> f64| pieces.iter().map(read).sum::<f64>();
        let entries = sum(&|piece| piece.keys.share() * piece.content.entries(&self.load));
        let tombstones = sum(&|piece| piece.keys.share() * piece.content.tombstones(&self.load));
        if entries < LEAST_ENTRIES {
            return;
        }
        let content = mean(pieces);
        let keys = Keys {
            from: first.keys.from,
            to: last.keys.to,
        };
        let size_bytes = self.form.file_bytes(entries, tombstones) as u64;
        let table = TableMeta {
            // Until it is installed.
            number: 0,
            identity: 0,
            keyspace: KeyspaceId::DEFAULT,
            size_bytes,
            entries: entries.round().max(1.0) as u64,
            tombstones: tombstones.round() as u64,
            range_tombstones: 0,
            oldest_tombstone_seconds: None,
            superseded: None,
            bounds: keys.range(),
            narrowed: false,
            min_sequence: content.span.from as u64 + 1,
            max_sequence: content.span.to as u64,
            assigned: false,
            tier: 1,
        };
        outputs.size_bytes += size_bytes;
        outputs.tables.push((table, content));
    }

    fn install(&mut self, edit: &Edit, added: &[(TableMeta, Content)]) -> Result<()> {
        self.state = self.state.apply(edit).map_err(refused)?;
        for removed in &edit.tables_removed {
            self.contents.remove(&removed.number);
        }
        let added = added.iter();
        self.contents
            .extend(added.map(|(table, content)| (table.number, *content)));
        Ok(())
    }
}

/// Returns the span in the middle of several, each counting for its keys: neighbours in a sub-level
/// differ by when they were merged last.
fn mean(pieces: &[Piece]) -> Content {
    let all: f64 = pieces.iter().map(|piece| piece.keys.share()).sum();
    let of = |read: fn(&Content) -> f64| {
        let first = pieces.first().map_or(0.0, |piece| read(&piece.content));
        let is_same = |piece: &Piece| read(&piece.content) == first;
        if pieces.iter().all(is_same) {
            return first;
        }
        let weighed = pieces.iter();
        let weighed = weighed.map(|piece| piece.keys.share() * read(&piece.content));
        weighed.sum::<f64>() / all.max(f64::MIN_POSITIVE)
    };
    Content {
        span: Span {
            from: of(|content| content.span.from),
            to: of(|content| content.span.to),
        },
        purged_to: of(|content| content.purged_to),
    }
}

/// Returns, for each level, the bytes at which a table ends.
fn table_bytes(simulation: &Simulation, form: &TableForm) -> [u64; LEVELS] {
    let options = &simulation.options;
    let all_bytes = form.file_bytes(simulation.keys as f64, 0.0);
    let (has_targets, most_tables) = match options.compaction_policy {
        CompactionPolicy::Leveled => (true, MOST_TABLES),
        _ => (false, MOST_OF_SUB_LEVELS),
    };
    let largest = (all_bytes / most_tables) as u64;
    let shape = Shape::of(&options.default_keyspace);
    let targets = Targets::of_sum(all_bytes as u64, 0, shape);
    let mut of_levels = [options.default_keyspace.table_bytes.max(1); LEVELS];
    // A flush of level 0 is no more than a buffer.
    of_levels[0] = of_levels[0].max(largest.min(options.arena_bytes));
    for (level, bytes) in (1u8..).zip(of_levels.iter_mut().skip(1)) {
        let most = match has_targets {
            true => largest.min(targets.urgent_bytes(level) / LEAST_TABLES),
            false => largest,
        };
        *bytes = most.max(*bytes);
    }
    of_levels
}

fn refused(error: StructureError) -> Error {
    Error::invalid(format!("a simulated merge breaks the levels: {error}"))
}

impl SimulatedLevels {
    /// Returns the bytes of the largest tables, where tables are larger than the options say.
    pub(crate) fn enlarged_table_bytes(&self, options_bytes: u64) -> Option<u64> {
        let largest = self.table_bytes.iter().max().copied();
        largest.filter(|bytes| *bytes > options_bytes)
    }
}

/// Whether it changes places only.
pub(crate) fn is_move(choice: &Choice) -> bool {
    choice.kind == ChoiceKind::Move
}
