//! Advice on the tiers of levels from the shell.

mod support;

use serde_json::{Value, json};
use support::Shell;
use terrace::{Db, Options, TierOptions};
use terrace_storage::DeviceProfile;
use terrace_tools::inspect;

/// Writes without which a load's requests are not sampled well.
const WRITES: u32 = 40_000;

/// Returns a store with a tier `disk` of unknown speed, under a load that reads no device.
fn served(shell: &Shell) -> Db {
    let mut options = Options {
        arena_bytes: 256 << 10,
        tiers: vec![
            TierOptions {
                profile: Some(DeviceProfile::NVME_960_PRO),
                ..TierOptions::of_store("store")
            },
            TierOptions::new("disk", shell.path("disk")),
        ],
        ..Options::default()
    };
    options.default_keyspace.level_tiers = vec!["store".to_owned()];
    let db = inspect::open(shell.store(), options).unwrap();
    for row in 0..WRITES {
        db.put(format!("key{row:05}"), [7; 50]).unwrap();
    }
    db.flush().unwrap();
    db
}

#[track_caller]
fn refused(shell: &Shell, arguments: &[&str], part: &str) {
    let ran = shell.run(&[&["tier", "advise"], arguments].concat());
    assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
    assert!(ran.stderr.contains(part), "{arguments:?}: {}", ran.stderr);
}

#[test]
fn an_owner_is_asked_and_each_placement_has_its_figures() {
    let shell = Shell::new();
    let db = served(&shell);
    refused(
        &shell,
        &[],
        "the tier \"disk\" has no profile; run terrace tier probe ",
    );
    let known = ["tier", "advise", "--profile", "disk=wd10ezex"];
    let advice = shell.json(&[&known[..], &["--json"]].concat());
    assert_eq!(advice["is_prediction"], true);
    assert_eq!(advice["tiers"][0]["name"], "store");
    assert_eq!(advice["tiers"][1]["profile"]["price_per_gb"], 0.045);
    let placements = advice["placements"].as_array().unwrap();
    let present: Vec<&Value> = placements
        .iter()
        .filter(|placement| placement["is_present"] == true)
        .collect();
    assert_eq!(present.len(), 1, "{advice}");
    let all_in = |name: &str, placement: &Value| {
        let levels = placement["levels"].as_array().unwrap();
        levels.iter().all(|level| level == name)
    };
    assert!(all_in("store", present[0]), "{advice}");
    assert!(placements.len() > 1 && placements.iter().any(|placement| all_in("disk", placement)));
    assert!(present[0]["requests_per_second"].as_f64().unwrap() > 100.0);

    let text = shell.out(&known);
    assert!(
        text.starts_with("Predictions, not measurements: 16 threads "),
        "{text}"
    );
    let line = text.lines().find(|line| line.contains(" now  ")).unwrap();
    assert!(line.contains("now  store "), "{text}");
    let suggested = advice["options_toml"].as_str().unwrap();
    let is_best = present[0]["is_best"] == true;
    assert!(
        is_best || text.contains(&format!("\n  {suggested}\n")),
        "{text}"
    );

    // The figures of the probe in a file, and a device that is not there.
    let file = shell.file(
        "probed.toml",
        terrace_tools::probe::toml(&DeviceProfile::QLC),
    );
    let disk = format!("disk={file}");
    let more = [
        "--device",
        "tape=wd10ezex:1TiB:0.01",
        "--limit",
        "1",
        "--threads",
        "1",
    ];
    let more = [&["tier", "advise", "--profile", &disk][..], &more].concat();
    let text = shell.out(&more);
    assert!(
        text.contains("not there") && text.contains(" more; --limit shows them\n"),
        "{text}"
    );
    let advice = shell.json(&[&more[..], &["--json"]].concat());
    assert_eq!(
        advice["tiers"][1]["profile"]["queued_read_latency_us"],
        327.0
    );
    assert_eq!(advice["tiers"][2]["number"], Value::Null);
    db.close().unwrap();
}

#[test]
fn saved_statistics_give_the_advice_of_their_store() {
    let shell = Shell::new();
    let db = served(&shell);
    let saved = shell.file("monday.json", shell.out(&["stats", "--json"]));
    db.close().unwrap();
    // The counts of the opening for this command say nothing.
    let known = ["--profile", "disk=wd10ezex"];
    refused(&shell, &known, "answered 0 requests");
    refused(&shell, &known, "or give --traffic FILE");
    let elsewhere = Shell::new();
    let asked = ["tier", "advise", "--traffic", &saved, "--json"];
    let advice = elsewhere.json(&[&asked[..], &known].concat());
    assert!(advice["requests"].as_u64().unwrap() > 10_000);
    assert_eq!(advice["goal"], json!("throughput"));
    let cheap = elsewhere.json(&[&asked[..], &known, &["--goal", "price"]].concat());
    assert_eq!(cheap["goal"], json!("price"));
}

#[test]
fn wrong_arguments_are_refused() {
    let shell = Shell::new();
    let db = served(&shell);
    let known = ["--profile", "disk=qlc"];
    for (arguments, part) in [
        (&["--profile", "disk"][..], "TIER=PRESET|FILE is expected"),
        (&["--profile", "disk=floppy"], "wd10ezex, 850-pro, qlc"),
        (
            &["--profile", "tape=qlc"],
            "there is no tier \"tape\"; there are store, disk",
        ),
        (
            &["--device", "tape=qlc"],
            "NAME=PRESET:CAPACITY[:PRICE_PER_GB] is expected",
        ),
        (
            &["--device", "disk=qlc:1TiB"],
            "there is a tier \"disk\" already",
        ),
        (&["--threads", "0"], "1..=100000"),
        (&["--goal", "beauty"], "throughput"),
    ] {
        refused(&shell, &[&known[..], arguments].concat(), part);
    }
    let odd = shell.file("odd.toml", "speed = 7\n");
    refused(
        &shell,
        &["--profile", &format!("disk={odd}")],
        "unknown field `speed`",
    );
    refused(
        &shell,
        &["--traffic", &odd],
        "has no statistics of `terrace stats --json`",
    );
    db.close().unwrap();
    let nowhere = Shell::new();
    assert_eq!(nowhere.run(&["tier", "advise"]).code, 7);
}
