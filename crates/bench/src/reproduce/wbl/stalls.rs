//! The effect of more MemTables on stalls: claimed by the thesis, and not measured there.

use serde::{Deserialize, Serialize};
use terrace::Db;

use super::driver;
use super::setting::Setting;
use super::stores::region_options;
use crate::Result;
use crate::contest::turns::fresh_directory;
use crate::report::figures::median;
use crate::reproduce::report::{Bar, Chart, Claim, ONE_REPEAT, Section, Table, Verdict, Whose};
use crate::settings::Settings;
use crate::workload::Dataset;
use crate::workload::ycsb;

/// MemTables that may wait behind the one that is written to.
const WAITING: [u32; 3] = [2, 8, 32];
/// A burst: 8 waiting MemTables take it, and 2 do not.
const BURST_MEMTABLES: u64 = 6;
/// A load that goes on: more than 32 take.
const SUSTAINED_MEMTABLES: u64 = 64;
/// Below full scale MemTables are smaller, so that as many of them are filled.
const SMALL_MEMTABLE_BYTES: u64 = 4 << 20;
/// Of a record, with its overhead in an arena.
const RECORD_BYTES: u64 = 1100;
/// A stall that is left of one, at most, if it is said to be gone.
const GONE: f64 = 0.1;

/// Numbers of the figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stalls {
    /// Bytes of one MemTable.
    pub memtable_bytes: u64,
    /// Every load with every number of MemTables, repeat by repeat.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The repeat, counted from 0.
    pub repeat: u32,
    /// The load.
    pub load: Load,
    /// MemTables that may wait.
    pub waiting: u32,
    /// Operations a second.
    pub rate: f64,
    /// Time that writers were held back, all causes together, ms.
    pub stalled_ms: f64,
    /// The longest of these, ms.
    pub longest_ms: f64,
    /// Latency of puts, us.
    pub p999_us: f64,
    /// Latency of puts, us.
    pub max_us: f64,
}

/// How much is written at full speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Six MemTables.
    Burst,
    /// Sixty-four.
    Sustained,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Burst => "burst of 6 MemTables",
            Load::Sustained => "64 MemTables",
        }
    }

    fn memtables(self) -> u64 {
        match self {
            Load::Burst => BURST_MEMTABLES,
            Load::Sustained => SUSTAINED_MEMTABLES,
        }
    }
}

fn cases() -> impl Iterator<Item = (Load, u32)> {
    let loads = [Load::Burst, Load::Sustained].into_iter();
    loads.flat_map(|load| WAITING.map(|waiting| (load, waiting)))
}

impl Stalls {
    /// Returns one value of each repeat of a case.
    fn each(&self, load: Load, waiting: u32, read: fn(&Run) -> f64) -> Vec<f64> {
        let runs = self.runs.iter();
        let own = runs.filter(|run| (run.load, run.waiting) == (load, waiting));
        own.map(read).collect()
    }

    /// Returns the median of its repeats.
    fn middle(&self, load: Load, waiting: u32, read: fn(&Run) -> f64) -> f64 {
        median(self.each(load, waiting, read).into_iter()).unwrap_or_default()
    }
}

/// Runs every load with every number of MemTables.
///
/// # Errors
/// A store that fails.
pub fn measure(setting: &Setting) -> Result<Stalls> {
    let memtable_bytes = match setting.records >= super::paper::RECORDS {
        true => setting.memtable_bytes,
        false => setting.memtable_bytes.min(SMALL_MEMTABLE_BYTES),
    };
    let mut runs = Vec::new();
    // A drift of the machine meets all cases alike.
    for repeat in 0..setting.repeats {
        for (load, waiting) in cases() {
            runs.push(run(setting, memtable_bytes, repeat, load, waiting)?);
        }
    }
    Ok(Stalls {
        memtable_bytes,
        runs,
    })
}

fn run(
    setting: &Setting,
    memtable_bytes: u64,
    repeat: u32,
    load: Load,
    waiting: u32,
) -> Result<Run> {
    let directory = fresh_directory(&setting.directory)?;
    let dataset = Dataset {
        records: load.memtables() * memtable_bytes / RECORD_BYTES,
        ..setting.dataset()
    };
    let settings = Settings {
        write_buffer_bytes: memtable_bytes,
        write_buffers: waiting + 1,
        ..setting.settings()
    };
    let options = region_options(directory.path(), &settings, setting.model)?;
    let db = Db::open(directory.path(), options)?;
    let phase = ycsb::load(&dataset, setting.clients);
    let driven = driver::drive(&db, &phase, &dataset, setting.seed)?;
    let statistics = db.statistics();
    let stalled = statistics.stalls.iter().map(|(_, time)| time.as_secs_f64());
    let inserts = driven.inserts.unwrap_or_default();
    let run = Run {
        repeat,
        load,
        waiting,
        rate: driven.operations as f64 / driven.seconds.max(1e-9),
        stalled_ms: stalled.sum::<f64>() * 1e3,
        longest_ms: statistics.longest_stall.as_secs_f64() * 1e3,
        p999_us: inserts.p999_us,
        max_us: inserts.max_us,
    };
    db.close()?;
    Ok(run)
}

/// Shows the stalls to people.
pub fn section(found: &Stalls, modelled: bool) -> Section {
    let mib = found.memtable_bytes >> 20;
    let mut table = Table::new(
        &format!("Inserts of 1 KB at full speed, MemTables of {mib} MiB"),
        &[
            "load",
            "waiting",
            "op/s",
            "stalled ms",
            "spread",
            "longest ms",
            "p99.9 us",
            "max us",
        ],
    );
    table.rows.extend(cases().map(|(load, waiting)| {
        let middle = |read| found.middle(load, waiting, read);
        vec![
            load.name().into(),
            waiting.to_string(),
            format!("{:.0}", middle(|run| run.rate)),
            format!("{:.1}", middle(stalled)),
            spread(&found.each(load, waiting, stalled)).unwrap_or_else(|| "-".into()),
            format!("{:.2}", middle(|run| run.longest_ms)),
            format!("{:.0}", middle(|run| run.p999_us)),
            format!("{:.0}", middle(|run| run.max_us)),
        ]
    }));
    let bars = cases().map(|(load, waiting)| Bar {
        label: format!("{}, {waiting} waiting", load.name()),
        whose: Whose::Ours,
        value: found.middle(load, waiting, stalled),
    });
    Section {
        figure: "No figure".into(),
        title: "stalls with 2, 8 and 32 waiting MemTables".into(),
        modelled,
        emulated: false,
        notes: vec![
            "The thesis claims that more room for new writes ends stalls, and measures none. A \
             stall is whatever the store held its writers back, delays that slow them down among \
             them; they begin with the last two MemTables. Clients write in a closed loop, so a \
             standstill is one slow put. Numbers are medians over repeats; in brackets the least and \
             the greatest."
                .into(),
        ],
        tables: vec![table],
        plots: Vec::new(),
        charts: vec![Chart {
            title: "Time that writers were held back".into(),
            unit: "ms".into(),
            bars: bars.collect(),
        }],
    }
}

fn stalled(run: &Run) -> f64 {
    run.stalled_ms
}

/// Returns `2.0 ms [1.0..4.2]`.
fn held_back(median_ms: f64, all_ms: &[f64]) -> String {
    match spread(all_ms) {
        Some(spread) => format!("{median_ms:.1} ms {spread}"),
        None => format!("{median_ms:.1} ms"),
    }
}

/// Returns the least and the greatest, `[1.0..4.2]`; none of one repeat.
fn spread(values: &[f64]) -> Option<String> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len() > 1).then(|| format!("[{least:.1}..{most:.1}]"))
}

/// Returns the claims on bursts, and on loads that go on.
pub fn claims(found: &Stalls) -> Vec<Claim> {
    vec![
        claim(
            found,
            (Load::Burst, 8),
            "of a burst that fits into 8 MemTables",
        ),
        claim(
            found,
            (Load::Sustained, 32),
            "of a load that outruns flushes for longer",
        ),
    ]
}

fn claim(found: &Stalls, (load, waiting): (Load, u32), words: &str) -> Claim {
    let few = found.each(load, 2, stalled);
    let many = found.each(load, waiting, stalled);
    let verdicts = few.iter().zip(&many);
    let verdicts: Vec<Verdict> = verdicts.map(|(few, many)| verdict(*few, *many)).collect();
    let agreed = agreed(&verdicts);
    Claim {
        claim: format!("A larger write buffer removes stalls: {words}"),
        paper: "claimed, not measured".into(),
        ours: format!(
            "{} with 2 waiting, {} with {waiting}",
            held_back(found.middle(load, 2, stalled), &few),
            held_back(found.middle(load, waiting, stalled), &many)
        ),
        verdict: agreed.unwrap_or(Verdict::CannotBeTold),
        because: match (agreed, verdicts.len()) {
            _ if few.iter().all(|ms| *ms <= 0.0) => {
                "Flushes kept up even with 2, so there was nothing to remove.".into()
            }
            (Some(_), repeats) => format!("Each of {repeats} repeats says so."),
            (None, 1) => ONE_REPEAT.into(),
            (None, _) => "Not clear: the repeats do not agree.".into(),
        },
    }
}

/// Returns the verdict on which all repeats agree. One alone tells nothing.
fn agreed(verdicts: &[Verdict]) -> Option<Verdict> {
    let (first, others) = verdicts.split_first()?;
    let agree = !others.is_empty() && others.iter().all(|other| other == first);
    agree.then_some(*first)
}

/// Judges whether stalls are gone, if there were any.
fn verdict(few_ms: f64, many_ms: f64) -> Verdict {
    if few_ms <= 0.0 {
        Verdict::CannotBeTold
    } else if many_ms <= GONE * few_ms {
        Verdict::Holds
    } else {
        Verdict::DoesNotHold
    }
}

#[cfg(test)]
mod tests;
