//! One phase: its clients run side by side, watched, until the last operation is acknowledged and the
//! store has settled.
//!
//! The cost of a phase is counted from a settled store to a settled store, and the page cache is
//! written back at both ends. Else a store that puts work off would leave it to the next phase, or
//! to no phase.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::linkbench::perform::GraphStore;
use crate::measure::completions;
use crate::measure::device::Device;
use crate::measure::space;
use crate::measure::usage::{self, Counters};
use crate::operation::{Part, Stream};
use crate::outcome::{PhaseOutcome, Usage};
use crate::run::Plan;
use crate::run::client::{Client, ClientOutcome, Count, Shared};
use crate::run::gathered::Gathered;
use crate::run::pace::Pace;
use crate::run::start::Start;
use crate::run::timeline::{self, Timeline, Watched};
use crate::store::Store;
use crate::values::Values;
use crate::workload::Phase;
use crate::{Error, Result};

/// How far a run is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// The phase.
    pub phase: String,
    /// Operations that are done.
    pub operations: u64,
    /// All operations.
    pub of: u64,
}

/// State that all phases of a run share.
pub struct Context<'a> {
    pub store: &'a dyn Store,
    pub plan: &'a Plan,
    pub values: &'a Values,
    /// A graph, where the plan is of one.
    pub graph: Option<GraphStore<'a>>,
    pub directory: &'a Path,
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// Runs a phase; `live_bytes` is the data in the store, before and then after it, where that is
/// known.
pub fn run(
    context: &Context<'_>,
    phase: &Phase,
    live_bytes: &mut Option<u64>,
) -> Result<PhaseOutcome> {
    let device = Device::of(context.directory);
    let rate = context.plan.rates.get(&phase.name).copied();
    let warm = warmed_up(context, phase, rate)?;
    sync_files(context.directory)?;
    let profile_before = context.store.time_profile().unwrap_or_default();
    let tables_before = context.store.table_bytes_written().unwrap_or(0);
    usage::reset_peaks();
    let before = Counters::now(device.as_ref())?;
    let watched = watch(context, phase, warm.streams, rate)?;
    sync_files(context.directory)?;
    let used = Counters::now(device.as_ref())?.since(&before)?;

    let all = Gathered::of(&watched.clients)?;
    let inserted_bytes = warm.inserted_bytes + all.tally.inserted_bytes;
    let (dataset, seed) = (&context.plan.dataset, context.plan.seed);
    *live_bytes = phase.live_bytes(dataset, seed, *live_bytes, inserted_bytes);
    let (gap_from_ns, gap_ns) = completions::longest_gap(&all.completions, all.end_ns);
    let usage = without_waiting(used, all.spun);
    let beside = |file: &Path| context.store.is_beside_tables(file);
    let space = space::allocated(context.directory, &beside)?;
    let since = |written: Option<u64>| written.map(|now| now.saturating_sub(tables_before));
    Ok(PhaseOutcome {
        name: format!("{}{}", phase.name, context.plan.label),
        operations: if phase.counts_rows() {
            all.tally.scanned
        } else {
            all.tally.operations
        },
        operations_beside: all.operations_beside,
        clients: u32::try_from(all.completions.len()).unwrap_or(u32::MAX),
        rate,
        acknowledged_s: all.end_ns as f64 / 1e9,
        settled_s: watched.settled.map(|time| time.as_secs_f64()),
        latencies: all.latencies.summaries(),
        longest_gap_ms: gap_ns as f64 / 1e6,
        longest_gap_at_s: gap_from_ns as f64 / 1e9,
        found: all.tally.found,
        missing: all.tally.missing,
        scanned: all.tally.scanned,
        user_written_bytes: all.tally.written_bytes,
        user_read_bytes: all.tally.read_bytes,
        usage,
        space_bytes: space.bytes,
        table_space_bytes: space.table_bytes,
        peak_table_space_bytes: watched.timeline.peak_table_space_bytes,
        acknowledged_table_bytes_written: since(watched.tables_acknowledged),
        table_bytes_written: since(context.store.table_bytes_written()),
        live_bytes: live_bytes.unwrap_or(0),
        timeline: watched.timeline.samples,
        marks: watched.timeline.marks,
        time_profile: context
            .store
            .time_profile()
            .map(|now| now.since(&profile_before)),
    })
}

/// Subtracts the processor time of waiting. The kernel tells user from system time by samples at
/// its ticks, so that of short sleeps and spins either may hold the other's.
fn without_waiting(mut usage: Usage, spun: Duration) -> Usage {
    let spun_s = spun.as_secs_f64();
    let of_system_s = (spun_s - usage.user_s).max(0.0);
    usage.user_s = (usage.user_s - spun_s).max(0.0);
    usage.system_s = (usage.system_s - of_system_s).max(0.0);
    usage
}

/// A phase whose store is warm.
struct Warm {
    /// Streams with the operations that are left.
    streams: Vec<Box<dyn Stream>>,
    /// Bytes of keys and values that were inserted on the way.
    inserted_bytes: u64,
}

/// Runs those operations that warm the store up, at the phase's own pace, and lets it settle: its debt
/// is not the phase's.
fn warmed_up(context: &Context<'_>, phase: &Phase, rate: Option<f64>) -> Result<Warm> {
    let plan = context.plan;
    let share = if phase.starts_empty {
        0.0
    } else {
        plan.warm_up
    };
    let each = (share * phase.operations as f64) as u64 / u64::from(phase.clients.max(1));
    let longer = Phase {
        operations: phase.operations + each * u64::from(phase.clients),
        ..phase.clone()
    };
    let streams = longer.streams(&plan.dataset, plan.seed);
    if each == 0 {
        return Ok(Warm {
            streams,
            inserted_bytes: 0,
        });
    }
    let counts: Vec<Count> = streams.iter().map(|_| Count::default()).collect();
    let shared = shared(context, streams.len());
    let outcomes = clients(&shared, streams, &counts, rate, each)?;
    context.store.settle()?;
    Ok(Warm {
        inserted_bytes: outcomes.iter().map(|one| one.tally.inserted_bytes).sum(),
        streams: outcomes.into_iter().map(|one| one.stream).collect(),
    })
}

/// Waits until the device has all that was written to the file system of a directory: bytes still
/// in the page cache are in no device's counters.
fn sync_files(directory: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// Makes the shared state of `threads` that wait for each other before the clock starts.
fn shared<'a>(context: &Context<'a>, threads: usize) -> Shared<'a> {
    Shared {
        store: context.store,
        keys: context.plan.dataset.key_form,
        values: context.values,
        graph: context.graph,
        start: Start::of(threads),
        stop: AtomicBool::new(false),
    }
}

struct WatchedPhase {
    clients: Vec<ClientOutcome>,
    /// Time from the start until nothing was left to do.
    settled: Option<Duration>,
    /// The store's own count of its tables' bytes at the last acknowledgement.
    tables_acknowledged: Option<u64>,
    timeline: Timeline,
}

/// Runs the clients, the wait for the store to settle, and a sampler beside them.
fn watch(
    context: &Context<'_>,
    phase: &Phase,
    streams: Vec<Box<dyn Stream>>,
    rate: Option<f64>,
) -> Result<WatchedPhase> {
    let counts: Vec<Count> = streams.iter().map(|_| Count::default()).collect();
    let measured = streams.iter().zip(&counts);
    let measured: Vec<&Count> = measured
        .filter(|(stream, _)| stream.part() == Part::Measured)
        .map(|(_, count)| count)
        .collect();
    // The clients and the sampler.
    let shared = shared(context, streams.len() + 1);
    let tell = |operations| {
        (context.progress)(Progress {
            phase: format!("{}{}", phase.name, context.plan.label),
            operations,
            of: phase.operations,
        });
    };
    let watched = Watched {
        store: context.store,
        directory: context.directory,
        counts: &measured,
        start: &shared.start,
        interval: Duration::from_millis(context.plan.sample_interval_ms),
        progress: &tell,
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| timeline::record(&watched, &done));
        let outcome = clients(&shared, streams, &counts, rate, u64::MAX).and_then(|clients| {
            let tables = context.store.table_bytes_written();
            // After reads, too: they may have started merges.
            let settled = context.store.settle()?;
            let settled = settled.saturating_duration_since(shared.start.at());
            Ok((clients, tables, phase.settles.then_some(settled)))
        });
        done.store(true, Ordering::Release);
        sampler.thread().unpark();
        let timeline = sampler
            .join()
            .map_err(|_| Error::from("the sampler panicked"))??;
        let (clients, tables_acknowledged, settled) = outcome?;
        Ok(WatchedPhase {
            clients,
            settled,
            tables_acknowledged,
            timeline,
        })
    })
}

/// Runs all clients to their ends, or through `most` operations each; those beside until the others
/// are done.
fn clients(
    shared: &Shared<'_>,
    streams: Vec<Box<dyn Stream>>,
    counts: &[Count],
    rate: Option<f64>,
    most: u64,
) -> Result<Vec<ClientOutcome>> {
    let measured = streams
        .iter()
        .filter(|stream| stream.part() == Part::Measured)
        .count();
    thread::scope(|scope| {
        let threads: Vec<_> = streams
            .into_iter()
            .zip(counts)
            .enumerate()
            .map(|(index, (stream, count))| {
                let part = stream.part();
                let pace = match part {
                    Part::Measured => Pace::new(rate, index, measured),
                    Part::Beside { rate } => Pace::new(rate, 0, 1),
                };
                let client = Client::new(shared, stream, pace, count);
                let thread = scope.spawn(move || {
                    client
                        .run(most)
                        .inspect_err(|_| shared.stop.store(true, Ordering::Relaxed))
                });
                (part, thread)
            })
            .collect();
        let (measured, beside): (Vec<_>, Vec<_>) = threads
            .into_iter()
            .partition(|(part, _)| *part == Part::Measured);
        let join = |(_, thread): (_, thread::ScopedJoinHandle<'_, _>)| thread.join();
        let mut outcomes: Vec<_> = measured.into_iter().map(join).collect();
        shared.stop.store(true, Ordering::Relaxed);
        outcomes.extend(beside.into_iter().map(join));
        outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(|_| Err("a client panicked".into())))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waiting_took_is_nobodys_wherever_it_was_counted() {
        let of = |user_s, system_s| Usage {
            user_s,
            system_s,
            ..Usage::default()
        };
        let spun = Duration::from_secs(2);
        assert_eq!(without_waiting(of(5.0, 1.0), spun), of(3.0, 1.0));
        assert_eq!(without_waiting(of(1.5, 1.0), spun), of(0.0, 0.5));
        assert_eq!(without_waiting(of(0.5, 1.0), spun), of(0.0, 0.0));
    }
}
