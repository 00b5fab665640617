//! What the whole-store tests share: a simulated machine, a model, and scripts of operations.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod gated;
pub mod machine;
pub mod model;
pub mod script;
pub mod within;

/// A number from the environment, to make a test larger than in the gate.
pub fn scale(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text:?}; a number is needed"))
    })
}
