//! One rule set of ipfw for its own evaluator and for that of the rule model it is lowered to, on
//! one host.

use weir_policy::dialect::ipfw::Ruleset;
use weir_policy::dialect::ipfw::ast::Reject;
use weir_policy::dialect::ipfw::lower::tags_in_mark;
use weir_policy::eval::ipfw::{
    Carried, Evaluator as Meaning, HostAddress, Judgement as Meant, Outcome, Packet, Route,
};
use weir_policy::eval::{Evaluator, Judgement};
use weir_policy::model::{Family, Op, Policy, RangeSet, RejectKind, Verdict};
use weir_testkit::random::ipfw::{OWN, OWN6};

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

/// Unread, passed, denied, answered: its number.
pub fn ended(meant: &Meant) -> usize {
    match (&meant.outcome, meant.unjudged) {
        (_, Some(_)) => 0,
        (Outcome::Accept, _) => 1,
        (Outcome::Deny, _) => 2,
        (Outcome::Reject { .. }, _) => 3,
    }
}

/// Both evaluators of one rule set.
pub struct Both<'p> {
    pub set: &'p Ruleset,
    pub meaning: Meaning<'p>,
    pub model: Evaluator<'p>,
}

impl<'p> Both<'p> {
    /// Both, fresh.
    pub fn new(set: &'p Ruleset, policy: &'p Policy) -> Self {
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

    /// What a packet comes with that has a mark.
    pub fn carried(&self, packet: &Packet, mark: u32) -> Carried {
        let mut carried = Carried::of(packet);
        carried.mark = mark;
        carried.tags = tags_in_mark(self.set, mark).into_iter().collect();
        carried
    }

    /// The counters of all rules must be equal.
    pub fn compare_counters(&self, place: &str) {
        let own = &self.model.counters[..self.set.rule_count() as usize];
        assert_eq!(self.meaning.counters, own, "{place}");
    }

    /// What differs of a packet, if anything does.
    pub fn compare(
        &self,
        meant: &Meant,
        carried: &Carried,
        found: &Judgement,
    ) -> Result<(), String> {
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
        let logged = found.ops.iter().filter_map(|(_, op)| match op {
            Op::Log(log) => Some(log.prefix.as_str()),
            _ => None,
        });
        same(
            "number of log lines",
            meant.log.len() == logged.clone().count(),
        )?;
        let begins = |(line, front): (&String, &str)| line.starts_with(front);
        same("log lines", meant.log.iter().zip(logged).all(begins))?;
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
                    Reject::Unreach(code, mtu) => match answer {
                        RejectKind::Icmp(answer) => answer == code && mtu.is_none(),
                        RejectKind::FragmentationNeeded(answer) => mtu == Some(answer),
                        RejectKind::Icmp6(answer) => answer == [0, 0, 1, 4, 1][usize::from(code)],
                        _ => false,
                    },
                    Reject::Abort | Reject::Abort6 => false,
                },
            )?;
        }
        Ok(())
    }
}
