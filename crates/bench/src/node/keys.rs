//! The node's namespace of keys as a store: one command of the wire for each operation.

use std::path::Path;
use std::time::Instant;

use terrace_nvmf::initiator::client::Condition;

use super::clients::{Clients, PAPER_CLIENTS};
use super::served::{Content, NAMESPACE, Served};
use crate::Result;
use crate::settings::{DurabilityClass, Settings};
use crate::store::{Contestant, Direction, Opened, Store};

/// The node, keys over NVMe/TCP.
pub const NODE: Contestant = Contestant {
    name: "kv-node",
    about: "the storage node: keys over NVMe/TCP on loopback",
    open,
};

/// Bytes for which a retrieve has room. A longer value takes a second one.
const USUAL_BYTES: u32 = 64 << 10;

struct NodeKeys {
    clients: Clients,
    served: Served,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let served = Served::open(directory, settings, Content::Keys)?;
    let clients = Clients::connect(served.target(), PAPER_CLIENTS)?;
    let durability = match settings.durability {
        DurabilityClass::PowerCut => "power cut: a store is answered after a flush of the device",
        DurabilityClass::ProcessCrash => {
            "process crash: a store is answered when the device has it, not flushed"
        }
    };
    Ok(Opened {
        store: Box::new(NodeKeys { clients, served }),
        durability: durability.into(),
        settings: vec![
            ("version".into(), env!("CARGO_PKG_VERSION").into()),
            ("transport".into(), "NVMe/TCP, loopback".into()),
            ("loops".into(), "1".into()),
            ("queue of each client".into(), "depth 1".into()),
        ],
    })
}

impl Store for NodeKeys {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let store = |client: &mut terrace_nvmf::initiator::client::Client| {
            client.store(NAMESPACE, key, value, Condition::None)
        };
        Ok(self.clients.run(store)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.clients.run(|client| client.delete(NAMESPACE, key))?;
        Ok(())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut room = USUAL_BYTES;
        loop {
            let found = self
                .clients
                .run(|client| client.retrieve(NAMESPACE, key, room))?;
            let Some(value) = found else {
                return Ok(false);
            };
            if value.value_bytes <= value.bytes.len() as u64 {
                read(&value.bytes);
                return Ok(true);
            }
            room = u32::try_from(value.value_bytes)?;
        }
    }

    fn scan(
        &self,
        _: Option<&[u8]>,
        _: u64,
        _: Direction,
        _: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        Err("the node's keys are in no order".into())
    }

    fn settle(&self) -> Result<Instant> {
        self.clients.run(|client| client.flush(NAMESPACE))?;
        Ok(Instant::now())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.clients.close()?;
        self.served.stop()
    }
}
