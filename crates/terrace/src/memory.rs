//! Divides a budget of memory among named consumers. All functions here are pure.
//!
//! A consumer makes a [`Request`], and [`divide`] answers with a [`Share`]. The rules:
//!
//! 1. A consumer keeps its floor, the memory that it holds and cannot give up at once. Floors stand even
//!    where they exceed the budget.
//! 2. The division meets demands in the order of the list, from the bytes that the floors of others
//!    leave. A demand ends at the consumer's maximum. The last consumer of a store's list demands the
//!    whole budget, and so takes the rest.
//! 3. A [`Loan`] is memory of a lender outside the budget. Only the consumers that it names may take it.
//!    Memory beyond a borrower's maximum is the lender's until the borrower has given it back, even if
//!    the loan is over. The budget pays only for memory that no loan could explain.
//!
//! The consumers choose floors and demands by rules of their own: sleep and wake, gets against scans,
//! the time in which an arena fills. `db/memory_budget.rs` has the list of a store's consumers.

/// Filters and top indexes of open tables. A part of the budget only where that bounds the whole store.
pub(crate) const TABLES: &str = "open tables";
/// The newest versions of keys that are read again and again.
pub(crate) const READ_BUFFER: &str = "read buffer";
/// The blocks of tables, pinned ones included.
pub(crate) const BLOCKS: &str = "blocks";

/// The state of one consumer, as far as the division needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Name of the consumer, once in a list.
    pub(crate) consumer: &'static str,
    /// Bytes that it holds and cannot give up at once.
    pub(crate) floor_bytes: u64,
    /// Bytes that are to be set aside for it.
    pub(crate) demand_bytes: u64,
    /// Maximum of its bytes of the budget.
    pub(crate) max_bytes: u64,
    /// Maximum of its bytes of loans.
    pub(crate) max_borrowed_bytes: u64,
    /// Maximum of the bytes that it may hold at present, loans included.
    pub(crate) ceiling_bytes: u64,
}

impl Request {
    /// Returns the part of the floor that the budget pays for.
    fn floor_of_budget(&self) -> u64 {
        let beyond_bytes = self.floor_bytes.saturating_sub(self.max_bytes);
        let unexplained_bytes = beyond_bytes.saturating_sub(self.max_borrowed_bytes);
        self.floor_bytes.min(self.max_bytes) + unexplained_bytes
    }

    /// Returns the bytes that are set aside, at most `max_bytes`.
    fn share_of_budget(&self, max_bytes: u64) -> u64 {
        let demand_bytes = self.demand_bytes.min(max_bytes);
        demand_bytes.max(self.floor_of_budget())
    }
}

/// The idle memory of a lender outside the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loan {
    /// Names of the consumers that may take it.
    borrowers: &'static [&'static str],
    bytes: u64,
}

impl Loan {
    /// Lends the memory of arenas without unflushed writes, but for the part that they keep. The read
    /// buffer alone may take it, because it gives memory back as writes come.
    pub(crate) fn of_idle_arenas(idle_bytes: u64, kept_bytes: u64) -> Self {
        Loan {
            borrowers: &[READ_BUFFER],
            bytes: idle_bytes.saturating_sub(kept_bytes),
        }
    }

    /// Returns the bytes that are lent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a consumer as much as it wants and may have. Returns the bytes given.
    fn give(&mut self, consumer: &str, wanted_bytes: u64) -> u64 {
        if !self.borrowers.contains(&consumer) {
            return 0;
        }
        let bytes = wanted_bytes.min(self.bytes);
        self.bytes -= bytes;
        bytes
    }
}

/// The memory of one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes of the budget that are set aside for it. No other consumer has them.
    pub(crate) bytes: u64,
    /// Maximum of its bytes of the budget, if it demanded all that it may.
    pub(crate) max_bytes: u64,
    /// Maximum of the bytes that it may hold, with its loans.
    pub(crate) limit_bytes: u64,
}

/// Returns the shares of a budget in the order of the requests.
pub(crate) fn divide<const LOANS: usize>(
    budget_bytes: u64,
    requests: &[Request],
    mut loans: [Loan; LOANS],
) -> impl Iterator<Item = Share> {
    let floors = requests.iter().map(Request::floor_of_budget);
    let mut taken_bytes = floors.fold(0, u64::saturating_add);
    requests.iter().map(move |request| {
        let floor_bytes = request.floor_of_budget();
        let others_bytes = taken_bytes.saturating_sub(floor_bytes);
        let left_bytes = budget_bytes.saturating_sub(others_bytes);
        let max_bytes = request.max_bytes.min(left_bytes);
        let bytes = request.share_of_budget(max_bytes);
        taken_bytes = others_bytes.saturating_add(bytes);
        let borrowed_bytes = borrow(request, &mut loans);
        Share {
            bytes,
            max_bytes,
            limit_bytes: request
                .ceiling_bytes
                .min(max_bytes.saturating_add(borrowed_bytes)),
        }
    })
}

/// Takes from each loan in turn, up to the consumer's maximum. Returns the bytes taken.
fn borrow(request: &Request, loans: &mut [Loan]) -> u64 {
    let mut borrowed_bytes = 0;
    for loan in loans {
        let wanted_bytes = request.max_borrowed_bytes - borrowed_bytes;
        borrowed_bytes += loan.give(request.consumer, wanted_bytes);
    }
    borrowed_bytes
}

/// Returns the maximum that all consumers but one may take of a budget together.
pub(crate) fn max_of_others(budget_bytes: u64, requests: &[Request], consumer: &str) -> u64 {
    let others = requests.iter().filter(|other| other.consumer != consumer);
    let bytes = others.map(|other| other.max_bytes);
    bytes.fold(0, u64::saturating_add).min(budget_bytes)
}

#[cfg(test)]
mod tests;
