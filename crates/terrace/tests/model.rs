//! Random operations on every persist method, against a `BTreeMap`.
//!
//! `TERRACE_MODEL_OPERATIONS` sets the number of operations for each method (20,000 by default;
//! 250,000 make the million).

mod support;

use support::machine::{Machine, Method};
use support::model::Model;
use support::script::{KEYSPACES, Run, Script, policies, with_read_buffer};
use terrace::{Background, Constants, Db, Options, PersistMethod};

/// Short lives, so that the model's replay of snapshots stays cheap.
const OPERATIONS_PER_STORE: u64 = 2_000;

fn model(method: Method, background: Background, share: u64) {
    let operations = support::scale("TERRACE_MODEL_OPERATIONS", 20_000) / share;
    let mut buffer_hits = 0;
    for life in 0..operations.div_ceil(OPERATIONS_PER_STORE) {
        let machine = Machine::new(method, life);
        let options = terrace::Options {
            background,
            ..with_read_buffer(life, machine.options())
        };
        let mut script = Script::new(life, method.persists());
        let mut run = Run::new(Model::default());
        run.policies = policies(life);
        run.power_safe = method.is_power_safe();
        // A flush thread would wait long before it tries again.
        run.flushes = (background == Background::Inline).then(|| machine.flushes());
        run.open(options.clone()).unwrap();
        for _ in 0..OPERATIONS_PER_STORE.min(operations) {
            let operation = script.next();
            run.apply(operation.clone(), &options)
                .unwrap_or_else(|error| {
                    panic!("{method:?}, store {life}: {operation:?} failed: {error}")
                });
        }
        run.model.check(run.db(), &KEYSPACES).unwrap();
        let merges = run.merges + run.db().statistics().merges;
        assert!(merges > 20, "only {merges} merges: the sizes are too large");
        let buffer = run.db().statistics().read_buffer;
        assert_eq!(buffer.is_some(), life > 0);
        buffer_hits += buffer.map_or(0, |buffer| buffer.hits);
        terrace::internal::check_ages(run.db()).unwrap();
    }
    assert!(buffer_hits > 100, "{buffer_hits} hits of the read buffer");
}

#[test]
fn written_agrees_with_the_model() {
    model(Method::Written, Background::Inline, 1);
}

#[test]
fn written_with_threads_agrees_with_the_model() {
    model(Method::Written, Background::Threads, 2);
}

#[test]
fn power_safe_agrees_with_the_model() {
    model(Method::WrittenPowerSafe, Background::Inline, 2);
}

/// Returns constants by which memory stands for a disk.
fn emulating() -> Constants {
    Constants {
        emulate_power_safety: true,
        ..Constants::default()
    }
}

/// Tests methods that need the kernel, on a file system in memory where there is one: each sync of
/// a disk takes long. `dax` takes that memory for persistent memory.
fn on_real_files(method: PersistMethod) {
    let memory = tempfile::tempdir_in("/dev/shm");
    let directory = memory.unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let options = support::script::tiny(Options {
        persist_method: method,
        constants: emulating(),
        background: Background::Inline,
        ..Options::default()
    });
    let operations = support::scale("TERRACE_MODEL_OPERATIONS", 20_000) / 4;
    for life in 0..operations.div_ceil(OPERATIONS_PER_STORE) {
        let mut script = Script::new(life, true);
        let mut run = Run::new(Model::default());
        run.path = directory.path().join(life.to_string());
        run.policies = policies(life + 1);
        if let Err(error) = run.open(options.clone()) {
            // A file system or a CPU that cannot do it; the region's own tests say which can.
            assert!(error.to_string().contains("cannot be used on"), "{error}");
            return;
        }
        assert_eq!(run.db().statistics().method, method.to_string());
        for _ in 0..OPERATIONS_PER_STORE.min(operations) {
            let operation = script.next();
            run.apply(operation.clone(), &options)
                .unwrap_or_else(|error| panic!("store {life}: {operation:?} failed: {error}"));
        }
        run.model.check(run.db(), &KEYSPACES).unwrap();
        terrace::internal::check_ages(run.db()).unwrap();
    }
}

#[test]
fn mapped_agrees_with_the_model() {
    on_real_files(PersistMethod::Mapped);
}

#[test]
fn dax_agrees_with_the_model() {
    on_real_files(PersistMethod::Dax);
}

/// Each opening with another method than the one before: each reads the
/// arenas that the others left.
#[test]
fn a_store_may_be_opened_with_another_method() {
    let memory = tempfile::tempdir_in("/dev/shm");
    let directory = memory.unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let methods = [
        PersistMethod::Written,
        PersistMethod::Mapped,
        PersistMethod::Dax,
        PersistMethod::Mapped,
    ];
    let mut written = 0;
    for (round, method) in methods.into_iter().cycle().take(12).enumerate() {
        let options = Options {
            persist_method: method,
            constants: emulating(),
            background: Background::Inline,
            ..Options::default()
        };
        let db = match Db::open(directory.path(), support::script::tiny(options)) {
            Ok(db) => db,
            Err(error) if error.to_string().contains("cannot be used on") => continue,
            Err(error) => panic!("round {round}: {error}"),
        };
        for earlier in 0..written {
            let key = format!("key{earlier}");
            assert!(
                db.get(key.as_bytes()).unwrap().is_some(),
                "{method} lost {key}"
            );
        }
        for _ in 0..500 {
            db.put(format!("key{written}").as_bytes(), b"value")
                .unwrap();
            written += 1;
        }
        // Writes that are still in arenas stay there for the next method to find.
        db.close().unwrap();
        assert!(round == 0 || db.statistics().recovery.writes > 0);
    }
    assert!(written > 500);
}

#[test]
fn volatile_agrees_with_the_model() {
    model(Method::Volatile, Background::Inline, 1);
}

#[test]
fn stored_through_cache_lines_agrees_with_the_model() {
    model(Method::Dax, Background::Inline, 1);
}

#[test]
fn stored_through_the_page_cache_agrees_with_the_model() {
    model(Method::PageCache, Background::Inline, 1);
}

/// The durability may change from one opening to the next; the store remembers the last one, and
/// arenas of the other kind are neither looked for nor lost.
#[test]
fn a_changed_durability_is_kept_and_nothing_is_lost() {
    use terrace::Durability;
    let machine = Machine::new(Method::Written, 1);
    let open = |durability| {
        Db::open(
            "/store",
            Options {
                durability,
                ..machine.options()
            },
        )
        .unwrap()
    };
    let orders = [
        Durability::CrashSafe,
        Durability::Volatile,
        Durability::PowerSafe,
    ];
    for (round, durability) in orders.into_iter().cycle().take(9).enumerate() {
        let db = open(Some(durability));
        db.put(format!("key{round}").as_bytes(), b"value").unwrap();
        db.close().unwrap();
        let db = open(None);
        assert_eq!(db.statistics().durability, durability);
        for earlier in 0..=round {
            assert!(
                db.get(format!("key{earlier}").as_bytes())
                    .unwrap()
                    .is_some(),
                "{earlier}"
            );
        }
    }
}
