//! stats, levels, verify and dump.

mod support;

use support::{Shell, damage};

#[test]
fn stats_tell_what_is_where() {
    let shell = Shell::with_tables();
    shell.out(&["put", "paris", "France"]);
    let stats = shell.json(&["stats", "--json"]);
    assert_eq!(stats["durability"], "CrashSafe");
    assert_eq!(stats["sequences"]["visible"], 7);
    assert_eq!(stats["sequences"]["flushed"], 6);
    assert_eq!(stats["levels"][0]["tables"], 2);
    assert_eq!(stats["recovery"]["writes"], 1);
    assert_eq!(stats["recovery"]["dropped"], serde_json::Value::Null);

    let text = shell.out(&["stats"]);
    for line in [
        "an acknowledged write    survives the death of the process (CrashSafe)",
        "visible                  7",
        "in tables                6",
        "closed in order before   yes",
        "writes from arenas       1 in 1 frame of 1 arena",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn levels_are_drawn_with_the_youngest_first() {
    let shell = Shell::with_tables();
    let picture = shell.out(&["levels"]);
    let lines: Vec<_> = picture.lines().collect();
    assert_eq!(lines.len(), 4, "{picture}");
    assert_eq!(lines[0], "keyspace default: keys from lisbon to rome");
    assert!(lines[1].starts_with("level 0     age 2 ▕█"), "{picture}");
    assert!(lines[1].ends_with("3 versions in 1 table"), "{picture}");
    assert!(lines[2].starts_with("            age 1 ▕█"), "{picture}");
    assert_eq!(lines[3], "                  about 2.00 versions a key");

    let report = shell.json(&["levels", "--json"]);
    let sub_levels = report["keyspaces"][0]["levels"][0]["sub_levels"]
        .as_array()
        .unwrap();
    assert!(sub_levels[0]["age"].as_u64() > sub_levels[1]["age"].as_u64());
    assert_eq!(sub_levels[0]["tables"][0]["smallest"], "lisbon");
    assert_eq!(sub_levels[0]["tables"][0]["entries"], 3);
    let level0 = serde_json::json!({"versions": 6, "tombstones": 0, "keys": 3});
    assert_eq!(report["keyspaces"][0]["duplicates"][0], level0);
    assert_eq!(report["compactions"], serde_json::json!([]));
}

#[test]
fn tombstones_and_bases_are_shown() {
    let shell = Shell::with_tables();
    let db = terrace::Db::open(shell.store(), Shell::options()).unwrap();
    db.delete(b"oslo").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let picture = shell.out(&["levels"]);
    assert!(
        picture.ends_with("                  about 2.33 versions a key, 1 tombstone\n"),
        "{picture}"
    );
    shell.out(&["compact", "--all"]);
    let picture = shell.out(&["levels"]);
    let lines: Vec<_> = picture.lines().collect();
    assert!(lines[1].starts_with("level 1      base ▕█"), "{picture}");
    assert_eq!(lines[2], "                  about 1.00 versions a key");
    // This command has done nothing itself.
    let nothing = "no merge or move since the store was opened\n";
    assert_eq!(shell.out(&["levels", "--history"]), nothing);
}

#[test]
fn a_store_without_tables_says_so() {
    let shell = Shell::new();
    shell.out(&["put", "k", "v"]);
    assert_eq!(shell.out(&["levels"]), "keyspace default: no tables\n");
}

#[test]
fn verify_finds_a_sound_store_sound() {
    let shell = Shell::with_tables();
    shell.out(&["put", "paris", "France"]);
    let text = shell.out(&["verify"]);
    assert!(text.starts_with("checked 2 tables: "), "{text}");
    assert!(
        text.contains("checked 1 arena: 1 write in 1 frame not yet in tables\n"),
        "{text}"
    );
    assert!(
        text.ends_with("sound: every checksum and every age rule holds\n"),
        "{text}"
    );
    let report = shell.json(&["verify", "--json"]);
    assert_eq!(
        (&report["sound"], &report["versions"]),
        (&true.into(), &6.into())
    );
}

#[test]
fn verify_names_the_damaged_table_and_changes_nothing() {
    let shell = Shell::with_tables();
    let table = shell.store_file(|name| name.ends_with(".table"));
    damage(&table, 40);
    let before = std::fs::read(&table).unwrap();
    let ran = shell.run(&["verify"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        ran.stdout.contains(&format!("PROBLEM {name}: ")),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("checked 1 table: "), "{}", ran.stdout);
    assert!(
        ran.stderr.starts_with("terrace: 1 problem in "),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("hint: copy the directory"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read(&table).unwrap(), before);

    let ran = shell.run(&["verify", "--json"]);
    assert_eq!(ran.code, 3);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["sound"], false);
    assert_eq!(report["problems"].as_array().unwrap().len(), 1);
}

#[test]
fn dump_shows_each_kind_of_file() {
    let shell = Shell::with_tables();
    shell.out(&["put", "paris", "France"]);
    for (kind, part, text) in [
        ("table", ".table", "smallest key             lisbon"),
        ("arena", "arena-", "generation"),
        ("manifest", "MANIFEST-", "edit"),
    ] {
        let file = shell.store_file(|name| name.contains(part));
        let file = file.to_str().unwrap();
        let shown = shell.out(&["dump", file]);
        assert!(shown.starts_with(&format!("{kind}\n")), "{shown}");
        assert!(shown.contains(text), "{shown}");
        let lines: Vec<serde_json::Value> = shell
            .out(&["dump", file, "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["kind"], kind);
        assert!(lines.len() > 1 && lines[1]["offset"].is_u64(), "{lines:?}");
    }
}

#[test]
fn dump_refuses_what_is_no_file_of_a_store() {
    let shell = Shell::new();
    let file = shell.file("notes.txt", "hello");
    assert_eq!(shell.run(&["dump", &file]).code, 2);
    let file = shell.file("1.table", "hello");
    let ran = shell.run(&["dump", &file]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
}

#[test]
fn repair_says_what_it_did_and_that_deleted_keys_may_be_back() {
    let shell = Shell::with_tables();
    assert!(shell.out(&["repair"]).contains("nothing was changed"));
    assert_eq!(shell.json(&["repair", "--json"])["changed"], false);

    std::fs::remove_file(shell.store().join("CURRENT")).unwrap();
    let ran = shell.run(&["get", "rome"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("terrace repair"), "{}", ran.stderr);
    let text = shell.out(&["repair"]);
    assert!(text.contains("a new manifest is made"), "{text}");
    assert!(
        text.contains("keys that had been deleted may be back"),
        "{text}"
    );
    assert_eq!(shell.out(&["get", "rome"]), "Italy\n");
    assert!(shell.out(&["verify"]).contains("sound"));
}

/// Returns a store that was killed right behind a bulk load. The last edit of its manifest is
/// damaged, and a power cut has taken the mark.
fn with_damaged_end() -> Shell {
    let shell = Shell::new();
    let original = shell.path("original");
    let options = terrace::Options {
        background: terrace::Background::Inline,
        ..terrace::Options::default()
    };
    let db = terrace::Db::open(&original, options).unwrap();
    let mut load = db.ingest().unwrap();
    load.put(b"bern", b"Switzerland").unwrap();
    load.finish().unwrap();
    std::fs::create_dir(shell.store()).unwrap();
    for entry in std::fs::read_dir(original).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), shell.store().join(entry.file_name())).unwrap();
    }
    let manifest = shell.store_file(|name| name.starts_with("MANIFEST"));
    let length = std::fs::metadata(&manifest).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&manifest);
    file.unwrap().set_len(length - 32).unwrap();
    damage(&manifest, length as usize - 40);
    shell
}

#[test]
fn a_dropped_end_of_the_manifest_is_told_and_its_table_taken_in() {
    let shell = with_damaged_end();
    let table = "1.table";
    for command in ["verify", "repair"] {
        let text = shell.out(&[command]);
        for part in ["MANIFEST-000001 ends in", "could not be read", table] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains("never completed"), "{text}");
        let found = shell.json(&[command, "--json"]);
        assert_eq!(found["manifest_tail"]["is_incomplete"], false);
        assert_eq!(found["unlisted_tables"][0], table);
    }
    assert_eq!(shell.run(&["get", "bern"]).code, 1);
    shell.out(&["put", "oslo", "Norway"]);
    let kept = "1.table.unlisted";
    assert!(shell.out(&["stats"]).contains(kept));
    assert_eq!(
        shell.json(&["verify", "--json"])["unlisted_tables"][0],
        kept
    );
    let text = shell.out(&["repair", "--take-unlisted"]);
    assert!(text.contains("1.table.unlisted: taken in"), "{text}");
    assert_eq!(shell.out(&["get", "bern"]), "Switzerland\n");
    assert_eq!(shell.out(&["get", "oslo"]), "Norway\n");
    assert!(
        shell
            .out(&["repair", "--take-unlisted"])
            .contains("nothing was changed")
    );
}
