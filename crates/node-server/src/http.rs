//! Metrics and status over HTTP: one thread, a few connections, each with little time and memory.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terrace_node::thread_start;

use crate::error::{Error, Result};
use crate::status::Status;

/// The most connections; a further one takes the place of the oldest, so slow clients keep nobody out.
const MAX_CLIENTS: usize = 16;
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// The time of a connection from its beginning to its end.
const TIME: Duration = Duration::from_secs(5);

/// A listener that answers until it is dropped.
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    /// Its end wakes the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Http {
    /// Listens on an address and answers by `status`.
    pub(crate) fn start(address: SocketAddr, status: Arc<Status>) -> Result<Self> {
        let refused = |source| Error::Listen {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let own = listener.local_addr().map_err(refused)?;
        let (stop, stopped) = UnixStream::pair().map_err(Error::io("make a socket"))?;
        let run = move || Clients::new(listener, stopped).serve(&status);
        let thread = thread_start::start("terrace-http", run);
        let thread = thread.map_err(Error::io("start the thread"))?;
        Ok(Http {
            address: own,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told of when it happened.
            let _ = thread.join();
        }
    }
}

struct Clients {
    listener: TcpListener,
    stopped: UnixStream,
    all: Vec<Client>,
}

struct Client {
    stream: TcpStream,
    until: Instant,
    head: Vec<u8>,
    /// The answer's bytes, once the head is there, and how many were sent.
    answer: Option<(Vec<u8>, usize)>,
    is_over: bool,
}

impl Clients {
    fn new(listener: TcpListener, stopped: UnixStream) -> Self {
        Clients {
            listener,
            stopped,
            all: Vec::new(),
        }
    }

    fn serve(&mut self, status: &Status) {
        loop {
            let Ok((is_stopped, is_new, ready)) = self.wait() else {
                // The system refuses to wait: try again, but not all the time.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if is_stopped {
                return;
            }
            let now = Instant::now();
            for (client, is_ready) in self.all.iter_mut().zip(ready) {
                client.is_over |= now >= client.until;
                if is_ready && !client.is_over {
                    client.go_on(status);
                }
            }
            self.all.retain(|client| !client.is_over);
            if is_new {
                self.accept(now);
            }
        }
    }

    /// Waits until something can go on: the end, a new connection, one of the present ones.
    fn wait(&self) -> io::Result<(bool, bool, Vec<bool>)> {
        let mut all = vec![
            PollFd::new(&self.stopped, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        for client in &self.all {
            let wished = match client.answer {
                None => PollFlags::IN,
                Some(_) => PollFlags::OUT,
            };
            all.push(PollFd::new(&client.stream, wished));
        }
        let until = self.all.iter().map(|client| client.until).min();
        let limit = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(&mut all, limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| !all[at].revents().is_empty();
        let clients = (2..all.len()).map(is_ready).collect();
        Ok((is_ready(0), is_ready(1), clients))
    }

    fn accept(&mut self, now: Instant) {
        match self.listener.accept() {
            Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                if self.all.len() >= MAX_CLIENTS {
                    self.all.remove(0);
                }
                self.all.push(Client {
                    stream,
                    until: now + TIME,
                    head: Vec::new(),
                    answer: None,
                    is_over: false,
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptor is left, perhaps: the listener stays readable meanwhile.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl Client {
    fn go_on(&mut self, status: &Status) {
        let done = match self.answer {
            None => self.receive(status),
            Some(_) => self.send(),
        };
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.is_over = true,
        }
    }

    fn receive(&mut self, status: &Status) -> io::Result<()> {
        let mut bytes = [0; 1024];
        let count = self.stream.read(&mut bytes)?;
        if count == 0 {
            self.is_over = true;
            return Ok(());
        }
        self.head.extend_from_slice(&bytes[..count]);
        let is_whole = self.head.windows(4).any(|four| four == b"\r\n\r\n");
        let answer = match is_whole {
            true => answer(&self.head, status),
            false if self.head.len() > MAX_HEAD_BYTES => {
                response("431 Request Header Fields Too Large", TEXT, "", true)
            }
            false => return Ok(()),
        };
        self.answer = Some((answer, 0));
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        let Some((bytes, sent)) = &mut self.answer else {
            return Ok(());
        };
        *sent += self.stream.write(&bytes[*sent..])?;
        self.is_over = *sent == bytes.len();
        Ok(())
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request, of which the first line counts.
fn answer(head: &[u8], status: &Status) -> Vec<u8> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next());
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let has_body = match method {
        _ if !is_http => return response("400 Bad Request", TEXT, "", true),
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return response("405 Method Not Allowed", TEXT, "GET alone\n", true),
    };
    let path = target.unwrap_or_default().split('?').next();
    match path {
        Some("/metrics") => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            response("200 OK", kind, &status.metrics(), has_body)
        }
        Some("/status") => {
            let text = format!("{:#}\n", status.report());
            response("200 OK", "application/json", &text, has_body)
        }
        _ => {
            let text = "there are /metrics and /status\n";
            response("404 Not Found", TEXT, text, has_body)
        }
    }
}

fn response(status: &str, kind: &str, body: &str, has_body: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if has_body { body } else { "" };
    [head.as_bytes(), body.as_bytes()].concat()
}
