//! Which packets can meet anything that isn't the same in both policies.
//!
//! In: two policies and a way through the host. Out: a set of packets; all others meet the same
//! rules in the same order on both sides, so that the same becomes of them. It is larger than need
//! be, never smaller: what it has to go through is what the two policies do not share, which for a
//! change of a long list is a few rules.
//!
//! Why it is right: take away from both lists the rules that have no partner. A packet that matches
//! none of those walks both lists as if they were gone, and what is left is equal, rule by rule. A
//! rule that skips has a partner only if both skip to the same partners.

use super::diagram::{NO, Node, TooLarge, YES};
use super::field::Field;
use super::names::{Names, canonical, is_live, set_change};
use super::space::Space;
use super::walk::nested;
use crate::eval::{Evaluator, Path};
use crate::model::{Chain, ChainId, Cond, DynamicTest, Flow, Hook, Op, Policy, Rule, Table, Test};
use std::collections::{BTreeSet, HashMap};

/// The packets of a way that may be treated differently.
pub fn region(
    space: &mut Space,
    policies: [&Policy; 2],
    names: &[Names; 2],
    path: Path,
) -> Result<Node, TooLarge> {
    let [old, new] = policies.map(|policy| (policy.short_goes_on, policy.reading));
    if old != new {
        return Ok(YES);
    }
    let mut changed = Changed {
        space,
        policies,
        names,
        hook: Hook::Prerouting,
        raw: true,
        seen: BTreeSet::new(),
        out: NO,
    };
    for &hook in Evaluator::hooks(path) {
        for table in [Table::Raw, Table::Mangle, Table::Filter] {
            (changed.hook, changed.raw) = (hook, table == Table::Raw);
            let family = changed.space.family;
            let roots = policies.map(|policy| policy.root(family, hook, table));
            match roots {
                [None, None] => {}
                [Some(old), Some(new)] => changed.chains(old.chain, new.chain)?,
                _ => return Ok(YES),
            }
        }
    }
    Ok(changed.out)
}

struct Changed<'a> {
    space: &'a mut Space,
    policies: [&'a Policy; 2],
    names: &'a [Names; 2],
    hook: Hook,
    raw: bool,
    seen: BTreeSet<(ChainId, ChainId, Hook)>,
    out: Node,
}

impl Changed<'_> {
    fn chains(&mut self, old: ChainId, new: ChainId) -> Result<(), TooLarge> {
        if self.out == YES || !self.seen.insert((old, new, self.hook)) {
            return Ok(());
        }
        let [a, b] = [self.policies[0].chain(old), self.policies[1].chain(new)];
        if a.policy.map(|policy| policy.verdict) != b.policy.map(|policy| policy.verdict) {
            self.out = YES;
            return Ok(());
        }
        let mut numbers = HashMap::new();
        let keys = [(0, a), (1, b)].map(|(side, chain)| self.keys(side, chain, &mut numbers));
        let mut partner = partners(&keys[0], &keys[1]);
        self.skips(&mut partner, a, b);
        let mut alone = [vec![true; a.rules.len()], vec![true; b.rules.len()]];
        for (at, other) in partner.iter().enumerate() {
            let Some(other) = *other else { continue };
            (alone[0][at], alone[1][other]) = (false, false);
            let targets = [(a, at), (b, other)].map(|(chain, at)| target(&chain.rules[at].flow));
            if let [Some(old), Some(new)] = targets {
                self.chains(old, new)?;
            }
        }
        for (side, chain) in [(0, a), (1, b)] {
            let mut sets: Vec<Node> = Vec::new();
            for (rule, _) in chain.rules.iter().zip(&alone[side]).filter(|one| *one.1) {
                sets.push(self.may_match(side, rule)?);
            }
            while sets.len() > 1 {
                let mut next = Vec::with_capacity(sets.len().div_ceil(2));
                for pair in sets.chunks(2) {
                    next.push(match *pair {
                        [one, other] => self.space.diagram.or(one, other)?,
                        _ => pair[0],
                    });
                }
                sets = next;
            }
            if let [one] = *sets {
                self.out = self.space.diagram.or(self.out, one)?;
            }
        }
        Ok(())
    }

    /// A number for what each rule says; unequal ones for rules that never have a partner.
    fn keys(&self, side: usize, chain: &Chain, numbers: &mut HashMap<String, u32>) -> Vec<u32> {
        let (policy, names) = (self.policies[side], &self.names[side]);
        let keys = chain.rules.iter().enumerate().map(|(at, rule)| {
            let text = text_of(policy, names, rule)
                .unwrap_or_else(|| format!("only in {side} {} {at}", chain.name));
            let next = numbers.len() as u32;
            *numbers.entry(text).or_insert(next)
        });
        keys.collect()
    }

    /// Takes the partner away from rules that do not skip to the same partners.
    fn skips(&self, partner: &mut [Option<usize>], a: &Chain, b: &Chain) {
        loop {
            // For each rule of the second list that has one, its partner.
            let mut back = vec![None; b.rules.len()];
            for (at, other) in partner.iter().enumerate() {
                if let Some(other) = *other {
                    back[other] = Some(at);
                }
            }
            let wrong = (0..a.rules.len()).find(|at| {
                let Some(other) = partner[*at] else {
                    return false;
                };
                let (Flow::Skip(to), Flow::Skip(other_to)) =
                    (a.rules[*at].flow, b.rules[other].flow)
                else {
                    return false;
                };
                let old = (to as usize..a.rules.len()).find(|at| partner[*at].is_some());
                let new = (other_to as usize..b.rules.len()).find_map(|at| back[at]);
                old != new
            });
            match wrong {
                Some(at) => partner[at] = None,
                None => return,
            }
        }
    }

    /// Packets that can match a rule, or be dropped by it; perhaps more.
    fn may_match(&mut self, side: usize, rule: &Rule) -> Result<Node, TooLarge> {
        self.space.read_as(self.policies[side].reading);
        let mut all = YES;
        let mut dropped = NO;
        for test in &rule.tests {
            if test.cond.needs_transport() && !self.policies[side].short_goes_on {
                let short = self.space.short()?;
                let malformed = self.space.malformed()?;
                let hot = self.space.diagram.or(short, malformed)?;
                let hot = self.space.diagram.and(all, hot)?;
                dropped = self.space.diagram.or(dropped, hot)?;
            }
            let may = self.may_hold(side, test)?;
            all = self.space.diagram.and(all, may)?;
        }
        self.space.diagram.or(all, dropped)
    }

    fn may_hold(&mut self, side: usize, test: &Test) -> Result<Node, TooLarge> {
        let truth = match &test.cond {
            Cond::InIface(pattern) => self.space.interface(Field::In, pattern, self.hook)?,
            Cond::OutIface(pattern) => self.space.interface(Field::Out, pattern, self.hook)?,
            Cond::State(mask) if !self.raw && !self.names[side].untracks => {
                let yes = self.space.states(mask.0)?;
                self.space.either(yes)?
            }
            Cond::Set { set, fields } if !is_live(self.policies[side], *set) => {
                match self.space.member(self.policies[side], *set, fields)? {
                    Some(yes) => self.space.either(yes)?,
                    None => return Ok(YES),
                }
            }
            Cond::Any(tests) if !test.negate => {
                let mut any = NO;
                for test in tests {
                    let may = self.may_hold(side, test)?;
                    any = self.space.diagram.or(any, may)?;
                }
                return Ok(any);
            }
            cond => match self.space.pure(cond)? {
                Some(truth) => truth,
                None => return Ok(YES),
            },
        };
        Ok(if test.negate { truth.no } else { truth.yes })
    }
}

fn target(flow: &Flow) -> Option<ChainId> {
    match flow {
        Flow::Jump(target) | Flow::Goto(target) | Flow::Head { group: target, .. } => Some(*target),
        _ => None,
    }
}

/// What a rule says, without its place; `None` for what only makes sense at its place.
fn text_of(policy: &Policy, names: &Names, rule: &Rule) -> Option<String> {
    let mut local = false;
    let mut unknown = Vec::new();
    let mut at = 0;
    for test in &rule.tests {
        nested(test, &mut |test| {
            local |= matches!(test.cond, Cond::ProposedBy(_));
            unknown.extend(names.get(rule.id, at, &test.cond).map(|one| &one.text));
            at += 1;
        });
    }
    if local {
        return None;
    }
    let tests: Vec<String> = rule
        .tests
        .iter()
        .map(|test| of_states(policy, names, test).unwrap_or_else(|| canonical(policy, test)))
        .collect();
    let ops: Vec<String> = rule
        .ops
        .iter()
        .map(|op| match op {
            Op::SetAdd { .. } | Op::SetDelete { .. } => set_change(policy, op),
            other => format!("{other:?}"),
        })
        .collect();
    let flow = match (&rule.flow, target(&rule.flow)) {
        (Flow::Head { verdict, quick, .. }, Some(target)) => {
            format!("head {verdict:?} {quick} {}", policy.chain(target).name)
        }
        (Flow::Goto(_), Some(target)) => format!("goto {}", policy.chain(target).name),
        (_, Some(target)) => format!("jump {}", policy.chain(target).name),
        (Flow::Skip(_), None) => "skip".to_owned(),
        (flow, None) => format!("{flow:?}"),
    };
    let proposes = names.proposers.contains(&rule.id);
    Some(format!("{tests:?} {unknown:?} {ops:?} {flow} {proposes}"))
}

/// What a test of ipfw's states says, by what both policies have in common.
fn of_states(policy: &Policy, names: &Names, test: &Test) -> Option<String> {
    let makers = &names.makers;
    let text = |class: usize| makers.classes[class].text.clone();
    let text = match test.cond {
        Cond::Dynamic(DynamicTest::Of(rule)) => {
            let classes = makers.stood_for(policy, rule).into_iter();
            let texts: Vec<String> = classes.map(text).collect();
            format!("of {texts:?}")
        }
        Cond::Dynamic(DynamicTest::Look(name)) => {
            let shared = makers.named.get(&name);
            let name = shared.map_or(format!("other {name}"), |shared| shared.to_string());
            let errors = policy.dynamic.as_ref().is_some_and(|own| own.icmp_errors);
            format!("look for {name} of {}, {errors}", makers.fingerprint())
        }
        Cond::Learn(id) => text(*makers.class_of.get(&id)?),
        _ => return None,
    };
    Some(format!("{} {text}", test.negate))
}

/// For each of `a` its partner in `b`: equal, and in the same order. Not always the most, but all
/// that stand around rules that are in both lists only once.
fn partners(a: &[u32], b: &[u32]) -> Vec<Option<usize>> {
    let mut out = vec![None; a.len()];
    let mut todo = vec![((0, a.len()), (0, b.len()))];
    while let Some(((mut a0, mut a1), (mut b0, mut b1))) = todo.pop() {
        while a0 < a1 && b0 < b1 && a[a0] == b[b0] {
            out[a0] = Some(b0);
            (a0, b0) = (a0 + 1, b0 + 1);
        }
        while a0 < a1 && b0 < b1 && a[a1 - 1] == b[b1 - 1] {
            (a1, b1) = (a1 - 1, b1 - 1);
            out[a1] = Some(b1);
        }
        let anchors = anchors((a0, &a[a0..a1]), (b0, &b[b0..b1]));
        if anchors.is_empty() {
            continue;
        }
        let (mut from_a, mut from_b) = (a0, b0);
        for (at, other) in anchors {
            out[at] = Some(other);
            todo.push(((from_a, at), (from_b, other)));
            (from_a, from_b) = (at + 1, other + 1);
        }
        todo.push(((from_a, a1), (from_b, b1)));
    }
    out
}

/// Values that are once in both, as many as are in the same order.
fn anchors((a0, a): (usize, &[u32]), (b0, b): (usize, &[u32])) -> Vec<(usize, usize)> {
    let mut once: HashMap<u32, (usize, usize, usize, usize)> = HashMap::new();
    for (at, value) in a.iter().enumerate() {
        let entry = once.entry(*value).or_default();
        (entry.0, entry.1) = (entry.0 + 1, at);
    }
    for (at, value) in b.iter().enumerate() {
        let entry = once.entry(*value).or_default();
        (entry.2, entry.3) = (entry.2 + 1, at);
    }
    let mut pairs: Vec<(usize, usize)> = once
        .values()
        .filter(|entry| entry.0 == 1 && entry.2 == 1)
        .map(|entry| (entry.1, entry.3))
        .collect();
    pairs.sort_unstable();
    // The longest rising row of the second numbers (patience sorting).
    let mut tops: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for at in 0..pairs.len() {
        let place = tops.partition_point(|top| pairs[*top].1 < pairs[at].1);
        before[at] = place.checked_sub(1).map(|below| tops[below]);
        if place == tops.len() {
            tops.push(at);
        } else {
            tops[place] = at;
        }
    }
    let mut out = Vec::new();
    let mut next = tops.last().copied();
    while let Some(at) = next {
        out.push((a0 + pairs[at].0, b0 + pairs[at].1));
        next = before[at];
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rules_in_the_same_order_are_partners() {
        let a = [1, 2, 3, 4, 5, 6, 7];
        let b = [1, 2, 9, 4, 3, 6, 8, 7];
        let found = partners(&a, &b);
        assert_eq!(found[..2], [Some(0), Some(1)]);
        assert_eq!((found[5], found[6]), (Some(5), Some(7)));
        assert_eq!(found.iter().flatten().count(), 5);
        let mut last = None;
        for (at, other) in found.iter().enumerate() {
            if let Some(other) = *other {
                assert_eq!(a[at], b[other]);
                assert!(last < Some(other));
                last = Some(other);
            }
        }
    }
}
