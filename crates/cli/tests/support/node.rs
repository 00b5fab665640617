//! A storage node on a file in the place of a device.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use terrace_node::Key;
use terrace_node::device::{Access, Backend, Medium, Wait, open_device};
use terrace_node::engine::{Answer, Command, Condition, Engine, Event, Node, Worker};

use super::Shell;

/// Bytes of the file.
pub const SIZE: u64 = 16 << 20;

/// An engine on a file, as a node has it.
pub struct Owner {
    worker: Worker,
    tag: u64,
}

impl Owner {
    pub fn open(path: &str) -> Self {
        let medium = Arc::new(Medium::open(path, Access::Write).unwrap());
        let mut device = open_device(medium, Backend::Threads, 4).unwrap();
        let node = Node::open(&mut *device).unwrap();
        let worker = Worker::new(&node, device, 4 << 20).unwrap();
        Owner { worker, tag: 0 }
    }

    pub fn run(&mut self, nsid: u32, command: Command, value: &[u8]) {
        self.tag += 1;
        self.worker.submit(self.tag, nsid, command);
        loop {
            let mut events = Vec::new();
            self.worker.poll(Wait::Yes, &mut events).unwrap();
            for event in events {
                match event {
                    Event::Want {
                        tag,
                        offset,
                        bytes,
                        mut buffer,
                    } => {
                        let (from, bytes) = (offset as usize, bytes as usize);
                        buffer[..bytes].copy_from_slice(&value[from..from + bytes]);
                        self.worker.supply(tag, buffer);
                    }
                    Event::Done { result, .. } => {
                        let answer = result.unwrap();
                        assert!(!matches!(answer, Answer::Retrieved(_)));
                        return;
                    }
                    Event::Piece { .. } => unreachable!("nothing is retrieved"),
                }
            }
        }
    }

    pub fn store(&mut self, nsid: u32, key: &[u8], value: &[u8]) {
        let command = Command::Store {
            key: Key::new(key).unwrap(),
            value_bytes: value.len() as u32,
            condition: Condition::Always,
        };
        self.run(nsid, command, value);
    }

    pub fn delete(&mut self, nsid: u32, key: &[u8]) {
        let key = Key::new(key).unwrap();
        self.run(nsid, Command::Delete { key }, &[]);
    }
}

/// Makes a file with an empty node.
pub fn new_node(shell: &Shell, namespaces: &[&str]) -> String {
    let path = shell.path("node.img").to_str().unwrap().to_owned();
    let mut arguments = vec!["node", "init", &path, "--size", "16MiB"];
    for namespace in namespaces {
        arguments.extend(["--namespace", namespace]);
    }
    shell.out(&arguments);
    path
}

pub fn overwrite(path: &str, offset: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}
