//! Settings of a store, in every regime of its runs.

use crate::outcome::{Contest, RunOutcome};

/// Returns name and value of each setting of a store, its durability first. A setting that differs
/// between regimes has a row for each, with the regime behind its name.
pub fn settings(contest: &Contest, store: &str) -> Vec<(String, String)> {
    let regimes = regimes(contest, store);
    let mut rows: Vec<(String, String)> = Vec::new();
    for name in names(&regimes) {
        let told: Vec<(&str, &str)> = regimes
            .iter()
            .filter_map(|run| Some((run.label.as_str(), value(run, name)?)))
            .collect();
        match told.as_slice() {
            [(_, first), others @ ..]
                if told.len() == regimes.len()
                    && others.iter().all(|(_, value)| value == first) =>
            {
                rows.push((name.into(), (*first).into()));
            }
            differing => rows.extend(
                differing
                    .iter()
                    .map(|(label, value)| (format!("{name}{label}"), (*value).into())),
            ),
        }
    }
    rows
}

/// Returns the first run of a store under each label.
fn regimes<'a>(contest: &'a Contest, store: &str) -> Vec<&'a RunOutcome> {
    let mut regimes: Vec<&RunOutcome> = Vec::new();
    for run in contest.runs.iter().filter(|run| run.store == store) {
        if regimes.iter().all(|other| other.label != run.label) {
            regimes.push(run);
        }
    }
    regimes
}

const DURABILITY: &str = "durability";

fn names<'a>(regimes: &[&'a RunOutcome]) -> Vec<&'a str> {
    let mut names = vec![DURABILITY];
    for (name, _) in regimes.iter().flat_map(|run| &run.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn value<'a>(run: &'a RunOutcome, name: &str) -> Option<&'a str> {
    if name == DURABILITY {
        return Some(&run.durability);
    }
    let mut settings = run.settings.iter();
    let (_, value) = settings.find(|(other, _)| other == name)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn what_differs_between_regimes_is_told_for_each() {
        let rows = settings(&sample::contest(), "terrace");
        let told: Vec<(&str, &str)> = rows
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(told[0].0, "durability");
        assert!(told.contains(&("write buffer", "64 MiB x 3")), "{told:?}");
        assert!(told.contains(&("cache, fits", "5120 MiB")), "{told:?}");
        assert!(told.contains(&("cache, bounded", "256 MiB")), "{told:?}");
    }
}
