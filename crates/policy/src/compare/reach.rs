//! Rules that no packet ever matches.
//!
//! In: a policy. Out: the rules that are behind others that take every packet they mean, on every
//! way through the host. A limit or any other thing that remembers may let a packet by or not, so
//! what is behind one is not out of reach.

use super::names::Names;
use super::space::Space;
use super::state::States;
use super::walk::{Notes, Walk};
use super::{PATHS, Refusal, comparable, has_rules};
use crate::model::{Family, Policy, Rule, RuleId};
use std::collections::BTreeSet;

/// Rules out of reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreached {
    /// Their ids, in the order of the policy's chains.
    pub rules: Vec<RuleId>,
}

/// Finds them.
pub fn unreached(policy: &Policy, nodes: usize) -> Result<Unreached, Refusal> {
    comparable(&[policy])?;
    let mut names = Names::of(policy, false);
    let mut reached = vec![false; policy.rule_count as usize];
    // States of ipfw that no packet has made are found by none.
    let mut made = BTreeSet::new();
    loop {
        for (at, class) in names.makers.classes.iter_mut().enumerate() {
            class.visible = made.contains(&at);
        }
        let before = made.len();
        walk(policy, &names, nodes, &mut reached, &mut made)?;
        if made.len() == before {
            break;
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

/// Notes which rules packets meet, and which states of ipfw they make.
fn walk(
    policy: &Policy,
    names: &Names,
    nodes: usize,
    reached: &mut Vec<bool>,
    made: &mut BTreeSet<usize>,
) -> Result<(), Refusal> {
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
            let mut walk = Walk::new(&mut space, &mut states, policy, names, 0, notes);
            walk.reached.clone_from(reached);
            walk.journey(path, domain)?;
            *reached = walk.reached;
            made.extend(walk.made);
        }
    }
    Ok(())
}
