//! The README's first command.

mod support;

use support::Shell;

#[test]
fn the_demo_finds_everything_that_was_acknowledged() {
    let shell = Shell::new();
    let directory = shell.path("demo");
    let ran = shell.run(&["demo", "--directory", directory.to_str().unwrap(), "--keep"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for part in [
        "34,924 rows",
        "GRINNING FACE",
        "1,831 of 34,924 characters are capital letters",
        "Killed with SIGKILL in mid-import",
        "batches half there: 0.",
        "leaves 34,924 rows",
        "Nothing that was acknowledged is lost",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    let imported = directory.join("imported");
    let face = shell.json(&["get", "-d", imported.to_str().unwrap(), "1F600"]);
    assert_eq!(face["name"], "GRINNING FACE");

    // The files that the demo left there are the user's now.
    let ran = shell.run(&["demo", "--directory", directory.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let shell = Shell::new();
    let directory = shell.path("demo");
    shell.out(&["demo", "--directory", directory.to_str().unwrap()]);
    assert!(!directory.exists());
}
