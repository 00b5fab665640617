//! Statistics in the text format of Prometheus (0.0.4), which OpenMetrics collectors read, too.
//!
//! A client library would keep metrics of its own, to be updated as things happen. Here all of them
//! come out of one snapshot, and only writing lines is left to do.

mod levels;
mod tiers;

use std::fmt::{Display, Write};

use terrace::{Distribution, Statistics};
use terrace_storage::Purpose;

/// Returns the statistics as metrics, in the text format of Prometheus: names begin with `terrace_` and
/// end in their unit, counters in `_total`. Served over HTTP, a collector scrapes it.
///
/// ```
/// let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// let text = terrace_tools::inspect::prometheus(&db.statistics());
/// assert!(text.contains("# TYPE terrace_flushes_total counter\nterrace_flushes_total 0\n"));
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn prometheus(statistics: &Statistics) -> String {
    let metrics = Metrics(statistics);
    let mut text = Text::default();
    metrics.write_state(&mut text);
    metrics.write_memory(&mut text);
    metrics.write_read_buffer(&mut text);
    metrics.write_levels(&mut text);
    metrics.write_tiers(&mut text);
    metrics.write_tier_latencies(&mut text);
    metrics.write_work(&mut text);
    metrics.write_stalls(&mut text);
    metrics.write_io(&mut text);
    metrics.write_latencies(&mut text);
    text.0
}

/// Statistics as they become metrics.
struct Metrics<'a>(&'a Statistics);

impl Metrics<'_> {
    fn write_state(&self, text: &mut Text) {
        let durability = self.0.durability.to_string();
        text.gauge("info", "What kind of store this is; always 1.");
        let labels = [
            ("durability", durability.as_str()),
            ("method", &self.0.method),
            ("region_medium", &self.0.region_medium),
            ("file_system", &self.0.file_system),
        ];
        text.sample("info", &labels, 1);
        text.gauge(
            "refuses_writes",
            "1 if writes are refused since a failed sync or a panic.",
        );
        text.sample("refuses_writes", &[], u8::from(self.0.poisoned.is_some()));
        text.gauge(
            "reserve_bytes",
            "Bytes that a full disk gives back to whatever makes room.",
        );
        text.sample("reserve_bytes", &[], self.0.reserve_bytes);
        text.gauge(
            "lacks_reserve",
            "1 if a full disk took the reserve, and new values are refused.",
        );
        text.sample("lacks_reserve", &[], u8::from(self.0.lacks_reserve));
        text.gauge(
            "sequence_number",
            "The numbers of writes, by what they are known for.",
        );
        for (state, number) in [
            ("visible", self.0.sequences.visible),
            ("persisted", self.0.sequences.persisted),
            ("flushed", self.0.sequences.flushed),
        ] {
            text.sample("sequence_number", &[("state", state)], number);
        }
        text.gauge("arenas", "Arenas, by state.");
        for (state, arenas) in [
            ("active", self.0.arenas.active),
            ("sealed", self.0.arenas.sealed),
            ("spare", self.0.arenas.spare),
            ("pinned", self.0.arenas.pinned),
        ] {
            text.sample("arenas", &[("state", state)], arenas);
        }
        let transactions = self.0.transactions;
        text.gauge("open_transactions", "Transactions that have not ended.");
        text.sample("open_transactions", &[], transactions.open);
        text.gauge(
            "oldest_transaction_seconds",
            "Age of the oldest open transaction, 0 without one.",
        );
        let oldest_s = transactions.oldest_s.unwrap_or_default();
        text.sample("oldest_transaction_seconds", &[], oldest_s);
        text.counter("transactions_total", "Commits of transactions, by outcome.");
        for (outcome, count) in [
            ("committed", transactions.committed),
            ("conflict", transactions.conflicts),
        ] {
            text.sample("transactions_total", &[("outcome", outcome)], count);
        }
        text.gauge("snapshots", "Live snapshots, those of iterators included.");
        text.sample("snapshots", &[], self.0.snapshots);
        let oldest = self.0.oldest_snapshot;
        text.gauge(
            "oldest_snapshot_sequence_number",
            "Number of the oldest live snapshot, 0 without one.",
        );
        let sequence = oldest.map_or(0, |oldest| oldest.sequence);
        text.sample("oldest_snapshot_sequence_number", &[], sequence);
        text.gauge(
            "snapshot_kept_bytes",
            "Bytes of superseded versions that stay in tables until the oldest snapshot is dropped.",
        );
        let kept_bytes = oldest.map_or(0, |oldest| oldest.kept_bytes);
        text.sample("snapshot_kept_bytes", &[], kept_bytes);
    }

    fn write_memory(&self, text: &mut Text) {
        let memory = &self.0.memory;
        let buffer = self.0.read_buffer.unwrap_or_default();
        text.gauge("memory_bytes", "Memory, by budget.");
        for (budget, bytes) in [
            ("arenas", memory.arena_bytes),
            ("arena_indexes", memory.index_bytes),
            ("pinned", memory.pinned_bytes),
            ("block_cache", memory.block_cache_bytes),
            ("read_buffer", buffer.bytes),
            ("table_metadata", memory.table_metadata_bytes),
            ("sketches", memory.sketch_bytes),
        ] {
            text.sample("memory_bytes", &[("budget", budget)], bytes);
        }
        text.counter(
            "block_cache_hits_total",
            "Blocks found in the block cache, in part by samples of one read in 16.",
        );
        text.sample("block_cache_hits_total", &[], memory.block_cache_hits);
        text.counter(
            "block_cache_misses_total",
            "Blocks not found in the block cache.",
        );
        text.sample("block_cache_misses_total", &[], memory.block_cache_misses);
    }

    fn write_read_buffer(&self, text: &mut Text) {
        let Some(buffer) = &self.0.read_buffer else {
            return;
        };
        type Family = (&'static str, &'static str, [(&'static str, u64); 2]);
        let families: [Family; 3] = [
            (
                "read_buffer_gets_total",
                "Gets that the read buffer answered, and that it did not.",
                [("hit", buffer.hits), ("miss", buffer.misses)],
            ),
            (
                "read_buffer_forwards_total",
                "Writes that the read buffer stored, and that it did not.",
                [
                    ("stored", buffer.forwards_stored),
                    ("skipped", buffer.forwards_skipped),
                ],
            ),
            (
                "read_buffer_fills_total",
                "Reads that entered the read buffer, and that writes may have overtaken.",
                [
                    ("taken", buffer.fills_taken),
                    ("dropped", buffer.fills_dropped),
                ],
            ),
        ];
        for (name, help, outcomes) in families {
            text.counter(name, help);
            for (outcome, count) in outcomes {
                text.sample(name, &[("outcome", outcome)], count);
            }
        }
        text.counter(
            "read_buffer_evictions_total",
            "Entries of the read buffer that made room for others.",
        );
        text.sample("read_buffer_evictions_total", &[], buffer.evictions);
        text.counter(
            "read_buffer_sleeps_total",
            "How often the read buffer was put to sleep because hits did not pay for writes.",
        );
        text.sample("read_buffer_sleeps_total", &[], buffer.sleeps);
    }

    fn write_work(&self, text: &mut Text) {
        for (name, help, count) in [
            (
                "user_bytes_total",
                "Bytes of keys and values accepted.",
                self.0.user_bytes,
            ),
            ("flushes_total", "Arenas flushed.", self.0.flushes),
            ("merges_total", "Merges done.", self.0.merges),
            ("slices_total", "Slices of merges installed.", self.0.slices),
            (
                "strangers_refused_total",
                "Connections to the inspection socket that other users made.",
                self.0.strangers_refused,
            ),
            (
                "setbacks_total",
                "Merges that dropped less than half of what was predicted.",
                self.0.setbacks,
            ),
            (
                "merged_entries_total",
                "Entries that went into merges.",
                self.0.merged_entries,
            ),
            (
                "dropped_entries_total",
                "Entries that merges dropped.",
                self.0.dropped_entries,
            ),
            (
                "table_moves_total",
                "Tables moved without being read.",
                self.0.moves,
            ),
            (
                "table_removals_total",
                "Tables removed without being read: deleted ranges hid all that they held.",
                self.0.removals,
            ),
            (
                "migrations_total",
                "Tables that went to another tier.",
                self.0.migrations,
            ),
            (
                "step_failures_total",
                "Background steps that failed.",
                self.0.step_failures,
            ),
        ] {
            text.counter(name, help);
            text.sample(name, &[], count);
        }
        text.gauge("tables_to_delete", "Tables whose files wait to be deleted.");
        text.sample("tables_to_delete", &[], self.0.tables_to_delete);
    }

    /// Writes the time that writers and merges were held back.
    fn write_stalls(&self, text: &mut Text) {
        text.counter(
            "stall_seconds_total",
            "Time that writers were held back, by cause.",
        );
        for (cause, time) in &self.0.stalls {
            let cause = cause.to_string();
            text.sample(
                "stall_seconds_total",
                &[("cause", &cause)],
                time.as_secs_f64(),
            );
        }
        text.gauge(
            "longest_stall_seconds",
            "The longest time that a writer was held back.",
        );
        text.sample(
            "longest_stall_seconds",
            &[],
            self.0.longest_stall.as_secs_f64(),
        );
        if let Some(rate) = &self.0.write_rate {
            text.counter(
                "rate_limit_wait_seconds_total",
                "Time that merges waited for their rate.",
            );
            text.sample(
                "rate_limit_wait_seconds_total",
                &[],
                rate.waited.as_secs_f64(),
            );
        }
    }

    fn write_io(&self, text: &mut Text) {
        type Of = fn(&terrace_storage::IoCounts) -> u64;
        let families: [(&str, &str, Of); 5] = [
            ("read_bytes_total", "Bytes read, by purpose.", |io| {
                io.read_bytes
            }),
            ("reads_total", "Reads, by purpose.", |io| io.reads),
            ("written_bytes_total", "Bytes written, by purpose.", |io| {
                io.written_bytes
            }),
            ("writes_total", "Writes, by purpose.", |io| io.writes),
            ("syncs_total", "Syncs of files, by purpose.", |io| io.syncs),
        ];
        for (name, help, of) in families {
            text.counter(name, help);
            for purpose in Purpose::ALL {
                let counts = self.0.io.of(purpose);
                text.sample(name, &[("purpose", purpose.name())], of(&counts));
            }
        }
    }

    fn write_latencies(&self, text: &mut Text) {
        let name = "latency_seconds";
        text.family(
            name,
            "summary",
            "How long operations took; gets and writes are sampled.",
        );
        for (operation, shown) in [
            ("get", &self.0.latencies.get),
            ("write", &self.0.latencies.write),
            ("sync", &self.0.latencies.sync),
            ("flush", &self.0.latencies.flush),
            ("slice", &self.0.latencies.slice),
        ] {
            text.summary(name, &[("operation", operation)], shown);
        }
    }
}

/// Lines of metrics.
#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!(
            "# HELP terrace_{name} {help}\n# TYPE terrace_{name} {kind}\n"
        ));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        match labels.as_slice() {
            [] => self.line(format_args!("terrace_{name} {value}\n")),
            labels => self.line(format_args!(
                "terrace_{name}{{{}}} {value}\n",
                labels.join(",")
            )),
        }
    }

    fn summary(&mut self, name: &str, labels: &[(&str, &str)], shown: &Distribution) {
        // A quantile of nothing is not a number of seconds.
        for (quantile, time) in [
            ("0.5", shown.p50),
            ("0.9", shown.p90),
            ("0.99", shown.p99),
            ("0.999", shown.p999),
            ("1", shown.max),
        ] {
            if shown.count > 0 {
                let labels = [labels, &[("quantile", quantile)]].concat();
                self.sample(name, &labels, time.as_secs_f64());
            }
        }
        self.sample(&format!("{name}_sum"), labels, shown.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), labels, shown.count);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(line);
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use terrace::{Db, Error, Options};

    use super::*;

    /// Statistics that differ from each other, taken from no run.
    fn specimen() -> Statistics {
        let options = Options {
            background: terrace::Background::Inline,
            ..Options::in_memory()
        };
        let db = Db::open("/store", options).unwrap();
        let mut statistics = db.statistics();
        statistics.method = "a \"method\"\\".to_owned();
        statistics.poisoned = Some(Error::Closed);
        statistics.sequences.visible = 70;
        statistics.memory.block_cache_hits = 50;
        statistics.levels[1].bytes = 1 << 40;
        statistics.write_amplification = Some(2.5);
        statistics.space_amplification = Some(1.25);
        statistics.stalls[0].1 = Duration::from_millis(1500);
        statistics.flushes = 4;
        statistics.migrations = 6;
        let mut disk = statistics.tiers[0].clone();
        statistics.tiers[0].capacity_bytes = Some(1 << 30);
        statistics.tiers[0].room_bytes = 1 << 29;
        let cache = serde_json::json!({
            "is_on": true, "capacity_bytes": 4 << 20, "block_bytes": 3 << 20, "blocks": 700,
            "memory_bytes": 40_000, "hits": 31, "misses": 32, "admitted": 33, "rejected": 34, "kept": 35,
            "evicted": 36, "damaged": 37, "failures": 38,
        });
        statistics.tiers[0].cache = serde_json::from_value(cache).unwrap();
        disk.name = "disk".to_owned();
        disk.room_bytes = 1 << 40;
        (disk.files_bytes, disk.reserved_bytes, disk.tables) = (5 << 20, 1 << 20, 2);
        disk.level_bytes[2] = 4 << 20;
        disk.latencies.read.count = 2;
        disk.latencies.read.sum = Duration::from_millis(26);
        disk.latencies.read.p50 = Duration::from_millis(13);
        statistics.tiers.push(disk);
        statistics.levels[1].reads = 11;
        statistics.levels[1].latencies.read.count = 11;
        statistics.levels[1].latencies.read.sum = Duration::from_millis(110);
        statistics.levels[1].latencies.read.p99 = Duration::from_millis(12);
        statistics.levels[2].latencies.compaction_read.count = 1;
        statistics.levels[2].latencies.compaction_write.count = 2;
        statistics.levels[2].latencies.migration.count = 3;
        statistics.levels[1].compaction_read_bytes = 1 << 30;
        statistics.levels[2].migrated_bytes = 4096;
        statistics.setbacks = 2;
        statistics.io = terrace_storage::IoStatistics::default();
        statistics.latencies = terrace::LatencyStatistics::default();
        statistics.latencies.get.count = 3;
        statistics.latencies.get.sum = Duration::from_micros(5);
        statistics.latencies.get.p50 = Duration::from_nanos(1500);
        statistics
    }

    #[test]
    fn the_text_is_the_golden_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/prometheus.txt");
        let text = prometheus(&specimen());
        if std::env::var_os("TERRACE_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap());
    }

    #[test]
    fn each_family_is_declared_once_and_before_its_samples() {
        let text = prometheus(&specimen());
        let mut families = std::collections::BTreeMap::new();
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').unwrap();
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                assert!(families.insert(name, kind).is_none(), "{name} twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let of_summary = name.strip_suffix("_sum").or(name.strip_suffix("_count"));
                assert!(families.contains_key(of_summary.unwrap_or(name)), "{line}");
                line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
            }
        }
    }
}
