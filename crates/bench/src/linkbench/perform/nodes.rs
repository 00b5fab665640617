//! Requests of nodes.

use super::{GraphClient, count_found};
use crate::Result;
use crate::linkbench::NODE;
use crate::linkbench::graph::InUse;
use crate::linkbench::rows::{self, Node};
use crate::run::Tally;

impl GraphClient<'_> {
    pub(super) fn add_node(&mut self, id: u64, time: u64, tally: &mut Tally) -> Result<()> {
        let node = Node {
            version: 1,
            time: time as u32,
        };
        self.transact(tally, |writing| {
            node.write(id, writing.value);
            writing.put(NODE, &rows::node_key(id))
        })?;
        InUse::count(&self.store.in_use.nodes, 1);
        InUse::count(&self.store.in_use.node_versions, 1);
        Ok(())
    }

    pub(super) fn update_node(&mut self, id: u64, time: u64, tally: &mut Tally) -> Result<()> {
        let key = rows::node_key(id);
        let is_there = self.transact(tally, |writing| {
            let Some(old) = writing.read(NODE, &key, Node::read)? else {
                return Ok(false);
            };
            let node = Node {
                version: old.version + 1,
                time: time as u32,
            };
            node.write(id, writing.value);
            writing.put(NODE, &key)?;
            Ok(true)
        })?;
        InUse::count(&self.store.in_use.node_versions, is_there.into());
        Ok(())
    }

    pub(super) fn delete_node(&mut self, id: u64, tally: &mut Tally) -> Result<()> {
        let key = rows::node_key(id);
        let old = self.transact(tally, |writing| {
            let old = writing.read(NODE, &key, Node::read)?;
            if old.is_some() {
                writing.delete(NODE, &key)?;
            }
            Ok(old)
        })?;
        if let Some(old) = old {
            tally.deletes += 1;
            InUse::count(&self.store.in_use.nodes, -1);
            InUse::count(&self.store.in_use.node_versions, -(old.version as i64));
        }
        Ok(())
    }

    pub(super) fn get_node(&mut self, id: u64, tally: &mut Tally) -> Result<()> {
        let key = rows::node_key(id);
        let (expected, mut is_right) = (&mut self.value, true);
        let is_there = self.store.tables.get(NODE, &key, &mut |value| {
            tally.read_bytes += (key.len() + value.len()) as u64;
            is_right = rows::is_node(id, value, expected);
        })?;
        count_found(is_there, tally);
        match is_right {
            true => Ok(()),
            false => Err(format!("node {id} has another value than was written").into()),
        }
    }
}
