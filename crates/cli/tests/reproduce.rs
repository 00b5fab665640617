//! Published experiments, at the smallest size, from the command to the report.

mod support;

use serde_json::Value;
use support::Shell;

/// Under the target directory: a region is a mapped file, which not every temporary directory can hold.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `None` where the region is refused, in words.
fn wbl(shell: &Shell, more: &[&str]) -> Option<String> {
    let directory = directory();
    let mut arguments = vec!["reproduce", "wbl", "--tiny", "--directory"];
    arguments.push(directory.path().to_str().unwrap());
    arguments.extend(more);
    let ran = shell.run(&arguments);
    if ran.code != 0 && ran.stderr.contains("put the region on") {
        println!("SKIPPED: {}", ran.stderr);
        return None;
    }
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    Some(ran.stdout)
}

#[test]
fn wbl_shows_every_figure_and_what_is_left_of_each_claim() {
    let shell = Shell::new();
    let html = shell.path("wbl.html");
    let Some(text) = wbl(&shell, &["--html", html.to_str().unwrap()]) else {
        return;
    };
    for part in [
        "== Figure 2.1: ",
        "== Figures 4.2 and 4.3: ",
        "== Figure 4.4: ",
        "== Figure 4.5: ",
        "stalls with 2, 8 and 32 waiting MemTables",
        "== What is left of the claims",
        "+13.83",
        "cannot be told here",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(
        !text.contains("modelled as") && !text.contains("[modelled]"),
        "{text}"
    );
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("Figure 4.5") && page.ends_with("</html>\n"));
}

#[test]
fn a_model_of_memory_marks_all_that_it_touched() {
    let shell = Shell::new();
    let Some(json) = wbl(&shell, &["--region-model", "optane", "--json"]) else {
        return;
    };
    let report: Value = serde_json::from_str(&json).unwrap();
    let sections = report["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 5);
    assert!(sections.iter().all(|section| section["modelled"] == true));
    let claims = report["claims"].as_array().unwrap();
    assert!(claims.len() >= 12, "{}", claims.len());
    let is_marked = |claim: &Value| claim["because"].as_str().unwrap().ends_with("modelled.");
    assert!(claims.iter().all(is_marked));
    let figures = &report["figures"];
    assert_eq!(figures["gains"]["region"], "terrace-region-modelled");
    assert_eq!(
        figures["gains"]["comparisons"][0]["gains"]
            .as_array()
            .unwrap()
            .len(),
        7
    );
    assert_eq!(
        figures["gains"]["comparisons"][0]["baseline"],
        "terrace-log"
    );
    let runs = figures["against_novelsm"]["contest"]["runs"]
        .as_array()
        .unwrap();
    assert_eq!(runs[0]["store"], "novelsm-modelled");
    assert!(
        runs.iter()
            .all(|run| run["durability"].as_str().unwrap().contains("modelled as"))
    );
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let shell = Shell::new();
    for (arguments, what) in [
        (&["--scale", "0"][..], "above 0"),
        (&["--scale", "2"], "at most 1"),
        (&["--clients", "0"], "one client"),
        (&["--region-model", "fast"], "LATENCY_NS"),
        (&["--tiny", "--scale", "0.1"], "cannot be used with"),
        (&["--tiny", "--repeats", "1"], "cannot be used with"),
    ] {
        let ran = shell.run(&[&["reproduce", "wbl"][..], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}

#[test]
fn the_help_has_examples() {
    let help = Shell::new().out(&["reproduce", "wbl", "--help"]);
    assert!(help.contains("terrace reproduce wbl --tiny"), "{help}");
}
