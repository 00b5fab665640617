//! One page of HTML with the contest inside.
//!
//! The user chooses names and settings, so they enter the page only as JSON, which the script shows
//! as text. A policy lets nothing run but the page's own script, and lets that fetch nothing.

use serde::Serialize;

use super::figures::{Figures, figures};
use super::layout::line;
use super::settings::settings;
use super::table::{machine, machine_line};
use crate::Result;
use crate::outcome::{Contest, Failure};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = concat!(
    include_str!("page/uplot/uPlot.min.css"),
    "\n",
    include_str!("page/page.css")
);
const SCRIPT: &str = concat!(
    include_str!("page/uplot/uPlot.iife.min.js"),
    "\n",
    include_str!("page/plots.js"),
    include_str!("page/page.js")
);
const LICENCE: &str = include_str!("page/uplot/LICENSE");

/// Input of the script beside the contest itself.
#[derive(Serialize)]
struct Derived {
    figures: Figures,
    /// The title without the machine, and that.
    heading: String,
    place: String,
    machine: Vec<(String, String)>,
    /// Settings of each contestant, in the order of `figures`.
    settings: Vec<Vec<(String, String)>>,
    /// Stores that failed, a sentence each.
    failures: Vec<String>,
}

/// Returns the page. `nonce` must be new for every page: it tells the page's own script from any
/// other.
pub fn page(contest: &Contest, nonce: &str) -> Result<String> {
    let figures = figures(contest);
    let told = figures.contestants.iter();
    let heading = format!("Terrace bench: {}", contest.title);
    let place = machine_line(&contest.machine);
    let title = escape(&format!("{heading}; {place}"));
    let derived = Derived {
        heading,
        place,
        settings: told.map(|store| settings(contest, store)).collect(),
        machine: machine(&contest.machine),
        failures: contest.failures.iter().map(Failure::to_string).collect(),
        figures,
    };
    let contest = embed(contest)?;
    let derived = embed(&derived)?;
    fill(PAGE, |name| {
        Ok(match name {
            "title" => &title,
            "nonce" => nonce,
            "style" => STYLE,
            "script" => SCRIPT,
            "licence" => LICENCE,
            "contest" => &contest,
            "derived" => &derived,
            other => return Err(format!("the page has no part named {other}").into()),
        })
    })
}

/// Replaces each `{{name}}` once. It does not search the inserted text again, so that data cannot
/// name a part.
fn fill<'a>(template: &str, part: impl Fn(&str) -> Result<&'a str>) -> Result<String> {
    let mut page = String::with_capacity(template.len() + SCRIPT.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").ok_or("a part without its end")?;
        page.push_str(before);
        page.push_str(part(name)?);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// Returns JSON that cannot end the element it is in. In JSON these characters occur only within
/// strings, where an escape means the same.
fn embed(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value)?;
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    Ok(safe)
}

/// Escapes text as the content of an element or of an attribute.
pub(crate) fn escape(text: &str) -> String {
    line(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Returns the text between the element of this id and its end.
    fn embedded<'a>(page: &'a str, id: &str) -> &'a str {
        let (_, after) = page.split_once(&format!("id=\"{id}\">")).unwrap();
        after.split_once("</script>").unwrap().0
    }

    #[test]
    fn the_contest_can_be_read_from_the_page() {
        let contest = sample::contest();
        let page = page(&contest, "0123").unwrap();
        let read: Contest = serde_json::from_str(embedded(&page, "contest")).unwrap();
        let plain = |contest: &Contest| serde_json::to_value(contest).unwrap();
        assert_eq!(plain(&read), plain(&contest));
    }

    #[test]
    fn hostile_names_stay_text() {
        let page = page(&sample::contest(), "0123").unwrap();
        assert!(!page.contains("</script><b>"));
        assert!(!page.contains('\u{2028}'));
        // Two blocks of data and one script, each ended once.
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains("<title>Terrace bench: YCSB &lt;/script&gt;&lt;b&gt;"));
        assert!(embedded(&page, "contest").contains("{{script}}"));
    }

    #[test]
    fn the_title_names_terrace_the_machine_and_the_day() {
        let page = page(&sample::contest(), "0123").unwrap();
        let title = page.split_once("<title>").unwrap().1;
        let title = title.split_once("</title>").unwrap().0;
        assert!(title.starts_with("Terrace bench: "), "{title}");
        let machine = "; A processor &lt;img src=x&gt;, 8 processors in use, 32.0 GiB; 2026-11-27";
        assert!(title.ends_with(machine), "{title}");
    }

    #[test]
    fn nothing_turns_the_direction_of_a_title() {
        let mut contest = sample::contest();
        contest.title.push_str("\u{202e}\u{1b}");
        let page = page(&contest, "0123").unwrap();
        let title = page.split_once("</title>").unwrap().0;
        assert!(title.contains(r"\u{202e}\x1b"), "{title}");
        assert!(!title.contains('\u{202e}') && !title.contains('\u{1b}'));
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        let page = page(&sample::contest(), "0123").unwrap();
        let comment = "/*! https://github.com/leeoniya/uPlot (v1.6.32) */";
        assert!(page.contains(comment));
        let rest = page.replace(comment, "");
        assert!(!rest.contains("https://") && !rest.contains("http://"));
        assert!(!rest.contains("<link") && !rest.contains("url(") && !rest.contains("@import"));
        assert!(page.contains("default-src 'none'; script-src 'nonce-0123'"));
    }

    #[test]
    fn an_unknown_part_is_refused() {
        assert!(fill("{{x}}", |_| Err("no".into())).is_err());
        assert!(fill("{{x", |_| Ok("")).is_err());
        assert_eq!(fill("a{{x}}b", |_| Ok("{{x}}")).unwrap(), "a{{x}}b");
    }
}
