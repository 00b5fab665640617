//! Limits that the system sets to a process.

mod support;

use std::process::{Command, Output, Stdio};

use support::Shell;

/// Runs `terrace` under a limit on the size of files, in blocks of 512 bytes.
fn limited(blocks: u32, shell: &Shell, arguments: &[&str]) -> Output {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_terrace")])
        .args(arguments)
        .env("TERRACE_STORE", shell.store())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn is_told(ran: &Output) {
    let text = String::from_utf8_lossy(&ran.stderr);
    // A signal would leave no code.
    assert_eq!(ran.status.code(), Some(6), "{ran:?}");
    assert!(text.contains("file-size limit of the process"), "{text}");
    assert!(text.contains("`ulimit -f`"), "{text}");
    assert!(!text.contains("damaged"), "{text}");
}

#[test]
fn a_file_size_limit_is_an_error_that_names_it() {
    for blocks in [0, 1, 8, 64] {
        let shell = Shell::new();
        is_told(&limited(blocks, &shell, &["put", "rome", "Italy"]));
        shell.out(&["put", "oslo", "Norway"]);
        assert_eq!(shell.out(&["scan"]), "oslo\tNorway\n");
    }
}

#[test]
fn a_merge_that_meets_the_file_size_limit_loses_nothing() {
    let shell = Shell::new();
    let row = |row: u64| {
        let odd = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{row},{odd:x}{:x}\n", odd.rotate_left(31).wrapping_mul(odd))
    };
    let rows: String = (0..30_000).map(row).collect();
    let file = shell.file("rows.csv", rows);
    shell.out(&["import", &file, "--no-header", "--key", "1"]);
    shell.out(&["flush"]);
    is_told(&limited(400, &shell, &["compact", "--all"]));
    assert!(shell.out(&["verify"]).contains("sound"));
    assert_eq!(shell.out(&["scan"]).lines().count(), 30_000);
    shell.out(&["compact", "--all"]);
}
