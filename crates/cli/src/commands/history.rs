//! Past merges and moves as a table.

use std::time::{Duration, SystemTime};

use terrace::{Compaction, CompactionKind};

use crate::report::{bytes, count};
use crate::text::escape;

/// Returns a table with a line for each compaction, in the order in which they ended.
pub fn table(compactions: &[Compaction], now: SystemTime) -> String {
    if compactions.is_empty() {
        return "no merge or move since the store was opened\n".to_owned();
    }
    let heading = [
        "job",
        "ago",
        "time",
        "levels",
        "in",
        "out",
        "predicted",
        "dropped",
    ];
    let mut text = line(&heading.map(str::to_owned), "why");
    for past in compactions {
        text.push_str(&line(&cells(past, now), &why(past)));
    }
    text
}

fn line(cells: &[String; 8], why: &str) -> String {
    let [job, ago, time, levels, read, written, predicted, dropped] = cells;
    format!(
        "{job:>5} {ago:>7} {time:>8} {levels:>7} {read:>10} {written:>10} {predicted:>10} \
         {dropped:>10}  {why}\n"
    )
}

fn cells(past: &Compaction, now: SystemTime) -> [String; 8] {
    let is_merge = past.kind == CompactionKind::Merge;
    let inputs: Vec<String> = past.input_levels.iter().map(u8::to_string).collect();
    let if_merged = |shown: String| if is_merge { shown } else { "-".to_owned() };
    let ended = past.began + past.duration;
    [
        count(past.job),
        since(now.duration_since(ended).unwrap_or_default()),
        format!("{:.1?}", past.duration),
        match past.kind {
            CompactionKind::Removal => inputs.join(","),
            _ => format!("{}→{}", inputs.join(","), past.output_level),
        },
        bytes(past.input_bytes),
        match past.kind {
            CompactionKind::Move => "moved".to_owned(),
            CompactionKind::Removal => "removed".to_owned(),
            _ => bytes(past.output_bytes),
        },
        past.predicted_dropped.map_or("-".to_owned(), count),
        if_merged(count(past.dropped)),
    ]
}

fn why(past: &Compaction) -> String {
    let mut text = match past.keyspace.as_str() {
        "default" => past.reason.clone(),
        keyspace => format!("{}: {}", escape(keyspace.as_bytes()), past.reason),
    };
    if past.setback {
        text.push_str("; a setback");
    }
    if let Some(error) = &past.cut_short {
        let (installed, slices) = (past.installed_slices, past.slices);
        text.push_str(&format!(
            "; cut short with {installed} of {slices} slices: {error}"
        ));
    }
    text
}

/// Returns a time in the unit that leaves one or two digits, or more of days.
fn since(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn specimen() -> Value {
        json!({
            "job": 7,
            "keyspace": "default",
            "began_seconds": 1_700_000_000.0,
            "duration_seconds": 2.5,
            "reason": "level 1 has 134 versions for 100 that would stay",
            "kind": "merge",
            "input_levels": [1],
            "output_level": 1,
            "input_tables": 3,
            "input_bytes": 3 << 20,
            "output_tables": 2,
            "output_bytes": 2 << 20,
            "entries": 30_000,
            "predicted_dropped": 7_600,
            "dropped": 7_512,
            "setback": false,
            "slices": 4,
            "installed_slices": 4,
            "cut_short": null,
        })
    }

    /// Returns the last line of a table of the specimen with these fields replaced.
    fn shown(fields: Value) -> String {
        let mut past = specimen();
        for (name, value) in fields.as_object().unwrap() {
            past[name] = value.clone();
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_302);
        let past = serde_json::from_value(past).unwrap();
        table(&[past], now).lines().last().unwrap().to_owned()
    }

    #[test]
    fn each_is_a_line() {
        assert_eq!(
            shown(json!({})),
            "    7   4 min     2.5s     1→1    3.0 MiB    2.0 MiB      7,600      7,512  level 1 \
             has 134 versions for 100 that would stay"
        );
        let moved = json!({"kind": "move", "input_levels": [0, 1], "predicted_dropped": null});
        assert_eq!(
            shown(moved),
            "    7   4 min     2.5s   0,1→1    3.0 MiB      moved          -          -  level 1 \
             has 134 versions for 100 that would stay"
        );
    }

    #[test]
    fn what_went_wrong_is_told() {
        let cut = json!({
            "setback": true, "keyspace": "lakes", "installed_slices": 1, "cut_short": "no space",
        });
        let line = shown(cut);
        assert!(
            line.ends_with(
                "  lakes: level 1 has 134 versions for 100 that would stay; a setback; cut short \
                 with 1 of 4 slices: no space"
            ),
            "{line}"
        );
    }

    #[test]
    fn times_have_one_unit() {
        let shown = [59, 60, 3_599, 3_600, 86_399, 8_640_000];
        let shown = shown.map(|seconds| since(Duration::from_secs(seconds)));
        assert_eq!(shown, ["59 s", "1 min", "59 min", "1 h", "23 h", "100 d"]);
    }
}
