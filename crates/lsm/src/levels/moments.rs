//! The times at which sequence numbers were given, at some moments: they give the age of a write.
//!
//! A flush notes one. Old moments are thinned out, so that their distance grows with their age: an age is
//! known to about an eighth.

use super::fields::{Field, FieldError, FieldWriter, Group};
use super::number_limits::MAX_NUMBER;
use crate::key::{MAX_SEQUENCE, SequenceNumber};

/// Least time from a moment to the one after the next.
const LEAST_SECONDS: u64 = 60;
/// Part of a moment's age that lies between it and its neighbour.
const PART_OF_AGE: u64 = 8;
/// Maximum number of moments.
const MAX_MOMENTS: usize = 256;

/// A moment: all sequence numbers up to one had been given at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The last sequence number that had been given.
    pub sequence: SequenceNumber,
    /// Seconds since 1970.
    pub seconds: u64,
}

/// The moments of a store, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    list: Vec<Moment>,
}

impl Moments {
    /// Returns the moment to note at a flush; `None` if the last one has the sequence number, too.
    pub fn due(&self, now: Moment) -> Option<Moment> {
        let last = self.list.last();
        let is_due = last.is_none_or(|last| now.sequence > last.sequence);
        is_due.then_some(now)
    }

    /// Takes a moment. It replaces the last one if that is close to the one before: so the last flush is always
    /// known. After a step of the clock back it replaces those that lie in the future.
    pub(super) fn take(&mut self, moment: Moment) {
        if self
            .list
            .last()
            .is_some_and(|last| moment.sequence <= last.sequence)
        {
            return;
        }
        self.list
            .retain(|earlier| earlier.seconds <= moment.seconds);
        let before_last = self.list.len().checked_sub(2);
        let before_last = before_last.and_then(|at| self.list.get(at));
        if before_last.is_some_and(|before| moment.seconds - before.seconds < LEAST_SECONDS) {
            self.list.pop();
        }
        self.list.push(moment);
        self.thin_out(moment.seconds);
    }

    /// Removes moments that are closer to both neighbours than their age asks for.
    fn thin_out(&mut self, now_seconds: u64) {
        let mut at = 1;
        while at + 1 < self.list.len() {
            let Some(&[before, moment, after]) = self.list.get(at - 1..=at + 1) else {
                break;
            };
            let distance = after.seconds - before.seconds;
            let is_close = distance <= now_seconds.saturating_sub(moment.seconds) / PART_OF_AGE;
            if is_close {
                self.list.remove(at);
            } else {
                at += 1;
            }
        }
        if self.list.len() > MAX_MOMENTS {
            self.list.remove(0);
        }
    }

    /// Returns the age of a write, at least: it had been given its number at the first moment that has it.
    /// A write after the last moment has the age 0.
    pub fn age_seconds(&self, sequence: SequenceNumber, now_seconds: u64) -> u64 {
        let at = self
            .list
            .partition_point(|moment| moment.sequence < sequence);
        let moment = self.list.get(at);
        moment.map_or(0, |moment| now_seconds.saturating_sub(moment.seconds))
    }

    /// Returns the moments, the oldest first.
    pub fn list(&self) -> &[Moment] {
        &self.list
    }
}

/// Tags inside a moment.
mod tag {
    pub(super) const SEQUENCE: u32 = 1;
    pub(super) const SECONDS: u32 = 2;
    pub(super) const LARGEST: u32 = SECONDS;
}

pub(super) fn put_moment(out: &mut FieldWriter, moment: &Moment) {
    out.number(tag::SEQUENCE, moment.sequence);
    out.number(tag::SECONDS, moment.seconds);
}

pub(super) fn take_moment(field: Field<'_>) -> Result<Moment, FieldError> {
    let group = Group::read(field, "a moment", tag::LARGEST)?;
    let moment = Moment {
        sequence: group.number(tag::SEQUENCE)?,
        seconds: group.nonzero(tag::SECONDS)?,
    };
    match moment.sequence <= MAX_SEQUENCE && moment.seconds <= MAX_NUMBER {
        true => Ok(moment),
        false => Err(field.malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(sequence: u64, seconds: u64) -> Moment {
        Moment { sequence, seconds }
    }

    #[test]
    fn an_age_is_that_of_the_first_moment_that_has_the_write() {
        let mut moments = Moments::default();
        assert_eq!(moments.age_seconds(5, 9999), 0, "nothing is known");
        for taken in [moment(10, 1000), moment(20, 2000), moment(30, 3000)] {
            assert_eq!(moments.due(taken), Some(taken));
            moments.take(taken);
        }
        let age = |sequence| moments.age_seconds(sequence, 4000);
        assert_eq!(
            [1, 10, 11, 20, 30, 31].map(age),
            [3000, 3000, 2000, 2000, 1000, 0]
        );
        assert_eq!(moments.age_seconds(30, 2500), 0, "a clock that went back");
        assert_eq!(moments.due(moment(30, 9000)), None);
        // The clock was ahead: ages count from now on.
        moments.take(moment(40, 2999));
        assert_eq!(moments.list().len(), 3);
        assert_eq!(moments.age_seconds(30, 3999), 1000);
    }

    #[test]
    fn the_last_flush_is_known_and_flushes_in_a_row_take_few_moments() {
        let mut moments = Moments::default();
        for second in 1..=600 {
            moments.take(moment(second, second));
            assert_eq!(moments.age_seconds(second, second + 5), 5);
        }
        assert!(moments.list().len() < 25, "{}", moments.list().len());
    }

    #[test]
    fn years_take_few_moments_and_ages_stay_known_to_an_eighth() {
        let mut moments = Moments::default();
        let year_minutes = 2 * 365 * 24 * 60;
        for minute in 1..=year_minutes {
            moments.take(moment(minute, minute * 60));
        }
        assert!(moments.list().len() < 200, "{}", moments.list().len());
        let now_seconds = year_minutes * 60;
        for sequence in (1..year_minutes).step_by(997) {
            let age_seconds = (now_seconds - sequence * 60) as f64;
            let told = moments.age_seconds(sequence, now_seconds) as f64;
            assert!(told <= age_seconds, "{sequence}");
            assert!(
                told >= age_seconds * 0.86 - 120.0,
                "{sequence}: {told} of {age_seconds}"
            );
        }
    }
}
