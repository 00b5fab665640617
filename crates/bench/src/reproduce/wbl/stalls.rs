//! What more MemTables do to stalls: claimed by the thesis, and not measured there.

use serde::{Deserialize, Serialize};
use terrace::Db;

use super::driver;
use super::setting::Setting;
use super::stores::region_options;
use crate::Result;
use crate::reproduce::report::{Bar, Chart, Claim, Section, Table, Verdict, Whose};
use crate::settings::Settings;
use crate::workload::Dataset;
use crate::workload::ycsb;

/// MemTables that may wait behind the one that is written to.
const WAITING: [u32; 3] = [2, 8, 32];
/// A burst: what 8 waiting MemTables take, and 2 do not.
const BURST_MEMTABLES: u64 = 6;
/// A load that goes on: more than 32 take.
const SUSTAINED_MEMTABLES: u64 = 64;
/// Below full scale MemTables are smaller, so that as many of them are filled.
const SMALL_MEMTABLE_BYTES: u64 = 4 << 20;
/// Of a record, with what it costs in an arena.
const RECORD_BYTES: u64 = 1100;
/// A stall that is left of one, at most, if it is said to be gone.
const GONE: f64 = 0.1;

/// What the figure is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stalls {
    /// Of one MemTable.
    pub memtable_bytes: u64,
    /// Every load with every number of MemTables.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What was written.
    pub load: Load,
    /// MemTables that may wait.
    pub waiting: u32,
    /// Operations a second.
    pub rate: f64,
    /// Time that writers were held back, all causes together, ms.
    pub stalled_ms: f64,
    /// The longest of these, ms.
    pub longest_ms: f64,
    /// Of puts, us.
    pub p999_us: f64,
    /// Of puts, us.
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
    for load in [Load::Burst, Load::Sustained] {
        for waiting in WAITING {
            runs.push(run(setting, memtable_bytes, load, waiting)?);
        }
    }
    Ok(Stalls {
        memtable_bytes,
        runs,
    })
}

fn run(setting: &Setting, memtable_bytes: u64, load: Load, waiting: u32) -> Result<Run> {
    // What the run before has left to be written back must not burden this one.
    rustix::fs::sync();
    let directory = tempfile::tempdir_in(&setting.directory)?;
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

/// For people.
pub fn section(found: &Stalls, modelled: bool) -> Section {
    let mib = found.memtable_bytes >> 20;
    let mut table = Table::new(
        &format!("Inserts of 1 KB at full speed, MemTables of {mib} MiB"),
        &[
            "load",
            "waiting",
            "op/s",
            "stalled ms",
            "longest ms",
            "p99.9 us",
            "max us",
        ],
    );
    table.rows.extend(found.runs.iter().map(|run| {
        vec![
            run.load.name().into(),
            run.waiting.to_string(),
            format!("{:.0}", run.rate),
            format!("{:.1}", run.stalled_ms),
            format!("{:.2}", run.longest_ms),
            format!("{:.0}", run.p999_us),
            format!("{:.0}", run.max_us),
        ]
    }));
    let bars = found.runs.iter().map(|run| Bar {
        label: format!("{}, {} waiting", run.load.name(), run.waiting),
        whose: Whose::Ours,
        value: run.stalled_ms,
    });
    Section {
        figure: "No figure".into(),
        title: "stalls with 2, 8 and 32 waiting MemTables".into(),
        modelled,
        notes: vec![
            "The thesis claims that more room for new writes ends stalls, and measures none. A \
             stall is whatever the store held its writers back, delays that slow them down among \
             them; they begin with the last two MemTables. Clients write in a closed loop, so a \
             standstill is one slow put; one run each."
                .into(),
        ],
        tables: vec![table],
        charts: vec![Chart {
            title: "Time that writers were held back".into(),
            unit: "ms".into(),
            bars: bars.collect(),
        }],
    }
}

/// Of bursts, and of loads that go on.
pub fn claims(found: &Stalls) -> Vec<Claim> {
    let claim = |load: Load, waiting: u32, words: &str| {
        let of = |waiting: u32| {
            let mut runs = found.runs.iter();
            runs.find(|run| (run.load, run.waiting) == (load, waiting))
        };
        let (few, many) = (of(2)?, of(waiting)?);
        Some(Claim {
            claim: format!("A larger write buffer removes stalls: {words}"),
            paper: "claimed, not measured".into(),
            ours: format!(
                "{:.1} ms with 2 waiting, {:.1} ms with {waiting}",
                few.stalled_ms, many.stalled_ms
            ),
            verdict: verdict(few.stalled_ms, many.stalled_ms),
            because: match few.stalled_ms > 0.0 {
                true => "One run each.".into(),
                false => "Flushes kept up even with 2, so there was nothing to remove.".into(),
            },
        })
    };
    let claims = [
        claim(Load::Burst, 8, "of a burst that fits into 8 MemTables"),
        claim(
            Load::Sustained,
            32,
            "of a load that outruns flushes for longer",
        ),
    ];
    claims.into_iter().flatten().collect()
}

/// Gone, or not, if there were any.
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
mod tests {
    use super::*;

    #[test]
    fn stalls_are_gone_where_little_is_left_of_them() {
        assert_eq!(verdict(0.0, 0.0), Verdict::CannotBeTold);
        assert_eq!(verdict(50.0, 0.0), Verdict::Holds);
        assert_eq!(verdict(50.0, 20.0), Verdict::DoesNotHold);
    }

    #[test]
    fn a_burst_fits_into_eight_and_not_into_two() {
        assert!(Load::Burst.memtables() > 3 && Load::Burst.memtables() <= 8);
        assert!(Load::Sustained.memtables() > 33);
    }
}
