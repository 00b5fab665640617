//! Metrics and status over HTTP, beside hostile clients.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use terrace_node_server::{Config, Running};
use terrace_nvmf::initiator::client::{Client, Condition, Settings};

use self::support::{CRASH_SAFE, KEYS, Place, StorePlace, client};

fn start(mut config: Config) -> (Running, SocketAddr) {
    config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let running = Running::start(&config).unwrap();
    let address = running.metrics_address().unwrap();
    (running, address)
}

fn stop(running: Running) {
    running.stopper().stop();
    running.wait().unwrap();
}

/// Sends a request and returns the answer's head and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> String {
    let (head, body) = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    body
}

/// Reads samples, and checks that each family is declared once and before them.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut families, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(families.insert(name, kind).is_none(), "{name} twice");
        } else if !line.starts_with('#') {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let ends = ["_bucket", "_sum", "_count"];
            let part = ends.iter().find_map(|end| name.strip_suffix(end));
            let family = part.filter(|part| families.contains_key(part));
            assert!(families.contains_key(family.unwrap_or(name)), "{line}");
            let known = samples.insert(sample.to_owned(), value.parse().unwrap());
            assert!(known.is_none(), "{sample} twice");
        }
    }
    samples
}

fn commands(samples: &BTreeMap<String, f64>, operation: &str, outcome: &str) -> f64 {
    let labels = format!("operation=\"{operation}\",outcome=\"{outcome}\"");
    samples[&format!("terrace_node_commands_total{{{labels}}}")]
}

#[test]
fn metrics_count_what_hosts_did() {
    let place = Place::new();
    let (running, address) = start(place.config());
    let mut client = client(&running);
    client
        .store(KEYS, b"a", &[1; 100], Condition::None)
        .unwrap();
    let large = vec![2; 3 << 20];
    client.store(KEYS, b"b", &large, Condition::None).unwrap();
    assert!(client.store(KEYS, b"a", b"", Condition::IfAbsent).is_err());
    client.retrieve(KEYS, b"b", 4 << 20).unwrap().unwrap();
    assert!(!client.exists(KEYS, b"absent").unwrap());
    assert!(client.store(77, b"a", b"", Condition::None).is_err());

    let samples = samples(&get(address, "/metrics"));
    assert_eq!(commands(&samples, "store", "success"), 2.0);
    assert_eq!(commands(&samples, "store", "condition"), 1.0);
    assert_eq!(commands(&samples, "retrieve", "success"), 1.0);
    assert_eq!(commands(&samples, "exist", "condition"), 1.0);
    assert_eq!(commands(&samples, "refused", "invalid"), 1.0);
    let named = |name: &str| samples[&format!("terrace_node_{name}")];
    assert!(named("received_bytes_total") > 3e6 && named("sent_bytes_total") > 3e6);
    // 960 KiB a transfer.
    assert_eq!(named("transfers_total"), 4.0);
    assert!(named("transfer_wait_seconds_total") > 0.0);
    assert_eq!((named("connections"), named("controllers")), (3.0, 1.0));
    assert_eq!((named("queues"), named("commands_in_flight")), (2.0, 0.0));
    assert_eq!(named("refuses_writes"), 0.0);
    assert_eq!(named("command_seconds_count{operation=\"store\"}"), 3.0);
    let all = "command_seconds_bucket{operation=\"store\",le=\"+Inf\"}";
    assert_eq!(named(all), 3.0);
    assert!(named("command_seconds_sum{operation=\"store\"}") > 0.0);
    assert_eq!(named("keys{nsid=\"1\",name=\"keys\"}"), 2.0);
    assert_eq!(
        named("value_bytes{nsid=\"1\",name=\"keys\"}"),
        100.0 + (3 << 20) as f64
    );
    assert!(named("device_writes_total") > 0.0 && named("device_syncs_total") > 0.0);
    assert!(named("device_written_bytes_total") > 3e6);
    drop(client);
    stop(running);
}

#[test]
fn a_store_has_metrics_of_its_own_beside_those_of_the_server() {
    let place = StorePlace::new();
    let (running, address) = start(place.config());
    let mut client = client(&running);
    client
        .store(CRASH_SAFE, b"a", &[1; 100], Condition::None)
        .unwrap();
    let samples = samples(&get(address, "/metrics"));
    assert_eq!(commands(&samples, "store", "success"), 1.0);
    assert!(samples["terrace_user_bytes_total"] > 100.0);
    assert!(!samples.keys().any(|name| name.contains("device_reads")));
    let status: serde_json::Value = serde_json::from_str(&get(address, "/status")).unwrap();
    assert_eq!(status["engine"], "lsm");
    assert_eq!(status["namespaces"][1]["nsid"], CRASH_SAFE);
    assert_eq!(status["namespaces"][1]["domain"], "crash-safe");
    stop(running);
}

#[test]
fn the_status_names_hosts_and_namespaces() {
    let place = Place::new();
    let (running, address) = start(place.config());
    let mut settings = Settings::new("nqn.2026-11.example:\"a\"", [7; 16], &running.subsystem.nqn);
    settings.queues = 1;
    let mut client = Client::connect(running.addresses[0], &settings).unwrap();
    client
        .store(KEYS, b"a", &[1; 2000], Condition::None)
        .unwrap();
    let status: serde_json::Value = serde_json::from_str(&get(address, "/status")).unwrap();
    assert_eq!(status["subsystem"], running.subsystem.nqn);
    assert_eq!(status["addresses"][0], running.addresses[0].to_string());
    assert_eq!(
        (&status["healthy"], &status["stopping"]),
        (&true.into(), &false.into())
    );
    assert_eq!(status["place"], place.path().to_str().unwrap());
    let host = &status["hosts"][0];
    assert_eq!(host["nqn"], "nqn.2026-11.example:\"a\"");
    assert_eq!(host["host_id"], "07".repeat(16));
    assert_eq!(
        (&host["queues"], &host["authenticated"]),
        (&1.into(), &false.into())
    );
    assert!(host["received_bytes"].as_u64() > Some(1000), "{host}");
    let keys = &status["namespaces"][0];
    assert_eq!(
        (&keys["nsid"], &keys["keys"], &keys["kind"]),
        (&1.into(), &1.into(), &"keys".into())
    );
    assert!(keys["used_bytes"].as_u64() > Some(0), "{keys}");
    client.close().unwrap();
    // The target sees the end of a connection a little later.
    let begun = Instant::now();
    loop {
        let status: serde_json::Value = serde_json::from_str(&get(address, "/status")).unwrap();
        if status["hosts"].as_array().unwrap().is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
    stop(running);
}

#[test]
fn requests_that_are_none_are_answered_as_such() {
    let place = Place::new();
    let (running, address) = start(place.config());
    for (request, answer) in [
        ("GET /nothing HTTP/1.1\r\n\r\n", "404 Not Found"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "405 Method Not Allowed",
        ),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
        ("\u{1}\u{2} \u{3}\r\n\r\n", "400 Bad Request"),
    ] {
        let (head, _) = ask(address, request);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {answer}\r\n")),
            "{head}"
        );
    }
    let endless = format!("GET /{} HTTP/1.1\r\n", "a".repeat(9000));
    let (head, _) = ask(address, &endless);
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    let (head, body) = ask(address, "HEAD /status?x=1 HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(),
        "{head}"
    );
    stop(running);
}

#[test]
fn clients_that_do_nothing_keep_nobody_out() {
    let place = Place::new();
    let (running, address) = start(place.config());
    let mut silent: Vec<TcpStream> = (0..40)
        .map(|at| {
            let mut stream = TcpStream::connect(address).unwrap();
            let front = &b"GET /metrics HTTP/1.1\r\n"[..at % 20];
            stream.write_all(front).unwrap();
            stream
        })
        .collect();
    assert!(get(address, "/metrics").contains("terrace_node_uptime_seconds "));
    // Each of them ends: the first since there are too many, the last since its time is over.
    for stream in [0, 39].map(|at| silent.swap_remove(at.min(silent.len() - 1))) {
        let mut stream = stream;
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        // The node was opened by this thread, whose system calls its completions interrupt.
        let ended = loop {
            match stream.read(&mut [0; 16]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                ended => break ended,
            }
        };
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(
            matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(is_reset),
            "{ended:?}"
        );
    }
    // The server ends though others are still there.
    let begun = Instant::now();
    stop(running);
    assert!(begun.elapsed() < Duration::from_secs(20));
}
