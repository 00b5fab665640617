//! `--wait`: a command waits for a store that another process has open.

mod support;

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use support::{Ran, Shell};
use terrace::{Db, Options};
use terrace_tools::inspect;

const PROCESSES: usize = 30;

fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn thirty_puts_side_by_side_all_store_their_row() {
    for region in [None, Some("region")] {
        let shell = Shell::new();
        let with_region = |mut command: Command| {
            if let Some(region) = region {
                command.env("TERRACE_REGION_DIR", shell.path(region));
            }
            command
        };
        // The first one makes the store beside the others.
        let put = |number: usize| {
            let key = format!("key-{number:02}");
            let command = shell.command(&["put", "--wait=600", &key, "value"]);
            with_region(command).spawn().unwrap()
        };
        let children: Vec<Child> = (0..PROCESSES).map(put).collect();
        for ran in children.into_iter().map(ended) {
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        }
        let scan = with_region(shell.command(&["scan"])).spawn().unwrap();
        let rows = (0..PROCESSES).map(|number| format!("key-{number:02}\tvalue\n"));
        assert_eq!(ended(scan).stdout, rows.collect::<String>());
    }
}

#[test]
fn every_command_that_opens_a_store_waits_for_an_owner_that_leaves() {
    let shell = Shell::with_tables();
    let rows = shell.file("rows.csv", "key,value\nbern,Switzerland\n");
    for command in [
        "put --wait=600 paris France",
        "get --wait=600 oslo",
        "del --wait=600 rome",
        "scan --wait=600",
        "export --wait=600 -",
        &format!("import --wait=600 {rows} --key key --value value"),
        "verify --wait=600",
        "repair --wait=600",
        "stats --wait=600",
        "levels --wait=600",
        "explain compaction --wait=600",
        "flush --wait=600",
        "compact --wait=600",
        "checkpoint --wait=600 copy",
    ] {
        let owner = Db::open(shell.store(), Shell::options()).unwrap();
        let arguments: Vec<&str> = command.split(' ').collect();
        let mut started = shell.command(&arguments);
        let child = started.current_dir(shell.path("")).spawn().unwrap();
        // Most find the store taken. None may fail, whenever it comes.
        thread::sleep(Duration::from_millis(30));
        owner.close().unwrap();
        let ran = ended(child);
        assert_eq!(ran.code, 0, "{command}: {}", ran.stderr);
    }
    assert_eq!(shell.out(&["get", "bern"]), "Switzerland\n");
    assert_eq!(shell.run(&["get", "rome"]).code, 1);
}

#[test]
fn a_wait_that_is_over_is_code_4_and_says_how_long_it_was() {
    let shell = Shell::with_tables();
    let owner = Db::open(shell.store(), Options::default()).unwrap();
    for command in [
        "put --wait=0.1 k v",
        "get --wait=0.1 oslo",
        "verify --wait=0.1",
        "repair --wait=0.1",
        "stats --wait=0.1",
        "flush --wait=0.1",
    ] {
        let ran = shell.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 4, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("was for 0.1 s"), "{}", ran.stderr);
        assert!(ran.stderr.contains("--wait=SECONDS"), "{}", ran.stderr);
    }
    let ran = shell.run(&["put", "k", "v"]);
    assert!(!ran.stderr.contains("was for"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    owner.close().unwrap();
    assert_eq!(shell.run(&["get", "k"]).code, 1);
}

#[test]
fn a_file_of_options_sets_the_wait_and_the_argument_goes_first() {
    let shell = Shell::with_tables();
    let owner = Db::open(shell.store(), Options::default()).unwrap();
    let file = shell.file("store.toml", "wait_for_lock_seconds = 0.1\n");
    for (wait, told) in [(None, "for 0.1 s"), (Some("--wait=0.2"), "for 0.2 s")] {
        let mut arguments = vec!["put", "k", "v", "--options", &file];
        arguments.extend(wait);
        let ran = shell.run(&arguments);
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    owner.close().unwrap();
}

#[test]
fn a_wait_of_no_time_is_wrong_usage() {
    let shell = Shell::new();
    for time in ["-1", "nan", "inf", "1e9", "soon", ""] {
        let ran = shell.run(&["put", &format!("--wait={time}"), "k", "v"]);
        assert_eq!(ran.code, 2, "{time}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("--wait") && ran.stderr.contains("from 0 to 86400"),
            "{time}: {}",
            ran.stderr
        );
    }
    assert_eq!(shell.run(&["stats", "--follow", "--wait"]).code, 2);
    assert!(!shell.store().exists());
    // The time is never the next argument.
    shell.out(&["put", "--wait", "5", "five"]);
    assert_eq!(shell.out(&["get", "--wait", "5"]), "five\n");
}

#[test]
fn an_owner_with_a_socket_is_asked_and_not_waited_for() {
    let shell = Shell::with_tables();
    let owner = inspect::open(shell.store(), Shell::options()).unwrap();
    owner.put(b"bern", b"Switzerland").unwrap();
    let copy = shell.path("copy").to_str().unwrap().to_owned();
    for command in [
        "stats --wait=60",
        "levels --wait=60",
        "explain compaction --wait=60",
        "explain compaction --wait=60 --write-description -",
        "flush --wait=60",
        "compact --wait=60 --all",
        &format!("checkpoint --wait=60 {copy}"),
    ] {
        shell.out(&command.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(shell.out(&["get", "bern", "-d", &copy]), "Switzerland\n");
    // It refuses once and for all.
    let refused = shell.run(&["compact", "--wait=60", "--keyspace", "lakes"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    let refused = shell.run(&["checkpoint", "--wait=60", &copy]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    owner.close().unwrap();
}

/// Accepts the next client of a socket, and hangs up. Fails if the client has ended.
fn hang_up(socket: &UnixListener, client: &mut Child) {
    loop {
        match socket.accept() {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        assert!(client.try_wait().unwrap().is_none(), "it asks no more");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_owner_that_does_not_answer_is_asked_again_and_waited_for() {
    for command in ["stats", "levels", "flush", "compact"] {
        let shell = Shell::with_tables();
        let owner = Db::open(shell.store(), Options::default()).unwrap();
        let socket = UnixListener::bind(shell.store().join("inspect")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut child = shell.command(&[command, "--wait=600"]).spawn().unwrap();
        hang_up(&socket, &mut child);
        hang_up(&socket, &mut child);
        // The socket has no listener.
        drop(socket);
        owner.close().unwrap();
        let ran = ended(child);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
        assert!(!ran.stdout.contains("by the store's owner"), "{command}");
    }
}
