//! One client's requests, asked of a store, and the answers checked.

mod links;
mod lists;
mod load;
mod nodes;

#[cfg(test)]
pub(super) use self::lists::some_links;
use super::graph::{Graph, InUse};
use super::request::Request;
use crate::Result;
use crate::run::Tally;
use crate::tables::{Tables, Transaction};

/// A graph under requests: the store's tables, and what all clients know of it.
#[derive(Clone, Copy)]
pub struct GraphStore<'a> {
    /// The tables.
    pub tables: &'a dyn Tables,
    /// The graph as it is loaded.
    pub graph: &'a Graph,
    /// Its state since.
    pub in_use: &'a InUse,
}

/// Asks a store.
pub struct GraphClient<'a> {
    store: GraphStore<'a>,
    value: Vec<u8>,
}

impl<'a> GraphClient<'a> {
    /// Makes a client of a graph.
    pub fn new(store: GraphStore<'a>) -> Self {
        GraphClient {
            store,
            value: Vec::new(),
        }
    }

    /// Does one request.
    ///
    /// # Errors
    /// Those of the store, and an answer that contradicts the graph.
    pub fn perform(&mut self, request: &Request, tally: &mut Tally) -> Result<()> {
        match *request {
            Request::Load { id } => self.load(id, tally),
            Request::AddNode { id, time } => self.add_node(id, time, tally),
            Request::UpdateNode { id, time } => self.update_node(id, time, tally),
            Request::DeleteNode { id } => self.delete_node(id, tally),
            Request::GetNode { id } => self.get_node(id, tally),
            Request::AddLink { link, time } | Request::UpdateLink { link, time } => {
                self.add_link(&link, time, tally)
            }
            Request::DeleteLink { link } => self.delete_link(&link, tally),
            Request::CountLinks { id1, link_type } => self.count_links(id1, link_type, tally),
            Request::GetLinks {
                id1,
                link_type,
                links,
                range,
                seed,
            } => {
                let links = lists::some_links(id1, link_type, links, range, seed);
                self.get_links(&links, tally)
            }
            Request::ListLinks {
                id1,
                link_type,
                older,
            } => match older.and_then(|seed| self.store.in_use.long_list(seed)) {
                Some(list) => self.list_links(list.id1, list.link_type, Some(list.last), tally),
                None => self.list_links(id1, link_type, None, tally),
            },
        }
    }

    /// Runs a transaction. Returns its result, and adds the bytes that it wrote.
    fn transact<T: Default>(
        &mut self,
        tally: &mut Tally,
        run: impl Fn(&mut Writing<'_>) -> Result<T>,
    ) -> Result<T> {
        let (mut done, mut written_bytes) = (T::default(), 0);
        let value = &mut self.value;
        self.store.tables.transact(&mut |transaction| {
            // It may run again.
            let mut writing = Writing {
                transaction,
                value,
                written_bytes: 0,
            };
            done = run(&mut writing)?;
            written_bytes = writing.written_bytes;
            Ok(())
        })?;
        tally.written_bytes += written_bytes;
        Ok(done)
    }
}

/// A transaction, and the bytes of keys and values that it has written.
struct Writing<'a> {
    transaction: &'a mut dyn Transaction,
    /// Where values are made.
    value: &'a mut Vec<u8>,
    written_bytes: u64,
}

impl Writing<'_> {
    /// Reads a row; `None` if there is none.
    fn read<T>(
        &mut self,
        table: usize,
        key: &[u8],
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut row = None;
        let is_there = self
            .transaction
            .get(table, key, &mut |value| row = parse(value))?;
        match (is_there, row) {
            (true, None) => Err(format!("key {} has no row in it", key.escape_ascii()).into()),
            (_, row) => Ok(row),
        }
    }

    /// Writes the value that was made last.
    fn put(&mut self, table: usize, key: &[u8]) -> Result<()> {
        self.written_bytes += (key.len() + self.value.len()) as u64;
        self.transaction.put(table, key, self.value)
    }

    /// Writes a row without a value.
    fn put_key(&mut self, table: usize, key: &[u8]) -> Result<()> {
        self.value.clear();
        self.put(table, key)
    }

    fn delete(&mut self, table: usize, key: &[u8]) -> Result<()> {
        self.written_bytes += key.len() as u64;
        self.transaction.delete(table, key)
    }
}

/// Counts a read of one row.
fn count_found(is_there: bool, tally: &mut Tally) {
    match is_there {
        true => tally.found += 1,
        false => tally.missing += 1,
    }
}
