//! Rules in a row that are taken as one: their sets are joined before they are applied.
//!
//! In: rules of a chain, and the packets that come to them. Out: the packets behind them. A list of
//! thousands of rules would otherwise be applied to the diagram of all packets once a rule. Where
//! it is asked which rules any packet matches, unions of neighbours are made first, and the packets
//! that come are handed down to halves: what the first half takes, the second one doesn't get. So
//! each rule meets a diagram of the size of its own neighbourhood.

use super::diagram::{NO, Node, TooLarge};
use super::state::{Change, Who};
use super::walk::{Matched, Walk};
use crate::model::{ChainId, Flow, Rule, Verdict};
use std::collections::BTreeSet;

/// Unions of neighbours: level 0 has one set for each rule, each level above half as many.
type Unions = Vec<Vec<Node>>;

impl Walk<'_, '_> {
    /// The end of the row of rules from `at` on that are taken as one.
    pub(super) fn run(&self, rules: &[Rule], at: usize, targets: &BTreeSet<usize>) -> usize {
        let first = &rules[at];
        if self.notes.deciders || !self.is_plain(first) {
            return at + 1;
        }
        // Who is only asked whom any packet meets needs no equal verdicts.
        let alike = |rule: &Rule| {
            rule.flow == first.flow
                || self.notes.reached
                    && matches!(
                        (rule.flow, first.flow),
                        (Flow::Verdict(_), Flow::Verdict(_))
                    )
        };
        let mut until = at + 1;
        while rules
            .get(until)
            .is_some_and(|rule| alike(rule) && self.is_plain(rule))
            && !targets.contains(&until)
        {
            until += 1;
        }
        until
    }

    /// Whether a rule only decides or proposes, by conditions that remember nothing and that no
    /// earlier rule can have changed.
    fn is_plain(&self, rule: &Rule) -> bool {
        let flow = match rule.flow {
            Flow::Verdict(_) => true,
            Flow::Propose(_) => !self.names.proposers.contains(&rule.id),
            _ => false,
        };
        flow && rule.ops.iter().all(|op| !self.names.matters(op)) && self.names.is_plain(rule)
    }

    /// A row of plain rules.
    pub(super) fn rules(
        &mut self,
        rules: &[Rule],
        chain: ChainId,
        live: Node,
    ) -> Result<Node, TooLarge> {
        if self.notes.reached {
            return self.reached_row(rules, chain, live);
        }
        let mut parts = Vec::with_capacity(rules.len());
        for rule in rules {
            let matched = self.matched(rule, chain, live)?;
            parts.push((matched.yes, matched.hot));
        }
        // Pairs of neighbours, so that no large set is copied once a rule.
        while parts.len() > 1 {
            let mut next = Vec::with_capacity(parts.len().div_ceil(2));
            for pair in parts.chunks(2) {
                let [(yes, hot), (later, later_hot)] = *pair else {
                    next.push(pair[0]);
                    continue;
                };
                let d = &mut self.space.diagram;
                let later = d.without(later, hot)?;
                let later_hot = d.without(later_hot, yes)?;
                next.push((d.or(yes, later)?, d.or(hot, later_hot)?));
            }
            parts = next;
        }
        let (yes, hot) = parts[0];
        let change = match rules[0].flow {
            Flow::Propose(verdict) => Change::Propose(verdict, Who::Nobody),
            Flow::Verdict(verdict) => Change::Decide(verdict, Who::Nobody),
            _ => unreachable!("such a rule isn't plain"),
        };
        let live = self.change(hot, live, &Change::Decide(Verdict::Drop, Who::Nobody))?;
        self.change(yes, live, &change)
    }

    /// A row of which it is noted which rules any packet matches.
    fn reached_row(
        &mut self,
        rules: &[Rule],
        chain: ChainId,
        live: Node,
    ) -> Result<Node, TooLarge> {
        let walking = self.walking(live)?;
        let mut matched = Vec::with_capacity(rules.len());
        for rule in rules {
            matched.push(self.matched(rule, chain, live)?);
        }
        let takes = !matches!(rules[0].flow, Flow::Propose(_));
        let mut taken = Vec::with_capacity(rules.len());
        for Matched { yes, hot, .. } in &matched {
            taken.push(match takes {
                true => self.space.diagram.or(*yes, *hot)?,
                false => *hot,
            });
        }
        let unions = self.unions(taken)?;
        let mut come = vec![NO; rules.len()];
        let top = unions.len() - 1;
        match takes {
            true => self.hand_down(&unions, (top, 0), walking, &mut come)?,
            // A proposal takes nothing away but what is dropped at its header.
            false if unions[top][0] == NO => come.fill(walking),
            false => self.one_by_one(&matched, walking, &mut come)?,
        }
        let (mut accepted, mut proposed, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        for ((rule, one), come) in rules.iter().zip(&matched).zip(come) {
            let met = self.space.diagram.and(come, one.yes)?;
            self.reached[rule.id.0 as usize] |= met != NO;
            match rule.flow {
                Flow::Verdict(Verdict::Accept) => accepted.push(met),
                Flow::Propose(_) => proposed.push(one.yes),
                _ => dropped.push(met),
            }
            dropped.push(self.space.diagram.and(come, one.hot)?);
        }
        let mut live = live;
        let nobody = Who::Nobody;
        for (sets, change) in [
            (dropped, Change::Decide(Verdict::Drop, nobody)),
            (accepted, Change::Decide(Verdict::Accept, nobody)),
        ] {
            let all = self.union(sets)?;
            live = self.change(all, live, &change)?;
        }
        if let Flow::Propose(verdict) = rules[0].flow {
            let all = self.union(proposed)?;
            live = self.change(all, live, &Change::Propose(verdict, nobody))?;
        }
        Ok(live)
    }

    fn union(&mut self, sets: Vec<Node>) -> Result<Node, TooLarge> {
        if sets.is_empty() {
            return Ok(NO);
        }
        let unions = self.unions(sets)?;
        Ok(unions[unions.len() - 1][0])
    }

    fn unions(&mut self, sets: Vec<Node>) -> Result<Unions, TooLarge> {
        let mut out = vec![sets];
        while let Some(below) = out.last().filter(|level| level.len() > 1) {
            let mut level = Vec::with_capacity(below.len().div_ceil(2));
            for pair in below.chunks(2) {
                level.push(match *pair {
                    [one, other] => self.space.diagram.or(one, other)?,
                    _ => pair[0],
                });
            }
            out.push(level);
        }
        Ok(out)
    }

    /// Hands packets down to the rules below one union; each takes its own.
    fn hand_down(
        &mut self,
        unions: &Unions,
        (level, at): (usize, usize),
        packets: Node,
        come: &mut [Node],
    ) -> Result<(), TooLarge> {
        if packets == NO {
            return Ok(());
        }
        if level == 0 {
            come[at] = packets;
            return Ok(());
        }
        let below = &unions[level - 1];
        let first = below[2 * at];
        let mine = self.space.diagram.and(packets, first)?;
        self.hand_down(unions, (level - 1, 2 * at), mine, come)?;
        if let Some(second) = below.get(2 * at + 1) {
            let rest = self.space.diagram.without(packets, first)?;
            let rest = self.space.diagram.and(rest, *second)?;
            self.hand_down(unions, (level - 1, 2 * at + 1), rest, come)?;
        }
        Ok(())
    }

    /// The same where rules let on what they match.
    fn one_by_one(
        &mut self,
        matched: &[Matched],
        walking: Node,
        come: &mut [Node],
    ) -> Result<(), TooLarge> {
        let mut left = walking;
        for (one, come) in matched.iter().zip(come) {
            *come = left;
            left = self.space.diagram.without(left, one.hot)?;
        }
        Ok(())
    }
}
