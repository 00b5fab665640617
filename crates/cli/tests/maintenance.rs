//! compact, flush, and the files that packages ship beside the binary.

mod support;

use std::fs;

use support::Shell;
use terrace::{Db, Options};

#[test]
fn compact_merges_and_flush_empties_the_arenas() {
    let shell = Shell::with_tables();
    shell.out(&["put", "paris", "France"]);
    assert_eq!(shell.json(&["stats", "--json"])["recovery"]["writes"], 1);
    let told = shell.out(&["flush"]);
    assert!(
        told.starts_with("flushed in ") && told.contains("1 table with"),
        "{told}"
    );
    assert_eq!(shell.json(&["stats", "--json"])["recovery"]["writes"], 0);

    // Left to itself no opening would merge these.
    let lazy = Options {
        level0_merge: 100,
        level0_slowdown: 200,
        arena_bytes: 1 << 20,
        ..Options::default()
    };
    let db = Db::open(shell.store(), lazy).unwrap();
    for _ in 0..8 {
        db.put(b"bern", b"Switzerland").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let told = shell.json(&["compact", "--json"]);
    assert_eq!(told["tables"], 1, "{told}");
    assert!(told["merges"].as_u64() > Some(0), "{told}");
    assert!(!shell.store().join("inspect").exists());
    assert_eq!(shell.out(&["get", "paris"]), "France\n");
}

#[test]
fn a_range_is_compacted_although_no_level_is_over_its_target() {
    let shell = Shell::with_tables();
    shell.out(&["del", "oslo"]);
    let told = shell.json(&["compact", "--prefix", "os", "--json"]);
    assert!(told["merges"].as_u64() > Some(0), "{told}");
    assert_eq!(shell.run(&["get", "oslo"]).code, 1);
    shell.out(&["del", "lisbon"]);
    let told = shell.json(&["compact", "--all", "--json"]);
    assert_eq!(told["tables"], 1, "{told}");
    // Nothing is left of deleted entries.
    let levels = shell.json(&["levels", "--json"]);
    let levels = levels["keyspaces"][0]["levels"].as_array().unwrap();
    let mut tables = levels
        .iter()
        .flat_map(|level| level["sub_levels"].as_array().unwrap());
    assert_eq!(tables.next().unwrap()["tables"][0]["entries"], 1);
    assert_eq!(
        shell.run(&["compact", "--all", "--keyspace", "lakes"]).code,
        7
    );
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let shell = Shell::with_tables();
    let copy = shell.path("copy");
    let copy = copy.to_str().unwrap();
    shell.out(&["put", "paris", "France"]);
    let told = shell.out(&["checkpoint", copy]);
    assert!(told.starts_with("copied in "), "{told}");
    shell.out(&["del", "paris"]);
    assert_eq!(shell.out(&["get", "-d", copy, "paris"]), "France\n");
    assert!(shell.out(&["verify", "-d", copy]).contains("sound"));
    let ran = shell.run(&["checkpoint", copy]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let shell = Shell::new();
    for command in [&["compact"][..], &["flush"], &["checkpoint", "copy"]] {
        assert_eq!(shell.run(command).code, 7);
        assert!(!shell.store().exists());
    }
}

#[test]
fn completions_and_manual_tell_of_every_command() {
    let shell = Shell::new();
    let help = shell.out(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // A line that is indented further is the end of a description.
    let names = listed.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let commands: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(commands.len() >= 15, "{commands:?}");
    let pages = shell.path("man");
    assert_eq!(shell.out(&["man", pages.to_str().unwrap()]), "");
    let main_page = fs::read_to_string(pages.join("terrace.1")).unwrap();
    for name in ["bash", "zsh", "fish"] {
        let completions = shell.out(&["completions", name]);
        for command in &commands {
            assert!(completions.contains(command), "{command} for {name}");
        }
        assert!(!completions.contains("region_dir"));
        for hidden in ["demo-child", "demo__child", "run-one", "run__one"] {
            assert!(!completions.contains(hidden), "{hidden} for {name}");
        }
    }
    for command in commands {
        assert!(main_page.contains(command), "{command}");
        let page = fs::read_to_string(pages.join(format!("terrace-{command}.1"))).unwrap();
        assert!(page.contains("SYNOPSIS"), "{command}");
    }
    let pages = fs::read_dir(pages).unwrap();
    let mut names = pages.map(|page| page.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().contains("demo-child")));
}

#[test]
fn a_page_of_the_manual_has_values_variables_and_examples() {
    let shell = Shell::new();
    let pages = shell.path("man");
    shell.out(&["man", pages.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    let put = page("terrace-put.1");
    for part in [
        "\\fBterrace put\\fR \\-\\-store\\ <DIR>",
        "[\\-\\-hex]",
        "<KEY> [VALUE]",
        "TERRACE_STORE",
        ".SH EXAMPLES\n.nf\n  terrace put \\-d ./cities oslo Norway\n",
    ] {
        assert!(put.contains(part), "{part}: {put}");
    }
    let main = page("terrace.1");
    assert!(
        main.contains(".SH EXIT STATUS\n") && main.contains("<COMMAND>"),
        "{main}"
    );
    for file in fs::read_dir(&pages).unwrap() {
        let page = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(
            !page.contains("EXTRA") && !page.contains("demo-child"),
            "{page}"
        );
    }
}
