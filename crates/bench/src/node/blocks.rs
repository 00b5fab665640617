//! A namespace of blocks over the network as a device, and Terrace's store on files in it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace::{Options, TimeProfile};
use terrace_nvmf::initiator;
use terrace_nvmf::initiator::client::{Answer, Client, Request};

use super::clients::{Clients, PAPER_CLIENTS, unexpected};
use super::served::{Content, NAMESPACE, Served};
use crate::Result;
use crate::flat::FlatStorage;
use crate::flat::blocks::{BLOCK_BYTES, Blocks};
use crate::settings::Settings;
use crate::store::{Activity, Contestant, Direction, Opened, Store};
use crate::stores::terrace::{open_with, options};

/// Terrace's store on the host, its files on the node's blocks.
pub const ON_BLOCKS: Contestant = Contestant {
    name: "lsm-on-blocks",
    about: "Terrace on the host, its files on the node's blocks over NVMe/TCP on loopback",
    open,
};

/// Bytes of a command: long reads and writes are several at a time.
const COMMAND_BYTES: usize = 512 << 10;
/// Commands of one read or write that are under way.
const DEPTH: usize = 16;
/// A command that takes longer has been given up by its client before.
const PATIENCE: Duration = Duration::from_secs(60);

/// The device: a pool of connections.
#[derive(Debug)]
struct WireBlocks {
    clients: Clients,
    count: u64,
}

impl WireBlocks {
    fn new(served: &Served) -> Result<Self> {
        let clients = Clients::connect(served.target(), PAPER_CLIENTS)?;
        let (block_bytes, count) = clients.run(|client| {
            let bytes = client.block_bytes(NAMESPACE)?;
            let found = client.with_controller(|one| one.block_namespace(NAMESPACE))?;
            Ok((bytes, found.size.get()))
        })?;
        match block_bytes as usize == BLOCK_BYTES {
            true => Ok(WireBlocks { clients, count }),
            false => Err("the node's blocks are not of 4096 bytes".into()),
        }
    }
}

impl Blocks for WireBlocks {
    fn count(&self) -> u64 {
        self.count
    }

    fn read(&self, first: u64, buffer: &mut [u8]) -> io::Result<()> {
        let request = |block, bytes: usize| Request::Read {
            nsid: NAMESPACE,
            block,
            blocks: (bytes / BLOCK_BYTES) as u32,
            block_bytes: BLOCK_BYTES as u32,
        };
        let parts = buffer.chunks(COMMAND_BYTES).map(<[u8]>::len);
        let requests = placed(first, parts).map(|(block, bytes)| request(block, bytes));
        let requests: Vec<Request> = requests.collect();
        let answers = self.clients.run(|client| all(client, requests));
        let answers = answers.map_err(io::Error::other)?;
        for (part, answer) in buffer.chunks_mut(COMMAND_BYTES).zip(answers) {
            if part.len() != answer.data.len() {
                return Err(io::Error::other(unexpected("blocks")));
            }
            part.copy_from_slice(&answer.data);
        }
        Ok(())
    }

    fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let lengths = bytes.chunks(COMMAND_BYTES).map(<[u8]>::len);
        let parts = placed(first, lengths).zip(bytes.chunks(COMMAND_BYTES));
        let requests = parts.map(|((block, _), data)| Request::Write {
            nsid: NAMESPACE,
            block,
            data: data.into(),
            block_bytes: BLOCK_BYTES as u32,
        });
        let requests: Vec<Request> = requests.collect();
        let written = self.clients.run(|client| all(client, requests));
        written.map(drop).map_err(io::Error::other)
    }

    fn flush(&self) -> io::Result<()> {
        let flushed = self.clients.run(|client| client.flush(NAMESPACE));
        flushed.map_err(io::Error::other)
    }
}

/// Returns the first block and the bytes of parts that follow each other.
fn placed(first: u64, parts: impl Iterator<Item = usize>) -> impl Iterator<Item = (u64, usize)> {
    parts.scan(first, |block, bytes| {
        let at = *block;
        *block += (bytes / BLOCK_BYTES) as u64;
        Some((at, bytes))
    })
}

/// Does all requests, several at a time, and returns their answers in order.
fn all(client: &mut Client, requests: Vec<Request>) -> initiator::Result<Vec<Answer>> {
    if let [_] = requests.as_slice() {
        let answers = requests.into_iter().map(|request| client.call(request));
        return answers.collect();
    }
    let mut answers: Vec<Option<Answer>> = requests.iter().map(|_| None).collect();
    let mut under_way = Vec::new();
    let mut first_error = None;
    let mut left = requests.into_iter().enumerate();
    loop {
        while under_way.len() < DEPTH && first_error.is_none() {
            let Some((index, request)) = left.next() else {
                break;
            };
            under_way.push((client.submit(request)?, index));
        }
        if under_way.is_empty() {
            break;
        }
        for done in client.wait(PATIENCE) {
            let at = under_way
                .iter()
                .position(|(ticket, _)| *ticket == done.ticket);
            let (_, index) = under_way.swap_remove(at.ok_or_else(|| unexpected("ticket"))?);
            match done.result {
                Ok(answer) => {
                    if let Some(slot) = answers.get_mut(index) {
                        *slot = Some(answer);
                    }
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(answers.into_iter().flatten().collect()),
    }
}

/// The store, and the node below it.
struct OnBlocks {
    inner: Box<dyn Store>,
    blocks: Arc<WireBlocks>,
    served: Served,
}

fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let served = Served::open(directory, settings, Content::Blocks)?;
    let blocks = Arc::new(WireBlocks::new(&served)?);
    let path = Path::new("/blocks");
    let device = Arc::clone(&blocks) as Arc<dyn Blocks>;
    let storage = match served.is_new {
        true => FlatStorage::format(device, path)?,
        false => FlatStorage::mount(device, path)?,
    };
    let told = Settings {
        own: Default::default(),
        // There is no page cache.
        direct_io: true,
        ..settings.clone()
    };
    let options = Options {
        storage: Arc::new(storage),
        ..options(&told, &[])?
    };
    let mut opened = open_with(path, options, &told)?;
    opened.durability += "; a sync is a Flush over NVMe/TCP";
    let inner = opened.store;
    opened.store = Box::new(OnBlocks {
        inner,
        blocks,
        served,
    });
    Ok(opened)
}

impl Store for OnBlocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, read)
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.inner.scan(start, limit, direction, visit)
    }

    fn settle(&self) -> Result<Instant> {
        self.inner.settle()
    }

    fn activity(&self) -> Activity {
        self.inner.activity()
    }

    fn table_bytes_written(&self) -> Option<u64> {
        self.inner.table_bytes_written()
    }

    fn time_profile(&self) -> Option<TimeProfile> {
        self.inner.time_profile()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()?;
        self.blocks.clients.close()?;
        self.served.stop()
    }
}
