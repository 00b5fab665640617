//! The operation that a thread is in, if it is watched.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Instant;

use super::{STAGES, Stage};

/// Of this many blocks of a flush or merge one is timed, for each stage, and counts for all.
const BLOCKS_ONE_IN: i64 = 8;

/// Time of a stage. It is signed: a block that counts for others takes their time from the stage
/// around it before they have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) nanoseconds: i64,
    /// Readings of the clock that are in it.
    pub(super) readings: i64,
}

const NOTHING: Spent = Spent {
    nanoseconds: 0,
    readings: 0,
};

/// The time of an operation by stages.
#[derive(Clone, Copy)]
pub(super) struct Stages {
    stage: Stage,
    /// How many blocks one that is timed counts for.
    block_weight: i64,
    pub(super) spent: [Spent; STAGES],
}

impl Stages {
    const NONE: Stages = Stages::beginning(Stage::Queue, 1);

    const fn beginning(stage: Stage, block_weight: i64) -> Self {
        Stages {
            stage,
            block_weight,
            spent: [NOTHING; STAGES],
        }
    }
}

struct Current {
    /// An operation is watched, or put aside.
    running: Cell<bool>,
    stage: Cell<Stage>,
    /// When it began.
    since: Cell<Option<Instant>>,
    block_weight: Cell<i64>,
    spent: [Cell<Spent>; STAGES],
    /// Blocks that went by untimed, by stage. They are counted across operations.
    untimed_blocks: [Cell<i64>; STAGES],
}

thread_local! {
    /// Whether stages are to be noted. It stands apart from the rest, for it is all that most
    /// callers need.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Current = const {
        Current {
            running: Cell::new(false),
            stage: Cell::new(Stage::Queue),
            since: Cell::new(None),
            block_weight: Cell::new(1),
            spent: [const { Cell::new(NOTHING) }; STAGES],
            untimed_blocks: [const { Cell::new(0) }; STAGES],
        }
    };
}

/// Puts the thread into this stage from now on.
#[inline(always)]
pub fn enter_stage(stage: Stage) {
    if WATCHED.get() {
        enter(stage);
    }
}

/// Puts the thread into this stage until the value is dropped, and then into the one of before.
#[inline(always)]
pub fn stage(stage: Stage) -> Within {
    Within {
        before: WATCHED.get().then(|| enter(stage)),
        thread: PhantomData,
    }
}

/// See [`stage`].
#[must_use]
pub struct Within {
    before: Option<Stage>,
    thread: PhantomData<*const ()>,
}

impl Drop for Within {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            enter(before);
        }
    }
}

/// Ends the present stage and begins another one. Which one it was.
#[cold]
fn enter(stage: Stage) -> Stage {
    CURRENT.with(|current| {
        current.close(Instant::now());
        current.stage.replace(stage)
    })
}

impl Current {
    /// Counts the time of the present stage until now.
    fn close(&self, now: Instant) {
        let Some(since) = self.since.replace(Some(now)) else {
            return;
        };
        self.add(self.stage.get(), nanoseconds(since, now), 1);
    }

    fn add(&self, stage: Stage, nanoseconds: i64, readings: i64) {
        if let Some(spent) = self.spent.get(stage as usize) {
            let before = spent.get();
            spent.set(Spent {
                nanoseconds: before.nanoseconds.saturating_add(nanoseconds),
                readings: before.readings.saturating_add(readings),
            });
        }
    }

    /// Returns whether a block is timed that the stage has come to.
    fn takes_block(&self, stage: Stage) -> bool {
        let Some(untimed) = self.untimed_blocks.get(stage as usize) else {
            return false;
        };
        let more = untimed.get() + 1;
        let is_taken = more >= self.block_weight.get();
        untimed.set(if is_taken { 0 } else { more });
        is_taken
    }

    /// Counts a timed block for all that went by. They are in the time of the stage around it,
    /// which is noted as a whole later, and are taken from it now.
    fn count_block(&self, stage: Stage, nanoseconds: i64) {
        let weight = self.block_weight.get();
        let all = nanoseconds.saturating_mul(weight);
        self.add(stage, all, weight);
        self.add(self.stage.get(), -all, 2 - weight);
    }
}

fn nanoseconds(from: Instant, to: Instant) -> i64 {
    i64::try_from(to.duration_since(from).as_nanos()).unwrap_or(i64::MAX)
}

/// Times work on one block, until the value is dropped.
#[inline(always)]
pub fn leaf(stage: Stage) -> Leaf {
    Leaf {
        began: if WATCHED.get() {
            begin_block(stage)
        } else {
            None
        },
        stage,
        thread: PhantomData,
    }
}

#[cold]
fn begin_block(stage: Stage) -> Option<Instant> {
    let is_taken = CURRENT.with(|current| current.takes_block(stage));
    is_taken.then(Instant::now)
}

/// See [`leaf`].
#[must_use]
pub struct Leaf {
    began: Option<Instant>,
    stage: Stage,
    thread: PhantomData<*const ()>,
}

impl Drop for Leaf {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(began) = self.began {
            end_block(self.stage, began);
        }
    }
}

#[cold]
fn end_block(stage: Stage, began: Instant) {
    let took = nanoseconds(began, Instant::now());
    CURRENT.with(|current| current.count_block(stage, took));
}

/// Notes nothing until the value is dropped: the work meanwhile is another operation's, or noted in
/// another way.
pub(super) fn aside() -> Aside {
    let was_watched = WATCHED.replace(false);
    if was_watched {
        CURRENT.with(|current| current.close(Instant::now()));
    }
    Aside {
        was_watched,
        thread: PhantomData,
    }
}

/// See [`aside`].
#[must_use]
pub(super) struct Aside {
    was_watched: bool,
    thread: PhantomData<*const ()>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.was_watched {
            CURRENT.with(|current| current.since.set(Some(Instant::now())));
            WATCHED.set(true);
        }
    }
}

/// Watches the thread until the value is ended. An operation that it is in already, as where
/// background work is done in the caller's thread, is put aside until then.
pub(super) struct Watch {
    outer: Option<Box<(Stages, Aside)>>,
}

impl Watch {
    /// Begins a watch. `one_in` is that of the operation: blocks are many only where every
    /// operation is watched.
    pub(super) fn begin(stage: Stage, one_in: u32) -> Self {
        let block_weight = if one_in == 1 { BLOCKS_ONE_IN } else { 1 };
        CURRENT.with(|current| {
            let outer = current.running.replace(true).then(|| {
                let aside = aside();
                Box::new((current.exchange(Stages::NONE), aside))
            });
            current.exchange(Stages::beginning(stage, block_weight));
            current.since.set(Some(Instant::now()));
            WATCHED.set(true);
            Watch { outer }
        })
    }

    /// Ends the watch; returns the time by stages.
    pub(super) fn end(&mut self) -> Stages {
        CURRENT.with(|current| {
            current.close(Instant::now());
            WATCHED.set(false);
            current.since.set(None);
            let (outer, aside) = match self.outer.take() {
                Some(outer) => (outer.0, Some(outer.1)),
                None => (Stages::NONE, None),
            };
            current.running.set(aside.is_some());
            current.exchange(outer)
            // The operation around this one goes on where `aside` is dropped.
        })
    }
}

impl Current {
    fn exchange(&self, stages: Stages) -> Stages {
        let mut before = Stages {
            stage: self.stage.replace(stages.stage),
            block_weight: self.block_weight.replace(stages.block_weight),
            spent: [NOTHING; STAGES],
        };
        let cells = self.spent.iter().zip(&stages.spent);
        for (before, (cell, spent)) in before.spent.iter_mut().zip(cells) {
            *before = cell.replace(*spent);
        }
        before
    }
}
