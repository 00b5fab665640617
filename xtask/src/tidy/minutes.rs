//! The minutes that each step of `gate --ci` may take, on two processors and from an empty target.

use std::collections::BTreeMap;

/// Minutes of all steps together.
const MAX_MINUTES: u32 = 40;

/// Returns the reasons why these limits are none for these steps.
pub fn refused(limits: &BTreeMap<String, u32>, steps: &[&str]) -> Vec<String> {
    let missing = steps.iter().filter(|step| !limits.contains_key(**step));
    let missing = missing.map(|step| format!("step_minutes lacks the step \"{step}\""));
    let unknown = limits.keys().filter(|name| !steps.contains(&name.as_str()));
    let unknown = unknown.map(|name| format!("step_minutes: there is no step \"{name}\""));
    let sum: u32 = limits.values().sum();
    let too_many = (sum > MAX_MINUTES)
        .then(|| format!("the steps of --ci have {sum} minutes, more than {MAX_MINUTES}"));
    missing.chain(unknown).chain(too_many).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_minutes_and_all_are_within_the_bound() {
        let limits = |minutes: &[(&str, u32)]| {
            let minutes = minutes.iter();
            minutes
                .map(|(name, limit)| ((*name).to_owned(), *limit))
                .collect()
        };
        let steps = ["tests", "mutants"];
        let refused = |minutes: &[(&str, u32)]| refused(&limits(minutes), &steps).len();
        assert_eq!(refused(&[("tests", 20), ("mutants", 20)]), 0);
        assert_eq!(refused(&[("tests", 20), ("mutants", 21)]), 1);
        assert_eq!(refused(&[("tests", 20), ("mutant", 20)]), 2);
    }
}
