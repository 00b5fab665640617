//! node init, and the devices that all commands of a node refuse.

mod support;

use std::fs;
use std::path::Path;

use support::Shell;
use support::node::{Owner, SIZE, new_node, overwrite};

#[test]
fn a_file_is_made_with_one_namespace_over_all_of_it() {
    let shell = Shell::new();
    let path = shell.path("node.img").to_str().unwrap().to_owned();
    let told = shell.out(&["node", "init", &path, "--size", "16MiB"]);
    for line in [
        "made a storage node of 16.0 MiB on ",
        "Namespace 1: default\n",
        "\n  UUID  ",
        "\n  NGUID  ",
        "\n  capacity  ",
    ] {
        assert!(told.contains(line), "{line:?}: {told}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE);
    let told = shell.json(&["node", "status", &path, "--json"]);
    assert_eq!(told["device_bytes"], SIZE);
    assert_eq!(told["uuid"].as_str().unwrap().len(), 36);
    let namespaces = told["namespaces"].as_array().unwrap();
    assert_eq!(namespaces.len(), 1, "{told}");
    let only = &namespaces[0];
    assert_eq!(only["name"], "default");
    assert_eq!(only["domain"], "power-safe");
    assert_eq!(only["nguid"].as_str().unwrap().len(), 32);
    assert_eq!(only["keys"], 0);
    assert!(only["free_bytes"].as_u64() > Some(SIZE / 2), "{told}");
}

#[test]
fn namespaces_are_as_they_were_asked_for() {
    let shell = Shell::new();
    let path = new_node(
        &shell,
        &[
            "users,bytes=4MiB,max-keys=1e3,max-value-bytes=64KiB",
            "cache,domain=crash-safe,when-full=evict",
            "disk,kind=blocks,bytes=1MiB",
        ],
    );
    let told = shell.json(&["node", "status", &path, "--json"]);
    let [users, cache] = [0, 1].map(|at| told["namespaces"][at].clone());
    assert_eq!(
        (&users["name"], &users["nsid"], &users["bytes"]),
        (&"users".into(), &1.into(), &(4 << 20).into())
    );
    assert_eq!(
        (&users["max_keys"], &users["max_value_bytes"]),
        (&1000.into(), &(64 << 10).into())
    );
    assert_eq!(
        (&cache["domain"], &cache["when_full"]),
        (&"crash-safe".into(), &"evict".into())
    );
    assert_eq!(told["unassigned_bytes"], 0);
    let disk = &told["namespaces"][2];
    assert_eq!(
        (&disk["kind"], &disk["capacity_bytes"]),
        (&"blocks".into(), &(1 << 20).into())
    );
    let text = shell.out(&["node", "status", &path]);
    assert!(text.contains("Namespace 3: disk"), "{text}");
    assert!(text.contains("keys that were not used for long"), "{text}");
    assert!(text.contains("the death of the process"), "{text}");
}

#[test]
fn nothing_is_overwritten_unasked() {
    let shell = Shell::new();
    let path = new_node(&shell, &[]);
    let before = fs::read(&path).unwrap();
    let ran = shell.run(&["node", "init", &path]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("holds a Terrace node"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: check the path; --force"));
    let ran = shell.run(&["node", "init", &path, "--size", "8MiB"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("exists; nothing is written"));
    // Namespaces that do not fit are found before a file is emptied.
    let ran = shell.run(&["node", "init", &path, "--size", "8KiB", "--force"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("need"), "{}", ran.stderr);
    assert_eq!(fs::read(&path).unwrap(), before);

    let other = shell.file("disk.img", vec![0; SIZE as usize]);
    overwrite(&other, 0, b"XFSB");
    overwrite(&other, (64 << 10) + 64, b"_BHRfS_M");
    let ran = shell.run(&["node", "init", &other]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("an XFS file system"), "{}", ran.stderr);
    shell.out(&["node", "init", &other, "--force"]);
    let wiped = fs::read(&other).unwrap();
    assert!(!wiped.windows(8).any(|bytes| bytes == b"_BHRfS_M"));
    shell.out(&["node", "status", &other]);
    shell.out(&["node", "init", &path, "--size", "8MiB", "--force"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 8 << 20);
}

#[test]
fn arguments_that_make_no_sense_are_wrong_usage() {
    let shell = Shell::new();
    let path = shell.path("node.img").to_str().unwrap().to_owned();
    let ran = shell.run(&["node", "init", &path]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--size makes a file"), "{}", ran.stderr);
    for (namespace, what) in [
        ("a,b", "\"b\" is not OPTION=VALUE"),
        (
            "a,speed=9",
            "\"speed\" is no option; there are kind, domain",
        ),
        ("a,kind=files", "kind: keys or blocks is expected"),
        ("a,kind=blocks,max-keys=9", "has no keys to count"),
        ("a,domain=none", "domain: power-safe or crash-safe"),
        ("a,bytes=many", "a size is expected"),
        ("a,bytes=1MiB,bytes=2MiB", "bytes is given twice"),
        ("a,max-value-bytes=1GiB", "256 MiB"),
        (",bytes=4MiB", "a name has 1 to 32 bytes"),
    ] {
        let arguments = [
            "node",
            "init",
            &path,
            "--size",
            "16MiB",
            "--namespace",
            namespace,
        ];
        let ran = shell.run(&arguments);
        assert_eq!(ran.code, 2, "{namespace}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{namespace}: {}", ran.stderr);
        assert!(!Path::new(&path).exists(), "{namespace}");
    }
}

#[test]
fn a_device_that_a_node_has_open_is_refused() {
    let shell = Shell::new();
    let path = new_node(&shell, &[]);
    let owner = Owner::open(&path);
    for arguments in [
        &["node", "status", &path][..],
        &["node", "verify", &path],
        &["node", "recover", &path],
        &["node", "recover", &path, "--scan"],
        &["node", "init", &path, "--force"],
        &["node", "init", &path, "--force", "--size", "16MiB"],
    ] {
        let ran = shell.run(arguments);
        assert_eq!(ran.code, 4, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("stop that node first"),
            "{}",
            ran.stderr
        );
    }
    drop(owner);
    shell.out(&["node", "verify", &path]);
}

#[test]
fn a_path_without_a_node_is_told_from_a_damaged_one() {
    let shell = Shell::new();
    let blank = shell.file("blank.img", vec![0; SIZE as usize]);
    let absent = shell.path("absent").to_str().unwrap().to_owned();
    for command in ["status", "verify", "recover"] {
        let ran = shell.run(&["node", command, &blank]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("holds no storage node"),
            "{}",
            ran.stderr
        );
        let ran = shell.run(&["node", command, &absent]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("absent does not exist"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("hint: check the path"),
            "{}",
            ran.stderr
        );
    }
    let path = new_node(&shell, &[]);
    overwrite(&path, 50, b"!");
    shell.out(&["node", "status", &path]);
    overwrite(&path, SIZE - 4096 + 50, b"!");
    let ran = shell.run(&["node", "status", &path]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("neither copy of the superblock"),
        "{}",
        ran.stderr
    );
}

#[test]
fn every_command_shows_examples() {
    let shell = Shell::new();
    for command in ["init", "status", "verify", "recover"] {
        let help = shell.out(&["node", command, "--help"]);
        let example = format!("Examples:\n  terrace node {command} ");
        assert!(help.contains(&example), "{help}");
    }
    let pages = shell.path("man");
    shell.out(&["man", pages.to_str().unwrap()]);
    let page = fs::read_to_string(pages.join("terrace-node-recover.1")).unwrap();
    assert!(page.contains("DELETED MAY BE THERE AGAIN"), "{page}");
}
