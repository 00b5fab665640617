//! Statistics of a store: text, JSON, Prometheus, or a line at each interval.

use std::time::{Duration, Instant};

use terrace::{Statistics, TierStatistics};
use terrace_tools::inspect::{Answer, EventRequest, prometheus};

use crate::arguments::Stats;
use crate::failure::Result;
use crate::output::{print, print_json, print_json_line};
use crate::report::{Sections, bytes, count, rate, things};
use crate::store;
use crate::text::{escape, shown};

pub fn run(arguments: &Stats) -> Result<()> {
    if arguments.follow {
        return follow(arguments);
    }
    let statistics = store::statistics(&arguments.store)?;
    if arguments.prometheus {
        return print(prometheus(&statistics));
    }
    if arguments.json {
        return print_json(&statistics);
    }
    print(as_text(&statistics))
}

/// Prints a line at each interval, until the owner closes the store. The owner looks at the clock
/// now and then only: so the length of each interval is measured.
fn follow(arguments: &Stats) -> Result<()> {
    let wanted = EventRequest {
        // No event has so high a number.
        after: u64::MAX,
        follow: true,
        statistics_every: Some(Duration::from_secs_f64(arguments.interval)),
    };
    let mut before: Option<(Statistics, Instant)> = None;
    for answer in store::events(&arguments.store.directory, wanted)? {
        let Answer::Statistics(now) = answer? else {
            continue;
        };
        let arrived = Instant::now();
        if arguments.json {
            print_json_line(&now)?;
        } else {
            print(match &before {
                Some((before, earlier)) => progress(before, &now, arrived - *earlier),
                None => progress(&now, &now, Duration::ZERO),
            })?;
        }
        before = Some((*now, arrived));
    }
    Ok(())
}

/// Returns the changes since `before`, `elapsed` ago, on one line.
fn progress(before: &Statistics, now: &Statistics, elapsed: Duration) -> String {
    let stalled = |statistics: &Statistics| -> Duration {
        statistics.stalls.iter().map(|(_, time)| *time).sum()
    };
    let written = now.user_bytes.saturating_sub(before.user_bytes);
    let sub_levels = now.levels.first().map_or(0, |level| level.sub_levels);
    format!(
        "{} writes/s, {}/s; writes {}; {} sealed; {} in level 0; debt {}; stalled {:.1} s\n",
        rate(
            now.sequences
                .visible
                .saturating_sub(before.sequences.visible),
            elapsed
        ),
        bytes((written as f64 / elapsed.as_secs_f64().max(1e-6)) as u64),
        count(now.sequences.visible),
        things(now.arenas.sealed as u64, "arena"),
        things(sub_levels as u64, "sub-level"),
        bytes(now.debt_bytes),
        stalled(now).saturating_sub(stalled(before)).as_secs_f64(),
    )
}

/// Returns the part that a store has which was just opened to be read.
fn as_text(statistics: &Statistics) -> String {
    let mut text = Sections::default();
    durability(&mut text, statistics);
    sequence_numbers(&mut text, statistics);
    levels(&mut text, statistics);
    upkeep(&mut text, statistics);
    tiers(&mut text, statistics);
    work(&mut text, statistics);
    memory(&mut text, statistics);
    last_opening(&mut text, statistics);
    text.into_text()
}

fn durability(text: &mut Sections, statistics: &Statistics) {
    text.heading("Durability");
    text.line("an acknowledged write", survives(statistics));
    text.line(
        "persist method",
        format!("{} on {}", statistics.method, statistics.region_medium),
    );
    if let Some(directory) = &statistics.region_dir {
        text.line("arenas are in", shown(directory));
    }
    for loss in &statistics.region_losses {
        text.line("region lost", loss.to_string());
    }
}

fn sequence_numbers(text: &mut Sections, statistics: &Statistics) {
    let sequences = &statistics.sequences;
    text.heading("Sequence numbers");
    text.line("visible", count(sequences.visible));
    text.line("in tables", count(sequences.flushed));
    text.line("safe from a power cut", count(sequences.persisted));
}

fn levels(text: &mut Sections, statistics: &Statistics) {
    text.heading("Levels");
    for (level, totals) in statistics.levels.iter().enumerate() {
        if totals.tables > 0 {
            let shown = format!(
                "{} in {}, {}",
                bytes(totals.bytes),
                things(totals.tables as u64, "table"),
                things(totals.sub_levels as u64, "sub-level"),
            );
            text.line(&format!("level {level}"), shown);
        }
    }
    if statistics.levels.iter().all(|level| level.tables == 0) {
        text.line("no tables", "everything is in arenas");
    }
    level_times(text, statistics);
}

/// Adds the times of operations on tables of levels, which a store of several tiers takes.
fn level_times(text: &mut Sections, statistics: &Statistics) {
    for (level, totals) in statistics.levels.iter().enumerate() {
        let timed = totals.latencies.all().into_iter();
        let timed = timed.filter(|(_, _, times)| times.count > 0);
        let shown: Vec<String> = timed
            .map(|(operation, purpose, times)| {
                let name = match purpose {
                    "read" | "migration" => purpose.to_owned(),
                    _ => format!("{purpose} {operation}"),
                };
                format!("{name} {}", both_us(times.mean(), times.p99))
            })
            .collect();
        if !shown.is_empty() {
            text.line(&format!("level {level}, mean and p99"), shown.join(", "));
        }
    }
}

/// Adds the lines that say how far work on files is behind, below those of the levels.
fn upkeep(text: &mut Sections, statistics: &Statistics) {
    if statistics.debt_bytes > 0 {
        text.line("merges still to write", bytes(statistics.debt_bytes));
    }
    if let Some(oldest) = &statistics.oldest_snapshot {
        let shown = format!(
            "{}, the oldest at number {}; it keeps {} in {}",
            count(statistics.snapshots as u64),
            count(oldest.sequence),
            bytes(oldest.kept_bytes),
            things(oldest.tables, "table"),
        );
        text.line("live snapshots", shown);
    }
    let transactions = &statistics.transactions;
    if transactions.open + transactions.committed + transactions.conflicts > 0 {
        let oldest = transactions.oldest_s;
        let oldest = oldest.map_or(String::new(), |age_s| {
            format!(", the oldest for {age_s:.1} s")
        });
        let shown = format!(
            "{} open{oldest}; {} committed, {} refused",
            count(transactions.open),
            count(transactions.committed),
            count(transactions.conflicts),
        );
        text.line("transactions", shown);
    }
    if statistics.tables_to_delete > 0 {
        text.line(
            "files still to delete",
            things(statistics.tables_to_delete, "table"),
        );
    }
    if let Some(rate) = &statistics.write_rate {
        let present = rate.present_bytes_per_second;
        let shown = format!(
            "{} a second, now {}; merges waited {:.1} s in {}",
            bytes(rate.configured_bytes_per_second),
            present.map_or("no limit".to_owned(), bytes),
            rate.waited.as_secs_f64(),
            things(rate.waits, "write"),
        );
        text.line("background writes", shown);
    }
}

/// Writes the tiers of a store that has several.
fn tiers(text: &mut Sections, statistics: &Statistics) {
    if statistics.tiers.len() < 2 {
        return;
    }
    text.heading("Tiers");
    for tier in &statistics.tiers {
        let used = bytes(tier.files_bytes.saturating_add(tier.reserved_bytes));
        let used = match tier.capacity_bytes {
            Some(capacity_bytes) => format!("{used} of {}", bytes(capacity_bytes)),
            None => used,
        };
        let state = match tier.state.as_str() {
            "open" => String::new(),
            state => format!(", {}", escape(state.as_bytes())),
        };
        let tables = things(tier.tables, "table");
        text.line(
            &escape(tier.name.as_bytes()),
            format!("{used} in {tables}{state}"),
        );
    }
    for tier in &statistics.tiers {
        if let Some(shown) = latencies(tier) {
            let name = escape(tier.name.as_bytes());
            text.line(&format!("{name}, p50 and p99"), shown);
        }
    }
    text.line("tables gone elsewhere", count(statistics.migrations));
}

/// Returns the usual and the long times of a tier's operations; `None` before the first one.
fn latencies(tier: &TierStatistics) -> Option<String> {
    let timed = tier.latencies.all().into_iter();
    let timed = timed.filter(|(_, _, times)| times.count > 0);
    let shown: Vec<String> = timed
        .map(|(operation, purpose, times)| {
            let name = match operation == purpose {
                true => operation.to_owned(),
                false => format!("{purpose} {operation}"),
            };
            format!("{name} {}", both_us(times.p50, times.p99))
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Returns a usual time and a long one.
fn both_us(usual: Duration, long: Duration) -> String {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    format!("{:.0} and {:.0} us", us(usual), us(long))
}

/// Writes the owner's work since it opened the store; nothing for a reader.
fn work(text: &mut Sections, statistics: &Statistics) {
    if statistics.user_bytes == 0 && statistics.flushes == 0 && statistics.merges == 0 {
        return;
    }
    text.heading("Since the opening");
    text.line("keys and values written", bytes(statistics.user_bytes));
    text.line(
        "flushes, merges, moves, removals",
        [
            statistics.flushes,
            statistics.merges,
            statistics.moves,
            statistics.removals,
        ]
        .map(count)
        .join(", "),
    );
    if statistics.merged_entries > 0 {
        let shown = format!(
            "{} of {} entries, {}",
            count(statistics.dropped_entries),
            count(statistics.merged_entries),
            things(statistics.setbacks, "setback"),
        );
        text.line("dropped by merges", shown);
    }
    for (name, ratio) in [
        ("write amplification", statistics.write_amplification),
        ("read amplification", statistics.read_amplification),
        ("space amplification", statistics.space_amplification),
    ] {
        if let Some(ratio) = ratio {
            text.line(name, format!("{ratio:.2}"));
        }
    }
    let latencies = &statistics.latencies;
    for (name, shown) in [
        ("get", &latencies.get),
        ("write", &latencies.write),
        ("sync", &latencies.sync),
        ("flush", &latencies.flush),
        ("slice of a merge", &latencies.slice),
    ] {
        if shown.count > 0 {
            let shown = format!(
                "p50 {:.1?}, p99 {:.1?}, longest {:.1?}",
                shown.p50, shown.p99, shown.max
            );
            text.line(name, shown);
        }
    }
    let stalled: Duration = statistics.stalls.iter().map(|(_, time)| *time).sum();
    text.line(
        "writers held back",
        format!(
            "{stalled:.1?}, at most {:.1?} at a time",
            statistics.longest_stall
        ),
    );
    if statistics.lacks_reserve {
        text.line(
            "reserve",
            "a full disk took it; puts are refused until there is space for another",
        );
    }
    if let Some(cause) = &statistics.poisoned {
        text.line("writes are refused", cause.to_string());
    }
}

fn memory(text: &mut Sections, statistics: &Statistics) {
    let memory = &statistics.memory;
    text.heading("Memory");
    text.line("arenas", bytes(memory.arena_bytes));
    text.line("their indexes", bytes(memory.index_bytes));
    text.line("block cache", bytes(memory.block_cache_bytes));
    text.line("table metadata", bytes(memory.table_metadata_bytes));
    if memory.sketch_bytes > 0 {
        text.line("sketches of levels", bytes(memory.sketch_bytes));
    }
    text.line("read buffer", read_buffer(statistics));
    if let Some(polled) = statistics.can_poll_reads {
        let shown = if polled {
            "on the processor"
        } else {
            "asleep: no direct_io, no io_uring for this process, or one processor only"
        };
        text.line("reads of tables wait", shown);
    }
}

fn last_opening(text: &mut Sections, statistics: &Statistics) {
    let recovery = &statistics.recovery;
    text.heading("Last opening");
    text.line(
        "closed in order before",
        if recovery.clean_close { "yes" } else { "no" },
    );
    text.line("next generation", count(statistics.arenas.next_generation));
    let taken = format!(
        "{} in {} of {}",
        count(recovery.writes),
        things(recovery.frames as u64, "frame"),
        things(recovery.arenas as u64, "arena"),
    );
    text.line("writes from arenas", taken);
    if let Some((first, last)) = recovery.dropped {
        text.line(
            "dropped tail",
            format!("writes {first} to {last}, never promised to be kept"),
        );
    }
    if recovery.torn_tail {
        text.line(
            "torn tail",
            "a frame behind the last write is not whole: cut short by the crash, or damaged",
        );
    }
    if let Some(tail) = &recovery.manifest_tail {
        text.line("manifest", tail.to_string());
    }
    for name in &recovery.unlisted_tables {
        text.line("unlisted table", name.clone());
    }
    for file in &recovery.foreign_files {
        text.line("left alone, not its own", shown(file));
    }
    if let Some(loss) = recovery.region_loss {
        text.line("region missing", format!("accepted: {loss}"));
    }
    if let Some(error) = &statistics.last_error {
        text.line("last failure", error.to_string());
    }
}

fn read_buffer(statistics: &Statistics) -> String {
    let Some(buffer) = &statistics.read_buffer else {
        return "off".to_owned();
    };
    let most = bytes(buffer.capacity_bytes);
    match buffer.hit_ratio() {
        Some(ratio) => format!(
            "{} of {most}, answered {:.1} % of {}",
            bytes(buffer.bytes),
            ratio * 100.0,
            things(buffer.hits + buffer.misses, "get"),
        ),
        None => format!("{} of {most}, not asked yet", bytes(buffer.bytes)),
    }
}

fn survives(statistics: &Statistics) -> String {
    let what = match statistics.durability {
        terrace::Durability::PowerSafe if statistics.emulated => {
            "would survive a power cut if this were a disk: emulated"
        }
        terrace::Durability::CrashSafe => "survives the death of the process",
        terrace::Durability::PowerSafe => "survives a power cut",
        terrace::Durability::Volatile => "survives nothing until it is in a table",
        _ => "",
    };
    format!("{what} ({})", statistics.durability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use terrace::{Db, Options};

    #[test]
    fn a_limit_on_background_writes_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let options = |background_bytes_per_second| Options {
            background_bytes_per_second,
            arena_bytes: 1 << 20,
            ..Options::default()
        };
        let path = directory.path().join("store");
        let db = Db::open(&path, options(Some(10 << 20))).unwrap();
        let statistics = db.statistics();
        let line = "background writes        10.0 MiB a second, now 10.0 MiB; merges waited 0.0 s \
                    in 0 writes\n";
        let text = as_text(&statistics);
        assert!(text.contains(line), "{text}");
        let shown = json!({
            "configured_bytes_per_second": 10 << 20,
            "present_bytes_per_second": 10 << 20,
            "waits": 0,
            "waited_seconds": 0.0,
        });
        assert_eq!(
            serde_json::to_value(&statistics).unwrap()["write_rate"],
            shown
        );
        db.close().unwrap();

        let statistics = Db::open(&path, options(None)).unwrap().statistics();
        assert_eq!(
            serde_json::to_value(&statistics).unwrap()["write_rate"],
            Value::Null
        );
        assert!(!as_text(&statistics).contains("background writes"));
    }

    #[test]
    fn times_of_levels_are_shown_where_they_are_taken() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        let mut statistics = db.statistics();
        assert!(!as_text(&statistics).contains("mean and p99"));
        let times = &mut statistics.levels[1].latencies.read;
        times.count = 2;
        times.sum = Duration::from_millis(20);
        times.p99 = Duration::from_millis(12);
        statistics.levels[1].latencies.compaction_read.count = 1;
        statistics.levels[2].latencies.flush_write.count = 1;
        statistics.levels[2].latencies.migration.count = 1;
        let line = "level 1, mean and p99    read 10000 and 12000 us, compaction read 0 and 0 us\n  \
                    level 2, mean and p99    flush write 0 and 0 us, migration 0 and 0 us\n";
        let text = as_text(&statistics);
        assert!(text.contains(line), "{text}");
    }
}
