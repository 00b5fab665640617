//! How a chore ended.

/// How a chore ended, or a part of it.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub enum Outcome {
    Passed,
    /// It passed as far as it went: the part left to other runs.
    PassedInPart(String),
    /// The failed part, in a few words; the details are in the output above.
    Failed(String),
    /// Why it could not run here. The gate lists every skip at its end.
    Skipped(String),
}

impl Outcome {
    /// Puts the name of a part before the words of its outcome.
    pub fn named(self, part: &str) -> Outcome {
        let name = |words: String| format!("{part}: {words}");
        match self {
            Outcome::Passed => Outcome::Passed,
            Outcome::PassedInPart(but) => Outcome::PassedInPart(name(but)),
            Outcome::Failed(what) => Outcome::Failed(name(what)),
            Outcome::Skipped(why) => Outcome::Skipped(name(why)),
        }
    }

    /// Returns the outcome of a whole: a failure, if one of its parts failed. It is skipped if all of
    /// them are.
    pub fn of_parts(parts: impl IntoIterator<Item = Outcome>) -> Outcome {
        let (mut failed, mut left_out, mut has_run) = (Vec::new(), Vec::new(), false);
        for part in parts {
            has_run |= !matches!(part, Outcome::Skipped(_));
            match part {
                Outcome::Passed => {}
                Outcome::Failed(what) => failed.push(what),
                Outcome::PassedInPart(words) | Outcome::Skipped(words) => left_out.push(words),
            }
        }
        match (failed.is_empty(), left_out.is_empty(), has_run) {
            (false, _, _) => Outcome::Failed(failed.join("; ")),
            (true, true, _) => Outcome::Passed,
            (true, false, true) => Outcome::PassedInPart(left_out.join("; ")),
            (true, false, false) => Outcome::Skipped(left_out.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{self, Failed, Passed, PassedInPart, Skipped};

    #[test]
    fn a_failed_part_fails_the_whole_by_its_name() {
        let parts = [
            Passed.named("first"),
            Failed("it broke".into()).named("second"),
            Skipped("no network".into()).named("third"),
            Failed("so did this".into()).named("fourth"),
        ];
        let whole = Failed("second: it broke; fourth: so did this".into());
        assert_eq!(Outcome::of_parts(parts), whole);
    }

    #[test]
    fn a_whole_is_skipped_only_if_all_of_its_parts_are() {
        let skipped = || Skipped("no root".into());
        assert_eq!(
            Outcome::of_parts([skipped(), skipped()]),
            Skipped("no root; no root".into())
        );
        assert_eq!(
            Outcome::of_parts([skipped(), Passed]),
            PassedInPart("no root".into())
        );
        assert_eq!(
            Outcome::of_parts([PassedInPart("a tenth".into()), Passed]),
            PassedInPart("a tenth".into())
        );
        assert_eq!(Outcome::of_parts([Passed, Passed]), Passed);
    }
}
