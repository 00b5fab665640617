//! The server: one thread that accepts, and one for each connection, few at a time.
//!
//! The threads know the store by a weak reference and hold it only while they put an answer
//! together. Closing wakes all of them. A stream that is shut down wakes the accepting thread.
//! Threads that wait for a client wake when their connections are shut down, and those that follow
//! events by a condition variable. Closing returns when they have ended. Nothing is left to the end
//! of a descriptor: a child of a fork has a copy of each, and would keep it open.
//!
//! A thread that carries out an administrative request holds the store for as long as that takes,
//! which keeps no handle from closing it. Such a request ends when background work does, later in
//! the same close, as it would for a caller of the store's own. So closing leaves these threads
//! and their connections to the call that [`Attendant::close`] returns, and the client hears how the
//! request ended. A client that hangs up meanwhile stops nothing.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use terrace::offline::files::SOCKET;
use terrace::offline::{Attendant, Attended, attend};
use terrace::{Db, Error, Options, Result};
use terrace_lsm::guard::catch;
use terrace_lsm::levels::DEFAULT_NAME;
use terrace_storage::{self as storage, Directory, FileIdentity, ForkMark, NoThread, Operation};

use super::address;
use super::administration::{Administration, Outcome, Turns};
use super::protocol::{EventRequest, Request, Told, outcome_line};
use super::wire::{PATIENCE, has_hung_up, put_off, read_request, refuse, tell, write_line};
use crate::explain::{describe_compaction, explain_compaction};
use crate::inspect::tiers;

/// The name of each thread.
const THREAD: &str = "terrace-inspect";
/// Maximum number of clients served at a time; one more gets an error and is sent away.
const MAX_CONNECTIONS: usize = 8;
/// Interval between looks for events while a client follows them.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// The inspection socket of an open store.
struct Server {
    shared: Arc<Shared>,
    /// The socket's file. Another owner may have put its own in its place.
    socket: FileIdentity,
    acceptor: Option<JoinHandle<()>>,
    /// Its other end hangs up when this is shut down.
    wake: UnixStream,
}

/// State that the threads share.
struct Shared {
    store: Attended,
    turns: Turns,
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    connections: Vec<Connection>,
}

struct Connection {
    stream: UnixStream,
    thread: JoinHandle<()>,
    /// Whether it carries out an administrative request.
    administers: bool,
}

/// Hangs up when it is dropped, however that comes: the other copy of the stream, kept for closing,
/// would hold the connection open. A child that was forked in a request leaves it to its parent.
struct HangsUp {
    stream: UnixStream,
    mark: ForkMark,
}

impl Drop for HangsUp {
    fn drop(&mut self) {
        if !self.mark.is_inherited() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Turns clients away when it is dropped, those that are not accepted yet included. A child's copy of
/// the listener would keep them waiting.
struct TurnsAway(UnixListener);

impl Drop for TurnsAway {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
        // Those that wait are handed out still, and then an error.
        while self.0.accept().is_ok() {}
    }
}

/// Returns the error for a socket that cannot be. A lack of descriptors has an error of its own.
pub(super) fn no_inspection(path: PathBuf, error: io::Error) -> Error {
    let detail = error.to_string();
    match Error::from(storage::Error::new(Operation::Open, &path, error)) {
        error @ Error::TooManyFiles { .. } => error,
        _ => Error::NoInspection { path, detail },
    }
}

/// Starts a thread of the server.
///
/// # Errors
/// [`Error::NoThread`] if the system has none left.
fn start_thread(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = thread::Builder::new().name(THREAD.to_owned());
    let started = refused_for_test().and_then(|()| builder.spawn(work));
    started.map_err(|error| NoThread::new(THREAD, error).into())
}

#[cfg(not(test))]
fn refused_for_test() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use super::tests::refused_for_test;

fn join(threads: impl Iterator<Item = JoinHandle<()>>) {
    for thread in threads {
        // It has a guard, so it ends without a panic.
        let _ = thread.join();
    }
}

/// Opens a socket named `inspect` in the directory of an open store. Through it other processes of the
/// same user can ask about the store, as `terrace stats`, `levels` and `events` do, and have it flushed,
/// compacted and copied. The socket goes when the store is closed. A store that is
/// open read-only gets none.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use terrace::{Db, Options};
/// use terrace_tools::inspect;
///
/// let db = Db::open(&path, Options::default())?;
/// inspect::serve(&db)?;
/// // Elsewhere, in another process:
/// inspect::flush(&path)?;
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoInspection`] if there can be no socket, [`Error::NoThread`] if no thread;
/// [`Error::InvalidArgument`] if the store has a socket; [`Error::Closed`].
pub fn serve(db: &Db) -> Result<()> {
    attend(db, |store| {
        check(&**store.directory())?;
        Ok(Box::new(Server::start(store)?))
    })
}

/// Opens a store as [`Db::open`] does, with the socket of [`serve`]. A store that can have no socket has
/// been made, or recovered, when this says so.
///
/// # Errors
/// As [`Db::open`] and [`serve`]; the store is closed then.
pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
    let db = Db::open(path, options)?;
    serve(&db)?;
    Ok(db)
}

impl Server {
    fn start(store: Attended) -> Result<Server> {
        let directory = Arc::clone(store.directory());
        let failed = |error| no_inspection(directory.shown(SOCKET), error);
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let (listener, socket) = address::listen(&*directory).map_err(failed)?;
        let listener = TurnsAway(listener);
        // A client that hangs up between poll and accept must not block it.
        listener.0.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            store,
            turns: Turns::default(),
            state: Mutex::default(),
            closed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let accept = move || {
            // After a panic the socket hangs up on later clients.
            let _ = accepting.guard(|| accepting.accept(&listener.0, &woken));
        };
        let acceptor = start_thread(accept).inspect_err(|_| {
            let _ = address::remove_socket(&*directory, socket);
        })?;
        Ok(Server {
            shared,
            socket,
            acceptor: Some(acceptor),
            wake,
        })
    }
}

impl Attendant for Server {
    /// Removes the socket and ends every connection, but those of administrative requests, which wait
    /// for the store. No other thread of the server's is left.
    fn close(mut self: Box<Self>) -> Box<dyn FnOnce()> {
        // The next owner replaces a socket that is left.
        let _ = address::remove_socket(&**self.shared.store.directory(), self.socket);
        let (under_way, connections): (Vec<_>, Vec<_>) = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.connections)
                .into_iter()
                .partition(|connection| connection.administers)
        };
        self.shared.closed.notify_all();
        let _ = self.wake.shutdown(Shutdown::Both);
        for connection in &connections {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        let threads = connections.into_iter().map(|connection| connection.thread);
        join(threads.chain(self.acceptor.take()));
        // Their clients get the outcomes of their requests.
        Box::new(|| join(under_way.into_iter().map(|connection| connection.thread)))
    }
}

impl Shared {
    /// Runs the accepting thread.
    fn accept(self: &Arc<Self>, listener: &UnixListener, woken: &UnixStream) {
        loop {
            let mut ready = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(woken, PollFlags::IN),
            ];
            let polled = poll(&mut ready, None);
            if self.state.lock().is_closed {
                return;
            }
            let accepted = match polled {
                Ok(_) => listener.accept(),
                Err(error) => Err(error.into()),
            };
            match accepted {
                Ok((stream, _)) if address::is_trusted(&stream) => self.serve_in_thread(stream),
                // Hung up on without a word: a stranger learns nothing, and takes no thread.
                Ok(_) => self.count_stranger(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Out of descriptors, say: time may help, and no other thread is held up.
                Err(_) => {
                    self.pause();
                }
            }
        }
    }

    fn count_stranger(&self) {
        self.store.count_stranger();
    }

    fn serve_in_thread(self: &Arc<Self>, stream: UnixStream) {
        let mut state = self.state.lock();
        state
            .connections
            .retain(|connection| !connection.thread.is_finished());
        if state.is_closed {
            return;
        }
        if state.connections.len() >= MAX_CONNECTIONS {
            put_off(&stream, "too many clients are connected; try again later");
            return;
        }
        let (shared, Ok(own)) = (Arc::clone(self), stream.try_clone()) else {
            return;
        };
        let serve = move || {
            let own = HangsUp {
                stream: own,
                mark: shared.store.mark(),
            };
            // A client that hangs up is nothing to the store.
            if let Err(panic) = shared.guard(|| shared.serve(&own.stream)) {
                refuse(&own.stream, &panic.to_string());
            }
        };
        match start_thread(serve) {
            Ok(thread) => state.connections.push(Connection {
                stream,
                thread,
                administers: false,
            }),
            Err(error) => put_off(&stream, &error.to_string()),
        }
    }

    /// Runs the work of one of the server's threads. A panic poisons the store.
    fn guard<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        catch("inspection", || Ok(work())).map_err(|panic| self.store.poison(panic))
    }

    /// Serves one connection: a request, its answer.
    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = match read_request(stream)? {
            Ok(request) => request,
            Err(what) => {
                refuse(stream, &what);
                return Ok(());
            }
        };
        match request {
            Request::Statistics => self.tell_statistics(stream),
            Request::Levels => {
                let Some(db) = self.store.handle() else {
                    return Ok(());
                };
                let levels = db.levels_with_duplicates();
                drop(db);
                tell(stream, Told::Levels(&levels))
            }
            Request::Explanation => {
                let Some(db) = self.store.handle() else {
                    return Ok(());
                };
                let explanation = explain_compaction(&db);
                drop(db);
                tell(stream, Told::Explanation(&explanation))
            }
            Request::Description(keyspace) => {
                let Some(db) = self.store.handle() else {
                    return Ok(());
                };
                let name = keyspace.as_deref().unwrap_or(DEFAULT_NAME);
                let described = describe_compaction(&db, name);
                drop(db);
                match described.and_then(|described| described.to_toml()) {
                    Ok(text) => tell(stream, Told::Description(&text)),
                    // The outcome names a missing keyspace, so that the client returns the same
                    // error.
                    Err(error) => write_line(stream, &outcome_line(&Outcome::of(Err(error)))),
                }
            }
            Request::PlacedTables(keyspace) => {
                let Some(db) = self.store.handle() else {
                    return Ok(());
                };
                let placed = tiers::placed_tables(&db, keyspace.as_deref());
                drop(db);
                match placed {
                    Ok(placed) => tell(stream, Told::PlacedTables(&placed)),
                    Err(error) => write_line(stream, &outcome_line(&Outcome::of(Err(error)))),
                }
            }
            Request::Events(wanted) => self.tell_events(stream, wanted),
            Request::Administration(wanted) => self.administer(stream, &wanted),
        }
    }

    fn administer(&self, stream: &UnixStream, wanted: &Administration) -> io::Result<()> {
        let Some(turn) = self.turns.take() else {
            put_off(
                stream,
                "too many flushes, merges and checkpoints are asked for already; try again later",
            );
            return Ok(());
        };
        let Some(db) = self.begin_administering() else {
            return Ok(());
        };
        let ended = wanted.carry_out(&db);
        // A listener's code may have forked: the parent answers.
        if self.store.mark().is_inherited() {
            return Ok(());
        }
        drop(db);
        // A client that gets the outcome may ask for the next at once.
        drop(turn);
        write_line(stream, &outcome_line(&Outcome::of(ended)))
    }

    /// Lets closing leave this thread its connection from here on. `None` if closing has begun.
    fn begin_administering(&self) -> Option<Db> {
        let mut state = self.state.lock();
        let this = thread::current().id();
        let connection = state
            .connections
            .iter_mut()
            .find(|connection| connection.thread.thread().id() == this)?;
        connection.administers = true;
        self.store.handle()
    }

    fn tell_statistics(&self, stream: &UnixStream) -> io::Result<()> {
        let Some(db) = self.store.handle() else {
            return Ok(());
        };
        let statistics = db.statistics();
        drop(db);
        tell(stream, Told::Statistics(&statistics))
    }

    fn tell_events(&self, stream: &UnixStream, wanted: EventRequest) -> io::Result<()> {
        let mut last = wanted.after;
        let mut next_statistics = Instant::now();
        loop {
            let Some(events) = self.store.events_after(last) else {
                return Ok(());
            };
            for event in &events {
                tell(stream, Told::Event(event))?;
                last = event.number;
            }
            if !wanted.follow {
                return Ok(());
            }
            if let Some(every) = wanted.statistics_every
                && Instant::now() >= next_statistics
            {
                self.tell_statistics(stream)?;
                next_statistics = Instant::now() + every;
            }
            if self.pause() || has_hung_up(stream) {
                return Ok(());
            }
        }
    }

    /// Waits a little. Returns whether the store has been closed.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed {
            self.closed.wait_for(&mut state, FOLLOW_PAUSE);
        }
        state.is_closed
    }
}

/// Checks that a store's directory may have a socket: one on a simulated disk has not, and without
/// /proc nothing leads to an open directory.
fn check(directory: &dyn Directory) -> Result<()> {
    let detail = if directory.descriptor().is_none() {
        "the store is not in a directory of the file system; use it without a socket"
    } else if !Path::new("/proc/self/fd").exists() {
        "/proc is not mounted, and a socket is made through it; mount it, or use the store without one"
    } else {
        return Ok(());
    };
    Err(Error::NoInspection {
        path: directory.shown(SOCKET),
        detail: detail.to_owned(),
    })
}
