//! The next value above a limit, in a list of numbers that never changes.
//!
//! Over the values lie levels: each number in one is the greatest of [`FAN`] below it. A search
//! climbs until a number is above the limit, and descends to it. It takes some steps for each
//! level, however many values lie between.

/// Numbers below one of the next level.
const FAN: usize = 32;

/// The levels over a list of values. The values stay where they are; each search brings them.
#[derive(Debug)]
pub struct Peaks {
    length: usize,
    levels: Vec<Box<[u64]>>,
}

impl Peaks {
    /// Builds the levels over `length` values.
    pub fn new(length: usize, value: impl Fn(usize) -> u64) -> Self {
        let greatest = |numbers: &[u64]| numbers.iter().copied().max().unwrap_or(0);
        let of_values = (0..length).step_by(FAN).map(|start| {
            let values = start..length.min(start + FAN);
            values.map(&value).max().unwrap_or(0)
        });
        let mut levels = Vec::new();
        let mut level: Box<[u64]> = of_values.collect();
        while level.len() > 1 {
            let above = level.chunks(FAN).map(greatest).collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        levels.push(level);
        Peaks { length, levels }
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> u64 {
        let bytes: usize = self.levels.iter().map(|level| size_of_val(&**level)).sum();
        (size_of::<Self>() + bytes) as u64
    }

    /// Returns the first position from `from` on whose value is above `limit`.
    pub fn next_above(
        &self,
        from: usize,
        limit: u64,
        value: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let (mut height, mut at) = (0, from);
        loop {
            let end = (at / FAN + 1) * FAN;
            let found = (at..end.min(self.length_at(height)))
                .find(|&at| self.get(height, at, &value) > limit);
            match found {
                Some(found) if height == 0 => return Some(found),
                Some(found) => (height, at) = (height - 1, found * FAN),
                None if height == self.levels.len() => return None,
                None => (height, at) = (height + 1, end / FAN),
            }
        }
    }

    /// Returns the last position before `before` whose value is above `limit`.
    pub fn last_above(
        &self,
        before: usize,
        limit: u64,
        value: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let (mut height, mut end) = (0, before.min(self.length));
        loop {
            let start = end.checked_sub(1)? / FAN * FAN;
            let found = (start..end)
                .rev()
                .find(|&at| self.get(height, at, &value) > limit);
            match found {
                Some(found) if height == 0 => return Some(found),
                Some(found) => {
                    height -= 1;
                    end = ((found + 1) * FAN).min(self.length_at(height));
                }
                None if height == self.levels.len() => return None,
                None => (height, end) = (height + 1, start / FAN),
            }
        }
    }

    fn length_at(&self, height: usize) -> usize {
        match height.checked_sub(1) {
            None => self.length,
            Some(level) => self.levels.get(level).map_or(0, |level| level.len()),
        }
    }

    fn get(&self, height: usize, at: usize, value: impl Fn(usize) -> u64) -> u64 {
        match height.checked_sub(1) {
            None => value(at),
            Some(level) => {
                let level = self.levels.get(level);
                level.and_then(|level| level.get(at)).copied().unwrap_or(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_are_those_of_a_walk(
            values in prop::collection::vec(0u64..50, 0..3_000),
            rare in prop::collection::vec((0usize..3_000, 50u64..60), 0..4),
            questions in prop::collection::vec((0usize..3_100, 0u64..62), 1..60),
        ) {
            let mut values = values;
            for (at, value) in rare {
                if let Some(place) = values.get_mut(at) {
                    *place = value;
                }
            }
            let value = |at: usize| values[at];
            let peaks = Peaks::new(values.len(), value);
            for (at, limit) in questions {
                let next = (at..values.len()).find(|&at| values[at] > limit);
                prop_assert_eq!(peaks.next_above(at, limit, value), next);
                let last = (0..at.min(values.len())).rev().find(|&at| values[at] > limit);
                prop_assert_eq!(peaks.last_above(at, limit, value), last);
            }
        }
    }
}
