//! `peers transactions`: small transactions, with and without others on the same rows.

mod counter;
mod one;
mod shown;
#[cfg(test)]
mod tests;

use std::io::Write;

use terrace_bench::Result;
use terrace_bench::store::Contestant;

use self::one::{Counted, Sizes};
use crate::arguments::Transactions;
use crate::compare;

/// The stores that take part where none is named.
const DEFAULT: [&str; 3] = ["terrace", "rocksdb", "fjall"];

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// The reads and writes of a transaction, each by itself, by one client.
    Plain,
    /// Transactions of one client.
    Alone,
    /// Transactions of many clients on few keys.
    Contended,
}

/// One run of one store.
struct Run {
    store: &'static str,
    measure: Measure,
    repeat: u32,
    counted: Counted,
}

impl Measure {
    const ALL: [Measure; 3] = [Measure::Plain, Measure::Alone, Measure::Contended];

    fn name(self) -> &'static str {
        match self {
            Measure::Plain => "no_transaction",
            Measure::Alone => "alone",
            Measure::Contended => "contended",
        }
    }

    /// Describes it in words.
    fn describe(self) -> &'static str {
        match self {
            Measure::Plain => "reads and writes without a transaction",
            Measure::Alone => "transactions of one client",
            Measure::Contended => "transactions of many clients on few keys",
        }
    }

    fn sizes(self) -> Sizes {
        let (records, clients) = match self {
            Measure::Plain | Measure::Alone => (1_000_000, 1),
            Measure::Contended => (1_000, 8),
        };
        Sizes { records, clients }
    }
}

/// Measures and shows it.
pub fn run(asked: &Transactions) -> Result<()> {
    let contestants = contestants(&asked.names)?;
    let runs = measure(&contestants, asked, Measure::sizes)?;
    let text = match asked.json {
        true => shown::json(&runs, asked)?,
        false => shown::table(&runs, asked),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn contestants(names: &[String]) -> Result<Vec<Contestant>> {
    let program = compare::program(&[]);
    if !names.is_empty() {
        return program.named(names);
    }
    let all = program.contestants.into_iter();
    Ok(all.filter(|one| DEFAULT.contains(&one.name)).collect())
}

/// Runs the stores in turn, each repeat beginning with another one.
fn measure(
    contestants: &[Contestant],
    asked: &Transactions,
    sizes: fn(Measure) -> Sizes,
) -> Result<Vec<Run>> {
    if !(asked.seconds > 0.0 && asked.seconds <= 3_600.0) {
        return Err("--seconds is above 0 and at most 3600".into());
    }
    let mut runs = Vec::new();
    for repeat in 0..asked.repeats.max(1) {
        for measure in Measure::ALL {
            let skipped = repeat as usize % contestants.len().max(1);
            let turns = contestants.iter().cycle().skip(skipped);
            for contestant in turns.take(contestants.len()) {
                let store = contestant.name;
                tell(&format!(
                    "repeat {}: {store}, {}",
                    repeat + 1,
                    measure.describe()
                ));
                let counted = one::run(contestant, measure, sizes(measure), asked)
                    .map_err(|error| format!("{store}: {error}"))?;
                runs.push(Run {
                    store,
                    measure,
                    repeat,
                    counted,
                });
            }
        }
    }
    Ok(runs)
}

/// Tells people a line. A line that cannot be written stops no work.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
