//! Explanations of a small policy: every rule tried, the test that failed, and the verdict.

use super::*;
use crate::spec;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, IfPattern, Op, Origin,
    RangeSet, Root, Rule, SourceId, Table, Test, Verdict,
};

struct Lines;

impl Texts for Lines {
    fn text(&self, id: RuleId) -> Option<String> {
        Some(format!("text of {}", id.0))
    }
}

fn origin(line: u32) -> Origin {
    Origin {
        source: SourceId(0),
        line,
        column: 1,
    }
}

fn rule(id: u32, tests: Vec<Cond>, ops: Vec<Op>, flow: Flow) -> Rule {
    let tests = tests
        .into_iter()
        .map(|cond| Test {
            negate: false,
            cond,
        })
        .collect();
    let preset = Counters::default();
    Rule {
        id: RuleId(id),
        origin: origin(10 + id),
        index: id + 1,
        tests,
        ops,
        flow,
        preset,
    }
}

/// Mark what comes from the LAN at PREROUTING; at INPUT: no 10/8, port 22 into a chain that
/// accepts; policy drop.
fn policy() -> Policy {
    let ten = Cond::Src(AddrMatch::Ranges(RangeSet::range(0x0a00_0000, 0x0aff_ffff)));
    let lan = Cond::InIface(IfPattern {
        name: "lan".to_owned(),
        prefix: true,
    });
    let ssh = Cond::DstPort(RangeSet::one(22));
    let end = |id, verdict| {
        let preset = Counters::default();
        Some(ChainPolicy {
            id: RuleId(id),
            origin: origin(1),
            verdict,
            preset,
        })
    };
    let chain = |name: &str, table, rules, policy| Chain {
        name: name.to_owned(),
        family: Family::V4,
        table,
        rules,
        policy,
    };
    let mark = Op::SetMark {
        value: 7,
        mask: u32::MAX,
    };
    let root = |hook, table, chain| Root {
        family: Family::V4,
        hook,
        table,
        chain: ChainId(chain),
    };
    Policy {
        sources: vec!["rules.v4".to_owned()],
        chains: vec![
            chain(
                "PREROUTING",
                Table::Mangle,
                vec![rule(0, vec![lan], vec![mark], Flow::Next)],
                end(4, Verdict::Accept),
            ),
            chain(
                "INPUT",
                Table::Filter,
                vec![
                    rule(1, vec![ten], vec![], Flow::Verdict(Verdict::Drop)),
                    rule(2, vec![ssh], vec![], Flow::Jump(ChainId(2))),
                ],
                end(5, Verdict::Drop),
            ),
            chain(
                "ssh",
                Table::Filter,
                vec![rule(3, vec![], vec![], Flow::Verdict(Verdict::Accept))],
                None,
            ),
        ],
        roots: vec![
            root(Hook::Prerouting, Table::Mangle, 0),
            root(Hook::Input, Table::Filter, 1),
        ],
        rule_count: 6,
        ..Policy::default()
    }
}

fn explained(text: &str) -> Explanation {
    let policy = policy();
    let places = Places::of(&policy);
    let mut evaluator = Evaluator::new(&policy, 0);
    explain(
        &mut evaluator,
        &spec::parse(text).unwrap(),
        &places,
        &Lines,
        0,
    )
}

#[test]
fn the_whole_way_is_shown_and_marks_travel() {
    let out = explained("in=lan0 tcp 192.0.2.1:4242 > 198.51.100.7:22 state=NEW");
    assert_eq!((out.verdict, out.mark), ("accept", 7));
    assert_eq!(out.rule.as_deref(), Some("rules.v4:13"));
    assert_eq!(out.chain.as_deref(), Some("ssh 4"));
    let hooks: Vec<&str> = out.hooks.iter().map(|h| h.hook).collect();
    assert_eq!(hooks, ["PREROUTING", "INPUT"]);
    assert_eq!(out.hooks[0].operations, ["mark 0x7"]);
    let tried: Vec<_> = out.hooks[1]
        .tried
        .iter()
        .map(|r| (r.chain.as_str(), r.index, r.result, r.then.as_deref()))
        .collect();
    assert_eq!(
        tried,
        [
            ("INPUT", 2, "failed", None),
            ("INPUT", 3, "matched", Some("into ssh")),
            ("ssh", 4, "matched", Some("ACCEPT")),
        ]
    );
    let first = &out.hooks[1].tried[0];
    assert_eq!(first.test.as_deref(), Some("source 10.0.0.0/8"));
    assert_eq!(first.because.as_deref(), Some("it is 192.0.2.1"));
    assert_eq!(first.text.as_deref(), Some("text of 1"));
}

#[test]
fn an_assumed_state_gives_way_to_notrack() {
    let mut policy = policy();
    policy.chains[0].table = Table::Raw;
    policy.roots[0].table = Table::Raw;
    let places = Places::of(&policy);
    let spec = spec::parse("in=lan0 udp 192.0.2.1 > 198.51.100.7:53 state=ESTABLISHED").unwrap();
    let state = |evaluator: &mut Evaluator<'_>| {
        explain(evaluator, &spec, &places, &Lines, 0).hooks[1].state
    };
    assert_eq!(state(&mut Evaluator::new(&policy, 0)), "ESTABLISHED");
    let mut notrack = policy.clone();
    notrack.chains[0].rules[0].ops = vec![Op::Notrack];
    let mut evaluator = Evaluator::new(&notrack, 0);
    assert_eq!(state(&mut evaluator), "UNTRACKED");
    assert_eq!(evaluator.counters[0].packets, 1, "the probe must not count");
}

#[test]
fn a_policy_and_a_packet_that_is_cut_short() {
    let out = explained("in=wan0 udp 192.0.2.1:4242 > 198.51.100.7:53");
    assert_eq!((out.verdict, out.mark), ("drop", 0));
    assert_eq!(out.chain.as_deref(), Some("INPUT policy"));
    assert_eq!(out.rule.as_deref(), Some("rules.v4:1"));

    let policy = policy();
    let mut spec = spec::parse("in=wan0 tcp 192.0.2.1 > 198.51.100.7:22").unwrap();
    spec.packet.transport = weir_policy::model::Transport::Short;
    let mut evaluator = Evaluator::new(&policy, 0);
    let out = explain(&mut evaluator, &spec, &Places::of(&policy), &Lines, 0);
    assert_eq!((out.verdict, out.cut_short, out.rule), ("drop", true, None));
    let last = out.hooks.last().unwrap().tried.last().unwrap();
    assert_eq!(last.result, "cut_short");
}

#[test]
fn counters_are_listed_with_the_policy_first() {
    let policy = policy();
    let counters: Vec<Counters> = (0..6)
        .map(|n| Counters {
            packets: n,
            bytes: n * 40,
        })
        .collect();
    let lines = Places::of(&policy).counters(&counters);
    let seen: Vec<_> = lines
        .iter()
        .map(|l| {
            (
                l.table,
                l.chain.as_str(),
                l.index,
                l.line,
                l.packets,
                l.bytes,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("mangle", "PREROUTING", 0, 1, 4, 160),
            ("mangle", "PREROUTING", 1, 10, 0, 0),
            ("filter", "INPUT", 0, 1, 5, 200),
            ("filter", "INPUT", 2, 11, 1, 40),
            ("filter", "INPUT", 3, 12, 2, 80),
            ("filter", "ssh", 4, 13, 3, 120),
        ]
    );
    assert_eq!(lines[0].family, "ipv4");
}
