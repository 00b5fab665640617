//! An axis, logarithmic or linear: where a value lies, and which values are marked.

/// Of the least value and of the greatest, so much room besides.
const ROOM: f64 = 1.12;

/// The same of a linear axis, which needs less of it.
const LINEAR_ROOM: f64 = 1.04;

/// Marked values, times any power of ten.
const MARKED: [f64; 8] = [1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0];

/// Fewer marks than these are too few: then all that can be marked is.
const FEW: usize = 4;

/// A map from a value to its place.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    is_linear: bool,
}

impl Scale {
    /// Makes a scale on which all values lie between these two places; `None` without values.
    pub fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Option<Scale> {
        let least = values.clone().reduce(f64::min)? / ROOM;
        let most = values.reduce(f64::max)? * ROOM;
        (least > 0.0 && most.is_finite()).then_some(Scale {
            least,
            most,
            from,
            to,
            is_linear: false,
        })
    }

    /// Makes the same scale from zero on, in equal steps.
    pub fn linear(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Scale> {
        let most = values.reduce(f64::max)? * LINEAR_ROOM;
        (most > 0.0 && most.is_finite()).then_some(Scale {
            least: 0.0,
            most,
            from,
            to,
            is_linear: true,
        })
    }

    /// Returns the place of a value.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.is_linear {
            true => value / self.most,
            false => (value / self.least).ln() / (self.most / self.least).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns round values between the ends, ascending.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_linear {
            return self.steps();
        }
        let coarse = self.multiples(&[1.0, 2.0, 5.0]);
        match coarse.len() < FEW {
            true => self.multiples(&MARKED),
            false => coarse,
        }
    }

    /// Multiples of a round step, of which there are five to ten.
    fn steps(&self) -> Vec<f64> {
        let power = 10f64.powi(self.most.log10().floor() as i32);
        let steps = [0.1, 0.2, 0.5, 1.0].map(|times| times * power);
        let step = steps.into_iter().find(|step| self.most / step <= 11.0);
        let step = step.unwrap_or(power);
        let count = (self.most / step).floor() as u32;
        (0..=count).map(|number| f64::from(number) * step).collect()
    }

    fn multiples(&self, of: &[f64]) -> Vec<f64> {
        let (first, last) = (self.least.log10().floor(), self.most.log10().floor());
        let powers = (first as i32..=last as i32).map(|power| 10f64.powi(power));
        powers
            .flat_map(|power| of.iter().map(move |times| times * power))
            .filter(|value| (self.least..=self.most).contains(value))
            .collect()
    }
}
