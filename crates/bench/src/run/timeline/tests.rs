use super::*;
use crate::store::Direction;

fn mark(kind: MarkKind, from_s: f64, to_s: f64) -> Mark {
    Mark { kind, from_s, to_s }
}

/// A store that keeps nothing, and has a log.
struct Logged;

impl Store for Logged {
    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(
        &self,
        _: Option<&[u8]>,
        _: u64,
        _: Direction,
        _: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn is_beside_tables(&self, file: &Path) -> bool {
        file == Path::new("log")
    }
}

fn with_watched<Found>(directory: &Path, look: impl FnOnce(&Watched<'_>) -> Found) -> Found {
    look(&Watched {
        store: &Logged,
        directory,
        counts: &[],
        start: &Start::of(1),
        interval: Duration::from_millis(1),
        progress: &|_| {},
    })
}

#[test]
fn space_is_looked_at_now_and_then_and_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let of = |bytes| Space {
        bytes,
        table_bytes: bytes,
    };
    let mut look = LastLook {
        space: of(7),
        next: Some(Instant::now() + Duration::from_secs(3600)),
    };
    std::fs::write(directory.path().join("file"), [1; 5000]).unwrap();
    with_watched(directory.path(), |watched| {
        assert_eq!(look.space(watched, false).unwrap(), of(7));
        let at_the_end = look.space(watched, true).unwrap();
        let bytes = space::allocated_bytes(directory.path()).unwrap();
        assert_eq!(at_the_end, of(bytes));
        let next_look = look.next.unwrap();
        assert!(next_look < Instant::now() + Duration::from_secs(1800));
        look.next = Some(Instant::now());
        look.space = of(7);
        assert_eq!(look.space(watched, false).unwrap(), at_the_end);
    });
}

/// A size that lasted for one sample of many is the peak all the same, and a log is no part of it.
#[test]
fn the_peak_is_of_tables_and_outlives_its_sample() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("log"), [1; 900_000]).unwrap();
    std::fs::write(file("table"), [1; 300_000]).unwrap();
    let done = AtomicBool::new(false);
    let timeline = with_watched(directory.path(), |watched| {
        std::thread::scope(|scope| {
            let sampler = scope.spawn(|| record(watched, &done));
            std::thread::sleep(Duration::from_millis(50));
            std::fs::remove_file(file("table")).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            done.store(true, Ordering::Release);
            sampler.thread().unpark();
            sampler.join().unwrap().unwrap()
        })
    });
    let last = timeline.samples.last().unwrap();
    assert_eq!(last.table_space_bytes, 0);
    assert!(last.space_bytes >= 900_000, "{last:?}");
    let peak = timeline.peak_table_space_bytes;
    assert!((300_000..310_000).contains(&peak), "{peak}");
}

#[test]
fn what_begins_and_ends_between_two_samples_is_marked() {
    let mut open = OpenMarks::new(Activity::default());
    let mut marks = Vec::new();
    let idle = Activity {
        flushes: 1,
        ..Activity::default()
    };
    open.observe(Activity::default(), 0.1, &mut marks);
    open.observe(idle, 0.2, &mut marks);
    open.observe(idle, 0.3, &mut marks);
    open.close(0.3, &mut marks);
    assert_eq!(marks, [mark(MarkKind::Flush, 0.1, 0.2)]);
}

#[test]
fn a_span_lasts_until_it_is_over_or_the_phase_is() {
    let mut open = OpenMarks::new(Activity::default());
    let mut marks = Vec::new();
    let both = Activity {
        compacting: true,
        stalled: Some(true),
        ..Activity::default()
    };
    let one = Activity {
        compacting: true,
        stalled: Some(false),
        ..Activity::default()
    };
    open.observe(Activity::default(), 1.0, &mut marks);
    open.observe(both, 2.0, &mut marks);
    open.observe(both, 3.0, &mut marks);
    open.observe(one, 4.0, &mut marks);
    open.close(5.0, &mut marks);
    assert_eq!(
        marks,
        [
            mark(MarkKind::Stall, 1.0, 4.0),
            mark(MarkKind::Compaction, 1.0, 5.0)
        ]
    );
}

#[test]
fn every_other_sample_stays() {
    let sample = |at_s| Sample {
        at_s,
        ..Sample::default()
    };
    let mut samples: Vec<_> = (0..5).map(|i| sample(f64::from(i))).collect();
    halve(&mut samples);
    assert_eq!(samples, [sample(0.0), sample(2.0), sample(4.0)]);
}
