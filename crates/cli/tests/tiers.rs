//! Tiers listed, added, drained, removed and explained from the shell.

mod support;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use support::{Ran, Shell};
use terrace::{Db, DeviceProfile, Options};
use terrace_tools::inspect;

/// Level 0 stays in the store's directory, and all else goes to a tier named `disk`, in small tables.
const OPTIONS: &str = r#"
arena_bytes = "64KiB"
tombstone_percent = 0

[default_keyspace]
table_bytes = "16KiB"
compression = ["none"]
level_tiers = ["store", "disk"]
"#;
const ROWS: usize = 2000;

/// A store and the directory of its tier `disk`.
struct Tiered {
    shell: Shell,
    options: String,
    disk: PathBuf,
}

impl Tiered {
    /// Returns a store with a tier `disk` that holds no table.
    fn new() -> Self {
        let shell = Shell::new();
        let options = shell.file("store.toml", OPTIONS);
        let disk = shell.path("disk");
        shell.out(&["put", "oslo", "Norway", "--options", &options]);
        let path = disk.to_str().unwrap();
        let told = shell.out(&["tier", "add", "disk", path]);
        let wanted = format!("added tier disk: as much as its file system has in {path}\n");
        assert_eq!(told, wanted);
        Tiered {
            shell,
            options,
            disk,
        }
    }

    /// Returns a store whose tier `disk` holds tables of 2000 rows.
    fn filled() -> Self {
        let tiered = Tiered::new();
        let rows = (0..ROWS).map(|row| format!("key{row:05},{row:0100}\n"));
        let file = "id,value\n".to_owned() + &rows.collect::<String>();
        let file = tiered.shell.file("rows.csv", file);
        tiered.out(&["import", &file, "--key", "id", "--value", "value"]);
        tiered.out(&["compact", "--all"]);
        tiered
    }

    fn with_options(&self, arguments: &[&str]) -> Ran {
        self.shell
            .run(&[arguments, &["--options", &self.options]].concat())
    }

    /// Runs a command that opens the store by its options, and returns its stdout.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        let ran = self.with_options(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.out(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Returns the tier `disk` as the list has it.
    #[track_caller]
    fn listed(&self) -> Value {
        let listed = self.shell.json(&["tier", "list", "--json"]);
        assert_eq!(listed["tiers"][0]["name"], "store", "{listed}");
        listed["tiers"][1].clone()
    }

    /// Returns the number of table files in the directory of the tier.
    fn files(&self) -> usize {
        let files = fs::read_dir(&self.disk).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".table")).count()
    }
}

#[test]
fn a_tier_is_listed_with_its_tables_and_drained_and_removed() {
    let tiered = Tiered::filled();
    let disk = tiered.listed();
    let tables = disk["tables"].as_u64().unwrap();
    assert!(tables > 5, "{disk}");
    assert_eq!(tables as usize, tiered.files());
    assert_eq!(disk["state"], "open");
    assert_eq!(disk["path"], tiered.disk.to_str().unwrap());
    assert_eq!(disk["capacity_bytes"], Value::Null);
    assert_eq!(disk["files_bytes"], disk["level_bytes"][1]);
    let listed = tiered.shell.out(&["tier", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("number  name   state"), "{listed}");
    assert!(lines[2].starts_with("     2  disk   open"), "{listed}");
    assert!(
        lines[2].ends_with(tiered.disk.to_str().unwrap()),
        "{listed}"
    );
    assert!(lines[4].contains("level 1"), "{listed}");

    let stats = tiered.shell.out(&["stats"]);
    assert!(
        stats.contains("\nTiers\n  store  ") && stats.contains(&format!(" in {tables} tables\n")),
        "{stats}"
    );
    let metrics = tiered.shell.out(&["stats", "--prometheus"]);
    let sample = format!("\nterrace_tier_tables{{tier=\"disk\"}} {tables}\n");
    assert!(metrics.contains(&sample), "{metrics}");
    let levels = tiered.shell.out(&["levels"]);
    assert!(
        levels.contains(&format!(" in {tables} tables, tier disk\n")),
        "{levels}"
    );

    let ran = tiered.with_options(&["tier", "remove", "disk"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains(&format!("holds {tables} tables")),
        "{}",
        ran.stderr
    );
    let told = tiered.json(&["tier", "drain", "disk"]);
    assert_eq!(told["moved_tables"], tables, "{told}");
    assert_eq!((&told["tables"], &told["bytes"]), (&json!(0), &json!(0)));
    assert_eq!(told["moved_bytes"], disk["files_bytes"]);
    assert_eq!(told["by_owner"], false);
    assert_eq!(tiered.files(), 0);
    let drained = tiered.listed();
    assert_eq!(drained["state"], "draining");
    assert_eq!(drained["tables"], 0);
    let told = tiered.out(&["tier", "remove", "disk"]);
    assert_eq!(told, "removed tier disk\n");
    let listed = tiered.shell.json(&["tier", "list", "--json"]);
    assert_eq!(listed["tiers"].as_array().unwrap().len(), 1);
    assert!(!tiered.shell.out(&["stats"]).contains("Tiers"));
    assert!(!tiered.shell.out(&["levels"]).contains(", tier "));
    let count = tiered.shell.json(&["count", "--json"]);
    assert_eq!(count["keys"], ROWS + 1);
}

#[test]
fn the_tier_of_each_table_is_explained() {
    let tiered = Tiered::filled();
    tiered.out(&["put", "rome", "Italy"]);
    tiered.out(&["put", "--keyspace", "rivers", "rhine", "1233"]);
    tiered.out(&["flush"]);
    let told = tiered.json(&["tier", "explain"]);
    let keyspaces = told["keyspaces"].as_array().unwrap();
    assert_eq!(keyspaces.len(), 2);
    let tables = keyspaces[0]["tables"].as_array().unwrap();
    let first = &tables[0];
    assert_eq!(
        (&first["level"], &first["tier"]),
        (&json!(0), &json!("store"))
    );
    assert_eq!(first["reason"], "level 0 has the tier store");
    assert!(tables.len() > 5);
    for table in &tables[1..] {
        assert_eq!(
            (&table["level"], &table["tier"]),
            (&json!(1), &json!("disk"))
        );
        assert_eq!(table["wanted"], json!(["disk", "store"]));
        assert_eq!(table["reason"], "level 1 has the tier disk");
    }
    let rivers = tiered.json(&["tier", "explain", "--keyspace", "rivers"]);
    assert_eq!(rivers["keyspaces"], json!([keyspaces[1]]));
    let text = tiered.out(&["tier", "explain", "--keyspace", "rivers"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "keyspace rivers");
    assert!(lines[1].starts_with("level  table "), "{text}");
    assert!(
        lines[2].ends_with("  store  store is the fastest tier with room for level 0"),
        "{text}"
    );
    let ran = tiered.with_options(&["tier", "explain", "--keyspace", "lakes"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
}

#[test]
fn a_drain_without_room_elsewhere_says_so_and_goes_on_when_there_is_room() {
    let tiered = Tiered::filled();
    let small = format!("tiers = [{{ name = \"store\", capacity_bytes = \"64KiB\" }}]\n{OPTIONS}");
    let small = tiered.shell.file("small.toml", small);
    let drain = |more: &[&str]| {
        let drain = ["tier", "drain", "disk", "--options", &small];
        tiered.shell.run(&[&drain[..], more].concat())
    };
    let ran = drain(&[]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(
        ran.stderr.starts_with("terrace: tier disk still holds ")
            && ran
                .stderr
                .contains("no other tier has room for them (room: store ")
            && ran.stderr.contains("hint: the tier stays draining"),
        "{}",
        ran.stderr
    );
    let ran = drain(&["--json"]);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &told["exit_code"]), (5, &json!(5)), "{told}");
    let left = tiered.listed()["tables"].as_u64().unwrap();
    assert!(left > 0);
    let ran = drain(&["--no-wait"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("tier disk is being drained: "),
        "{}",
        ran.stdout
    );

    let more = tiered.shell.path("more");
    let add = [
        "tier",
        "add",
        "more",
        more.to_str().unwrap(),
        "--capacity",
        "1GiB",
        "--reserve",
        "1MiB",
        "--json",
        "--options",
        &small,
    ];
    let told = tiered.shell.json(&add);
    let wanted = json!({
        "tier": "more", "path": more.to_str().unwrap(), "capacity_bytes": 1 << 30,
        "reserve_bytes": 1 << 20, "profile": null, "by_owner": false,
    });
    assert_eq!(told, wanted);
    let ran = drain(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("drained tier disk in "), "{ran:?}");
    assert_eq!(tiered.listed()["tables"], 0);
}

#[test]
fn a_missing_tier_must_be_accepted_and_its_keys_cannot_be_read() {
    let tiered = Tiered::filled();
    tiered.out(&["put", "key00001", "new"]);
    let away = tiered.shell.path("away");
    fs::rename(&tiered.disk, &away).unwrap();
    for command in [
        &["get", "key00002"][..],
        &["put", "rome", "Italy"],
        &["stats"],
        &["levels"],
        &["tier", "drain", "disk"],
        &["tier", "remove", "disk"],
    ] {
        let ran = tiered.shell.run(command);
        assert_eq!(ran.code, 3, "{command:?}: {}", ran.stderr);
        let said = &ran.stderr;
        assert!(
            said.contains("tier disk is missing, last seen at ")
                && said.contains(tiered.disk.to_str().unwrap())
                && said.contains(".table")
                && said.contains(" of keyspaces default")
                && said.contains("hint: --accept-tier-loss opens"),
            "{command:?}: {said}"
        );
    }
    assert!(!tiered.disk.exists());
    let ran = tiered.shell.run(&["get", "key00002", "--json"]);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &told["exit_code"]), (3, &json!(3)));

    // The list and the explanation need no table.
    let disk = tiered.listed();
    assert_eq!(
        (&disk["state"], &disk["room_bytes"]),
        (&json!("lost"), &json!(0))
    );
    assert!(disk["tables"].as_u64().unwrap() > 5);
    tiered.out(&["tier", "explain"]);

    let accept = "--accept-tier-loss";
    assert_eq!(tiered.shell.out(&["get", "key00001", accept]), "new\n");
    let ran = tiered.shell.run(&["get", "key00002", accept]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: `terrace tier list` shows"),
        "{}",
        ran.stderr
    );
    assert_eq!(tiered.shell.run(&["scan", accept]).code, 3);
    tiered.out(&["put", "rome", "Italy", accept]);
    let ran = tiered.with_options(&["tier", "drain", "disk", accept]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let ran = tiered.with_options(&["tier", "remove", "disk", accept]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--accept-loss"), "{}", ran.stderr);

    // With the tier back, nothing is lost. Its directory may have another name.
    fs::rename(&away, &tiered.disk).unwrap();
    assert_eq!(
        tiered.shell.out(&["get", "key00002"]),
        format!("{:0100}\n", 2)
    );
    assert_eq!(tiered.listed()["state"], "open");
    fs::rename(&tiered.disk, &away).unwrap();
    let away = away.to_str().unwrap();
    let moved = format!("tiers = [{{ name = \"disk\", directory = \"{away}\" }}]\n{OPTIONS}");
    let moved = tiered.shell.file("moved.toml", moved);
    tiered
        .shell
        .out(&["put", "bern", "Switzerland", "--options", &moved]);
    assert_eq!(tiered.listed()["path"], away);
}

#[test]
fn a_missing_tier_is_given_up_with_its_tables() {
    let tiered = Tiered::filled();
    tiered.out(&["put", "rome", "Italy"]);
    let tables = tiered.files();
    fs::remove_dir_all(&tiered.disk).unwrap();
    let told = tiered.out(&["tier", "remove", "disk", "--accept-loss"]);
    let wanted = format!(
        "removed tier disk; {tables} tables lost\n\
         OLDER VERSIONS OF THEIR KEYS, AND KEYS THAT THEY DELETED, MAY SHOW NOW\n"
    );
    assert_eq!(told, wanted);
    assert_eq!(tiered.shell.out(&["scan"]), "rome\tItaly\n");
    let listed = tiered.shell.json(&["tier", "list", "--json"]);
    assert_eq!(listed["tiers"].as_array().unwrap().len(), 1);

    // One that is there is removed as without the option.
    let path = tiered.disk.to_str().unwrap();
    tiered.out(&["tier", "add", "disk", path]);
    let told = tiered.json(&["tier", "remove", "disk", "--accept-loss"]);
    let wanted = json!({
        "tier": "disk", "lost_tables": 0, "is_in_options": false, "by_owner": false,
    });
    assert_eq!(told, wanted);

    let named = format!("tiers = [{{ name = \"disk\", directory = \"{path}\" }}]\n{OPTIONS}");
    let named = tiered.shell.file("named.toml", named);
    let remove = ["tier", "remove", "disk", "--options", &named];
    let wanted =
        "removed tier disk\nthe options still name it: the next opening by them makes it again\n";
    assert_eq!(tiered.shell.out(&remove), wanted);
}

#[test]
fn the_owner_lists_adds_drains_and_removes_where_a_store_is_open() {
    let shell = Shell::new();
    let options = Options {
        background: terrace::Background::Threads,
        ..Options::from_toml(OPTIONS).unwrap()
    };
    let db = inspect::open(shell.store(), options).unwrap();
    let listed = shell.json(&["tier", "list", "--json"]);
    assert_eq!(listed["tiers"][0]["name"], "store");
    // The path is one from the working directory of the command.
    let mut add = shell.command(&["tier", "add", "disk", "disk"]);
    let added = add.current_dir(shell.path("")).output().unwrap();
    let told = String::from_utf8(added.stdout).unwrap();
    let wanted = "added tier disk by the store's owner: as much as its file system has in disk\n";
    assert_eq!(told, wanted, "{}", String::from_utf8_lossy(&added.stderr));
    assert!(db.tiers()[1].path.ends_with("disk") && db.tiers()[1].path.is_absolute());

    let flash = shell.path("flash");
    let add = ["tier", "add", "flash", flash.to_str().unwrap()];
    shell.out(&[&add[..], &["--profile", "960-pro"]].concat());
    let profile = db.tiers()[2].profile;
    assert_eq!(profile, Some(DeviceProfile::NVME_960_PRO));
    shell.out(&["tier", "remove", "flash"]);

    for row in 0..ROWS {
        db.put(format!("key{row:05}"), format!("{row:0100}"))
            .unwrap();
    }
    shell.out(&["compact", "--all"]);
    let listed = shell.json(&["tier", "list", "--json"]);
    let tables = listed["tiers"][1]["tables"].as_u64().unwrap();
    assert!(tables > 5, "{listed}");
    let explained = shell.json(&["tier", "explain", "--json"]);
    let table = &explained["keyspaces"][0]["tables"][0];
    assert_eq!(table["reason"], "level 1 has the tier disk");
    assert_eq!(
        shell.run(&["tier", "explain", "--keyspace", "lakes"]).code,
        7
    );
    assert!(
        shell
            .out(&["tier", "explain"])
            .contains("  disk  level 1 has ")
    );

    for (arguments, part) in [
        (&["remove", "disk"][..], "tables"),
        (&["remove", "disk", "--accept-loss"], "tables"),
        (&["remove", "none"], "there is no tier"),
        (&["drain", "none"], "there is no tier"),
        (&["drain", "store"], "the store's own directory"),
        (&["add", "disk", "other"], "has a tier \"disk\" already"),
    ] {
        let ran = shell.run(&[&["tier"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{arguments:?}: {}", ran.stderr);
    }
    let store = shell.store();
    let ran = shell.run(&["tier", "add", "other", store.to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);

    let told = shell.json(&["tier", "drain", "disk", "--json"]);
    assert_eq!(
        (&told["by_owner"], &told["moved_tables"]),
        (&json!(true), &json!(tables))
    );
    assert_eq!(db.tiers()[1].tables, 0);
    let ran = shell.run(&["tier", "drain", "disk", "--no-wait"]);
    assert!(
        ran.stdout
            .starts_with("drained tier disk by the store's owner in "),
        "{ran:?}"
    );
    let told = shell.out(&["tier", "remove", "disk"]);
    assert_eq!(told, "removed tier disk by the store's owner\n");
    assert_eq!(db.tiers().len(), 1);
    db.close().unwrap();
    // Without a socket the owner cannot be asked.
    let db = Db::open(shell.store(), Options::default()).unwrap();
    for arguments in [
        &["list"][..],
        &["add", "disk", "disk"],
        &["drain", "disk"],
        &["remove", "disk"],
        &["explain"],
    ] {
        let ran = shell.run(&[&["tier"], arguments].concat());
        assert_eq!(ran.code, 4, "{arguments:?}: {}", ran.stderr);
    }
    db.close().unwrap();
}

/// Returns the profile of a tier in the list of a store.
#[track_caller]
fn profile_of(shell: &Shell, name: &str) -> Value {
    let listed = shell.json(&["tier", "list", "--json"]);
    let tiers = listed["tiers"].as_array().unwrap();
    let tier = tiers.iter().find(|tier| tier["name"] == name);
    tier.unwrap()["profile"].clone()
}

#[test]
fn a_tier_gets_the_profile_of_a_known_device_or_of_a_report() {
    let tiered = Tiered::new();
    let shell = &tiered.shell;
    assert_eq!(profile_of(shell, "disk"), Value::Null);
    let flash = shell.path("flash");
    let add = ["tier", "add", "flash", flash.to_str().unwrap()];
    let told = shell.json(&[&add[..], &["--profile", "qlc", "--json"]].concat());
    assert_eq!(told["profile"]["read_latency_us"], 91.0);
    assert_eq!(profile_of(shell, "flash")["write_bytes_per_second"], 80e6);

    // A device is measured, and its report is the profile of a tier.
    let probed = shell.json(&[
        "tier",
        "probe",
        flash.to_str().unwrap(),
        "--json",
        "--seconds",
        "0.2",
    ]);
    let report = shell.file("report.json", probed.to_string());
    let slow = shell.path("slow");
    let add = ["tier", "add", "slow", slow.to_str().unwrap(), "--profile"];
    let ran = shell.run(&[&add[..], &[&report]].concat());
    match &probed["profile"] {
        Value::Null => assert!(
            ran.code == 2 && ran.stderr.contains("those of memory"),
            "{ran:?}"
        ),
        profile => {
            assert_eq!(ran.code, 0, "{ran:?}");
            assert_eq!(&profile_of(shell, "slow"), profile);
            shell.out(&["tier", "remove", "slow"]);
        }
    }
    let toml = "[tiers.profile]\nread_latency_us = 13000\nprice_per_gb = 0.045\n";
    let report = shell.file("report.txt", format!("/mnt: ext4\n\n{toml}\nA guess\n"));
    shell.out(&[&add[..], &[&report]].concat());
    assert_eq!(profile_of(shell, "slow")["read_latency_us"], 13000.0);
    assert_eq!(profile_of(shell, "slow")["price_per_gb"], 0.045);

    let wrong = shell.file("wrong.toml", "latency = 3");
    let more = shell.path("more");
    let add = ["tier", "add", "more", more.to_str().unwrap(), "--profile"];
    for (profile, part) in [
        (
            "floppy",
            "no file floppy, and the known devices are wd10ezex, 850-pro, qlc",
        ),
        (&wrong, "unknown field `latency`"),
    ] {
        let ran = shell.run(&[&add[..], &[profile]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert!(!more.exists(), "a refused tier leaves nothing");
}

#[test]
fn tiers_that_cannot_be_have_the_exit_code_of_usage() {
    let tiered = Tiered::new();
    let other = tiered.shell.path("other");
    let store = Db::open(&other, Options::default()).unwrap();
    store.close().unwrap();
    let other = other.to_str().unwrap();
    let ran = tiered.with_options(&["tier", "add", "more", other]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("hint: `terrace tier list` shows the tiers with"),
        "{}",
        ran.stderr
    );
    let nowhere = tiered.shell.path("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    for arguments in [
        &["add", "a b", nowhere][..],
        &["add", "disk", nowhere],
        &["add", "more", nowhere, "--capacity", "1GB"],
        &["add", "more", nowhere, "--reserve", "1GiB"],
        &[
            "add",
            "more",
            nowhere,
            "--capacity",
            "1MiB",
            "--reserve",
            "1MiB",
        ],
        &["drain", "store"],
        &["drain", "none"],
        &["remove", "store"],
        &["remove", "none", "--accept-loss"],
    ] {
        let ran = tiered.with_options(&[&["tier"], arguments].concat());
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(fs::exists(nowhere).ok(), Some(false));
    let empty = Shell::new();
    for arguments in [
        &["list"][..],
        &["add", "disk", nowhere],
        &["drain", "disk"],
        &["remove", "disk"],
        &["explain"],
    ] {
        let ran = empty.run(&[&["tier"], arguments].concat());
        assert_eq!(ran.code, 7, "{arguments:?}: {}", ran.stderr);
        assert!(!empty.store().exists());
    }
}

#[test]
fn every_command_shows_examples_that_begin_with_its_name() {
    let shell = Shell::new();
    for name in ["list", "add", "drain", "remove", "explain", "advise"] {
        let help = shell.out(&["tier", name, "--help"]);
        let example = format!("Examples:\n  terrace tier {name} ");
        assert!(help.contains(&example), "{help}");
    }
}
