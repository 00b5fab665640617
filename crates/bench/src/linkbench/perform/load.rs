//! The load of a node with its links.

use super::GraphClient;
use crate::Result;
use crate::linkbench::graph::{InUse, type_at};
use crate::linkbench::request::LINK_TYPES;
use crate::linkbench::rows::{self, Count, Link, Node};
use crate::linkbench::{COUNT, INDEX, LINK, NODE};
use crate::run::Tally;
use crate::tables::Row;

/// Number of rows that are loaded together.
const ROWS_AT_ONCE: usize = 1_024;

impl GraphClient<'_> {
    pub(super) fn load(&mut self, id: u64, tally: &mut Tally) -> Result<()> {
        let node = Node {
            version: 1,
            time: 0,
        };
        node.write(id, &mut self.value);
        let mut rows: Vec<Row> = vec![(NODE, rows::node_key(id).to_vec(), self.value.clone())];
        let graph = self.store.graph;
        for place in 0..LINK_TYPES.len() as u64 {
            let mut newest = 0;
            for (link, time) in graph.loaded_links(id, place) {
                newest = newest.max(time);
                let row = Link {
                    is_visible: true,
                    time,
                    version: 1,
                };
                row.write(&link, &mut self.value);
                rows.push((LINK, rows::link_key(&link).to_vec(), self.value.clone()));
                rows.push((INDEX, rows::index_key(&link, &row).to_vec(), Vec::new()));
                if rows.len() >= ROWS_AT_ONCE {
                    self.flush(&mut rows, tally)?;
                }
            }
            let links = graph.links_of_type(id, place);
            if links > 0 {
                let count = Count {
                    links: links as u32,
                    time: newest,
                    version: 1,
                };
                count.write(&mut self.value);
                let key = rows::count_key(id, type_at(place)).to_vec();
                rows.push((COUNT, key, self.value.clone()));
            }
        }
        self.flush(&mut rows, tally)?;
        let in_use = self.store.in_use;
        let links = graph.links(id) as i64;
        InUse::count(&in_use.nodes, 1);
        InUse::count(&in_use.node_versions, 1);
        for number in [&in_use.links, &in_use.visible, &in_use.link_versions] {
            InUse::count(number, links);
        }
        Ok(())
    }

    fn flush(&mut self, rows: &mut Vec<Row>, tally: &mut Tally) -> Result<()> {
        self.store.tables.load(rows)?;
        let bytes = rows.iter().map(|(_, key, value)| key.len() + value.len());
        let bytes = bytes.sum::<usize>() as u64;
        tally.inserted_bytes += bytes;
        tally.written_bytes += bytes;
        rows.clear();
        Ok(())
    }
}
