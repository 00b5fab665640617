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
mod program;
mod workshop;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use patch::Mutant;
use program::{Executable, Program};
use workshop::{Verdict, Workshop, run_test};

/// Time after which a test without a mutant hangs.
const TEST_LIMIT: Duration = Duration::from_secs(600);
/// A test that takes this many times as long as without its mutant, and the grace, hangs: the
/// mutant is caught.
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
    let tests = match parsed(&chosen) {
        Ok(tests) => tests,
        Err(what) => return Outcome::Failed(what),
    };
    match built(&workshop, tests) {
        Ok(tests) => check(&chosen, &tests, &refused),
        Err(what) => Outcome::Failed(what),
    }
}

/// A test of a mutant: its program and the arguments of that.
type Parsed = (Program, Vec<String>);
/// Tests by the words that name them.
type Tests<T> = BTreeMap<Vec<String>, T>;

fn parsed(mutants: &[&Mutant]) -> Result<Tests<Parsed>, String> {
    let parse = |mutant: &&Mutant| {
        let test = Program::parse(&mutant.test);
        let test = test.map_err(|what| format!("{}, {what}", mutant.name))?;
        Ok((mutant.test.clone(), test))
    };
    mutants.iter().map(parse).collect()
}

/// A test that can be run.
struct Test {
    program: Arc<Executable>,
    arguments: Vec<String>,
}

/// Builds the programs of all tests, each once.
fn built(workshop: &Workshop, tests: Tests<Parsed>) -> Result<Tests<Test>, String> {
    let programs = tests.values().map(|(program, _)| program.clone());
    let mut executables = Vec::new();
    for build in program::builds(&programs.collect()) {
        let begun = Instant::now();
        executables.extend(workshop.build(&build)?.into_iter().map(Arc::new));
        let (arguments, seconds) = (build.arguments.join(" "), begun.elapsed().as_secs());
        println!("built: cargo test {arguments} ({seconds} s)");
    }
    let find = |(words, (program, arguments)): (Vec<String>, Parsed)| {
        let executable = executables.iter().find(|it| it.is_of(&program));
        let program = executable.ok_or_else(|| format!("no program of {}", words.join(" ")))?;
        let program = program.clone();
        Ok((words, Test { program, arguments }))
    };
    tests.into_iter().map(find).collect()
}

/// How long a test takes without a mutant. Its failure with one proves something only if it passes.
type Proof = Result<Duration, String>;

fn check(mutants: &[&Mutant], tests: &Tests<Test>, refused: &HashMap<u32, String>) -> Outcome {
    let words = tests.keys().collect();
    let proofs = on_all_processors(words, |words| (words, prove(&tests[words])));
    let proofs: BTreeMap<&Vec<String>, Proof> = proofs.into_iter().collect();
    let mut rows = on_all_processors(mutants.to_vec(), |mutant| {
        let verdict = match refused.get(&mutant.number) {
            Some(why) => Err(why.clone()),
            None => proofs[&mutant.test]
                .clone()
                .and_then(|needed| judge(&tests[&mutant.test], mutant.number, needed)),
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

/// Returns the results of a function for all items, in any order. Each processor has a thread, and one
/// more works while another waits for a test that hangs.
fn on_all_processors<T: Send, R: Send>(items: Vec<T>, make: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from) + 1;
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

fn prove(test: &Test) -> Proof {
    let io = |error: io::Error| error.to_string();
    let begun = Instant::now();
    match run_test(&test.program, &test.arguments, 0, TEST_LIMIT).map_err(io)? {
        Verdict::Passed(0) => Err("its test line matches no test".into()),
        Verdict::Passed(_) => Ok(begun.elapsed()),
        Verdict::Failed => Err("its test fails without the patch too".into()),
        Verdict::Hung => Err("its test hangs without the patch too".into()),
    }
}

/// Returns the way in which the mutant was caught, or the reason why it was not.
fn judge(test: &Test, number: u32, needed: Duration) -> Result<&'static str, String> {
    let io = |error: io::Error| error.to_string();
    let limit = GRACE + needed * MOST_TIMES;
    match run_test(&test.program, &test.arguments, number, limit).map_err(io)? {
        Verdict::Failed => Ok("caught"),
        Verdict::Hung => Ok("caught (its test hangs)"),
        Verdict::Passed(_) => Err("survives: its test passes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_made_once() {
        let mut made = on_all_processors((0..100).collect(), |number: u32| number * 2);
        made.sort_unstable();
        assert!(made.into_iter().eq((0..200).step_by(2)));
    }
}
