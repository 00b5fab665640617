//! The rows that a killed import left behind, compared with its promises.

use std::collections::HashMap;

use crate::import::Record;

/// Rows and faults found in the store after the kill.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Rows in the store.
    pub rows: u64,
    /// Acknowledged rows that are not there.
    pub missing: u64,
    /// Rows, acknowledged or not, whose value is not the one written.
    pub changed: u64,
    /// Keys that were never written.
    pub strangers: u64,
    /// Batches of which a part is there.
    pub half_batches: u64,
    /// Batches that are there although an earlier one is not.
    pub out_of_order: u64,
}

impl Findings {
    /// Compares the rows `found` in a store with those that were `written` in batches, of which
    /// the first `acknowledged` rows had been acknowledged.
    pub fn compare(
        written: &[Record],
        batch_rows: usize,
        acknowledged: u64,
        found: &HashMap<Vec<u8>, Vec<u8>>,
    ) -> Findings {
        let mut findings = Findings {
            rows: found.len() as u64,
            ..Findings::default()
        };
        let mut first_row = 0;
        let mut present_in_all = 0;
        let mut gap = false;
        for batch in written.chunks(batch_rows) {
            let mut present = 0;
            for (row, record) in (first_row..).zip(batch) {
                match found.get(&record.key) {
                    Some(value) => {
                        present += 1;
                        findings.changed += u64::from(*value != record.value);
                    }
                    None => findings.missing += u64::from(row < acknowledged),
                }
            }
            first_row += batch.len() as u64;
            present_in_all += present;
            findings.half_batches += u64::from(present > 0 && present < batch.len() as u64);
            findings.out_of_order += u64::from(gap && present > 0);
            gap |= present < batch.len() as u64;
        }
        findings.strangers = findings.rows - present_in_all;
        findings
    }

    /// Returns the broken promises in words; nothing if all were kept.
    pub fn broken_promises(&self) -> Vec<String> {
        let promises = [
            (self.missing, "acknowledged rows are missing"),
            (self.changed, "rows have another value than was written"),
            (self.strangers, "rows are there that nobody wrote"),
            (self.half_batches, "batches are half there"),
            (
                self.out_of_order,
                "batches are there although an earlier one is not",
            ),
        ];
        let broken = promises.iter().filter(|(count, _)| *count > 0);
        broken
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<Record> {
        (0..9u8)
            .map(|row| Record {
                line: u64::from(row),
                key: vec![row],
                value: vec![row, 1],
            })
            .collect()
    }

    /// Compares a store with six of nine rows acknowledged, in batches of three, after `meddle`
    /// changed it.
    fn findings(meddle: impl FnOnce(&mut HashMap<Vec<u8>, Vec<u8>>)) -> Findings {
        let rows = written();
        let kept = rows
            .iter()
            .take(6)
            .map(|row| (row.key.clone(), row.value.clone()));
        let mut found = kept.collect();
        meddle(&mut found);
        Findings::compare(&rows, 3, 6, &found)
    }

    #[test]
    fn what_was_acknowledged_and_whole_batches_more_break_no_promise() {
        let exact = findings(|_| {});
        assert_eq!(
            exact,
            Findings {
                rows: 6,
                ..Findings::default()
            }
        );
        let more = findings(|found| {
            found.extend((6..9).map(|row| (vec![row], vec![row, 1])));
        });
        assert_eq!(more.broken_promises(), Vec::<String>::new());
    }

    #[test]
    fn each_broken_promise_is_found() {
        let missing = findings(|found| {
            found.retain(|key, _| key[0] >= 3);
        });
        assert_eq!(
            missing,
            Findings {
                rows: 3,
                missing: 3,
                out_of_order: 1,
                ..Findings::default()
            }
        );
        let half = findings(|found| {
            found.insert(vec![6], vec![6, 1]);
        });
        assert_eq!(
            half,
            Findings {
                rows: 7,
                half_batches: 1,
                ..Findings::default()
            }
        );
        let changed = findings(|found| {
            found.insert(vec![1], vec![]);
        });
        assert_eq!(
            changed,
            Findings {
                rows: 6,
                changed: 1,
                ..Findings::default()
            }
        );
        let stranger = findings(|found| {
            found.insert(vec![77], vec![]);
        });
        assert_eq!(
            stranger,
            Findings {
                rows: 7,
                strangers: 1,
                ..Findings::default()
            }
        );
        assert_eq!(
            stranger.broken_promises(),
            ["1 rows are there that nobody wrote"]
        );
    }
}
