//! The stack of calls at the end of a pass.
//!
//! In: a rule set, where packets can come to. Out: a refusal, where it matters that the stack ends
//! with the pass. On the original a packet that is accepted inside a called range takes the call
//! along to its output pass, and a `return` there goes back.

use super::Lowering;
use super::action::position;
use super::literal::Refused;
use super::reach::{self, Ways, is_found_by};
use super::states::look_of;
use crate::dialect::ipfw::ast::{Action, Rule};

impl Lowering<'_> {
    /// Refuses a `return` that packets come to uncalled, where calls accept.
    pub(super) fn stack(&mut self) {
        let set = self.set;
        let returns = |rule: &Rule| matches!(rule.action, Action::Return);
        let enabled = |at: usize| set.is_enabled(set.rules[at].rule.set);
        if !(0..set.rules.len()).any(|at| enabled(at) && returns(&set.rules[at].rule)) {
            return;
        }
        let uncalled = self.reach.uncalled();
        let Some(met) = self.first_acting(&uncalled, &returns) else {
            return;
        };
        let one_pass = set.settings.one_pass;
        let accepts = |rule: &Rule| match rule.action {
            Action::Allow | Action::Forward { .. } => true,
            Action::Pipe(_) | Action::Queue(_) => one_pass,
            _ => false,
        };
        let calls = set.rules.iter().filter(|one| set.is_enabled(one.rule.set));
        let targets = calls.flat_map(|one| match one.rule.action {
            Action::Call(argument) => reach::numbers(set, &one.rule, argument),
            _ => Vec::new(),
        });
        let mut targets: Vec<usize> = targets.map(|number| position(set, number)).collect();
        targets.sort_unstable();
        targets.dedup();
        for to in targets {
            let ways = self.reach.called_anyhow(to);
            if self.first_acting(&ways, &accepts).is_some() {
                let why = Refused {
                    what: "a `return` that packets reach uncalled, beside calls that accept,"
                        .to_owned(),
                    help: "put a `skipto` around the called range, so that only calls lead there",
                };
                self.refuse(set.rules[met].rule.action_place.0, &why);
                return;
            }
        }
    }

    /// The first rule of a kind that acts on the ways, itself or for packets of its states.
    fn first_acting(&self, ways: &Ways, is: &dyn Fn(&Rule) -> bool) -> Option<usize> {
        let set = self.set;
        let enabled = |at: &usize| set.is_enabled(set.rules[*at].rule.set);
        let all = || (0..set.rules.len()).filter(enabled);
        let itself = all().find(|at| ways.come_to(*at) && is(&set.rules[*at].rule));
        let by_state = || {
            let looks = all().filter(|at| ways.look_at(*at));
            let names: Vec<_> = looks
                .filter_map(|at| look_of(&set.rules[at].rule))
                .collect();
            all().find(|at| {
                let rule = &set.rules[*at].rule;
                is(rule) && names.iter().any(|name| is_found_by(rule, *name))
            })
        };
        itself.or_else(by_state)
    }
}
