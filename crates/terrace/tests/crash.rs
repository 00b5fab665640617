//! Every crash point of many runs, on every persist method.
//!
//! A run starts on a machine whose arenas are full of old, valid frames; in its middle sealed
//! arenas pile up. It is repeated with the machine frozen at each of its steps (every write, sync,
//! rename, unlink, fence and write-back, and some plain stores). The machine then comes back as
//! after a kill and as after a power cut, with random legal parts of the unpersisted bytes. After
//! recovery the store must hold the state after some batch, not before the last one promised, and
//! go on working.
//!
//! `TERRACE_CRASH_RUNS` sets the number of runs for each method (1 by default),
//! `TERRACE_CRASH_STRIDE` how many steps lie between two crash points (1: exhaustive).

mod support;

use support::machine::{Machine, Method};
use support::model::Model;
use support::script::{KEYSPACES, Operation, Run, Script, is_frozen, policies};
use terrace::CompactionPolicy;
use terrace_storage::CrashKind;

const KINDS: [CrashKind; 2] = [CrashKind::Kill, CrashKind::PowerCut];

/// Returns a used machine: tables on all levels, arenas full of frames of earlier generations.
fn used_machine(method: Method, seed: u64) -> (Machine, Model) {
    let machine = Machine::new(method, seed);
    let options = machine.options();
    let mut script = Script::new(seed ^ 0xA6ED, false);
    let mut run = Run::new(Model::default());
    run.policies = policies_of(method, seed);
    run.open(options.clone()).unwrap();
    for _ in 0..150 {
        let write = script.write();
        run.apply(write, &options).unwrap();
    }
    run.db().flush().unwrap();
    run.db().close().unwrap();
    // Everything so far is in tables.
    run.model.persisted = run.model.tried();
    (machine, run.model)
}

/// Runs a script on a machine until it ends or the machine freezes.
fn run(machine: &Machine, model: Model, seed: u64, operations: usize) -> Run {
    let options = machine.options();
    let mut script = Script::new(seed, machine.method().persists());
    let mut run = Run::new(model);
    run.policies = policies_of(machine.method(), seed);
    run.openings = 1;
    run.power_safe = machine.method().is_power_safe();
    run.volatile = machine.method() == Method::Volatile;
    run.flushes = Some(machine.flushes());
    let mut work = |run: &mut Run| {
        run.open(options.clone())?;
        for number in 0..operations {
            if number == operations / 2 {
                run.apply(Operation::HoldFlushes, &options)?;
                for _ in 0..9 {
                    run.apply(script.large_write(), &options)?;
                }
            }
            run.apply(script.next(), &options)?;
        }
        run.release_flushes();
        run.db().close()?;
        run.model.persisted = run.model.acknowledged;
        Ok(())
    };
    if let Err(error) = work(&mut run) {
        assert!(machine.is_frozen(), "a failure without a crash: {error}");
        assert!(is_frozen(&error), "an error of its own: {error}");
    }
    run.snapshots.clear();
    run
}

/// Reopens a crashed machine, checks the recovered state, and has the store work on.
fn recover(machine: &Machine, run: &mut Run, power_cut: bool, seed: u64) -> terrace::Result<()> {
    let promised = run.promised(power_cut);
    run.db = None;
    run.open(machine.options())?;
    let db = run.db().clone();
    run.model.check_recovered(&db, &KEYSPACES, promised)?;
    drop(db);
    // Recovered writes are in tables, and these are synced.
    run.model.persisted = run.model.acknowledged;
    let mut script = Script::new(seed, machine.method().persists());
    for _ in 0..5 {
        run.apply(script.write(), &machine.options())?;
    }
    run.apply(Operation::Reopen, &machine.options())
}

/// Returns other policies for each method and each run.
fn policies_of(method: Method, seed: u64) -> Vec<CompactionPolicy> {
    policies(method as u64 + seed)
}

fn every_point(method: Method) {
    let runs = support::scale("TERRACE_CRASH_RUNS", 1);
    let stride = support::scale("TERRACE_CRASH_STRIDE", 1) as usize;
    let operations = support::scale("TERRACE_CRASH_OPERATIONS", 60) as usize;
    for seed in 0..runs {
        let (base, model) = used_machine(method, seed);
        let whole = base.copy(0);
        let most_sealed = run(&whole, model.clone(), seed, operations).most_sealed;
        let steps = whole.steps();
        assert!(steps > operations as u64, "only {steps} steps");
        assert!(most_sealed >= 2, "{most_sealed} arenas at most were sealed");
        for point in (0..steps).step_by(stride) {
            for kind in KINDS {
                let machine = base.copy(seed ^ point << 8);
                machine.freeze_at(point);
                let mut run = run(&machine, model.clone(), seed, operations);
                run.db = None;
                let crashed = machine.crash(kind, seed ^ point << 8);
                recover(&crashed, &mut run, kind == CrashKind::PowerCut, point).unwrap_or_else(
                    |error| panic!("{method:?} run {seed} {kind:?} at {point}: {error}"),
                );
                terrace::internal::check_ages(run.db()).unwrap();
            }
        }
    }
}

#[test]
fn written_survives_every_crash_point() {
    every_point(Method::Written);
}

#[test]
fn power_safe_survives_every_crash_point() {
    every_point(Method::WrittenPowerSafe);
}

#[test]
fn volatile_keeps_what_was_flushed_at_every_crash_point() {
    every_point(Method::Volatile);
}

#[test]
fn stored_through_cache_lines_survives_every_crash_point() {
    every_point(Method::Dax);
}

#[test]
fn stored_through_the_page_cache_survives_every_crash_point() {
    every_point(Method::PageCache);
}

/// Crashes, then crashes again at every step of the recovery and of the writes after it.
fn double_crash(method: Method) {
    let first_crashes = support::scale("TERRACE_DOUBLE_CRASHES", 10);
    let (base, model) = used_machine(method, 77);
    let whole = base.copy(0);
    run(&whole, model.clone(), 77, 60);
    let steps = whole.steps();
    for first in 0..first_crashes {
        let point = 1 + first * steps / first_crashes;
        let kind = KINDS[first as usize % 2];
        let machine = base.copy(point);
        machine.freeze_at(point);
        let mut before = run(&machine, model.clone(), 77, 60);
        before.db = None;
        let crashed = machine.crash(kind, point);

        let rehearsal = crashed.copy(0);
        let mut rehearsed = Run::new(before.model.clone());
        (rehearsed.power_safe, rehearsed.volatile) = (before.power_safe, before.volatile);
        recover(
            &rehearsal,
            &mut rehearsed,
            kind == CrashKind::PowerCut,
            point,
        )
        .unwrap();

        for second in 0..rehearsal.steps() {
            let second_kind = KINDS[second as usize % 2];
            let machine = crashed.copy(second);
            machine.freeze_at(second);
            let mut run = Run::new(before.model.clone());
            (run.power_safe, run.volatile) = (before.power_safe, before.volatile);
            let mut power_cut = kind == CrashKind::PowerCut;
            if let Err(error) = recover(&machine, &mut run, power_cut, point) {
                assert!(
                    is_frozen(&error),
                    "{method:?} at {point}, then {second}: {error}"
                );
            }
            run.db = None;
            run.snapshots.clear();
            power_cut |= second_kind == CrashKind::PowerCut;
            let again = machine.crash(second_kind, second);
            recover(&again, &mut run, power_cut, second)
                .unwrap_or_else(|error| panic!("{method:?} at {point}, then {second}: {error}"));
        }
    }
}

#[test]
fn a_second_crash_during_recovery_loses_nothing_on_written() {
    double_crash(Method::Written);
}

#[test]
fn a_second_crash_during_recovery_loses_nothing_on_cache_lines() {
    double_crash(Method::Dax);
}

#[test]
fn a_second_crash_during_recovery_loses_nothing_on_the_page_cache() {
    double_crash(Method::PageCache);
}

#[test]
fn a_second_crash_during_recovery_loses_nothing_on_power_safe() {
    double_crash(Method::WrittenPowerSafe);
}
