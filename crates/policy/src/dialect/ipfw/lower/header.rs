//! Fields of headers that only this language asks for, as conditions of the model.
//!
//! In: what a pattern wants of a field, for packets of the family that has it. Out: a [`Formula`].
//! Fields at fixed places of the network header are words of it; nothing is copied for these.

use super::formula::{
    Conjunction, FIRST, Formula, LATER, WHOLE, any, constant, is, is_not, of_transport, strict,
};
use crate::dialect::ipfw::ast::{Flags, Ranges};
use crate::eval::ipfw::proto;
use crate::model::{Aside, Cond, Family, RangeSet, TcpNumber, WordStep, WordTest};

/// Ranges of one test on words: far fewer than an image takes.
const RANGES_MAX: usize = 100;

/// Identification and fragment fields of IPv4 (RFC 791 section 3.1).
const FRAGMENT_WORD: u32 = 4;
/// The offset is not zero, among the flags of `frag`.
const OFFSET: u8 = 1;
/// More fragments follow.
const MORE: u8 = 0x20;

/// A word of the network header, after a step, is in one of these ranges.
fn word(start: u32, step: WordStep, ranges: &RangeSet<u32>, negate: bool) -> Formula {
    let test = |ranges: &[(u32, u32)]| {
        Cond::Aside(Aside::Words(vec![WordTest {
            start,
            steps: vec![step],
            ranges: ranges.to_vec(),
        }]))
    };
    let tests = ranges.ranges().chunks(RANGES_MAX).map(test);
    match (ranges.is_empty(), negate) {
        (true, _) => constant(negate),
        (false, false) => vec![any(tests.map(is).collect())],
        (false, true) => vec![tests.map(is_not).collect()],
    }
}

/// Identification of IPv4.
pub(super) fn identification(list: &Ranges, negate: bool) -> Formula {
    let wide = |range: &(u16, u16)| (u32::from(range.0), u32::from(range.1));
    let ranges = RangeSet::from_ranges(list.iter().map(wide));
    word(FRAGMENT_WORD, WordStep::Right(16), &ranges, negate)
}

/// Flow label of IPv6 (RFC 8200 section 3).
pub(super) fn flow_label(labels: &[u32], negate: bool) -> Formula {
    let ranges = RangeSet::from_ranges(labels.iter().map(|label| (*label, *label)));
    word(0, WordStep::And(0xf_ffff), &ranges, negate)
}

/// Flags of fragments, of both families: IPv6 knows the plain test for later ones alone.
pub(super) fn fragment(family: Family, flags: Flags, negate: bool) -> Formula {
    let Flags { set, clear } = flags;
    let plain = (set, clear) == (OFFSET, 0);
    if set & clear != 0 || family == Family::V6 && !plain {
        return constant(negate);
    }
    // What the classifier knows costs no test.
    let known = match (set, clear) {
        (OFFSET, 0) => Some(LATER),
        (0, OFFSET) => Some(WHOLE | FIRST),
        (MORE, OFFSET) => Some(FIRST),
        (0, clear) if clear == MORE | OFFSET => Some(WHOLE),
        _ => None,
    };
    if let Some(kinds) = known {
        return strict(Cond::Fragments(kinds), negate);
    }
    let mut tests: Conjunction = Vec::new();
    if (set | clear) & OFFSET != 0 {
        let kinds = if set & OFFSET != 0 {
            LATER
        } else {
            WHOLE | FIRST
        };
        tests.push(is(Cond::Fragments(kinds)));
    }
    // The flags are the topmost bits of the word's lower half.
    let bits = |flags: u8| u32::from(flags & !OFFSET) << 8;
    if bits(set | clear) != 0 {
        let step = WordStep::And(bits(set | clear));
        let wanted = RangeSet::one(bits(set));
        tests.extend(word(FRAGMENT_WORD, step, &wanted, false).concat());
    }
    match negate {
        false => vec![tests],
        true => tests
            .into_iter()
            .map(|test| vec![is_not(test.cond)])
            .collect(),
    }
}

/// A number of TCP segments.
pub(super) fn tcp(number: TcpNumber, ranges: RangeSet<u32>, negate: bool) -> Formula {
    if ranges.is_empty() {
        return constant(negate);
    }
    let cond = Cond::Aside(Aside::Tcp(number, ranges));
    let no = vec![vec![is_not(cond.clone())]];
    // Later fragments have no such header, which is said so that comparisons know it too.
    let yes = vec![is_not(Cond::Fragments(LATER)), is(cond)];
    of_transport(&[proto::TCP], negate, yes, no)
}

/// IPv4 options: strict route 1, loose route 2, record route 4, timestamp 8.
pub(super) fn ip_options(flags: Flags, negate: bool) -> Formula {
    if flags.set & flags.clear != 0 {
        return constant(negate);
    }
    let cond = Aside::IpOptions {
        value: flags.set,
        mask: flags.set | flags.clear,
    };
    strict(Cond::Aside(cond), negate)
}
