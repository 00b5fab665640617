//! Divides a budget of memory among named consumers. All functions here are pure.
//!
//! A consumer makes a [`Request`], and [`divide`] answers with a [`Share`]. The rules:
//!
//! 1. A consumer keeps its floor, the memory that it holds and cannot give up at once. Floors stand even
//!    where they exceed the budget.
//! 2. The division meets demands in the order of the list, from the bytes that the floors of others
//!    leave. A demand ends at the consumer's maximum. The last consumer of a store's list demands the
//!    whole budget, and so takes the rest.
//!
//! The consumers choose floors and demands by rules of their own: sleep and wake, gets against scans.
//! `db/memory_budget.rs` has the list of a store's consumers.

/// Filters and top indexes of open tables, and the memory of transactions. A part of the budget only where
/// that bounds the whole store.
pub(crate) const HELD: &str = "open tables and transactions";
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
    /// Maximum of the bytes that it may hold at present.
    pub(crate) ceiling_bytes: u64,
}

impl Request {
    /// Returns the bytes that are set aside, at most `max_bytes`.
    fn share_of_budget(&self, max_bytes: u64) -> u64 {
        let demand_bytes = self.demand_bytes.min(max_bytes);
        demand_bytes.max(self.floor_bytes)
    }
}

/// The memory of one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes of the budget that are set aside for it. No other consumer has them.
    pub(crate) bytes: u64,
    /// Maximum of its bytes of the budget, if it demanded all that it may.
    pub(crate) max_bytes: u64,
    /// Maximum of the bytes that it may hold.
    pub(crate) limit_bytes: u64,
}

/// Returns the shares of a budget in the order of the requests.
pub(crate) fn divide(budget_bytes: u64, requests: &[Request]) -> impl Iterator<Item = Share> {
    let floors = requests.iter().map(|request| request.floor_bytes);
    let mut taken_bytes = floors.fold(0, u64::saturating_add);
    requests.iter().map(move |request| {
        let others_bytes = taken_bytes.saturating_sub(request.floor_bytes);
        let left_bytes = budget_bytes.saturating_sub(others_bytes);
        let max_bytes = request.max_bytes.min(left_bytes);
        let bytes = request.share_of_budget(max_bytes);
        taken_bytes = others_bytes.saturating_add(bytes);
        Share {
            bytes,
            max_bytes,
            limit_bytes: request.ceiling_bytes.min(max_bytes),
        }
    })
}

/// Returns the maximum that all consumers but one may take of a budget together.
pub(crate) fn max_of_others(budget_bytes: u64, requests: &[Request], consumer: &str) -> u64 {
    let others = requests.iter().filter(|other| other.consumer != consumer);
    let bytes = others.map(|other| other.max_bytes);
    bytes.fold(0, u64::saturating_add).min(budget_bytes)
}

#[cfg(test)]
mod tests;
