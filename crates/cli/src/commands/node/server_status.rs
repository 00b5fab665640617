//! A running server of a node, asked over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::failure::{Failure, Result, exit};
use crate::node;
use crate::output::{print, print_json};
use crate::report::{Sections, bytes, count, things};
use crate::text::escape;

/// The time in which a server answers.
const TIME: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MAX_BYTES: u64 = 64 << 20;
/// The next step when a server does not answer.
const CHECK: &str =
    "the address is the server's option `metrics`; without it a server answers nobody";

pub fn run(server: &str, json: bool) -> Result<()> {
    let text = ask(server)?;
    let place = escape(server.as_bytes());
    let refused = || {
        let what = format!("{place}: the answer is none of a node's server");
        node::failed(what, exit::IO, Some(CHECK))
    };
    let status: Value = serde_json::from_str(&text).map_err(|_| refused())?;
    if at(&status, "subsystem").as_str().is_none() {
        return Err(refused());
    }
    match json {
        true => print_json(&status)?,
        false => print(as_text(&status))?,
    }
    match at(&status, "healthy").as_bool() {
        Some(true) => Ok(()),
        _ => Err(node::failed(
            format!("{place}: {}", health(&status)),
            exit::CORRUPTION,
            Some("the log of the server tells more; reads go on"),
        )),
    }
}

/// Fetches the status.
fn ask(server: &str) -> Result<String> {
    let address = server.strip_prefix("http://").unwrap_or(server);
    let address = address.split('/').next().unwrap_or_default();
    if server.starts_with("https://") || address.is_empty() {
        let what = format!("{server:?} is no address; IP:PORT or http://IP:PORT is expected");
        return Err(Failure::Usage(what));
    }
    let place = escape(server.as_bytes());
    let failed =
        |error: std::io::Error| node::failed(format!("{place}: {error}"), exit::IO, Some(CHECK));
    let mut stream = connect(address).map_err(failed)?;
    let request = format!("GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    let read = stream.take(MAX_BYTES).read_to_end(&mut answer);
    read.map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let line = answer.lines().next().unwrap_or_default();
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) if line.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(node::failed(
            format!("{place}: the answer is {:?}", escape(line.as_bytes())),
            exit::IO,
            Some(CHECK),
        )),
    }
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::ErrorKind::InvalidInput.into();
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIME) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIME))?;
                stream.set_write_timeout(Some(TIME))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns a field of an object; null if it is not there.
fn at<'a>(object: &'a Value, field: &str) -> &'a Value {
    object.get(field).unwrap_or(&Value::Null)
}

fn shown(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default().as_bytes())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn health(status: &Value) -> String {
    match (at(status, "refuses_changes"), at(status, "failure")) {
        (Value::String(why), _) => {
            format!("changes are refused since {}", escape(why.as_bytes()))
        }
        (_, Value::String(why)) => escape(why.as_bytes()),
        _ => "sound".to_owned(),
    }
}

fn as_text(status: &Value) -> String {
    let mut text = Sections::default();
    text.heading("Server");
    text.line("subsystem", shown(at(status, "subsystem")));
    for address in at(status, "addresses").as_array().into_iter().flatten() {
        text.line("address", shown(address));
    }
    text.line(
        "serves",
        format!(
            "{} ({} engine)",
            shown(at(status, "place")),
            shown(at(status, "engine"))
        ),
    );
    text.line("started", shown(at(status, "started")));
    text.line("running for", time(number(at(status, "uptime_s"))));
    text.line("health", health(status));
    if at(status, "stopping").as_bool() == Some(true) {
        text.line("state", "stopping: commands under way end");
    }
    text.line("connections", count(number(at(status, "connections"))));
    for namespace in at(status, "namespaces").as_array().into_iter().flatten() {
        show_namespace(&mut text, namespace);
    }
    for host in at(status, "hosts").as_array().into_iter().flatten() {
        show_host(&mut text, host);
    }
    text.into_text()
}

fn show_namespace(text: &mut Sections, namespace: &Value) {
    let (used, size) = (
        number(at(namespace, "used_bytes")),
        number(at(namespace, "size_bytes")),
    );
    let nsid = number(at(namespace, "nsid"));
    text.heading(&format!(
        "Namespace {nsid}: {}",
        shown(at(namespace, "name"))
    ));
    text.line("kind", shown(at(namespace, "kind")));
    text.line(
        "a store survives",
        match at(namespace, "domain").as_str() {
            Some("crash-safe") => "the death of the process",
            _ => "a power cut",
        },
    );
    if at(namespace, "kind").as_str() == Some("blocks") {
        text.line("size", bytes(size));
        return;
    }
    let percent = used.saturating_mul(100).checked_div(size).unwrap_or(0);
    text.line(
        "in use",
        format!("{} of {}, {percent} %", bytes(used), bytes(size)),
    );
    if let Some(keys) = at(namespace, "keys").as_u64() {
        text.line("holds", things(keys, "key"));
    }
    if number(at(namespace, "damaged_reads")) > 0 {
        text.line(
            "damaged values read",
            count(number(at(namespace, "damaged_reads"))),
        );
    }
}

fn show_host(text: &mut Sections, host: &Value) {
    text.heading(&format!("Host {}", shown(at(host, "nqn"))));
    text.line("identifier", shown(at(host, "host_id")));
    text.line("address", shown(at(host, "address")));
    text.line(
        "authenticated",
        match at(host, "authenticated").as_bool() == Some(true) {
            true => "yes",
            false => "no",
        },
    );
    text.line("connected for", time(number(at(host, "connected_s"))));
    let (queues, in_flight) = (number(at(host, "queues")), number(at(host, "in_flight")));
    text.line("queues", format!("{queues}, {in_flight} in flight"));
    text.line("answers", count(number(at(host, "answers"))));
    let (received, sent) = (
        number(at(host, "received_bytes")),
        number(at(host, "sent_bytes")),
    );
    text.line(
        "sent and received",
        format!("{} and {}", bytes(received), bytes(sent)),
    );
}

/// Returns a number of seconds as people tell it.
fn time(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units_at_most() {
        let shown = [0, 59, 61, 3600, 90_061].map(time);
        assert_eq!(shown, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
    }
}
