//! The page in a real browser: every plot has its data, at a phone's and a desk's width, light and dark.
//!
//! Without a browser the test is skipped, aloud, unless `TERRACE_BROWSER` is `required`. Pictures are
//! kept where `TERRACE_SCREENSHOTS` names a directory.

mod browser;
#[path = "../../src/reproduce/sample.rs"]
mod reproduction_sample;
#[path = "../../src/report/sample.rs"]
mod sample;

use std::path::Path;

use terrace_bench::outcome::Contest;
use terrace_bench::report::figures::figures;
// As the samples name them: they are part of the library's tests, too.
use terrace_bench::{operation, outcome, report, reproduce};

use browser::{Look, browser, looks, open};

const CONTEST_FRAME: &str = include_str!("contest_frame.html");
const REPRODUCTION_FRAME: &str = include_str!("reproduction_frame.html");

#[test]
fn every_plot_is_drawn_at_every_width_light_and_dark() {
    let Some(browser) = browser() else { return };
    let contest = sample::contest();
    let directory = tempfile::tempdir().unwrap();
    write_page(&contest, directory.path());
    for look in looks("contest", 28_000, 14_500) {
        let said = open(browser, directory.path(), CONTEST_FRAME, &look);
        check(&contest, &look, &said);
    }
}

fn write_page(contest: &Contest, directory: &Path) {
    let page = report::page(contest).unwrap();
    std::fs::write(directory.join("page.html"), page).unwrap();
}

/// One run of a store that tells nothing, in an open loop: fewer plots have data, and none breaks.
#[test]
fn a_bare_contest_is_shown() {
    let Some(browser) = browser() else { return };
    let mut contest = sample::contest();
    contest.runs.truncate(1);
    for phase in contest.runs.iter_mut().flat_map(|run| &mut run.phases) {
        phase.rate = Some(5000.0);
        phase.timeline.clear();
        phase.marks.clear();
        for latency in phase.latencies.values_mut() {
            latency.cdf.clear();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    write_page(&contest, directory.path());
    let look = Look {
        name: "bare",
        width: 1280,
        height: 4000,
        dark: false,
    };
    let said = open(browser, directory.path(), CONTEST_FRAME, &look);
    assert!(said["error"].is_null(), "{}", said["error"]);
    let plots = said["plots"].as_array().unwrap();
    let drawn = |name: &str, points: u64| plots.contains(&serde_json::json!([name, points]));
    assert!(
        drawn("throughput", 0) && drawn("cdf.read", 0) && drawn("read.p99.9", 1),
        "{plots:?}"
    );
}

#[test]
fn a_reproduction_is_shown_at_every_width_light_and_dark() {
    let Some(browser) = browser() else { return };
    let report = reproduction_sample::reproduction();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("page.html"),
        reproduce::page::page(&report),
    )
    .unwrap();
    for look in looks("reproduction", 2500, 1500) {
        let said = open(browser, directory.path(), REPRODUCTION_FRAME, &look);
        assert_eq!(said["dark"], look.dark);
        assert_eq!(said["innerWidth"], look.width);
        assert!(
            said["scrollWidth"].as_u64() <= Some(look.width.into()),
            "{said}"
        );
        assert_eq!(said["cut"], serde_json::json!([]), "{}", look.width);
        // A claim has more than a word a line, and its verdict can be seen.
        assert!(said["claim"].as_f64() > Some(200.0), "{said}");
        assert_eq!(said["verdict"], "does not hold here");
        let title = said["title"].as_str().unwrap();
        assert!(
            title.contains("Terrace") && title.contains("2026-11-27"),
            "{title}"
        );
        assert_eq!(said["resources"], 0, "the page fetched something");
        assert_eq!(
            (&said["scripts"], &said["bold"]),
            (&0.into(), &1.into()),
            "{said}"
        );
        // Twice as much published as lost here: zero is a third from the left.
        let bars: Vec<f64> = serde_json::from_value(said["bars"].clone()).unwrap();
        let [published, here] = bars[..] else {
            panic!("{said}")
        };
        assert!(
            here > 20.0 && (published / here - 2.0).abs() < 0.05,
            "{said}"
        );
        assert_eq!(said["tables"], 4, "claims, gains, conditions, machine");
    }
}

fn check(contest: &Contest, look: &Look, said: &serde_json::Value) {
    let number = |name: &str| said[name].as_str().unwrap().parse::<u32>().unwrap();
    assert!(said["error"].is_null(), "{}", said["error"]);
    assert_eq!(said["ready"], "true");
    assert_eq!(said["dark"], look.dark.to_string());
    assert_eq!(number("innerWidth"), look.width);
    assert!(
        number("scrollWidth") <= look.width,
        "wider than {}",
        look.width
    );
    assert_eq!(said["cut"], serde_json::json!([]), "{}", look.width);
    // A legend begins with a contestant: the cursor is nowhere.
    assert_eq!(said["legends"], serde_json::json!([contest.runs[0].store]));
    let title = said["title"].as_str().unwrap();
    for part in [
        "Terrace",
        "A processor",
        "8 processors",
        "32.0 GiB",
        "2026-11-27",
    ] {
        assert!(title.contains(part), "{part}: {title}");
    }
    assert_eq!(number("resources"), 0, "the page fetched something");
    // Names with markup in them made no elements.
    assert_eq!(
        (said["bold"].as_u64(), said["images"].as_u64()),
        (Some(0), Some(0))
    );
    // A contestant can be hidden and shown again, and another repeat chosen.
    assert!(said["off"].as_u64() > Some(0));
    assert_eq!(
        (said["on"].as_u64(), said["chosen"].as_str()),
        (Some(0), Some("1"))
    );
    // Settings that differ between regimes are there for each.
    let settings = said["settings"].as_array().unwrap();
    for name in ["durability", "cache, fits", "cache, bounded"] {
        assert!(settings.contains(&name.into()), "{name}: {settings:?}");
    }
    assert_eq!(said["failed"], contest.failures.len());
    let figures = figures(contest);
    let rows: usize = figures.phases.iter().map(|phase| phase.figures.len()).sum();
    assert_eq!(said["figures"], rows);
    check_plots(contest, said);
    check_pixels(contest, said);
}

/// Pixels of a canvas in each contestant's colour, then in those of stalls and of the longest gap.
type Inks = [u64; 5];

/// The drawing is visible: each contestant's line, and above the throughput its lane.
fn check_pixels(contest: &Contest, said: &serde_json::Value) {
    let drawn: Vec<(String, Inks)> = serde_json::from_value(said["drawn"].clone()).unwrap();
    assert_eq!(drawn.len(), 4 * 6 + 6, "{drawn:?}");
    for (name, inks) in &drawn {
        for pixels in &inks[..3] {
            assert!(*pixels > 50, "a line of {name} is not there: {inks:?}");
        }
    }
    let lanes: Vec<Inks> = serde_json::from_value(said["lanes"].clone()).unwrap();
    assert_eq!(lanes.len(), 4);
    let marked = |contestant: usize| {
        contest.runs[2 * contestant]
            .phases
            .iter()
            .all(|p| !p.marks.is_empty())
    };
    assert_eq!([0, 1, 2].map(marked), [true, true, false]);
    // On a phone a stall is two pixels wide, and the gap's mark lies over most of it.
    for [first, second, third, stalls, gaps] in lanes {
        assert!(
            first > 50 && second > 50,
            "flushes and compactions: {first}, {second}"
        );
        assert_eq!(third, 0, "the third tells nothing, and has no lane");
        assert!(stalls > 0 && gaps > 10, "stalls and gaps: {stalls}, {gaps}");
    }
}

/// Each plot has a point for everything that the sample has of it.
fn check_plots(contest: &Contest, said: &serde_json::Value) {
    let plots = said["plots"].as_array().unwrap();
    let of = |name: &str| {
        let named = plots.iter().filter(|plot| plot[0] == name);
        named
            .map(|plot| plot[1].as_u64().unwrap())
            .collect::<Vec<u64>>()
    };
    // A phase is in the run of its regime: each has the points of three contestants.
    let samples: Vec<u64> = contest.runs[..2]
        .iter()
        .flat_map(|run| &run.phases)
        .map(|phase| 3 * phase.timeline.len() as u64)
        .collect();
    assert_eq!(samples.len(), 4);
    for name in [
        "throughput",
        "written",
        "fetched",
        "space",
        "memory",
        "processors",
    ] {
        assert_eq!(of(name), samples, "{name}");
    }
    // Of the one contestant that watches itself, and not of a path that was not taken.
    assert_eq!(of("stages.write"), [2; 4]);
    assert_eq!(of("stages.merge"), [3; 4]);
    assert_eq!(
        said["last"],
        serde_json::json!([0, 0, 0, 0]),
        "without a merge"
    );
    assert_eq!(of("stages.get"), [0; 0]);
    for kind in ["insert", "read", "update"] {
        assert_eq!(of(&format!("cdf.{kind}")), [3 * 61; 2], "{kind}");
        assert_eq!(of(&format!("percentiles.{kind}")), [3 * 4; 2], "{kind}");
    }
    // In the summary: one for each phase.
    assert_eq!(of("acknowledged"), [3; 4]);
    for name in [
        "longest_gap",
        "processor",
        "write_amplification",
        "space_amplification",
        "resident",
    ] {
        assert_eq!(of(name), [3; 4], "{name}");
    }
    // Only where a phase reads, the device has counters, or memory is bounded.
    for name in [
        "read_amplification",
        "device_reads",
        "device_write_amplification",
        "cgroup",
    ] {
        assert_eq!(of(name), [3; 2], "{name}");
    }
}
