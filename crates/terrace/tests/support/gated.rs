//! A disk on which the writes of one purpose wait until they are let through.

use std::sync::Arc;

use terrace_storage::{
    FailingStorage, FaultFilter, FaultPlan, Operation, Purpose, SimulatedStorage, Storage,
};

/// Returns the disk and a plan that holds writes from the first on; healing it lets all through.
pub fn gated(disk: &SimulatedStorage, purpose: Purpose) -> (Arc<dyn Storage>, FaultPlan) {
    let writes = FaultFilter::everything().operations(&[Operation::Write]);
    let gate = FaultPlan::new(writes.purpose(purpose));
    gate.hold_from(0);
    let storage = FailingStorage::new(Arc::new(disk.clone()), gate.clone());
    (Arc::new(storage), gate)
}

/// Lets all writes through when it is dropped: a test that fails is not to wait for ever in the
/// close of its store, which is dropped after this.
pub struct Opened<'a>(pub &'a FaultPlan);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}
