//! Power cuts and kills at any moment of random work: everything acknowledged is there, nothing else
//! is, and every value is whole. Nodes that a cut left are worked on and cut again.
//!
//! `TERRACE_NODE_IMAGES` is the number of images, `TERRACE_NODE_IMAGE_SEED` the first seed.

mod support;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::{Driver, Model, Moment, Shape, Sizes, check, check_space, new_disk, open, value_of};
use terrace_node::Key;
use terrace_node::device::{Disk, Wait};
use terrace_node::engine::{Answer, Command, Condition, Failure, Worker};
use terrace_node::format::namespace::{Domain, WhenFull};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

struct Work {
    driver: Driver<Worker>,
    model: Model,
    rng: StdRng,
    version: u64,
    shape: Shape,
    flushes: Vec<(u64, Moment)>,
}

impl Work {
    fn submit_one(&mut self) {
        let nsid = self.rng.random_range(1..=self.shape.domains.len() as u32);
        let number = self.rng.random_range(0..self.shape.keys);
        let key = Key::new(&number.to_be_bytes()).expect("legal");
        if self.rng.random_bool(0.03) {
            let tag = self.driver.submit(nsid, Command::Flush, None);
            self.flushes.push((tag, self.model.moment(nsid)));
            return;
        }
        if self.rng.random_bool(0.15) {
            let tag = self.driver.submit(nsid, Command::Delete { key }, None);
            self.model.under_way.insert(tag, ((nsid, key), None));
            return;
        }
        let bytes = self.shape.sizes.draw(&mut self.rng);
        self.version += 1;
        let value = value_of(&key, self.version, bytes);
        let condition = match self.rng.random_range(0..6) {
            0 => Condition::IfExists,
            1 => Condition::IfAbsent,
            _ => Condition::Always,
        };
        let tag = self.driver.store(nsid, key, value, condition);
        self.model
            .under_way
            .insert(tag, ((nsid, key), Some((self.version, bytes))));
    }

    fn collect(&mut self) {
        while let Some((tag, result)) = self.driver.ended.pop_front() {
            if let Some(at) = self.flushes.iter().position(|(of, _)| *of == tag) {
                let (_, moment) = self.flushes.swap_remove(at);
                assert_eq!(result, Ok(Answer::Flushed));
                self.model.settle(&moment);
                continue;
            }
            let (at, _) = self.model.under_way[&tag];
            let is_durable = self.shape.domains[at.0 as usize - 1] == Domain::PowerSafe;
            let took_effect = match result {
                Ok(Answer::Stored | Answer::Deleted) => true,
                Err(Failure::NotFound | Failure::KeyExists | Failure::CapacityExceeded) => false,
                other => panic!("{other:?}"),
            };
            self.model.acknowledge(tag, took_effect, is_durable);
        }
    }
}

/// Works until `steps` more operations of the device have begun.
fn work_on(disk: &Disk, work: &mut Work, steps: u64) {
    let end = disk.steps() + steps;
    while disk.steps() < end {
        if work.driver.engine.in_flight() < 8 {
            work.submit_one();
        }
        let wait = if work.driver.engine.in_flight() < 8 {
            Wait::No
        } else {
            Wait::Yes
        };
        work.driver.step(wait);
        work.collect();
    }
}

/// Opens a disk after a crash and compares it with the model. The model goes on from the state
/// found: a recovery flushes all that it shows.
fn recover(disk: &Disk, shape: &Shape, model: &mut Model) -> Driver<Worker> {
    let (node, worker) = open(disk);
    let mut driver = Driver::new(worker);
    let held = check(&mut driver, model);
    for nsid in 1..=shape.domains.len() as u32 {
        check_space(&node.statistics(nsid).expect("it is there"), &held, nsid);
    }
    *model = Model {
        acknowledged: held,
        evicts: shape.when_full == WhenFull::Evict,
        ..Model::default()
    };
    driver
}

fn run(seed: u64, shape: &Shape, images: &mut u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut disk = new_disk(shape, seed);
    let mut model = Model {
        evicts: shape.when_full == WhenFull::Evict,
        ..Model::default()
    };
    let mut version = 0;
    for life in 0..8_u64 {
        let driver = recover(&disk, shape, &mut model);
        let mut work = Work {
            driver,
            model: std::mem::take(&mut model),
            rng: StdRng::seed_from_u64(seed ^ life << 32),
            version,
            shape: shape.clone(),
            flushes: Vec::new(),
        };
        for _ in 0..3 {
            work_on(&disk, &mut work, rng.random_range(1..100));
            for _ in 0..2 {
                let image_seed = rng.random();
                let mut allowed = work.model.clone();
                let image = if rng.random_bool(0.8) {
                    disk.power_cut(image_seed)
                } else {
                    allowed.unsettled.clear();
                    disk.kill()
                };
                recover(&Disk::from_image(image, image_seed), shape, &mut allowed);
                *images += 1;
            }
        }
        let cut_seed = rng.random();
        if rng.random_bool(0.2) {
            (model, version) = end_in_order(work);
            disk = Disk::from_image(disk.power_cut(cut_seed), cut_seed);
            continue;
        }
        (model, version) = (work.model.clone(), work.version);
        if rng.random_bool(0.6) {
            disk = Disk::from_image(disk.power_cut(cut_seed), cut_seed);
        } else {
            // The process dies, the device stays: it may still lose unflushed data later.
            model.unsettled.clear();
            drop(work);
        }
    }
}

/// Waits for all commands and closes the loop: a power cut takes nothing of it.
fn end_in_order(mut work: Work) -> (Model, u64) {
    while work.driver.engine.in_flight() > 0 {
        work.driver.step(Wait::Yes);
        work.collect();
    }
    work.model.unsettled.clear();
    work.driver.engine.close().expect("the device works");
    (work.model, work.version)
}

fn cuts(shape: &Shape) {
    let (wanted, first) = (
        setting("TERRACE_NODE_IMAGES", 240),
        setting("TERRACE_NODE_IMAGE_SEED", 1),
    );
    // Images of large values take ten times as long.
    let share = if matches!(shape.sizes, Sizes::Huge) {
        8
    } else {
        1
    };
    let (mut images, mut seed) = (0, first);
    while images < wanted / share {
        run(seed, shape, &mut images);
        seed += 1;
    }
    println!("{images} images");
}

fn two(blocks: u64, sizes: Sizes, keys: u16) -> Shape {
    Shape {
        blocks: 2 * blocks + 2,
        domains: vec![Domain::PowerSafe, Domain::CrashSafe],
        sizes,
        keys,
        max_value_bytes: 4 << 20,
        ..Shape::default()
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_room() {
    cuts(&two(1024, Sizes::Mixed, 24));
}

#[test]
fn nothing_acknowledged_is_lost_of_small_values_that_fill_the_space() {
    cuts(&two(160, Sizes::Small, 400));
}

#[test]
fn nothing_acknowledged_is_lost_of_values_that_scatter() {
    cuts(&two(900, Sizes::Scattered, 160));
}

#[test]
fn nothing_acknowledged_is_lost_of_values_in_many_pieces() {
    cuts(&two(4096, Sizes::Huge, 8));
}

#[test]
fn nothing_is_lost_but_what_a_cache_drops() {
    let shape = two(160, Sizes::Small, 400);
    cuts(&Shape {
        when_full: WhenFull::Evict,
        ..shape
    });
}
