//! Sets of values of one field, as sorted, disjoint, non-adjacent inclusive ranges.
//!
//! Used for addresses (`u128`, IPv4 in the low 32 bits), ports (`u16`) and small fields (`u8`).

/// A set of unsigned values: sorted, disjoint, non-adjacent inclusive ranges `(first, last)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeSet<T>(Vec<(T, T)>);

impl<T> Default for RangeSet<T> {
    fn default() -> Self {
        RangeSet(Vec::new())
    }
}

/// Values that a [`RangeSet`] can hold.
pub trait Value: Copy + Ord {
    /// The smallest value of the field.
    const MIN: Self;
    /// The largest value of the field's type.
    const MAX: Self;
    /// The next value, or `None` at the end.
    fn next(self) -> Option<Self>;
    /// The previous value, or `None` at the start.
    fn previous(self) -> Option<Self>;
}

macro_rules! value {
    ($($t:ty),*) => {$(
        impl Value for $t {
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;
            fn next(self) -> Option<Self> { self.checked_add(1) }
            fn previous(self) -> Option<Self> { self.checked_sub(1) }
        }
    )*};
}
value!(u8, u16, u32, u64, u128);

impl<T: Value> RangeSet<T> {
    /// The set of one value.
    pub fn one(value: T) -> Self {
        RangeSet(vec![(value, value)])
    }

    /// The set of one inclusive range; empty when `first > last`.
    pub fn range(first: T, last: T) -> Self {
        if first > last {
            Self::default()
        } else {
            RangeSet(vec![(first, last)])
        }
    }

    /// The union of any inclusive ranges, in any order; ranges with `first > last` are empty.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (T, T)>) -> Self {
        let mut all: Vec<(T, T)> = ranges.into_iter().filter(|r| r.0 <= r.1).collect();
        all.sort_unstable();
        let mut out: Vec<(T, T)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match out.last_mut() {
                Some(top) if top.1.next().is_none_or(|n| first <= n) => top.1 = top.1.max(last),
                _ => out.push((first, last)),
            }
        }
        RangeSet(out)
    }

    /// Whether `value` is in the set.
    pub fn contains(&self, value: T) -> bool {
        let after = self.0.partition_point(|r| r.0 <= value);
        after > 0 && self.0[after - 1].1 >= value
    }

    /// The ranges, sorted and disjoint.
    pub fn ranges(&self) -> &[(T, T)] {
        &self.0
    }

    /// Whether no value is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All values from `T::MIN` to `top` that are not in the set.
    pub fn complement(&self, top: T) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut from = Some(T::MIN);
        for &(first, last) in &self.0 {
            if let (Some(f), Some(before)) = (from, first.previous())
                && f <= before
            {
                out.push((f, before));
            }
            from = last.next();
        }
        if let Some(f) = from
            && f <= top
        {
            out.push((f, top));
        }
        RangeSet(out)
    }

    /// The values in both sets.
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut i, mut j, mut out) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                out.push((first, last));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        RangeSet(out)
    }

    /// The values in either set.
    pub fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.0.iter().chain(&other.0).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_and_overlapping_ranges_merge() {
        let set = RangeSet::from_ranges([(5u8, 9), (1, 2), (3, 3), (8, 12), (255, 255), (7, 6)]);
        assert_eq!(set.ranges(), &[(1, 3), (5, 12), (255, 255)]);
        assert!(set.contains(3) && !set.contains(4) && set.contains(255) && !set.contains(0));
    }

    #[test]
    fn set_operations_agree_with_membership() {
        let a = RangeSet::from_ranges([(0u8, 3), (10, 20), (200, 255)]);
        let b = RangeSet::from_ranges([(2u8, 12), (20, 20), (255, 255)]);
        let (not, both, either) = (a.complement(255), a.intersect(&b), a.union(&b));
        for v in 0..=255u8 {
            assert_eq!(not.contains(v), !a.contains(v), "{v}");
            assert_eq!(both.contains(v), a.contains(v) && b.contains(v), "{v}");
            assert_eq!(either.contains(v), a.contains(v) || b.contains(v), "{v}");
        }
        assert_eq!(RangeSet::<u8>::default().complement(7).ranges(), &[(0, 7)]);
    }
}
