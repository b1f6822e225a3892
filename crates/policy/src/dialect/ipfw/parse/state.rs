//! Options about states: flow names, `keep-state`, `limit`, deferred actions.
//!
//! In: the option's word, the reader behind it. Out: the draft's state. What a state does is the
//! evaluator's.

use super::super::ast::{Pattern, StateKind, StateOption};
use super::super::fault::Fault;
use super::super::names::{self, LIMIT_FIELDS};
use super::super::words::Word;
use super::argument::no_table;
use super::option::{DEFAULT_FLOW, lost_not};
use super::rule::Draft;
use super::{address, lists, table};
use crate::syntax::Place;

pub(super) fn flow(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    let value = draft.reader.need("a table name")?;
    if !value.text.starts_with("table(") {
        return Err(no_table(value));
    }
    let (table, wanted) = address::table_reference(draft.reader, value)?;
    let pattern = Pattern::Flow {
        table,
        value: wanted,
    };
    draft.push(pattern, word.span.to(value.span));
    Ok(())
}

/// `:name`.
pub fn flow_name(word: &Word) -> Result<String, Fault> {
    let name = word.text.strip_prefix(':');
    let fine = |name: &&str| table::is_object_name(name) && *name != "any";
    name.filter(fine).map(str::to_owned).ok_or_else(|| {
        Fault::data(
            "state-name",
            word.span,
            format!("invalid state name {}", word.text),
        )
        .help("write :NAME of letters, digits, `-`, `_` and `.`")
    })
}

pub(super) fn state(draft: &mut Draft<'_, '_>, text: &str, word: &Word) -> Result<(), Fault> {
    if draft.open {
        return Err(Fault::usage(
            "state-in-block",
            word.span,
            format!("{text} cannot be part of an or block"),
        )
        .help("write it after the block"));
    }
    if draft.state.is_some() {
        return Err(Fault::usage(
            "double-state",
            word.span,
            "only one of keep-state, record-state, limit and set-limit is allowed",
        )
        .help("keep one of them"));
    }
    let probe = matches!(text, "keep-state" | "limit");
    let kind = match text {
        "keep-state" | "record-state" => StateKind::Keep,
        _ => {
            lost_not(draft, text);
            limit(draft, text, word)?
        }
    };
    let named = draft
        .reader
        .peek()
        .filter(|next| next.text.starts_with(':'));
    let name = match named {
        Some(next) => {
            draft.reader.take();
            flow_name(next)?
        }
        None => DEFAULT_FLOW.to_owned(),
    };
    let negate = draft.negate.take();
    if let Some(not) = negate {
        draft.reader.notes.warn(
            "not-state",
            not,
            format!(
                "`not {text}` turns the result of noting the flow around: its first packet \
                     falls through"
            ),
            "ipfw reads it so; leave the `not` out",
        );
    }
    draft.state = Some(StateOption {
        kind,
        probe,
        name,
        negate: negate.is_some(),
        place: Place(word.span),
    });
    Ok(())
}

pub(super) fn limit(
    draft: &mut Draft<'_, '_>,
    text: &str,
    word: &Word,
) -> Result<StateKind, Fault> {
    let mut mask = 0u8;
    while let Some(next) = draft.reader.peek() {
        // The canonical form joins the fields with commas.
        let fields: Option<Vec<u32>> = next
            .text
            .split(',')
            .map(|name| names::number(LIMIT_FIELDS, name))
            .collect();
        let Some(fields) = fields else { break };
        mask |= fields.iter().fold(0, |all, bits| all | bits) as u8;
        draft.reader.take();
    }
    if mask == 0 {
        return Err(Fault::usage(
            "limit-mask",
            word.span,
            format!("{text}: missing limit mask"),
        )
        .help("write src-addr, src-port, dst-addr, dst-port or all, then the number"));
    }
    let count = lists::argument(draft.reader, text)?;
    Ok(StateKind::Limit { mask, count })
}

pub(super) fn defer(draft: &mut Draft<'_, '_>, word: &Word) -> Result<(), Fault> {
    if draft.defer {
        return Err(Fault::usage(
            "double-defer",
            word.span,
            "only one defer-action is allowed",
        )
        .help("keep one of them"));
    }
    draft.negate = None;
    draft.defer = true;
    Ok(())
}
