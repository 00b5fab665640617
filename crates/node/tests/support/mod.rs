//! Shared by the engine's tests: small simulated nodes, a driver, and a model of the contents.

#![allow(dead_code)]

pub mod holding;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use terrace_node::Key;
use terrace_node::block::BLOCK_BYTES;
use terrace_node::device::{Device, Disk, Wait};
use terrace_node::engine::{
    Answer, Command, Condition, Engine, Event, Failure, Node, Statistics, Worker, create,
};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, WhenFull};
use terrace_node::format::superblock::Superblock;

pub const BUFFER_BYTES: usize = 3 << 20;

/// Shape of a test's namespace.
#[derive(Clone, Debug)]
pub struct Shape {
    pub blocks: u64,
    pub domains: Vec<Domain>,
    pub when_full: WhenFull,
    pub max_value_bytes: u32,
    pub sizes: Sizes,
    /// Number of keys.
    pub keys: u16,
}

/// Lengths of values.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// From nothing to some pieces of 64 KiB.
    Mixed,
    /// Values that lie in cells.
    Small,
    /// A few blocks, and now and then more than there is in one run.
    Scattered,
    /// More than one buffer.
    Huge,
}

impl Sizes {
    pub fn draw(self, rng: &mut StdRng) -> usize {
        match (self, rng.random_range(0..10)) {
            (Sizes::Mixed, 0) => 0,
            (Sizes::Mixed, 1..=5) => rng.random_range(1..=2048),
            (Sizes::Mixed, 6..=8) => rng.random_range(2049..40_000),
            (Sizes::Mixed, _) => rng.random_range(40_000..200_000),
            (Sizes::Small, 0) => rng.random_range(1500..=2048),
            (Sizes::Small, _) => rng.random_range(0..600),
            (Sizes::Scattered, 0) => rng.random_range(300_000..700_000),
            (Sizes::Scattered, _) => rng.random_range(2049..20_000),
            (Sizes::Huge, _) => rng.random_range(500_000..3_000_000),
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            blocks: 1024,
            domains: vec![Domain::PowerSafe],
            when_full: WhenFull::Refuse,
            max_value_bytes: 1 << 20,
            sizes: Sizes::Mixed,
            keys: 40,
        }
    }
}

/// Makes an empty node on a simulated disk: one namespace for each domain.
pub fn new_disk(shape: &Shape, seed: u64) -> Disk {
    let count = shape.domains.len() as u64;
    let requests: Vec<NamespaceRequest> = shape
        .domains
        .iter()
        .enumerate()
        .map(|(at, domain)| NamespaceRequest {
            domain: *domain,
            when_full: shape.when_full,
            bytes: Some((shape.blocks - 2) / count * BLOCK_BYTES as u64),
            max_value_bytes: shape.max_value_bytes,
            max_keys: Some(shape.keys.into()),
            ..NamespaceRequest::new(format!("test{at}"))
        })
        .collect();
    let mut rng = StdRng::seed_from_u64(seed);
    let superblock =
        Superblock::new(shape.blocks, &requests, &mut rng).expect("the device is large enough");
    let disk = Disk::new(shape.blocks, seed);
    create(&mut disk.device(), &superblock).expect("an empty device can be written");
    disk
}

/// Opens a node and one event loop on it.
pub fn open(disk: &Disk) -> (Arc<Node>, Worker) {
    let node = Node::open(&mut disk.device()).expect("a node that a crash left opens");
    let device: Box<dyn Device> = Box::new(disk.device());
    let worker = Worker::new(&node, device, BUFFER_BYTES).expect("a legal budget");
    (node, worker)
}

/// Returns the key of a number: four bytes.
pub fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).expect("legal")
}

/// Returns the superblock of a simulated node.
pub fn superblock(disk: &Disk) -> Superblock {
    Superblock::decode(&disk.image()[..4096], 0, disk.device().bytes() / 4096).expect("it is whole")
}

/// Opens a node, and returns one event loop on it.
pub fn driver(disk: &Disk) -> Driver<Worker> {
    Driver::new(open(disk).1)
}

/// Returns the value of a key's `version`: its size and bytes follow from both.
pub fn value_of(key: &Key, version: u64, bytes: usize) -> Vec<u8> {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(key.padded());
    seed[16..24].copy_from_slice(&version.to_le_bytes());
    let mut rng = StdRng::from_seed(seed);
    let mut value = vec![0; bytes];
    rng.fill(&mut value[..]);
    value
}

/// Drives an engine: fills wanted pieces, collects retrieved ones.
pub struct Driver<E> {
    pub engine: E,
    values: HashMap<u64, Vec<u8>>,
    retrieved: HashMap<u64, Vec<u8>>,
    /// Whether the last piece was there, by tag.
    whole: HashMap<u64, bool>,
    next_tag: u64,
    /// Commands that have ended since the last look.
    pub ended: VecDeque<(u64, Result<Answer, Failure>)>,
    events: Vec<Event>,
    /// Number of events so far.
    pub handled: u64,
    /// Whether other loops must get their turn while this one waits: a simulated disk does not.
    pub yields: bool,
}

impl<E: Engine> Driver<E> {
    pub fn new(engine: E) -> Self {
        Driver {
            engine,
            values: HashMap::new(),
            retrieved: HashMap::new(),
            whole: HashMap::new(),
            next_tag: 1,
            ended: VecDeque::new(),
            events: Vec::new(),
            handled: 0,
            yields: false,
        }
    }

    pub fn submit(&mut self, nsid: u32, command: Command, value: Option<Vec<u8>>) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        if let Some(value) = value {
            self.values.insert(tag, value);
        }
        self.engine.submit(tag, nsid, command);
        tag
    }

    pub fn store(&mut self, nsid: u32, key: Key, value: Vec<u8>, condition: Condition) -> u64 {
        let command = Command::Store {
            key,
            value_bytes: value.len() as u32,
            condition,
        };
        self.submit(nsid, command, Some(value))
    }

    /// Polls once.
    pub fn step(&mut self, wait: Wait) {
        let mut events = std::mem::take(&mut self.events);
        self.engine
            .poll(wait, &mut events)
            .expect("the device's queue works");
        for event in events.drain(..) {
            self.handled += 1;
            self.handle(event);
        }
        self.events = events;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Want {
                tag,
                offset,
                bytes,
                mut buffer,
            } => {
                let range = offset as usize..offset as usize + bytes as usize;
                buffer[..bytes as usize].copy_from_slice(&self.values[&tag][range]);
                self.engine.supply(tag, buffer);
            }
            Event::Piece {
                tag,
                offset,
                at,
                bytes,
                is_last,
                buffer,
            } => {
                let value = self.retrieved.entry(tag).or_default();
                assert_eq!(value.len(), offset as usize, "pieces come in order");
                value.extend_from_slice(&buffer[at..at + bytes as usize]);
                self.engine.give_back(tag, buffer);
                assert!(
                    self.whole.insert(tag, is_last) != Some(true),
                    "one is the last"
                );
            }
            Event::Done { tag, result } => {
                let is_whole = self.whole.remove(&tag).unwrap_or(true);
                assert!(is_whole || result.is_err(), "the last piece says so");
                self.values.remove(&tag);
                self.ended.push_back((tag, result));
            }
        }
    }

    /// Returns the bytes that were retrieved under a tag.
    pub fn take_value(&mut self, tag: u64) -> Vec<u8> {
        self.retrieved.remove(&tag).unwrap_or_default()
    }

    /// Waits for one command.
    pub fn finish(&mut self, tag: u64) -> Result<Answer, Failure> {
        for _ in 0..1_000_000 {
            if let Some(at) = self.ended.iter().position(|(ended, _)| *ended == tag) {
                return self.ended.remove(at).expect("it is there").1;
            }
            self.step(Wait::Yes);
            if self.yields {
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        }
        panic!("command {tag} does not end");
    }

    pub fn put(&mut self, nsid: u32, key: Key, value: Vec<u8>) -> Result<Answer, Failure> {
        let tag = self.store(nsid, key, value, Condition::Always);
        self.finish(tag)
    }

    pub fn get(&mut self, nsid: u32, key: Key) -> Result<Vec<u8>, Failure> {
        self.get_prefix(nsid, key, u32::MAX)
    }

    pub fn get_prefix(&mut self, nsid: u32, key: Key, max: u32) -> Result<Vec<u8>, Failure> {
        let tag = self.submit(
            nsid,
            Command::Retrieve {
                key,
                max_bytes: max,
            },
            None,
        );
        let result = self.finish(tag);
        let value = self.take_value(tag);
        result.map(|_| value)
    }

    pub fn delete(&mut self, nsid: u32, key: Key) -> Result<Answer, Failure> {
        let tag = self.submit(nsid, Command::Delete { key }, None);
        self.finish(tag)
    }

    pub fn exists(&mut self, nsid: u32, key: Key) -> bool {
        let tag = self.submit(nsid, Command::Exist { key }, None);
        self.finish(tag).is_ok()
    }

    /// Lists all keys, a few at a time.
    pub fn list(&mut self, nsid: u32) -> Vec<Key> {
        let mut all: Vec<Key> = Vec::new();
        loop {
            let from = all.last().copied();
            let tag = self.submit(nsid, Command::List { from, max_keys: 7 }, None);
            let Ok(Answer::Keys(keys)) = self.finish(tag) else {
                panic!("a list cannot fail");
            };
            let skip = usize::from(from.is_some());
            assert_eq!(
                keys.first().copied().filter(|_| skip == 1),
                from,
                "a list begins at its key"
            );
            all.extend_from_slice(&keys[skip.min(keys.len())..]);
            if keys.len() < 7 {
                return all;
            }
        }
    }
}

/// The state of a key: none, or the version and size of its value.
pub type KeyState = Option<(u64, usize)>;

/// Possible contents: by key, the acknowledged state and those of commands under way.
#[derive(Clone, Default)]
pub struct Model {
    pub acknowledged: BTreeMap<(u32, Key), KeyState>,
    pub under_way: BTreeMap<u64, ((u32, Key), KeyState)>,
    /// Acknowledged states that a power cut may take back, the oldest first, by key.
    pub unsettled: BTreeMap<(u32, Key), VecDeque<KeyState>>,
    /// Whether a key may be dropped to make room.
    pub evicts: bool,
    /// Number of states that were settled, ever.
    pub settled: BTreeMap<(u32, Key), usize>,
}

/// Number of acknowledged states of each key of a namespace.
pub type Moment = BTreeMap<(u32, Key), usize>;

impl Model {
    /// Returns every state that the key may have after a power cut.
    pub fn allowed(&self, at: &(u32, Key)) -> Vec<KeyState> {
        let mut allowed = vec![self.acknowledged.get(at).copied().flatten()];
        allowed.extend(
            self.under_way
                .values()
                .filter(|(key, _)| key == at)
                .map(|(_, state)| *state),
        );
        allowed.extend(self.unsettled.get(at).into_iter().flatten().copied());
        if self.evicts {
            allowed.push(None);
        }
        allowed
    }

    pub fn acknowledge(&mut self, tag: u64, took_effect: bool, is_durable: bool) {
        let Some((at, state)) = self.under_way.remove(&tag) else {
            return;
        };
        if !took_effect {
            return;
        }
        let before = self.acknowledged.insert(at, state).flatten();
        if !is_durable {
            self.unsettled.entry(at).or_default().push_back(before);
        }
    }

    /// Returns the present moment of a namespace, for `settle`.
    pub fn moment(&self, nsid: u32) -> Moment {
        let own = self.unsettled.iter().filter(|((of, _), _)| *of == nsid);
        own.map(|(at, states)| (*at, self.settled.get(at).unwrap_or(&0) + states.len()))
            .collect()
    }

    /// Settles everything acknowledged before `moment`: it has become durable.
    pub fn settle(&mut self, moment: &Moment) {
        for (at, end) in moment {
            let settled = self.settled.entry(*at).or_default();
            let states = self.unsettled.entry(*at).or_default();
            while *settled < *end {
                states.pop_front();
                *settled += 1;
            }
        }
    }
}

/// Checks that a recovered node holds only states that the model allows, whole, and the same by
/// every command. Returns these states.
pub fn check<E: Engine>(driver: &mut Driver<E>, model: &Model) -> BTreeMap<(u32, Key), KeyState> {
    let mut held = BTreeMap::new();
    let mut keys: Vec<(u32, Key)> = model.acknowledged.keys().copied().collect();
    keys.extend(model.under_way.values().map(|(at, _)| *at));
    keys.sort();
    keys.dedup();
    for at in &keys {
        let (nsid, key) = *at;
        let allowed = model.allowed(at);
        let state = match driver.get(nsid, key) {
            Ok(value) => {
                let fits = |state: &&KeyState| {
                    state.is_some_and(|(version, bytes)| {
                        bytes == value.len() && value_of(&key, version, bytes) == value
                    })
                };
                let state = allowed.iter().find(fits);
                *state.unwrap_or_else(|| {
                    panic!(
                        "{nsid} {key:?}: {} bytes are none of {allowed:?}",
                        value.len()
                    )
                })
            }
            Err(Failure::NotFound) => {
                assert!(
                    allowed.contains(&None),
                    "{nsid} {key:?} is lost: {allowed:?}"
                );
                None
            }
            Err(failure) => panic!("{nsid} {key:?}: {failure}"),
        };
        assert_eq!(driver.exists(nsid, key), state.is_some());
        held.insert(*at, state);
    }
    let mut namespaces: Vec<u32> = keys.iter().map(|(nsid, _)| *nsid).collect();
    namespaces.dedup();
    for nsid in namespaces {
        let mut listed = driver.list(nsid);
        listed.sort();
        let expected: Vec<Key> = held
            .iter()
            .filter(|((of, _), state)| *of == nsid && state.is_some())
            .map(|((_, key), _)| *key)
            .collect();
        assert_eq!(listed, expected, "List and Retrieve differ");
    }
    held
}

/// Checks that the blocks in use are those of the values that are there.
pub fn check_space(statistics: &Statistics, held: &BTreeMap<(u32, Key), KeyState>, nsid: u32) {
    let large: u64 = held
        .iter()
        .filter(|((of, _), _)| *of == nsid)
        .filter_map(|(_, state)| state.map(|(_, bytes)| bytes))
        .filter(|&bytes| bytes > 2048)
        .map(|bytes| terrace_node::format::value::blocks_needed(bytes as u32, 1))
        .sum();
    let used = statistics.data_blocks - statistics.free_blocks;
    let most = large + statistics.segments * 16;
    // The trailer of a value in several extents may take a block more.
    assert!(
        used >= most && used <= most + held.len() as u64,
        "{used} blocks for {most}"
    );
}
