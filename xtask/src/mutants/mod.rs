//! The mutation check: each patch in `mutants/` breaks one rule of the design, and the test that
//! the patch names in its head must notice.
//!
//! All mutants come from one build: a copy of the workspace holds each changed body beside its original,
//! and a variable of the environment chooses between them at run time. The sources themselves know nothing
//! of it.
//!
//! A patch is caught only if its test passes without it and fails (or hangs) with it. Anything else is a
//! failure of the check: a patch that no longer applies, or a filter that matches no test, proves nothing.

mod bodies;
mod patch;
mod workshop;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use patch::Mutant;
use workshop::{Verdict, Workshop};

/// Time after which a test without a mutant hangs.
const TEST_LIMIT: Duration = Duration::from_secs(600);
/// A mutant hangs, and so is caught, once its test takes so many times as long as without it, and the grace.
const MOST_TIMES: u32 = 10;
const GRACE: Duration = Duration::from_secs(30);

/// Runs the mutants of these names; all, if there are none.
pub fn run(root: &Path, names: &[String]) -> Outcome {
    let mutants = match patch::load(&root.join("mutants")) {
        Ok(mutants) if mutants.is_empty() => {
            return Outcome::Skipped("mutants/ holds no patch".into());
        }
        Ok(mutants) => mutants,
        Err(what) => return Outcome::Failed(what),
    };
    let is_known = |name: &&String| mutants.iter().any(|mutant| mutant.name == **name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Outcome::Failed(format!("there is no mutants/{name}.patch"));
    }
    let workshop = Workshop::new(root);
    let refused = match workshop.weave(&mutants) {
        Ok(refused) => refused,
        Err(what) => return Outcome::Failed(what),
    };
    let is_chosen = |mutant: &&Mutant| names.is_empty() || names.contains(&mutant.name);
    let chosen: Vec<&Mutant> = mutants.iter().filter(is_chosen).collect();
    if let Err(what) = build(&workshop, &chosen) {
        return Outcome::Failed(what);
    }
    check(&workshop, &chosen, &refused)
}

/// Builds the test programs of these mutants, each once.
fn build(workshop: &Workshop, mutants: &[&Mutant]) -> Result<(), String> {
    let programs = mutants.iter().map(|mutant| programs_of(&mutant.test));
    let programs: BTreeSet<_> = programs.collect();
    for arguments in programs {
        let begun = Instant::now();
        workshop.build(arguments)?;
        println!(
            "built: cargo test {} ({} s)",
            arguments.join(" "),
            begun.elapsed().as_secs()
        );
    }
    Ok(())
}

/// Returns the arguments of a test that say which programs it needs, without its filter.
fn programs_of(test: &[String]) -> &[String] {
    let takes_a_value = |word: &str| matches!(word, "-p" | "--features" | "--test" | "--bin");
    let mut words = test.iter().enumerate();
    while let Some((index, word)) = words.next() {
        if takes_a_value(word) {
            words.next();
        } else if word == "--" || !word.starts_with('-') {
            return test.get(..index).unwrap_or(test);
        }
    }
    test
}

/// How long a test takes without a mutant. Its failure with one proves something only if it passes.
type Proof = Result<Duration, String>;

fn check(workshop: &Workshop, mutants: &[&Mutant], refused: &HashMap<u32, String>) -> Outcome {
    let mut tests: Vec<&[String]> = mutants.iter().map(|mutant| &*mutant.test).collect();
    tests.sort();
    tests.dedup();
    let proofs = on_all_processors(tests, |test| (test, prove(workshop, test)));
    let proofs: BTreeMap<&[String], Proof> = proofs.into_iter().collect();
    let mut rows = on_all_processors(mutants.to_vec(), |mutant| {
        let proof = proofs.get(&*mutant.test).cloned();
        let proof = proof.unwrap_or_else(|| Err("its test was not run".into()));
        let verdict = match refused.get(&mutant.number) {
            Some(why) => Err(why.clone()),
            None => proof.and_then(|needed| judge(workshop, mutant, needed)),
        };
        let words = match &verdict {
            Ok(caught) => caught,
            Err(what) => what.as_str(),
        };
        println!("mutant {}: {words}", mutant.name);
        (mutant.name.as_str(), verdict)
    });
    rows.sort();
    let failed = rows.iter().filter(|(_, verdict)| verdict.is_err()).count();
    for (name, verdict) in &rows {
        if let Err(what) = verdict {
            println!("FAILED: {name}, {what}");
        }
    }
    println!("{} of {} mutants caught", rows.len() - failed, rows.len());
    match failed {
        0 => Outcome::Passed,
        _ => Outcome::Failed(format!("{failed} of {} mutants not caught", rows.len())),
    }
}

/// Returns the results of a function for all items, in any order. Each processor has a thread.
fn on_all_processors<T: Send, R: Send>(items: Vec<T>, make: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (items, made) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || items.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let result = make(item);
                    if let Ok(mut made) = made.lock() {
                        made.push(result);
                    }
                }
            });
        }
    });
    made.into_inner().unwrap_or_default()
}

fn prove(workshop: &Workshop, test: &[String]) -> Proof {
    let io = |error: io::Error| error.to_string();
    let begun = Instant::now();
    match workshop.test(test, 0, TEST_LIMIT).map_err(io)? {
        Verdict::Passed(0) => Err("its test line matches no test".into()),
        Verdict::Passed(_) => Ok(begun.elapsed()),
        Verdict::Failed => Err("its test fails without the patch too".into()),
        Verdict::Hung => Err("its test hangs without the patch too".into()),
    }
}

/// Returns the way in which the mutant was caught, or the reason why it was not.
fn judge(workshop: &Workshop, mutant: &Mutant, needed: Duration) -> Result<&'static str, String> {
    let io = |error: io::Error| error.to_string();
    let limit = GRACE + needed * MOST_TIMES;
    match workshop
        .test(&mutant.test, mutant.number, limit)
        .map_err(io)?
    {
        Verdict::Failed => Ok("caught"),
        Verdict::Hung => Ok("caught (its test hangs)"),
        Verdict::Passed(_) => Err("survives: its test passes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_no_part_of_the_programs() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        for (test, programs) in [
            ("-p a --lib", "-p a --lib"),
            ("-p a --features b --lib db::x", "-p a --features b --lib"),
            ("-p a --test c -- --exact d", "-p a --test c"),
            ("-p a --bin b c::d", "-p a --bin b"),
        ] {
            assert_eq!(programs_of(&words(test)), words(programs));
        }
    }

    #[test]
    fn every_item_is_made_once() {
        let mut made = on_all_processors((0..100).collect(), |number: u32| number * 2);
        made.sort_unstable();
        assert!(made.into_iter().eq((0..200).step_by(2)));
    }
}
