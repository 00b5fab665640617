//! The families of levels.

use super::{Metrics, Text};

type Of = fn(&terrace::LevelStatistics) -> u64;
/// Name, help, and the figure of each purpose.
type Family = (&'static str, &'static str, &'static [(&'static str, Of)]);

impl Metrics<'_> {
    pub(super) fn write_levels(&self, text: &mut Text) {
        let families: [(&str, &str, Of); 3] = [
            ("level_sub_levels", "Sub-levels of a level.", |level| {
                level.sub_levels as u64
            }),
            ("level_tables", "Tables of a level.", |level| {
                level.tables as u64
            }),
            ("level_bytes", "Bytes of a level's tables.", |level| {
                level.bytes
            }),
        ];
        for (name, help, of) in families {
            text.gauge(name, help);
            for (number, level) in self.0.levels.iter().enumerate() {
                text.sample(name, &[("level", &number.to_string())], of(level));
            }
        }
        self.write_traffic(text);
        self.write_level_times(text);
        self.write_debt(text);
    }

    fn write_traffic(&self, text: &mut Text) {
        let families: [Family; 3] = [
            (
                "level_reads_total",
                "Reads of blocks of a level from devices for users.",
                &[("read", |level| level.reads)],
            ),
            (
                "level_read_bytes_total",
                "Bytes read from a level's tables, by purpose.",
                &[
                    ("read", |level| level.read_bytes),
                    ("compaction", |level| level.compaction_read_bytes),
                ],
            ),
            (
                "level_written_bytes_total",
                "Bytes of the tables made in a level, by the work that made or moved them.",
                &[
                    ("flush", |level| level.flushed_bytes),
                    ("load", |level| level.loaded_bytes),
                    ("compaction", |level| level.compaction_written_bytes),
                    ("migration", |level| level.migrated_bytes),
                ],
            ),
        ];
        for (name, help, purposes) in families {
            text.counter(name, help);
            for (number, level) in self.0.levels.iter().enumerate() {
                for (purpose, of) in purposes {
                    let number = number.to_string();
                    let labels = [("level", number.as_str()), ("purpose", purpose)];
                    text.sample(name, &labels, of(level));
                }
            }
        }
    }

    /// Writes the durations of operations on the tables of levels, those that were timed.
    fn write_level_times(&self, text: &mut Text) {
        let name = "level_operation_seconds";
        let timed = |level: &terrace::LevelStatistics| {
            let all = level.latencies.all().into_iter();
            all.filter(|(_, _, times)| times.count > 0)
        };
        let levels = self.0.levels.iter().enumerate();
        let timed = levels.flat_map(|(number, level)| timed(level).map(move |one| (number, one)));
        let timed: Vec<_> = timed.collect();
        if timed.is_empty() {
            return;
        }
        text.family(
            name,
            "summary",
            "Durations of operations on a level's tables, by operation and purpose.",
        );
        for (number, (operation, purpose, times)) in timed {
            let number = number.to_string();
            let labels = [
                ("level", number.as_str()),
                ("operation", operation),
                ("purpose", purpose),
            ];
            text.summary(name, &labels, &times);
        }
    }

    /// Writes the work that is still to be done, and the work for each byte.
    fn write_debt(&self, text: &mut Text) {
        text.gauge(
            "debt_bytes",
            "Bytes that merges still have to write, estimated.",
        );
        text.sample("debt_bytes", &[], self.0.debt_bytes);
        for (kind, help, ratio) in [
            (
                "write",
                "Bytes written to files for each byte accepted.",
                self.0.write_amplification,
            ),
            (
                "read",
                "Tables asked for each get.",
                self.0.read_amplification,
            ),
            (
                "space",
                "Bytes of tables for each live byte, estimated.",
                self.0.space_amplification,
            ),
        ] {
            if let Some(ratio) = ratio {
                let name = format!("{kind}_amplification_ratio");
                text.gauge(&name, help);
                text.sample(&name, &[], ratio);
            }
        }
    }
}
