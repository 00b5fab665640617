//! How a deeper level begins: tables are moved down, and no byte is written.

use crate::compaction::claim::Claim;
use crate::compaction::policy::inputs::{all, overlapping, remaining};
use crate::compaction::policy::leveled::{Leveled, percent};
use crate::compaction::policy::{Choice, Input, Reason, assemble, unless_claimed};
use crate::compaction::targets::Targets;
use crate::levels::{KeyRange, KeyspaceLevels, LEVELS, Level, Place};

impl Leveled {
    /// Returns a move of tables into a level that is beginning, from the one above it and in any
    /// form. It takes as many as the levels down to theirs have too much. The deepest goes first,
    /// so that the next level finds nothing in its way: no byte is written.
    pub(in crate::compaction::policy) fn cross(
        &self,
        levels: &KeyspaceLevels,
        targets: &Targets,
        under_way: &[Claim],
    ) -> Option<(u8, Choice)> {
        let beginning = (2..=targets.deepest()).rev();
        let mut beginning =
            beginning.filter(|level| targets.is_beginning(*level) && targets.is_used(level - 1));
        beginning.find_map(|number| {
            let above = number - 1;
            let down_to = (1..=above).zip(levels.levels.iter().skip(1));
            let most_bytes = down_to.fold(0, |sum: u64, (number, level)| {
                let bytes = remaining(level, under_way).size_bytes();
                sum.saturating_add(bytes.saturating_sub(targets.bytes(number)))
            });
            if most_bytes == 0 {
                return None;
            }
            let tables = remaining(levels.levels.get(usize::from(above))?, under_way);
            let next = levels.levels.get(usize::from(number))?;
            let inputs = free_run(all(above, &tables), number, next, most_bytes, under_way);
            let reason = Reason::LevelSize {
                level: above,
                percent: percent(tables.size_bytes(), targets.bytes(above)),
            };
            let output = Place::base(number);
            let choice = assemble(reason, inputs, Vec::new(), output, &[true; LEVELS])?;
            Some((above, unless_claimed(choice, under_way)?))
        })
    }
}

/// Maximum number of tables that one edit moves.
const MOST_TABLES: usize = 4096;

/// Returns the first neighbours, in the order of their keys, of which each could be moved to the
/// next level alone, up to `most_bytes` and one table at least.
fn free_run(
    tables: impl Iterator<Item = Input>,
    next_number: u8,
    next: &Level,
    most_bytes: u64,
    under_way: &[Claim],
) -> Vec<Input> {
    let youngest_age = Place::base(next_number - 1).age;
    let is_free = |range: &KeyRange| {
        let output = Place::base(next_number);
        let claim = Claim::new(range.clone(), youngest_age, output, [], []);
        let mut claims = under_way.iter();
        overlapping(next_number, next, range).next().is_none()
            && !claims.any(|other| other.conflicts_with(&claim))
    };
    let mut run: Vec<Input> = Vec::new();
    let mut run_bytes = 0;
    for input in tables.skip_while(|input| !is_free(&input.table.bounds)) {
        run_bytes += input.table.size_bytes;
        let last = run.last().map(|input| &input.table.bounds);
        let with_gap = KeyRange::hull(last.into_iter().chain([&input.table.bounds]));
        let is_full = !run.is_empty() && run_bytes > most_bytes || run.len() == MOST_TABLES;
        if is_full || !with_gap.is_some_and(|range| is_free(&range)) {
            break;
        }
        run.push(input);
    }
    run
}
