//! Event loops that sleep on the engine's readiness alone: no wake may be lost.
//!
//! A sleep of 10 seconds fails the test.

mod support;

use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use support::{BUFFER_BYTES, Driver, Shape, Sizes, new_disk, value_of};
use tempfile::NamedTempFile;
use terrace_node::Key;
use terrace_node::device::{
    Access, Backend, Completion, Device, Disk, Faults, FaultyDevice, Kind, Medium, Request, Wait,
    Waker, open_device,
};
use terrace_node::engine::{Answer, Command, Condition, Engine, Failure, Node, Worker};
use terrace_node::lsm::{LsmEngine, LsmNamespace, LsmOptions};

const LOOPS: u64 = 3;
const OWN_KEYS: u64 = 60;
const IN_FLIGHT: usize = 24;
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
const NO_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Returns whether a descriptor becomes readable within a time, by `poll(2)`.
fn is_ready(readiness: BorrowedFd<'_>, limit: &Timespec) -> bool {
    loop {
        let mut polled = [PollFd::from_borrowed_fd(readiness, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(limit)) {
            Err(Errno::INTR) => {}
            ready => return ready.expect("a poll works") == 1,
        }
    }
}

/// The two ways to sleep.
enum Sleep {
    Poll,
    Epoll(OwnedFd),
}

impl Sleep {
    fn epoll(engine: &impl Engine) -> Self {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        let data = epoll::EventData::new_u64(1);
        epoll::add(&all, engine.readiness(), data, epoll::EventFlags::IN).expect("it is pollable");
        Sleep::Epoll(all)
    }

    fn sleep(&self, engine: &impl Engine) {
        let Sleep::Epoll(all) = self else {
            assert!(is_ready(engine.readiness(), &PATIENCE), "a wake was lost");
            return;
        };
        let mut events = Vec::with_capacity(4);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(all, spare, Some(&PATIENCE)) {
            // The caller polls in vain.
            Err(Errno::INTR) => {}
            woken => assert_eq!(woken.expect("it works"), 1, "a wake was lost"),
        }
    }
}

/// Polls, and sleeps if there was nothing.
fn turn<E: Engine>(driver: &mut Driver<E>, sleep: &Sleep) {
    let before = driver.handled;
    driver.step(Wait::No);
    if driver.handled == before {
        sleep.sleep(&driver.engine);
    }
}

/// One loop's work.
struct Work {
    of: u64,
    commands: u64,
    sizes: Sizes,
    /// Whether stores may fail for lack of space.
    is_crowded: bool,
}

impl Work {
    fn key(&self, number: u64) -> Key {
        Key::new(&[self.of as u8, number as u8]).expect("legal")
    }

    fn value(&self, number: u64, version: u64) -> Vec<u8> {
        let bytes = self
            .sizes
            .draw(&mut StdRng::seed_from_u64(number << 32 | version));
        value_of(&self.key(number), version, bytes)
    }

    /// Runs commands, with one of each own key in flight at most, beside stores of a key that all
    /// loops have.
    fn run<E: Engine>(&self, driver: &mut Driver<E>, sleep: &Sleep) {
        let mut rng = StdRng::seed_from_u64(self.of + 100);
        let mut versions: HashMap<u64, u64> = HashMap::new();
        let mut under_way: HashMap<u64, (u64, Option<u64>)> = HashMap::new();
        let mut busy = HashSet::new();
        let (mut begun, mut shared) = (0, 0);
        while begun < self.commands || !under_way.is_empty() {
            while begun < self.commands && under_way.len() < IN_FLIGHT {
                begun += 1;
                if begun % 8 == 0 {
                    let key = Key::new(b"shared").expect("legal");
                    driver.store(1, key, vec![1; 900], Condition::Always);
                    shared += 1;
                    continue;
                }
                let number = rng.random_range(0..OWN_KEYS);
                if !busy.insert(number) {
                    continue;
                }
                let key = self.key(number);
                let (tag, version) = match rng.random_range(0..8) {
                    0 => (driver.submit(1, Command::Delete { key }, None), None),
                    1..=3 => {
                        let max_bytes = u32::MAX;
                        let command = Command::Retrieve { key, max_bytes };
                        (driver.submit(1, command, None), None)
                    }
                    4 => (driver.submit(1, Command::Exist { key }, None), None),
                    _ => {
                        let value = self.value(number, begun);
                        let tag = driver.store(1, key, value, Condition::Always);
                        (tag, Some(begun))
                    }
                };
                under_way.insert(tag, (number, version));
            }
            turn(driver, sleep);
            while let Some((tag, result)) = driver.ended.pop_front() {
                let Some((number, version)) = under_way.remove(&tag) else {
                    shared -= 1;
                    let is_full = result == Err(Failure::CapacityExceeded);
                    assert!(result == Ok(Answer::Stored) || (is_full && self.is_crowded));
                    continue;
                };
                busy.remove(&number);
                let known = versions.get(&number).copied();
                match result {
                    Ok(Answer::Stored) => {
                        versions.insert(number, version.expect("a store"));
                    }
                    Ok(Answer::Deleted) => assert_eq!(versions.remove(&number), known),
                    Ok(Answer::Exists) => assert!(known.is_some()),
                    Ok(Answer::Retrieved(_)) => {
                        let value = self.value(number, known.expect("it was stored"));
                        assert!(driver.take_value(tag) == value, "{}/{number}", self.of);
                    }
                    Err(Failure::NotFound) => assert_eq!(known, None),
                    Err(Failure::CapacityExceeded) => assert!(self.is_crowded && version.is_some()),
                    other => panic!("{}/{number}: {other:?}", self.of),
                }
            }
        }
        while shared > 0 {
            turn(driver, sleep);
            shared -= driver.ended.drain(..).count();
        }
    }
}

/// A node, and the function that makes its devices.
struct Subject {
    name: &'static str,
    make: Box<dyn Fn() -> Box<dyn Device> + Send + Sync>,
    _file: Option<NamedTempFile>,
}

fn on_file(name: &'static str, shape: &Shape, backend: Backend, depth: usize) -> Option<Subject> {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    std::fs::write(file.path(), new_disk(shape, 5).image()).expect("it is written");
    let medium = Arc::new(Medium::open(file.path(), Access::Write).expect("it opens"));
    let make = move || open_device(Arc::clone(&medium), backend, depth);
    if let Err(error) = make() {
        eprintln!("SKIPPED: {name}: {error}");
        return None;
    }
    Some(Subject {
        name,
        make: Box::new(move || make().expect("it opened before")),
        _file: Some(file),
    })
}

fn in_memory(
    name: &'static str,
    disk: Disk,
    make: impl Fn(&Disk) -> Box<dyn Device> + Send + Sync + 'static,
) -> Option<Subject> {
    Some(Subject {
        name,
        make: Box::new(move || make(&disk)),
        _file: None,
    })
}

/// Returns nodes of a shape on all kinds of devices.
fn subjects(shape: &Shape) -> Vec<Subject> {
    let faulty =
        |disk: &Disk| Box::new(FaultyDevice::new(disk.device(), Faults::new())) as Box<dyn Device>;
    let plain = |disk: &Disk| Box::new(disk.device()) as Box<dyn Device>;
    let all = [
        on_file("ring", shape, Backend::Ring, 16),
        on_file("ring of one", shape, Backend::Ring, 1),
        on_file("threads", shape, Backend::Threads, 3),
        in_memory("memory", new_disk(shape, 6), plain),
        in_memory("memory in order", new_disk(shape, 7).in_order(), plain),
        in_memory("faulty memory", new_disk(shape, 8), faulty),
    ];
    all.into_iter().flatten().collect()
}

/// Runs loops on threads of their own; returns the node.
fn run_loops(subject: &Subject, loops: u64, work: impl Fn(u64) -> Work + Sync) -> Arc<Node> {
    let node = Node::open(&mut (subject.make)()).expect("it is new");
    thread::scope(|scope| {
        for of in 0..loops {
            let (node, work) = (&node, work(of));
            scope.spawn(move || {
                let worker = Worker::new(node, (subject.make)(), BUFFER_BYTES).expect("legal");
                let mut driver = Driver::new(worker);
                let sleep = match of % 2 {
                    0 => Sleep::Poll,
                    _ => Sleep::epoll(&driver.engine),
                };
                work.run(&mut driver, &sleep);
                // The moves of the loop's cleaner, whose records another loop may write.
                while driver.engine.in_flight() > 0 {
                    turn(&mut driver, &sleep);
                }
                driver.engine.close().expect("the device works");
            });
        }
    });
    node
}

#[test]
fn a_loop_sleeps_on_each_device() {
    let shape = Shape {
        blocks: 8192,
        keys: 400,
        ..Shape::default()
    };
    for subject in subjects(&shape) {
        eprintln!("{}", subject.name);
        run_loops(&subject, 1, |_| Work {
            of: 1,
            commands: 3000,
            sizes: Sizes::Mixed,
            is_crowded: false,
        });
    }
}

#[test]
fn large_values_wait_for_buffers() {
    let shape = Shape {
        blocks: 120_000,
        keys: 400,
        max_value_bytes: 4 << 20,
        ..Shape::default()
    };
    for subject in subjects(&shape).into_iter().take(4) {
        eprintln!("{}", subject.name);
        run_loops(&subject, 1, |of| Work {
            of,
            commands: 200,
            sizes: Sizes::Huge,
            is_crowded: false,
        });
    }
}

#[test]
fn several_loops_sleep_on_one_node() {
    let shape = Shape {
        blocks: 16_384,
        keys: 400,
        ..Shape::default()
    };
    for subject in subjects(&shape) {
        eprintln!("{}", subject.name);
        run_loops(&subject, LOOPS, |of| Work {
            of,
            commands: 1500,
            sizes: Sizes::Mixed,
            is_crowded: false,
        });
    }
}

#[test]
fn stores_sleep_until_another_loop_has_made_room() {
    let (small, scattered) = (2 + 64 + 16 + 96, 900);
    for (blocks, sizes) in [(small, Sizes::Small), (scattered, Sizes::Scattered)] {
        let shape = Shape {
            blocks,
            keys: 400,
            sizes,
            ..Shape::default()
        };
        for subject in subjects(&shape) {
            eprintln!("{} {sizes:?}", subject.name);
            let node = run_loops(&subject, LOOPS, |of| Work {
                of,
                commands: 2000,
                sizes,
                is_crowded: true,
            });
            let moves = node.statistics(1).expect("it is there").moves;
            // Scattered values find room by luck, now and then.
            let is_sure = matches!(sizes, Sizes::Small);
            assert!(moves > 0 || !is_sure, "no value was moved to make room");
        }
    }
}

#[test]
fn the_lsm_engine_is_slept_on() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for (of, sizes) in [(0, Sizes::Mixed), (1, Sizes::Huge)] {
        let mut namespace = LsmNamespace::new(1);
        namespace.max_value_bytes = 4 << 20;
        let path = directory.path().join(of.to_string());
        let mut options = LsmOptions::new(path, vec![namespace]);
        options.buffer_bytes = BUFFER_BYTES;
        let engine = LsmEngine::open(options).expect("it is new");
        let mut driver = Driver::new(engine);
        let sleep = match of {
            0 => Sleep::Poll,
            _ => Sleep::epoll(&driver.engine),
        };
        let work = Work {
            of,
            commands: if of == 0 { 3000 } else { 150 },
            sizes,
            is_crowded: false,
        };
        work.run(&mut driver, &sleep);
    }
}

/// Has another thread wake the engine for each of its messages.
fn messages_arrive<E: Engine>(engine: E, name: &str) {
    let mut driver = Driver::new(engine);
    driver.step(Wait::No);
    assert!(!is_ready(driver.engine.readiness(), &NO_TIME), "{name}");
    let waker = driver.engine.waker();
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for message in 0..3000_u32 {
                sender.send(message).expect("the loop takes all of them");
                waker.wake();
                if message % 100 == 0 {
                    thread::sleep(Duration::from_micros(300));
                }
            }
        });
        let mut expected = 0;
        while expected < 3000 {
            assert!(is_ready(driver.engine.readiness(), &PATIENCE), "{name}");
            driver.step(Wait::No);
            for message in receiver.try_iter() {
                assert_eq!(message, expected);
                expected += 1;
            }
        }
    });
    // The last wake may come while a poll takes the one before.
    driver.step(Wait::No);
    driver.step(Wait::No);
    assert!(!is_ready(driver.engine.readiness(), &NO_TIME), "{name}");
}

#[test]
fn a_waker_of_another_thread_ends_a_sleep() {
    for subject in subjects(&Shape::default()) {
        let node = Node::open(&mut (subject.make)()).expect("it is new");
        let worker = Worker::new(&node, (subject.make)(), BUFFER_BYTES).expect("legal");
        messages_arrive(worker, subject.name);
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let options = LsmOptions::new(directory.path().join("store"), vec![LsmNamespace::new(1)]);
    let engine = LsmEngine::open(options).expect("it is new");
    messages_arrive(Box::new(engine) as Box<dyn Engine>, "LSM");
}

/// Work that is done once, at a moment that the test chooses.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A device that calls a function before its next write, once that is set.
struct HookedDevice<D> {
    below: D,
    hook: Hook,
}

impl<D: Device> Device for HookedDevice<D> {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        if request.kind() == Kind::Write
            && let Some(hook) = self.hook.lock().expect("no panic").take()
        {
            hook();
        }
        self.below.submit(tag, request);
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> std::io::Result<()> {
        self.below.poll(wait, completions)
    }

    fn start(&mut self) -> std::io::Result<()> {
        self.below.start()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.below.readiness()
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}

#[test]
fn a_loop_that_closes_wakes_the_loops_whose_records_it_held_up() {
    let disk = new_disk(&Shape::default(), 9).in_order();
    let node = Node::open(&mut disk.device()).expect("it is new");
    let hook = Arc::default();
    let device = HookedDevice {
        below: disk.device(),
        hook: Arc::clone(&hook),
    };
    let mut closing = Driver::new(Worker::new(&node, Box::new(device), BUFFER_BYTES).unwrap());
    let worker = Worker::new(&node, Box::new(disk.device()), BUFFER_BYTES).unwrap();
    let other = Arc::new(Mutex::new(Driver::new(worker)));
    closing.put(1, support::key(1), vec![1; 100]).unwrap();
    // While the mark of the orderly end is written, the other loop cannot write its record.
    let during = Arc::clone(&other);
    *hook.lock().unwrap() = Some(Box::new(move || {
        let mut other = during.lock().unwrap();
        other.store(1, support::key(2), vec![2; 100], Condition::Always);
        for _ in 0..100 {
            other.step(Wait::No);
        }
        assert!(other.ended.is_empty() && !is_ready(other.engine.readiness(), &NO_TIME));
    }));
    closing.engine.close().unwrap();
    assert!(hook.lock().unwrap().is_none(), "a mark was written");
    let mut other = other.lock().unwrap();
    assert!(
        is_ready(other.engine.readiness(), &PATIENCE),
        "a wake was lost"
    );
    while other.ended.is_empty() {
        turn(&mut other, &Sleep::Poll);
    }
    assert_eq!(other.ended[0].1, Ok(Answer::Stored));
}
