//! Counts of a run: latencies, gaps, and the kernel's counts of process, device and files.

pub mod completions;
pub mod device;
pub mod latencies;
pub mod space;
pub mod usage;
