//! How much a store holds after a phase: the base of its space figures.

use super::db_bench::Benchmark;
use super::{Dataset, Phase, PhaseKind};
use crate::operation::Operation;

impl Phase {
    /// Returns the bytes of keys and values that are alive after this phase, of distinct records;
    /// `None` where that is not known. `before` is the same before it, `inserted_bytes` the bytes
    /// that it inserted.
    pub fn live_bytes(
        &self,
        dataset: &Dataset,
        seed: u64,
        before: Option<u64>,
        inserted_bytes: u64,
    ) -> Option<u64> {
        match &self.kind {
            PhaseKind::Load(_)
            | PhaseKind::Updates(_)
            | PhaseKind::DbBench(Benchmark::FillSequential { .. }) => {
                Some(dataset.expected_bytes())
            }
            PhaseKind::DbBench(Benchmark::FillRandom | Benchmark::FillSync) => Some(
                Dataset {
                    records: self.written_records(dataset, seed),
                    ..*dataset
                }
                .expected_bytes(),
            ),
            PhaseKind::GraphLoad => Some(inserted_bytes),
            PhaseKind::DbBench(Benchmark::DeleteRandom) | PhaseKind::GraphRequests => None,
            // Of records that may be missing, some come (back) with these.
            PhaseKind::DbBench(Benchmark::Overwrite | Benchmark::ReadWhileWriting { .. })
                if self.sparse =>
            {
                None
            }
            PhaseKind::DbBench(_) | PhaseKind::Ycsb(_) | PhaseKind::Mixgraph(_) => {
                before.map(|bytes| bytes + inserted_bytes)
            }
        }
    }

    /// Returns how many distinct records it writes. Makes new streams for that: no record is kept
    /// of writes while they are timed.
    fn written_records(&self, dataset: &Dataset, seed: u64) -> u64 {
        let words = dataset.records.div_ceil(u64::from(u64::BITS));
        let mut written = vec![0u64; usize::try_from(words).unwrap_or(0)];
        for mut stream in self.streams(dataset, seed) {
            while let Some(operation) = stream.next() {
                let (Operation::Insert { record } | Operation::Update { record, .. }) = operation
                else {
                    continue;
                };
                let (word, bit) = (record / u64::from(u64::BITS), record % u64::from(u64::BITS));
                if let Some(word) = written.get_mut(word as usize) {
                    *word |= 1 << bit;
                }
            }
        }
        written
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyForm;
    use crate::values::Sizes;
    use crate::workload::db_bench;

    const DATASET: Dataset = Dataset {
        records: 10_000,
        key_form: KeyForm::DB_BENCH,
        sizes: Sizes::Fixed { bytes: 100 },
        compression_ratio: 1.0,
    };
    const RECORD_BYTES: u64 = 116;

    #[test]
    fn clients_that_repeat_one_space_of_keys_leave_it_once() {
        let phase = db_bench::kvbdev(&DATASET, 15);
        let inserted = 15 * 10_000 * RECORD_BYTES;
        let live = phase.live_bytes(&DATASET, 3, None, inserted);
        assert_eq!(live, Some(10_000 * RECORD_BYTES));
    }

    #[test]
    fn random_fills_leave_the_records_that_were_drawn() {
        let benchmarks = [db_bench::Benchmark::FillRandom];
        let phases = db_bench::phases(&benchmarks, &DATASET, None, 2);
        let live = phases[0].live_bytes(&DATASET, 3, None, 0).unwrap();
        assert_eq!(live % RECORD_BYTES, 0);
        // All but one in e.
        let share = (live / RECORD_BYTES) as f64 / 10_000.0;
        assert!((share - 0.632).abs() < 0.02, "{share}");
    }

    #[test]
    fn what_is_deleted_at_random_leaves_nobody_knows_what() {
        let benchmarks = [
            db_bench::Benchmark::FillRandom,
            db_bench::Benchmark::ReadRandom,
            db_bench::Benchmark::DeleteRandom,
            db_bench::Benchmark::Overwrite,
        ];
        let phases = db_bench::phases(&benchmarks, &DATASET, None, 1);
        let mut before = None;
        let known = phases.iter().map(|phase| {
            before = phase.live_bytes(&DATASET, 3, before, 0);
            before.is_some()
        });
        assert_eq!(known.collect::<Vec<_>>(), [true, true, false, false]);
    }
}
