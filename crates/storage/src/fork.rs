//! Telling a process from a child that it forked.
//!
//! A child of `fork` has the memory of its parent, but none of the other threads. The locks that
//! those threads held stay held, and files, mappings and locks of files are shared with the parent.
//! So the child must leave alone everything that its parent opened.
//!
//! One word tells the two apart. The first mark of a process sets it to a number that no mark in
//! memory has, and each mark remembers that number. In a child the word is 0, until the child sets
//! a new number for its own marks. A check is one load and one comparison.
//!
//! The word lies in a page that the kernel clears in each child (`MADV_WIPEONFORK`, Linux 4.14),
//! which holds for every way to make one. A handler of `pthread_atfork` clears it as well: some
//! kernels refuse the page, and some emulators accept it and do nothing.
#![expect(
    unsafe_code,
    reason = "no crate in use hands out a wiped page or calls pthread_atfork"
)]

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The kernel maps whole pages, which are larger on some machines.
const PAGE_BYTES: usize = 4096;

/// The word where the kernel gives no page.
static PLAIN: AtomicU64 = AtomicU64::new(0);
/// The word in use. Null until the first mark; it never changes after that.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The last number given to a process: a child goes on from its parent's.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Remembers the process that made it.
///
/// ```
/// let mark = terrace_storage::ForkMark::new()?;
/// assert!(!mark.is_inherited(), "this process made it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ForkMark {
    word: &'static AtomicU64,
    number: u64,
}

impl ForkMark {
    /// Makes a mark of this process.
    ///
    /// # Errors
    /// There is no memory for a handler of forks.
    pub fn new() -> io::Result<Self> {
        let word = word(wiped_page)?;
        if word.load(Ordering::Relaxed) == 0 {
            let fresh = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread may have been first: its number serves both.
            let _ = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        }
        let number = word.load(Ordering::Relaxed);
        Ok(ForkMark { word, number })
    }

    /// Returns true in a child that was forked from the process that made the mark.
    #[inline(always)]
    pub fn is_inherited(self) -> bool {
        self.word.load(Ordering::Relaxed) != self.number
    }

    /// Returns a number of the process that made the mark, which none of its ancestors has.
    pub fn process(self) -> u64 {
        self.number
    }

    /// Goes without the kernel's page, as on kernels that have none. For tests, before any mark.
    #[doc(hidden)]
    pub fn without_wiped_page() -> io::Result<()> {
        word(|| Err(io::ErrorKind::Unsupported.into())).map(|_| ())
    }
}

/// Returns the word, and sets it up the first time. Lock-free: a child must not wait for a thread
/// that was at it in its parent.
fn word(page: impl FnOnce() -> io::Result<&'static AtomicU64>) -> io::Result<&'static AtomicU64> {
    if let Some(word) = known_word() {
        return Ok(word);
    }
    on_fork(wipe)?;
    let word = page().unwrap_or(&PLAIN);
    let pointer = ptr::from_ref(word).cast_mut();
    // The thread that comes second leaves its page unused.
    let _ = WORD.compare_exchange(
        ptr::null_mut(),
        pointer,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    Ok(known_word().unwrap_or(word))
}

fn known_word() -> Option<&'static AtomicU64> {
    // SAFETY: the pointer is null or came from a `&'static AtomicU64` in `word`.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }
}

/// Runs in a child before `fork` returns there. It is async-signal-safe: it only uses atomics.
extern "C" fn wipe() {
    if let Some(word) = known_word() {
        word.store(0, Ordering::Relaxed);
    }
}

/// Has every child that is forked from now on call `handler` before `fork` returns there. The handler
/// is to be async-signal-safe: it takes no lock and no memory.
///
/// # Errors
/// There is no memory to note the handler.
#[cfg(not(miri))]
pub fn on_fork(handler: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the handler is a safe function of this program.
    match unsafe { libc::pthread_atfork(None, None, Some(handler)) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Does nothing: Miri knows no forks.
///
/// # Errors
/// None.
#[cfg(miri)]
pub fn on_fork(_: extern "C" fn()) -> io::Result<()> {
    Ok(())
}

/// Maps a page for the word that reads as zeros in each child. It is never unmapped.
fn wiped_page() -> io::Result<&'static AtomicU64> {
    if cfg!(miri) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the addresses, so that nothing mapped is replaced.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) }?;
    // SAFETY: the range is the new mapping, which holds nothing yet.
    if let Err(refused) = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) } {
        // SAFETY: the range is the new mapping, and nothing refers into it.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
        return Err(refused.into());
    }
    // SAFETY: the page is aligned, holds zeros and stays mapped; only atomics access the word. The
    // kernel clears it in a child before that runs, so no thread sees it change without a store.
    Ok(unsafe { AtomicU64::from_ptr(page.cast()) })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs `check` in a child made by `fork`, and returns whether it held there.
    pub(crate) fn holds_in_child(fork: impl Fn() -> i64, check: impl FnOnce() -> bool) -> bool {
        let child = fork();
        if child == 0 {
            // SAFETY: it ends the child at once, whose other threads are gone.
            unsafe { libc::_exit(i32::from(!check())) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the status is written to a local variable.
        let waited = unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, 0) };
        assert_eq!(i64::from(waited), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    pub(crate) fn fork() -> i64 {
        // SAFETY: the child calls nothing but loads, stores and `_exit`.
        i64::from(unsafe { libc::fork() })
    }

    /// Forks past the C library, so that no handler runs.
    fn fork_past_handlers() -> i64 {
        // SAFETY: as above; without flags the child has a copy of the memory, its stack included.
        unsafe { libc::syscall(libc::SYS_clone, i64::from(libc::SIGCHLD), 0, 0, 0, 0) }
    }

    #[test]
    fn a_mark_is_inherited_in_a_child_and_not_here() {
        let mark = ForkMark::new().unwrap();
        assert!(holds_in_child(fork, || mark.is_inherited()));
        assert!(!mark.is_inherited());
        assert_eq!(ForkMark::new().unwrap().number, mark.number, "one process");
    }

    #[test]
    fn the_kernel_tells_a_child_that_no_handler_has_seen() {
        let mark = ForkMark::new().unwrap();
        // Where there is no such page the handler is all there is.
        if !ptr::eq(mark.word, &raw const PLAIN) {
            assert!(holds_in_child(fork_past_handlers, || mark.is_inherited()));
        }
    }

    #[test]
    fn a_child_has_marks_of_its_own_and_so_has_its_child() {
        let mark = ForkMark::new().unwrap();
        let in_child = || {
            let own = ForkMark::new().unwrap();
            let in_grandchild = || {
                let youngest = ForkMark::new().unwrap();
                own.is_inherited() && mark.is_inherited() && !youngest.is_inherited()
            };
            mark.is_inherited() && !own.is_inherited() && holds_in_child(fork, in_grandchild)
        };
        assert!(holds_in_child(fork, in_child));
    }

    #[test]
    fn a_page_that_is_refused_leaves_the_handler() {
        on_fork(wipe_plain).unwrap();
        extern "C" fn wipe_plain() {
            PLAIN.store(0, Ordering::Relaxed);
        }
        let mark = ForkMark {
            word: &PLAIN,
            number: 7,
        };
        PLAIN.store(7, Ordering::Relaxed);
        assert!(holds_in_child(fork, || mark.is_inherited()));
        assert!(!mark.is_inherited());
    }
}
