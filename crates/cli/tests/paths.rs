//! Paths that are not UTF-8.

mod support;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::Shell;
use terrace::Options;
use terrace_tools::inspect;

fn odd(shell: &Shell, name: &[u8]) -> PathBuf {
    shell.path("").join(OsStr::from_bytes(name))
}

fn terrace(store: &Path, arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(arguments)
        .env("TERRACE_STORE", store)
        .output()
        .unwrap()
}

#[track_caller]
fn out(store: &Path, arguments: &[&str]) -> String {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let ran = terrace(store, &arguments);
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

fn hex(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_store_whose_path_is_not_text_works() {
    let shell = Shell::new();
    let store = odd(&shell, b"store \xff\xfe");
    out(&store, &["put", "oslo", "Norway"]);
    assert_eq!(out(&store, &["get", "oslo"]), "Norway\n");
    let stats: Value = serde_json::from_str(&out(&store, &["stats", "--json"])).unwrap();
    assert_eq!(stats["region_dir"], Value::Null);
    out(&store, &["flush"]);
    out(&store, &["levels"]);
    out(&store, &["explain", "compaction"]);
    assert!(out(&store, &["verify"]).contains("checked"));
}

#[test]
fn damage_in_a_store_whose_path_is_not_text_is_reported() {
    let shell = Shell::new();
    let store = odd(&shell, b"store \xff");
    out(&store, &["put", "oslo", "Norway"]);
    out(&store, &["flush"]);
    let names = std::fs::read_dir(&store).unwrap();
    let mut tables = names.map(|name| name.unwrap().path());
    let table = tables.find(|path| path.extension() == Some("table".as_ref()));
    let table = table.unwrap();
    std::fs::write(&table, [0; 100]).unwrap();
    let json = |command: &str, code: i32| -> Value {
        let ran = terrace(&store, &[command.as_ref(), "--json".as_ref()]);
        assert_eq!(ran.status.code(), Some(code), "{ran:?}");
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    let verified = json("verify", 3);
    assert_eq!(verified["problems"][0]["file_hex"], hex(&table));
    let repaired = json("repair", 0);
    let kept = &repaired["damaged_tables"][0];
    assert!(kept["kept_as_hex"].is_string(), "{repaired}");
}

#[test]
fn a_node_whose_path_is_not_text_is_reported() {
    let shell = Shell::new();
    let device = odd(&shell, b"node \xff");
    let arguments = [
        "node".as_ref(),
        "init".as_ref(),
        device.as_os_str(),
        "--size".as_ref(),
        "16MiB".as_ref(),
        "--json".as_ref(),
    ];
    let ran = terrace(&device, &arguments);
    assert!(ran.status.success(), "{ran:?}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["path_hex"], hex(&device));
}

#[test]
fn a_region_directory_whose_path_is_not_text_is_told_in_hexadecimal() {
    let shell = Shell::new();
    let (store, region) = (odd(&shell, b"store\xff"), odd(&shell, b"region\xff"));
    let run = |arguments: &[&str]| {
        let region = ["--region-dir".as_ref(), region.as_os_str()];
        let arguments = arguments.iter().map(OsStr::new).chain(region);
        let ran = terrace(&store, &arguments.collect::<Vec<_>>());
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    run(&["put", "oslo", "Norway"]);
    assert_eq!(run(&["get", "oslo"]), "Norway\n");
    let stats: Value = serde_json::from_str(&run(&["stats", "--json"])).unwrap();
    assert_eq!(stats["region_dir"], *region.to_string_lossy());
    assert_eq!(stats["region_dir_hex"], hex(&region));
}

#[test]
fn the_owner_of_a_store_whose_path_is_not_text_answers() {
    let shell = Shell::new();
    let (store, region) = (odd(&shell, b"store\xff"), odd(&shell, b"region\xff"));
    let options = Options {
        region_dir: Some(region.clone()),
        ..Options::default()
    };
    let db = inspect::open(&store, options).unwrap();
    db.put(b"oslo", b"Norway").unwrap();
    let stats: Value = serde_json::from_str(&out(&store, &["stats", "--json"])).unwrap();
    assert_eq!(stats["region_dir_hex"], hex(&region));
    for command in [
        &["levels"][..],
        &["explain", "compaction"],
        &["flush"],
        &["events"],
    ] {
        out(&store, command);
    }
    let copy: OsString = odd(&shell, b"copy\xff").into();
    let ran = terrace(&store, &["checkpoint".as_ref(), &copy]);
    assert!(ran.status.success(), "{ran:?}");
    db.close().unwrap();
    assert_eq!(out(Path::new(&copy), &["get", "oslo"]), "Norway\n");
}
