//! An option of a module: negation, value, and its place in the instance.

use super::super::ast::{Instance, Opt, Target};
use super::super::grammar::OptionSpec;
use super::super::value::Value;
use super::Parser;
use super::rule::{RuleState, TARGET, skip_values};
use super::values::{Context, read};
use crate::syntax::{Cursor, Diagnostic, Place, Span};

impl Parser {
    /// Reads the value of an option and puts it into its instance.
    pub(super) fn module_option<'w>(
        &mut self,
        state: &mut RuleState,
        index: usize,
        spec: &'static OptionSpec,
        inline: Option<&'w str>,
        at: Span,
        cursor: &mut Cursor<'w, '_>,
    ) {
        if inline.is_none() && !matches!(spec.kind, super::super::value::Kind::Flag) {
            self.old_negation(state, cursor);
        }
        let not_at = state.negation;
        let negated = state.take_negation();
        let context = Context {
            family: state.rule.only.unwrap_or(self.family),
            protocol: state.protocol(),
            option: spec.name,
            option_at: at,
        };
        let value = match read(spec.kind, inline, cursor, &context) {
            Ok(value) => value,
            Err(found) => {
                self.fail(state, found);
                return skip_values(cursor);
            }
        };
        if negated && !spec.negatable {
            let message = format!("`--{}` cannot be negated", spec.name);
            let found = Diagnostic::error("stray-negation", not_at.unwrap_or(at), message);
            return self.fail(state, found.help("take the `!` out"));
        }
        let end = cursor_end(cursor, at);
        self.store(state, index, spec, negated, value, at.to(end));
    }

    fn store(
        &mut self,
        state: &mut RuleState,
        index: usize,
        spec: &'static OptionSpec,
        negated: bool,
        value: Value,
        at: Span,
    ) {
        let Some(instance) = instance(state, index) else {
            return;
        };
        let stored = spec
            .stands_for
            .map_or(spec, |name| instance.spec.option(name));
        if !instance.spec.as_written
            && let Some(other) = instance
                .options
                .iter()
                .find(|option| option.spec.name == stored.name)
        {
            let message = format!("`--{}` is given twice", stored.name);
            let found =
                Diagnostic::error("given-twice", at, message).related(other.at.0, "here first");
            let found = found.help("name the module again to have two tests, or take one out");
            return self.fail(state, found);
        }
        if instance.options.is_empty() {
            // Most modules have one option in a rule, and there may be a million rules.
            instance.options.reserve_exact(1);
        }
        instance.options.push(Opt {
            spec: stored,
            negated,
            value,
            at: Place(at),
        });
    }
}

/// The instance with this index.
pub(super) fn instance(state: &mut RuleState, index: usize) -> Option<&mut Instance> {
    match &mut state.rule.target {
        Some(Target::Module(instance)) if index == TARGET => Some(instance),
        _ => state.rule.matches.get_mut(index),
    }
}

/// Where the words of the option that was just read end.
fn cursor_end(cursor: &Cursor<'_, '_>, at: Span) -> Span {
    cursor.last_taken().map_or(at, |word| cursor.span(word))
}
