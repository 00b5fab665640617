//! Random operations on stores of three tiers, against a `BTreeMap`. Tiers come and go meanwhile.

use rand::RngExt;
use terrace::{Background, Options, TierOptions};

use super::support;
use super::support::machine::{Machine, Method};
use super::support::model::Model;
use super::support::script::{KEYSPACES, Run, Script, policies, with_read_buffer};
use super::{with_level_tiers, with_three};

const OPERATIONS_PER_STORE: u64 = 1_000;

fn model(background: Background) {
    let operations = support::scale("TERRACE_MODEL_OPERATIONS", 20_000) / 4;
    let (mut migrations, mut added) = (0, 0);
    for life in 0..operations.div_ceil(OPERATIONS_PER_STORE) {
        let machine = Machine::new(Method::Written, life);
        let options = Options {
            background,
            ..with_read_buffer(life, machine.options())
        };
        let options = with_three(options, (48 + 16 * life) << 10, 100 << 10);
        let options = match life % 2 {
            0 => options,
            _ => with_level_tiers(options, &["fast", "middle", "slow"]),
        };
        let mut script = Script::new(life, true);
        let mut run = Run::new(Model::default());
        run.policies = policies(life);
        run.flushes = (background == Background::Inline).then(|| machine.flushes());
        run.open(options.clone()).unwrap();
        for number in 0..OPERATIONS_PER_STORE.min(operations) {
            let operation = script.next();
            run.apply(operation.clone(), &options)
                .unwrap_or_else(|error| panic!("store {life}: {operation:?} failed: {error}"));
            match script.random().random_range(0..60) {
                0 => {
                    let name = format!("more-{number}");
                    let tier = TierOptions::new(&name, format!("/{name}"));
                    run.db().add_tier(&tier).unwrap();
                    added += 1;
                }
                1 => leave_last(&mut run),
                _ => {}
            }
            migrations += run.db().statistics().migrations;
        }
        run.model.check(run.db(), &KEYSPACES).unwrap();
        terrace::internal::check_ages(run.db()).unwrap();
        assert!(run.db().verify(|_, _| ()).unwrap().problems.is_empty());
    }
    assert!(
        migrations > 100 && added > 10,
        "{migrations} migrations, {added} tiers"
    );
}

/// Drains and removes the last of the tiers that were added.
fn leave_last(run: &mut Run) {
    let tiers = run.db().tiers();
    let Some(last) = tiers.iter().skip(3).last() else {
        return;
    };
    run.release_flushes();
    run.db().drain_tier(&last.name).unwrap();
    while run.db().wait_for_migration().unwrap() {}
    // A compaction, or an iterator, may still have its files.
    let _ = run.db().remove_tier(&last.name);
}

#[test]
fn three_tiers_agree_with_the_model() {
    model(Background::Inline);
}

#[test]
fn three_tiers_with_threads_agree_with_the_model() {
    model(Background::Threads);
}
