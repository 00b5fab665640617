//! The page in a real browser: every plot has its data, at a phone's and a desk's width, light and dark.
//!
//! Without a browser the test is skipped, aloud, unless `TERRACE_BROWSER` is `required`. Pictures are
//! kept where `TERRACE_SCREENSHOTS` names a directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use terrace_bench::outcome::Contest;
use terrace_bench::report;
use terrace_bench::report::figures::figures;
// As the sample names them: it is part of the library's tests, too.
use terrace_bench::{operation, outcome};

#[path = "../src/report/sample.rs"]
mod sample;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A frame of any width around the page: the browser's own window cannot be as narrow as a phone. It
/// copies what the page says of itself, and how many points each plot has, to where `--dump-dom`
/// shows it.
const FRAME: &str = r#"<!doctype html><meta name="color-scheme" content="light dark">
<body style="margin:0"><iframe src="page.html" style="border:0;width:WIDTHpx;height:HEIGHTpx"></iframe>
<script>
const frame = document.querySelector("iframe");
const timer = setInterval(() => {
  const body = frame.contentDocument && frame.contentDocument.body;
  if (!body || !(body.dataset.ready || body.dataset.error)) return;
  clearInterval(timer);
  const plots = [...body.querySelectorAll("[data-plot]")];
  const hidden = () => body.querySelectorAll(".off[data-contestant]").length;
  const chip = body.querySelector("nav button");
  const choice = body.querySelector("nav select") || document.createElement("select");
  chip.click();
  const off = hidden();
  chip.click();
  choice.value = "1";
  choice.dispatchEvent(new Event("change"));
  const said = { off, on: hidden(), chosen: choice.value, ...body.dataset, plots: plots.map((plot) => [plot.dataset.plot, Number(plot.dataset.points)]),
    figures: body.querySelectorAll("section[id^=phase] table.figures tbody tr").length,
    settings: [...body.querySelectorAll('#conditions tbody th')].map((one) => one.textContent),
    failed: body.querySelectorAll(".failed").length,
    bold: body.querySelectorAll("b:not(.dot)").length, images: body.querySelectorAll("img").length };
  const out = document.createElement("pre");
  out.id = "said"; out.hidden = true; out.textContent = JSON.stringify(said);
  document.body.append(out);
}, 20);
</script>"#;

struct Look {
    width: u32,
    height: u32,
    dark: bool,
}

#[test]
fn every_plot_is_drawn_at_every_width_light_and_dark() {
    let Some(browser) = browser() else {
        assert!(
            std::env::var("TERRACE_BROWSER").as_deref() != Ok("required"),
            "TERRACE_BROWSER=required, and none of {BROWSERS:?} can be run"
        );
        println!("SKIPPED: no chromium");
        return;
    };
    let contest = sample::contest();
    let directory = tempfile::tempdir().unwrap();
    write_page(&contest, directory.path());
    for (width, height) in [(360, 20000), (1280, 11500)] {
        for dark in [false, true] {
            let look = Look {
                width,
                height,
                dark,
            };
            let said = open(browser, directory.path(), &look);
            check(&contest, &look, &said);
        }
    }
}

fn write_page(contest: &Contest, directory: &Path) {
    let page = report::page(contest).unwrap();
    std::fs::write(directory.join("page.html"), page).unwrap();
}

/// One run of a store that tells nothing, in an open loop: fewer plots have data, and none breaks.
#[test]
fn a_bare_contest_is_shown() {
    let Some(browser) = browser() else {
        println!("SKIPPED: no chromium");
        return;
    };
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
        width: 1280,
        height: 4000,
        dark: false,
    };
    let said = open(browser, directory.path(), &look);
    assert!(said["error"].is_null(), "{}", said["error"]);
    let plots = said["plots"].as_array().unwrap();
    let drawn = |name: &str, points: u64| plots.contains(&serde_json::json!([name, points]));
    assert!(
        drawn("throughput", 0) && drawn("cdf.read", 0) && drawn("read.p99.9", 1),
        "{plots:?}"
    );
}

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| {
        let asked = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    })
}

/// Opens the page and returns what it says of itself.
fn open(browser: &str, directory: &Path, look: &Look) -> serde_json::Value {
    let frame = FRAME
        .replace("WIDTH", &look.width.to_string())
        .replace("HEIGHT", &look.height.to_string());
    std::fs::write(directory.join("frame.html"), frame).unwrap();
    let scheme = if look.dark { 0 } else { 1 };
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--hide-scrollbars", "--allow-file-access-from-files"])
        // Nothing can be asked of any other host.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!(
            "--user-data-dir={}",
            directory.join("profile").display()
        ))
        .arg(format!(
            "--window-size={},{}",
            look.width.max(500),
            look.height
        ))
        .arg(format!(
            "--screenshot={}",
            picture(directory, look).display()
        ))
        .args(["--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("file://{}", directory.join("frame.html").display()))
        .output()
        .unwrap();
    let document = String::from_utf8_lossy(&output.stdout);
    let said = document
        .split_once("<pre id=\"said\" hidden=\"\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((said, _)) = said else {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("the page said nothing: {document}\n{errors}");
    };
    serde_json::from_str(said).unwrap()
}

fn picture(directory: &Path, look: &Look) -> PathBuf {
    let kept = std::env::var_os("TERRACE_SCREENSHOTS").map(PathBuf::from);
    let scheme = if look.dark { "dark" } else { "light" };
    kept.unwrap_or_else(|| directory.into())
        .join(format!("{}x{}-{scheme}.png", look.width, look.height))
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
    for name in ["throughput", "written", "space", "memory"] {
        assert_eq!(of(name), samples, "{name}");
    }
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
