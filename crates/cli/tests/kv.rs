//! `terrace node serve` and `terrace kv`, as two programs.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use support::Shell;
use support::node::new_node;

/// A server of its own process, which a test's end kills.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    subsystem: String,
    address: String,
}

impl Server {
    fn start(path: &str, options: &[&str]) -> Self {
        Server::serve(&[&[path], options].concat())
    }

    fn serve(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .args(["node", "serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let (subsystem, address) = line.trim_end().rsplit_once(" on ").expect("the banner");
        let subsystem = subsystem.strip_prefix("serving ").expect("the banner");
        let (subsystem, address) = (subsystem.to_owned(), address.to_owned());
        Server {
            child,
            output,
            subsystem,
            address,
        }
    }

    /// Ends the server by SIGTERM. Returns the last line.
    fn stop(mut self) -> String {
        let process = self.child.id().to_string();
        let killed = Command::new("kill").arg(process).status().unwrap();
        assert!(killed.success());
        assert!(self.child.wait().unwrap().success());
        Read::by_ref(&mut self.output)
            .lines()
            .last()
            .unwrap()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_go_through_the_network() {
    let shell = Shell::new();
    let path = new_node(&shell, &["users", "disk,kind=blocks,bytes=1MiB"]);
    let server = Server::start(&path, &[]);
    let kv = |arguments: &[&str]| {
        let mut all = vec!["kv", arguments[0], "--address", &server.address];
        all.extend(&arguments[1..]);
        shell.run(&all)
    };
    let told = |arguments: &[&str]| kv(arguments).stdout;
    let code = |arguments: &[&str]| kv(arguments).code;
    assert_eq!(code(&["put", "hello", "world"]), 0);
    assert_eq!(told(&["get", "hello"]), "world\n");
    assert_eq!(
        told(&["get", "hello", "--json"]),
        "{\"key\":\"hello\",\"value\":\"world\"}\n"
    );
    assert_eq!(code(&["exists", "hello"]), 0);
    assert_eq!(code(&["exists", "nothing"]), 1);
    assert_eq!(code(&["put", "--if-absent", "hello", "x"]), 2);
    assert_eq!(code(&["put", "--if-exists", "nothing", "x"]), 1);
    assert_eq!(code(&["put", "--hex", "00ff", "cafe", "--digests"]), 0);
    assert_eq!(told(&["get", "--hex", "00ff"]), "cafe\n");
    let listed = told(&["list", "--hex"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(code(&["del", "hello"]), 0);
    assert_eq!(code(&["get", "hello"]), 1);
    assert_eq!(code(&["get", "hello", "--namespace", "9"]), 7);
    assert_eq!(code(&["get", "a key of 17 bytes"]), 2);
    assert!(server.stop().starts_with("stopped"));
    // An acknowledged store is there for the next server.
    let server = Server::start(&path, &[]);
    let found = shell.out(&["kv", "get", "-a", &server.address, "--hex", "00ff"]);
    assert_eq!(found, "cafe\n");
}

#[test]
fn a_store_is_served_by_the_lsm_engine() {
    let shell = Shell::new();
    let store = shell.path("store").to_str().unwrap().to_owned();
    let options = format!("store = \"{store}\"\n[[namespace]]\nnsid = 7\n");
    let options = shell.file("node.toml", options.into_bytes());
    let server = Server::serve(&["--config", &options]);
    for key in ["b", "a", "c"] {
        let put = ["kv", "put", "-a", &server.address, "-n", "7", key, "value"];
        assert_eq!(shell.run(&put).code, 0);
    }
    // The engine's order is that of the bytes.
    let listed = shell.out(&["kv", "list", "-a", &server.address, "-n", "7"]);
    assert_eq!(listed, "a\nb\nc\n");
    let ran = shell.run(&["node", "serve", "--store", &store]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let subsystem = server.subsystem.clone();
    assert!(server.stop().starts_with("stopped"));
    let server = Server::serve(&["--store", &store]);
    assert_eq!(server.subsystem, subsystem);
    let ran = shell.run(&["node", "status", &store]);
    assert!(
        ran.code == 2 && ran.stderr.contains("`terrace stats`"),
        "{ran:?}"
    );
    let ran = shell.run(&["node", "serve", "x", "--store", "y"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn a_server_shows_its_hosts_and_namespaces() {
    let shell = Shell::new();
    let path = new_node(&shell, &["users,bytes=4MiB", "disk,kind=blocks,bytes=1MiB"]);
    let mut server = Server::start(&path, &["--metrics", "127.0.0.1:0"]);
    let mut line = String::new();
    server.output.read_line(&mut line).unwrap();
    let metrics = line
        .trim_end()
        .strip_prefix("metrics on ")
        .expect("the banner");
    let address = metrics.strip_suffix("/metrics").unwrap().to_owned();
    let put = ["kv", "put", "-a", &server.address, "k", "value"];
    assert_eq!(shell.run(&put).code, 0);
    let text = shell.out(&["node", "status", "--server", &address]);
    for line in [
        &format!("  subsystem                {}\n", server.subsystem),
        "  health                   sound\n",
        "Namespace 1: users\n",
        "  holds                    1 key\n",
        "  a store survives         a power cut\n",
        "Namespace 2: disk\n",
    ] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
    let bare = address.strip_prefix("http://").unwrap();
    let told = shell.json(&["node", "status", "--server", bare, "--json"]);
    assert_eq!(told["addresses"][0], server.address);
    assert_eq!(told["namespaces"][0]["keys"], 1);
    // The device itself is in use, and the error says how to ask the server.
    let ran = shell.run(&["node", "status", &path]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.stderr.contains("terrace node status --server ADDRESS"),
        "{ran:?}"
    );
    // Neither the port of hosts nor a closed one answers.
    for wrong in ["127.0.0.1:1", "https://127.0.0.1:1", ""] {
        let ran = shell.run(&["node", "status", "--server", wrong]);
        assert!([2, 6].contains(&ran.code), "{ran:?}");
    }
    let ran = shell.run(&["node", "serve", &path, "--metrics", "192.0.2.1:9"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("allow_remote_metrics"),
        "{ran:?}"
    );
}

#[test]
fn a_host_proves_its_name_by_a_secret() {
    use std::os::unix::fs::PermissionsExt;
    const HOST: &str = "nqn.2026-11.example:host";
    const SECRETS: [&str; 2] = [
        "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
    ];
    let shell = Shell::new();
    let path = new_node(&shell, &["users"]);
    let file = |name: &str, secret: &str| {
        let path = shell.file(name, format!("{HOST} {secret}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let [right, wrong] = [file("right", SECRETS[0]), file("wrong", SECRETS[1])];
    let server = Server::start(&path, &["--secrets", &right]);
    let put = |subsystem: &[&str], arguments: &[&str]| {
        let mut all = vec!["kv", "put", "-a", &server.address, "k", "v"];
        all.extend(subsystem);
        all.extend(arguments);
        let ran = shell.run(&all);
        (ran.code, ran.stderr)
    };
    let host = ["--host-nqn", HOST, "--secrets"];
    assert_eq!(put(&host, &[&right]), (0, String::new()));
    let subsystem = ["--subsystem", &server.subsystem];
    let (code, told) = put(&subsystem, &[&host[..], &[&wrong]].concat());
    assert!(code == 2 && told.contains("--secrets"), "{told}");
    let (code, told) = put(&subsystem, &host[..2]);
    assert!(code == 2 && told.contains("--secrets"), "{told}");
    let (code, told) = put(&subsystem, &[]);
    assert!(code == 2 && told.contains("not allowed"), "{told}");
}

#[test]
fn a_server_refuses_what_it_cannot_be_meant_to_do() {
    let shell = Shell::new();
    let path = new_node(&shell, &["users"]);
    let refused = |arguments: &[&str]| {
        let mut all = vec!["node", "serve", &path];
        all.extend(arguments);
        let ran = shell.run(&all);
        (ran.code, ran.stderr)
    };
    let (code, told) = refused(&["--listen", "0.0.0.0:0"]);
    assert!(
        code == 2 && told.contains("allow_unauthenticated"),
        "{told}"
    );
    let (code, told) = refused(&["--loops", "0"]);
    assert!(code == 2 && told.contains("1 to 256"), "{told}");
    let _server = Server::start(&path, &[]);
    let (code, told) = refused(&["--listen", "127.0.0.1:0"]);
    assert_eq!(code, 4, "{told}");
}

#[test]
fn a_node_that_is_not_there_is_told_of() {
    let shell = Shell::new();
    let ran = shell.run(&["kv", "get", "--address", "127.0.0.1:1", "k"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.stderr.contains("terrace node serve"), "{ran:?}");
}

#[test]
fn a_device_that_is_not_of_the_namespace_is_told_of() {
    let shell = Shell::new();
    let ran = shell.run(&["kv", "get", "--device", "/dev/ng-none", "k"]);
    assert!(
        ran.code == 7 && ran.stderr.contains("/dev/ng-none"),
        "{ran:?}"
    );
    let ran = shell.run(&["kv", "exists", "--device", "/dev/null", "k"]);
    assert!(ran.code == 6 && ran.stderr.contains("/dev/null"), "{ran:?}");
    let ran = shell.run(&["kv", "list", "--local", "--namespace", "4000000"]);
    let told = "no device is of namespace 4000000";
    assert!(ran.code == 7 && ran.stderr.contains(told), "{ran:?}");
    let both = ["kv", "list", "--local", "--device", "/dev/ng0n1"];
    assert_eq!(shell.run(&both).code, 2);
}
