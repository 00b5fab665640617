//! Lines on a connection, as its owner's end reads and writes them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::administration::Outcome;
use super::protocol::{MAX_REQUEST_BYTES, Request, Told, answer_line, outcome_line, parse_request};

/// Time after which a client that has not asked, or does not read, is sent away.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the line of a request; `Err` if it is none. A client has `PATIENCE` for all of it.
pub(super) fn read_request(
    mut stream: &UnixStream,
) -> io::Result<std::result::Result<Request, String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes)?;
        let read = bytes.iter().take(count);
        // Only new bytes are searched: a line in small pieces would be searched again and again.
        let end = read.clone().position(|&byte| byte == b'\n');
        line.extend(read.take(end.unwrap_or(count)));
        if line.len() > MAX_REQUEST_BYTES {
            return Ok(Err(format!(
                "the request is longer than {MAX_REQUEST_BYTES} bytes"
            )));
        }
        if end.is_some() {
            return Ok(parse_request(&line));
        }
        if count == 0 {
            return Ok(Err("the request has no end".to_owned()));
        }
    }
}

pub(super) fn tell(stream: &UnixStream, told: Told<'_>) -> io::Result<()> {
    write_line(stream, &answer_line(told))
}

pub(super) fn write_line(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(line.as_bytes())
}

/// Sends a line that fits any socket's buffer. Whether it arrives is the client's business.
pub(super) fn refuse(stream: &UnixStream, why: &str) {
    let _ = tell(stream, Told::Error(why));
}

/// Sends the same to a client that may ask again later.
pub(super) fn put_off(stream: &UnixStream, why: &str) {
    let _ = write_line(stream, &outcome_line(&Outcome::try_again(why)));
}

/// Whether a client has gone; one that has only nothing more to say has not.
pub(super) fn has_hung_up(stream: &UnixStream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0)
}
