//! Interface lists as a filter table of iptables.
//!
//! In: the in and out lists of a family. Out: the table's text. Received packets meet the in list
//! at INPUT or FORWARD, sent ones the out list at FORWARD or OUTPUT; a routed packet meets both at
//! FORWARD, the in list first.

use super::address::Named;
use super::chains::{Accept, Chains, End, Stop};
use super::clause::Scope;
use super::first::Trouble;
use super::remarks::Remarks;
use super::words_iptables::Iptables;
use super::{Lists, Options};
use crate::model::{Chain, Family, NamedSet, Verdict};
use std::fmt::Write;

/// What a table is made of.
pub struct Table<'p> {
    /// All chains.
    pub chains: &'p [Chain],
    /// Named sets.
    pub sets: &'p [NamedSet],
    /// The lists.
    pub lists: Lists,
    /// The family.
    pub family: Family,
}

/// Packets of conversations that were let begin.
const GO_ON: &str = "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT";

struct Policies {
    input: Verdict,
    forward: Verdict,
    output: Verdict,
}

impl<'p> Table<'p> {
    fn scope(&self, received: bool, leaving: bool) -> Scope<'p> {
        Scope {
            family: self.family,
            received,
            leaving,
            sets: self.sets,
            first: false,
        }
    }

    fn policy(&self, list: Option<crate::model::ChainId>) -> Verdict {
        list.and_then(|id| self.chains[id.0 as usize].policy)
            .map_or(Verdict::Accept, |end| end.verdict)
    }

    /// The text of the table.
    pub fn text(
        &self,
        sets: &mut Named,
        remarks: &mut Remarks<'p>,
        options: &Options,
    ) -> Result<String, Trouble> {
        let mut shared = true;
        loop {
            remarks.again();
            let words = Iptables {
                sets: &mut *sets,
                family: self.family,
            };
            let mut chains = Chains::new(words, self.chains, &mut *remarks);
            match self.fill(&mut chains, shared, options.host) {
                Ok(policies) => return Ok(print(chains, &policies, options.tracked)),
                Err(Stop::Trouble(trouble)) => return Err(trouble),
                Err(Stop::NeedsCopy) => shared = false,
            }
        }
    }

    fn fill(
        &self,
        chains: &mut Chains<'_, 'p>,
        shared: bool,
        host: bool,
    ) -> Result<Policies, Stop> {
        let Lists { input, output } = self.lists;
        let mut policies = Policies {
            input: self.policy(input),
            forward: Verdict::Accept,
            output: self.policy(output),
        };
        let at_input = self.scope(true, false);
        let at_output = self.scope(false, true);
        if host {
            policies.forward = Verdict::Drop;
            for (hook, list, scope) in [("INPUT", input, at_input), ("OUTPUT", output, at_output)] {
                if let Some(list) = list {
                    chains.built_in(hook, list, scope, Accept::Final)?;
                }
            }
            return Ok(policies);
        }
        match (input, output) {
            (None, None) => {}
            (Some(list), None) => {
                let end = End::Verdict(policies.input);
                let name = chains.user("received", list, at_input, Accept::Final, end)?;
                jump(chains, "INPUT", &name, 0);
                jump(chains, "FORWARD", &name, 1);
            }
            (None, Some(list)) => {
                let end = End::Verdict(policies.output);
                // Who is routed has been received somewhere; who is sent has not.
                if self.asks_where_from(list) {
                    let both = self.scope(true, true);
                    chains.built_in("FORWARD", list, both, Accept::Final)?;
                    policies.forward = policies.output;
                    chains.built_in("OUTPUT", list, at_output, Accept::Final)?;
                } else {
                    let name = chains.user("sent", list, at_output, Accept::Final, end)?;
                    jump(chains, "FORWARD", &name, 0);
                    jump(chains, "OUTPUT", &name, 1);
                }
            }
            (Some(from), Some(to)) => {
                let end = End::Verdict(policies.output);
                let sent = match self.asks_where_from(to) {
                    true => {
                        chains.built_in("OUTPUT", to, at_output, Accept::Final)?;
                        chains.user("routed", to, self.scope(true, true), Accept::Final, end)?
                    }
                    false => {
                        let name = chains.user("sent", to, at_output, Accept::Final, end)?;
                        jump(chains, "OUTPUT", &name, 0);
                        name
                    }
                };
                let end = End::Verdict(policies.input);
                if shared {
                    let name = chains.user("received", from, at_input, Accept::Back, end)?;
                    jump(chains, "FORWARD", &name, 0);
                    jump(chains, "FORWARD", &sent, 1);
                    jump(chains, "INPUT", &name, 0);
                    // What comes back from there has passed.
                    policies.input = Verdict::Accept;
                } else {
                    chains.built_in("INPUT", from, at_input, Accept::Final)?;
                    let name = chains.user("received", from, at_input, Accept::Into(sent), end)?;
                    jump(chains, "FORWARD", &name, 0);
                }
            }
        }
        Ok(policies)
    }

    /// Whether a rule of the out list asks for the receiving interface.
    fn asks_where_from(&self, list: crate::model::ChainId) -> bool {
        let mut todo = vec![list];
        let mut seen = Vec::new();
        while let Some(id) = todo.pop() {
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            for rule in &self.chains[id.0 as usize].rules {
                if rule.tests.iter().any(|test| asks(&test.cond)) {
                    return true;
                }
                if let crate::model::Flow::Jump(next) | crate::model::Flow::Goto(next) = rule.flow {
                    todo.push(next);
                }
            }
        }
        false
    }
}

fn asks(cond: &crate::model::Cond) -> bool {
    match cond {
        crate::model::Cond::InIface(_) => true,
        crate::model::Cond::Any(tests) => tests.iter().any(|test| asks(&test.cond)),
        _ => false,
    }
}

/// A rule of a built-in chain that leads into a list.
fn jump(chains: &mut Chains<'_, '_>, hook: &str, name: &str, at: usize) {
    let line = format!("-j {name}");
    match chains.made.iter_mut().find(|made| made.name == hook) {
        Some(made) => made.lines.push(line),
        None => {
            let made = super::chains::Made {
                name: hook.to_owned(),
                lines: vec![line],
            };
            chains.made.insert(at.min(chains.made.len()), made);
        }
    }
}

const BUILT_IN: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];

fn print(chains: Chains<'_, '_>, policies: &Policies, tracked: bool) -> String {
    let mut out = "*filter\n".to_owned();
    for (hook, policy) in BUILT_IN
        .iter()
        .zip([policies.input, policies.forward, policies.output])
    {
        let word = if policy == Verdict::Accept {
            "ACCEPT"
        } else {
            "DROP"
        };
        let _ = writeln!(out, ":{hook} {word} [0:0]");
    }
    let is_built_in = |name: &str| BUILT_IN.contains(&name);
    for made in chains.made.iter().filter(|made| !is_built_in(&made.name)) {
        let _ = writeln!(out, ":{} - [0:0]", made.name);
    }
    let of_hooks = BUILT_IN.iter().map(|hook| {
        let made = chains.made.iter().find(|made| made.name == *hook);
        (*hook, made.map_or(&[][..], |made| &made.lines))
    });
    let others = chains.made.iter().filter(|made| !is_built_in(&made.name));
    let others = others.map(|made| (made.name.as_str(), &*made.lines));
    for (name, lines) in of_hooks.chain(others) {
        if tracked && is_built_in(name) {
            let _ = writeln!(out, "-A {name} {GO_ON}");
        }
        for line in lines {
            let _ = match line.starts_with('#') {
                true => writeln!(out, "{line}"),
                false => writeln!(out, "-A {name} {line}"),
            };
        }
    }
    out + "COMMIT\n"
}
