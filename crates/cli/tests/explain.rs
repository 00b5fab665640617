//! `terrace explain compaction`: of descriptions, of a closed store, of an open one.

mod support;

use std::path::Path;

use support::Shell;
use terrace::Options;
use terrace_tools::inspect;

/// tests/golden/explain: descriptions and explanations; `TERRACE_BLESS=1` rewrites the latter.
#[test]
fn descriptions_for_every_policy_are_explained_as_they_were() {
    let shell = Shell::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
    for policy in ["leveled", "tiered", "lazy", "dedup", "score"] {
        let file = directory.join(format!("{policy}.toml"));
        let explain = [
            "explain",
            "compaction",
            "--description",
            file.to_str().unwrap(),
        ];
        let told = shell.out(&explain);
        let golden = directory.join(format!("{policy}.txt"));
        if std::env::var_os("TERRACE_BLESS").is_some() {
            std::fs::write(&golden, &told).unwrap();
        }
        assert_eq!(told, std::fs::read_to_string(&golden).unwrap(), "{policy}");
        let json = shell.json(&[&explain[..], &["--json"]].concat());
        let keyspace = &json["keyspaces"][0];
        assert_eq!(keyspace["settings"]["policy"], policy);
        if let Some(reason) = keyspace["choice"]["reason"].as_str() {
            assert!(told.contains(reason), "{told}");
        }
    }
}

#[test]
fn a_store_that_nobody_has_open_is_explained_by_the_options_given_and_left_as_it_is() {
    let shell = Shell::with_tables();
    let levels = shell.out(&["levels", "--json"]);
    let told = shell.out(&["explain", "compaction"]);
    assert!(
        told.starts_with("keyspace default: policy leveled"),
        "{told}"
    );
    assert!(
        told.contains("\nnow: nothing is due. The nearest is level 0: sub-levels: 2 of 8"),
        "{told}"
    );
    let options = shell.file(
        "options.toml",
        "compaction_policy = 'score'\nlevel0_merge = 2",
    );
    let explain = ["explain", "compaction", "--options", &options];
    let told = shell.out(&explain);
    assert!(
        told.contains("\nnow: merge 2 tables into level 1, because merging 2"),
        "{told}"
    );
    assert!(told.contains("drops about 3 versions"), "{told}");
    assert_eq!(
        shell.out(&["levels", "--json"]),
        levels,
        "nothing was merged"
    );

    // The description of the store gives the same explanation.
    let described = shell.path("levels.toml");
    let described = described.to_str().unwrap();
    let wrote = shell.out(&[&explain[..], &["--write-description", described]].concat());
    assert_eq!(wrote, format!("described in {described}\n"));
    assert_eq!(
        shell.out(&["explain", "compaction", "--description", described]),
        told
    );
    let shown = shell.out(&[&explain[..], &["--write-description", "-"]].concat());
    assert_eq!(shown, std::fs::read_to_string(described).unwrap());
    assert!(shown.contains("smallest = \"lisbon\""), "{shown}");
}

#[test]
fn the_owner_explains_a_store_that_is_open() {
    let shell = Shell::new();
    let options = Options {
        level0_merge: 3,
        arena_bytes: 1 << 20,
        ..Options::default()
    };
    let db = inspect::open(shell.store(), options).unwrap();
    db.create_keyspace("rivers", Default::default()).unwrap();
    db.put(b"oslo", b"Norway").unwrap();
    db.flush().unwrap();
    let told = shell.out(&["explain", "compaction"]);
    assert!(
        told.contains("level0_merge 3, "),
        "the owner's options: {told}"
    );
    assert!(told.contains("\n\nkeyspace rivers: policy"), "{told}");
    let one = shell.out(&["explain", "compaction", "--keyspace", "rivers"]);
    assert!(
        told.ends_with(&one) && !one.contains("keyspace default"),
        "{one}"
    );
    let described = shell.out(&["explain", "compaction", "--write-description", "-"]);
    let described = shell.file("levels.toml", described);
    let again = shell.out(&["explain", "compaction", "--description", &described]);
    assert!(told.starts_with(&again), "{again}");
    for arguments in [
        &["--keyspace", "lakes"][..],
        &["--keyspace", "lakes", "--write-description", "-"],
    ] {
        let ran = shell.run(&[&["explain", "compaction"], arguments].concat());
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("lakes"), "{}", ran.stderr);
    }
    db.close().unwrap();
}

#[test]
fn what_cannot_be_explained_names_file_and_field() {
    let shell = Shell::new();
    let refused = |content: &[u8], code: i32, names: &[&str]| {
        let file = shell.file("levels.toml", content);
        let ran = shell.run(&["explain", "compaction", "--description", &file]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (code, ""),
            "{}",
            ran.stderr
        );
        for name in [&["levels.toml"], names].concat() {
            assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
        }
    };
    refused(b"keys = 'many'", 2, &["keys", "u64"]);
    refused(
        b"[options.default_keyspace]\nlevel_ratio = 1",
        2,
        &["level_ratio is 1", "from 2 to 1000"],
    );
    refused(
        b"[[sub_levels]]\nlevel = 9\nbytes = 1\nentries = 1",
        2,
        &["sub_levels[0].level is 9"],
    );
    refused(b"\xff\xfe", 2, &["no text"]);
    refused(&vec![b'#'; 20 << 20], 2, &["at most 16777216"]);
    let missing = shell.path("nothing.toml");
    let ran = shell.run(&[
        "explain",
        "compaction",
        "--description",
        missing.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing.toml"), "{}", ran.stderr);
    let mut without_store = shell.command(&["explain", "compaction"]);
    let ran = without_store.env_remove("TERRACE_STORE").output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        said.contains("give --store or TERRACE_STORE, or a --description"),
        "{said}"
    );
    let file = shell.file("levels.toml", "");
    let ran = shell.run(&[
        "explain",
        "compaction",
        "--description",
        &file,
        "--write-description",
        "-",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}
