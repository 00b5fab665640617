//! How the levels of another policy become leveled.

use crate::compaction::claim::Claim;
use crate::compaction::policy::inputs::{all, place};
use crate::compaction::policy::leveled::Leveled;
use crate::compaction::policy::tiered::{dragged, level0_down};
use crate::compaction::policy::{Choice, Input, Reason, assemble, unless_claimed};
use crate::levels::{KeyRange, KeyspaceLevels, Level, Place};

impl Leveled {
    /// Returns the deepest level that has more than a base, with its number.
    pub(super) fn deepest_unsettled(levels: &KeyspaceLevels) -> Option<(u8, &Level)> {
        let below_level0 = (0u8..).zip(&levels.levels).skip(1);
        let has_others = |&(number, level): &(u8, &Level)| {
            let mut sub_levels = level.sub_levels.iter();
            sub_levels.any(|sub_level| !place(number, sub_level).is_base())
        };
        below_level0.filter(has_others).last()
    }

    /// Makes a base of the tables of a level.
    pub(super) fn settle_level(
        &self,
        levels: &KeyspaceLevels,
        number: u8,
        level: &Level,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let level0 = levels.levels.first()?;
        let reason = Reason::OtherPolicy {
            level: number,
            sub_levels: level.sub_levels.len(),
        };
        let above = if number == 1 { Some(level0) } else { None };
        let above = above.into_iter().flat_map(|level0| all(0, level0));
        let younger = all(number, level).filter(|input| !input.place.is_base());
        let inputs: Vec<Input> = above.chain(younger).collect();
        let hull = KeyRange::hull(inputs.iter().map(|input| &input.table.bounds))?;
        let output = Place::base(number);
        let base = dragged(levels, output, &hull);
        let same_form = &self.same_form_as_above;
        unless_claimed(
            assemble(reason, inputs, base, output, same_form)?,
            under_way,
        )
    }

    /// Lets level 0 go down beside a level that has to wait until it is a base.
    pub(super) fn level0_meanwhile(
        &self,
        levels: &KeyspaceLevels,
        under_way: &[Claim],
    ) -> Option<Choice> {
        let is_due = levels.levels.first()?.sub_levels.len() >= self.level0_merge;
        let same_form = &self.same_form_as_above;
        let choice = is_due.then(|| level0_down(levels, under_way, same_form))?;
        unless_claimed(choice?, under_way)
    }
}
