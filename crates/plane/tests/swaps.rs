//! Ten thousand swaps between two policies of 5,000 rules under the highest load that a sender can
//! offer: no packet that both accept is lost, and none sees a mixture.
//!
//! Each policy marks packets with its own number at PREROUTING and INPUT and drops, in the filter
//! table at INPUT, what has the other's mark. A packet that met parts of both is dropped by a rule,
//! and the programs count that.

mod common;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Made, Pair, apply};
use weir_engine::compile::{Options, compile};
use weir_plane::Plane;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, Family, Flow, Hook, Op, Origin, Policy,
    RangeSet, Root, Rule, RuleId, SourceId, Table, Test, Verdict,
};

const RULES: u32 = 5_000;
const SWAPS: u32 = 10_000;
/// `WEIR_REASON_RULE` of `bpf/abi.h`; those behind it up to the lost events are drops too.
const REASON_RULE: usize = 0;
const REASONS_DROP: usize = 6;

struct Maker {
    policy: Policy,
    line: u32,
}

impl Maker {
    fn id(&mut self) -> RuleId {
        self.policy.rule_count += 1;
        RuleId(self.policy.rule_count - 1)
    }

    fn rule(&mut self, cond: Option<Cond>, ops: Vec<Op>, flow: Flow) -> Rule {
        self.line += 1;
        let test = |cond| Test {
            negate: false,
            cond,
        };
        Rule {
            id: self.id(),
            origin: self.origin(),
            index: self.line,
            tests: cond.into_iter().map(test).collect(),
            ops,
            flow,
            preset: Counters::default(),
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            source: SourceId(0),
            line: self.line,
            column: 1,
        }
    }

    fn root(&mut self, hook: Hook, table: Table, rules: Vec<Rule>) {
        let chain = ChainId(self.policy.chains.len() as u32);
        let policy = ChainPolicy {
            id: self.id(),
            origin: self.origin(),
            verdict: Verdict::Accept,
            preset: Counters::default(),
        };
        self.policy.chains.push(Chain {
            name: format!("{hook:?}"),
            family: Family::V4,
            table,
            rules,
            policy: Some(policy),
        });
        self.policy.roots.push(Root {
            family: Family::V4,
            hook,
            table,
            chain,
        });
    }
}

/// The policy that marks with `own` and drops what has another mark.
fn policy(own: u32) -> Made {
    let mut maker = Maker {
        policy: Policy {
            sources: vec!["test".into()],
            ..Policy::default()
        },
        line: 0,
    };
    let mark = Op::SetMark {
        value: own,
        mask: u32::MAX,
    };
    let is = |value| Cond::Mark {
        value,
        mask: u32::MAX,
    };
    let first = maker.rule(None, vec![mark.clone()], Flow::Next);
    maker.root(Hook::Prerouting, Table::Mangle, vec![first]);
    let other = maker.rule(Some(is(3 - own)), vec![], Flow::Verdict(Verdict::Drop));
    let unmarked = maker.rule(Some(is(0)), vec![], Flow::Verdict(Verdict::Drop));
    let again = maker.rule(None, vec![mark], Flow::Next);
    maker.root(Hook::Input, Table::Mangle, vec![other, unmarked, again]);
    let mut rules = vec![maker.rule(Some(is(3 - own)), vec![], Flow::Verdict(Verdict::Drop))];
    for number in 0..RULES {
        let address = RangeSet::one(u128::from(0xc000_0000 + number * 2 + own));
        let cond = Cond::Src(AddrMatch::Ranges(address));
        rules.push(maker.rule(Some(cond), vec![], Flow::Verdict(Verdict::Drop)));
    }
    maker.root(Hook::Input, Table::Filter, rules);
    let model = maker.policy;
    let compiled = compile(&model, &Options::default()).expect("it compiles");
    Made { model, compiled }
}

#[test]
fn no_packet_is_lost_or_sees_a_mixture_in_ten_thousand_swaps() {
    let name = "no_packet_is_lost_or_sees_a_mixture_in_ten_thousand_swaps";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let pair = Pair::new();
    let (one, two) = (policy(1), policy(2));
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(&mut plane, &one);
    apply(&mut plane, &two);
    let stop = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| flood(&pair, &stop));
        for _ in 0..SWAPS {
            plane.flip_back().expect("there is a policy before");
        }
        for number in 0..100 {
            apply(&mut plane, if number % 2 == 0 { &one } else { &two });
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("the sender ends")
    });
    std::thread::sleep(Duration::from_millis(100));
    let reasons = plane.status().expect("a policy is in force").reasons;
    println!("{SWAPS} swaps and 100 loads under {sent} datagrams, drops by reason {reasons:?}");
    assert!(sent > 100_000, "{sent} datagrams");
    assert_eq!(reasons[REASON_RULE], 0, "packets that met parts of both");
    assert_eq!(reasons[..REASONS_DROP], [0; REASONS_DROP], "{reasons:?}");
}

/// Sends to the host as fast as one thread can, a while on both sides of the swaps.
fn flood(pair: &Pair, stop: &AtomicBool) -> u64 {
    let _server = pair.in_host(|| UdpSocket::bind("0.0.0.0:7001").expect("the port is free"));
    pair.in_neighbour(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        socket
            .connect("10.9.0.1:7001")
            .expect("it can be connected");
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            // The receiver's queue is full most of the time: behind the filter.
            count += u64::from(socket.send(b"x").is_ok());
        }
        count
    })
}
