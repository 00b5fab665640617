//! Every operation of a script on storage fails once, or from then on, in every way it can.
//!
//! The script is run once to count its operations, then once for each of them. While the fault
//! lasts, calls may fail with a typed error, and no acknowledged write may be lost. When the
//! storage is healed, the store either goes on by itself, or it is poisoned. A poisoned store
//! serves reads and refuses writes with the cause, a failed sync of an arena or the manifest;
//! reopening brings everything back. Each run ends with a kill, a power cut and an orderly
//! reopening, which must all find every promised write.
//!
//! `TERRACE_FAULT_STRIDE` sets how many operations lie between two faults (1 by default).

mod image;
mod support;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use image::STORE;
use support::model::{Model, State, Write, assert_same, read_all};
use support::script::{KEYSPACES, Operation as Step, Script, tiny};
use terrace::{Background, Db, Error, KeyspaceId, Options, Result, WriteOptions, internal};
use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation, Purpose,
    SimulatedStorage, Storage,
};

/// Start of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// No store; not even a directory.
    Nothing,
    /// A store that was killed with tables on some levels and frames in its arenas.
    Killed,
}

/// Parts that a run needs to begin.
struct Base {
    start: Start,
    disk: SimulatedStorage,
    model: Model,
    steps: Vec<Step>,
}

fn options(storage: Arc<dyn Storage>) -> Options {
    tiny(Options {
        storage,
        background: Background::Inline,
        ..Options::default()
    })
}

fn open(disk: &SimulatedStorage) -> Result<Db> {
    Db::open(STORE, options(Arc::new(disk.clone())))
}

impl Base {
    fn new(start: Start) -> Base {
        let disk = SimulatedStorage::new(1, CrashSwitch::new());
        let mut model = Model::default();
        let mut script = Script::new(1, true);
        let mut killed = None;
        if start == Start::Killed {
            let db = open(&disk).unwrap();
            internal::create_second(&db).unwrap();
            for _ in 0..120 {
                let Step::Write { writes, .. } = script.write() else {
                    unreachable!()
                };
                db.write(model.batch(writes), WriteOptions::default())
                    .unwrap();
            }
            model.acknowledged = model.tried();
            killed = Some(disk.crash(CrashKind::Kill, 1, CrashSwitch::new()));
        }
        let mut steps = Vec::new();
        for position in 1..=36 {
            steps.push(script.write());
            match position {
                9 => steps.push(Step::Persist),
                14 | 29 => steps.push(Step::Flush),
                19 => steps.push(Step::Compact),
                24 => steps.push(Step::Reopen),
                _ => {}
            }
        }
        if start == Start::Nothing {
            // The second keyspace is not there.
            for step in &mut steps {
                if let Step::Write { writes, .. } = step {
                    writes
                        .iter_mut()
                        .for_each(|write| write.0 = KeyspaceId::DEFAULT);
                }
            }
        }
        Base {
            start,
            disk: killed.unwrap_or(disk),
            model,
            steps,
        }
    }

    fn keyspaces(&self) -> &'static [KeyspaceId] {
        if self.start == Start::Nothing {
            &KEYSPACES[..1]
        } else {
            &KEYSPACES
        }
    }
}

/// The fault of one run.
#[derive(Clone, Copy)]
struct Injected {
    fault: Fault,
    at: u64,
    lasting: bool,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.lasting {
            "from operation"
        } else {
            "at operation"
        };
        write!(f, "{:?} {when} {}", self.fault, self.at)
    }
}

/// A run of a script with a fault.
struct Run {
    base: Rc<Base>,
    injected: Injected,
    disk: SimulatedStorage,
    plan: FaultPlan,
    options: Options,
    db: Option<Db>,
    model: Model,
    /// The model with a write that failed, for each since the last that was acknowledged: it may be
    /// there after a reopening, as a whole.
    uncertain: Vec<Model>,
    /// The same for each since the last that is persistent: a later write is stored in its place,
    /// which a power cut undoes if it has not reached the disk.
    undone_by_power_cut: Vec<Model>,
    /// Calls that failed.
    refused: u64,
    /// Background steps that were repeated in stores that were closed since, with a cause.
    retries: u64,
}

impl Run {
    fn new(base: &Rc<Base>, filter: FaultFilter, injected: Injected) -> Self {
        let disk = base
            .disk
            .crash(CrashKind::Kill, injected.at, CrashSwitch::new());
        let plan = FaultPlan::new(filter);
        let failing = FailingStorage::new(Arc::new(disk.clone()), plan.clone());
        Run {
            base: Rc::clone(base),
            injected,
            disk,
            plan,
            options: options(Arc::new(failing)),
            db: None,
            model: base.model.clone(),
            uncertain: Vec::new(),
            undone_by_power_cut: Vec::new(),
            refused: 0,
            retries: 0,
        }
    }

    /// Runs the script. Returns the number of operations that might have failed.
    fn run(&mut self) -> u64 {
        let Injected { fault, at, lasting } = self.injected;
        if lasting {
            self.plan.fail_from(at, fault);
        } else {
            self.plan.fail_at(at, fault);
        }
        self.open();
        let base = Rc::clone(&self.base);
        for step in &base.steps {
            self.apply(step.clone());
        }
        let count = self.plan.count();
        self.plan.heal();
        count
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Opens the store; where the fault forbids it, after healing.
    fn open(&mut self) {
        self.db = match Db::open(STORE, self.options.clone()) {
            Ok(db) => Some(db),
            Err(error) => {
                self.refuse(&error);
                self.plan.heal();
                let opened = Db::open(STORE, self.options.clone());
                Some(
                    opened
                        .unwrap_or_else(|error| panic!("{self}: not opened when healed: {error}")),
                )
            }
        };
        let found = match read_all(self.db(), self.base.keyspaces(), None) {
            Ok(found) => found,
            Err(error) => {
                self.refuse(&error);
                self.plan.heal();
                self.read_all()
            }
        };
        self.settle(found);
    }

    /// Takes over which of the uncertain writes a reopening has brought back.
    fn settle(&mut self, found: State) {
        if found != self.model.state
            && let Some(model) = self.uncertain.iter().find(|model| model.state == found)
        {
            self.model = model.clone();
            self.model.acknowledged = model.tried();
        }
        self.assert_is(&found, &self.model.state);
        self.uncertain.clear();
        self.undone_by_power_cut.clear();
        // An owner moves recovered writes to tables before it is open.
        self.model.persisted = self.model.tried();
    }

    fn apply(&mut self, step: Step) {
        let persists = matches!(step, Step::Persist | Step::Flush | Step::Reopen);
        let result = match step {
            Step::Write { writes, sync } => return self.write(writes, sync),
            Step::Persist => self.db().persist(),
            Step::Flush => self.db().flush(),
            Step::Compact => self.db().compact(),
            Step::Reopen => {
                self.retries += self.shown_retries();
                let closed = self.db().close();
                self.db = None;
                closed
            }
            _ => unreachable!("not in these scripts"),
        };
        match result {
            Ok(()) if persists => self.model.persisted = self.model.tried(),
            Ok(()) => {}
            Err(error) => self.refuse(&error),
        }
        if self.db.is_none() {
            self.open();
        }
    }

    fn write(&mut self, writes: Vec<Write>, sync: bool) {
        let mut tried = self.model.clone();
        match self
            .db()
            .write(tried.batch(writes), WriteOptions::with_sync(sync))
        {
            Ok(()) => {
                self.model = tried;
                self.model.acknowledged = self.model.tried();
                if sync {
                    self.model.persisted = self.model.tried();
                }
                self.uncertain.clear();
            }
            Err(error) => {
                self.refuse(&error);
                self.undone_by_power_cut.push(tried.clone());
                self.uncertain.push(tried);
            }
        }
    }

    /// Returns the retries in the statistics, which come with the last error.
    fn shown_retries(&self) -> u64 {
        let statistics = self.db().statistics();
        let shows_error = statistics.last_error.is_some();
        assert_eq!(
            statistics.step_failures > 0,
            shows_error,
            "{self}: {statistics:?}"
        );
        statistics.step_failures
    }

    /// Checks that an error is the injected one, or a refusal because of it.
    fn refuse(&mut self, error: &Error) {
        self.refused += 1;
        let cause = match error {
            Error::Poisoned { cause } => cause,
            error => error,
        };
        let is_injected = match self.injected.fault {
            Fault::NoSpace => cause.is_no_space(),
            _ => matches!(cause, Error::Io(_)),
        };
        assert!(is_injected, "{self}: {error:?}");
        assert!(
            self.plan.failures() > 0,
            "{self}: failed before the fault: {error}"
        );
    }

    /// Checks the contents of the store once the storage is healed, and how the store goes on.
    fn check(mut self) {
        let found = self.read_all();
        self.assert_is(&found, &self.model.state);
        self.check_after(CrashKind::Kill);
        self.check_after(CrashKind::PowerCut);
        match self.db().statistics().poisoned {
            Some(error) => self.check_poisoned(&error),
            None => self.go_on(),
        }
        let closed = self.db.take().unwrap().close();
        assert!(closed.is_ok() || self.refused > 0, "{self}: {closed:?}");
        self.open();
        self.go_on();
        internal::check_ages(self.db()).unwrap();
    }

    fn read_all(&self) -> State {
        let read = read_all(self.db(), self.base.keyspaces(), None);
        read.unwrap_or_else(|error| panic!("{self}: a read when healed: {error}"))
    }

    /// Checks that writes and background work succeed.
    fn go_on(&mut self) {
        let base = Rc::clone(&self.base);
        for step in &base.steps {
            if let Step::Write { writes, sync } = step.clone() {
                let batch = self.model.batch(writes);
                let written = self.db().write(batch, WriteOptions::with_sync(sync));
                written.unwrap_or_else(|error| panic!("{self}: a write when healed: {error}"));
            }
        }
        self.uncertain.clear();
        let settled = self.db().flush().and_then(|()| self.db().compact());
        settled.unwrap_or_else(|error| panic!("{self}: flush and compact when healed: {error}"));
        self.model.persisted = self.model.tried();
        self.assert_is(&self.read_all(), &self.model.state);
    }

    fn check_poisoned(&self, error: &Error) {
        let Error::Poisoned { cause } = error else {
            panic!("{self}: {error:?}")
        };
        let Error::Io(cause) = cause.as_ref() else {
            panic!("{self}: {cause:?}")
        };
        let path = cause.path().to_string_lossy();
        let is_durable_state = ["arena-", "MANIFEST-", "CURRENT"]
            .iter()
            .any(|part| path.contains(part));
        let is_failed_sync = match cause.operation() {
            Operation::Sync => is_durable_state,
            Operation::SyncDirectory => true,
            // A record whose write failed must not be found later. Where every read and write fails
            // it can be neither seen nor overwritten, so the manifest's contents are unknown.
            _ => {
                self.injected.lasting && matches!(self.injected.fault, Fault::Io | Fault::WriteKept)
            }
        };
        assert!(is_failed_sync, "{self}: poisoned by {cause}");
        let refusal = self.db().put(b"refused", b"").unwrap_err();
        assert!(
            matches!(refusal, Error::Poisoned { .. }),
            "{self}: {refusal:?}"
        );
        assert!(
            refusal.to_string().contains(&cause.to_string()),
            "{self}: {refusal}"
        );
    }

    /// Checks the state that the next process finds if this one, or the machine, dies now.
    fn check_after(&self, kind: CrashKind) {
        let crashed = self.disk.crash(kind, self.injected.at, CrashSwitch::new());
        let db = open(&crashed).unwrap_or_else(|error| panic!("{self}: after a {kind:?}: {error}"));
        let found = read_all(&db, self.base.keyspaces(), None).unwrap();
        let (promised, uncertain) = match kind {
            CrashKind::Kill => (self.model.tried(), &self.uncertain),
            CrashKind::PowerCut => (self.model.persisted, &self.undone_by_power_cut),
        };
        // A write that must be there undoes the failed writes before it.
        let mut uncertain = uncertain.iter().filter(|model| model.tried() > promised);
        let mut possible = (promised..=self.model.tried())
            .rev()
            .map(|count| self.model.after(count));
        let is_possible =
            possible.any(|state| state == found) || uncertain.any(|model| model.state == found);
        if !is_possible {
            eprintln!(
                "{self}: after a {kind:?}, {promised} of {} promised",
                self.model.tried()
            );
            assert_same(&found, &self.model.state);
        }
    }

    fn assert_is(&self, found: &State, expected: &State) {
        if found != expected {
            eprintln!("{self}");
            assert_same(found, expected);
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "start {:?}, {}", self.base.start, self.injected)
    }
}

/// Runs the script with each matching operation failing, once and lastingly.
fn every_operation(filter: FaultFilter, faults: &[Fault], check: impl Fn(Run)) {
    let stride = support::scale("TERRACE_FAULT_STRIDE", 1).max(1) as usize;
    for start in [Start::Nothing, Start::Killed] {
        let base = Rc::new(Base::new(start));
        let never = Injected {
            fault: Fault::Io,
            at: u64::MAX,
            lasting: false,
        };
        let mut rehearsal = Run::new(&base, filter.clone(), never);
        let count = rehearsal.run();
        assert!(count > 0, "no operation matches");
        assert_eq!(rehearsal.refused, 0);
        rehearsal.check();
        for &fault in faults {
            for at in (0..count).step_by(stride) {
                for lasting in [false, true] {
                    let mut run = Run::new(&base, filter.clone(), Injected { fault, at, lasting });
                    run.run();
                    check(run);
                }
            }
        }
    }
}

#[test]
fn any_operation_may_fail() {
    every_operation(FaultFilter::everything(), &[Fault::Io], Run::check);
}

#[test]
fn any_write_may_be_short_or_find_no_space() {
    let growing = [
        Operation::Write,
        Operation::Allocate,
        Operation::CreateDirectory,
        Operation::Rename,
        Operation::Link,
    ];
    let filter = FaultFilter::everything().operations(&growing);
    every_operation(
        filter,
        &[Fault::NoSpace, Fault::ShortWrite, Fault::WriteKept],
        Run::check,
    );
}

#[test]
fn any_sync_may_fail_and_lose_what_it_was_for() {
    let filter = FaultFilter::everything().operations(&[Operation::Sync]);
    every_operation(filter, &[Fault::SyncLost, Fault::SyncKept], Run::check);
}

/// A step of a flush or a compaction that fails is repeated, and shown.
#[test]
fn failures_of_background_work_show_in_the_statistics() {
    for purpose in [Purpose::Flush, Purpose::Compaction] {
        let filter = FaultFilter::everything().purpose(purpose);
        every_operation(filter, &[Fault::Io], |run| {
            // The contents of a cache differ from run to run (its hashes do), and so does the
            // number of reads: the last few of the rehearsal may not come again.
            let is_due = run.plan.count() > run.injected.at;
            let is_shown = run.refused > 0 || run.retries + run.shown_retries() > 0;
            assert_eq!(run.plan.failures() > 0, is_due, "{run}");
            assert!(is_shown || !is_due, "{run}");
            run.check();
        });
    }
}
