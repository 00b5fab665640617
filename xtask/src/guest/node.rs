//! A storage node on this machine, for hosts in the guest.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::process::{cargo, show};

/// The time in which a server ends in order.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A served node. Its server is killed with its owner.
pub struct Node {
    program: PathBuf,
    image: PathBuf,
    secrets: Option<PathBuf>,
    server: Server,
}

/// The process that serves.
struct Server {
    child: Child,
    /// It prints to a pipe, which must stay open.
    _output: BufReader<ChildStdout>,
    port: String,
    subsystem: String,
}

/// Builds the program that serves.
pub fn program(root: &Path) -> Result<PathBuf, Outcome> {
    let mut build = cargo(root);
    // With a test, cargo chooses features as for all other tests, and builds no crate again.
    let selection = ["--bin", "terrace", "--test", "kernel"];
    match show(
        build
            .args(["build", "--workspace", "--locked"])
            .args(selection),
    ) {
        Outcome::Passed => Ok(target(root).join("debug/terrace")),
        other => Err(other),
    }
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

impl Node {
    /// Makes a node with keys in namespace 1 and blocks in namespace 2, and serves it. With secrets,
    /// hosts have to authenticate themselves.
    pub fn start(program: &Path, image: &Path, secrets: Option<&Path>) -> Result<Self, Outcome> {
        let _ = std::fs::remove_file(image);
        let mut init = Command::new(program);
        init.args(["node", "init"]).arg(image);
        init.args(["--size", "256MiB", "--namespace", "keys"]);
        init.args(["--namespace", "disk,kind=blocks,bytes=48MiB"]);
        match show(init.stdout(Stdio::null())) {
            Outcome::Passed => {}
            other => return Err(other),
        }
        let secrets = secrets.map(|file| private(file, image)).transpose()?;
        Ok(Node {
            server: Server::start(program, image, secrets.as_deref(), "0")?,
            program: program.to_owned(),
            image: image.to_owned(),
            secrets,
        })
    }

    /// Returns port and subsystem as words for the guest.
    pub fn words(&self) -> [String; 2] {
        [
            format!("port={}", self.server.port),
            format!("subsystem={}", self.server.subsystem),
        ]
    }

    /// Kills the server in the midst of its work, and serves the node again at the same address.
    pub fn restart(&mut self) -> Result<(), Outcome> {
        self.server.kill();
        let secrets = self.secrets.as_deref();
        let again = Server::start(&self.program, &self.image, secrets, &self.server.port)?;
        let before = std::mem::replace(&mut self.server, again);
        match self.server.subsystem == before.subsystem {
            true => Ok(()),
            false => Err(Outcome::Failed("the node has another name now".into())),
        }
    }

    /// Ends the server in order, and verifies the node.
    pub fn stop(mut self) -> Result<(), Outcome> {
        let failed = |what: &str| Outcome::Failed(format!("terrace node serve {what}"));
        let child = &mut self.server.child;
        if !matches!(child.try_wait(), Ok(None)) {
            return Err(failed("ended by itself"));
        }
        let asked = Command::new("kill").arg(child.id().to_string()).status();
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let ended = child.try_wait().ok().flatten();
        if !asked.is_ok_and(|status| status.success()) || !ended.is_some_and(|it| it.success()) {
            return Err(failed("does not end in order"));
        }
        let mut verify = Command::new(&self.program);
        match show(verify.args(["node", "verify"]).arg(&self.image)) {
            Outcome::Passed => Ok(()),
            other => Err(other),
        }
    }
}

impl Server {
    /// Serves a node on a port, or on any if it is 0, and waits until it listens.
    fn start(
        program: &Path,
        image: &Path,
        secrets: Option<&Path>,
        port: &str,
    ) -> Result<Self, Outcome> {
        let failed = |what: String| Outcome::Failed(format!("terrace node serve: {what}"));
        let mut command = Command::new(program);
        command.args(["node", "serve"]).arg(image);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        if let Some(secrets) = secrets {
            command.arg("--secrets").arg(secrets);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let pipe = child.stdout.take();
        let mut output = BufReader::new(pipe.ok_or_else(|| failed("no pipe".into()))?);
        let mut line = String::new();
        let _ = output.read_line(&mut line);
        let mut server = Server {
            child,
            _output: output,
            port: String::new(),
            subsystem: String::new(),
        };
        let told = line
            .trim_end()
            .strip_prefix("serving ")
            .and_then(|rest| rest.split_once(" on "))
            .and_then(|(subsystem, address)| Some((subsystem, address.rsplit_once(':')?.1)));
        let Some((subsystem, port)) = told else {
            return Err(failed(format!("it says {line:?}")));
        };
        (server.subsystem, server.port) = (subsystem.to_owned(), port.to_owned());
        Ok(server)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies a file of secrets for the server, which wants it to be its owner's alone.
fn private(file: &Path, image: &Path) -> Result<PathBuf, Outcome> {
    let copy = image.with_extension("secrets");
    let copied = std::fs::copy(file, &copy)
        .and_then(|_| std::fs::set_permissions(&copy, Permissions::from_mode(0o600)));
    match copied {
        Ok(()) => Ok(copy),
        Err(error) => Err(Outcome::Failed(format!("{}: {error}", copy.display()))),
    }
}
