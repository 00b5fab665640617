//! Changes that a crash or a failure cuts short, at each of their steps.

use std::sync::Arc;

use terrace::{Db, KeyspaceOptions, Options, Result};
use terrace_storage::{CrashKind, FailingStorage, Fault, FaultFilter, FaultPlan};

use super::support::machine::Machine;
use super::{STORE, machine, open, rows};

/// Returns a store whose second keyspace is about to be dropped, with unflushed writes before it.
fn about_to_drop(machine: &Machine) -> Db {
    let db = open(machine);
    let doomed = db
        .create_keyspace("doomed", KeyspaceOptions::default())
        .unwrap();
    for round in 0..60u32 {
        doomed.put(round.to_be_bytes(), [1; 300]).unwrap();
        db.put(round.to_be_bytes(), [2; 300]).unwrap();
    }
    db
}

/// Dies at every step of a change, and looks at the store that a reopening finds: whether the change had
/// been acknowledged, and at which step.
pub fn crash_at_every_step(
    kind: CrashKind,
    change: impl Fn(&Db) -> Result<()>,
    mut look: impl FnMut(&Db, bool, u64),
) {
    for step in 0.. {
        let machine = machine();
        let db = about_to_drop(&machine);
        machine.freeze_at(machine.steps() + step);
        let changed = change(&db);
        let is_over = !machine.is_frozen();
        std::mem::forget(db);
        look(&open(&machine.crash(kind, step)), changed.is_ok(), step);
        if is_over {
            return changed.unwrap();
        }
    }
}

/// Checks the rows of a keyspace that a crash left as it was: a prefix of all writes, and all of
/// them where the machine lived on.
pub fn check_prefix(db: &Db, keyspace: &str, kind: CrashKind) {
    let (found, default) = (rows(db, keyspace), rows(db, "default"));
    assert!(found == default || found == default + 1, "a prefix");
    assert!(kind == CrashKind::PowerCut || default == 60);
}

/// One operation of a change fails.
pub struct Failing<'a> {
    pub db: &'a Db,
    /// Whether the store is poisoned, or was before it was opened again.
    pub poisoned: bool,
    /// Whether the store has been opened again since.
    pub reopened: bool,
}

/// Has each file operation of a change fail once. Looks at the store and at the change's result,
/// twice: then, and after a reopening. Returns the failures of the change.
pub fn fail_at_every_operation<T>(
    change: impl Fn(&Db) -> T,
    has_failed: impl Fn(&T) -> bool,
    look: impl Fn(&Failing<'_>, &T),
) -> usize {
    let machine = machine();
    about_to_drop(&machine).close().unwrap();
    let mut failures = 0;
    for at in 0.. {
        let plan = FaultPlan::new(FaultFilter::everything());
        let disk = Arc::new(machine.copy(at).storage.clone());
        let options = Options {
            storage: Arc::new(FailingStorage::new(disk, plan.clone())),
            ..machine.options()
        };
        let db = Db::open(STORE, options.clone()).unwrap();
        db.put(b"unflushed", b"value").unwrap();
        plan.fail_at(plan.count() + at, Fault::Io);
        let changed = change(&db);
        let is_over = plan.failures() == 0;
        plan.heal();
        let poisoned = db.statistics().poisoned.is_some();
        failures += usize::from(has_failed(&changed));
        let failing = |db: &Db, reopened| {
            let failing = Failing {
                db,
                poisoned,
                reopened,
            };
            look(&failing, &changed);
        };
        failing(&db, false);
        db.put(b"after", b"value")
            .unwrap_or_else(|error| assert!(poisoned, "{error}"));
        let _ = db.close();
        drop(db);
        let db = Db::open(STORE, options).unwrap();
        failing(&db, true);
        assert!(rows(&db, "default") >= 61, "acknowledged data stays");
        if is_over {
            break;
        }
    }
    failures
}
