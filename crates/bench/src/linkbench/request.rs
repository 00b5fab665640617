//! The requests to a graph.

use crate::operation::OperationKind;

/// The types of links.
pub const LINK_TYPES: [u64; 2] = [123_456_789, 123_456_790];

/// Maximum number of links that a list shows.
pub const MAX_LISTED: u64 = 10_000;

/// The key of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkKey {
    /// One of [`LINK_TYPES`].
    pub link_type: u64,
    /// The node that it is a link of.
    pub id1: u64,
    /// The node that it leads to.
    pub id2: u64,
}

/// One request. Its data follow from it, so that a reader can check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A node is loaded, with its links and their counts.
    Load {
        /// Its id.
        id: u64,
    },
    /// A new node.
    AddNode {
        /// Its id.
        id: u64,
        /// The number of the request among all, which is its time.
        time: u64,
    },
    /// A node's next version, if it is there.
    UpdateNode {
        /// Its id.
        id: u64,
        /// The time, in requests.
        time: u64,
    },
    /// A node is removed, if it is there. Its links stay.
    DeleteNode {
        /// Its id.
        id: u64,
    },
    /// A node's value.
    GetNode {
        /// Its id.
        id: u64,
    },
    /// A link that may be there: it becomes visible and has a new version.
    AddLink {
        /// Its key.
        link: LinkKey,
        /// The time, in requests.
        time: u64,
    },
    /// The same, of a link that mostly is there.
    UpdateLink {
        /// Its key.
        link: LinkKey,
        /// The time, in requests.
        time: u64,
    },
    /// A link is hidden, if it is visible.
    DeleteLink {
        /// Its key.
        link: LinkKey,
    },
    /// The number of visible links of a node and a type.
    CountLinks {
        /// The node.
        id1: u64,
        /// The type.
        link_type: u64,
    },
    /// Several links of a node and a type, no two of them the same.
    GetLinks {
        /// The node.
        id1: u64,
        /// The type.
        link_type: u64,
        /// The number of links.
        links: u64,
        /// The number of second ids to draw from, from `id1` on.
        range: u64,
        /// The seed of the draws.
        seed: u64,
    },
    /// The visible links of a node and a type, the newest first.
    ListLinks {
        /// The node.
        id1: u64,
        /// The type.
        link_type: u64,
        /// A seed where older links are wanted of a list that was longer than [`MAX_LISTED`], if there was
        /// one.
        older: Option<u64>,
    },
}

impl Request {
    /// Returns the kind under which its latency is counted.
    pub fn kind(&self) -> OperationKind {
        match self {
            Request::Load { .. } => OperationKind::Insert,
            Request::AddNode { .. } => OperationKind::AddNode,
            Request::UpdateNode { .. } => OperationKind::UpdateNode,
            Request::DeleteNode { .. } => OperationKind::DeleteNode,
            Request::GetNode { .. } => OperationKind::GetNode,
            Request::AddLink { .. } => OperationKind::AddLink,
            Request::UpdateLink { .. } => OperationKind::UpdateLink,
            Request::DeleteLink { .. } => OperationKind::DeleteLink,
            Request::CountLinks { .. } => OperationKind::CountLinks,
            Request::GetLinks { .. } => OperationKind::GetLinks,
            Request::ListLinks { .. } => OperationKind::ListLinks,
        }
    }
}

/// The mix of requests, in percent of all.
pub const MIX: [(OperationKind, f64); 10] = [
    (OperationKind::ListLinks, 50.711_914_5),
    (OperationKind::GetNode, 12.932_668_3),
    (OperationKind::AddLink, 8.988_660_1),
    (OperationKind::UpdateLink, 8.012_212_5),
    (OperationKind::UpdateNode, 7.366_437),
    (OperationKind::CountLinks, 4.886_356_7),
    (OperationKind::DeleteLink, 2.990_766_4),
    (OperationKind::AddNode, 2.573_278_9),
    (OperationKind::DeleteNode, 1.011_591_4),
    (OperationKind::GetLinks, 0.526_114_2),
];

/// Returns the kind of a request at a draw in [0, 1).
pub(super) fn kind_at(drawn: f64) -> OperationKind {
    let mut left = drawn * 100.0;
    let found = MIX.iter().find(|(_, percent)| {
        left -= percent;
        left < 0.0
    });
    // The published shares add up to 100 but for rounding.
    found.map_or(OperationKind::ListLinks, |(kind, _)| *kind)
}
