use std::fs;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_storage::{
    CountingStorage, CrashSwitch, ErrorKind, FailingStorage, Fault, FaultFilter, FaultPlan,
    OpenMode, OpenOptions, Operation, Purpose, RealStorage, SimulatedStorage,
};

use super::content::Content;
use super::*;

/// Pieces of the file, and random requests of each phase: so many take a moment.
const PIECES: u64 = 2;
const REQUESTS: u64 = 40;
/// Calls of a measurement beside reads, writes and syncs: the directory, its file system, its free space,
/// the opening and the removal.
const OTHER_CALLS: u64 = 5;

/// Returns limits that requests reach, and the time does not.
fn tiny() -> ProbeOptions {
    ProbeOptions {
        max_file_bytes: PIECES << 20,
        max_duration: Duration::from_secs(24 * 3600),
        max_requests: REQUESTS,
        seed: 7,
        price_per_gb: 0.25,
        endurance_writes: 600.0,
    }
}

fn run(storage: &dyn Storage, path: &Path) -> Result<Outcome> {
    measure(storage, path, &tiny(), &mut |_| ControlFlow::Continue(()))
}

/// Returns a disk with a directory, and a file in it that nobody may touch.
fn simulated() -> SimulatedStorage {
    let storage = SimulatedStorage::new(1, CrashSwitch::new());
    storage.create_directory(Path::new("/d")).unwrap();
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    let file = storage.open(Path::new("/d/other.tmp"), options).unwrap();
    file.append(b"other", Purpose::Other).unwrap();
    storage
}

/// Checks that the directory has its one file, as it was.
#[track_caller]
fn assert_untouched(storage: &SimulatedStorage, told: &str) {
    let names = storage.list(Path::new("/d")).unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["other.tmp"], "{told}");
    let options = OpenOptions::buffered(OpenMode::Read);
    let file = storage.open(Path::new("/d/other.tmp"), options).unwrap();
    assert_eq!(file.read_vec_at(5, 0, Purpose::Other).unwrap(), b"other");
}

fn assert_sound(outcome: &Outcome) {
    let spreads = [
        outcome.write_bytes_per_second,
        outcome.read_bytes_per_second,
        outcome.read.p50_us,
        outcome.read.p99_us,
        outcome.queued_read.p50_us,
        outcome.queued_read.p99_us,
        outcome.sync.p50_us,
        outcome.sync.p99_us,
    ];
    for spread in spreads {
        assert!(spread.min > 0.0 && spread.max.is_finite(), "{outcome:?}");
        assert!(spread.min <= spread.median && spread.median <= spread.max);
    }
    for latency in [outcome.read, outcome.queued_read, outcome.sync] {
        assert!(latency.p50_us.min <= latency.p99_us.min, "{latency:?}");
        assert_eq!(latency.requests, REQUESTS);
    }
    let profile = DeviceProfile {
        read_bytes_per_second: outcome.read_bytes_per_second.median,
        write_bytes_per_second: outcome.write_bytes_per_second.median,
        read_latency_us: outcome.read.p50_us.median,
        queued_read_latency_us: outcome.queued_read.p50_us.median,
        sync_latency_us: outcome.sync.p50_us.median,
        price_per_gb: 0.25,
        endurance_writes: 600.0,
    };
    assert_eq!(outcome.profile, profile);
    assert_eq!(outcome.file_bytes, PIECES << 20);
}

#[test]
fn a_real_directory_is_measured_and_left_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("other.tmp"), "other").unwrap();
    let outcome = run(&RealStorage, directory.path()).unwrap();
    assert_sound(&outcome);
    let file_system = RealStorage.file_system(directory.path()).unwrap();
    assert_eq!(outcome.file_system, file_system.name);
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(
        fs::read(directory.path().join("other.tmp")).unwrap(),
        b"other"
    );
}

/// tmpfs accepts direct I/O, and is no device all the same.
#[test]
fn a_file_system_in_memory_is_not_taken_for_a_device() {
    let path = Path::new("/dev/shm");
    let has_memory = RealStorage
        .file_system(path)
        .is_ok_and(|file_system| file_system.name == "tmpfs");
    let Ok(directory) = tempfile::tempdir_in(path) else {
        return;
    };
    let Ok(free_bytes) = RealStorage.free_space_bytes(path) else {
        return;
    };
    if has_memory && free_bytes >= 2 * MIN_FREE_BYTES {
        let outcome = run(&RealStorage, directory.path()).unwrap();
        assert_eq!(outcome.medium, Medium::Memory);
    }
}

/// All requests are made, for one purpose, and the phases come in their order.
#[test]
fn the_requests_are_those_of_the_plan() {
    let storage = simulated();
    let counted = CountingStorage::new(Arc::new(storage.clone()));
    let mut told: Vec<Progress> = Vec::new();
    let outcome = measure(&counted, Path::new("/d"), &tiny(), &mut |progress| {
        told.push(progress);
        ControlFlow::Continue(())
    });
    let outcome = outcome.unwrap();
    assert_sound(&outcome);
    assert_eq!(outcome.medium, Medium::Device);
    for purpose in Purpose::ALL {
        let counts = counted.snapshot().of(purpose);
        let (written, read, syncs) = match purpose {
            Purpose::Other => (
                (PIECES << 20) + REQUESTS * 4096,
                (PIECES << 20) + 2 * REQUESTS * 4096,
                PIECES + REQUESTS,
            ),
            _ => (0, 0, 0),
        };
        assert_eq!(counts.written_bytes, written, "{purpose:?}");
        assert_eq!(counts.read_bytes, read, "{purpose:?}");
        assert_eq!(counts.syncs, syncs, "{purpose:?}");
    }
    let mut phases: Vec<Phase> = told.iter().map(|progress| progress.phase).collect();
    phases.dedup();
    assert_eq!(phases, Phase::ALL);
    assert!(told.is_sorted_by_key(|progress| progress.share));
    assert_untouched(&storage, "a success");
}

#[test]
fn an_error_at_any_call_is_returned_and_the_file_is_gone() {
    let calls = {
        let plan = FaultPlan::new(FaultFilter::everything());
        run(
            &FailingStorage::new(Arc::new(simulated()), plan.clone()),
            Path::new("/d"),
        )
        .unwrap();
        plan.count()
    };
    let requests = 2 * PIECES + PIECES + 2 * REQUESTS + 2 * REQUESTS;
    assert_eq!(calls, requests + OTHER_CALLS);
    let faults = [Fault::Io, Fault::NoSpace, Fault::ShortWrite];
    for (at, fault) in (0..calls).zip(faults.into_iter().cycle()) {
        let storage = simulated();
        let plan = FaultPlan::new(FaultFilter::everything());
        plan.fail_at(at, fault);
        let failing = FailingStorage::new(Arc::new(storage.clone()), plan.clone());
        let told = format!("{fault:?} at {at}");
        let wanted = match fault {
            Fault::NoSpace => ErrorKind::NoSpace,
            _ => ErrorKind::Other,
        };
        match run(&failing, Path::new("/d")).expect_err(&told) {
            Error::Storage(error) => assert_eq!(error.kind(), wanted, "{told}"),
            other => panic!("{told}: {other}"),
        }
        assert_eq!(plan.failures(), 1, "{told}");
        assert_untouched(&storage, &told);
    }
}

#[test]
fn a_panic_in_any_phase_leaves_no_file() {
    // The first and the last of each phase.
    let reads = OTHER_CALLS - 1 + 2 * PIECES;
    let random = reads + PIECES;
    let syncs = random + 2 * REQUESTS;
    for at in [
        4,
        reads - 1,
        reads,
        random,
        random + REQUESTS,
        syncs,
        syncs + 2 * REQUESTS,
    ] {
        let storage = simulated();
        let plan = FaultPlan::new(FaultFilter::everything());
        plan.fail_at(at, Fault::Panic);
        let failing = FailingStorage::new(Arc::new(storage.clone()), plan.clone());
        let panicked = catch_unwind(AssertUnwindSafe(|| run(&failing, Path::new("/d"))));
        assert!(panicked.is_err(), "{at}");
        assert_untouched(&storage, &format!("a panic at {at}"));
    }
}

#[test]
fn a_caller_who_breaks_off_at_any_moment_finds_no_file() {
    let mut told = 0;
    let storage = simulated();
    let count = &mut |_| {
        told += 1;
        ControlFlow::Continue(())
    };
    measure(&storage, Path::new("/d"), &tiny(), count).unwrap();
    for at in 1..=told {
        let mut heard = 0;
        let outcome = measure(&storage, Path::new("/d"), &tiny(), &mut |_| {
            heard += 1;
            match heard == at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        // A slow machine hears more of the random reads, so that the last may not be reached.
        if !matches!(outcome, Err(Error::Interrupted)) {
            assert!(outcome.is_ok() && heard < at, "{at}: {outcome:?}");
        }
        assert_untouched(&storage, &format!("{at} of {told}"));
    }
}

/// Measures a device that holds the reads from a number on, and returns the greatest number of reads that
/// it held at once. `is_enough` ends the wait.
fn most_held(first: u64, phase: Phase, is_enough: fn(u64, u64) -> bool) -> u64 {
    let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::Read]));
    plan.hold_from(first);
    let failing = FailingStorage::new(Arc::new(simulated()), plan.clone());
    let (mut most, mut looks) = (0, 0);
    let mut tell = |progress: Progress| {
        if progress.phase == phase && plan.held() > 0 {
            most = most.max(plan.held());
            looks += 1;
            if is_enough(most, looks) {
                plan.heal();
            }
        }
        ControlFlow::Continue(())
    };
    let outcome = measure(&failing, Path::new("/d"), &tiny(), &mut tell);
    assert_sound(&outcome.unwrap());
    most
}

/// The caller looks every 50 ms; a wrong depth ends the test after 1200 looks.
#[test]
fn as_many_reads_are_under_way_as_the_phase_says() {
    let one = most_held(PIECES, Phase::RandomRead, |_, looks| looks == 3);
    assert_eq!(one, 1);
    let first = PIECES + REQUESTS;
    let many = most_held(first, Phase::QueuedRead, |most, looks| {
        most >= 32 || looks == 1200
    });
    assert_eq!(many, 32);
}

/// Without any time each phase does its least.
#[test]
fn no_time_gives_figures_all_the_same() {
    let storage = simulated();
    let options = ProbeOptions {
        max_duration: Duration::ZERO,
        max_requests: 1 << 20,
        ..tiny()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let outcome = measure(&storage, Path::new("/d"), &options, go_on).unwrap();
    assert_eq!(outcome.file_bytes, 1 << 20);
    assert_eq!((outcome.read.requests, outcome.sync.requests), (1, 1));
    assert_eq!(outcome.queued_read.requests, 32);
    assert_untouched(&storage, "no time");
}

#[test]
fn options_without_requests_are_refused() {
    let options = ProbeOptions {
        max_requests: 0,
        ..tiny()
    };
    let storage = simulated();
    let go_on = &mut |_| ControlFlow::Continue(());
    let error = measure(&storage, Path::new("/d"), &options, go_on).unwrap_err();
    let phase = Phase::RandomRead;
    assert!(matches!(error, Error::NothingMeasured { phase: found } if found == phase));
    assert_untouched(&storage, "no request");
}

#[test]
fn an_almost_full_file_system_is_refused_with_advice() {
    let storage = simulated();
    storage.set_capacity_bytes(MIN_FREE_BYTES);
    let error = run(&storage, Path::new("/d")).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("/d has 67108"), "{text}");
    assert!(
        text.contains("another directory of the same device"),
        "{text}"
    );
    assert_untouched(&storage, "too little space");
    storage.set_capacity_bytes(MIN_FREE_BYTES + (1 << 20));
    assert_sound(&run(&storage, Path::new("/d")).unwrap());
}

#[test]
fn a_file_of_another_measurement_is_not_touched() {
    let storage = simulated();
    let path = Path::new("/d").join(super::file::name());
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    let file = storage.open(&path, options).unwrap();
    file.append(b"mine", Purpose::Other).unwrap();
    let error = run(&storage, Path::new("/d")).unwrap_err();
    assert!(matches!(&error, Error::Occupied { path: found } if *found == path));
    assert!(error.to_string().contains("remove the file"), "{error}");
    assert_eq!(storage.list(Path::new("/d")).unwrap().len(), 2);
    assert_eq!(file.length_bytes().unwrap(), 4);
}

#[test]
fn no_directory_is_an_error_that_names_it() {
    let error = run(&simulated(), Path::new("/nowhere")).unwrap_err();
    let Error::Storage(inner) = &error else {
        panic!("{error}");
    };
    assert_eq!(inner.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("/nowhere"), "{error}");
}

/// A device that gives zeros in the place of the bytes that it took.
#[test]
fn other_bytes_than_were_written_are_noticed() {
    let storage = simulated();
    let directory = storage.directory(Path::new("/d"), Access::Owner).unwrap();
    let file = ProbeFile::create(directory).unwrap();
    let content = Content::new(7);
    let mut piece = content.piece();
    content.mark(piece.bytes_mut(), 0);
    file.file().append(piece.bytes(), Purpose::Other).unwrap();
    file.file().append(&[0; 1 << 20], Purpose::Other).unwrap();
    let mut go_on = |_| ControlFlow::Continue(());
    let mut watch = Watch::new(Duration::from_secs(3600), &mut go_on);
    let error = phases::read(&file, content, 2 << 20, &mut watch).unwrap_err();
    let Error::WrongBytes { path, offset_bytes } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (path.as_path(), *offset_bytes),
        (&*Path::new("/d").join(super::file::name()), 1 << 20)
    );
    let plan = Plan::of(&tiny(), 1 << 30).unwrap();
    let read = readers::random_reads(&file, 4, Phase::QueuedRead, &plan, &mut watch);
    assert!(matches!(read, Err(Error::WrongBytes { .. })));
    drop(file);
    assert_untouched(&storage, "wrong bytes");
}
