//! The requested workload, from the arguments.

use crate::Result;
use crate::arguments::{self, Bench, Common, Update};
use crate::linkbench;
use crate::values::Sizes;
use crate::workload::db_bench::Benchmark;
use crate::workload::ycsb::{Distribution, UpdateStyle};
use crate::workload::{Options, Phase, PhaseKind, Workload, named, names};

/// Records and operations of `--tiny`.
pub const TINY: u64 = 3000;

/// Ranges of `--distribution clustered`, as the questions about hot tables have it.
const CLUSTERED_RANGES: u64 = 1000;

/// Fields of a record of YCSB.
const FIELDS: u32 = 10;

impl Bench {
    /// Returns the arguments that all contests have; `None` for one run, which comes on standard
    /// input, and where there is no contest.
    pub fn common(&self) -> Option<&Common> {
        match self {
            Bench::Ycsb(ycsb) | Bench::Explain(ycsb) => Some(&ycsb.common),
            Bench::DbBench(db_bench) => Some(&db_bench.common),
            Bench::Updates(updates) => Some(&updates.common),
            Bench::Mixgraph(mixgraph) => Some(&mixgraph.common),
            Bench::Linkbench(linkbench) => Some(&linkbench.common),
            Bench::Reopen(_) | Bench::RunOne => None,
        }
    }
}

/// Finds the workload.
///
/// # Errors
/// A name that is not known, and numbers that make no sense.
pub fn load(bench: &Bench, common: &Common) -> Result<Workload> {
    let options = Options {
        clients: common.clients,
        ..options(bench)?
    };
    let options = if common.runs.tiny {
        tiny(options)
    } else {
        options
    };
    let is_none = |number: Option<u32>| number == Some(0);
    if options.records == Some(0) || is_none(options.clients) || is_none(options.loaders) {
        return Err("there must be at least one record and one client".into());
    }
    if options
        .compression_ratio
        .is_some_and(|ratio| !(0.0 < ratio && ratio <= 1.0))
    {
        return Err("--compression-ratio is above 0, and 1 at most".into());
    }
    let name = name(bench);
    let mut workload = named(&name, &options).ok_or_else(|| unknown(&name))?;
    if let Bench::DbBench(db_bench) = bench {
        repeat_keys(&mut workload, db_bench.repeat_keys);
        pace_writer(&mut workload, db_bench.writer_rate)?;
        read_on(&mut workload, db_bench.seek_nexts)?;
    }
    match workload
        .phases
        .iter()
        .find(|phase| phase.needs_power_cut_safety)
    {
        Some(phase) if !common.stores.durable => {
            Err(format!("{} syncs every write: run it with --durable", phase.name).into())
        }
        _ => Ok(workload),
    }
}

fn unknown(name: &str) -> crate::Error {
    let known: Vec<_> = names().map(|(name, _)| name).collect();
    format!(
        "there is no workload {}, or these cannot be run in a row; there are {}",
        terrace_storage::Escaped::name(name),
        known.join(", ")
    )
    .into()
}

fn name(bench: &Bench) -> String {
    match bench {
        Bench::Ycsb(ycsb) | Bench::Explain(ycsb) => ycsb.workloads.join(","),
        Bench::DbBench(db_bench) => db_bench.workloads.join(","),
        Bench::Updates(updates) if updates.large => "updates-large".into(),
        Bench::Updates(_) => "updates".into(),
        Bench::Linkbench(_) => "linkbench".into(),
        Bench::Mixgraph(_) | Bench::Reopen(_) | Bench::RunOne => "mixgraph".into(),
    }
}

fn options(bench: &Bench) -> Result<Options> {
    Ok(match bench {
        Bench::Ycsb(ycsb) | Bench::Explain(ycsb) => Options {
            records: Some(ycsb.records),
            operations: ycsb.operations,
            distribution: ycsb.distribution.map(distribution),
            update: match ycsb.update {
                Update::Field => UpdateStyle::Field,
                Update::Value => UpdateStyle::Value,
            },
            sizes: Some(fields(ycsb.value_bytes)?),
            compression_ratio: Some(ycsb.compression_ratio),
            ..Options::default()
        },
        Bench::DbBench(db_bench) => Options {
            records: Some(db_bench.records),
            operations: db_bench.operations,
            sizes: db_bench.value_bytes.map(|bytes| Sizes::Fixed { bytes }),
            compression_ratio: Some(db_bench.compression_ratio),
            ..Options::default()
        },
        Bench::Updates(updates) => {
            if updates.scale.is_nan() || updates.scale <= 0.0 {
                return Err("--scale must be above 0".into());
            }
            Options {
                scale: Some(updates.scale),
                compression_ratio: Some(updates.compression_ratio),
                ..Options::default()
            }
        }
        Bench::Mixgraph(mixgraph) => Options {
            records: Some(mixgraph.records),
            operations: Some(mixgraph.operations),
            compression_ratio: Some(mixgraph.compression_ratio),
            ..Options::default()
        },
        Bench::Linkbench(linkbench) => Options {
            records: Some(linkbench.nodes),
            operations: linkbench.operations,
            loaders: linkbench.loaders,
            ..Options::default()
        },
        Bench::Reopen(_) | Bench::RunOne => Options::default(),
    })
}

/// Makes ten fields, as YCSB has them.
fn fields(value_bytes: u32) -> Result<Sizes> {
    if value_bytes < FIELDS || !value_bytes.is_multiple_of(FIELDS) {
        return Err(format!(
            "a value of {value_bytes} bytes cannot be divided into {FIELDS} fields; \
             --value-bytes takes multiples of {FIELDS}"
        )
        .into());
    }
    Ok(Sizes::Fields {
        count: FIELDS,
        bytes: value_bytes / FIELDS,
    })
}

fn distribution(asked: arguments::Distribution) -> Distribution {
    match asked {
        arguments::Distribution::Zipfian => Distribution::Zipfian,
        arguments::Distribution::Uniform => Distribution::Uniform,
        arguments::Distribution::Latest => Distribution::Latest,
        arguments::Distribution::Clustered => Distribution::Clustered {
            ranges: CLUSTERED_RANGES,
        },
    }
}

fn tiny(options: Options) -> Options {
    Options {
        records: Some(TINY.min(options.records.unwrap_or(TINY))),
        operations: Some(TINY.min(options.operations.unwrap_or(TINY))),
        ..options
    }
}

/// Returns the names of the tables that these phases need besides the usual one.
pub fn tables(phases: &[Phase]) -> Vec<String> {
    let is_of_graph = |phase: &Phase| phase.is_of_graph();
    match phases.iter().any(is_of_graph) {
        true => linkbench::TABLES.map(String::from).into(),
        false => Vec::new(),
    }
}

fn repeat_keys(workload: &mut Workload, repeated: bool) {
    for phase in &mut workload.phases {
        if let PhaseKind::DbBench(Benchmark::FillSequential { repeated: repeats }) = &mut phase.kind
            && repeated
            && !*repeats
        {
            *repeats = true;
            phase.operations = phase.operations.saturating_mul(u64::from(phase.clients));
        }
    }
}

fn pace_writer(workload: &mut Workload, rate: Option<f64>) -> Result<()> {
    let Some(rate) = rate else { return Ok(()) };
    if rate.is_nan() || rate <= 0.0 {
        return Err("--writer-rate is above 0".into());
    }
    let mut is_of_use = false;
    for phase in &mut workload.phases {
        if let PhaseKind::DbBench(Benchmark::ReadWhileWriting { writes_per_second }) =
            &mut phase.kind
        {
            *writes_per_second = Some(rate);
            is_of_use = true;
        }
    }
    if is_of_use {
        Ok(())
    } else {
        Err("--writer-rate is of readwhilewriting, which is not among the workloads".into())
    }
}

/// Rows behind the one that a seek finds.
fn read_on(workload: &mut Workload, more_rows: u64) -> Result<()> {
    let kinds = workload.phases.iter_mut().map(|phase| &mut phase.kind);
    let seeks = kinds.filter_map(|kind| match kind {
        PhaseKind::DbBench(Benchmark::SeekRandom { rows }) => Some(rows),
        _ => None,
    });
    let changed = seeks
        .map(|rows| *rows = rows.saturating_add(more_rows))
        .count();
    if more_rows > 0 && changed == 0 {
        return Err("--seek-nexts is of seekrandom, which is not among the workloads".into());
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use clap::{Parser, Subcommand};

    use super::*;
    use crate::run::Plan;
    use crate::settings::Settings;

    #[derive(Parser)]
    struct Typed {
        #[command(subcommand)]
        bench: Bench,
    }

    fn parse(line: &str) -> Result<Workload> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        let typed = Typed::try_parse_from(words)?;
        load(&typed.bench, typed.bench.common().unwrap())
    }

    /// Returns all workloads, small.
    pub fn tiny_plans() -> Vec<Plan> {
        [
            "ycsb a b c d e f f100 h uniform g --tiny",
            "ycsb a f e --tiny --update field --distribution uniform",
            "ycsb c e --tiny --distribution clustered",
            "db-bench fillseq readseq readreverse readrandom readmissing seekrandom overwrite \
             readwhilewriting deleterandom --tiny",
            "db-bench fillrandom readrandom readseq --tiny --clients 3",
            "db-bench fillsync --durable --tiny",
            "db-bench kvbdev --records 20 --tiny --clients 2",
            "updates --scale 0.0001 --tiny",
            "mixgraph --tiny",
            "linkbench --nodes 500 --tiny --clients 2",
        ]
        .map(|line| {
            let workload = parse(line).unwrap();
            let tables = tables(&workload.phases);
            Plan {
                dataset: workload.dataset,
                phases: workload.phases,
                rates: BTreeMap::new(),
                warm_up: 0.25,
                sample_interval_ms: crate::run::INTERVAL_MS,
                seed: 3,
                settings: Settings {
                    tables,
                    ..Settings::default()
                },
                label: String::new(),
            }
        })
        .into()
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        for (line, expected) in [
            ("ycsb x", "there is no workload x"),
            ("ycsb a --records 0", "at least one record"),
            ("ycsb a --value-bytes 55", "multiples of 10"),
            ("db-bench fillsync", "--durable"),
            ("updates --scale 0", "above 0"),
            (
                "db-bench readwhilewriting --writer-rate 0",
                "--writer-rate is above 0",
            ),
            ("db-bench fillseq --writer-rate 9", "is of readwhilewriting"),
            ("db-bench readseq --seek-nexts 9", "is of seekrandom"),
            ("ycsb c --compression-ratio 0", "above 0, and 1 at most"),
            ("updates --compression-ratio 1.1", "above 0, and 1 at most"),
            ("mixgraph --compression-ratio nan", "above 0, and 1 at most"),
        ] {
            let error = parse(line).err().unwrap().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_writer_beside_readers_has_its_pace() {
        let workload = parse("db-bench readwhilewriting --writer-rate 500").unwrap();
        let kinds: Vec<_> = workload.phases.iter().map(|phase| &phase.kind).collect();
        let writes_per_second = Some(500.0);
        let paced = PhaseKind::DbBench(Benchmark::ReadWhileWriting { writes_per_second });
        assert_eq!(kinds.last(), Some(&&paced));
    }

    #[test]
    fn seeks_read_on_if_asked_to() {
        for (line, expected) in [
            ("db-bench fillseq seekrandom", 1),
            ("db-bench fillseq seekrandom --seek-nexts 50", 51),
        ] {
            let phases = parse(line).unwrap().phases;
            let kind = &phases.last().unwrap().kind;
            let rows = match kind {
                PhaseKind::DbBench(Benchmark::SeekRandom { rows }) => *rows,
                other => panic!("{other:?}"),
            };
            assert_eq!(rows, expected, "{line}");
        }
    }

    #[test]
    fn values_of_every_workload_are_as_compressible_as_asked_for() {
        for (workload, usual) in [
            ("ycsb c", 1.0),
            ("explain c", 1.0),
            ("updates", 1.0),
            ("db-bench fillseq", 0.5),
            ("mixgraph", 0.5),
        ] {
            let asked = format!("{workload} --compression-ratio 0.25");
            let ratios = [workload, &asked].map(|line| {
                let dataset = parse(line).unwrap().dataset;
                dataset.compression_ratio
            });
            assert_eq!(ratios, [usual, 0.25], "{workload}");
        }
    }

    #[test]
    fn examples_of_the_help_are_understood() {
        let mut command = Bench::augment_subcommands(clap::Command::new("bench"));
        for workload in ["ycsb", "db-bench", "updates", "mixgraph", "explain"] {
            let sub = command.find_subcommand_mut(workload).unwrap();
            let help = sub.render_long_help().to_string();
            let examples = help
                .lines()
                .filter_map(|line| line.trim().strip_prefix("terrace bench "));
            let examples: Vec<_> = examples.collect();
            assert!(!examples.is_empty());
            for example in examples {
                let line = example.split(" | ").next().unwrap();
                parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }
}
