//! Histories of transactions on lists, and the search for what no order of them explains.
//!
//! Each key has a list of numbers. Transactions read lists and append to them, and no number is appended
//! twice. So the last state of a list tells the order of all its writers, and each read tells the place in
//! that order at which it was made (Kingsbury and Alvaro, "Elle", VLDB 2020). From that follow edges between
//! transactions: the writer of a version comes before the writer of the next one and before its readers, its
//! readers before the writer of the next one, and a transaction that ended comes before one that began
//! later. Committed transactions took effect one after the other, in the order of time, if no edges form a
//! circle.

use std::collections::{BTreeMap, HashMap};

pub type Key = u32;

/// A part of a transaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Found this list; an empty one if there is no such key.
    Read(Key, Vec<u64>),
    /// Found these lists from a key on, up to another one, which is excluded.
    ReadRange(Key, Key, Vec<(Key, Vec<u64>)>),
    Append(Key, u64),
}

#[derive(Clone, Debug)]
pub struct Recorded {
    /// Moments of its begin and its end, from one clock.
    pub began: u64,
    pub ended: u64,
    pub is_committed: bool,
    pub steps: Vec<Step>,
}

/// An edge from one transaction to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    WroteBefore,
    WasRead,
    ReadBefore,
    EndedBefore,
}

/// What is wrong with a history.
#[derive(Debug)]
pub enum Anomaly {
    /// A read saw a number that no committed transaction appended, or a list in another order.
    NoVersion { reader: usize, key: Key },
    /// Transactions that each come before the next one, and the last one before the first.
    Circle(Vec<(usize, Why)>),
}

/// The edges between transactions, and between moments of time, which are nodes behind them.
struct Graph {
    edges: Vec<Vec<(usize, Why)>>,
}

/// Looks for an anomaly. `last` has the lists that are there in the end.
pub fn find_anomaly(history: &[Recorded], last: &BTreeMap<Key, Vec<u64>>) -> Option<Anomaly> {
    let mut writers = HashMap::new();
    for (at, recorded) in history
        .iter()
        .enumerate()
        .filter(|(_, one)| one.is_committed)
    {
        for step in &recorded.steps {
            if let Step::Append(key, number) = step {
                writers.insert((*key, *number), at);
            }
        }
    }
    let nothing = Vec::new();
    let list_of = |key: Key| last.get(&key).unwrap_or(&nothing);
    // Every committed number is in its list, or it was lost.
    for (&(key, number), &writer) in &writers {
        if !list_of(key).contains(&number) {
            return Some(Anomaly::NoVersion {
                reader: writer,
                key,
            });
        }
    }
    let mut graph = Graph {
        edges: vec![Vec::new(); history.len()],
    };
    for (&key, list) in last {
        let writer = |number: &u64| writers.get(&(key, *number)).copied();
        for pair in list.windows(2) {
            match (writer(&pair[0]), writer(&pair[1])) {
                (Some(first), Some(second)) => graph.add(first, second, Why::WroteBefore),
                _ => {
                    return Some(Anomaly::NoVersion {
                        reader: usize::MAX,
                        key,
                    });
                }
            }
        }
    }
    for (reader, recorded) in history
        .iter()
        .enumerate()
        .filter(|(_, one)| one.is_committed)
    {
        for (key, found) in reads_of(recorded, last) {
            let list = list_of(key);
            // Its own appends come after what it found of others.
            let own = |number: &&u64| writers.get(&(key, **number)) == Some(&reader);
            let foreign = found.iter().take_while(|number| !own(number)).count();
            let (version, own_numbers) = found.split_at(foreign);
            let is_version = list.starts_with(version)
                && list
                    .get(foreign..)
                    .is_some_and(|rest| rest.starts_with(own_numbers))
                && own_numbers.iter().all(|number| own(&number));
            let before = version.last().map(|number| writers.get(&(key, *number)));
            if !is_version || before == Some(None) {
                return Some(Anomaly::NoVersion { reader, key });
            }
            if let Some(Some(&before)) = before {
                graph.add(before, reader, Why::WasRead);
            }
            if let Some(next) = list
                .get(foreign)
                .and_then(|next| writers.get(&(key, *next)))
            {
                graph.add(reader, *next, Why::ReadBefore);
            }
        }
    }
    graph.add_time(history);
    graph.circle(history.len()).map(Anomaly::Circle)
}

/// Returns each key that a transaction looked at, with what it found. In a range it looked at every key.
fn reads_of(recorded: &Recorded, last: &BTreeMap<Key, Vec<u64>>) -> Vec<(Key, Vec<u64>)> {
    let mut reads = Vec::new();
    for step in &recorded.steps {
        match step {
            Step::Read(key, found) => reads.push((*key, found.clone())),
            Step::ReadRange(from, to, found) => {
                let found: BTreeMap<_, _> = found.iter().cloned().collect();
                let keys = last.range(*from..*to).map(|(key, _)| *key);
                let absent = keys.filter(|key| !found.contains_key(key));
                reads.extend(absent.map(|key| (key, Vec::new())));
                reads.extend(found);
            }
            Step::Append(..) => {}
        }
    }
    reads
}

impl Graph {
    fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].push((to, why));
        }
    }

    /// Adds the moments: the end of a transaction leads to the next moment, a moment to each begin in it.
    fn add_time(&mut self, history: &[Recorded]) {
        let committed = history
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_committed);
        let mut moments: Vec<(u64, bool, usize)> = committed
            .flat_map(|(at, one)| [(one.began, true, at), (one.ended, false, at)])
            .collect();
        moments.sort_unstable();
        let mut moment = self.edges.len();
        self.edges.push(Vec::new());
        for (_, is_begin, at) in moments {
            match is_begin {
                true => self.edges[moment].push((at, Why::EndedBefore)),
                false => {
                    self.edges.push(Vec::new());
                    self.edges[moment].push((moment + 1, Why::EndedBefore));
                    moment += 1;
                    self.edges[at].push((moment, Why::EndedBefore));
                }
            }
        }
    }

    /// Returns a circle, as short as a search from one of its nodes finds it. Moments are left out.
    fn circle(&self, transactions: usize) -> Option<Vec<(usize, Why)>> {
        let start = self.on_a_circle()?;
        let mut came_from: HashMap<usize, (usize, Why)> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &(next, why) in &self.edges[node] {
                if next == start {
                    let mut circle = vec![(node, why)];
                    let mut at = node;
                    while at != start {
                        let (before, why) = came_from[&at];
                        circle.push((before, why));
                        at = before;
                    }
                    circle.reverse();
                    circle.retain(|(node, _)| *node < transactions);
                    return Some(circle);
                }
                if next != start && !came_from.contains_key(&next) {
                    came_from.insert(next, (node, why));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Returns a node on a circle: what is left after nodes without a way in are taken away, again and
    /// again, leads back into a circle.
    fn on_a_circle(&self) -> Option<usize> {
        let mut ways_in = vec![0usize; self.edges.len()];
        for (to, _) in self.edges.iter().flatten() {
            ways_in[*to] += 1;
        }
        let mut free: Vec<usize> = (0..ways_in.len())
            .filter(|&node| ways_in[node] == 0)
            .collect();
        while let Some(node) = free.pop() {
            for (to, _) in &self.edges[node] {
                ways_in[*to] -= 1;
                if ways_in[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        let mut node = ways_in.iter().position(|&ways| ways > 0)?;
        let mut back = vec![Vec::new(); self.edges.len()];
        for (from, edges) in self
            .edges
            .iter()
            .enumerate()
            .filter(|(from, _)| ways_in[*from] > 0)
        {
            for (to, _) in edges {
                back[*to].push(from);
            }
        }
        // Each node that is left has a way in from another one: going back ends in a circle.
        let mut seen = vec![false; self.edges.len()];
        while !seen[node] {
            seen[node] = true;
            node = back[node][0];
        }
        Some(node)
    }
}

/// Histories with a known fault.
mod planted {
    use super::*;

    fn one(began: u64, ended: u64, steps: Vec<Step>) -> Recorded {
        Recorded {
            began,
            ended,
            is_committed: true,
            steps,
        }
    }

    fn read(key: Key, found: &[u64]) -> Step {
        Step::Read(key, found.to_vec())
    }

    /// Returns the edges of the circle in a history.
    fn circle(history: &[Recorded], last: &[(Key, &[u64])]) -> Vec<Why> {
        match anomaly(history, last) {
            Some(Anomaly::Circle(circle)) => circle.into_iter().map(|(_, why)| why).collect(),
            found => panic!("{found:?}"),
        }
    }

    fn anomaly(history: &[Recorded], last: &[(Key, &[u64])]) -> Option<Anomaly> {
        let last = last.iter().map(|(key, list)| (*key, list.to_vec()));
        find_anomaly(history, &last.collect())
    }

    #[test]
    fn histories_that_are_in_order_pass() {
        let history = [
            one(1, 2, vec![read(1, &[]), Step::Append(1, 10)]),
            one(
                3,
                6,
                vec![read(1, &[10]), Step::Append(1, 11), read(1, &[10, 11])],
            ),
            one(4, 5, vec![read(1, &[10]), Step::ReadRange(2, 5, vec![])]),
            one(7, 8, vec![Step::Append(3, 12)]),
        ];
        let found = anomaly(&history, &[(1, &[10, 11]), (3, &[12])]);
        assert!(found.is_none(), "{found:?}");
    }

    #[test]
    fn a_lost_update_is_found() {
        let both = [
            one(1, 3, vec![read(1, &[]), Step::Append(1, 10)]),
            one(2, 4, vec![read(1, &[]), Step::Append(1, 11)]),
        ];
        assert_eq!(circle(&both, &[(1, &[10, 11])]).len(), 2);
        assert!(matches!(
            anomaly(&both, &[(1, &[11])]),
            Some(Anomaly::NoVersion { .. })
        ));
    }

    #[test]
    fn write_skew_is_found() {
        let history = [
            one(1, 3, vec![read(1, &[]), Step::Append(2, 10)]),
            one(2, 4, vec![read(2, &[]), Step::Append(1, 11)]),
        ];
        let edges = circle(&history, &[(1, &[11]), (2, &[10])]);
        assert_eq!(edges, [Why::ReadBefore, Why::ReadBefore]);
    }

    #[test]
    fn a_phantom_in_an_empty_range_is_found() {
        let history = [
            one(
                1,
                3,
                vec![Step::ReadRange(1, 5, vec![]), Step::Append(7, 10)],
            ),
            one(
                2,
                4,
                vec![Step::ReadRange(6, 9, vec![]), Step::Append(2, 11)],
            ),
        ];
        let edges = circle(&history, &[(2, &[11]), (7, &[10])]);
        assert_eq!(edges, [Why::ReadBefore, Why::ReadBefore]);
    }

    /// Fekete, O'Neil and O'Neil, SIGMOD Record 2004: two writers alone are in order, and the reader is not.
    #[test]
    fn the_anomaly_of_a_transaction_that_only_reads_is_found() {
        let history = [
            one(1, 8, vec![read(1, &[]), read(2, &[]), Step::Append(1, 10)]),
            one(2, 3, vec![read(2, &[]), Step::Append(2, 11)]),
            one(4, 5, vec![read(1, &[]), read(2, &[11])]),
        ];
        let edges = circle(&history, &[(1, &[10]), (2, &[11])]);
        assert!(edges.contains(&Why::WasRead) || edges.contains(&Why::EndedBefore));
        assert!(anomaly(&history[..2], &[(1, &[10]), (2, &[11])]).is_none());
    }

    #[test]
    fn a_read_of_an_older_state_after_a_commit_is_found() {
        let history = [
            one(1, 2, vec![Step::Append(1, 10)]),
            one(3, 4, vec![read(1, &[])]),
        ];
        let edges = circle(&history, &[(1, &[10])]);
        assert!(edges.contains(&Why::EndedBefore), "{edges:?}");
        let beside = [history[0].clone(), one(1, 4, vec![read(1, &[])])];
        assert!(anomaly(&beside, &[(1, &[10])]).is_none());
    }

    #[test]
    fn a_read_of_what_was_rolled_back_is_found() {
        let mut history = [
            one(1, 2, vec![Step::Append(1, 10)]),
            one(3, 4, vec![read(1, &[10])]),
        ];
        history[0].is_committed = false;
        let found = anomaly(&history, &[]);
        assert!(
            matches!(found, Some(Anomaly::NoVersion { reader: 1, key: 1 })),
            "{found:?}"
        );
    }
}
