//! The longest time in which no client of a phase completed anything.
//!
//! A gap of all clients is a time that lies in a gap of each. So each client notes its own gaps, the
//! longest of them, and afterwards the lists are intersected: exact, without a word shared between
//! clients while they run.

/// Gaps shorter than this are not noted at first, ns.
const SHORTEST_NS: u64 = 1_000;

/// Maximum number of gaps that a client notes; when there are more, the shortest allowed doubles.
const MOST: usize = 1 << 14;

/// The gaps between one client's completions, ns since the phase began.
#[derive(Clone, Debug)]
pub struct Completions {
    last_ns: u64,
    shortest_ns: u64,
    gaps: Vec<(u64, u64)>,
}

impl Default for Completions {
    fn default() -> Self {
        Completions {
            last_ns: 0,
            shortest_ns: SHORTEST_NS,
            // All it will ever need: nothing is allocated while operations are timed.
            gaps: Vec::with_capacity(MOST),
        }
    }
}

impl Completions {
    /// Notes a completion at `now_ns`, later than everything before.
    pub fn complete(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.last_ns) >= self.shortest_ns {
            self.gaps.push((self.last_ns, now_ns));
            if self.gaps.len() >= MOST {
                self.forget_short_ones();
            }
        }
        self.last_ns = now_ns;
    }

    fn forget_short_ones(&mut self) {
        while self.gaps.len() > MOST / 2 {
            self.shortest_ns = self.shortest_ns.saturating_mul(2);
            let shortest_ns = self.shortest_ns;
            self.gaps.retain(|(from, to)| to - from >= shortest_ns);
        }
    }
}

/// Returns begin and length, ns, of the longest gap of all clients together before `end_ns`, when
/// the last of them was done. If no noted gap in common reaches the length below which some client
/// notes none, returns that length: no gap is longer.
pub fn longest_gap(clients: &[Completions], end_ns: u64) -> (u64, u64) {
    let mut common = vec![(0, end_ns)];
    for client in clients {
        let mut gaps = client.gaps.clone();
        // A client that is done waits for the others.
        gaps.push((client.last_ns, end_ns.max(client.last_ns)));
        common = intersection(&common, &gaps);
    }
    let noted_ns = clients.iter().map(|client| client.shortest_ns).max();
    let noted_ns = noted_ns.unwrap_or(0).min(end_ns);
    common
        .into_iter()
        .map(|(from, to)| (from, to - from))
        .filter(|(_, length)| *length >= noted_ns)
        .max_by_key(|(_, length)| *length)
        .unwrap_or((0, noted_ns))
}

/// Returns the intersection of two ascending lists of spans.
fn intersection(left: &[(u64, u64)], right: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut common = Vec::new();
    while let (Some(&&(from_left, to_left)), Some(&&(from_right, to_right))) =
        (left.peek(), right.peek())
    {
        let (from, to) = (from_left.max(from_right), to_left.min(to_right));
        if from < to {
            common.push((from, to));
        }
        if to_left <= to_right {
            left.next();
        } else {
            right.next();
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn client(completed_ms: &[u64]) -> Completions {
        let mut client = Completions::default();
        for ms in completed_ms {
            client.complete(ms * MS);
        }
        client
    }

    #[test]
    fn one_client_s_gap_is_its_longest() {
        let client = client(&[1, 2, 3, 13, 14, 20]);
        assert_eq!(longest_gap(&[client], 20 * MS), (3 * MS, 10 * MS));
    }

    #[test]
    fn another_client_s_completion_divides_a_gap() {
        let one = client(&[1, 11, 20]);
        let other = client(&[5, 9, 16, 20]);
        assert_eq!(longest_gap(&[one, other], 20 * MS), (11 * MS, 5 * MS));
    }

    #[test]
    fn a_client_that_is_done_makes_no_gap_where_another_works() {
        let early = client(&[1, 2]);
        let late = client(&[1, 2, 3, 4, 5, 9, 10]);
        assert_eq!(longest_gap(&[early, late], 10 * MS), (5 * MS, 4 * MS));
    }

    #[test]
    fn the_wait_for_the_first_completion_counts() {
        assert_eq!(longest_gap(&[client(&[7, 8])], 8 * MS), (0, 7 * MS));
    }

    #[test]
    fn a_gap_of_microseconds_is_one() {
        let mut client = Completions::default();
        [3_000, 10_000, 12_000]
            .into_iter()
            .for_each(|now| client.complete(now));
        assert_eq!(longest_gap(&[client], 12_000), (3_000, 7_000));
    }

    #[test]
    fn clients_without_a_common_gap_have_none_longer_than_what_is_noted() {
        let turns = |offset: u64| {
            let mut client = Completions::default();
            (0..100).for_each(|turn| client.complete(turn * 900 + offset));
            client
        };
        let (_, length) = longest_gap(&[turns(0), turns(450)], 90_000);
        assert!((1..=SHORTEST_NS).contains(&length), "{length}");
    }

    /// One client has forgotten gaps of up to 1 ms: if it shares a shorter one that both noted,
    /// that says nothing.
    #[test]
    fn a_short_common_gap_does_not_hide_longer_ones_that_were_not_noted() {
        let forgetful = Completions {
            last_ns: 20 * MS,
            shortest_ns: MS,
            gaps: vec![(2 * MS, 4 * MS)],
        };
        let other = client(&[2, 3, 20]);
        let other = Completions {
            gaps: vec![(4 * MS - 1000, 6 * MS)],
            ..other
        };
        assert_eq!(longest_gap(&[forgetful, other], 20 * MS), (0, MS));
    }

    #[test]
    fn many_gaps_take_bounded_memory_and_the_longest_stays() {
        let mut client = Completions::default();
        let mut now = 0;
        for i in 0..200_000u64 {
            now += if i == 77_777 {
                50 * MS
            } else {
                MS / 2 + i % 1000
            };
            client.complete(now);
        }
        assert!(client.gaps.len() <= MOST);
        assert_eq!(longest_gap(&[client], now).1, 50 * MS);
    }
}
