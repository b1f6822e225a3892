//! Changes of single rules in an image that stays: after each, the image is valid and says what
//! the evaluator says of the changed policy, by the ordered walk and by the quick way to the first
//! entry.

use fastrand::Rng;
use weir_engine::compile::Options;
use weir_engine::image::Image;
use weir_engine::image::layout::root_number;
use weir_engine::lookup::{Key, Lookup};
use weir_engine::update::{Change, Failure, Here, Kept, Live};
use weir_policy::model::{
    AddrMatch, ChainId, Cond, Family, Flow, IfPattern, NamedSet, Policy, RangeSet, Rule, RuleId,
    SetDimension, SetEntry, SetField, SetId, SetPart, Table, Test, Verdict,
};
use weir_testkit::equality::Both;
use weir_testkit::random::{HOOKS, PacketSource, Shape, boxes, policy};

/// Judges packets by the image as it is now and by the evaluator.
fn compare(live: &Live, model: &Policy, seed: u64, packets: usize) {
    let image = live.snapshot();
    let mut both = Both::new(model, &image, 1000).unwrap();
    let mut source = PacketSource::new(model, seed);
    for number in 0..packets {
        let family = [Family::V4, Family::V6][number % 2];
        let packet = source.conversation(family, HOOKS[number % 5]);
        let now_ms = 1000 + number as u64 * 37;
        let at = || format!("seed {seed}, packet {number}: {packet:?}");
        let meant = both.judge(&packet, now_ms, &at).unwrap();
        let runner = &both.runner;
        let number = root_number(family, packet.hook, Table::Filter).expect("filter has roots");
        let root = runner.image().header().roots[number];
        if root != 0 {
            let key = Key::of(&packet, meant.state, |name| runner.interface_class(name));
            let first = Lookup::new(runner.image(), root, key).next(0);
            let image = Image::from_bytes(&image).expect("checked above");
            assert_eq!(image.searcher(root).first(&key), first, "first; {}", at());
        }
    }
}

/// A rule like one of the policy, with another end.
fn rule_like(model: &Policy, family: Family, rng: &mut Rng) -> Option<Rule> {
    let chains = model.chains.iter().filter(|chain| chain.family == family);
    let rules: Vec<&Rule> = chains.flat_map(|chain| &chain.rules).collect();
    let mut rule = (*rng.choice(&rules)?).clone();
    let other = *rng.choice(&rules)?;
    if rng.bool() {
        // Tests of two rules: boxes that are in none.
        rule.tests.extend(other.tests.first().cloned());
    }
    if rng.u32(..8) > 0 {
        rule.ops.clear();
        rule.flow = match rng.u32(..4) {
            0 => Flow::Next,
            1 => Flow::Verdict(Verdict::Accept),
            _ => Flow::Verdict(Verdict::Drop),
        };
    }
    Some(rule)
}

/// How many changes were made in place, and how many could not be.
#[derive(Debug, Default)]
struct Done {
    in_place: usize,
    rebuilt: usize,
    /// Chunks of bit vectors that were built for changes in place.
    chunks: usize,
}

/// Makes a change in the model and in place; where that can't be, the model is built anew.
fn change(
    live: &mut Live,
    image: &mut Vec<u8>,
    model: &mut Policy,
    chain: ChainId,
    rng: &mut Rng,
    done: &mut Done,
) {
    let family = model.chain(chain).family;
    let length = model.chain(chain).rules.len();
    let kind = rng.u32(..5);
    let failed = if length > 0 && kind < 2 {
        let at = rng.usize(..length);
        let made = live.delete(image, chain, at);
        model.chains[chain.0 as usize].rules.remove(at);
        made.err()
    } else {
        let Some(mut rule) = rule_like(model, family, rng) else {
            return;
        };
        let replaces = kind == 4 && length > 0;
        let at = rng.usize(..length + usize::from(!replaces));
        let at = if rng.u32(..4) == 0 && !replaces {
            length
        } else {
            at
        };
        let made = match replaces {
            true => live.replace(image, chain, at, &rule),
            false => live.insert(image, chain, at, &rule),
        };
        rule.id = made.unwrap_or_else(|_| {
            model.rule_count += 1;
            RuleId(model.rule_count - 1)
        });
        let rules = &mut model.chains[chain.0 as usize].rules;
        match replaces {
            true => rules[at] = rule,
            false => rules.insert(at, rule),
        }
        made.err()
    };
    match failed {
        None => {
            done.in_place += 1;
            model.rule_count = live.counters();
        }
        Some(_) => {
            done.rebuilt += 1;
            done.chunks += live.chunks_built();
            *live = Live::new(model, &Options::default()).expect("the model can be built");
            *image = live.image().to_vec();
            model.rule_count = live.counters();
        }
    }
    assert_eq!(live.image(), &**image, "what is in use is what is known");
}

fn changing(seed: u64, mut model: Policy, changes: usize, packets: usize) -> Done {
    let mut rng = Rng::with_seed(seed);
    let mut done = Done::default();
    let Ok(mut live) = Live::new(&model, &Options::default()) else {
        return done;
    };
    let mut image = live.image().to_vec();
    model.rule_count = live.counters();
    compare(&live, &model, seed, packets);
    let chains: Vec<ChainId> = (0..model.chains.len() as u32)
        .map(ChainId)
        .filter(|chain| live.order(*chain).is_some())
        .collect();
    for step in 0..changes as u64 {
        let Some(chain) = rng.choice(&chains) else {
            break;
        };
        change(
            &mut live, &mut image, &mut model, *chain, &mut rng, &mut done,
        );
        compare(&live, &model, seed << 16 | step, packets);
    }
    done.chunks += live.chunks_built();
    done
}

#[test]
fn after_each_change_the_image_equals_the_evaluator() {
    let mut all = Done::default();
    for seed in 0..24 {
        let shape = Shape {
            plain: seed % 2 == 0,
            changes: seed % 3 == 0,
            ..Shape::default()
        };
        let done = changing(seed, policy(seed, shape), 40, 40);
        all.in_place += done.in_place;
        all.rebuilt += done.rebuilt;
    }
    println!("{all:?}");
    // Most random rules remember, lead elsewhere, or are about established flows.
    assert!(all.in_place > 200, "{all:?}");
}

#[test]
fn large_sets_change_in_place() {
    let mut all = Done::default();
    for (seed, model) in [
        (1, boxes::policy(1, Family::V4, 2500)),
        (2, boxes::policy(2, Family::V4, 2500)),
        (3, boxes::policy(3, Family::V6, 2500)),
        (4, boxes::sources(4, 4000)),
    ] {
        let done = changing(seed, model, 150, 60);
        println!("{seed} {done:?}");
        all.in_place += done.in_place;
        all.rebuilt += done.rebuilt;
    }
    assert!(all.in_place > 7 * all.rebuilt, "{all:?}");
}

/// Sets that bit vectors hold alone, so that each change is one of rows.
#[test]
fn wide_rules_come_without_building_chunks() {
    let mut all = Done::default();
    for (seed, family, rules) in [
        (5, Family::V4, 900),
        (6, Family::V4, 60),
        (7, Family::V4, 250),
        (8, Family::V6, 500),
        // Ports have rows of their own there.
        (9, Family::V4, 1080),
        (10, Family::V6, 1080),
    ] {
        let done = changing(seed, boxes::policy(seed, family, rules), 200, 60);
        println!("{family:?} {rules} {done:?}");
        all.in_place += done.in_place;
        all.chunks += done.chunks;
    }
    assert!(all.in_place > 900, "{all:?}");
    // Each change in place is one of the list for packets cut short too.
    assert!(all.chunks < all.in_place / 4, "{all:?}");
}

/// Random changes of a kept policy, which builds anew when it has to and when it is worn.
fn keeping(seed: u64, family: Family, changes: usize) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let mut model = boxes::policy(seed, family, 2500);
    let kept = Kept::new(&model, &Options::default(), Here);
    let mut kept = kept.expect("it can be built");
    let chain = ChainId(0);
    let mut rebuilt = 0;
    for step in 0..changes as u64 {
        let length = model.chain(chain).rules.len();
        let mut rule = rule_like(&model, family, &mut rng).expect("there are rules");
        let at = rng.usize(..length);
        let change = match rng.u32(..5) {
            0 | 1 => Change::Delete(chain, at),
            2 | 3 => Change::Insert(chain, at, rule.clone()),
            _ => Change::Replace(chain, at, rule.clone()),
        };
        if step % 100 == 50 {
            kept.renew();
        }
        let done = kept.change(&change).expect("every change can be made");
        rebuilt += usize::from(done.rebuilt.is_some());
        let rules = &mut model.chains[0].rules;
        rule.id = done.id.unwrap_or(rule.id);
        match change {
            Change::Delete(..) => drop(rules.remove(at)),
            Change::Insert(..) => rules.insert(at, rule),
            Change::Replace(..) => rules[at] = rule,
            Change::Members(..) => {}
        }
        model.rule_count = kept.live().counters();
        assert_eq!(
            kept.store(),
            kept.live().image(),
            "what is in use is what is known"
        );
        compare(kept.live(), &model, seed << 16 | step, 10);
    }
    kept.finish().expect("it can be built");
    compare(kept.live(), &model, seed, 2000);
    (rebuilt, kept.renewals())
}

#[test]
fn a_kept_policy_equals_the_evaluator_at_every_moment() {
    for (seed, family) in [(3, Family::V4), (4, Family::V6)] {
        let (rebuilt, renewals) = keeping(seed, family, 600);
        println!("{family:?}: {rebuilt} of 600 took a build, {renewals} in the background");
        assert!(renewals > 0, "none was built in the background");
        assert!(rebuilt < 120, "{rebuilt} took a build");
    }
}

/// A rule that is the only one of its kind is taken out, an image is begun, and the rule comes and
/// goes. How many images were built in the background.
fn only_one_comes_and_goes(only: Test, last_is_there: bool) -> usize {
    let mut model = boxes::policy(11, Family::V4, 300);
    let chain = ChainId(0);
    let is_kept = |test: &Test| {
        let interface = matches!(test.cond, Cond::InIface(_) | Cond::OutIface(_));
        !interface && !test.cond.needs_transport()
    };
    for rule in &mut model.chains[0].rules {
        rule.tests.retain(is_kept);
    }
    let mut rule = model.chains[0].rules[0].clone();
    rule.id = RuleId(model.rule_count);
    model.rule_count += 1;
    rule.tests.truncate(1);
    let needs_ports = only.cond.needs_transport();
    if needs_ports {
        let tcp = Cond::Proto(RangeSet::one(6));
        rule.tests.push(Test {
            cond: tcp,
            negate: false,
        });
    }
    rule.tests.push(only);
    model.chains[0].rules.insert(3, rule.clone());
    let kept = Kept::new(&model, &Options::default(), Here);
    let mut kept = kept.expect("it can be built");
    let mut make = |kept: &mut Kept<Here>, change: Change| {
        let done = kept.change(&change).expect("every change can be made");
        // An image that was quick to come knows no interface that no rule named then.
        let may_be_made_anew = !needs_ports && kept.renewals() > 0;
        let in_place = done.rebuilt.is_none();
        assert!(in_place || may_be_made_anew, "{change:?}: {done:?}");
        match change {
            Change::Insert(_, at, mut rule) => {
                rule.id = done.id.expect("it has a counter");
                model.chains[0].rules.insert(at, rule);
            }
            Change::Delete(_, at) => drop(model.chains[0].rules.remove(at)),
            _ => {}
        }
        model.rule_count = kept.live().counters();
        model.clone()
    };
    make(&mut kept, Change::Delete(chain, 3));
    kept.renew();
    make(&mut kept, Change::Insert(chain, 3, rule.clone()));
    make(&mut kept, Change::Delete(chain, 3));
    let mut model = make(&mut kept, Change::Insert(chain, 5, rule));
    if !last_is_there {
        model = make(&mut kept, Change::Delete(chain, 5));
    }
    kept.finish().expect("it can be built");
    compare(kept.live(), &model, 11, 2000);
    kept.renewals()
}

/// What is built in the background takes rules that the image in use takes.
#[test]
fn the_only_rule_of_its_kind_may_come_while_an_image_is_built() {
    let ports = || Test {
        cond: Cond::DstPort(RangeSet::range(20, 25)),
        negate: false,
    };
    let interface = || Test {
        cond: Cond::InIface(IfPattern {
            name: "eth7".to_owned(),
            prefix: false,
        }),
        negate: false,
    };
    for last_is_there in [false, true] {
        assert_eq!(only_one_comes_and_goes(ports(), last_is_there), 1);
        // It is begun anew, now with the interface or without a change that names it.
        assert_eq!(only_one_comes_and_goes(interface(), last_is_there), 1);
    }
}

/// Rules that a wider one covers are met once that one goes.
#[test]
fn covered_rules_come_to_the_fore() {
    let mut model = boxes::policy(7, Family::V4, 2500);
    let mut wide = model.chains[0].rules[0].clone();
    wide.id = RuleId(model.rule_count);
    model.rule_count += 1;
    // Rule 40 again, in front of it: the later one is covered.
    let covered = model.chains[0].rules[40].clone();
    wide.tests.clone_from(&covered.tests);
    wide.flow = Flow::Verdict(Verdict::Accept);
    model.chains[0].rules.insert(20, wide);
    let mut live = Live::new(&model, &Options::default()).expect("it can be built");
    let mut image = live.image().to_vec();
    model.rule_count = live.counters();
    compare(&live, &model, 7, 400);
    let gone = live.delete(&mut image, ChainId(0), 20);
    gone.expect("it can be taken out in place");
    model.chains[0].rules.remove(20);
    compare(&live, &model, 7, 4000);
    assert_eq!(live.image(), &*image, "what is in use is what is known");
}

/// Rules come to one place of a list in which each shares packets with all others, so that those
/// beside it have to move.
#[test]
fn rules_move_where_all_share_packets() {
    let mut model = boxes::wide(13, 80);
    let mut rng = Rng::with_seed(13);
    let mut live = Live::new(&model, &Options::default()).expect("it can be built");
    let mut image = live.image().to_vec();
    model.rule_count = live.counters();
    for step in 0..20 {
        let rule = boxes::wide_rule(0, &mut rng);
        let id = live.insert(&mut image, ChainId(0), 40, &rule);
        let id = id.unwrap_or_else(|why| panic!("step {step}: {why}"));
        model.chains[0].rules.insert(40, Rule { id, ..rule });
        compare(&live, &model, 1300 + step, 200);
        if step % 3 == 0 {
            let gone = live.delete(&mut image, ChainId(0), 38);
            gone.unwrap_or_else(|why| panic!("step {step}: {why}"));
            model.chains[0].rules.remove(38);
            compare(&live, &model, 1400 + step, 200);
        }
        assert_eq!(live.image(), &*image, "what is in use is what is known");
    }
    assert!(live.moves() > 20, "{} moves", live.moves());
    // Behind the last rule there is no place for one.
    let beyond = live.order(ChainId(0)).map_or(0, <[RuleId]>::len) + 1;
    let kept = Kept::new(&model, &Options::default(), Here);
    let mut kept = kept.expect("it can be built");
    let change = Change::Insert(ChainId(0), beyond, boxes::wide_rule(0, &mut rng));
    let refused = kept.change(&change);
    assert!(matches!(refused, Err(Failure::NoRule)), "{refused:?}");
}

/// Members of a set come and go in the two rules that name it.
#[test]
fn members_of_sets_change_in_place() {
    let mut rng = Rng::with_seed(11);
    for family in [Family::V4, Family::V6] {
        let mut model = boxes::policy(8, family, 2500);
        let member = |rng: &mut Rng| {
            // Addresses of rules, so that packets meet them.
            let chosen = rng.usize(..2500);
            let tests = &boxes::policy(8, family, 2500).chains[0].rules[chosen].tests;
            let found = tests.iter().find_map(|test| match &test.cond {
                Cond::Src(AddrMatch::Ranges(set)) => set.ranges().first().copied(),
                _ => None,
            });
            // One address, so that the rule covers few others.
            let first = found.map_or(chosen as u128, |range| range.0);
            SetEntry {
                parts: vec![SetPart::Addresses(first, first)],
                nomatch: false,
                timeout: None,
            }
        };
        model.sets.push(NamedSet {
            name: "own".into(),
            family: Some(family),
            dimensions: vec![SetDimension::Address],
            entries: (0..4).map(|_| member(&mut rng)).collect(),
            members: vec![],
            changes: false,
        });
        for (at, field, verdict) in [
            (10, SetField::Src, Verdict::Accept),
            (30, SetField::Dst, Verdict::Drop),
        ] {
            let cond = Cond::Set {
                set: SetId(0),
                fields: vec![field],
            };
            let rule = Rule {
                id: RuleId(model.rule_count),
                tests: vec![Test {
                    negate: false,
                    cond,
                }],
                ops: vec![],
                flow: Flow::Verdict(verdict),
                ..model.chains[0].rules[0].clone()
            };
            model.rule_count += 1;
            model.chains[0].rules.insert(at, rule);
        }
        let kept = Kept::new(&model, &Options::default(), Here);
        let mut kept = kept.expect("it can be built");
        let mut in_place = 0;
        for step in 0..60 {
            let mut set = model.sets[0].clone();
            match rng.u32(..3) {
                0 if set.entries.len() > 1 => {
                    let gone = rng.usize(..set.entries.len());
                    set.entries.remove(gone);
                }
                _ => set.entries.push(member(&mut rng)),
            }
            model.sets[0] = set.clone();
            let done = kept.change(&Change::Members(SetId(0), set));
            in_place += usize::from(done.expect("it can be changed").rebuilt.is_none());
            model.rule_count = kept.live().counters();
            compare(kept.live(), &model, step, 100);
        }
        println!("{family:?}: {in_place} of 60 in place");
        // The others come with a build: a packet could meet one rule as it was, the other as it is.
        assert!(in_place > 20, "{family:?}: {in_place} of 60 in place");
    }
}
