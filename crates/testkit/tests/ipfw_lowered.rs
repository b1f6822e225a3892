//! ipfw's rules three ways: their own evaluator (the meaning), the rule model that they are lowered
//! to, and the compiled image. Same verdicts, same rules in the same order, same changes, packet by
//! packet, and the same counters in the end.
//!
//! Not compared: IPv6 packets that end inside a header of GRE, which the parser of the other
//! languages does not read; and random choices, of which each has its own.

use weir_engine::compile::Options;
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_policy::dialect::ipfw::ast::Reject;
use weir_policy::dialect::ipfw::lower::{Options as Lowering, lower, tags_in_mark};
use weir_policy::dialect::ipfw::{NoNames, Ruleset, Settings, read as read_rules};
use weir_policy::eval::ipfw::{
    Carried, Evaluator as Meaning, HostAddress, Judgement as Meant, Outcome, Pass, Route, Unjudged,
};
use weir_policy::eval::{Evaluator, Judgement, Passage};
use weir_policy::model::{
    Family, Hook, Op, Packet, Policy, RangeSet, RejectKind, Transport, Verdict,
};
use weir_policy::syntax::Sources;
use weir_testkit::equality::Comparison;
use weir_testkit::random::PacketSource;
use weir_testkit::random::ipfw::{OWN, OWN6, lowered, text, ways_back};

const HOOKS: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Output];

fn own_addresses() -> Vec<HostAddress> {
    let four = OWN.iter().map(|(_, address)| (Family::V4, *address, 24));
    four.chain([(Family::V6, OWN6, 64)])
        .map(|(family, address, length)| HostAddress {
            interface: "eth0".to_owned(),
            family,
            address,
            length,
        })
        .collect()
}

/// What isn't on a network of `eth0` is behind `eth1`, and so is one that is inside another.
fn routes() -> Vec<Route> {
    let route = |(family, prefix, length)| Route {
        family,
        prefix,
        length,
        interface: "eth1".to_owned(),
        refused: false,
    };
    [
        (Family::V4, 0, 0),
        (Family::V4, 0x0a01_0280, 25),
        (Family::V6, 0x2001_0db8 << 96, 32),
    ]
    .map(route)
    .to_vec()
}

/// Gives a packet what building leaves at 0, out of its own bytes: identification and flags of
/// IPv4, the flow label of IPv6. Nobody looks at the checksum.
fn name(bytes: &mut [u8]) {
    let sum = bytes
        .iter()
        .fold(0u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
    match bytes[0] >> 4 {
        4 => {
            bytes[5] = (sum >> 8) as u8 & 7;
            bytes[4] = u8::from(sum & 3 == 0);
            bytes[6] |= sum as u8 & 0xc0;
        }
        _ => bytes[3] = (sum >> 8) as u8 & 7,
    }
}

/// Both evaluators of one rule set.
struct Both<'p> {
    set: &'p Ruleset,
    meaning: Meaning<'p>,
    model: Evaluator<'p>,
}

impl<'p> Both<'p> {
    fn new(set: &'p Ruleset, policy: &'p Policy) -> Self {
        let mut meaning = Meaning::new(set);
        meaning.host.addresses = own_addresses();
        meaning.host.routes = routes();
        let mut model = Evaluator::new(policy, 0);
        let own = OWN.iter().map(|(_, address)| (*address, *address));
        model.locals.local = RangeSet::from_ranges(own);
        model.locals.local6 = RangeSet::one(OWN6);
        Both {
            set,
            meaning,
            model,
        }
    }

    /// Judges a packet both ways; `None` for what is not compared.
    fn judge(&mut self, made: &Packet) -> Option<(Meant, Carried, Judgement)> {
        let mut bytes = build(made, usize::MAX).expect("a settled packet can be built");
        name(&mut bytes);
        let mut met = packet(&bytes, bytes.len() as u32, &Arrival::of(made)).expect("it parses");
        let pass = match made.hook {
            Hook::Prerouting => Pass::In,
            _ => Pass::Out,
        };
        let place = Met {
            pass,
            recv: met.in_iface.clone(),
            xmit: met.out_iface.clone(),
            frame: None,
            to_many: false,
        };
        let mut carried = Carried::default();
        let meant = match read(&bytes, bytes.len() as u32, &place, &self.set.settings) {
            Read::NotIp => return None,
            Read::Dropped(Unjudged::CutShort) if met.transport == Transport::None => return None,
            Read::Dropped(why) => Meant::dropped(why),
            Read::Packet(mut own) => {
                own.owner = met.owner;
                met.handling = ways_back(&self.meaning.host, &own);
                carried = Carried::of(&own);
                carried.mark = met.mark;
                carried.tags = tags_in_mark(self.set, met.mark).into_iter().collect();
                self.meaning.judge(&own, &mut carried, 1_000)
            }
        };
        let found = self.model.judge(&met, &mut Passage::of(&met), 1_000);
        Some((meant, carried, found))
    }

    fn compare(&self, meant: &Meant, carried: &Carried, found: &Judgement) -> Result<(), String> {
        let same = |what: &str, holds: bool| match holds {
            true => Ok(()),
            false => Err(what.to_owned()),
        };
        let rules = self.set.rule_count();
        let accepts = meant.outcome == Outcome::Accept;
        same("verdict", accepts == (found.verdict == Verdict::Accept))?;
        let visible = |rule: &u32| *rule < rules;
        let matched: Vec<u32> = found.matched.iter().map(|r| r.0).filter(visible).collect();
        let trail: Vec<u32> = meant.trail.iter().map(|acted| acted.rule.0).collect();
        same("trail", matched == trail)?;
        let decided = found.decided_by.map(|rule| rule.0).filter(visible);
        same("deciding rule", meant.rule.map(|rule| rule.0) == decided)?;
        if meant.unjudged.is_some() {
            return Ok(());
        }
        same("tos", carried.tos == found.tos)?;
        match carried.tags.is_empty() {
            true => {}
            false => {
                let tags = tags_in_mark(self.set, found.mark);
                same("tags", carried.tags.iter().copied().eq(tags))?;
            }
        }
        let marks = self.set.rules.iter().all(|one| one.rule.tag.is_none());
        same("mark", !marks || carried.mark == found.mark)?;
        let lines = meant
            .log
            .iter()
            .filter(|line| !line.contains("limit"))
            .count();
        let logged = found
            .ops
            .iter()
            .filter(|(_, op)| matches!(op, Op::Log(_)))
            .count();
        same("log lines", lines == logged)?;
        if let Outcome::Reject {
            kind,
            answered: true,
        } = meant.outcome
        {
            let answer = match found.verdict {
                Verdict::Reject(answer) => answer,
                _ => return Err("no answer".to_owned()),
            };
            same(
                "answer",
                match kind {
                    Reject::Reset | Reject::Reset6 => answer == RejectKind::TcpReset,
                    Reject::Unreach6(code) => answer == RejectKind::Icmp6(code),
                    Reject::Unreach(code, _) => match answer {
                        RejectKind::Icmp(answer) => answer == code,
                        RejectKind::Icmp6(answer) => answer == if code == 3 { 4 } else { 0 },
                        _ => false,
                    },
                    Reject::Abort | Reject::Abort6 => false,
                },
            )?;
        }
        Ok(())
    }
}

#[test]
fn lowered_rules_mean_what_their_own_evaluator_says() {
    let (mut policies, mut packets, mut outcomes) = (0, 0u32, [0u32; 4]);
    for seed in 0..2_400u64 {
        let text = text(seed);
        let Some((set, policy)) = lowered(&text, Settings::default()) else {
            continue;
        };
        policies += 1;
        let mut both = Both::new(&set, &policy);
        let mut source = PacketSource::new(&policy, seed);
        for number in 0..120 {
            let family = [Family::V4, Family::V6][number % 2];
            let hook = HOOKS[number / 2 % 3];
            let mut made = source.packet(family, hook);
            if hook == Hook::Output && number % 3 == 0 {
                made.owner = Some((0, 0));
            }
            settle(&mut made);
            let Some((meant, carried, found)) = both.judge(&made) else {
                continue;
            };
            packets += 1;
            if let Err(what) = both.compare(&meant, &carried, &found) {
                panic!(
                    "{what}: seed {seed} packet {number} {made:?}\n{meant:?}\n{carried:?}\n\
                     {found:?}\n{text}"
                );
            }
            outcomes[match (&meant.outcome, meant.unjudged) {
                (_, Some(_)) => 0,
                (Outcome::Accept, _) => 1,
                (Outcome::Deny, _) => 2,
                (Outcome::Reject { .. }, _) => 3,
            }] += 1;
        }
        let counted = &both.model.counters[..set.rule_count() as usize];
        assert_eq!(both.meaning.counters, counted, "seed {seed}\n{text}");
    }
    println!("{policies} rule sets, {packets} packets: unread, pass, deny, answer {outcomes:?}");
    assert!(
        policies >= 1_500 && outcomes.iter().all(|count| *count > 1_000),
        "{policies} {outcomes:?}"
    );
}

#[test]
fn lowered_rules_compile_to_what_they_mean() {
    let mut policies = 0;
    for seed in 0..300u64 {
        let Some((_, policy)) = lowered(&text(seed), Settings::default()) else {
            continue;
        };
        policies += 1;
        let comparison = Comparison {
            policy: &policy,
            packets: 600,
            seed,
            hooks: &HOOKS,
            options: Options::default(),
            kernel: None,
        };
        if let Err(mismatch) = comparison.run() {
            panic!("seed {seed}: {}\n{}", mismatch.0, text(seed));
        }
    }
    assert!(policies > 200, "{policies}");
}

#[test]
fn interfaces_by_address_are_those_that_have_it() {
    let text = "\
add 100 count ip from any to any via 10.9.9.1
add 110 count ip from any to any not via 10.9.9.1
add 200 count ip from any to any via 10.9.9.2
add 210 count ip from any to any not via 10.9.9.2
add 300 count ip from any to any recv 10.9.9.1
add 310 count ip from any to any not recv 10.9.9.1 out
add 400 deny ip from any to any xmit 10.9.9.1
add 500 allow ip from any to any
";
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let mut set = read_rules(text, id, &NoNames, Settings::default()).ruleset;
    assert!(set.asks_for_owners());
    assert!(lower(&set, &sources, Lowering::default()).0.is_none());
    // Two interfaces have the first address, nobody has the second.
    let owners = ["eth0", "eth1"].map(|name| (name.to_owned(), 0x0a09_0901));
    set.owners = Some(owners.to_vec());
    let (policy, found) = lower(&set, &sources, Lowering::default());
    assert_eq!(found.len(), 2, "{found:?}");
    let policy = policy.expect("nothing is refused");
    let mut both = Both::new(&set, &policy);
    for name in ["eth0", "eth1"] {
        both.meaning.host.addresses.push(HostAddress {
            interface: name.to_owned(),
            family: Family::V4,
            address: 0x0a09_0901,
            length: 24,
        });
    }
    let mut source = PacketSource::new(&policy, 1);
    for number in 0..600 {
        let family = [Family::V4, Family::V6][number % 2];
        let mut made = source.packet(family, HOOKS[number / 2 % 3]);
        settle(&mut made);
        if let Some((meant, carried, found)) = both.judge(&made) {
            let same = both.compare(&meant, &carried, &found);
            assert!(same.is_ok(), "{same:?} {made:?}\n{meant:?}\n{found:?}");
        }
    }
    let of = |at: usize| both.model.counters[set.rules[at].id.0 as usize].packets;
    assert!(of(0) > 0 && of(1) > 0 && of(2) == 0 && of(6) > 0);
    assert_eq!(of(3), of(0) + of(1), "nobody has the address");
}
