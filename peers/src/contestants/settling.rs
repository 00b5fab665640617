//! Waiting for a store that does not say when its background work is done.

use std::thread;
use std::time::{Duration, Instant};

use terrace_bench::Result;

/// A store that shows no change and no work for this long counts as settled.
const QUIET: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(2);

/// Polls until `progress` has not changed, and nothing was `busy`, for a while, and returns when that
/// began: the wait itself is not counted.
pub fn wait<P: PartialEq>(
    mut progress: impl FnMut() -> Result<P>,
    mut busy: impl FnMut() -> Result<bool>,
) -> Result<Instant> {
    let (mut quiet_since, mut last) = (Instant::now(), progress()?);
    while quiet_since.elapsed() < QUIET {
        thread::sleep(POLL);
        let now = progress()?;
        if now != last || busy()? {
            (quiet_since, last) = (Instant::now(), now);
        }
    }
    Ok(quiet_since)
}
