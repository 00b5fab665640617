//! The audit after a phase: the tables hold what was acknowledged, and agree with each other.
//!
//! Counts equal visible links, and the index equals the table. Every node and link has the value of its
//! version. There are as many nodes, links, visible links and versions as requests have made. After a load
//! the links are those of the graph.

use std::sync::atomic::Ordering;

use super::graph::{Graph, InUse};
use super::perform::GraphStore;
use super::request::{LINK_TYPES, LinkKey};
use super::rows::{self, Count, Node};
use super::{COUNT, INDEX, LINK, NODE};
use crate::Result;
use crate::draw::mix_64;
use crate::tables::View;

/// Behind every key of the tables.
const END: [u8; 40] = [0xff; 40];

/// A set of things, as a number and a sum of their hashes. Sets that differ have unlike sums, but for a
/// chance of one in 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    number: u64,
    sum: u64,
}

impl Digest {
    fn add<const N: usize>(&mut self, parts: [u64; N]) {
        let hash = parts.iter().fold(0, |hash, part| mix_64(hash ^ *part));
        self.number += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// The contents of the table of links.
#[derive(Default)]
struct Links {
    all: Digest,
    /// Numbers of visible links above 0, by node and type.
    counts: Digest,
    visible: u64,
    versions: u64,
}

/// Takes the key and value of a row; `None` if it cannot read them.
type Read<'a> = dyn FnMut(&[u8], &[u8]) -> Option<()> + 'a;

/// Compares the tables with each other, and with the requests that were acknowledged. `is_loaded` says that
/// none but loads were.
///
/// # Errors
/// Those of the store; tables that contradict each other or the requests.
pub fn audit(store: &GraphStore<'_>, is_loaded: bool) -> Result<()> {
    let view = store.tables.view()?;
    let (nodes, node_versions) = of_nodes(&*view)?;
    let links = of_links(&*view)?;
    if is_loaded && links.all != of_graph(store.graph) {
        return Err("the links are not those that were loaded".into());
    }
    if links.all != of_index(&*view)? {
        return Err("the index disagrees with the table of links".into());
    }
    if links.counts != of_counts(&*view)? {
        return Err("the counts disagree with the visible links".into());
    }
    let InUse {
        nodes: expected_nodes,
        node_versions: expected_node_versions,
        links: expected_links,
        visible,
        link_versions,
        ..
    } = store.in_use;
    for (subject, found, expected) in [
        ("nodes", nodes, expected_nodes),
        ("versions of nodes", node_versions, expected_node_versions),
        ("links", links.all.number, expected_links),
        ("visible links", links.visible, visible),
        ("versions of links", links.versions, link_versions),
    ] {
        let expected = expected.load(Ordering::Relaxed);
        if found != expected {
            return Err(
                format!("{found} {subject} are there; {expected} were acknowledged").into(),
            );
        }
    }
    Ok(())
}

/// Returns the number of nodes, and of their versions.
fn of_nodes(view: &dyn View) -> Result<(u64, u64)> {
    let (mut nodes, mut versions, mut expected) = (0, 0, Vec::new());
    rows_of(view, NODE, &mut |key, value| {
        let id = u64::from_be_bytes(key.try_into().ok()?);
        nodes += 1;
        versions += Node::read(value)?.version;
        rows::is_node(id, value, &mut expected).then_some(())
    })?;
    Ok((nodes, versions))
}

fn of_links(view: &dyn View) -> Result<Links> {
    let (mut links, mut expected) = (Links::default(), Vec::new());
    // The keys begin with type and first id.
    let mut group: Option<(u64, u64, u64)> = None;
    rows_of(view, LINK, &mut |key, value| {
        let link = rows::link_of(key)?;
        let row = rows::link_in(&link, value, &mut expected)?;
        let visible = u64::from(row.is_visible);
        links.all.add(of_link(&link, row.is_visible, row.time));
        links.visible += visible;
        links.versions += u64::from(row.version);
        match &mut group {
            Some((link_type, id1, all)) if (*link_type, *id1) == (link.link_type, link.id1) => {
                *all += visible;
            }
            other => {
                let begun = (link.link_type, link.id1, visible);
                add_count(&mut links.counts, other.replace(begun));
            }
        }
        Some(())
    })?;
    add_count(&mut links.counts, group);
    Ok(links)
}

fn of_index(view: &dyn View) -> Result<Digest> {
    let mut links = Digest::default();
    rows_of(view, INDEX, &mut |key, _| {
        let (link, is_visible, time) = rows::indexed(key)?;
        links.add(of_link(&link, is_visible, time));
        Some(())
    })?;
    Ok(links)
}

fn of_counts(view: &dyn View) -> Result<Digest> {
    let mut counts = Digest::default();
    rows_of(view, COUNT, &mut |key, value| {
        let ((id1, link_type), count) = (rows::count_of(key)?, Count::read(value)?);
        add_count(&mut counts, Some((link_type, id1, count.links.into())));
        Some(())
    })?;
    Ok(counts)
}

/// Returns the links that a graph is loaded with.
fn of_graph(graph: &Graph) -> Digest {
    let mut links = Digest::default();
    let types = 0..LINK_TYPES.len() as u64;
    for (id, place) in
        (1..=graph.nodes()).flat_map(|id| types.clone().map(move |place| (id, place)))
    {
        for (link, time) in graph.loaded_links(id, place) {
            links.add(of_link(&link, true, time));
        }
    }
    links
}

fn of_link(link: &LinkKey, is_visible: bool, time: u64) -> [u64; 5] {
    let visibility = u64::from(is_visible);
    [link.link_type, link.id1, link.id2, visibility, time]
}

/// Adds a count. One of 0 is as good as none.
fn add_count(counts: &mut Digest, count: Option<(u64, u64, u64)>) {
    if let Some((link_type, id1, links)) = count
        && links > 0
    {
        counts.add([link_type, id1, links]);
    }
}

/// Shows every row of a table to `read`.
fn rows_of(view: &dyn View, table: usize, read: &mut Read<'_>) -> Result<()> {
    let mut wrong: Option<Vec<u8>> = None;
    view.scan(table, &[]..&END, u64::MAX, &mut |key, value| {
        if wrong.is_none() && read(key, value).is_none() {
            wrong = Some(key.to_vec());
        }
    })?;
    match wrong {
        None => Ok(()),
        Some(key) => Err(format!(
            "key {} of table {table} has another value than was written",
            key.escape_ascii()
        )
        .into()),
    }
}
