//! Whether flags columns can be taken as a sixth field.
//!
//! In: filters that were read. Out: messages about those whose flags weir could not look at. The
//! column is 16 bits wide, TCP's flag byte is the high one; the low byte has no meaning that
//! anybody wrote down.

use super::{Messages, lines};
use crate::bench::filter::{FilterSet, Masked};
use weir_policy::model::SourceId;
use weir_policy::syntax::{Diagnostic, Span};

/// Checks every filter with a flag mask.
pub fn check(set: &FilterSet, text: &str, source: SourceId) -> Result<(), Messages> {
    let mut messages = Messages::default();
    for (filter, (start, line)) in set.filters.iter().zip(lines(text)) {
        let problem = if filter.flags.mask == 0 {
            continue;
        } else if filter.flags.mask & 0xff != 0 {
            "a flag mask with bits in its low byte, which are not TCP's flags"
        } else if filter.proto != Masked::one(6) {
            "flags in a filter that is not for TCP alone"
        } else {
            continue;
        };
        let span = Span::new(source, start, start + line.trim_end().len());
        messages.add(Diagnostic::unsupported(span, problem).help("measure without --flags"));
    }
    match messages.count {
        0 => Ok(()),
        _ => Err(messages),
    }
}
