//! One run: a store is loaded, clients make steps on it for a while, and the sum of its rows is checked.

use std::thread;
use std::time::{Duration, Instant};

use terrace_bench::Result;
use terrace_bench::draw::{random, uniform};
use terrace_bench::settings::Settings;
use terrace_bench::store::{Contestant, Opened};

use super::Measure;
use super::counter::{Counters, KEY_BYTES, VALUE_BYTES, write_key};
use crate::arguments::Transactions;

/// The name of the table.
const TABLE: &str = "rows";
const SEED: u64 = 42;
/// Steps before the others that are not counted, by the seconds of these.
const WARM_UP: f64 = 0.25;

/// Rows and clients of a run.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub records: u64,
    pub clients: u64,
}

/// What a run has counted.
pub struct Counted {
    /// Steps that ended, all clients together.
    pub per_second: f64,
    /// How often a transaction ran until it was not overtaken, on average.
    pub runs_per_step: f64,
    /// Events that an acknowledged write survives, in the store's own words.
    pub durability: String,
    /// What the store was told.
    pub settings: Vec<(String, String)>,
}

/// The time in which steps are counted.
struct Window {
    begin: Instant,
    end: Instant,
}

/// Steps of a client.
#[derive(Default)]
struct Steps {
    all: u64,
    counted: u64,
    /// Runs of the transactions that are counted.
    runs: u64,
}

/// Measures a store in an empty directory.
pub fn run(
    contestant: &Contestant,
    measure: Measure,
    sizes: Sizes,
    asked: &Transactions,
) -> Result<Counted> {
    let directory = tempfile::Builder::new()
        .prefix("terrace-transactions-")
        .tempdir_in(&asked.directory)?;
    let settings = settings(measure, sizes);
    let Opened {
        store,
        durability,
        settings,
    } = (contestant.open)(directory.path(), &settings)?;
    let counters = match measure {
        Measure::Plain => Counters::Plain(&*store),
        _ => Counters::Transactions(store.tables().ok_or("it has no transactions here")?),
    };
    counters.load(sizes.records)?;
    store.settle()?;
    let steps = count(counters, sizes, asked.seconds)?;
    let sum = counters.sum()?;
    if sum != 2 * steps.all {
        let expected = 2 * steps.all;
        return Err(format!("its rows count {sum} steps, not {expected}: some were lost").into());
    }
    store.close()?;
    Ok(Counted {
        per_second: steps.counted as f64 / asked.seconds,
        runs_per_step: steps.runs as f64 / steps.counted.max(1) as f64,
        durability,
        settings,
    })
}

fn settings(measure: Measure, sizes: Sizes) -> Settings {
    let row_bytes = u64::from(KEY_BYTES) + VALUE_BYTES as u64;
    Settings {
        expected_data_bytes: sizes.records * row_bytes,
        expected_records: sizes.records,
        tables: match measure {
            Measure::Plain => Vec::new(),
            _ => vec![TABLE.into()],
        },
        ..Settings::default()
    }
}

/// Lets all clients make steps, and adds theirs up.
fn count(counters: Counters<'_>, sizes: Sizes, seconds: f64) -> Result<Steps> {
    let begin = Instant::now() + Duration::from_secs_f64(seconds * WARM_UP);
    let window = &Window {
        begin,
        end: begin + Duration::from_secs_f64(seconds),
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..sizes.clients)
            .map(|number| scope.spawn(move || client(counters, sizes, number, window)))
            .collect();
        let mut sum = Steps::default();
        for client in clients {
            let steps = client
                .join()
                .unwrap_or_else(|_| Err("a client panicked".into()))?;
            sum.all += steps.all;
            sum.counted += steps.counted;
            sum.runs += steps.runs;
        }
        Ok(sum)
    })
}

fn client(counters: Counters<'_>, sizes: Sizes, number: u64, window: &Window) -> Result<Steps> {
    let mut random = random(SEED, number);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut steps = Steps::default();
    loop {
        // Two different ones.
        let record = uniform(&mut random, sizes.records);
        let distance = 1 + uniform(&mut random, sizes.records - 1);
        write_key(record, &mut first);
        write_key((record + distance) % sizes.records, &mut second);
        let runs = counters.step(&first, &second)?;
        steps.all += 1;
        let now = Instant::now();
        if now >= window.end {
            return Ok(steps);
        }
        if now >= window.begin {
            steps.counted += 1;
            steps.runs += runs;
        }
    }
}
