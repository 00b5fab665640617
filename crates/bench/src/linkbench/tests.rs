//! LinkBench over the map: requests are the published ones, and the audit finds damage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use super::audit::audit;
use super::graph::{Graph, InUse, Purpose};
use super::perform::{GraphClient, GraphStore};
use super::request::{LINK_TYPES, MIX};
use super::stream::{Loads, Requests};
use super::{COUNT, INDEX, LINK, NODE, Request, rows};
use crate::draw::random;
use crate::operation::{Operation, Stream};
use crate::run::Tally;
use crate::stores::MapTables;
use crate::tables::{Row, Tables, Transaction, View};
use crate::{Error, Result};

const NODES: u64 = 2_000;

/// A store of a graph, all of its parts.
struct Owned {
    tables: MapTables,
    graph: Graph,
    in_use: InUse,
    tally: Tally,
}

impl Owned {
    fn store(&self) -> GraphStore<'_> {
        GraphStore {
            tables: &self.tables,
            graph: &self.graph,
            in_use: &self.in_use,
        }
    }
}

/// Loads a graph and sends requests to it.
fn used(operations: u64) -> Owned {
    let (tables, graph) = (MapTables::new(4), Graph::new(NODES, 5));
    let mut owned = Owned {
        tables,
        graph,
        in_use: InUse::default(),
        tally: Tally::default(),
    };
    let mut tally = Tally::default();
    let store = owned.store();
    run(store, Loads::new(NODES, 0, 1), &mut tally).unwrap();
    audit(&store, true).unwrap();
    let requests = Requests::new(owned.graph.clone(), 7, operations, 0, 1);
    run(store, requests, &mut tally).unwrap();
    owned.tally = tally;
    owned
}

fn run(store: GraphStore<'_>, mut stream: impl Stream, tally: &mut Tally) -> Result<()> {
    let mut client = GraphClient::new(store);
    while let Some(operation) = stream.next() {
        let Operation::Graph(request) = operation else {
            panic!("{operation:?}");
        };
        client.perform(&request, tally)?;
    }
    Ok(())
}

#[test]
fn a_graph_in_use_passes_the_audit() {
    let used = used(20_000);
    audit(&used.store(), false).unwrap();
    let tally = used.tally;
    assert!(tally.found > 2_000 && tally.missing > 100, "{tally:?}");
    assert!(tally.scanned > 5_000 && tally.deletes > 100, "{tally:?}");
    let error = audit(&used.store(), true).unwrap_err().to_string();
    assert!(error.contains("not those that were loaded"), "{error}");
}

#[test]
fn a_damaged_graph_does_not_pass() {
    for table in [NODE, LINK, COUNT, INDEX] {
        let used = used(1_000);
        let view = used.tables.view().unwrap();
        let (mut first, mut value) = (Vec::new(), Vec::new());
        view.scan(table, &[]..&[0xff], 1, &mut |key, old| {
            (first, value) = (key.to_vec(), old.to_vec());
        })
        .unwrap();
        drop(view);
        let audit_after = |change: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>| {
            used.tables.transact(change).unwrap();
            audit(&used.store(), false).unwrap_err().to_string()
        };
        let error = audit_after(&mut |transaction| transaction.delete(table, &first));
        let is_told = error.contains("disagree") || error.contains("were acknowledged");
        assert!(is_told, "{error}");
        if table == NODE || table == LINK {
            *value.last_mut().unwrap() ^= 1;
            let error = audit_after(&mut |transaction| transaction.put(table, &first, &value));
            assert!(error.contains("another value"), "{error}");
        }
    }
}

/// Acknowledges each request, and loses one of ten.
struct Losing<'a> {
    inner: &'a MapTables,
    calls: AtomicU32,
}

impl Losing<'_> {
    fn is_lost(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % 10 == 9
    }
}

impl Tables for Losing<'_> {
    fn load(&self, rows: &[Row]) -> Result<()> {
        match self.is_lost() {
            true => Ok(()),
            false => self.inner.load(rows),
        }
    }

    fn get(&self, table: usize, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(table, key, read)
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        self.inner.view()
    }

    fn transact(&self, run: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()> {
        let is_lost = self.is_lost();
        let done = self.inner.transact(&mut |transaction| {
            run(transaction)?;
            match is_lost {
                true => Err("it is lost".into()),
                false => Ok(()),
            }
        });
        match is_lost {
            true => Ok(()),
            false => done,
        }
    }
}

#[test]
fn whole_requests_that_are_lost_are_found() {
    let used = used(0);
    let losing = Losing {
        inner: &used.tables,
        calls: AtomicU32::new(0),
    };
    let store = GraphStore {
        tables: &losing,
        ..used.store()
    };
    let requests = Requests::new(used.graph.clone(), 7, 1_000, 0, 1);
    run(store, requests, &mut Tally::default()).unwrap();
    let error = audit(&store, false).unwrap_err().to_string();
    assert!(error.contains("were acknowledged"), "{error}");
    let (tables, in_use) = (MapTables::new(4), InUse::default());
    let losing = Losing {
        inner: &tables,
        calls: AtomicU32::new(0),
    };
    let store = GraphStore {
        tables: &losing,
        graph: &used.graph,
        in_use: &in_use,
    };
    run(store, Loads::new(NODES, 0, 1), &mut Tally::default()).unwrap();
    let error = audit(&store, true).unwrap_err().to_string();
    assert!(error.contains("not those that were loaded"), "{error}");
}

#[test]
fn a_list_that_contradicts_its_rows_is_an_error() {
    let used = used(0);
    let links = (1..NODES).flat_map(|id| used.graph.loaded_links(id, 0));
    let (link, _) = links.take(1).next().unwrap();
    let list = Request::ListLinks {
        id1: link.id1,
        link_type: link.link_type,
        older: None,
    };
    let mut client = GraphClient::new(used.store());
    client.perform(&list, &mut Tally::default()).unwrap();
    let key = rows::link_key(&link);
    let tables = &used.tables;
    tables
        .transact(&mut |transaction| transaction.delete(LINK, &key))
        .unwrap();
    let error: Error = client.perform(&list, &mut Tally::default()).unwrap_err();
    assert!(
        error.to_string().contains("disagrees with their rows"),
        "{error}"
    );
}

#[test]
fn requests_have_the_published_shares() {
    const REQUESTS: u64 = 200_000;
    let mut stream = Requests::new(Graph::new(NODES, 5), 7, REQUESTS, 0, 1);
    let mut counts = BTreeMap::new();
    while let Some(operation) = stream.next() {
        *counts.entry(operation.kind()).or_insert(0u64) += 1;
    }
    for (kind, percent) in MIX {
        let found = 100.0 * counts[&kind] as f64 / REQUESTS as f64;
        assert!(
            (found - percent).abs() < 0.25,
            "{kind:?}: {found}, not {percent}"
        );
    }
    assert_eq!(counts.values().sum::<u64>(), REQUESTS);
    assert!((MIX.map(|(_, percent)| percent).iter().sum::<f64>() - 100.0).abs() < 1e-6);
}

#[test]
fn links_exist_as_often_as_a_request_wants() {
    let graph = Graph::new(100_000, 5);
    let mut random = random(3, 0);
    for exists in [0.5, 0.9, 0.05] {
        let (mut found, mut all) = (0, 0);
        while all < 20_000 {
            let id1 = graph.choose(Purpose::WriteLinks, &mut random);
            let link = graph.choose_link(id1, exists, &mut random);
            let place = LINK_TYPES.iter().position(|each| *each == link.link_type);
            let links = graph.links_of_type(id1, place.unwrap() as u64);
            // Of a node with few links the range is rounded up.
            if links >= 20 {
                all += 1;
                found += u64::from(link.id2 - id1 < links);
            }
        }
        let share = found as f64 / all as f64;
        assert!((share - exists).abs() < 0.03, "{share}, not {exists}");
    }
}

#[test]
fn a_node_has_the_links_that_it_was_loaded_with() {
    let graph = Graph::new(NODES, 5);
    let loaded = |id| [0, 1].map(|place| graph.loaded_links(id, place).count() as u64);
    assert!((1..=NODES).all(|id| loaded(id).iter().sum::<u64>() == graph.links(id)));
    let all: u64 = (1..=NODES).map(|id| graph.links(id)).sum();
    // Few have nodes of very many links.
    let mean = all as f64 / NODES as f64;
    assert!((2.5..4.5).contains(&mean), "{mean}");
}

#[test]
fn a_node_with_its_links_has_the_bytes_that_are_told() {
    let (tables, graph) = (MapTables::new(4), Graph::new(50_000, 5));
    let (in_use, mut tally) = (InUse::default(), Tally::default());
    let store = GraphStore {
        tables: &tables,
        graph: &graph,
        in_use: &in_use,
    };
    run(store, Loads::new(50_000, 0, 1), &mut tally).unwrap();
    let bytes = tally.inserted_bytes as f64 / 50_000.0;
    let told = crate::workload::graph::dataset(50_000).expected_bytes() as f64 / 50_000.0;
    assert!((bytes / told - 1.0).abs() < 0.03, "{bytes}, not {told}");
}

/// A list of more links than are shown at once is gone through page by page, and no link comes twice.
#[test]
fn older_links_of_a_long_list_follow_the_newer_ones() {
    const LINKS: u64 = 25_000;
    let owned = Owned {
        tables: MapTables::new(4),
        graph: Graph::new(1, 5),
        in_use: InUse::default(),
        tally: Tally::default(),
    };
    let link_type = LINK_TYPES[0];
    let rows: Vec<Row> = (0..LINKS)
        .flat_map(|id2| {
            let link = super::request::LinkKey {
                link_type,
                id1: 1,
                id2,
            };
            let row = rows::Link {
                is_visible: true,
                // Some have the same time.
                time: id2 / 3,
                version: 1,
            };
            let mut value = Vec::new();
            row.write(&link, &mut value);
            let index = (INDEX, rows::index_key(&link, &row).to_vec(), Vec::new());
            [(LINK, rows::link_key(&link).to_vec(), value), index]
        })
        .collect();
    owned.tables.load(&rows).unwrap();
    let mut client = GraphClient::new(owned.store());
    let mut shown = Vec::new();
    for older in [None, Some(1), Some(2), Some(3)] {
        let mut tally = Tally::default();
        let list = Request::ListLinks {
            id1: 1,
            link_type,
            older,
        };
        client.perform(&list, &mut tally).unwrap();
        shown.push(tally.scanned);
    }
    // The end forgets the list, so that the last request begins anew.
    assert_eq!(shown, [10_000, 10_000, 5_000, 10_000]);
}

#[test]
fn links_that_are_asked_for_together_are_unlike() {
    let mut stream = Requests::new(Graph::new(NODES, 5), 7, 100_000, 0, 1);
    let mut requests = 0;
    while let Some(operation) = stream.next() {
        let Operation::Graph(Request::GetLinks {
            id1,
            link_type,
            links,
            range,
            seed,
        }) = operation
        else {
            continue;
        };
        requests += 1;
        let asked = super::perform::some_links(id1, link_type, links, range, seed);
        let unlike: BTreeSet<u64> = asked.iter().map(|link| link.id2).collect();
        assert_eq!((asked.len() as u64, unlike.len()), (links, asked.len()));
        assert!(unlike.iter().all(|id2| id2 - id1 < range.max(links)));
    }
    assert!(requests > 300);
}
