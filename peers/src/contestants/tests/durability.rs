//! Both classes, and a process that dies.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use terrace_bench::settings::DurabilityClass;
use terrace_bench::store::Direction;

use super::{contestants, each, key, open, opened, scan, small};

#[test]
fn both_durability_classes_open_and_say_so() {
    each(|contestant, directory| {
        let mut settings = small();
        let crash = opened(contestant, &directory.with_extension("crash"), &settings);
        assert!(!crash.settings.is_empty());
        crash.store.close().unwrap();

        settings.durability = DurabilityClass::PowerCut;
        settings.bound_bytes = Some(1 << 30);
        let power = opened(contestant, directory, &settings);
        assert!(
            power.durability.contains("power cut"),
            "{}",
            power.durability
        );
        for number in 0..10 {
            power.store.put(&key(number), b"durable").unwrap();
        }
        power.store.delete(&key(3)).unwrap();
        power.store.close().unwrap();
        let again = opened(contestant, directory, &settings);
        assert_eq!(scan(&*again.store, None, 100, Direction::Forward).len(), 9);
        again.store.close().unwrap();
    });
}

/// Where the process that dies finds out what to do: a contestant's name, and its directory.
const DYING: [&str; 2] = ["PEERS_DYING_CONTESTANT", "PEERS_DYING_DIRECTORY"];
const ACKNOWLEDGED: u64 = 500;

#[test]
fn what_was_acknowledged_outlives_the_process() {
    each(|contestant, directory| {
        let program = std::env::current_exe().unwrap();
        let dying = Command::new(program)
            .args(["--exact", "--ignored"])
            .arg("contestants::tests::durability::a_process_that_dies")
            .env(DYING[0], contestant.name)
            .env(DYING[1], directory)
            .output()
            .unwrap();
        assert_eq!(
            dying.status.signal(),
            Some(6),
            "{}: {dying:?}",
            contestant.name
        );
        let store = open(contestant, directory);
        let rows = scan(&*store, None, u64::MAX, Direction::Forward);
        assert!(rows.iter().all(|(_, value)| value == &[7; 1_000]));
        let found = rows.iter().map(|(found, _)| found.clone());
        assert!(found.eq((0..ACKNOWLEDGED).map(key)), "{}", contestant.name);
        store.close().unwrap();
    });
}

/// A process of its own, run by [`what_was_acknowledged_outlives_the_process`].
#[test]
#[ignore = "ends the process"]
fn a_process_that_dies() {
    let [Some(name), Some(directory)] = DYING.map(std::env::var_os) else {
        return;
    };
    let contestant = contestants().into_iter().find(|c| c.name == name).unwrap();
    let store = open(&contestant, Path::new(&directory));
    for number in 0..ACKNOWLEDGED {
        store.put(&key(number), &[7; 1_000]).unwrap();
    }
    std::process::abort();
}
