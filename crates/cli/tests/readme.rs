//! The README's shell session gives the output that the README shows.

mod support;

use std::path::Path;
use std::process::Command;

use support::Shell;

/// Returns the commands of the session, each with its output.
fn session(readme: &str) -> Vec<(String, String)> {
    let start = readme
        .split_once("```console\n")
        .expect("a console block")
        .1;
    let block = start.split_once("```").unwrap().0;
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command.to_string(), String::new())),
            None => steps.last_mut().unwrap().1 += &format!("{line}\n"),
        }
    }
    steps
}

/// Removes times, which differ from run to run.
fn without_times(output: &str) -> String {
    let lines = output
        .lines()
        .map(|line| line.split(" imported in ").next().unwrap())
        // The size of a table of one version depends on random numbers of the store.
        .map(|line| match line.split_once(" B  1 version in 1 table") {
            Some((bar, rest)) => {
                let bar = bar.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
                format!("{bar} 1 version in 1 table{rest}")
            }
            None => line.to_owned(),
        })
        // So do estimates.
        .map(|line| match line.split_once(" versions a key") {
            Some((_, rest)) => format!("about some versions a key{rest}"),
            None => line,
        });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_session_runs_as_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let shell = Shell::new();
    let steps = session(&readme);
    assert!(steps.len() > 5);
    for (command, expected) in steps {
        let ran = Command::new("sh")
            .args(["-c", &format!("{{ {command}; }} 2>&1")])
            .current_dir(&root)
            .env("PATH", &path)
            .env("TERRACE_STORE", shell.store())
            .output()
            .unwrap();
        let shown = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(
            without_times(&shown),
            without_times(&expected),
            "$ {command}"
        );
    }
}
