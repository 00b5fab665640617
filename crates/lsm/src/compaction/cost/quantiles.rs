//! The distribution of a request's time: few points, each with its probability.

/// Points of an exponential distribution with the mean 1, and their probabilities (Gauss and Laguerre).
const EXPONENTIAL: [(f64, f64); 3] = [
    (0.415_774_556_783, 0.711_093_009_929),
    (2.294_280_360_279, 0.278_517_733_569),
    (6.289_945_082_937, 0.010_389_256_502),
];
/// Points that are this close become one.
const CLOSE: f64 = 1.01;
/// Whole reads of a level that are looked at one by one; the others take their mean.
const MAX_WHOLE_READS: u32 = 4;

/// The times of a request with their probabilities, from the shortest.
#[derive(Clone, Debug)]
pub(super) struct Quantiles(Vec<(f64, f64)>);

impl Quantiles {
    /// Returns a request that always takes the same time.
    pub(super) fn new(us: f64) -> Self {
        Quantiles(vec![(us, 1.0)])
    }

    /// Adds reads: each takes `least_us`, and waits so that the mean is `mean_us`. A request makes the whole
    /// part of `reads`, and one more with the probability of the rest. So a get reads a block or finds it in
    /// memory.
    pub(super) fn add(&mut self, reads: f64, least_us: f64, mean_us: f64) {
        if reads.is_nan() || reads <= 0.0 || reads.is_infinite() {
            return;
        }
        let wait_us = (mean_us - least_us).max(0.0);
        let read = EXPONENTIAL.map(|(wait, probability)| (least_us + wait * wait_us, probability));
        let whole = reads.floor().min(f64::from(MAX_WHOLE_READS));
        for _ in 0..whole as u32 {
            self.combine(&read);
        }
        let beyond = (reads.floor() - whole).max(0.0);
        self.combine(&[(beyond * mean_us, 1.0)]);
        let rest = reads.fract();
        let mut last = vec![(0.0, 1.0 - rest)];
        last.extend(read.map(|(us, probability)| (us, probability * rest)));
        self.combine(&last);
    }

    /// Adds a wait with this mean.
    pub(super) fn add_wait(&mut self, mean_us: f64) {
        if mean_us > 0.0 {
            self.combine(&EXPONENTIAL.map(|(wait, probability)| (wait * mean_us, probability)));
        }
    }

    /// Adds an independent time.
    fn combine(&mut self, other: &[(f64, f64)]) {
        let mut points: Vec<(f64, f64)> = self
            .0
            .iter()
            .flat_map(|(us, probability)| {
                let other = other.iter();
                other.map(move |(more_us, of_more)| (us + more_us, probability * of_more))
            })
            .filter(|(_, probability)| *probability > 1e-6)
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.0.clear();
        for (us, probability) in points {
            match self.0.last_mut() {
                Some(last) if us <= last.0 * CLOSE => {
                    let both = last.1 + probability;
                    last.0 = (last.0 * last.1 + us * probability) / both;
                    last.1 = both;
                }
                _ => self.0.push((us, probability)),
            }
        }
    }

    /// Returns the time that a part of the requests, from 0 to 1, does not exceed.
    pub(super) fn at(&self, part: f64) -> f64 {
        let all: f64 = self.0.iter().map(|(_, probability)| probability).sum();
        let mut sum = 0.0;
        let found = self.0.iter().find(|(_, probability)| {
            sum += probability;
            sum >= part * all
        });
        found.or(self.0.last()).map_or(0.0, |(us, _)| *us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_a_part_of_the_requests_shows_in_its_quantiles_only() {
        let mut times = Quantiles::new(10.0);
        times.add(0.3, 100.0, 100.0);
        assert_eq!(times.at(0.5), 10.0);
        assert_eq!(times.at(0.69), 10.0);
        assert_eq!(times.at(0.71), 110.0);
        times.add(2.0, 1000.0, 1000.0);
        assert_eq!(times.at(0.5).round(), 2010.0);
        times.add(100.0, 1.0, 1.0);
        assert_eq!(times.at(0.5).round(), 2110.0);
        times.add(f64::NAN, 1.0, 1.0);
        times.add(0.0, 1e9, 1e9);
        assert_eq!(times.at(0.5).round(), 2110.0);
    }

    #[test]
    fn waits_have_a_tail() {
        let mut times = Quantiles::new(0.0);
        times.add_wait(100.0);
        let (median, tail) = (times.at(0.5), times.at(0.995));
        assert!((40.0..100.0).contains(&median), "{median}");
        assert!((400.0..700.0).contains(&tail), "{tail}");
        let mean: f64 = times
            .0
            .iter()
            .map(|(us, probability)| us * probability)
            .sum();
        assert!((99.0..101.0).contains(&mean), "{mean}");
    }

    #[test]
    fn many_reads_keep_few_points() {
        let mut times = Quantiles::new(1.0);
        for level in 0..7 {
            times.add(0.4, 10.0 + f64::from(level), 50.0);
        }
        assert!(times.0.len() < 1000, "{}", times.0.len());
    }
}
