//! Values of one field that a term allows: everything, one range, or a set of ranges.
//!
//! Most rules have one range or none, so that case needs no allocation.

use std::sync::Arc;
use weir_policy::model::RangeSet;

/// A non-empty set of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Span<T> {
    /// Every value.
    Any,
    /// One inclusive range.
    One(T, T),
    /// At least two ranges.
    Many(Arc<RangeSet<T>>),
}

/// Fields that spans are over.
pub trait Field: weir_policy::model::Value + std::hash::Hash {}
impl Field for u16 {}
impl Field for u128 {}

impl<T: Field> Span<T> {
    /// A set of values from 0 to `top`; `None` when it is empty.
    pub fn of(set: RangeSet<T>, top: T) -> Option<Self> {
        match *set.ranges() {
            [] => None,
            [(first, last)] if first == T::MIN && last >= top => Some(Span::Any),
            [(first, last)] => Some(Span::One(first, last)),
            _ => Some(Span::Many(Arc::new(set))),
        }
    }

    /// Values in both; `None` when there are none.
    pub fn and(&self, other: &Self, top: T) -> Option<Self> {
        match (self, other) {
            (Span::Any, same) | (same, Span::Any) => Some(same.clone()),
            (Span::One(a, b), Span::One(c, d)) => {
                let (first, last) = (*a.max(c), *b.min(d));
                (first <= last).then_some(Span::One(first, last))
            }
            _ if self == other => Some(self.clone()),
            _ => Self::of(self.to_set(top).intersect(&other.to_set(top)), top),
        }
    }

    /// Whether a value is in it.
    pub fn has(&self, value: T) -> bool {
        match self {
            Span::Any => true,
            Span::One(first, last) => (*first..=*last).contains(&value),
            Span::Many(set) => set.contains(value),
        }
    }

    /// As a set of ranges.
    pub fn to_set(&self, top: T) -> RangeSet<T> {
        match self {
            Span::Any => RangeSet::range(T::MIN, top),
            Span::One(first, last) => RangeSet::range(*first, *last),
            Span::Many(set) => RangeSet::clone(set),
        }
    }

    /// Calls `f` with every range.
    pub fn each(&self, top: T, mut f: impl FnMut(T, T)) {
        match self {
            Span::Any => f(T::MIN, top),
            Span::One(first, last) => f(*first, *last),
            Span::Many(set) => set.ranges().iter().for_each(|r| f(r.0, r.1)),
        }
    }

    /// Whether every value of `other` is in this set.
    pub fn covers(&self, other: &Self, top: T) -> bool {
        match (self, other) {
            (Span::Any, _) => true,
            (Span::One(a, b), Span::One(c, d)) => a <= c && d <= b,
            (a, b) if a == b => true,
            (Span::One(..), Span::Any) => false,
            _ => {
                let mut all = true;
                let mine = self.to_set(top);
                other.each(top, |first, last| {
                    let at = mine.ranges().partition_point(|r| r.0 <= first);
                    all &= at > 0 && mine.ranges()[at - 1].1 >= last;
                });
                all
            }
        }
    }
}
