//! The requests of one client.

use super::graph::{FIRST_TIME, Graph, Purpose, type_at};
use super::request::{LINK_TYPES, Request, kind_at};
use crate::draw::{Random, random, uniform, unit};
use crate::operation::{Operation, OperationKind, Stream};

/// Share of lists that ask for older links of a long list.
const OLDER_SHARE: f64 = 0.003;

/// Parameter of the geometric number of links that are asked for at once.
const LINKS_P: f64 = 0.382;

/// Maximum number of links that are asked for at once.
const MAX_LINKS: u64 = 128;

/// Loads every `step`-th node.
pub(crate) struct Loads {
    next: u64,
    step: u64,
    nodes: u64,
}

impl Loads {
    /// Makes the loads of one of several clients.
    pub(crate) fn new(nodes: u64, client: u64, clients: u64) -> Loads {
        Loads {
            next: client + 1,
            step: clients,
            nodes,
        }
    }
}

impl Stream for Loads {
    fn next(&mut self) -> Option<Operation> {
        if self.next > self.nodes {
            return None;
        }
        let id = self.next;
        self.next += self.step;
        Some(Operation::Graph(Request::Load { id }))
    }
}

/// Requests in the published mix.
pub(crate) struct Requests {
    graph: Graph,
    random: Random,
    left: u64,
    /// The number of the next request among those of all clients.
    number: u64,
    /// The id of the next new node of this client.
    next_id: u64,
    step: u64,
}

impl Requests {
    /// Makes the requests of one of several clients.
    pub(crate) fn new(graph: Graph, seed: u64, left: u64, client: u64, clients: u64) -> Requests {
        Requests {
            random: random(seed, client),
            left,
            number: client,
            next_id: graph.nodes() + 1 + client,
            step: clients,
            graph,
        }
    }

    fn request(&mut self, kind: OperationKind, time: u64) -> Request {
        match kind {
            OperationKind::AddNode => {
                let id = self.next_id;
                self.next_id += self.step;
                Request::AddNode { id, time }
            }
            OperationKind::UpdateNode => Request::UpdateNode {
                id: self.id(Purpose::UpdateNode),
                time,
            },
            OperationKind::DeleteNode => Request::DeleteNode {
                id: self.id(Purpose::DeleteNode),
            },
            OperationKind::GetNode => Request::GetNode {
                id: self.id(Purpose::ReadNode),
            },
            OperationKind::AddLink | OperationKind::UpdateLink | OperationKind::DeleteLink => {
                self.change_of_link(kind, time)
            }
            _ => self.read_of_links(kind),
        }
    }

    fn change_of_link(&mut self, kind: OperationKind, time: u64) -> Request {
        let exists = match kind {
            OperationKind::AddLink => 0.05,
            _ => 0.9,
        };
        let id1 = self.id(Purpose::WriteLinks);
        let link = self.graph.choose_link(id1, exists, &mut self.random);
        match kind {
            OperationKind::AddLink => Request::AddLink { link, time },
            OperationKind::UpdateLink => Request::UpdateLink { link, time },
            _ => Request::DeleteLink { link },
        }
    }

    fn read_of_links(&mut self, kind: OperationKind) -> Request {
        let id1 = self.id(Purpose::ReadLinks);
        let place = uniform(&mut self.random, LINK_TYPES.len() as u64);
        let link_type = type_at(place);
        match kind {
            OperationKind::CountLinks => Request::CountLinks { id1, link_type },
            OperationKind::GetLinks => Request::GetLinks {
                id1,
                link_type,
                links: geometric(unit(&mut self.random)),
                range: self.graph.id2_range(id1, place, 0.5),
                seed: uniform(&mut self.random, u64::MAX),
            },
            _ => Request::ListLinks {
                id1,
                link_type,
                older: (unit(&mut self.random) < OLDER_SHARE)
                    .then(|| uniform(&mut self.random, u64::MAX)),
            },
        }
    }

    fn id(&mut self, purpose: Purpose) -> u64 {
        self.graph.choose(purpose, &mut self.random)
    }
}

impl Stream for Requests {
    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let kind = kind_at(unit(&mut self.random));
        let time = FIRST_TIME + self.number;
        self.number += self.step;
        Some(Operation::Graph(self.request(kind, time)))
    }
}

/// Returns a number from 1 on, geometric with [`LINKS_P`].
fn geometric(drawn: f64) -> u64 {
    let more = ((1.0 - drawn).ln() / (1.0 - LINKS_P).ln()) as u64;
    (1 + more).min(MAX_LINKS)
}
