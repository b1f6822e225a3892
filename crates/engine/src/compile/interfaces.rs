//! Interface names to classes: the longest pattern of the policy that a name matches.
//!
//! Class 0 is "no pattern", class n is pattern n - 1 in the image, which are sorted longest first
//! (an exact name before a prefix of the same letters). All names of one class match the same
//! patterns, so a test on a pattern is a set of classes.

use super::Error;
use crate::image::layout;
use weir_policy::model::{Cond, IfPattern, Policy, Test};

/// Most patterns of a policy.
pub const PATTERNS_MAX: usize = 1024;

/// The patterns of a policy.
#[derive(Debug, Default)]
pub struct Interfaces {
    patterns: Vec<IfPattern>,
}

fn collect(tests: &[Test], patterns: &mut Vec<IfPattern>) {
    for test in tests {
        match &test.cond {
            Cond::InIface(pattern) | Cond::OutIface(pattern) => patterns.push(pattern.clone()),
            Cond::Any(tests) => collect(tests, patterns),
            _ => {}
        }
    }
}

impl Interfaces {
    /// Collects the patterns of every rule.
    pub fn of(policy: &Policy) -> Result<Self, Error> {
        let mut patterns: Vec<IfPattern> = Vec::new();
        for rule in policy.chains.iter().flat_map(|c| &c.rules) {
            collect(&rule.tests, &mut patterns);
        }
        patterns.sort_by(|a, b| {
            let key = |p: &IfPattern| (std::cmp::Reverse(p.name.len()), p.prefix);
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        patterns.dedup();
        if patterns.len() > PATTERNS_MAX {
            return Err(Error::Interfaces {
                given: patterns.len(),
                limit: PATTERNS_MAX,
            });
        }
        Ok(Interfaces { patterns })
    }

    /// Whether the patterns that tests name are among them.
    pub fn knows(&self, tests: &[Test]) -> bool {
        let mut named = Vec::new();
        collect(tests, &mut named);
        named.iter().all(|pattern| self.patterns.contains(pattern))
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.patterns.len() + 1
    }

    /// The classes whose names match a pattern, as bits.
    pub fn matching(&self, pattern: &IfPattern) -> Vec<u64> {
        let mut bits = vec![0; self.classes().div_ceil(64)];
        for (at, class) in self.patterns.iter().enumerate() {
            let inside = if pattern.prefix {
                class.name.starts_with(&pattern.name)
            } else {
                !class.prefix && class.name == pattern.name
            };
            if inside {
                bits[(at + 1) / 64] |= 1 << ((at + 1) % 64);
            }
        }
        bits
    }

    /// The patterns as the image has them.
    pub fn records(&self) -> Vec<layout::Pattern> {
        let padded = |name: &str| {
            let mut out = [0; 16];
            let name = &name.as_bytes()[..name.len().min(15)];
            out[..name.len()].copy_from_slice(name);
            out
        };
        let record = |p: &IfPattern| layout::Pattern {
            name: padded(&p.name),
            mask: std::array::from_fn(|at| {
                if !p.prefix || at < p.name.len() {
                    0xff
                } else {
                    0
                }
            }),
        };
        self.patterns.iter().map(record).collect()
    }
}
