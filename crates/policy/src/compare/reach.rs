//! Rules that no packet ever matches.
//!
//! In: a policy. Out: the rules that are behind others that take every packet they mean, on every
//! way through the host. A limit or any other thing that remembers may let a packet by or not, so
//! what is behind one is not out of reach.

use super::names::Names;
use super::space::Space;
use super::state::States;
use super::walk::{Notes, Walk};
use super::{PATHS, Refusal, has_rules, without_dynamic};
use crate::model::{Family, Policy, Rule, RuleId};

/// Rules out of reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreached {
    /// Their ids, in the order of the policy's chains.
    pub rules: Vec<RuleId>,
}

/// Finds them.
pub fn unreached(policy: &Policy, nodes: usize) -> Result<Unreached, Refusal> {
    without_dynamic(&[policy])?;
    let names = Names::of(policy, false);
    let mut reached = vec![false; policy.rule_count as usize];
    for family in [Family::V4, Family::V6] {
        for path in PATHS {
            if !has_rules(policy, family, path) {
                continue;
            }
            let mut space = Space::new(&[policy], family, nodes);
            let mut states = States::default();
            let domain = space.domain(path)?;
            let notes = Notes {
                deciders: false,
                reached: true,
            };
            let mut walk = Walk::new(&mut space, &mut states, policy, &names, 0, notes);
            walk.reached.clone_from(&reached);
            walk.journey(path, domain)?;
            reached = walk.reached;
        }
    }
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let mut out: Vec<RuleId> = Vec::new();
    for rule in rules.filter(|rule| rule.index != Rule::HIDDEN) {
        // Said once of a rule that stands for both families.
        if !std::mem::replace(&mut reached[rule.id.0 as usize], true) {
            out.push(rule.id);
        }
    }
    Ok(Unreached { rules: out })
}
