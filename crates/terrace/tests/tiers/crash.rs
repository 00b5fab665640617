//! Every crash point of runs on three tiers, with tables that move, a tier that is drained and removed,
//! and one that is added.

use terrace::{Error, TierOptions};
use terrace_storage::CrashKind;

use super::support;
use super::support::machine::{Machine, Method};
use super::support::model::Model;
use super::support::script::{KEYSPACES, Run, Script, is_frozen, policies};
use super::{with_level_tiers, with_three};

const KINDS: [CrashKind; 2] = [CrashKind::Kill, CrashKind::PowerCut];

fn options(machine: &Machine, seed: u64) -> terrace::Options {
    let options = with_three(machine.options(), 64 << 10, 100 << 10);
    match seed % 2 {
        0 => with_level_tiers(options, &["fast", "middle", "slow"]),
        _ => options,
    }
}

fn run(machine: &Machine, model: Model, seed: u64, operations: usize) -> Run {
    let options = options(machine, seed);
    let mut script = Script::new(seed, true);
    let mut run = Run::new(model);
    run.policies = policies(seed);
    let mut work = |run: &mut Run| {
        run.open(options.clone())?;
        for number in 0..operations {
            if number == operations / 3 {
                let name = format!("more-{seed}");
                run.db()
                    .add_tier(&TierOptions::new(&name, format!("/{name}")))?;
                run.db().drain_tier("middle")?;
            }
            if number == operations * 2 / 3 {
                while run.db().wait_for_migration()? {}
                match run.db().remove_tier("middle") {
                    Err(Error::InvalidArgument(_)) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
            run.apply(script.next(), &options)?;
        }
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

fn recover(machine: &Machine, run: &mut Run, kind: CrashKind, seed: u64) -> terrace::Result<()> {
    let promised = run.promised(kind == CrashKind::PowerCut);
    run.db = None;
    // The options of an opening name no tier: the store knows its own.
    let options = machine.options();
    run.open(options.clone())?;
    let db = run.db().clone();
    run.model.check_recovered(&db, &KEYSPACES, promised)?;
    while db.wait_for_migration()? {}
    for tier in db.tiers() {
        let on_disk = super::table_bytes(&machine.storage, tier.path.to_str().unwrap());
        let listed: u64 = tier.level_bytes.iter().sum();
        assert_eq!(on_disk, listed, "no orphan is left: {tier:?}");
        assert_eq!(on_disk, tier.files_bytes, "{tier:?}");
    }
    drop(db);
    run.model.persisted = run.model.acknowledged;
    let mut script = Script::new(seed, true);
    for _ in 0..5 {
        run.apply(script.write(), &options)?;
    }
    run.db().flush()?;
    while run.db().wait_for_migration()? {}
    assert!(run.db().verify(|_, _| ()).unwrap().problems.is_empty());
    run.model.check(run.db(), &KEYSPACES)?;
    Ok(())
}

fn every_point(seed: u64) {
    let stride = support::scale("TERRACE_CRASH_STRIDE", 3) as usize;
    let operations = support::scale("TERRACE_CRASH_OPERATIONS", 60) as usize;
    let base = Machine::new(Method::Written, seed);
    let mut filling = run(&base, Model::default(), seed, operations);
    filling.model.persisted = filling.model.tried();
    let model = filling.model.clone();
    drop(filling);
    let whole = base.copy(0);
    let whole_run = run(&whole, model.clone(), seed + 2, operations);
    drop(whole_run);
    let steps = whole.steps();
    assert!(steps > operations as u64, "only {steps} steps");
    for point in (0..steps).step_by(stride) {
        for kind in KINDS {
            let machine = base.copy(seed ^ point << 8);
            machine.freeze_at(point);
            let mut run = run(&machine, model.clone(), seed + 2, operations);
            run.db = None;
            let crashed = machine.crash(kind, seed ^ point << 8);
            recover(&crashed, &mut run, kind, point)
                .unwrap_or_else(|error| panic!("run {seed} {kind:?} at {point}: {error}"));
            terrace::internal::check_ages(run.db()).unwrap();
        }
    }
}

#[test]
fn tiers_of_levels_survive_every_crash_point() {
    every_point(0);
}

#[test]
fn tiers_by_capacity_survive_every_crash_point() {
    every_point(1);
}
