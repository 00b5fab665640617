//! Shared by the whole-store tests: a simulated machine, a model, and scripts of operations.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod gated;
pub mod machine;
pub mod model;
pub mod script;
pub mod within;

/// Returns the beginning of a manifest's record, as a write that was cut short leaves it: a length that
/// the file does not have, and the kind of an edit.
pub fn half_a_record() -> Vec<u8> {
    let mut torn = vec![0x5a; 40];
    torn[8..16].copy_from_slice(&[200, 0, 0, 0, 1, 0, 0, 0]);
    torn
}

/// Returns a number from the environment, to make a test larger than in the gate.
pub fn scale(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}; a number is needed"))
    })
}
