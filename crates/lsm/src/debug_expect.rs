//! Values that are there by an invariant.

/// A value that is there unless an invariant is broken.
pub trait DebugExpect {
    /// The value.
    type Value;

    /// Returns the value. Where it is missing, debug builds panic with the invariant. Others go on
    /// with the default, so that a bug reads as an empty key instead of taking the process with it.
    ///
    /// Unchecked bytes have no invariant yet: they get an error.
    ///
    /// ```
    /// use terrace_lsm::debug_expect::DebugExpect;
    /// let key = b"key";
    /// assert_eq!(key.get(1..).debug_expect("a key has a byte"), b"ey");
    /// ```
    fn debug_expect(self, invariant: &str) -> Self::Value;
}

impl<T: Default> DebugExpect for Option<T> {
    type Value = T;

    #[inline(always)]
    #[track_caller]
    fn debug_expect(self, invariant: &str) -> T {
        debug_assert!(self.is_some(), "{invariant}");
        self.unwrap_or_default()
    }
}
