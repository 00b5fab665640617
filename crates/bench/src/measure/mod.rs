//! What is counted of a run: latencies, gaps, and what the kernel knows of process, device and files.

pub mod completions;
pub mod device;
pub mod latencies;
pub mod space;
pub mod usage;
