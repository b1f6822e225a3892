//! How many entries one packet can meet: an upper bound, checked against what a walk may take.
//!
//! Entries that always end the walk cost one step. All others could be met one after the other, if
//! one packet is in all their boxes. The most that overlap in one field is a smaller bound, worked
//! out where it takes little time or where too many would be met otherwise.

use super::Error;
use super::flatten::Flat;
use super::service::Services;
use super::span::{Field, Span};
use super::term::{Term, address_last};
use crate::image::layout::STEPS_MAX;
use weir_policy::model::Family;

/// So many terms are compared in a millisecond or two.
const COMPARED_MAX: usize = 8192;

/// An upper bound of the entries that one packet can meet.
pub fn check(flat: &Flat, family: Family, services: &Services) -> Result<u32, Error> {
    let going_on: Vec<usize> = (0..flat.entries.len())
        .filter(|at| flat.entries[*at].verdict == 0 || !flat.entries[*at].tests.is_empty())
        .collect();
    let limit = STEPS_MAX as usize - 1;
    let mut given = going_on.len();
    let terms: Vec<&Term> = going_on.iter().flat_map(|at| flat.terms_of(*at)).collect();
    if given > limit || terms.len() <= COMPARED_MAX {
        let top = address_last(family);
        for side in 0..2 {
            given = given.min(overlap(terms.iter().map(|t| &t.address[side]), top));
            given = given.min(overlap(terms.iter().map(|t| &t.port[side]), u16::MAX));
        }
        let proto = |value: u8| {
            terms
                .iter()
                .filter(move |t| services.get(t.service).proto.has(value))
        };
        given = given.min(
            (0..=255)
                .map(|value| proto(value).count())
                .max()
                .unwrap_or(0),
        );
    }
    if given > limit {
        let rule = |at: &usize| flat.entries[*at].rules.first().copied();
        let rules = going_on.iter().filter_map(rule).take(8).collect();
        return Err(Error::Steps {
            given,
            limit,
            rules,
        });
    }
    Ok(given as u32 + 1)
}

/// The most spans that have a value in common.
fn overlap<'t, T: Field + 't>(spans: impl Iterator<Item = &'t Span<T>>, top: T) -> usize {
    let mut events: Vec<(T, bool)> = Vec::new();
    for span in spans {
        // An end sorts behind a start at the same value: both ends are inclusive.
        span.each(top, |first, last| {
            events.extend([(first, false), (last, true)])
        });
    }
    events.sort_unstable();
    let (mut now, mut most) = (0usize, 0);
    for (_, ends) in events {
        if ends {
            now -= 1;
        } else {
            now += 1;
            most = most.max(now);
        }
    }
    most
}
