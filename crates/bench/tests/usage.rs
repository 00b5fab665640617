//! Writes that the kernel cancels. Its counters are those of the whole process, so this test has a
//! process of its own: another test that removes a file would count here.

use std::fs;

use terrace_bench::measure::usage::Counters;

#[test]
fn what_is_removed_before_it_is_written_is_told_apart() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let path = directory.path().join("short-lived");
    let before = Counters::now(None).unwrap();
    fs::write(&path, vec![1; 4 << 20]).unwrap();
    fs::remove_file(&path).unwrap();
    let usage = Counters::now(None).unwrap().since(&before).unwrap();
    assert!(
        usage.cancelled_write_bytes <= usage.write_bytes,
        "{usage:?}"
    );
    assert!(usage.write_bytes >= 4 << 20, "{usage:?}");
}
