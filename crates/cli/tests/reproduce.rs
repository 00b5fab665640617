//! Published experiments, at the smallest size, from the command to the report.

mod support;

use serde_json::Value;
use support::Shell;

/// Makes a directory under the target directory: not every temporary one can hold a mapped region.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Runs the experiment. Returns `None` where the region is refused, in words.
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

fn plexdb(shell: &Shell, more: &[&str]) -> String {
    let directory = directory();
    let mut arguments = vec!["reproduce", "plexdb", "--tiny", "--directory"];
    arguments.push(directory.path().to_str().unwrap());
    arguments.extend(more);
    let ran = shell.run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    ran.stdout
}

#[test]
fn plexdb_sets_every_policy_beside_the_papers_numbers() {
    let shell = Shell::new();
    let html = shell.path("plexdb.html");
    let text = plexdb(&shell, &["--html", html.to_str().unwrap()]);
    for part in [
        "space and write amplification",
        "throughput of writes and reads",
        "terrace-lazy",
        "terrace-dedup-1.8",
        "(LSM-trie)",
        "above 11.0",
        "== By simulation: the runs of 20 GB and of 100 GB, and LSM-trie",
        "lsm-trie-32-mb",
        "near 18",
        "== What is left of the claims",
        "cannot be told here",
        "64 KiB, 1/9 of the distinct data",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(!text.contains("zipfian"), "{text}");
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("<svg ") && page.ends_with("</html>\n"));
}

/// Every number is that of the runs: tables take at least the bytes of distinct data, and are
/// written at least as often as they are flushed.
#[test]
fn plexdb_measures_what_tables_take_and_what_they_cost() {
    let shell = Shell::new();
    let points = "terrace-leveled,terrace-tiered,terrace-dedup-1.2";
    let json = plexdb(&shell, &["--points", points, "--zipfian", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["sections"].as_array().unwrap().len(), 4);
    for load in ["updates", "zipfian"] {
        let measured = report["figures"][load]["points"].as_array().unwrap();
        assert_eq!(measured.len(), 3);
        for point in measured {
            let number = |path: &str| point.pointer(&format!("{path}/median")).unwrap().as_f64();
            let [mean, peak, settled] =
                ["/space/mean", "/space/peak", "/space/settled"].map(|path| number(path).unwrap());
            assert!(settled > 1.0 && peak >= settled && peak >= mean, "{point}");
            let tables = number("/written/settled_tables").unwrap();
            let loaded = number("/written/load_tables").unwrap();
            assert!(tables >= loaded && loaded > 0.3 && tables < 20.0, "{point}");
            assert_eq!(point["reads"].is_null(), load == "zipfian");
        }
    }
    let simulated = report["figures"]["simulated"].as_array().unwrap();
    assert!(simulated.iter().any(|one| one["name"] == "lsm-trie"));
    let leveled = &report["figures"]["updates"]["contest"]["runs"][0];
    assert_eq!(leveled["store"], "terrace-leveled");
    let told = leveled["settings"].as_array().unwrap();
    assert!(told.contains(&serde_json::json!([
        "default_keyspace.table_bytes",
        "65536"
    ])));
}

#[test]
fn plexdb_refuses_what_it_has_not() {
    let shell = Shell::new();
    for (arguments, what) in [
        (&["--scale", "0"][..], "above 0"),
        (&["--points", "nobody"], "terrace-dedup-1.2"),
        (&["--points", "leveldb"], "no point leveldb here"),
        (&["--tiny", "--scale", "0.1"], "cannot be used with"),
    ] {
        let ran = shell.run(&[&["reproduce", "plexdb"][..], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}

/// The program ends with an error if a system loses a pair or reads another value than was written.
#[test]
fn kvbdev_measures_each_system_and_loses_nothing() {
    let shell = Shell::new();
    let (html, plots) = (shell.path("kvbdev.html"), shell.path("plots"));
    let directory = directory();
    let ran = shell.run(&[
        "reproduce",
        "kvbdev",
        "--tiny",
        "--json",
        "--directory",
        directory.path().to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
        "--plots",
        plots.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let figures = &report["figures"];
    let runs = figures["contest"]["runs"].as_array().unwrap();
    // Three systems under three conditions.
    assert_eq!(runs.len(), 9);
    for run in runs {
        let is_of = |store: &str| run["store"] == store;
        assert!(is_of("kv-node") || is_of("lsm-on-blocks") || is_of("terrace"));
        for phase in run["phases"].as_array().unwrap() {
            let number = |name: &str| phase[name].as_u64().unwrap();
            assert_eq!(number("missing"), 0);
            let reads = phase["name"].as_str().unwrap().starts_with("readrandom");
            let found = if reads { number("operations") } else { 0 };
            assert_eq!(number("found"), found, "{phase}");
        }
        let is_durable = run["label"] != ", not synced";
        let durability = run["durability"].as_str().unwrap();
        let says = ["PowerSafe", "power cut"].map(|word| durability.contains(word));
        assert_eq!(says.contains(&true), is_durable, "{durability}");
    }
    let measured = figures["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 3 * 14);
    for one in measured {
        let of = |name: &str| one[name]["median"].as_f64().unwrap();
        assert!(
            of("per_second") > 0.0 && of("p99_us") >= of("p50_us"),
            "{one}"
        );
    }
    assert_eq!(figures["index_memory"]["keys"], 9000);
    let reopened = figures["recovery"]["runs"].as_array().unwrap();
    assert_eq!(reopened.len(), 3);
    for run in reopened {
        assert_eq!((&run["records"], &run["lost"]), (&1200.into(), &0.into()));
    }
    let page = std::fs::read_to_string(html).unwrap();
    for part in ["<svg ", "1835", "lsm-on-blocks", "terrace (upper bound)"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(std::fs::read_dir(plots).unwrap().count(), 4);
}

/// The program ends with an error if a store gives a wrong answer.
#[test]
fn tiers_sets_every_placement_beside_the_papers_and_the_predicted_numbers() {
    let shell = Shell::new();
    let (html, plots) = (shell.path("tiers.html"), shell.path("plots"));
    let directory = directory();
    let ran = shell.run(&[
        "reproduce",
        "tiers",
        "--tiny",
        "--json",
        "--directory",
        directory.path().to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
        "--plots",
        plots.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let figures = &report["figures"];
    // Sizes, placements and placements of five levels, with memory for all and for an eighth.
    let measured = figures["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 2 * (4 + 9 + 3));
    for one in measured {
        let of = |name: &str| one[name]["median"].as_f64().unwrap();
        assert!(
            of("per_second") > 0.0 && of("p99_us") >= of("p50_us"),
            "{one}"
        );
        assert!(of("price_per_million") > 0.0, "{one}");
    }
    let predicted = figures["predicted"].as_array().unwrap();
    assert_eq!(predicted.len(), 2 * (9 + 3));
    assert_eq!(figures["checks"].as_array().unwrap().len(), 2 * 2);
    for run in figures["placements"]["runs"].as_array().unwrap() {
        let devices = run["devices"].as_array().unwrap();
        let names: Vec<&str> = devices
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let expected: &[&str] = match run["case"].as_str().unwrap() {
            "A" => &["hdd"],
            "B" | "C" | "D" => &["ssd", "hdd"],
            "E" => &["ssd"],
            "I" => &["nvme"],
            _ => &["nvme", "ssd"],
        };
        // Level 0 may be empty.
        assert!(expected.ends_with(&names), "{run}");
    }
    let five = &figures["five_levels"]["loaded"][0][1];
    assert!(five[4].as_u64().unwrap() > 0, "{five}");
    let sections = report["sections"].as_array().unwrap();
    assert!(sections.iter().all(|section| section["emulated"] == true));
    let claims = report["claims"].as_array().unwrap();
    assert!(
        claims
            .iter()
            .all(|claim| claim["verdict"] == "cannot_be_told")
    );
    let page = std::fs::read_to_string(html).unwrap();
    for part in ["<svg ", "22824", ">emulated</span>", "predicted"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(std::fs::read_dir(plots).unwrap().count(), 1);
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
    for (arguments, what) in [
        (&["--scale", "0"][..], "above 0"),
        (&["--repeats", "0"], "one repeat"),
        (&["--tiny", "--scale", "0.1"], "cannot be used with"),
        (
            &["--directory", "/nowhere/at/all"],
            "cannot make directories",
        ),
    ] {
        let ran = shell.run(&[&["reproduce", "kvbdev"][..], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    for (arguments, what) in [
        (&["--scale", "0"][..], "above 0"),
        (&["--seconds", "0"], "above 0"),
        (&["--repeats", "0"], "one repeat"),
        (&["--clients", "0"], "one client"),
        (&["--tiny", "--full"], "cannot be used with"),
        (&["--full", "--scale", "0.1"], "cannot be used with"),
        (
            &["--directory", "/nowhere/at/all"],
            "cannot make directories",
        ),
    ] {
        let ran = shell.run(&[&["reproduce", "tiers"][..], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}

#[test]
fn the_help_has_examples() {
    for experiment in ["wbl", "plexdb", "kvbdev", "tiers"] {
        let help = Shell::new().out(&["reproduce", experiment, "--help"]);
        let example = format!("terrace reproduce {experiment} --tiny");
        assert!(help.contains(&example), "{help}");
    }
}
