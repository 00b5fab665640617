//! A client's requests to a store, in terms of record numbers.

use serde::{Deserialize, Serialize};

use crate::linkbench::Request;
use crate::store::Direction;

/// One operation. Records have numbers; [`keys`](crate::keys) makes keys of them and
/// [`values`](crate::values) values, so that a stream of operations is the same for every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A record that is not there yet.
    Insert {
        /// Its number.
        record: u64,
    },
    /// A new value for a record.
    Update {
        /// Its number.
        record: u64,
        /// Which of its values this is: 0 is the inserted one.
        version: u32,
    },
    /// One field of a record written again: it is read, changed and written back.
    UpdateField {
        /// Its number.
        record: u64,
        /// Which field, counted from 0.
        field: u32,
        /// Which of its values this is.
        version: u32,
    },
    /// A record read and then written (YCSB's F): both count as one operation.
    ReadModifyWrite {
        /// Its number.
        record: u64,
        /// Which of its values is written.
        version: u32,
        /// One field only, or the whole value.
        field: Option<u32>,
    },
    /// A record's value.
    Read {
        /// Its number.
        record: u64,
        /// Whether it must be there, must not, or may be.
        expect: Expect,
    },
    /// Records in the order of their keys.
    Scan {
        /// Where to start: at this record's key, or at the first (last) key.
        start: Option<u64>,
        /// How many, at most.
        rows: u64,
        /// Its direction.
        direction: Direction,
    },
    /// A record to be removed.
    Delete {
        /// Its number.
        record: u64,
    },
    /// A request of LinkBench.
    Graph(Request),
}

/// The expected result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A value of this record: anything else is an error of the store.
    Found,
    /// Nothing.
    Missing,
    /// Either.
    Either,
}

/// Operations whose latencies are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// [`Operation::Insert`]
    Insert,
    /// [`Operation::Update`] and [`Operation::UpdateField`]
    Update,
    /// [`Operation::ReadModifyWrite`]
    ReadModifyWrite,
    /// [`Operation::Read`]
    Read,
    /// [`Operation::Scan`]
    Scan,
    /// [`Operation::Delete`]
    Delete,
    /// [`Request::AddNode`]
    AddNode,
    /// [`Request::UpdateNode`]
    UpdateNode,
    /// [`Request::DeleteNode`]
    DeleteNode,
    /// [`Request::GetNode`]
    GetNode,
    /// [`Request::AddLink`]
    AddLink,
    /// [`Request::UpdateLink`]
    UpdateLink,
    /// [`Request::DeleteLink`]
    DeleteLink,
    /// [`Request::CountLinks`]
    CountLinks,
    /// [`Request::GetLinks`]
    GetLinks,
    /// [`Request::ListLinks`]
    ListLinks,
}

impl OperationKind {
    /// All kinds, in the order of reports.
    pub const ALL: [OperationKind; 16] = [
        OperationKind::Insert,
        OperationKind::Update,
        OperationKind::ReadModifyWrite,
        OperationKind::Read,
        OperationKind::Scan,
        OperationKind::Delete,
        OperationKind::AddNode,
        OperationKind::UpdateNode,
        OperationKind::DeleteNode,
        OperationKind::GetNode,
        OperationKind::AddLink,
        OperationKind::UpdateLink,
        OperationKind::DeleteLink,
        OperationKind::CountLinks,
        OperationKind::GetLinks,
        OperationKind::ListLinks,
    ];

    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Insert => "insert",
            OperationKind::Update => "update",
            OperationKind::ReadModifyWrite => "read-modify-write",
            OperationKind::Read => "read",
            OperationKind::Scan => "scan",
            OperationKind::Delete => "delete",
            OperationKind::AddNode => "addnode",
            OperationKind::UpdateNode => "updatenode",
            OperationKind::DeleteNode => "deletenode",
            OperationKind::GetNode => "getnode",
            OperationKind::AddLink => "addlink",
            OperationKind::UpdateLink => "updatelink",
            OperationKind::DeleteLink => "deletelink",
            OperationKind::CountLinks => "countlink",
            OperationKind::GetLinks => "getlink",
            OperationKind::ListLinks => "getlinklist",
        }
    }
}

impl Operation {
    /// Returns the kind under which its latency is counted.
    pub fn kind(&self) -> OperationKind {
        match self {
            Operation::Insert { .. } => OperationKind::Insert,
            Operation::Update { .. } | Operation::UpdateField { .. } => OperationKind::Update,
            Operation::ReadModifyWrite { .. } => OperationKind::ReadModifyWrite,
            Operation::Read { .. } => OperationKind::Read,
            Operation::Scan { .. } => OperationKind::Scan,
            Operation::Delete { .. } => OperationKind::Delete,
            Operation::Graph(request) => request.kind(),
        }
    }
}

/// A client's stream of operations: the same for every store, from the seed of the plan.
pub trait Stream: Send {
    /// Returns the next operation; `None` when this client is done.
    fn next(&mut self) -> Option<Operation>;

    /// Takes note of each operation that the store has acknowledged: only then do inserted records
    /// become readable for the clients of a phase.
    fn done(&mut self, _operation: &Operation) {}

    /// Returns how the client takes part.
    fn part(&self) -> Part {
        Part::Measured
    }
}

/// How a client takes part in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Its operations are those of the phase.
    Measured,
    /// It keeps the others company, at a pace of its own, and ends with the last of them.
    Beside {
        /// Operations a second; `None` for as many as it can.
        rate: Option<f64>,
    },
}
