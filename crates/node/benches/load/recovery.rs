//! How long a node with many keys takes to open: behind a checkpoint, and after a kill with a long
//! journal.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use terrace_node::engine::Node;

use super::Setting;
use super::engine::{Load, device, open_medium};
use super::figures::measure_exist;
use super::report::Report;

const CHILD: &str = "TERRACE_NODE_LOAD_CHILD";
const VALUE_BYTES: usize = 100;
/// Stores between two looks at the counters.
const STEP: u64 = 1000;
/// Records of such values in a block of the journal, a little less than fit.
const RECORDS: u64 = 22;

pub fn recovery(setting: &Setting, report: &mut Report, run: usize) {
    let keys = 10_000_000 / setting.scale;
    let mut load = if run == 0 {
        let mut load = Load::new(&setting.path, setting.bytes, keys);
        let sample = load.stores(256, keys, VALUE_BYTES, |number| number);
        report.add("100 B stores, 256 in flight", sample);
        load
    } else {
        Load::open(&setting.path)
    };
    store_until_checkpoint(&mut load, keys);
    drop(load);
    measure_open(setting, report, "behind a checkpoint");
    let mut load = Load::open(&setting.path);
    measure_exist(&mut load, report, keys, 4_000_000 / setting.scale);
    drop(load);
    run_and_kill(&setting.path, keys);
    measure_open(setting, report, "after a kill, with a long journal");
}

/// Has a child fill the journal, and kills it.
fn run_and_kill(path: &Path, keys: u64) {
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .env(CHILD, keys.to_string())
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let output = child.stdout.take().expect("a pipe");
    let line = BufReader::new(output).lines().next();
    let told = line.is_some_and(|line| line.is_ok_and(|line| line == "ready"));
    assert!(told, "the child has filled the journal");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}

/// Opens the node, and notes the time of the clock and that of the processor.
fn measure_open(setting: &Setting, report: &mut Report, what: &str) {
    let medium = open_medium(&setting.path);
    let mut device = device(&medium);
    let (start, processor) = (Instant::now(), processor_seconds());
    let node = Node::open(&mut *device).expect("it opens");
    let seconds = start.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    let keys = node.statistics(1).expect("it is there").keys;
    report.note(&format!("open, {keys} keys, {what}: clock"), " s", seconds);
    report.note(
        &format!("open, {keys} keys, {what}: processor"),
        " s",
        processor,
    );
}

/// Returns how long this thread has run.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// Overwrites values until a checkpoint has ended.
fn store_until_checkpoint(load: &mut Load, keys: u64) {
    let checkpoints = |load: &Load| load.node.statistics(1).expect("it is there").checkpoints;
    let before = checkpoints(load);
    let mut next = 0;
    while checkpoints(load) == before {
        load.stores(256, STEP.min(keys), VALUE_BYTES, |number| {
            (next + number) % keys
        });
        next += STEP;
    }
}

pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Fills the journal of a node behind a checkpoint, says so, and goes on until it is killed.
pub fn child() {
    let keys = std::env::var(CHILD).expect("a number of keys");
    let keys: u64 = keys.parse().expect("a number of keys");
    let path = std::env::args().nth(1).expect("a path");
    let mut load = Load::open(path.as_ref());
    let journal = load.node.superblock.namespaces[0].journal.blocks;
    // The next checkpoint is due when the journal is half full.
    let records = journal * 45 / 100 * RECORDS;
    load.stores(256, records, VALUE_BYTES, |number| number % keys);
    println!("ready");
    std::io::stdout().flush().expect("the parent reads");
    loop {
        load.stores(256, STEP, VALUE_BYTES, |number| number % keys);
    }
}
