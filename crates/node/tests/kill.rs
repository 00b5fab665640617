//! A node's process dies of SIGKILL under load, on a real file, time after time. Everything that it
//! acknowledged is there, nothing else is but a state that was under way, every value is whole, and
//! `verify` finds no damage.
//!
//! A child process, which is this program again, has two event loops on one node. It reports each
//! change before the engine hears of it, and each end after the engine has reported it. Some
//! children die within their recovery.
//!
//! `TERRACE_NODE_KILLS` sets the number of kills, `TERRACE_NODE_KILL_SEED` the seed of the moments,
//! `TERRACE_TEST_DIRECTORY` the home of the file.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::{BUFFER_BYTES, Driver, KeyState, Model, check_space};
use terrace_node::Key;
use terrace_node::device::{Access, Backend, Device, Medium, Wait, create_file, open_device};
use terrace_node::engine::{
    Answer, Command, Condition, DEFAULT_BUFFER_BYTES, Failure, Node, Worker, create, verify,
};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::Domain;
use terrace_node::format::superblock::Superblock;

const FILE: &str = "TERRACE_NODE_KILL_CHILD_FILE";
const ROUND: &str = "TERRACE_NODE_KILL_CHILD_ROUND";

const FILE_BYTES: u64 = 56 << 20;
const DOMAINS: [Domain; 2] = [Domain::PowerSafe, Domain::CrashSafe];
/// Event loops of a child.
const LOOPS: u64 = 2;
/// Commands of a loop that are under way.
const DEPTH: usize = 16;
/// Keys of a namespace: those of small values, then those of all values. They fill most of it.
const SMALL_KEYS: u32 = 1200;
const LARGE_KEYS: u32 = 190;
/// Commands between two lines with the counters of the cleaner and the checkpoints.
const COUNTED: u64 = 64;

type Place = (u32, Key);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Returns a key; keys have several lengths.
fn key(number: u32) -> Key {
    let mut bytes = [0xa5; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    let length = if number.is_multiple_of(3) { 16 } else { 4 };
    Key::new(&bytes[..length]).expect("a legal length")
}

/// Returns a version's value: a pattern that no shift by blocks or pieces leaves as it is. No two keys
/// have the same version.
fn value_of(version: u64, bytes: usize) -> Vec<u8> {
    let mut rng = SmallRng::seed_from_u64(version);
    let mut pattern = [0; 1021];
    rng.fill(&mut pattern[..]);
    let mut value = Vec::with_capacity(bytes);
    while value.len() < bytes {
        let taken = pattern.len().min(bytes - value.len());
        value.extend_from_slice(&pattern[..taken]);
    }
    value
}

fn value_bytes(number: u32, rng: &mut SmallRng) -> usize {
    if number < SMALL_KEYS {
        return rng.random_range(0..=1200);
    }
    match rng.random_range(0..100) {
        0..15 => rng.random_range(0..=2048),
        15..70 => rng.random_range(2049..40_000),
        70..96 => rng.random_range(40_000..300_000),
        _ => rng.random_range(900_000..4_000_000),
    }
}

fn device(path: &Path, access: Access) -> Box<dyn Device> {
    let medium = Arc::new(Medium::open(path, access).expect("no other process has the file"));
    open_device(medium, Backend::Auto, 64).expect("a device")
}

fn create_node(path: &Path) {
    create_file(path, FILE_BYTES, false, &mut |_| ()).expect("the file can be made");
    let half = (FILE_BYTES / 4096 - 2) / 2 * 4096;
    let requests = DOMAINS.map(|domain| NamespaceRequest {
        domain,
        bytes: Some(half),
        ..NamespaceRequest::new(format!("{domain:?}"))
    });
    let superblock = Superblock::new(FILE_BYTES / 4096, &requests, &mut rand::rng());
    create(
        &mut *device(path, Access::Write),
        &superblock.expect("the file is large enough"),
    )
    .expect("the file can be written");
}

/// The child's part: works until it is killed.
#[test]
#[ignore = "the child process of the other test"]
fn child() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let round = setting(ROUND, 0);
    // The descriptor itself: one `write` for each line, which a pipe takes whole or not at all. The
    // test harness has begun a line of its own.
    let pipe = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    say(&pipe, "\nopening\n");
    let medium = Arc::new(Medium::open(path, Access::Write).unwrap());
    let device = || open_device(Arc::clone(&medium), Backend::Auto, 64).unwrap();
    let node = Node::open(&mut *device()).unwrap();
    say(&pipe, "open\n");
    std::thread::scope(|scope| {
        for at in 0..LOOPS {
            let worker = Worker::new(&node, device(), BUFFER_BYTES).unwrap();
            let (node, pipe) = (&node, &pipe);
            scope.spawn(move || {
                let mut work = Work {
                    at,
                    driver: Driver::new(worker),
                    rng: SmallRng::seed_from_u64(round << 8 | at),
                    version: round << 24 | at << 23,
                    pipe,
                    changes: HashMap::new(),
                };
                for count in 1_u64.. {
                    work.submit_one();
                    if count.is_multiple_of(COUNTED) {
                        work.tell_counters(node);
                    }
                    work.collect();
                }
            });
        }
    });
}

fn say(mut pipe: &File, line: &str) {
    pipe.write_all(line.as_bytes()).expect("the parent reads");
}

/// One loop of a child.
struct Work<'a> {
    at: u64,
    driver: Driver<Worker>,
    rng: SmallRng,
    /// The last version given, to stores and deletes alike.
    version: u64,
    pipe: &'a File,
    /// Versions of the changes under way, by tag.
    changes: HashMap<u64, u64>,
}

impl Work<'_> {
    fn submit_one(&mut self) {
        let nsid = self.rng.random_range(1..=DOMAINS.len() as u32);
        let number = match self.rng.random_bool(0.6) {
            true => self.rng.random_range(0..SMALL_KEYS),
            false => SMALL_KEYS + self.rng.random_range(0..LARGE_KEYS),
        };
        // Each loop has keys of its own, so that the order of a key's changes is known.
        let number = number / LOOPS as u32 * LOOPS as u32 + self.at as u32;
        let key = key(number);
        match self.rng.random_range(0..100) {
            0..10 => {
                let max_bytes = u32::MAX;
                self.driver
                    .submit(nsid, Command::Retrieve { key, max_bytes }, None);
            }
            10..12 => {
                self.driver.submit(nsid, Command::Flush, None);
            }
            12..22 => {
                self.begin(nsid, number, None);
                let tag = self.driver.submit(nsid, Command::Delete { key }, None);
                self.changes.insert(tag, self.version);
            }
            draw => {
                let condition = match draw {
                    22..32 => Condition::IfExists,
                    32..42 => Condition::IfAbsent,
                    _ => Condition::Always,
                };
                let bytes = value_bytes(number, &mut self.rng);
                self.begin(nsid, number, Some(bytes));
                let value = value_of(self.version, bytes);
                let tag = self.driver.store(nsid, key, value, condition);
                self.changes.insert(tag, self.version);
            }
        }
    }

    /// Reports a change that is about to begin, under a new version; a delete has no bytes.
    fn begin(&mut self, nsid: u32, number: u32, bytes: Option<usize>) {
        self.version += 1;
        let bytes = bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        let line = format!("begin {} {nsid} {number} {bytes}\n", self.version);
        say(self.pipe, &line);
    }

    /// Reports how much the duties of the node have done.
    fn tell_counters(&self, node: &Node) {
        let statistics = (1..=DOMAINS.len() as u32).filter_map(|nsid| node.statistics(nsid));
        let sum = statistics.fold((0, 0), |sum, each| {
            (sum.0 + each.checkpoints, sum.1 + each.moves)
        });
        say(self.pipe, &format!("count {} {}\n", sum.0, sum.1));
    }

    /// Waits until there is room for another command, and reports the outcomes of those that ended.
    fn collect(&mut self) {
        loop {
            let is_full = self.driver.engine.in_flight() >= DEPTH;
            self.driver.step(if is_full { Wait::Yes } else { Wait::No });
            while let Some((tag, result)) = self.driver.ended.pop_front() {
                self.tell_end(tag, &result);
            }
            if self.driver.engine.in_flight() < DEPTH {
                return;
            }
        }
    }

    fn tell_end(&mut self, tag: u64, result: &Result<Answer, Failure>) {
        let took_effect = match result {
            Ok(_) => true,
            Err(Failure::NotFound | Failure::KeyExists | Failure::CapacityExceeded) => false,
            other => panic!("{other:?}"),
        };
        self.driver.take_value(tag);
        if let Some(version) = self.changes.remove(&tag) {
            say(self.pipe, &format!("end {version} {took_effect}\n"));
        }
    }
}

/// Moment at which a child is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Time after its recovery has begun.
    Recovering(Duration),
    /// Number of ends of changes.
    Ended(u64),
}

/// Reports of a child.
#[derive(Default)]
struct Told {
    model: Model,
    is_open: bool,
    /// Moment when its recovery began, and the time that it took.
    opening: Option<Instant>,
    recovery: Option<Duration>,
    ends: u64,
    checkpoints: u64,
    moves: u64,
}

impl Told {
    /// Takes one line; those of the test harness say nothing.
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "opening" => self.opening = Some(Instant::now()),
            "open" => {
                self.is_open = true;
                self.recovery = self.opening.map(|begun| begun.elapsed());
            }
            "begin" => {
                let state: KeyState = match words[4] {
                    "-" => None,
                    bytes => Some((number(1), bytes.parse().expect("a number of bytes"))),
                };
                let at = (number(2) as u32, key(number(3) as u32));
                self.model.under_way.insert(number(1), (at, state));
            }
            "end" => {
                // Data that the process handed to the system survives the process in either domain.
                self.model.acknowledge(number(1), words[2] == "true", true);
                self.ends += 1;
            }
            "count" => (self.checkpoints, self.moves) = (number(1), number(2)),
            _ => {}
        }
    }
}

fn spawn(path: &Path, round: u64) -> Child {
    std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again")
}

/// Runs a child on a node with the contents of `model`, and kills it.
fn run_and_kill(path: &Path, round: u64, moment: Moment, model: Model) -> Told {
    let mut child = spawn(path, round);
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (send, receive) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            send.send(line).expect("the parent listens");
        }
    });
    let mut told = Told {
        model,
        ..Told::default()
    };
    // It ends early only if the child died of itself, which is found below.
    for line in &receive {
        told.take(&line);
        match moment {
            Moment::Recovering(time) if line == "opening" => {
                std::thread::sleep(time);
                break;
            }
            Moment::Ended(count) if told.is_open && told.ends >= count => break,
            _ => {}
        }
    }
    child.kill().expect("it is ours");
    let status = child.wait().expect("it is ours");
    receive.iter().for_each(|line| told.take(&line));
    reader.join().expect("a reader without fault");
    assert_eq!(
        status.code(),
        None,
        "the child ended of itself, see its output above"
    );
    told
}

/// Opens a node, checks that it holds states that the model allows, whole, and the same by every
/// command, and returns them.
fn check(path: &Path, model: &Model) -> BTreeMap<Place, KeyState> {
    let medium = Arc::new(Medium::open(path, Access::Write).expect("its child is dead"));
    let device = || open_device(Arc::clone(&medium), Backend::Auto, 64).expect("a device");
    let node = Node::open(&mut *device()).expect("a node that a kill left opens");
    let worker = Worker::new(&node, device(), DEFAULT_BUFFER_BYTES).expect("a legal budget");
    let mut driver = Driver::new(worker);
    let mut places: Vec<Place> = model.acknowledged.keys().copied().collect();
    places.extend(model.under_way.values().map(|(at, _)| *at));
    places.sort();
    places.dedup();
    let mut held = BTreeMap::new();
    let mut waiting = places.iter();
    let mut tags = HashMap::new();
    while held.len() < places.len() {
        while driver.engine.in_flight() < DEPTH
            && let Some((nsid, key)) = waiting.next()
        {
            let (key, max_bytes) = (*key, u32::MAX);
            let tag = driver.submit(*nsid, Command::Retrieve { key, max_bytes }, None);
            tags.insert(tag, (*nsid, key));
        }
        driver.step(Wait::Yes);
        while let Some((tag, result)) = driver.ended.pop_front() {
            let at = tags.remove(&tag).expect("a retrieve of ours");
            let value = driver.take_value(tag);
            held.insert(
                at,
                state_of(&at, &result.map(|_| value), &model.allowed(&at)),
            );
        }
    }
    for nsid in 1..=DOMAINS.len() as u32 {
        let own = held.iter().filter(|((of, _), _)| *of == nsid);
        let present: Vec<Key> = own
            .filter_map(|((_, key), state)| state.map(|_| *key))
            .collect();
        let mut listed = driver.list(nsid);
        listed.sort();
        assert_eq!(listed, present, "List and Retrieve differ");
        for ((_, key), state) in held.iter().filter(|((of, _), _)| *of == nsid) {
            assert_eq!(driver.exists(nsid, *key), state.is_some(), "{nsid} {key:?}");
        }
        check_space(&node.statistics(nsid).expect("it is there"), &held, nsid);
    }
    held
}

/// Returns the allowed state that a retrieve found.
fn state_of(at: &Place, found: &Result<Vec<u8>, Failure>, allowed: &[KeyState]) -> KeyState {
    let fits = |state: &&KeyState| match (found, state) {
        (Ok(value), Some((version, bytes))) => {
            *bytes == value.len() && value_of(*version, *bytes) == *value
        }
        (Err(Failure::NotFound), None) => true,
        _ => false,
    };
    let found = found.as_ref().map(Vec::len);
    *allowed
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("{at:?}: {found:?}, but allowed is {allowed:?}"))
}

/// Reads a node with `verify`, which changes nothing, and returns how many values there are.
fn verified(path: &Path) -> u64 {
    let report = verify(&mut *device(path, Access::ReadAlone), &mut |_| ());
    let report = report.expect("a node that a kill left opens");
    assert_eq!(report.damaged, [], "damaged values");
    report.values
}

fn draw_moment(rng: &mut SmallRng, round: u64, recovery: Duration) -> Moment {
    match round % 4 {
        3 => Moment::Recovering(recovery.mul_f64(rng.random_range(0.0..1.0))),
        2 => Moment::Ended(rng.random_range(0..50)),
        _ => Moment::Ended(rng.random_range(0..1500)),
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_sigkill() {
    let kills = setting("TERRACE_NODE_KILLS", 20);
    let mut rng = SmallRng::seed_from_u64(setting("TERRACE_NODE_KILL_SEED", 1));
    let home = std::env::var_os("TERRACE_TEST_DIRECTORY")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let directory = tempfile::tempdir_in(home).expect("a directory");
    let (path, copy) = (directory.path().join("node"), directory.path().join("copy"));
    create_node(&path);
    let mut model = Model::default();
    let (mut ends, mut within_recovery, mut checkpoints, mut moves) = (0, 0, 0, 0);
    let mut recovery = Duration::from_millis(10);
    for round in 0..kills {
        let moment = draw_moment(&mut rng, round, recovery);
        let told = run_and_kill(&path, round, moment, std::mem::take(&mut model));
        ends += told.ends;
        within_recovery += u64::from(!told.is_open);
        checkpoints += told.checkpoints;
        moves += told.moves;
        eprintln!("kill {round} at {moment:?}: {} ends", told.ends);
        // The next child recovers from the same kill if this one opens a copy.
        let opened = if round.is_multiple_of(2) {
            &path
        } else {
            std::fs::copy(&path, &copy).expect("a copy");
            &copy
        };
        // Of all rounds this takes the most time.
        let values = (round % 4 == 3 || round + 1 == kills).then(|| verified(&path));
        let held = check(opened, &told.model);
        recovery = told.recovery.unwrap_or(recovery);
        let present = held.values().filter(|state| state.is_some()).count();
        assert_eq!(
            values.unwrap_or(present as u64),
            present as u64,
            "verify and Retrieve differ"
        );
        model.acknowledged = held;
    }
    eprintln!(
        "{kills} kills, {within_recovery} within a recovery; {ends} changes, {checkpoints} checkpoints, {moves} moves"
    );
    // A busy machine delays the few kills of a short run.
    assert!(
        kills < 100 || within_recovery > 0,
        "none died in a recovery"
    );
    assert!(kills < 20 || checkpoints > 0, "no checkpoint was made");
    assert!(kills < 20 || moves > 0, "no value was moved");
}
