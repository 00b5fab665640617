//! A storage node's device: made, looked at, checked, recovered, served.

mod init;
mod recover;
mod report;
mod serve;
mod server_status;
mod verify;

use terrace_node::device::Access;
use terrace_node::engine::inspect;

use self::report::{as_json, as_text};
use crate::arguments::{Node, NodeStatus};
use crate::failure::Result;
use crate::node;
use crate::output::{print, print_json};

pub fn run(what: &Node) -> Result<()> {
    match what {
        Node::Init(arguments) => init::run(arguments),
        Node::Status(arguments) => status(arguments),
        Node::Verify(arguments) => verify::run(arguments),
        Node::Recover(arguments) => recover::run(arguments),
        Node::Serve(arguments) => serve::run(arguments),
    }
}

fn status(arguments: &NodeStatus) -> Result<()> {
    if let Some(server) = &arguments.server {
        return server_status::run(server, arguments.json);
    }
    let path = arguments.path.as_deref().unwrap_or("".as_ref());
    let opened = node::open(path, Access::ReadAlone);
    let (mut device, superblock) = opened.map_err(node::ask_its_server)?;
    let opened = inspect(&mut *device).map_err(|error| node::failure(path, error))?;
    match arguments.json {
        true => print_json(&as_json(path, &superblock, Some(&opened))),
        false => print(as_text(path, &superblock, Some(&opened))),
    }
}
