//! A store of a newer format stays byte for byte as it is: a release that does not know the format takes
//! no write, and repairs nothing.
//!
//! The present release always stands for the older one. `TERRACE_OLDER_RELEASE` names the command
//! `terrace` of a real one, which is tested as well.

mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::Shell;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a store's files.
type Files = BTreeMap<OsString, Vec<u8>>;

fn files(store: &Path) -> Files {
    let entries = fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    let files = entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()));
    files.collect()
}

/// Returns a store with tables, a second keyspace, and an entry in no table.
fn specimen() -> Shell {
    let shell = Shell::with_tables();
    shell.out(&["put", "--keyspace", "rivers", "rhine", "1233"]);
    let db = terrace::Db::open(shell.store(), Shell::options()).unwrap();
    db.put(b"bern", b"Switzerland").unwrap();
    db.close().unwrap();
    shell
}

/// Gives the manifest a format that no release knows, under the sums that are frozen for all formats.
fn make_newer(store: &Path) {
    let current = fs::read_to_string(store.join("CURRENT")).unwrap();
    let manifest = store.join(current.split(' ').next().unwrap());
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[8..12].copy_from_slice(&1_000_u32.to_le_bytes());
    let sum = xxh3_64(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&sum[..4]);
    let sum = xxh3_64(&bytes[..24]).to_le_bytes();
    bytes[24..32].copy_from_slice(&sum);
    fs::write(manifest, bytes).unwrap();
}

/// Runs a release's `terrace` on a store. Returns its exit code and all of its output.
fn run(release: &Path, shell: &Shell, command: &str) -> (i32, String) {
    let ran = Command::new(release)
        .args(command.split(' '))
        .env("TERRACE_STORE", shell.store())
        .current_dir(shell.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (ran.status.code().unwrap(), said)
}

/// Commands of every release.
const COMMANDS: [&str; 7] = [
    "put oslo Oslo",
    "put --sync oslo Oslo",
    "get oslo",
    "del oslo",
    "stats",
    "verify",
    "repair",
];

fn check_left_alone(release: &Path, commands: &[&str]) {
    let shell = specimen();
    make_newer(&shell.store());
    let before = files(&shell.store());
    for command in commands {
        let (code, said) = run(release, &shell, command);
        assert_eq!(code, 3, "{command}: {said}");
        assert!(said.contains("format 1000"), "{command}: {said}");
        assert!(files(&shell.store()) == before, "{command} has changed it");
    }
}

/// Returns the release that `TERRACE_OLDER_RELEASE` names.
fn older_release() -> Option<OsString> {
    let release = std::env::var_os("TERRACE_OLDER_RELEASE");
    if release.is_none() {
        eprintln!("skipped: TERRACE_OLDER_RELEASE names no older `terrace`");
    }
    release
}

#[test]
fn no_command_changes_a_byte_of_a_store_of_a_newer_format() {
    let present = Path::new(env!("CARGO_BIN_EXE_terrace"));
    check_left_alone(present, &COMMANDS);
    let shell = Shell::new();
    let rows = shell.file("rows.csv", "key,value\noslo,Oslo\n");
    let import = format!("import {rows} --key key --value value");
    check_left_alone(
        present,
        &[
            "put --wait=1 --keyspace new oslo Oslo",
            &import,
            "scan",
            "export -",
            "levels",
            "explain compaction",
            "flush",
            "compact --all",
            "checkpoint copy",
            "verify --json",
            "repair --take-unlisted",
        ],
    );
}

#[test]
fn an_older_release_changes_no_byte_of_a_store_of_a_newer_format() {
    if let Some(older) = older_release() {
        check_left_alone(Path::new(&older), &COMMANDS);
    }
}

#[test]
fn an_older_release_writes_to_a_store_of_the_present_format_or_leaves_it_alone() {
    let Some(older) = older_release() else {
        return;
    };
    let shell = specimen();
    let before = files(&shell.store());
    match run(Path::new(&older), &shell, "put oslo Oslo") {
        (0, _) => assert_eq!(shell.out(&["get", "oslo"]), "Oslo\n"),
        (3, _) => assert!(files(&shell.store()) == before, "it has changed the store"),
        (code, said) => panic!("{code}: {said}"),
    }
    assert_eq!(shell.out(&["get", "bern"]), "Switzerland\n");
    assert_eq!(
        shell.out(&["get", "--keyspace", "rivers", "rhine"]),
        "1233\n"
    );
}
