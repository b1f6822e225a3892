//! Conditions in disjunctive form: alternatives, each a list of tests that must all hold.
//!
//! In: tests of the model. Out: products and unions of them, kept small. A rule of ipfw negates
//! strictly (what a packet lacks is "not" everything), a test of the model does not hold then; so
//! the negation of a condition is spelled out as alternatives, with the protocol asked before
//! anything of the transport header.

use crate::model::{Cond, RangeSet, Test};

/// Tests that must all hold.
pub(super) type Conjunction = Vec<Test>;
/// One of these holds. None: never.
pub(super) type Formula = Vec<Conjunction>;

/// Bits of [`Cond::Fragments`].
pub(super) const WHOLE: u8 = 1;
pub(super) const FIRST: u8 = 2;
pub(super) const LATER: u8 = 4;
const EVERY: u8 = WHOLE | FIRST | LATER;

/// Alternatives that one rule may come to.
pub(super) const ALTERNATIVES_MAX: usize = 1024;

pub(super) fn is(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

pub(super) fn is_not(cond: Cond) -> Test {
    Test { negate: true, cond }
}

/// Holds for every packet, or for none.
pub(super) fn constant(value: bool) -> Formula {
    match value {
        true => vec![vec![]],
        false => vec![],
    }
}

/// One test whose field every packet has, so that its negation is strict.
pub(super) fn strict(cond: Cond, negate: bool) -> Formula {
    vec![vec![Test { negate, cond }]]
}

/// A condition on the transport header of some protocols: `yes` are the tests that hold where it
/// does, `no` the alternatives where it does not, both of packets that have the header.
pub(super) fn of_transport(
    protocols: &[u8],
    negate: bool,
    yes: Conjunction,
    no: Formula,
) -> Formula {
    let set = RangeSet::from_ranges(protocols.iter().map(|number| (*number, *number)));
    let guard = || is(Cond::Proto(set.clone()));
    let guarded = |tests: Conjunction| [vec![guard()], tests].concat();
    if !negate {
        return vec![guarded(yes)];
    }
    let mut out = vec![
        vec![is_not(Cond::Proto(set.clone()))],
        guarded(vec![is(Cond::Fragments(LATER))]),
    ];
    out.extend(no.into_iter().map(guarded));
    out
}

/// One of several tests as one test.
pub(super) fn any(mut tests: Vec<Test>) -> Conjunction {
    match tests.len() {
        1 => tests,
        _ => vec![is(Cond::Any(std::mem::take(&mut tests)))],
    }
}

/// Both hold. `None`: more alternatives than a rule may have.
pub(super) fn and(left: &Formula, right: &Formula) -> Option<Formula> {
    let mut out = Vec::with_capacity(left.len() * right.len());
    for a in left {
        for b in right {
            let both = simplified(a.iter().chain(b).cloned());
            out.extend(both);
            if out.len() > ALTERNATIVES_MAX {
                return None;
            }
        }
    }
    Some(out)
}

/// One of these holds; as one test where the model has that.
pub(super) fn or(parts: Vec<Formula>) -> Formula {
    let mut all: Formula = parts.into_iter().flatten().collect();
    if all.iter().any(Vec::is_empty) {
        return constant(true);
    }
    let plain = |tests: &Conjunction| {
        let [test] = tests.as_slice() else {
            return false;
        };
        !test.cond.needs_transport() && !test.cond.remembers() && !matches!(test.cond, Cond::Any(_))
    };
    match all.len() > 1 && all.iter().all(plain) {
        true => {
            let tests = all.drain(..).flatten().collect();
            vec![any(tests)]
        }
        false => all,
    }
}

/// The tests with one test each of protocol and fragment, and no test twice; `None` when they
/// contradict each other.
pub(super) fn simplified(tests: impl IntoIterator<Item = Test>) -> Option<Conjunction> {
    let mut protocols = RangeSet::range(0, u8::MAX);
    let mut fragments = EVERY;
    let mut rest: Conjunction = Vec::new();
    for test in tests {
        match &test.cond {
            Cond::Proto(set) if test.negate => {
                protocols = protocols.intersect(&set.complement(u8::MAX));
            }
            Cond::Proto(set) => protocols = protocols.intersect(set),
            Cond::Fragments(bits) => fragments &= if test.negate { !bits } else { *bits },
            _ if rest.contains(&test) => {}
            _ => rest.push(test),
        }
    }
    if protocols.is_empty() || fragments == 0 {
        return None;
    }
    let mut out = Vec::with_capacity(rest.len() + 2);
    if protocols != RangeSet::range(0, u8::MAX) {
        out.push(is(Cond::Proto(protocols)));
    }
    if fragments != EVERY {
        out.push(is(Cond::Fragments(fragments)));
    }
    out.extend(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proto(number: u8) -> Test {
        is(Cond::Proto(RangeSet::one(number)))
    }

    #[test]
    fn contradictions_go_and_guards_melt_into_what_is_asked() {
        let port = is(Cond::DstPort(RangeSet::one(80)));
        let not_port = is_not(Cond::DstPort(RangeSet::one(80)));
        let negated = of_transport(&[6, 17], true, vec![port], vec![vec![not_port.clone()]]);
        assert_eq!(negated.len(), 3);
        let of_tcp = and(&vec![vec![proto(6)]], &negated).expect("few");
        let later = is(Cond::Fragments(LATER));
        assert_eq!(
            of_tcp,
            vec![vec![proto(6), later], vec![proto(6), not_port]]
        );
        let of_gre = and(&vec![vec![proto(47)]], &negated).expect("few");
        assert_eq!(of_gre, vec![vec![proto(47)]]);
    }

    #[test]
    fn alternatives_join_where_one_test_says_them() {
        let ttl = |value| vec![vec![is(Cond::Ttl(crate::model::Cmp::Eq(value)))]];
        let joined = or(vec![ttl(1), ttl(2)]);
        assert!(matches!(joined[0][0].cond, Cond::Any(ref all) if all.len() == 2));
        assert_eq!(or(vec![ttl(1), constant(true)]), constant(true));
        assert_eq!(or(vec![constant(false)]), constant(false));
    }
}
