//! Processes of the tests: one for each test, and the children that it forks.
#![expect(unsafe_code, reason = "the standard library does not fork")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread;

use terrace_storage::ForkMark;

/// Variable that makes this binary one test's process, and says how it recognises its children.
const WORD: &str = "TERRACE_FORK_WORD";
/// A child takes milliseconds.
const PATIENCE_SECONDS: u32 = 30;

/// Runs the test that calls this in processes of its own. `body` is called there.
pub fn in_own_process(body: impl FnOnce()) {
    if let Ok(word) = std::env::var(WORD) {
        if word == "handler" {
            ForkMark::without_wiped_page().unwrap();
        }
        return body();
    }
    let name = thread::current().name().unwrap().to_owned();
    for word in ["page", "handler"] {
        let run = Command::new(std::env::current_exe().unwrap())
            .args([&name, "--exact", "--nocapture"])
            .env(WORD, word)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        let failed = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{word}: {said}{failed}");
        assert!(said.contains("1 passed"), "{said}");
    }
}

/// A child of this process.
#[must_use]
pub struct Child(libc::pid_t);

/// Forks a child that runs `body` and ends with success if that returns true.
pub fn fork(body: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child uses the thread that it has; the test is about locks of the others.
    let child = Child(unsafe { libc::fork() });
    assert!(child.0 >= 0);
    if child.0 == 0 {
        // SAFETY: it takes a number. The signal ends the process.
        unsafe { libc::alarm(PATIENCE_SECONDS) };
        let holds = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        exit(holds);
    }
    child
}

/// Ends this process without any destructor.
pub fn exit(success: bool) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(i32::from(!success)) }
}

impl Child {
    /// Waits for the child to end, well.
    pub fn succeeds(self) {
        let mut status = 0;
        // SAFETY: the status is written to a local variable.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(waited, self.0);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the child ended with status {status:#x}"
        );
    }
}

/// Forks a child and waits for it.
pub fn in_child(body: impl FnOnce() -> bool) {
    fork(body).succeeds();
}

/// Forks here, in the middle of a caller's code: both processes return, the parent after the child
/// has ended. Returns whether this is the child.
pub fn fork_here() -> bool {
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(PATIENCE_SECONDS) };
        return true;
    }
    Child(child).succeeds();
    false
}
