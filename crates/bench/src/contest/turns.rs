//! Turns of the stores, and their directories: each repeat begins with another store, a store that
//! failed has no more turns, and each run has an empty directory.

use std::fs::File;
use std::path::Path;

use tempfile::TempDir;

use crate::Result;
use crate::outcome::Failure;
use crate::store::Contestant;

/// Returns the contestants in the order of a repeat: each repeat begins with another one.
pub fn rotated(contestants: &[Contestant], repeat: u32) -> impl Iterator<Item = &Contestant> {
    let skip = repeat as usize % contestants.len().max(1);
    contestants
        .iter()
        .cycle()
        .skip(skip)
        .take(contestants.len())
}

/// Returns whether a contestant's part is over.
pub fn has_failed(contestant: &Contestant, failures: &[Failure]) -> bool {
    failures.iter().any(|one| one.store == contestant.name)
}

/// Checks that any contestant can go on; the error says why the last one cannot.
pub fn some_are_left(contestants: &[Contestant], failures: &[Failure]) -> Result<()> {
    match failures.last() {
        Some(last) if failures.len() >= contestants.len() => {
            Err(format!("{}: {}", last.store, last.error).into())
        }
        _ => Ok(()),
    }
}

/// Reports show contestants in the order in which they were named; `of` tells a run's repeat and store.
pub fn order<Run>(runs: &mut [Run], contestants: &[Contestant], of: impl Fn(&Run) -> (u32, &str)) {
    let place = |name: &str| {
        contestants
            .iter()
            .position(|contestant| contestant.name == name)
    };
    runs.sort_by_key(|run| {
        let (repeat, store) = of(run);
        (repeat, place(store))
    });
}

/// Makes an empty directory. Pages of the run before, still to be written back, must not burden this one:
/// those of this file system are written first. Other file systems are no business of a contest.
pub fn fresh_directory(parent: &Path) -> Result<TempDir> {
    rustix::fs::syncfs(File::open(parent)?)?;
    Ok(tempfile::Builder::new()
        .prefix("terrace-bench-")
        .tempdir_in(parent)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::NOTHING;

    #[test]
    fn each_repeat_begins_with_another_contestant() {
        let named = |name| Contestant { name, ..NOTHING };
        let three = [named("a"), named("b"), named("c")];
        let order = |repeat| rotated(&three, repeat).map(|c| c.name).collect::<String>();
        assert_eq!(
            [order(0), order(1), order(2), order(3)],
            ["abc", "bca", "cab", "abc"]
        );
    }

    #[test]
    fn a_fresh_directory_is_empty_and_ends_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let fresh = fresh_directory(parent.path()).unwrap();
        assert_eq!(fresh.path().parent(), Some(parent.path()));
        assert_eq!(std::fs::read_dir(fresh.path()).unwrap().count(), 0);
        drop(fresh);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(fresh_directory(&parent.path().join("none")).is_err());
    }

    #[test]
    fn runs_are_shown_in_the_order_in_which_stores_were_named() {
        let named = |name| Contestant { name, ..NOTHING };
        let mut runs = [(1, "b"), (0, "b"), (1, "a"), (0, "a")];
        order(&mut runs, &[named("a"), named("b")], |run| *run);
        assert_eq!(runs, [(0, "a"), (0, "b"), (1, "a"), (1, "b")]);
    }
}
