//! Who answers: one thread that accepts, and one for each connection, few at a time.
//!
//! The threads know the store by a weak reference and hold it only while they put an answer
//! together. Closing wakes all of them: the accepting one by a pipe's end that is dropped, those
//! that wait for a client by shutting their connections down, those that follow events by a
//! condition variable. It returns when they have ended.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protocol::{EventRequest, MAX_REQUEST_BYTES, Request, Told, answer_line, parse_request};
use super::{SOCKET, address};
use crate::db::Store;
use crate::{Error, Result};

/// Clients served at a time; one more is told so and sent away.
const MAX_CONNECTIONS: usize = 8;
/// A client that has not asked by then, or does not read for so long, is sent away.
const PATIENCE: Duration = Duration::from_secs(5);
/// Events are looked for so often while somebody follows them.
const FOLLOW_PAUSE: Duration = Duration::from_millis(100);

/// The inspection socket of an open store.
pub(crate) struct Server {
    directory: PathBuf,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Its other end hangs up when this is dropped.
    wake: Option<UnixStream>,
}

/// What the threads share.
struct Shared {
    store: Weak<Store>,
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
}

impl Server {
    /// Opens the socket in the directory of a store whose lock is held.
    ///
    /// # Errors
    /// [`Error::NoInspection`] if there can be no socket.
    pub(crate) fn start(store: &Arc<Store>) -> Result<Server> {
        let directory = store.directory().to_path_buf();
        let failed = |error: io::Error| Error::NoInspection {
            path: store.directory().join(SOCKET),
            detail: error.to_string(),
        };
        let (wake, woken) = UnixStream::pair().map_err(failed)?;
        let listener = address::listen(&directory).map_err(failed)?;
        // Whoever hangs up between poll and accept must not block it.
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            store: Arc::downgrade(store),
            state: Mutex::default(),
            closed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("terrace-inspect".to_owned())
            .spawn(move || accepting.accept(&listener, &woken))
            .map_err(failed)?;
        Ok(Server {
            directory,
            shared,
            acceptor: Some(acceptor),
            wake: Some(wake),
        })
    }

    /// Removes the socket and ends every connection. No thread of the server's is left.
    pub(crate) fn close(mut self) {
        // What is left of it is replaced by the next owner.
        let _ = address::remove_socket(&self.directory);
        let connections = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.connections)
        };
        self.shared.closed.notify_all();
        self.wake = None;
        for connection in &connections {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        let threads = connections.into_iter().map(|connection| connection.thread);
        for thread in threads.chain(self.acceptor.take()) {
            // A panic has been reported on standard error already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The accepting thread.
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
                Ok((stream, _)) => self.serve_in_thread(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Out of descriptors, say: time may help, and nobody else is held up.
                Err(_) => {
                    self.pause();
                }
            }
        }
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
            refuse(&stream, "too many clients are connected; try again later");
            return;
        }
        let (shared, Ok(own)) = (Arc::clone(self), stream.try_clone()) else {
            return;
        };
        let thread = thread::Builder::new()
            .name("terrace-inspect".to_owned())
            // A client that hangs up, or none that can be served, is nothing to the store.
            .spawn(move || {
                let _ = shared.serve(&own);
                // The other copy, kept for closing, would hold the connection open.
                let _ = own.shutdown(Shutdown::Both);
            });
        if let Ok(thread) = thread {
            state.connections.push(Connection { stream, thread });
        }
    }

    /// One connection: a request, its answer.
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
                let Some(store) = self.store.upgrade() else {
                    return Ok(());
                };
                let levels = store.levels_report();
                drop(store);
                tell(stream, Told::Levels(&levels))
            }
            Request::Events(wanted) => self.tell_events(stream, wanted),
        }
    }

    fn tell_statistics(&self, stream: &UnixStream) -> io::Result<()> {
        let Some(store) = self.store.upgrade() else {
            return Ok(());
        };
        let statistics = store.statistics();
        drop(store);
        tell(stream, Told::Statistics(&statistics))
    }

    fn tell_events(&self, stream: &UnixStream, wanted: EventRequest) -> io::Result<()> {
        let mut last = wanted.after;
        let mut next_statistics = Instant::now();
        loop {
            let Some(store) = self.store.upgrade() else {
                return Ok(());
            };
            let events = store.events.kept_after(last);
            drop(store);
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

    /// Waits a little; whether the store has been closed.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed {
            self.closed.wait_for(&mut state, FOLLOW_PAUSE);
        }
        state.is_closed
    }
}

/// The line of a request, `Err` for what is none. A client gets so much time for all of it.
fn read_request(mut stream: &UnixStream) -> io::Result<std::result::Result<Request, String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 512];
        let count = stream.read(&mut bytes)?;
        line.extend(bytes.iter().take(count));
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            line.truncate(end);
            return Ok(parse_request(&line));
        }
        if count == 0 {
            return Ok(Err("the request has no end".to_owned()));
        }
        if line.len() > MAX_REQUEST_BYTES {
            return Ok(Err(format!(
                "the request is longer than {MAX_REQUEST_BYTES} bytes"
            )));
        }
    }
}

fn tell(mut stream: &UnixStream, told: Told<'_>) -> io::Result<()> {
    stream.write_all(answer_line(told).as_bytes())
}

/// A line that fits any socket's buffer. Whether it arrives is the client's business.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = tell(stream, Told::Error(why));
}

/// Whether a client has gone; one that has only nothing more to say has not.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0)
}

/// Whether a store's directory may have a socket: one on a simulated disk has not.
pub(crate) fn check(path: &Path, has_descriptors: bool) -> Result<()> {
    if has_descriptors {
        return Ok(());
    }
    Err(Error::NoInspection {
        path: path.join(SOCKET),
        detail: "the store is not in a directory of the file system; open it without `inspect`"
            .to_owned(),
    })
}
