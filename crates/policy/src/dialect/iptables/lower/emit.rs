//! Checked tables to the model: chains, roots, and dense ids for everything that counts.

use super::super::ast::ChainVerdict;
use super::Lowering;
use super::matches::Tests;
use super::tables::{ChainState, Entry, TableState, Tables};
use super::targets::Action;
use crate::model::{Chain, ChainId, ChainPolicy, Policy, Root, Rule, RuleId, Table, Test, Verdict};
use crate::syntax::Diagnostic;

/// Whether the rules of a table are enforced.
fn enforced(table: Table) -> bool {
    matches!(table, Table::Raw | Table::Mangle | Table::Filter)
}

impl Lowering<'_> {
    /// Makes the policy. Errors are in the report; the caller looks there before using it.
    pub(super) fn emit(&mut self, tables: &Tables<'_>, sources: Vec<String>) -> Policy {
        let mut policy = Policy {
            sources,
            ..Policy::default()
        };
        let mut order: Vec<&TableState<'_>> = tables.list.iter().collect();
        order.sort_by_key(|table| (table.family, table.table));
        for table in order {
            match table.table {
                Table::Nat => self.report.nat_rules += rules_in(table),
                Table::Security => self.refuse_security(table),
                _ => self.emit_table(table, &mut policy),
            }
        }
        policy
            .roots
            .sort_by_key(|root| (root.family, root.hook, root.table));
        policy.sets = std::mem::take(&mut self.sets);
        policy.histories = std::mem::take(&mut self.histories);
        policy
    }

    fn emit_table(&mut self, table: &TableState<'_>, policy: &mut Policy) {
        debug_assert!(enforced(table.table));
        let first = policy.chains.len();
        let mut next = 0;
        let ids: Vec<Option<ChainId>> = table
            .chains
            .iter()
            .map(|chain| {
                (!chain.deleted).then(|| {
                    next += 1;
                    ChainId(as_u32(first + next - 1))
                })
            })
            .collect();
        for (index, state) in table.chains.iter().enumerate() {
            let Some(id) = ids[index] else { continue };
            let chain = self.emit_chain(table, state, &ids, &mut policy.rule_count);
            policy.chains.push(chain);
            if let Some(hook) = state.hook {
                policy.roots.push(Root {
                    family: table.family,
                    hook,
                    table: table.table,
                    chain: id,
                });
            }
        }
    }

    fn emit_chain(
        &mut self,
        table: &TableState<'_>,
        state: &ChainState,
        ids: &[Option<ChainId>],
        rule_count: &mut u32,
    ) -> Chain {
        let mut rules = Vec::with_capacity(state.rules.len());
        for (position, entry) in state.rules.iter().enumerate() {
            let entry = &table.entries[entry];
            let chain = entry.jump.and_then(|target| ids[target]);
            if let Some((tests, (ops, flow))) = self.emit_rule(table, entry, chain) {
                rules.push(Rule {
                    id: take_id(rule_count),
                    origin: entry.origin,
                    index: as_u32(position + 1),
                    tests,
                    ops,
                    flow,
                    preset: entry.preset,
                });
            }
        }
        let policy = state.hook.map(|_| ChainPolicy {
            id: take_id(rule_count),
            origin: state.origin,
            verdict: match state.policy {
                ChainVerdict::Accept => Verdict::Accept,
                ChainVerdict::Drop => Verdict::Drop,
            },
            preset: state.preset,
        });
        Chain {
            name: state.name.to_string(),
            family: table.family,
            table: table.table,
            rules,
            policy,
        }
    }

    /// Tests and action of a rule; `None` when it was refused or left out.
    fn emit_rule(
        &mut self,
        table: &TableState<'_>,
        entry: &Entry<'_>,
        chain: Option<ChainId>,
    ) -> Option<(Vec<Test>, Action)> {
        let histories = self.histories.len();
        let mut gathered = Tests {
            lowering: self,
            family: table.family,
            tests: Vec::with_capacity(tests_in(entry)),
            refused: Vec::new(),
        };
        gathered.rule(entry);
        let action = gathered.action(entry, chain);
        let (tests, refused) = (gathered.tests, gathered.refused);
        if refused.is_empty() {
            return Some((tests, action));
        }
        self.histories.truncate(histories);
        self.refuse(table, entry, refused);
        None
    }

    /// The security table marks for mandatory access control, which weir does not do.
    fn refuse_security(&mut self, table: &TableState<'_>) {
        for chain in &table.chains {
            if chain.policy == ChainVerdict::Drop {
                let message = "the table security is not supported";
                let found = Diagnostic::unsupported(chain.at, message);
                self.report
                    .diagnostics
                    .push(found.help("leave it to iptables beside weir"));
            }
            for entry in chain.rules.iter().map(|entry| &table.entries[entry]) {
                let message = "the table security is not supported";
                let found = Diagnostic::unsupported(entry.at, message)
                    .help("take the rule out, or leave it to iptables beside weir");
                self.refuse(table, entry, vec![found]);
            }
        }
    }
}

/// How many tests a rule will probably have, so that a million rules do not waste memory.
fn tests_in(entry: &Entry<'_>) -> usize {
    let rule = entry.rule;
    let basics = [
        entry.source.is_some(),
        entry.destination.is_some(),
        rule.in_interface.is_some(),
        rule.out_interface.is_some(),
        rule.protocol.is_some(),
    ];
    let options: usize = rule
        .matches
        .iter()
        .map(|instance| instance.options.len())
        .sum();
    basics.into_iter().filter(|&given| given).count() + options
}

fn rules_in(table: &TableState<'_>) -> usize {
    table.chains.iter().map(|chain| chain.rules.len()).sum()
}

fn as_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn take_id(count: &mut u32) -> RuleId {
    let id = RuleId(*count);
    *count += 1;
    id
}
