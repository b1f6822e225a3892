//! Jumps resolved, cycles refused, and what each rule does compared with where it can be reached.
//!
//! The kernel looks at the hooks from which a chain can be reached, not at the chain's name; so a
//! REJECT in a user chain is wrong only when something like PREROUTING leads to it.

use super::super::ast::{Instance, Target, table_name};
use super::super::grammar::{ALL_HOOKS, Hooks, Role};
use super::super::value::Value;
use super::LowerReport;
use super::tables::{Entry, TableState};
use crate::model::{Hook, Table};
use crate::syntax::{Diagnostic, Span};

/// Checks one table; its entries know their chains afterwards.
pub(super) fn check(table: &mut TableState<'_>, report: &mut LowerReport) {
    resolve(table, report);
    let Some(order) = order(table, report) else {
        return;
    };
    let reached = reached(table, &order);
    for (index, chain) in table.chains.iter().enumerate() {
        for entry in chain.rules.iter().map(|entry| &table.entries[entry]) {
            check_rule(entry, reached[index], table.table, report);
        }
    }
}

/// Finds the chains that rules lead to.
fn resolve(table: &mut TableState<'_>, report: &mut LowerReport) {
    let mut found = Vec::new();
    for chain in &table.chains {
        for index in chain.rules.iter() {
            let (Some(Target::Jump(name, at)) | Some(Target::Goto(name, at))) =
                &table.entries[index].rule.target
            else {
                continue;
            };
            let at = at.0;
            match table.by_name.get(name) {
                None => report.diagnostics.push(table.unknown_target(name, at)),
                Some(&target) if table.chains[target].hook.is_some() => {
                    let message = format!("a rule cannot jump to the built-in chain `{name}`");
                    let diagnostic = Diagnostic::error("bad-jump", at, message);
                    report
                        .diagnostics
                        .push(diagnostic.help("jump to a user chain"));
                }
                Some(&target) => found.push((index, target)),
            }
        }
    }
    for (index, target) in found {
        table.entries[index].jump = Some(target);
    }
}

/// Where a chain is while the jumps are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// The chains in an order in which jumps only go forward; `None` where there is a cycle.
fn order(table: &TableState<'_>, report: &mut LowerReport) -> Option<Vec<usize>> {
    let mut marks = vec![Mark::New; table.chains.len()];
    let mut done = Vec::new();
    let mut cyclic = false;
    for start in 0..table.chains.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        let mut path = vec![(start, jumps(table, start))];
        while let Some((chain, rest)) = path.last_mut() {
            let Some((target, entry)) = rest.pop() else {
                marks[*chain] = Mark::Done;
                done.push(*chain);
                path.pop();
                continue;
            };
            match marks[target] {
                Mark::Done => {}
                Mark::New => {
                    marks[target] = Mark::Open;
                    path.push((target, jumps(table, target)));
                }
                Mark::Open => {
                    cyclic = true;
                    let from = path.iter().position(|step| step.0 == target).unwrap_or(0);
                    let names: Vec<&str> = path[from..]
                        .iter()
                        .map(|step| &*table.chains[step.0].name)
                        .collect();
                    report
                        .diagnostics
                        .push(cycle(&table.entries[entry], &names));
                }
            }
        }
    }
    done.reverse();
    (!cyclic).then_some(done)
}

/// The chains that a chain leads to, each once with the first rule that does; last rule first.
fn jumps(table: &TableState<'_>, chain: usize) -> Vec<(usize, usize)> {
    let mut seen = std::collections::HashSet::new();
    let mut list: Vec<(usize, usize)> = table.chains[chain]
        .rules
        .iter()
        .filter_map(|entry| Some((table.entries[entry].jump?, entry)))
        .filter(|(target, _)| seen.insert(*target))
        .collect();
    list.reverse();
    list
}

fn cycle(entry: &Entry<'_>, names: &[&str]) -> Diagnostic {
    let at = match &entry.rule.target {
        Some(Target::Jump(_, at) | Target::Goto(_, at)) => at.0,
        _ => entry.at,
    };
    let first = names.first().copied().unwrap_or_default();
    let way = names.join(" -> ");
    let message = format!("this jump closes a circle: {way} -> {first}");
    Diagnostic::error("jump-cycle", at, message).help("a chain must not lead back to itself")
}

/// The hooks from which each chain can be reached.
fn reached(table: &TableState<'_>, order: &[usize]) -> Vec<Hooks> {
    let own =
        |chain: &super::tables::ChainState| chain.hook.map_or(Hooks(0), |hook| Hooks::of(&[hook]));
    let mut reached: Vec<Hooks> = table.chains.iter().map(own).collect();
    for &chain in order {
        for (target, _) in jumps(table, chain) {
            reached[target] = reached[target].or(reached[chain]);
        }
    }
    reached
}

const OUTGOING: Hooks = Hooks::of(&[Hook::Forward, Hook::Output, Hook::Postrouting]);
const INCOMING: Hooks = Hooks::of(&[Hook::Prerouting, Hook::Input, Hook::Forward]);

/// Hooks that come before this host has made up its mind about a packet, or keep it here.
const RECEIVING: Hooks = Hooks::of(&[Hook::Prerouting, Hook::Input]);

/// Refuses modules and options outside their hooks.
fn check_rule(entry: &Entry<'_>, reached: Hooks, table: Table, report: &mut LowerReport) {
    let target = match &entry.rule.target {
        Some(Target::Module(instance)) => Some(instance),
        _ => None,
    };
    for instance in entry.rule.matches.iter().chain(target) {
        let mut allow = |allowed: Hooks, at: Span, what: &str| {
            let wrong = reached.without(allowed);
            if wrong != Hooks(0) {
                report
                    .diagnostics
                    .push(wrong_hook(what, at, allowed, wrong, table));
            }
        };
        let sign = match instance.spec.role {
            Role::Match => "-m",
            Role::Target => "-j",
        };
        allow(
            instance.spec.hooks,
            instance.at.0,
            &format!("{sign} {}", instance.spec.name),
        );
        for (option, allowed) in limited_options(instance) {
            let at = instance
                .option(option)
                .map_or(instance.at.0, |option| option.at.0);
            allow(allowed, at, &format!("--{option}"));
        }
        report.diagnostics.extend(too_early(instance, reached));
    }
}

/// What is written when the packet leaves, at a hook that comes before what it would change.
fn too_early(instance: &Instance, reached: Hooks) -> Option<Diagnostic> {
    let early = reached.and(RECEIVING);
    if !matches!(instance.spec.name, "TTL" | "HL") || early == Hooks(0) {
        return None;
    }
    let (name, hooks) = (instance.spec.name, hook_names(early));
    let message = format!("`-j {name}` where {hooks} leads is not supported");
    let help = "it is written when the packet leaves: use FORWARD, OUTPUT or POSTROUTING";
    Some(Diagnostic::unsupported(instance.at.0, message).help(help))
}

/// Options that work in fewer hooks than their module.
fn limited_options(instance: &Instance) -> Vec<(&'static str, Hooks)> {
    let candidates: &[(&'static str, Hooks)] = match instance.spec.name {
        "addrtype" => &[("limit-iface-in", INCOMING), ("limit-iface-out", OUTGOING)],
        "TCPMSS" => &[("clamp-mss-to-pmtu", OUTGOING)],
        "devgroup" => &[("src-group", INCOMING), ("dst-group", OUTGOING)],
        "physdev" => &[
            ("physdev-out", ALL_BUT_OUTPUT),
            ("physdev-is-out", ALL_BUT_OUTPUT),
        ],
        "policy" => {
            let out = instance
                .option("dir")
                .is_some_and(|option| option.value == Value::Number(1));
            return vec![("dir", if out { OUTGOING } else { INCOMING })];
        }
        _ => &[],
    };
    let given = candidates
        .iter()
        .filter(|(name, _)| instance.option(name).is_some());
    given.copied().collect()
}

const ALL_BUT_OUTPUT: Hooks = Hooks::ANY.without(Hooks::of(&[Hook::Output]));

fn hook_names(hooks: Hooks) -> String {
    let names = ALL_HOOKS
        .iter()
        .filter(|&&hook| hooks.contains(hook))
        .map(|hook| match hook {
            Hook::Prerouting => "PREROUTING",
            Hook::Input => "INPUT",
            Hook::Forward => "FORWARD",
            Hook::Output => "OUTPUT",
            Hook::Postrouting => "POSTROUTING",
        });
    names.collect::<Vec<_>>().join(", ")
}

fn wrong_hook(what: &str, at: Span, allowed: Hooks, wrong: Hooks, table: Table) -> Diagnostic {
    let message = format!(
        "`{what}` cannot be used where {} of table {} leads",
        hook_names(wrong),
        table_name(table)
    );
    Diagnostic::error("wrong-hook", at, message)
        .help(format!("it works in {}", hook_names(allowed)))
}
