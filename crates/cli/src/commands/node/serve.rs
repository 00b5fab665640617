//! The server of a node.

use std::fmt::Write;

use terrace_node_server::{Config, Error, Log, Running, serve_until_signal};

use crate::arguments::NodeServe;
use crate::failure::{Failure, Result, exit};
use crate::node;
use crate::output::print;

pub fn run(arguments: &NodeServe) -> Result<()> {
    let config = config(arguments).map_err(|error| failure(arguments, error))?;
    let mut told = Ok(());
    let served = serve_until_signal(&config, Log::standard_error(), |running| {
        told = print(banner(running));
    });
    served.map_err(|error| failure(arguments, error))?;
    told?;
    print("stopped: commands under way have ended, and the node is closed in order\n")
}

/// Returns the options of the file, replaced by those of the command line.
fn config(arguments: &NodeServe) -> terrace_node_server::Result<Config> {
    let mut config = match &arguments.config {
        Some(file) => Config::from_file(file)?,
        None => Config::new(""),
    };
    if let Some(path) = &arguments.path {
        (config.device, config.store) = (Some(path.clone()), None);
    }
    if let Some(directory) = &arguments.store {
        (config.device, config.store) = (None, Some(directory.clone()));
    }
    if !arguments.listen.is_empty() {
        config.listen.clone_from(&arguments.listen);
    }
    if let Some(nqn) = &arguments.subsystem {
        config.subsystem = Some(nqn.clone());
    }
    if !arguments.allowed_hosts.is_empty() {
        config.allowed_hosts = Some(arguments.allowed_hosts.clone());
    }
    if let Some(secrets) = &arguments.secrets {
        config.secrets = Some(secrets.clone());
    }
    if arguments.metrics.is_some() {
        config.metrics = arguments.metrics;
    }
    if let Some(loops) = arguments.loops {
        config.loops = loops;
    }
    config.allow_unauthenticated |= arguments.allow_unauthenticated;
    config.check()?;
    Ok(config)
}

fn banner(running: &Running) -> String {
    let mut text = String::new();
    for address in &running.addresses {
        let _ = writeln!(text, "serving {} on {address}", running.subsystem.nqn);
    }
    if let Some(address) = running.metrics_address() {
        let _ = writeln!(text, "metrics on http://{address}/metrics");
    }
    for namespace in &running.subsystem.namespaces {
        let kind = match namespace.kind {
            terrace_nvmf::target::Kind::Keys { .. } => "keys",
            terrace_nvmf::target::Kind::Blocks { .. } => "blocks",
        };
        let _ = writeln!(
            text,
            "namespace {}: {kind}, {} bytes",
            namespace.nsid, namespace.bytes
        );
    }
    text
}

fn failure(arguments: &NodeServe, error: Error) -> Failure {
    match error {
        Error::Node(terrace_node::Error::Store(error)) => Failure::from(error),
        Error::Node(error) => {
            let path = arguments.path.as_deref().or(arguments.config.as_deref());
            node::failure(path.unwrap_or("the node".as_ref()), error)
        }
        Error::Option { .. } | Error::File { .. } => {
            node::failed(error.to_string(), exit::USAGE, None)
        }
        Error::Listen { .. } => node::failed(
            error.to_string(),
            exit::IO,
            Some("another server may have the address; --listen chooses one"),
        ),
        _ => node::failed(error.to_string(), exit::IO, None),
    }
}
