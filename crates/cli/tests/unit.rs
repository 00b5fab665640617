//! The systemd unit: its command is one of this program, and the program tells systemd of its start
//! and end.

mod support;

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::Shell;
use support::node::new_node;

const UNIT: &str = include_str!("../../../packaging/terrace-node.service");

/// Returns the values of an option of the unit.
fn values(option: &str) -> Vec<&'static str> {
    let lines = UNIT.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| *name == option)
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn the_unit_starts_a_server_and_gives_it_time_to_stop() {
    let shell = Shell::new();
    let starts = values("ExecStart");
    let words: Vec<&str> = starts[0].split(' ').collect();
    assert_eq!((starts.len(), words[0]), (1, "/usr/bin/terrace"));
    // Its arguments are legal; the file that they name is missing.
    let absent = shell.path("absent.toml").to_str().unwrap().to_owned();
    let arguments = words[1..].iter().map(|word| match word.ends_with(".toml") {
        true => absent.as_str(),
        false => word,
    });
    let ran = shell.run(&arguments.collect::<Vec<_>>());
    assert!(
        ran.stderr.contains("absent.toml: No such file"),
        "{}",
        ran.stderr
    );
    assert_eq!(values("Type"), ["notify"]);
    let stop: u64 = values("TimeoutStopSec")[0].parse().unwrap();
    let defaults = terrace_node_server::Config::new("x");
    assert!(stop > 2 * defaults.drain_seconds);
    for line in UNIT.lines().filter(|line| !line.starts_with('#')) {
        let is_section = ["[Unit]", "[Service]", "[Install]", ""].contains(&line);
        assert!(is_section || line.contains('='), "{line}");
    }
}

/// systemd looks at the unit where it is installed.
#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let shell = Shell::new();
    let unit = UNIT.replace("/usr/bin/terrace", env!("CARGO_BIN_EXE_terrace"));
    let path = shell.file("terrace-node.service", unit);
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", &path])
        .output();
    match verified {
        Ok(ran) => {
            let told = String::from_utf8_lossy(&ran.stderr);
            let about: Vec<&str> = told
                .lines()
                .filter(|line| line.contains("terrace-node.service"))
                .collect();
            assert!(about.is_empty(), "{about:?}");
        }
        Err(_) => println!("systemd-analyze is not installed"),
    }
}

#[test]
fn a_service_manager_hears_of_start_and_end() {
    let shell = Shell::new();
    let node = new_node(&shell, &["users"]);
    let socket = shell.path("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let heard = || {
        let mut bytes = [0; 256];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let mut server = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["node", "serve", &node, "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &socket)
        .env_remove("JOURNAL_STREAM")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(heard(), "READY=1");
    let process = server.id().to_string();
    assert!(
        Command::new("kill")
            .arg(process)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(heard(), "STOPPING=1");
    let ended = server.wait_with_output_of_errors();
    let told: Vec<&str> = ended
        .lines()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(told[0], format!("opening the device {node}"));
    assert!(told[1].starts_with("serving nqn.2014-08.org.nvmexpress:uuid:"));
    assert_eq!(
        told[2..],
        [
            "stopping by signal 15: commands under way get 10 s",
            "stopped: the node is closed in order"
        ]
    );
}

trait Errors {
    /// Waits for the end in order, and returns standard error.
    fn wait_with_output_of_errors(&mut self) -> String;
}

impl Errors for std::process::Child {
    fn wait_with_output_of_errors(&mut self) -> String {
        let mut told = String::new();
        let mut errors = self.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut errors, &mut told).unwrap();
        assert!(self.wait().unwrap().success(), "{told}");
        told
    }
}
