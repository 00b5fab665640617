//! A slab: values under numbers that are used again.

/// A slab.
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds `value` and returns its number.
    pub(super) fn add(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.places[slot as usize] = Some(value);
            return slot;
        }
        self.places.push(Some(value));
        (self.places.len() - 1) as u32
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    /// Takes the thing out; its number is used again.
    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.places.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(value)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
