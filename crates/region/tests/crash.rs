//! Crashes at every operation, on every device: acknowledged frames are there as promised, all
//! frames there were appended, and nothing of an earlier generation comes back.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use terrace_region::{
    Error, Frame, MemoryKind, Placement, Recovered, Region, SimulatedMemory, WrittenOptions,
};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage, Storage};

const ARENA_BYTES: u64 = 16384;
const STORE: [u8; 16] = [7; 16];
const DIRECTORY: &str = "/region";
/// No length or sequence number that lies about looks like such a generation by chance.
const GENERATION_STEP: u64 = 1_000_000_007;

/// A device that outlives the regions on it.
enum Machine {
    Files(SimulatedStorage),
    Memory(SimulatedMemory),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Written,
    Dax,
    PageCache,
}

const KINDS: [Kind; 3] = [Kind::Written, Kind::Dax, Kind::PageCache];
const CRASHES: [CrashKind; 2] = [CrashKind::Kill, CrashKind::PowerCut];

impl Machine {
    fn new(kind: Kind, seed: u64, switch: &CrashSwitch) -> Self {
        let memory = |kind| Machine::Memory(SimulatedMemory::new(kind, seed, switch.clone()));
        match kind {
            Kind::Written => {
                let storage = SimulatedStorage::new(seed, switch.clone());
                storage.create_directory(Path::new(DIRECTORY)).unwrap();
                Machine::Files(storage)
            }
            Kind::Dax => memory(MemoryKind::Dax),
            Kind::PageCache => memory(MemoryKind::PageCache),
        }
    }

    fn crash(&self, kind: CrashKind, seed: u64) -> Machine {
        match self {
            Machine::Files(storage) => {
                Machine::Files(storage.crash(kind, seed, CrashSwitch::new()))
            }
            Machine::Memory(memory) => {
                Machine::Memory(memory.crash(kind, seed, CrashSwitch::new()))
            }
        }
    }

    fn region(&self) -> Region {
        match self {
            Machine::Files(storage) => {
                let storage = Arc::new(storage.clone());
                let directory = Path::new(DIRECTORY);
                Region::written(
                    storage,
                    directory,
                    STORE,
                    ARENA_BYTES,
                    WrittenOptions::default(),
                )
            }
            Machine::Memory(memory) => Region::open(Box::new(memory.clone()), STORE, ARENA_BYTES),
        }
        .unwrap()
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// Append a frame of this many bytes.
    Append(usize),
    Persist,
    /// Recycle the arena and begin the next generation.
    Roll,
}

/// Facts that the test has about the generation that the "manifest" names, which survives every
/// crash.
#[derive(Default)]
struct Known {
    slot: u64,
    generation: u64,
    /// Whether it was activated before the crash.
    is_activated: bool,
    /// Payloads in the order of their appends; the last one may not be acknowledged.
    attempted: Vec<Vec<u8>>,
    acknowledged: usize,
    persisted: usize,
}

fn payload(generation: u64, at: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|byte| (generation as usize * 31 + at * 7 + byte) as u8)
        .collect()
}

/// Runs actions until one fails; returns the facts that are known then.
fn run(region: &Region, actions: &[Action]) -> Known {
    let mut known = Known::default();
    let _: Result<(), Error> = (|| {
        let mut arena = roll(region, &mut known)?;
        for action in actions {
            match action {
                Action::Append(length) => {
                    let at = known.attempted.len();
                    let bytes = payload(known.generation, at, *length);
                    if bytes.len() > arena.remaining_payload_bytes() {
                        arena = roll(region, &mut known)?;
                        continue;
                    }
                    known.attempted.push(bytes.clone());
                    let (head, tail) = bytes.split_at(bytes.len() / 3);
                    arena.append(&Frame {
                        first_sequence: at as u64 + 1,
                        record_count: 1,
                        persisted_until: known.persisted as u64,
                        payload: &[head, tail],
                    })?;
                    known.acknowledged += 1;
                }
                Action::Persist => {
                    arena.persist()?;
                    known.persisted = known.acknowledged;
                    assert!(arena.is_persisted());
                }
                Action::Roll => arena = roll(region, &mut known)?,
            }
        }
        Ok(())
    })();
    known
}

fn roll(region: &Region, known: &mut Known) -> Result<Arc<terrace_region::Arena>, Error> {
    let generation = known.generation + GENERATION_STEP;
    if known.is_activated {
        region.recycle(known.slot)?;
    }
    let slot = region.reserve(ARENA_BYTES)?;
    *known = Known {
        slot: slot.number(),
        generation,
        ..Known::default()
    };
    let arena = region.activate(slot, generation)?;
    known.is_activated = true;
    Ok(arena)
}

fn check(region: &Region, known: &Known, crash: CrashKind) {
    if known.generation == 0 {
        return;
    }
    let recovered = region.recover(known.slot, known.generation).unwrap();
    check_header(&recovered, known, crash);
    let scan = &recovered.scan;
    let promised = match crash {
        CrashKind::Kill => known.acknowledged,
        CrashKind::PowerCut => known.persisted,
    };
    let frames = scan.frames() as usize;
    assert!(frames >= promised, "{promised} of {scan:?}");
    let arena = recovered.load(Placement::Memory).unwrap();
    assert_eq!(arena.frames().count(), frames);
    for (at, frame) in arena.frames().enumerate() {
        let frame = frame.unwrap();
        assert_eq!(frame.payload, known.attempted[at]);
        assert_eq!(frame.info.first_sequence, at as u64 + 1);
    }
    if let Some(behind) = scan.behind {
        let at = behind.first_sequence as usize - 1;
        assert!(at > frames, "behind the first frame that is lost");
        assert!(behind.last_sequence as usize <= known.attempted.len());
    }
    if crash == CrashKind::Kill {
        assert!(scan.behind.is_none(), "the process died, not the machine");
        let is_interrupted = known.attempted.len() > frames;
        assert!(
            !scan.torn || is_interrupted,
            "only the last append tears: {scan:?}"
        );
    }
    assert!(scan.search_complete);
    assert!(matches!(
        arena.append(&Frame {
            first_sequence: 1,
            record_count: 1,
            persisted_until: 0,
            payload: &[b"x"],
        }),
        Err(Error::Sealed)
    ));
}

fn check_header(recovered: &Recovered, known: &Known, crash: CrashKind) {
    if known.is_activated {
        assert!(
            recovered.is_activated,
            "the header is durable: {recovered:?}"
        );
    }
    if recovered.is_activated {
        assert_eq!(recovered.is_same_boot, crash == CrashKind::Kill);
    } else {
        assert!(!recovered.scan.has_frames() && !recovered.scan.is_damaged());
    }
    assert!(!recovered.has_lost_header());
}

/// Checks that the store goes on after a recovery: the slot takes a new generation, and only that
/// is found.
fn check_next_life(machine: &Machine, known: &Known) {
    let region = machine.region();
    for slot in region.slots().unwrap() {
        region.recycle(slot.number).unwrap();
    }
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let number = slot.number();
    let generation = known.generation + GENERATION_STEP;
    let arena = region.activate(slot, generation).unwrap();
    let frame = Frame {
        first_sequence: 77,
        record_count: 3,
        persisted_until: 0,
        payload: &[b"next life"],
    };
    arena.append(&frame).unwrap();
    arena.persist().unwrap();
    let machine = machine.crash(CrashKind::PowerCut, generation);
    let recovered = machine.region().recover(number, generation).unwrap();
    assert_eq!(recovered.scan.max_sequence(), Some(79));
    assert_eq!(recovered.scan.frames(), 1);
    assert!(!recovered.scan.is_damaged());
}

/// Lives one life: runs the actions until the machine dies at a step, and looks at the rest.
fn live_and_die(kind: Kind, seed: u64, actions: &[Action], steps: u64) {
    let switch = CrashSwitch::new();
    let machine = Machine::new(kind, seed, &switch);
    switch.freeze_at(switch.count() + steps);
    let known = run(&machine.region(), actions);
    for crash in CRASHES {
        let after = machine.crash(crash, seed ^ steps);
        check(&after.region(), &known, crash);
        check_next_life(&after, &known);
    }
}

fn count_steps(kind: Kind, actions: &[Action]) -> u64 {
    let switch = CrashSwitch::new();
    let machine = Machine::new(kind, 0, &switch);
    let before = switch.count();
    run(&machine.region(), actions);
    switch.count() - before
}

/// Returns actions that fill and reuse arenas, so that every later generation runs over old valid
/// frames.
fn script() -> Vec<Action> {
    let mut actions = Vec::new();
    for generation in 0..4 {
        actions.extend([700, 8, 1500, 16].map(Action::Append));
        actions.push(Action::Persist);
        actions.extend([1, 4000, 64, 64].map(Action::Append));
        if generation % 2 == 0 {
            actions.push(Action::Persist);
        }
        actions.push(Action::Append(300));
        actions.push(Action::Roll);
    }
    actions.push(Action::Append(700));
    actions
}

#[test]
fn every_crash_point_keeps_what_was_promised() {
    for kind in KINDS {
        let actions = script();
        for steps in 0..=count_steps(kind, &actions) {
            for seed in 0..4 {
                live_and_die(kind, seed, &actions, steps);
            }
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1..3000_usize).prop_map(Action::Append),
        2 => Just(Action::Persist),
        1 => Just(Action::Roll),
    ]
}

proptest! {
    #[test]
    fn random_runs_keep_what_was_promised(
        kind in prop::sample::select(KINDS.to_vec()),
        seed in any::<u64>(),
        actions in prop::collection::vec(action(), 1..60),
        point in any::<prop::sample::Index>(),
    ) {
        let steps = count_steps(kind, &actions);
        live_and_die(kind, seed, &actions, point.index(steps as usize + 1) as u64);
    }
}

/// `volatile` survives nothing; while it lives it holds exactly the appended frames.
#[test]
fn volatile_holds_what_was_appended() {
    let region = Region::volatile(ARENA_BYTES).unwrap();
    let appends = vec![Action::Append(1000); 40];
    let known = run(&region, &appends);
    assert_eq!(known.acknowledged, known.attempted.len());
    assert!(known.generation > GENERATION_STEP, "arenas were recycled");
    assert!(region.slots().unwrap().is_empty());
    assert!(matches!(
        region.recover(known.slot, known.generation),
        Err(Error::Missing { .. })
    ));
}
