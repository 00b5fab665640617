//! node status, verify and recover, of nodes that were killed or damaged.

mod support;

use std::fs;
use std::sync::Arc;

use support::Shell;
use support::node::{Owner, new_node, overwrite};
use terrace_node::device::{Access, Backend, Medium, open_device};
use terrace_node::engine::{Command, read_superblock};

static LARGE: [u8; 20_000] = [0xa5; 20_000];

#[test]
fn status_and_verify_change_nothing() {
    let shell = Shell::new();
    let path = new_node(&shell, &["a,bytes=6MiB", "b"]);
    let mut owner = Owner::open(&path);
    owner.store(1, b"oslo", b"Norway");
    owner.store(2, b"rome", &LARGE);
    owner.store(2, b"bern", b"Switzerland");
    // A node that is killed leaves its last work to the recovery.
    drop(owner);
    let before = fs::read(&path).unwrap();
    let told = shell.json(&["node", "status", &path, "--json"]);
    let keys: Vec<_> = [0, 1]
        .map(|at| told["namespaces"][at]["keys"].clone())
        .into();
    assert_eq!(keys, [1, 2], "{told}");
    assert_eq!(told["namespaces"][1]["value_bytes"], 20_011);
    let text = shell.out(&["node", "status", &path]);
    assert!(text.contains("2 keys, 19.5 KiB of values"), "{text}");
    let told = shell.out(&["node", "verify", &path]);
    assert_eq!(
        told,
        "checked 3 values: 19.5 KiB\nsound: every value matches its checksum\n"
    );
    assert!(fs::read(&path).unwrap() == before, "nothing is changed");
    let told = shell.json(&["node", "recover", &path, "--json"]);
    assert_eq!(told["namespaces"][1]["keys"], 2);
    assert_eq!(told["deleted_keys_may_be_back"], false);
    let told = shell.out(&["node", "recover", &path]);
    assert!(told.starts_with("recovered in "), "{told}");
}

#[test]
fn damaged_values_are_listed() {
    let shell = Shell::new();
    let path = new_node(&shell, &["a,bytes=6MiB", "b"]);
    let mut owner = Owner::open(&path);
    owner.store(2, b"tab\tkey", &LARGE);
    owner.store(2, b"whole", b"small");
    owner.run(2, Command::Flush, &[]);
    drop(owner);
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5000).position(|part| part == &LARGE[..5000]);
    let at = at.unwrap() as u64;
    // Behind the last flush mark a damaged value passes for one that a crash cut short: later journal
    // blocks carry the mark on.
    let mut owner = Owner::open(&path);
    owner.store(2, b"later", b"value");
    owner.store(2, b"later still", b"value");
    drop(owner);
    overwrite(&path, at + 100, b"!");
    let ran = shell.run(&["node", "verify", &path, "--json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["sound"], false);
    assert_eq!(told["damaged"].as_array().unwrap().len(), 1, "{told}");
    let damage = &told["damaged"][0];
    assert_eq!(
        (&damage["nsid"], &damage["namespace"]),
        (&2.into(), &"b".into())
    );
    assert_eq!(
        (&damage["key"], &damage["offset"]),
        (&"tab\tkey".into(), &at.into())
    );
    let ran = shell.run(&["node", "verify", &path]);
    assert_eq!(ran.code, 3);
    let line = format!("DAMAGED namespace 2 (b), key tab\\tkey, at byte {at}: ");
    assert!(ran.stdout.contains(&line), "{}", ran.stdout);
    assert!(ran.stderr.contains("1 damaged value on "), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: copy the device"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_scan_rebuilds_a_lost_index() {
    let shell = Shell::new();
    let path = new_node(&shell, &[]);
    let mut owner = Owner::open(&path);
    owner.store(1, b"large", &LARGE);
    owner.store(1, b"gone", &LARGE);
    owner.store(1, b"small", b"value");
    owner.delete(1, b"gone");
    drop(owner);
    // Recovery gives small values their place on the device.
    shell.out(&["node", "recover", &path]);
    let mut device = open_device(
        Arc::new(Medium::open(&path, Access::Write).unwrap()),
        Backend::Threads,
        1,
    )
    .unwrap();
    let namespace = read_superblock(&mut *device).unwrap().namespaces[0].clone();
    drop(device);
    for slot in namespace.checkpoints {
        overwrite(&path, slot.offset(), &[0; 4096]);
    }
    for command in ["status", "verify", "recover"] {
        let ran = shell.run(&["node", command, &path]);
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("node.img: damage at byte "),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("hint: copy the device before"),
            "{}",
            ran.stderr
        );
    }
    let told = shell.json(&["node", "recover", &path, "--scan", "--json"]);
    assert_eq!(told["deleted_keys_may_be_back"], true);
    // The blocks of the deleted value were not used again.
    assert_eq!(told["keys_found"], 3, "{told}");
    assert_eq!(told["namespaces"][0]["keys"], 3, "{told}");
    let told = shell.out(&["node", "recover", &path, "--scan"]);
    assert!(
        told.contains("keys that had been deleted may be back"),
        "{told}"
    );
    assert!(shell.out(&["node", "verify", &path]).contains("sound"));
}

#[test]
fn a_scan_keeps_small_values_that_only_the_journal_holds() {
    let shell = Shell::new();
    let path = new_node(&shell, &[]);
    let mut owner = Owner::open(&path);
    owner.store(1, b"small", b"value");
    drop(owner);
    let told = shell.json(&["node", "recover", &path, "--scan", "--json"]);
    assert_eq!(told["namespaces"][0]["keys"], 1, "{told}");
    assert!(
        shell
            .out(&["node", "verify", &path])
            .contains("checked 1 value")
    );
}
