//! The graph as it is loaded: which node has how many links, and which ids are asked for.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::link_counts::exceeded_by;
use super::request::{LINK_TYPES, LinkKey};
use crate::draw::{Permutation, Random, Zipfian, mix_64, scale, uniform, unit};

/// The time of the first request: every loaded link is older.
pub const FIRST_TIME: u64 = 1 << 31;

/// Maximum number of long lists that are remembered.
const MAX_LONG_LISTS: usize = 2_048;

/// Makes links and chooses ids.
#[derive(Clone)]
pub struct Graph {
    nodes: u64,
    /// The order of nodes by their numbers of links, from the most on.
    by_links: Permutation,
    /// Two orders that have nothing to do with links: for requests of links, and of nodes.
    of_links: Permutation,
    of_nodes: Permutation,
    links_read: Zipfian,
    links_written: Zipfian,
    nodes_read: Zipfian,
    nodes_updated: Zipfian,
}

/// The kind of request that an id is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads of links: zipfian .8.
    ReadLinks,
    /// Changes of links: zipfian .741.
    WriteLinks,
    /// Reads of nodes: zipfian .625.
    ReadNode,
    /// Changes of nodes: zipfian .606.
    UpdateNode,
    /// Deletions of nodes: all alike.
    DeleteNode,
}

impl Graph {
    /// Makes a graph of a number of nodes, with ids from 1 on.
    pub fn new(nodes: u64, seed: u64) -> Graph {
        let nodes = nodes.max(1);
        Graph {
            nodes,
            by_links: Permutation::new(nodes, seed),
            of_links: Permutation::new(nodes, seed ^ 1),
            of_nodes: Permutation::new(nodes, seed ^ 2),
            links_read: Zipfian::new(nodes, 0.8),
            links_written: Zipfian::new(nodes, 0.741),
            nodes_read: Zipfian::new(nodes, 0.625),
            nodes_updated: Zipfian::new(nodes, 0.606),
        }
    }

    /// Returns the number of nodes that are loaded.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the number of links of a node when it was loaded.
    pub fn links(&self, id: u64) -> u64 {
        let rank = self.by_links.place_of(id.saturating_sub(1));
        exceeded_by((rank as f64 + 0.5) / self.nodes as f64)
    }

    /// Returns the number of them that are of one type, of [`LINK_TYPES`] by its place.
    pub fn links_of_type(&self, id: u64, place: u64) -> u64 {
        let types = LINK_TYPES.len() as u64;
        let links = self.links(id);
        links / types + u64::from(place < links % types)
    }

    /// Returns the links of a node and a type as they are loaded, each with its time. As in the original,
    /// times have nothing to do with ids.
    pub fn loaded_links(&self, id1: u64, place: u64) -> impl Iterator<Item = (LinkKey, u64)> {
        (0..self.links_of_type(id1, place)).map(move |number| {
            let link = LinkKey {
                link_type: type_at(place),
                id1,
                id2: id1 + number,
            };
            let hash = mix_64(mix_64(id1 ^ link.link_type) ^ number);
            (link, scale(hash, FIRST_TIME))
        })
    }

    /// Draws an id that was loaded.
    pub fn choose(&self, purpose: Purpose, random: &mut Random) -> u64 {
        let (zipfian, order, uncorrelated_share) = match purpose {
            Purpose::ReadLinks => (&self.links_read, &self.of_links, 0.995),
            Purpose::WriteLinks => (&self.links_written, &self.of_links, 0.95),
            Purpose::ReadNode => (&self.nodes_read, &self.of_nodes, 1.0),
            Purpose::UpdateNode => (&self.nodes_updated, &self.of_nodes, 1.0),
            Purpose::DeleteNode => return 1 + uniform(random, self.nodes),
        };
        let rank = zipfian.next(random);
        let is_uncorrelated = unit(random) < uncorrelated_share;
        let order = match is_uncorrelated {
            true => order,
            false => &self.by_links,
        };
        1 + order.at(rank)
    }

    /// Draws a link of which the share `exists` was loaded, from the node `id1`.
    pub fn choose_link(&self, id1: u64, exists: f64, random: &mut Random) -> LinkKey {
        let place = uniform(random, LINK_TYPES.len() as u64);
        let range = self.id2_range(id1, place, exists);
        LinkKey {
            link_type: type_at(place),
            id1,
            id2: id1 + uniform(random, range),
        }
    }

    /// Returns the number of second ids to draw from, so that the share `exists` of them was loaded.
    pub fn id2_range(&self, id1: u64, place: u64, exists: f64) -> u64 {
        let links = self.links_of_type(id1, place);
        ((links as f64 / exists).ceil() as u64).max(1)
    }
}

/// Returns a link type by its place.
pub fn type_at(place: u64) -> u64 {
    let link_type = LINK_TYPES.get(place as usize);
    link_type.copied().unwrap_or(LINK_TYPES[0])
}

/// State of a graph in use, which all clients share: numbers that the tables must have, by acknowledged
/// requests, and lists that had more links than were shown.
#[derive(Default)]
pub struct InUse {
    /// Nodes that are there.
    pub nodes: AtomicU64,
    /// Versions of all of them together.
    pub node_versions: AtomicU64,
    /// Links that are there, hidden ones included.
    pub links: AtomicU64,
    /// Links that are visible.
    pub visible: AtomicU64,
    /// Versions of all links together.
    pub link_versions: AtomicU64,
    long_lists: Mutex<Vec<LongList>>,
}

/// A list that had more links than were shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongList {
    /// The node.
    pub id1: u64,
    /// The type.
    pub link_type: u64,
    /// Time and second id of the last link that was shown.
    pub last: (u64, u64),
}

impl InUse {
    /// Returns the state of another graph with the same contents. No list was shown there yet.
    pub fn copy(&self) -> InUse {
        let copy = |number: &AtomicU64| AtomicU64::new(number.load(Ordering::Relaxed));
        InUse {
            nodes: copy(&self.nodes),
            node_versions: copy(&self.node_versions),
            links: copy(&self.links),
            visible: copy(&self.visible),
            link_versions: copy(&self.link_versions),
            long_lists: Mutex::default(),
        }
    }

    /// Adds to one of the numbers. A negative one is subtracted.
    pub fn count(number: &AtomicU64, more: i64) {
        // Two's complement: wrapping makes it a subtraction.
        number.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Draws one of the long lists, if there is any.
    pub fn long_list(&self, seed: u64) -> Option<LongList> {
        let lists = self
            .long_lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let place = scale(mix_64(seed), lists.len() as u64);
        lists.get(place as usize).copied()
    }

    /// Remembers the last link that a long list has shown, or forgets the list where it was the end.
    pub fn remember(&self, list: LongList, is_end: bool) {
        let mut lists = self
            .long_lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_same = |old: &LongList| (old.id1, old.link_type) == (list.id1, list.link_type);
        match (lists.iter().position(is_same), is_end) {
            (Some(place), true) => drop(lists.swap_remove(place)),
            (Some(place), false) => {
                if let Some(old) = lists.get_mut(place) {
                    *old = list;
                }
            }
            (None, false) if lists.len() < MAX_LONG_LISTS => lists.push(list),
            (None, _) => {}
        }
    }
}
