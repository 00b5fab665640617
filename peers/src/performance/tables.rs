//! What was found, as tables of a document: a short one of each section, and all figures of each phase.

use std::collections::BTreeMap;

use terrace_bench::outcome::{Contest, RunOutcome};
use terrace_bench::report::figures::{Figure, Figures, PhaseFigures, Spread, figures};
use terrace_bench::report::numbers::digits;

use super::measurements::{Measurement, Section};

/// The store beside which the others are set, and the one that it is set beside where there is room for
/// one only.
const FIRST: &str = "terrace";
const SECOND: &str = "rocksdb";
/// Shown only where it is more than this: the rest is chance.
const READS_WORTH_SHOWING: f64 = 0.01;

/// By marker: `NAME` is the short table of a section, `NAME-all` has all its figures, `written` what each
/// run as a whole wrote.
pub fn of(
    sections: &[Section],
    contests: &BTreeMap<&'static str, Contest>,
) -> BTreeMap<String, String> {
    let mut tables = BTreeMap::from([("written".to_owned(), written(sections, contests))]);
    for section in sections {
        let found = |measurement: &Measurement| contests.get(measurement.name);
        let missing = section
            .measurements
            .iter()
            .filter(|one| found(one).is_none());
        let missing: Vec<_> = missing.map(|one| one.name).collect();
        let held: Vec<&Contest> = section.measurements.iter().filter_map(found).collect();
        let mut short = if is_paced(&held) {
            paced(&held)
        } else {
            short(&held)
        };
        let each = section
            .measurements
            .iter()
            .filter_map(|one| Some(everything(one, found(one)?)));
        let all: String = each.collect();
        if !missing.is_empty() {
            short += &format!("\nNot measured yet: {}.\n", missing.join(", "));
        }
        tables.insert(section.marker.into(), short);
        tables.insert(format!("{}-all", section.marker), all);
    }
    tables
}

fn is_paced(contests: &[&Contest]) -> bool {
    contests
        .iter()
        .any(|contest| contest.command.contains("--paced"))
}

/// A row for each phase: the first store's speed, how many times that of each other it is, and what it
/// costs the first and the second.
fn short(contests: &[&Contest]) -> String {
    let all: Vec<(&Contest, Figures)> = contests.iter().map(|one| (*one, figures(one))).collect();
    let mut others: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|(_, found)| &found.contestants) {
        if name != FIRST && !others.contains(&name.as_str()) {
            others.push(name);
        }
    }
    let mut head = vec!["".to_owned(), format!("{FIRST}, op/s")];
    head.extend(others.iter().map(|name| format!("x {name}")));
    head.extend(
        [
            "p99.9, us",
            "longest gap, ms",
            "CPU, us",
            "write amplification",
        ]
        .map(String::from),
    );
    let mut rows = Vec::new();
    let mut has_load = false;
    for (contest, found) in &all {
        for phase in &found.phases {
            // The same load begins every comparison: one row of it is enough.
            let is_load = phase.name.starts_with("load");
            if is_load && has_load {
                continue;
            }
            has_load |= is_load;
            rows.push(short_row(contest, found, phase, &others));
        }
    }
    markdown(&head, &rows)
}

fn short_row(
    contest: &Contest,
    found: &Figures,
    phase: &PhaseFigures,
    others: &[&str],
) -> Vec<String> {
    let is_load = phase.name.starts_with("load") || phase.name.starts_with('G');
    let decisive = if is_load { "settled" } else { "acknowledged" };
    let median =
        |identifier: &str, store: &str| Some(cell(found, phase, identifier, store)?.median);
    let speed = |store: &str| median(decisive, store).or_else(|| median("acknowledged", store));
    let ours = speed(FIRST);
    let mut row = vec![name(contest, phase, is_load)];
    row.push(ours.map_or("-".into(), |speed| format!("{} k", digits(speed / 1e3))));
    row.extend(others.iter().map(|other| match (ours, speed(other)) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2}", ours / theirs),
        _ => "-".into(),
    }));
    let pair = |identifier: &str, scale: f64| -> Option<String> {
        let of =
            |store| median(identifier, store).map_or("-".into(), |value| digits(value / scale));
        phase.figure(identifier)?;
        Some(format!("{} / {}", of(FIRST), of(SECOND)))
    };
    let tails = phase.kinds.iter().filter_map(|kind| {
        let kind = kind.name();
        Some(format!("{kind} {}", pair(&format!("{kind}.p99.9"), 1.0)?))
    });
    row.push(tails.collect::<Vec<_>>().join(", "));
    for (identifier, scale) in [
        ("longest_gap", 1e3),
        ("processor", 1.0),
        ("device_write_amplification", 1.0),
    ] {
        row.push(pair(identifier, scale).unwrap_or_default());
    }
    row
}

/// Under conditions that are not the section's, these are said.
fn name(contest: &Contest, phase: &PhaseFigures, is_load: bool) -> String {
    let mut name = plain(&phase.title()).to_owned();
    if is_load {
        name.push_str(", settled");
    }
    if phase.clients > 1 && !contest.command.contains("--durable") {
        name.push_str(&format!(", {} clients", phase.clients));
    }
    name
}

/// Without the regime of memory, which the section's title has.
fn plain(name: &str) -> &str {
    name.split(", ").next().unwrap_or(name)
}

/// A row for each kind of operation of each phase that was held at a rate.
fn paced(contests: &[&Contest]) -> String {
    let head = [
        "",
        "op/s asked for",
        "stores",
        "p50, us",
        "p99, us",
        "p99.9, us",
        "longest gap, ms",
    ];
    let mut rows = Vec::new();
    for contest in contests {
        let found = figures(contest);
        let regime = if contest.command.contains("bounded") {
            "bounded"
        } else {
            "in memory"
        };
        for phase in found.phases.iter().filter(|phase| phase.rate.is_some()) {
            let stores = || found.contestants.iter().zip(&phase.pace_not_kept);
            let names = stores().map(|(name, late)| {
                if *late {
                    format!("({name})")
                } else {
                    name.clone()
                }
            });
            let names: Vec<String> = names.collect();
            let each = |identifier: &str, scale: f64| {
                let of = |store: &str| cell(&found, phase, identifier, store);
                let values = found.contestants.iter().map(|store| {
                    of(store).map_or("-".into(), |spread| digits(spread.median / scale))
                });
                values.collect::<Vec<_>>().join(" / ")
            };
            for (number, kind) in phase.kinds.iter().enumerate() {
                let kind = kind.name();
                let only_first = |text: String| if number == 0 { text } else { String::new() };
                rows.push(vec![
                    format!("{}, {regime}: {kind}", plain(&phase.title())),
                    only_first(phase.rate.map_or(String::new(), digits)),
                    only_first(names.join(" / ")),
                    each(&format!("{kind}.p50"), 1.0),
                    each(&format!("{kind}.p99"), 1.0),
                    each(&format!("{kind}.p99.9"), 1.0),
                    only_first(each("longest_gap", 1e3)),
                ]);
            }
        }
    }
    markdown(&head.map(String::from), &rows)
}

/// Bytes that reached the device for each byte of user data, over runs as a whole, for stores that took
/// part in all of them.
fn written(sections: &[Section], contests: &BTreeMap<&'static str, Contest>) -> String {
    let mut rows = Vec::new();
    for section in sections {
        for measurement in section.measurements {
            let Some(contest) = contests.get(measurement.name) else {
                continue;
            };
            let runs = |store: &str| -> Vec<f64> {
                let runs = contest.runs.iter().filter(|run| run.store == store);
                runs.filter_map(amplification).collect()
            };
            let of = |store| median(runs(store)).map_or("-".into(), digits);
            rows.push(vec![measurement.name.to_owned(), of(FIRST), of(SECOND)]);
        }
    }
    markdown(&["", FIRST, SECOND].map(String::from), &rows)
}

fn amplification(run: &RunOutcome) -> Option<f64> {
    let written = run
        .phases
        .iter()
        .map(|phase| phase.usage.device_write_bytes);
    let written: u64 = written.sum::<Option<u64>>()?;
    let user: u64 = run
        .phases
        .iter()
        .map(|phase| phase.user_written_bytes)
        .sum();
    (user > 0).then(|| written as f64 / user as f64)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The command, and a table of each phase.
fn everything(measurement: &Measurement, contest: &Contest) -> String {
    let mut text = format!("```sh\npeers compare {}\n```\n\n", measurement.arguments);
    let found = figures(contest);
    for phase in &found.phases {
        let mut head = vec![plain(&phase.title()).to_owned()];
        head.extend(found.contestants.iter().cloned());
        let shown = phase
            .figures
            .iter()
            .filter(|figure| is_worth_showing(figure));
        let rows: Vec<Vec<String>> = shown
            .map(|figure| {
                let cells = figure.cells.iter().map(|cell| match cell {
                    Some(spread) if spread.range.is_empty() => spread.text.clone(),
                    Some(spread) => format!("{} [{}]", spread.text, spread.range),
                    None => "-".into(),
                });
                std::iter::once(figure.label.clone()).chain(cells).collect()
            })
            .collect();
        text += &markdown(&head, &rows);
        text.push('\n');
    }
    text
}

fn is_worth_showing(figure: &Figure) -> bool {
    let most = figure.cells.iter().flatten().map(|cell| cell.most);
    figure.identifier != "device_reads" || most.fold(0.0, f64::max) > READS_WORTH_SHOWING
}

fn cell<'a>(
    found: &Figures,
    phase: &'a PhaseFigures,
    identifier: &str,
    store: &str,
) -> Option<&'a Spread> {
    let index = found.contestants.iter().position(|name| name == store)?;
    phase.figure(identifier)?.cells.get(index)?.as_ref()
}

fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = "---|".repeat(head.len());
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{rule}\n{body}", line(head))
}

#[cfg(test)]
mod tests {
    use terrace_bench::operation::OperationKind;
    use terrace_bench::outcome::{Latency, PhaseOutcome, Usage};

    use super::*;

    const SECTION: Section = Section {
        marker: "fits",
        measurements: &[
            Measurement {
                name: "first",
                arguments: "ycsb c",
            },
            Measurement {
                name: "second",
                arguments: "ycsb e",
            },
            Measurement {
                name: "third",
                arguments: "ycsb h",
            },
        ],
    };

    fn phase(name: &str, seconds: f64, rate: Option<f64>) -> PhaseOutcome {
        let latency = Latency {
            count: 9,
            p50_us: 1.0,
            p99_us: 2.0,
            p999_us: 30.0 * seconds,
            ..Latency::default()
        };
        PhaseOutcome {
            name: name.into(),
            operations: 100_000,
            clients: 1,
            rate,
            acknowledged_s: seconds,
            settled_s: (name == "load").then_some(2.0 * seconds),
            latencies: BTreeMap::from([(OperationKind::Read, latency)]),
            longest_gap_ms: 4.0,
            user_written_bytes: 1000,
            usage: Usage {
                user_s: 0.5,
                device_write_bytes: Some((3000.0 * seconds) as u64),
                ..Usage::default()
            },
            ..PhaseOutcome::default()
        }
    }

    fn contest(command: &str, stores: &[(&str, f64)], rate: Option<f64>) -> Contest {
        let run = |repeat: u32, &(store, seconds): &(&str, f64)| RunOutcome {
            store: store.into(),
            repeat,
            phases: vec![
                phase("load", seconds, None),
                phase("C, bounded", seconds, rate),
            ],
            ..RunOutcome::default()
        };
        let runs = (0..3).flat_map(|repeat| stores.iter().map(move |store| run(repeat, store)));
        Contest {
            command: command.into(),
            runs: runs.collect(),
            ..Contest::default()
        }
    }

    fn shown(contests: Vec<(&'static str, Contest)>) -> BTreeMap<String, String> {
        of(&[SECTION], &contests.into_iter().collect())
    }

    #[test]
    fn the_short_table_sets_the_first_beside_each_other() {
        let both = [("terrace", 1.0), ("rocksdb", 2.0)];
        let three = [("terrace", 1.0), ("rocksdb", 4.0), ("fjall", 3.0)];
        let tables = shown(vec![
            ("first", contest("peers compare ycsb c", &both, None)),
            ("third", contest("peers compare ycsb h", &three, None)),
        ]);
        let expected = "\
|  | terrace, op/s | x rocksdb | x fjall | p99.9, us | longest gap, ms | CPU, us | write amplification |
|---|---|---|---|---|---|---|---|
| load, settled | 50.0 k | 2.00 | - | read 30.0 / 60.0 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 6.00 |
| C | 100 k | 2.00 | - | read 30.0 / 60.0 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 6.00 |
| C | 100 k | 4.00 | 3.00 | read 30.0 / 120 | 4.00 / 4.00 | 5.00 / 5.00 | 3.00 / 12.0 |

Not measured yet: second.
";
        assert_eq!(tables["fits"], expected);
        assert_eq!(
            tables["written"],
            "|  | terrace | rocksdb |\n|---|---|---|\n| first | 3.00 | 6.00 |\n| third | 3.00 | 12.0 |\n"
        );
        // Each beside its own command, though one between them is missing.
        let (before, after) = tables["fits-all"]
            .split_once("peers compare ycsb h")
            .unwrap();
        assert!(before.contains("peers compare ycsb c") && !before.contains("fjall"));
        assert!(
            after.contains("| C | terrace | rocksdb | fjall |"),
            "{after}"
        );
    }

    #[test]
    fn who_did_not_keep_the_pace_is_in_brackets() {
        let stores = [("terrace", 1.0), ("rocksdb", 2.0)];
        let command = "peers compare ycsb c --paced 70 --memory bounded";
        let tables = shown(vec![("first", contest(command, &stores, Some(80_000.0)))]);
        let row = "| C, bounded: read | 80000 | terrace / (rocksdb) | 1.00 / 1.00 | 2.00 / 2.00 | 30.0 / 60.0 | 4.00 / 4.00 |";
        assert!(tables["fits"].contains(row), "{}", tables["fits"]);
        assert!(!tables["fits"].contains("load"));
    }
}
