//! The exact comparison of policies against the evaluator.
//!
//! Random policies and packets on the edges of their rules: the diagram of a policy says of each
//! packet what the evaluator says; two policies differ for a packet exactly where a class is
//! reported for it; every class's example is confirmed; and looking only at what changed gives the
//! same answer as looking at everything. `WEIR_COMPARE_POLICIES` and `WEIR_COMPARE_PACKETS` say how
//! many (default 150 pairs, 7,000 packets each: over 10^6).

// The generator of the other equality tests; what it is in needs more than this crate.
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../../testkit/src/random/mod.rs"]
mod random;

use fastrand::Rng;
use random::{PacketSource, Shape, policy};
use weir_policy::compare::diagram::NO;
use weir_policy::compare::field::Field;
use weir_policy::compare::{
    Class, Compared, Difference, Journey, Judged, Names, Notes, Options, Refusal, Space, States,
    Unknown, Valuation, Values, Walk, Who, compare, judge,
};
use weir_policy::eval::Path;
use weir_policy::model::{Cond, CtState, Family, Hook, Policy, Reading, Rule, RuleId, Verdict};

const NODES: usize = 16_000_000;
const STATES: [CtState; 5] = [
    CtState::Invalid,
    CtState::New,
    CtState::Established,
    CtState::Related,
    CtState::Untracked,
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

fn last_hook(path: Path) -> Hook {
    match path {
        Path::Input => Hook::Input,
        Path::Forward => Hook::Forward,
        Path::Output => Hook::Output,
    }
}

/// Packets of a way, as valuations that the domain has.
struct Packets {
    source: PacketSource,
    rng: Rng,
    path: Path,
}

impl Packets {
    fn new(policy: &Policy, seed: u64, path: Path) -> Self {
        Packets {
            source: PacketSource::new(policy, seed),
            rng: Rng::with_seed(seed ^ 0x77),
            path,
        }
    }

    fn next(&mut self, space: &Space) -> Option<Valuation> {
        let packet = self.source.packet(space.family, last_hook(self.path));
        let state = STATES[self.rng.usize(..5)];
        let flow = match state {
            CtState::New | CtState::Established => true,
            CtState::Invalid | CtState::Untracked => false,
            CtState::Related => self.rng.bool(),
        };
        let connmark = flow.then(|| [0, 1, 2, 0x10, 0xffff_ffff][self.rng.usize(..5)]);
        let mut v = Valuation::of(space, &packet, state, connmark)?;
        for number in 0..space.unknowns.len() {
            let holds = match first_visit(space, number) {
                Some(first) => v.holds.contains(&(first as u32)),
                None => self.rng.bool(),
            };
            if holds {
                v.holds.insert(number as u32);
            }
        }
        Some(v)
    }
}

/// What is asked as this condition is, on a visit of its chain before this one.
fn first_visit(space: &Space, number: usize) -> Option<usize> {
    let first = space.unknowns[number].text.split(", visit").next();
    let same = |one: &Unknown| Some(one.text.as_str()) == first;
    space.unknowns[..number].iter().position(same)
}

/// Whether the evaluator can be asked: it gets one answer for all visits of a chain.
fn has_one_answer(space: &Space, v: &Valuation) -> bool {
    let mut all = 0..space.unknowns.len();
    all.all(|number| {
        let holds = |number: usize| v.holds.contains(&(number as u32));
        first_visit(space, number).is_none_or(|first| holds(first) == holds(number))
    })
}

fn holds(class: &Class, v: &Valuation) -> bool {
    let fields = class.fields.iter().all(|(field, values)| {
        let value = v.get(*field);
        match values {
            Values::Ranges(ranges) => ranges.iter().any(|r| (r.0..=r.1).contains(&value)),
            Values::Masked { value: is, mask } => value & mask == *is,
        }
    });
    fields
        && class
            .unknowns
            .iter()
            .all(|(unknown, holds)| v.holds.contains(unknown) == *holds)
}

/// The diagram of one policy against the evaluator.
fn one_policy(seed: u64, shape: Shape, packets: u64) -> u64 {
    let policy = policy(seed, shape);
    let names = Names::of(&policy, false);
    let mut tried = 0;
    for family in [Family::V4, Family::V6] {
        for path in [Path::Input, Path::Forward, Path::Output] {
            let mut space = Space::new(&[&policy], family, NODES);
            let mut states = States::default();
            let domain = space.domain(path).unwrap();
            let notes = Notes {
                deciders: true,
                reached: false,
            };
            let mut walk = Walk::new(&mut space, &mut states, &policy, &names, 0, notes);
            let end = walk.journey(path, domain).unwrap();
            let mut plain = Walk::new(
                &mut space,
                &mut states,
                &policy,
                &names,
                0,
                Notes::default(),
            );
            let undecided = plain.journey(path, domain).unwrap();
            let mut source = Packets::new(&policy, seed, path);
            for _ in 0..packets {
                let Some(v) = source.next(&space) else {
                    continue;
                };
                if space.diagram.number_at(domain, &v) == 0 {
                    continue;
                }
                tried += 1;
                let state = states.get(space.diagram.number_at(end, &v)).unwrap();
                let judged = judge(&policy, &names, &space, path, &v);
                let said = state.verdict.unwrap_or(Verdict::Accept);
                let by = match state.by {
                    Who::Rule(_, id) => Some(RuleId(id)),
                    _ => None,
                };
                let context = || {
                    format!(
                        "seed {seed} {path:?} {:?}",
                        v.packet(&space, path, Reading::Linux)
                    )
                };
                assert_eq!((said, by), (judged.verdict, judged.by), "{}", context());
                if said == Verdict::Accept {
                    let came = |field: Field| v.get(field) as u32;
                    let mark = state.mark.of(came(Field::Mark), came(Field::Connmark));
                    let tos = (v.get(Field::Tos) as u8 & state.tos.0) ^ state.tos.1;
                    assert_eq!((mark, tos), (judged.mark, judged.tos), "{}", context());
                }
                let other = states.get(space.diagram.number_at(undecided, &v)).unwrap();
                assert_eq!(other.verdict, state.verdict, "{}", context());
                let back = v.packet(&space, path, Reading::Linux);
                let mut again = Valuation::of(&space, &back, v.state(), v.connmark()).unwrap();
                again.holds.clone_from(&v.holds);
                assert_eq!(again, v, "{}", context());
            }
        }
    }
    tried
}

#[test]
fn the_diagram_of_a_policy_says_what_the_evaluator_says() {
    let policies = setting("WEIR_COMPARE_POLICIES", 45);
    let packets = setting("WEIR_COMPARE_PACKETS", 400);
    let mut tried = 0;
    for seed in 0..policies {
        let shape = match seed % 3 {
            0 => Shape::lists(),
            1 => Shape::default(),
            _ => Shape {
                histories: true,
                ..Shape::default()
            },
        };
        tried += one_policy(seed, shape, packets);
    }
    println!("{policies} policies, {tried} packets");
    assert!(tried > policies * packets);
}

/// The policy with one rule changed, taken out, doubled, or moved.
fn mutated(policy: &Policy, rng: &mut Rng) -> Policy {
    let mut out = policy.clone();
    let chains: Vec<usize> = (0..out.chains.len())
        .filter(|at| !out.chains[*at].rules.is_empty())
        .collect();
    let Some(&at) = rng.choice(&chains) else {
        return out;
    };
    let chain = &mut out.chains[at];
    let skips = chain
        .rules
        .iter()
        .any(|rule| matches!(rule.flow, weir_policy::model::Flow::Skip(_)));
    let rule = rng.usize(..chain.rules.len());
    match rng.u8(..4) {
        0 if !skips => {
            chain.rules.remove(rule);
        }
        1 if !skips => {
            let other = rng.usize(..chain.rules.len());
            chain.rules.swap(rule, other);
        }
        2 => {
            if chain.rules[rule].tests.len() > 1 {
                let test = rng.usize(..chain.rules[rule].tests.len());
                chain.rules[rule].tests.remove(test);
            }
        }
        _ => change_value(&mut chain.rules[rule], rng),
    }
    out
}

fn change_value(rule: &mut Rule, rng: &mut Rng) {
    use weir_policy::model::{Flow, RangeSet};
    for test in &mut rule.tests {
        match &mut test.cond {
            Cond::DstPort(set) | Cond::SrcPort(set) => {
                let first = set.ranges().first().map_or(1, |range| range.0);
                *set = set.union(&RangeSet::one(first.wrapping_add(1)));
                return;
            }
            Cond::Src(_) | Cond::Dst(_) | Cond::InIface(_) | Cond::Proto(_) => {
                test.negate = !test.negate;
                return;
            }
            _ => {}
        }
    }
    if let Flow::Verdict(verdict) = rule.flow {
        rule.flow = Flow::Verdict(match verdict {
            Verdict::Accept => Verdict::Drop,
            _ if rng.bool() => Verdict::Accept,
            other => other,
        });
    }
}

/// What is compared of what the evaluator says.
fn seen(judged: &Judged, compared: Compared) -> (Verdict, Option<(u32, u8)>) {
    let changes = judged.verdict == Verdict::Accept && compared.changes;
    (judged.verdict, changes.then_some((judged.mark, judged.tos)))
}

#[derive(Debug, Default)]
struct Tally {
    pairs: u64,
    too_large: u64,
    same: u64,
    classes: u64,
    confirmed: u64,
    packets: u64,
    differing: u64,
    from_classes: u64,
}

/// Two policies, what is compared of them, and what was seen.
struct Tried<'p> {
    seed: u64,
    policies: [&'p Policy; 2],
    names: [Names; 2],
    compared: Compared,
    rng: Rng,
}

impl Tried<'_> {
    /// Whether the evaluator treats a packet differently.
    fn differ(&self, journey: &Journey, v: &Valuation) -> bool {
        let [a, b] = [0, 1].map(|side: usize| {
            let (policy, names) = (self.policies[side], &self.names[side]);
            let judged = judge(policy, names, &journey.space, journey.path, v);
            seen(&judged, self.compared)
        });
        a != b
    }

    /// Every class's example is what the evaluator says.
    fn examples(&self, journey: &Journey, all: &mut Tally) {
        for difference in &journey.differences {
            let context = || format!("seed {}: {difference:#?}", self.seed);
            if has_one_answer(&journey.space, &difference.example) {
                assert!(difference.confirmed, "{}", context());
                let judged = |side: usize| seen(&difference.judged[side], self.compared);
                let [a, b] = [0, 1].map(judged);
                assert!(a != b || only_lasting(difference), "{}", context());
                all.confirmed += 1;
            }
            assert_eq!(journey.differs(&difference.example), Some(true));
            all.classes += 1;
        }
    }

    /// Packets drawn from a class differ, and are in no other class.
    fn members(&mut self, journey: &mut Journey, all: &mut Tally) {
        for difference in journey.differences.iter().take(40) {
            let class = &difference.class;
            let node = journey.space.members(class).unwrap();
            let inside = journey.space.diagram.and(node, journey.domain).unwrap();
            for _ in 0..4 {
                let v = drawn(&journey.space, inside, &mut self.rng);
                let context = || format!("seed {}: {class:#?}", self.seed);
                assert_eq!(journey.differs(&v), Some(true), "{}", context());
                let holding = journey.differences.iter().filter(|d| holds(&d.class, &v));
                assert_eq!(holding.count(), 1, "{}", context());
                let lasting = only_lasting(difference) || !has_one_answer(&journey.space, &v);
                assert!(self.differ(journey, &v) || lasting, "{}", context());
                all.from_classes += 1;
            }
        }
    }

    /// Packets on the edges of the rules differ exactly where a class says so.
    fn packets(&self, journey: &Journey, whole: &Journey, packets: u64, all: &mut Tally) {
        let mut source = Packets::new(self.policies[1], self.seed, journey.path);
        for _ in 0..packets {
            let Some(v) = source.next(&journey.space) else {
                continue;
            };
            let Some(reported) = journey.differs(&v) else {
                continue;
            };
            all.packets += 1;
            let packet = v.packet(&journey.space, journey.path, Reading::Linux);
            let context = || format!("seed {}: {packet:?}", self.seed);
            assert_eq!(whole.differs(&v), Some(reported), "{}", context());
            let class = journey.differences.iter().find(|d| holds(&d.class, &v));
            assert_eq!(class.is_some(), reported, "{}", context());
            let differs = self.differ(journey, &v);
            if !class.is_some_and(only_lasting) {
                assert_eq!(differs, reported, "{}", context());
            }
            all.differing += u64::from(differs);
        }
    }
}

fn pair(seed: u64, shape: Shape, packets: u64, all: &mut Tally) {
    let mut rng = Rng::with_seed(seed);
    let old = policy(seed, shape);
    let new = (0..seed % 4 + 1).fold(old.clone(), |policy, _| mutated(&policy, &mut rng));
    // What differs only in memory shows in no single packet.
    let options = Options {
        compared: Compared {
            memory: false,
            ..Compared::default()
        },
        listed: 100_000,
        ..Options::default()
    };
    let whole = Options {
        only_changed: false,
        ..options.clone()
    };
    let (comparison, again) = match (compare(&old, &new, &options), compare(&old, &new, &whole)) {
        // A diagram over the bound is an answer too; few policies may get it.
        (Err(Refusal::TooLarge(_)), _) | (_, Err(Refusal::TooLarge(_))) => {
            all.too_large += 1;
            return;
        }
        (comparison, again) => (comparison.unwrap(), again.unwrap()),
    };
    assert_eq!(comparison.same(), again.same(), "seed {seed}");
    all.pairs += 1;
    all.same += u64::from(comparison.same());
    let mut tried = Tried {
        seed,
        policies: [&old, &new],
        names: [Names::of(&old, false), Names::of(&new, false)],
        compared: options.compared,
        rng,
    };
    for (mut journey, other) in comparison.journeys.into_iter().zip(again.journeys) {
        assert!(!journey.cut, "seed {seed}");
        tried.examples(&journey, all);
        tried.members(&mut journey, all);
        tried.packets(&journey, &other, packets, all);
    }
}

/// Whether what differs is not in the verdict, the mark or the TOS byte of the packet.
fn only_lasting(difference: &Difference) -> bool {
    difference.old.class != difference.new.class
        || difference.old.effects != difference.new.effects
        || difference.old.connmark != difference.new.connmark
}

/// Any packet of a set.
fn drawn(space: &Space, set: u32, rng: &mut Rng) -> Valuation {
    use weir_policy::compare::field::{FIELDS, OPAQUE};
    let mut v = Valuation::default();
    let mut node = set;
    for (field, width) in FIELDS {
        let mut value = 0;
        for bit in (0..width).rev() {
            let (low, high) = space.diagram.branches(node, field.bit(bit));
            // What a set leaves open stays plain where the packet would have more bits than the
            // family, or options that no header can hold.
            let open = match field {
                Field::Src | Field::Dst => bit < space.address_width(),
                Field::In | Field::Out => false,
                Field::OptionsLow | Field::OptionsHigh => false,
                _ => true,
            };
            let one = match (low == NO, high == NO) {
                (true, _) => true,
                (_, true) => false,
                _ => (low != high || open) && rng.bool(),
            };
            node = if one { high } else { low };
            value |= u128::from(one) << bit;
        }
        v.set(field, value);
    }
    for unknown in 0..space.unknowns.len() as u32 {
        let (low, high) = space.diagram.branches(node, OPAQUE + unknown);
        let one = low == NO || high != NO && rng.bool();
        node = if one { high } else { low };
        if one {
            v.holds.insert(unknown);
        }
    }
    v
}

#[test]
fn differences_are_exact_and_complete() {
    let pairs = setting("WEIR_COMPARE_POLICIES", 150);
    let packets = setting("WEIR_COMPARE_PACKETS", 1_400);
    let mut all = Tally::default();
    for seed in 0..pairs {
        let shape = match seed % 3 {
            0 => Shape::lists(),
            1 => Shape {
                rules_max: 10,
                chains_max: 2,
                ..Shape::default()
            },
            _ => Shape {
                rules_max: 10,
                chains_max: 2,
                histories: true,
                ..Shape::default()
            },
        };
        pair(seed, shape, packets, &mut all);
    }
    println!("{all:?}");
    // The evaluator can be asked about all but a few.
    assert!(all.confirmed * 20 >= all.classes * 19, "{all:?}");
    assert!(all.classes > 0 && all.same > 0 && all.differing > 0);
    assert!(all.too_large * 50 <= pairs, "{all:?}");
}
