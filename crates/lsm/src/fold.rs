//! The fold of a key's versions, from the newest on, into the answer of a reader. Here alone the kind of a
//! record decides.

use terrace_storage::Clock;

use crate::key::Kind;
use crate::read_point::ReadPoint;

/// The step of one version in the fold, if no newer version has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The answer is the version's value.
    Value,
    /// The key has no value; older versions do not count.
    Nothing,
}

impl Kind {
    /// Returns the step of a version of this kind, which is the same at every time; `None` if this release
    /// does not read the kind.
    ///
    /// ```
    /// use terrace_lsm::fold::Step;
    /// use terrace_lsm::key::Kind;
    /// assert_eq!(Kind::Put.step(), Some(Step::Value));
    /// assert_eq!(Kind::RangeDelete.step(), Some(Step::Nothing));
    /// assert_eq!(Kind::Merge.step(), None);
    /// ```
    #[inline]
    pub const fn step(self) -> Option<Step> {
        match self {
            Kind::Put => Some(Step::Value),
            Kind::Delete | Kind::RangeDelete => Some(Step::Nothing),
            Kind::Merge | Kind::ExpiringPut | Kind::SeparatedPut => None,
        }
    }

    /// Returns the step of a version for a reader at `point`; `None` if this release does not read the
    /// kind. A kind that expires looks at the version's value and at the time of the read point.
    #[inline]
    #[expect(unused_variables, reason = "no kind of this release expires")]
    pub fn step_at<'v>(
        self,
        point: &mut ReadPoint,
        clock: &dyn Clock,
        value: impl FnOnce() -> &'v [u8],
    ) -> Option<Step> {
        self.step()
    }

    /// Returns whether a record only takes keys away.
    #[inline]
    pub const fn deletes(self) -> bool {
        matches!(self.step(), Some(Step::Nothing))
    }

    /// Returns whether a record is about a range: its key is the first one, its value the end.
    #[inline]
    pub const fn is_of_range(self) -> bool {
        matches!(self, Kind::RangeDelete)
    }

    /// Returns whether a version of one key ends the fold: no reader that sees it asks for an older one.
    #[inline]
    pub const fn hides_older(self) -> bool {
        self.step().is_some()
    }

    /// Returns whether tables may have a version of this kind among their entries.
    #[inline]
    pub const fn is_entry(self) -> bool {
        self.step().is_some() && !self.is_of_range()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_later_releases_are_not_read() {
        for number in 0..=u8::MAX {
            let Some(kind) = Kind::from_number(number) else {
                continue;
            };
            let is_read = matches!(kind, Kind::Put | Kind::Delete | Kind::RangeDelete);
            assert_eq!(kind.step().is_some(), is_read, "{kind:?}");
            assert_eq!(kind.is_entry(), is_read && kind != Kind::RangeDelete);
        }
    }
}
