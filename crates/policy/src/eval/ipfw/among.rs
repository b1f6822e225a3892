//! Rules that can do something with a packet, so that the others need not be walked.
//!
//! In: positions in the list, from `dialect::ipfw::lower::candidates` and a compiled lookup. Out:
//! where the walk goes on from a position. Whoever gives too many positions costs time; a missing
//! one would be a wrong verdict, which tests with random rule sets look for.

use crate::dialect::ipfw::Ruleset;
use crate::model::RuleId;

/// Where the rules of a list stand, by their identity.
#[derive(Clone, Debug)]
pub struct Positions {
    by_rule: Vec<Option<usize>>,
    /// That of the default rule.
    last: usize,
}

impl Positions {
    /// The positions in a rule set.
    #[must_use]
    pub fn of(set: &Ruleset) -> Self {
        let mut by_rule = vec![None; set.rule_count() as usize];
        for (at, one) in set.rules.iter().enumerate() {
            by_rule[one.id.0 as usize] = Some(at);
        }
        Self {
            by_rule,
            last: set.rules.len() - 1,
        }
    }

    fn at(&self, rule: RuleId) -> Option<usize> {
        let at = self.by_rule.get(rule.0 as usize).copied().flatten();
        at.filter(|at| *at < self.last)
    }

    /// The rules that a lookup found, in order, and the one that ended it: behind a rule that ends
    /// it nothing is known, otherwise the default rule is left.
    #[must_use]
    pub fn among(&self, found: &[RuleId], ended: Option<RuleId>) -> Among {
        let mut positions: Vec<usize> = found.iter().filter_map(|rule| self.at(*rule)).collect();
        // A rule of several alternatives is found once for each that holds.
        positions.dedup();
        Among {
            positions,
            until: ended.and_then(|rule| self.at(rule)).unwrap_or(self.last),
        }
    }
}

/// The rules worth visiting, in increasing order, up to a place from which on nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Among {
    positions: Vec<usize>,
    until: usize,
}

impl Among {
    /// The first position from `at` on that is worth a visit.
    #[must_use]
    pub(super) fn next(&self, at: usize) -> usize {
        if at >= self.until {
            return at;
        }
        let behind = self.positions.partition_point(|one| *one < at);
        self.positions
            .get(behind)
            .map_or(self.until, |next| (*next).min(self.until))
    }
}

#[cfg(test)]
mod tests {
    use super::Among;

    #[test]
    fn the_walk_goes_from_one_to_the_next_and_then_everywhere() {
        let among = Among {
            positions: vec![2, 5, 9],
            until: 7,
        };
        let next: Vec<usize> = (0..10).map(|at| among.next(at)).collect();
        assert_eq!(next, [2, 2, 2, 5, 5, 5, 7, 7, 8, 9]);
    }
}
