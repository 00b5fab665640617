//! Findings of a contest, for people and for programs: a table, JSON, and one HTML page.

pub mod figures;
pub(crate) mod html;
pub(crate) mod layout;
pub mod numbers;
pub mod quantities;
#[cfg(test)]
pub(crate) mod sample;
mod settings;
mod summary;
pub(crate) mod table;

use crate::Result;
use crate::outcome::Contest;

/// Returns the page: one file that needs nothing else and makes no requests.
///
/// # Errors
/// Numbers that JSON does not have.
pub fn page(contest: &Contest) -> Result<String> {
    html::page(contest, &format!("{:032x}", rand::random::<u128>()))
}

/// Tables for a terminal, plain text of at most 100 columns where names allow it.
pub fn table(contest: &Contest) -> String {
    table::table(contest)
}

/// Shows where the time went, in the repeat in the middle of each store that watches itself.
pub fn profiles(contest: &Contest) -> String {
    let figures = figures::figures(contest);
    let mut text = table::failures(&contest.failures);
    for phase in &figures.phases {
        for (store, repeat) in figures.contestants.iter().zip(&phase.median_repeat) {
            let repeats = figures::outcomes_of(contest, store, &phase.name, phase.occurrence);
            let middle = repeats.iter().find(|(number, _)| Some(*number) == *repeat);
            let Some((_, outcome)) = middle else { continue };
            let of = match repeats.len() {
                1 => String::new(),
                count => format!(", of {count} repeats the one in the middle"),
            };
            text += &format!(
                "== {}, {}: {} operations/s{of}\n\n",
                layout::line(store),
                layout::line(&phase.title()),
                numbers::text(quantities::Unit::PerSecond, outcome.completed_per_second())
            );
            match &outcome.time_profile {
                Some(profile) => text += &format!("{profile}\n"),
                None => text += "this store does not watch itself\n\n",
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_time_went_is_that_of_the_repeat_in_the_middle() {
        let mut contest = sample::contest();
        contest.runs.retain(|run| run.label == ", fits");
        for run in &mut contest.runs {
            // The one in the middle, which comes first in the sample, is the last now.
            run.repeat = (run.repeat + 2) % 3;
            if run.repeat != 2 {
                run.phases
                    .iter_mut()
                    .for_each(|phase| phase.time_profile = None);
            }
        }
        contest.runs.sort_by_key(|run| run.repeat);
        let text = profiles(&contest);
        assert!(
            text.contains(
                "== terrace, A, fits: 96.0k operations/s, of 3 repeats the one in the middle"
            ),
            "{text}"
        );
        assert_eq!(text.matches("copy into arena").count(), 2, "{text}");
        assert_eq!(text.matches("does not watch itself").count(), 4, "{text}");
        contest.runs.retain(|run| run.repeat == 2);
        assert!(profiles(&contest).contains("== terrace, A, fits: 96.0k operations/s\n"));
    }
}
