//! The generalized Pareto distribution, as mixgraph draws value sizes and scan lengths.

use serde::{Deserialize, Serialize};

/// Location, shape and scale. With a shape of 1 or more it has no mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pareto {
    /// Location: the least value.
    pub theta: f64,
    /// Shape.
    pub k: f64,
    /// Scale.
    pub sigma: f64,
}

impl Pareto {
    /// Returns the value that a share of `above` exceeds, in (0, 1], rounded up. The source draws
    /// with this side of the distribution, too.
    pub fn exceeded_by(&self, above: f64) -> u64 {
        let value = if self.k == 0.0 {
            self.theta - self.sigma * above.ln()
        } else {
            self.theta + self.sigma * (above.powf(-self.k) - 1.0) / self.k
        };
        // A float too great for it becomes the greatest integer.
        value.ceil() as u64
    }
}
