//! Who asks: one connection for each question.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::protocol::{Answer, EventRequest, Line, Request, VERSION, VersionOf, request_line};
use super::{SOCKET, address};
use crate::{Error, LevelsReport, Result, Statistics};

/// A line of an owner's is no longer; what is longer is none.
const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// What a store holds and has done, asked of the process that owns it.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use terrace::{Db, Options, inspect};
///
/// let options = Options { inspect: true, ..Options::default() };
/// let db = Db::open(&path, options)?;
/// db.put(b"key", b"value")?;
///
/// // Elsewhere, in another process:
/// assert_eq!(inspect::statistics(&path)?.sequences.visible, 1);
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Errors
/// [`Error::Owner`] if nobody answers, or the owner does not understand.
pub fn statistics(store: &Path) -> Result<Statistics> {
    match ask_once(store, &Request::Statistics)? {
        Answer::Statistics(statistics) => Ok(*statistics),
        other => Err(unexpected(&other)),
    }
}

/// Every table of a store in its place, asked of the process that owns it.
///
/// # Errors
/// As [`statistics`].
pub fn levels(store: &Path) -> Result<LevelsReport> {
    match ask_once(store, &Request::Levels)? {
        Answer::Levels(levels) => Ok(levels),
        other => Err(unexpected(&other)),
    }
}

/// What a store does in the background, asked of the process that owns it. The answers are events,
/// and statistics if they were asked for; they end when all are told or the store is closed.
///
/// # Errors
/// As [`statistics`].
pub fn events(store: &Path, wanted: EventRequest) -> Result<Answers> {
    ask(store, &Request::Events(wanted))
}

/// The answers of an owner, as they come.
#[derive(Debug)]
pub struct Answers {
    lines: BufReader<UnixStream>,
    ended: bool,
}

impl Iterator for Answers {
    type Item = Result<Answer>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let answer = self.read().transpose();
        self.ended = !matches!(answer, Some(Ok(_)));
        answer
    }
}

impl Answers {
    fn read(&mut self) -> Result<Option<Answer>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.lines).take(MAX_ANSWER_BYTES);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::Owner(format!("the store's owner went silent: {error}")))?;
        if line.is_empty() {
            return Ok(None);
        }
        match parse_answer(&line)? {
            Answer::Error(what) => Err(Error::Owner(format!("the store's owner says: {what}"))),
            answer => Ok(Some(answer)),
        }
    }
}

fn parse_answer(line: &[u8]) -> Result<Answer> {
    let wrong = |error: serde_json::Error| {
        Error::Owner(format!(
            "the store's owner gave no answer that is known here: {error}"
        ))
    };
    let VersionOf { version } = serde_json::from_slice(line).map_err(wrong)?;
    if version != VERSION {
        return Err(Error::Owner(format!(
            "the store's owner answers in version {version}, version {VERSION} is known here; use \
             the release that it uses"
        )));
    }
    let line: Line<Answer> = serde_json::from_slice(line).map_err(wrong)?;
    Ok(line.answer)
}

fn ask_once(store: &Path, request: &Request) -> Result<Answer> {
    ask(store, request)?.next().unwrap_or_else(|| {
        Err(Error::Owner(
            "the store's owner hung up before it answered".to_owned(),
        ))
    })
}

fn ask(store: &Path, request: &Request) -> Result<Answers> {
    let failed = |error: std::io::Error| {
        let socket = store.join(SOCKET);
        Error::Owner(format!("nobody answers at {}: {error}", socket.display()))
    };
    let mut stream = address::connect(store).map_err(failed)?;
    // An owner with too many clients answers before it is asked, and hangs up.
    let asked = stream.write_all(request_line(request).as_bytes());
    match asked {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(Answers {
            lines: BufReader::new(stream),
            ended: false,
        }),
    }
}

fn unexpected(answer: &Answer) -> Error {
    let kind = match answer {
        Answer::Statistics(_) => "statistics",
        Answer::Levels(_) => "levels",
        Answer::Event(_) => "an event",
        Answer::Error(_) => "an error",
    };
    Error::Owner(format!(
        "the store's owner answered with {kind}, which was not asked for"
    ))
}
