use super::*;
use crate::{CrashKind, CrashSwitch, ErrorKind, OpenMode, OpenOptions, SimulatedStorage};

const PURPOSE: Purpose = Purpose::Flush;
const CREATE: OpenOptions = OpenOptions::buffered(OpenMode::CreateNew);

struct Bench {
    simulated: SimulatedStorage,
    storage: FailingStorage,
    plan: FaultPlan,
}

fn bench(filter: FaultFilter) -> Bench {
    let simulated = SimulatedStorage::new(1, CrashSwitch::new());
    let plan = FaultPlan::new(filter);
    let storage = FailingStorage::new(Arc::new(simulated.clone()), plan.clone());
    Bench {
        simulated,
        storage,
        plan,
    }
}

/// Writes, syncs and publishes a file.
fn publish(storage: &dyn Storage) -> Result<()> {
    let (temporary, name) = (Path::new("/temporary"), Path::new("/name"));
    let file = storage.open(temporary, CREATE)?;
    file.append(b"content", PURPOSE)?;
    file.sync(PURPOSE)?;
    storage.rename(temporary, name)?;
    storage.sync_directory(Path::new("/"))
}

#[test]
fn each_operation_can_be_made_to_fail_in_turn() {
    let clean = bench(FaultFilter::everything());
    publish(&clean.storage).unwrap();
    let expected = [
        Operation::OpenDirectory,
        Operation::Open,
        Operation::Write,
        Operation::Sync,
        Operation::OpenDirectory,
        Operation::Rename,
        Operation::OpenDirectory,
        Operation::SyncDirectory,
    ];
    assert_eq!(clean.plan.count(), expected.len() as u64);
    assert_eq!(clean.plan.failures(), 0);
    for (at, operation) in expected.into_iter().enumerate() {
        let bench = bench(FaultFilter::everything());
        bench.plan.fail_at(at as u64, Fault::Io);
        let error = publish(&bench.storage).unwrap_err();
        assert_eq!(error.operation(), operation);
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(bench.plan.failures(), 1);
    }
}

#[test]
fn filters_choose_by_operation_purpose_and_path() {
    let run = |filter: FaultFilter| {
        let bench = bench(filter);
        publish(&bench.storage).unwrap();
        bench.plan.count()
    };
    let everything = FaultFilter::everything;
    assert_eq!(run(everything().operations(&[Operation::Rename])), 1);
    assert_eq!(run(everything().purpose(PURPOSE)), 2);
    assert_eq!(run(everything().purpose(Purpose::Arena)), 0);
    assert_eq!(run(everything().path_contains("name")), 1);
    assert_eq!(run(everything().path_contains("temp")), 4);
    let none = everything()
        .operations(&[Operation::Open])
        .path_contains("name");
    assert_eq!(run(none), 0);
}

#[test]
fn a_lasting_fault_ends_when_it_is_healed() {
    let bench = bench(FaultFilter::everything().operations(&[Operation::Write]));
    let file = bench.storage.open(Path::new("/f"), CREATE).unwrap();
    bench.plan.fail_from(1, Fault::NoSpace);
    file.append(b"1", PURPOSE).unwrap();
    for _ in 0..3 {
        let error = file.append(b"2", PURPOSE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
    bench.plan.heal();
    file.append(b"3", PURPOSE).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 2);
    assert_eq!((bench.plan.count(), bench.plan.failures()), (5, 3));
}

#[test]
fn a_held_operation_waits_until_it_is_let_through() {
    let bench = bench(FaultFilter::everything().operations(&[Operation::Write]));
    let file = bench.storage.open(Path::new("/f"), CREATE).unwrap();
    bench.plan.hold_from(1);
    file.append(b"1", PURPOSE).unwrap();
    assert_eq!(bench.plan.held(), 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file.append(b"2", PURPOSE));
        while bench.plan.held() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(file.length_bytes().unwrap(), 1);
        bench.plan.heal();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!((file.length_bytes().unwrap(), bench.plan.held()), (2, 0));
}

#[test]
fn a_short_write_leaves_the_first_half() {
    let bench = bench(FaultFilter::everything().operations(&[Operation::Write]));
    let file = bench.storage.open(Path::new("/f"), CREATE).unwrap();
    bench.plan.fail_from(0, Fault::ShortWrite);
    file.append(b"abcd", PURPOSE).unwrap_err();
    file.write_at(b"XY", 3, PURPOSE).unwrap_err();
    let mut bytes = [0; 5];
    assert_eq!(file.read_at(&mut bytes, 0, PURPOSE).unwrap(), 4);
    assert_eq!(&bytes, b"ab\0X\0");
}

/// Returns whether a file's content is durable after a sync that failed and one that did not.
fn is_durable_after_retry(fault: Fault) -> bool {
    let bench = bench(FaultFilter::everything().operations(&[Operation::Sync]));
    let file = bench.storage.open(Path::new("/f"), CREATE).unwrap();
    bench.storage.sync_directory(Path::new("/")).unwrap();
    file.append(b"x", PURPOSE).unwrap();
    bench.plan.fail_at(0, fault);
    file.sync(PURPOSE).unwrap_err();
    file.sync(PURPOSE).unwrap();
    (0..50).all(|seed| {
        let after = bench
            .simulated
            .crash(CrashKind::PowerCut, seed, CrashSwitch::new());
        let entries = after.list(Path::new("/")).unwrap();
        entries[0].length_bytes == 1
    })
}

#[test]
fn a_lost_sync_is_not_made_good_by_the_next() {
    assert!(!is_durable_after_retry(Fault::SyncLost));
    assert!(is_durable_after_retry(Fault::SyncKept));
    assert!(is_durable_after_retry(Fault::Io));
}
