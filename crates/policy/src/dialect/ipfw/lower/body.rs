//! The patterns of a rule as alternatives, and what follows each: the rule's branches.
//!
//! In: a rule, for which packets. Out: [`Branch`]es, to be tried in order. Order carries meaning in
//! ipfw's list of steps: an `or` ties a pattern to whatever comes next, also when that is the
//! logging, the tag or the action itself, which is then passed over. `tablearg` is taken apart:
//! one branch for each value that the rule's last table lookup can give.

use super::formula::{ALTERNATIVES_MAX, Formula, and, constant, or};
use super::literal::{Asked, Refused, Scope, refused};
use super::tables::{View, views};
use super::tags::table_of;
use crate::dialect::ipfw::Ruleset;
use crate::dialect::ipfw::ast::{
    Action, Address, Argument, Instruction, Pattern, Rule, TableValue, ValueType,
};
use crate::syntax::Span;

/// One way through a rule.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// When it is taken.
    pub formula: Formula,
    /// What the action's `tablearg` is.
    pub value: u128,
    /// What the tag's `tablearg` is.
    pub tag_value: u128,
    /// What the limit's `tablearg` is.
    pub limit: u128,
    /// The flow is noted, where the rule does that.
    pub notes: bool,
    /// The action is put off.
    pub defers: bool,
    /// The logging is done.
    pub logs: bool,
    /// The tag is set.
    pub tags: bool,
    /// The action is carried out; otherwise the packet goes on behind the rule, uncounted.
    pub acts: bool,
}

/// Something that can't be enforced, and where it stands.
#[derive(Debug)]
pub(super) struct At(pub Span, pub Refused);

/// What `tablearg` of an action means, of actions that ask for it.
fn kind_of(action: &Action) -> Option<ValueType> {
    use ValueType::{Dscp, Mark, Pipe, Skipto};
    let (argument, kind) = action.argument()?;
    let is_asked = matches!(kind, Dscp | Mark | Pipe | Skipto);
    (is_asked && argument == Argument::TableArg).then_some(kind)
}

/// The limits that a rule's table gives.
pub(super) fn limits(set: &Ruleset, rule: &Rule) -> Result<Vec<u32>, At> {
    let pattern = &rule.body[deciding_lookup(rule)?].pattern;
    let table = table_of(pattern).and_then(|name| set.table(name));
    let kinds = [ValueType::Limit];
    let views = table.map_or_else(Vec::new, |table| {
        views(table, wanted_value(pattern), &kinds)
    });
    Ok(views.iter().map(|(values, _)| values[0] as u32).collect())
}

/// What `tablearg` is: of the action, the tag, the limit.
#[derive(Clone, Copy, Default)]
struct Given {
    action: u128,
    tag: u128,
    limit: u128,
}

/// The branches of a rule for packets of a scope.
pub(super) fn branches(scope: &Scope<'_>, rule: &Rule) -> Result<Vec<Branch>, At> {
    let by_action = kind_of(&rule.action);
    let by_tag = rule.tag.is_some_and(|tag| tag.tag == Argument::TableArg);
    let by_limit = rule.is_limited_by_table();
    let kinds: Vec<ValueType> = by_action
        .into_iter()
        .chain(by_tag.then_some(ValueType::Tag))
        .chain(by_limit.then_some(ValueType::Limit))
        .collect();
    if kinds.is_empty() {
        let mut out = Vec::new();
        one_value(scope, rule, None, Given::default(), &mut out)?;
        return Ok(out);
    }
    let deciding = deciding_lookup(rule)?;
    let pattern = &rule.body[deciding].pattern;
    let table = table_of(pattern).and_then(|name| scope.set.table(name));
    let wanted = wanted_value(pattern);
    let mut out = Vec::new();
    for (values, view) in table.map_or_else(Vec::new, |table| views(table, wanted, &kinds)) {
        // In the order of `kinds`.
        let mut values = values.into_iter();
        let mut next = |there: bool| match there {
            true => values.next().unwrap_or(0),
            false => 0,
        };
        let given = Given {
            action: next(by_action.is_some()),
            tag: next(by_tag),
            limit: next(by_limit),
        };
        one_value(scope, rule, Some((deciding, &view)), given, &mut out)?;
    }
    Ok(out)
}

fn wanted_value(pattern: &Pattern) -> Option<&TableValue> {
    match pattern {
        Pattern::Src(Address::Table { value, .. })
        | Pattern::Dst(Address::Table { value, .. })
        | Pattern::Flow { value, .. }
        | Pattern::SrcMac(_, value)
        | Pattern::DstMac(_, value) => value.as_ref(),
        _ => None,
    }
}

/// The lookup whose value `tablearg` is: the last one, as long as it is always the same.
fn deciding_lookup(rule: &Rule) -> Result<usize, At> {
    let span = rule.action_place.0;
    let mut deciding = None;
    let mut in_block = false;
    for (at, one) in rule.body.iter().enumerate() {
        let part_of_block = in_block || one.or_next;
        in_block = one.or_next;
        if table_of(&one.pattern).is_none() {
            continue;
        }
        if part_of_block {
            let what = "`tablearg` of a table among alternatives";
            let help = "write one rule for each table";
            return refused(what, help).map_err(|why| At(one.place.0, why));
        }
        // A lookup that must fail finds nothing.
        if !one.negate {
            deciding = Some(at);
        }
    }
    match deciding {
        Some(at) => Ok(at),
        None => refused(
            "`tablearg` in a rule that looks nothing up",
            "look the table up in this rule, or write the number",
        )
        .map_err(|why| At(span, why)),
    }
}

/// The branches for one value of the lookup at a place in the body.
fn one_value(
    scope: &Scope<'_>,
    rule: &Rule,
    held: Option<(usize, &View)>,
    given: Given,
    out: &mut Vec<Branch>,
) -> Result<(), At> {
    let (body, dangling) = body(scope, rule, held)?;
    let whole = Branch {
        formula: body,
        value: given.action,
        tag_value: given.tag,
        limit: given.limit,
        notes: true,
        defers: rule.defer,
        logs: true,
        tags: true,
        acts: true,
    };
    if let Some(dangling) = dangling {
        let mut both = Branch {
            formula: joined(&whole.formula, &dangling, rule.place.0)?,
            ..whole.clone()
        };
        // What an open alternative passes over is the first step behind the patterns.
        let first = [
            (rule.state.is_some(), &mut both.notes),
            (rule.defer, &mut both.defers),
            (rule.log.is_some(), &mut both.logs),
            (rule.altq.is_some(), &mut true),
            (rule.tag.is_some(), &mut both.tags),
            (true, &mut both.acts),
        ];
        if let Some((_, step)) = first.into_iter().find(|(there, _)| *there) {
            *step = false;
        }
        out.extend(Some(both).filter(|both| !both.formula.is_empty()));
    }
    out.extend(Some(whole).filter(|whole| !whole.formula.is_empty()));
    Ok(())
}

fn joined(left: &Formula, right: &Formula, span: Span) -> Result<Formula, At> {
    let Some(both) = and(left, right) else {
        let what = format!("a rule of more than {ALTERNATIVES_MAX} alternatives");
        return refused(what, "split it, or use a table").map_err(|why| At(span, why));
    };
    Ok(both)
}

/// The patterns that must hold, and alternatives left open behind them. What can't be asked matters
/// only where the other patterns leave packets.
fn body(
    scope: &Scope<'_>,
    rule: &Rule,
    held: Option<(usize, &View)>,
) -> Result<(Formula, Option<Formula>), At> {
    let mut all = constant(true);
    let mut open: Vec<Formula> = Vec::new();
    let mut trouble: Option<At> = None;
    for (at, one) in rule.body.iter().enumerate() {
        let view = held
            .filter(|(deciding, _)| *deciding == at)
            .map(|(_, view)| view);
        match literal(scope, rule, one, view) {
            Ok(formula) => open.push(formula),
            Err(why) => trouble = trouble.or(Some(At(one.place.0, why))),
        }
        if one.or_next {
            continue;
        }
        if trouble.is_some() {
            open.clear();
        } else {
            all = joined(&all, &or(std::mem::take(&mut open)), rule.place.0)?;
        }
        if all.is_empty() {
            return Ok((all, None));
        }
    }
    let rest: Vec<Formula> = open;
    match trouble {
        Some(why) if !is_surely_never(scope, rule) => Err(why),
        Some(_) => Ok((Formula::new(), None)),
        None if rest.is_empty() => Ok((all, None)),
        None => Ok((all, Some(or(rest)))),
    }
}

fn literal(
    scope: &Scope<'_>,
    rule: &Rule,
    one: &Instruction,
    view: Option<&View>,
) -> Result<Formula, Refused> {
    scope.literal(&Asked {
        pattern: &one.pattern,
        negate: one.negate,
        view,
        rule: rule.number,
    })
}

/// Whether some pattern outside of alternatives can't hold for these packets, so that nothing else
/// of the rule is ever asked.
fn is_surely_never(scope: &Scope<'_>, rule: &Rule) -> bool {
    let mut in_block = false;
    rule.body.iter().any(|one| {
        let alone = !in_block && !one.or_next;
        in_block = one.or_next;
        alone && literal(scope, rule, one, None).is_ok_and(|formula| formula.is_empty())
    })
}
