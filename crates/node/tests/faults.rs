//! An error at any request, and a crash at every step, of work that keeps the cleaner, the
//! defragmenter and the checkpoints busy: nothing acknowledged is lost, and nothing half done shows.
//!
//! `TERRACE_NODE_FAULTS` is the number of errors of each kind of work.

mod support;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{
    BUFFER_BYTES, Driver, Model, Shape, Sizes, check, check_space, new_disk, open, value_of,
};
use terrace_node::Key;
use terrace_node::device::{Device, Disk, Fault, Faults, FaultyDevice, Kind, Wait};
use terrace_node::engine::{Answer, Command, Condition, Failure, Node, Worker};
use terrace_node::format::namespace::Domain;

struct Work {
    driver: Driver<Worker>,
    model: Model,
    rng: StdRng,
    version: u64,
    shape: Shape,
    /// Whether the namespace takes no changes any more.
    is_poisoned: bool,
    failed_writes: u32,
}

impl Work {
    fn new(worker: Worker, seed: u64, shape: &Shape) -> Self {
        Work {
            driver: Driver::new(worker),
            model: Model::default(),
            rng: StdRng::seed_from_u64(seed),
            version: 0,
            shape: shape.clone(),
            is_poisoned: false,
            failed_writes: 0,
        }
    }

    fn submit_one(&mut self) {
        let number = self.rng.random_range(0..self.shape.keys);
        let key = Key::new(&number.to_be_bytes()).expect("legal");
        if self.rng.random_bool(0.15) {
            let tag = self.driver.submit(1, Command::Delete { key }, None);
            self.model.under_way.insert(tag, ((1, key), None));
            return;
        }
        let bytes = self.shape.sizes.draw(&mut self.rng);
        self.version += 1;
        let value = value_of(&key, self.version, bytes);
        let tag = self.driver.store(1, key, value, Condition::Always);
        let state = Some((self.version, bytes));
        self.model.under_way.insert(tag, ((1, key), state));
    }

    fn collect(&mut self) {
        while let Some((tag, result)) = self.driver.ended.pop_front() {
            match result {
                Ok(Answer::Stored | Answer::Deleted) => self.model.acknowledge(tag, true, true),
                Err(Failure::NotFound | Failure::CapacityExceeded) => {
                    self.model.acknowledge(tag, false, true);
                }
                Err(Failure::WriteFailed(_)) => {
                    self.failed_writes += 1;
                    self.model.acknowledge(tag, false, true);
                }
                // Its record may be durable, or not.
                Err(Failure::Poisoned(_)) => self.is_poisoned = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn step(&mut self) {
        let wait = if self.driver.engine.in_flight() < 6 {
            self.submit_one();
            Wait::No
        } else {
            Wait::Yes
        };
        self.driver.step(wait);
        self.collect();
    }
}

fn shapes() -> [Shape; 3] {
    let shape = |blocks, sizes, keys| Shape {
        blocks,
        domains: vec![Domain::PowerSafe],
        sizes,
        keys,
        ..Shape::default()
    };
    [
        shape(1024, Sizes::Mixed, 24),
        shape(2 + 64 + 16 + 96, Sizes::Small, 200),
        shape(900, Sizes::Scattered, 160),
    ]
}

/// Checks the image that a crash or an error left, on a device without faults.
fn check_recovered(image: Vec<u8>, model: &Model, seed: u64) {
    let disk = Disk::from_image(image, seed);
    let (node, worker) = open(&disk);
    let mut driver = Driver::new(worker);
    let held = check(&mut driver, model);
    check_space(&node.statistics(1).expect("it is there"), &held, 1);
}

#[test]
fn an_error_at_any_request_loses_nothing() {
    let count: u64 =
        std::env::var("TERRACE_NODE_FAULTS").map_or(60, |text| text.parse().expect("a number"));
    let (mut poisoned, mut failed, mut moves, mut checkpoints) = (0, 0, 0, 0);
    for (shape, of_shape) in shapes().iter().zip(1..) {
        for seed in 0..count {
            let mut rng = StdRng::seed_from_u64(seed << 8 | of_shape);
            let disk = new_disk(shape, seed);
            let node = Node::open(&mut disk.device()).expect("it is new");
            let faults = Faults::new();
            let device: Box<dyn Device> =
                Box::new(FaultyDevice::new(disk.device(), faults.clone()));
            let worker = Worker::new(&node, device, BUFFER_BYTES).expect("a legal budget");
            let mut work = Work::new(worker, seed, shape);
            // The node is full enough first that work to make room is under way.
            let before = rng.random_range(0..400);
            (0..before).for_each(|_| work.step());
            let times = if rng.random_bool(0.5) {
                Some(1)
            } else {
                Some(3)
            };
            faults.add(Fault {
                kind: [Some(Kind::Write), Some(Kind::Flush), None][rng.random_range(0..3)],
                range: None,
                skip: rng.random_range(0..20),
                times,
                errno: [5, 28][rng.random_range(0..2)],
            });
            for _ in 0..400 {
                if work.is_poisoned {
                    break;
                }
                work.step();
            }
            poisoned += u64::from(work.is_poisoned);
            failed += work.failed_writes;
            let statistics = node.statistics(1).expect("it is there");
            (moves, checkpoints) = (
                moves + statistics.moves,
                checkpoints + statistics.checkpoints,
            );
            check_recovered(disk.power_cut(seed), &work.model, seed);
            check_recovered(disk.kill(), &work.model, seed);
        }
    }
    assert!(
        poisoned > 20 && failed > 5,
        "{poisoned} poisoned, {failed} writes failed"
    );
    assert!(
        moves > 100 && checkpoints > 20,
        "{moves} moves, {checkpoints} checkpoints"
    );
}

#[test]
fn a_crash_at_every_step_loses_nothing() {
    let shape = Shape {
        keys: 24,
        ..shapes()[0].clone()
    };
    let mut last = 0;
    for point in 1..260 {
        let disk = new_disk(&shape, 3);
        let start = disk.steps();
        let (_node, worker) = open(&disk);
        let mut work = Work::new(worker, 3, &shape);
        disk.stop_after(start + point);
        while !disk.is_stopped() {
            work.step();
        }
        last = work.version;
        check_recovered(disk.power_cut(point), &work.model, point);
        check_recovered(disk.kill(), &work.model, point);
    }
    assert!(last > 50, "only {last} stores");
}
