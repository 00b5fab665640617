//! A made-up contest for tests of the reports: three contestants, two phases in two regimes of
//! memory, three repeats, a store that failed, and names that try to be more than text. No machine
//! gave its numbers.

use std::collections::BTreeMap;

use terrace::TimeProfile;

use crate::operation::OperationKind;
use crate::outcome::{
    Contest, Failure, HarnessCost, Latency, Machine, Mark, MarkKind, PhaseOutcome, RunOutcome,
    Sample, Usage,
};

/// Bytes of a record's key and value.
const RECORD_BYTES: u64 = 1024;

/// How a made-up contestant behaves.
struct Character {
    name: &'static str,
    load_per_second: f64,
    mixed_per_second: f64,
    latency_us: f64,
    write_amplification: f64,
    merges: bool,
}

const CHARACTERS: [Character; 3] = [
    Character {
        name: "terrace",
        load_per_second: 240_000.0,
        mixed_per_second: 96_000.0,
        latency_us: 8.0,
        write_amplification: 4.2,
        merges: true,
    },
    Character {
        name: "other</script><b>",
        load_per_second: 178_000.0,
        mixed_per_second: 71_000.0,
        latency_us: 11.0,
        write_amplification: 7.9,
        merges: true,
    },
    Character {
        name: "tree & \"leaf\"",
        load_per_second: 64_000.0,
        mixed_per_second: 99_000.0,
        latency_us: 6.0,
        write_amplification: 14.5,
        merges: false,
    },
];

/// Makes the contest; the same each time.
pub fn contest() -> Contest {
    let runs = (0..3).flat_map(|repeat| {
        let both = move |character| {
            REGIMES
                .iter()
                .map(move |regime| run(character, repeat, regime))
        };
        CHARACTERS.iter().flat_map(both)
    });
    let cost = |phase: &str, nanoseconds| HarnessCost {
        phase: phase.into(),
        nanoseconds,
    };
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    Contest {
        command: "terrace bench --workload a --records 4M </script><script>alert(1)</script>"
            .into(),
        title: "YCSB </script><b> A: 4 000 000 records of 1 kB, zipfian, memory bounded".into(),
        conditions: vec![
            pair("seed", "42"),
            pair("records", "4 000 000"),
            pair(
                "memory limit",
                "1 GiB, page cache included \u{2028} {{script}}",
            ),
        ],
        machine: Machine {
            processor: "A processor <img src=x>".into(),
            processors: 8,
            memory_bytes: 32 << 30,
            kernel: "6.1.0".into(),
            file_system: "ext4 on nvme0n1".into(),
            day: "2026-11-27".into(),
            harness: vec![cost("load", 280.0), cost("A", 310.0)],
        },
        runs: runs.collect(),
        failures: vec![Failure {
            store: "brittle <i>".into(),
            repeat: 0,
            label: ", bounded".into(),
            error: "phase A: key user7 is missing".into(),
        }],
    }
}

/// A regime of memory.
struct Regime {
    label: &'static str,
    cache: &'static str,
    /// By how much all is slower.
    slower: f64,
    cgroup_bytes: Option<u64>,
}

const REGIMES: [Regime; 2] = [
    Regime {
        label: ", fits",
        cache: "5120 MiB",
        slower: 1.0,
        cgroup_bytes: None,
    },
    Regime {
        label: ", bounded",
        cache: "256 MiB",
        slower: 2.5,
        cgroup_bytes: Some(1 << 30),
    },
];

/// Adds a time profile to a phase of the first contestant, whose last repeat has a merge less.
fn watched(character: &Character, repeat: u32, phase: PhaseOutcome) -> PhaseOutcome {
    let watches_itself = character.name == "terrace";
    PhaseOutcome {
        time_profile: watches_itself.then(|| time_profile(&phase, repeat < 2)),
        ..phase
    }
}

fn run(character: &Character, repeat: u32, regime: &Regime) -> RunOutcome {
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    let mut settings = vec![
        pair("cache", regime.cache),
        pair("write buffer", "64 MiB x 3"),
    ];
    if character.merges {
        settings.push(pair("background threads", "2"));
    } else {
        settings.push(pair("map size", "64 GiB"));
    }
    RunOutcome {
        store: character.name.into(),
        repeat,
        label: regime.label.into(),
        durability: "an acknowledged write survives the death of the process".into(),
        settings,
        phases: vec![
            watched(character, repeat, load(character, repeat, regime)),
            watched(character, repeat, mixed(character, repeat, regime)),
        ],
    }
}

/// Repeats differ by some percent, the middle one being repeat 0.
fn luck(repeat: u32) -> f64 {
    match repeat {
        0 => 1.0,
        1 => 0.96,
        _ => 1.03,
    }
}

fn load(character: &Character, repeat: u32, regime: &Regime) -> PhaseOutcome {
    let operations = 4_000_000;
    let seconds = regime.slower * operations as f64 / (character.load_per_second * luck(repeat));
    let mut phase = phase("load", character, operations, seconds, regime);
    phase.user_written_bytes = operations * RECORD_BYTES;
    phase.usage.write_bytes =
        (phase.user_written_bytes as f64 * character.write_amplification) as u64;
    phase.usage.cancelled_write_bytes = phase.user_written_bytes / 10;
    phase.usage.read_bytes = phase.usage.write_bytes / 2;
    phase.usage.device_write_bytes = Some(phase.usage.write_bytes);
    phase.settled_s = character.merges.then_some(seconds * 1.35);
    let median = regime.slower * character.latency_us * 2.0 * luck(repeat);
    phase.latencies =
        BTreeMap::from([(OperationKind::Insert, latency(operations, median, 5200.0))]);
    phase.timeline = timeline(&phase, 1.0);
    phase
}

fn mixed(character: &Character, repeat: u32, regime: &Regime) -> PhaseOutcome {
    let operations = 3_000_000;
    let seconds = regime.slower * operations as f64 / (character.mixed_per_second * luck(repeat));
    let mut phase = phase("A", character, operations, seconds, regime);
    phase.found = operations / 2;
    phase.user_written_bytes = operations / 2 * RECORD_BYTES;
    phase.user_read_bytes = phase.user_written_bytes;
    phase.usage.write_bytes =
        (phase.user_written_bytes as f64 * character.write_amplification) as u64;
    phase.usage.read_bytes = phase.user_read_bytes * 3;
    phase.usage.device_reads = Some((phase.found as f64 * 0.1 * character.latency_us) as u64);
    phase.settled_s = Some(seconds * if character.merges { 1.2 } else { 1.01 });
    let median = regime.slower * character.latency_us * luck(repeat);
    phase.latencies = BTreeMap::from([
        (OperationKind::Read, latency(operations / 2, median, 900.0)),
        (
            OperationKind::Update,
            latency(operations / 2, median * 1.7, 7400.0),
        ),
    ]);
    phase.timeline = timeline(&phase, 0.1);
    phase
}

/// Makes a phase, with the parts that both phases have in common.
fn phase(
    name: &str,
    character: &Character,
    operations: u64,
    seconds: f64,
    regime: &Regime,
) -> PhaseOutcome {
    let live_bytes = 4_000_000 * RECORD_BYTES;
    let gap_ms = if character.merges { 84.0 } else { 310.0 };
    PhaseOutcome {
        name: format!("{name}{}", regime.label),
        operations,
        clients: 4,
        acknowledged_s: seconds,
        longest_gap_ms: gap_ms * seconds / 20.0,
        longest_gap_at_s: seconds * 0.62,
        space_bytes: (live_bytes as f64 * (1.0 + character.write_amplification / 20.0)) as u64,
        live_bytes,
        usage: Usage {
            user_s: seconds * 2.6,
            system_s: seconds * 0.7,
            peak_resident_bytes: 620_000_000,
            peak_cgroup_bytes: regime.cgroup_bytes,
            ..Usage::default()
        },
        marks: marks(character, seconds),
        ..PhaseOutcome::default()
    }
}

fn marks(character: &Character, seconds: f64) -> Vec<Mark> {
    if !character.merges {
        return Vec::new();
    }
    let mark = |kind, from: f64, part: f64| Mark {
        kind,
        from_s: seconds * from,
        to_s: seconds * (from + part),
    };
    let flushes = (1..=12).map(|number| mark(MarkKind::Flush, f64::from(number) / 13.0, 0.006));
    let mut marks: Vec<Mark> = flushes.collect();
    marks.push(mark(MarkKind::Compaction, 0.2, 0.13));
    marks.push(mark(MarkKind::Compaction, 0.45, 0.2));
    marks.push(mark(MarkKind::Compaction, 0.8, 0.2));
    marks.push(mark(MarkKind::Stall, 0.62, 0.02));
    marks
}

/// Makes a path with stages, one that was not taken, and one that was taken where it `merges`.
fn time_profile(phase: &PhaseOutcome, merges: bool) -> TimeProfile {
    let seconds = phase.acknowledged_s;
    let path = |name: &str, one_in: u64, operations: u64, stages: &[(&str, f64)]| {
        let stages = stages.iter().map(|(stage, share)| {
            serde_json::json!({ "stage": stage, "seconds": seconds * share, "share": share })
        });
        serde_json::json!({
            "path": name, "one_in": one_in, "watched": operations / one_in, "operations": operations,
            "seconds": seconds, "stages": stages.collect::<Vec<_>>(),
        })
    };
    let merge = [("merging", 0.5), ("system call: read", 0.3), ("<b>", 0.2)];
    let (merges, merge) = if merges {
        (3, &merge[..])
    } else {
        (0, &[][..])
    };
    let profile = serde_json::json!({ "paths": [
        path("write", 128, phase.operations, &[("copy into arena", 0.6), ("index insert", 0.4)]),
        path("get", 128, 0, &[]),
        path("merge", 1, merges, merge),
    ] });
    serde_json::from_value(profile).expect("a profile")
}

/// Makes a distribution with a long tail, from its median and its greatest value.
fn latency(count: u64, median_us: f64, max_us: f64) -> Latency {
    // A fraction of 1 - 10^-n lies at median * growth^n; the greatest is where one is left.
    let nines = (count as f64).log10();
    let growth = (max_us / median_us).powf(1.0 / nines);
    let at = |nines: f64| median_us * growth.powf(nines - 0.301);
    let steps = (1..=60).map(|step| f64::from(step) / 60.0 * nines);
    let mut cdf: Vec<(f64, f64)> = steps.map(|n| (at(n), 1.0 - 10f64.powf(-n))).collect();
    cdf.push((max_us, 1.0));
    Latency {
        count,
        mean_us: median_us * 1.4,
        p50_us: median_us,
        p90_us: at(1.0),
        p99_us: at(2.0),
        p999_us: at(3.0),
        p9999_us: at(4.0),
        max_us,
        cdf,
    }
}

/// Makes 120 samples whose speed wanders, and falls where the phase stalls. `growing` is the part
/// of the final space that the phase adds.
fn timeline(phase: &PhaseOutcome, growing: f64) -> Vec<Sample> {
    let samples = 120;
    let speed = |index: u32| {
        let at = f64::from(index) / f64::from(samples);
        let wave =
            1.0 + 0.18 * (f64::from(index) * 0.55).sin() + 0.07 * (f64::from(index) * 2.3).sin();
        let stalled = (0.62..0.64).contains(&at) && !phase.marks.is_empty();
        if stalled { wave * 0.12 } else { wave }
    };
    let total: f64 = (1..=samples).map(speed).sum();
    let mut done = 0.0;
    let mut timeline = Vec::new();
    for index in 1..=samples {
        let time = f64::from(index) / f64::from(samples);
        done += speed(index) / total;
        let part = |of: u64| (of as f64 * done) as u64;
        let space = phase.space_bytes as f64 * (1.0 - growing + growing * done);
        let memory = 380e6 + 220e6 * ((f64::from(index) * 0.9).sin() * 0.5 + 0.5) * time;
        timeline.push(Sample {
            at_s: time * phase.acknowledged_s,
            operations: part(phase.operations),
            write_bytes: part(phase.usage.write_bytes),
            read_bytes: part(phase.usage.read_bytes),
            space_bytes: space as u64,
            table_space_bytes: space as u64,
            resident_bytes: memory as u64,
            processor_s: done * (phase.usage.user_s + phase.usage.system_s),
        });
    }
    timeline
}
