//! Two namespaces with a cable between them, for the kernel tests. They go away with the value.
#![allow(dead_code)]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_engine::compile::{Compiled, Options, compile};
use weir_plane::Policy;
use weir_plane::space::Space;
use weir_policy::model::{
    self, AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, CtState, Family, Flow, Hook,
    LogOp, Op, Origin, RangeSet, RejectKind, Root, Rule, RuleId, SourceId, StateMask, Table, Test,
    Verdict,
};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A host under test (10.9.0.1, fd09::1 on eth0) and a neighbour (10.9.0.2, fd09::2 on eth0).
pub struct Pair {
    pub host: String,
    pub neighbour: String,
}

fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .expect("ip runs");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Pair {
    pub fn new() -> Pair {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("plane-{}-{number}{end}", std::process::id());
        let pair = Pair {
            host: name("h"),
            neighbour: name("n"),
        };
        let (h, n) = (&pair.host, &pair.neighbour);
        ip(&format!("netns add {h}"));
        ip(&format!("netns add {n}"));
        ip(&format!(
            "link add eth0 netns {h} type veth peer name eth0 netns {n}"
        ));
        for (name, last) in [(h, 1), (n, 2)] {
            for knob in ["accept_dad=0", "dad_transmits=0", "accept_ra=0"] {
                sysctl(name, &format!("net.ipv6.conf.all.{knob}"));
            }
            sysctl(name, "net.ipv4.icmp_ratelimit=0");
            sysctl(name, "net.ipv6.icmp.ratelimit=0");
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {name} addr add 10.9.0.{last}/24 dev eth0"));
            ip(&format!(
                "-n {name} -6 addr add fd09::{last}/64 dev eth0 nodad"
            ));
            ip(&format!(
                "-n {name} link set eth0 address 02:00:00:00:09:0{last}"
            ));
            ip(&format!("-n {name} link set eth0 up"));
        }
        for (name, last) in [(h, 2), (n, 1)] {
            // Policies that drop everything drop neighbour discovery too.
            for address in ["10.9.0.", "fd09::"] {
                let to = format!("{address}{last} lladdr 02:00:00:00:09:0{last}");
                ip(&format!(
                    "-n {name} neigh replace {to} dev eth0 nud permanent"
                ));
            }
        }
        pair
    }

    /// Do something in the host under test.
    pub fn in_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.host, work)
    }

    /// Do something in the neighbour.
    pub fn in_neighbour<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.neighbour, work)
    }
}

fn sysctl(namespace: &str, setting: &str) {
    // Not every kernel has every knob.
    let _ = Command::new("ip")
        .args(["netns", "exec", namespace, "sysctl", "-qw", setting])
        .output();
}

/// Do something in a namespace.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let space = Space::open(Some(name)).expect("the namespace exists");
    space
        .enter(|| Ok(work()))
        .expect("the namespace can be entered")
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.host, &self.neighbour] {
            if let Ok(mut plane) = weir_plane::Plane::open(Some(name)) {
                let _ = plane.unload();
            }
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// What a test policy does with every packet of a hook.
#[derive(Clone, Debug)]
pub enum All {
    Accept,
    Drop,
    /// Answers of the agent pass.
    Reject(RejectKind),
    LogAccept,
    /// One operation, then accept.
    Do(Op),
    /// Accepts, and has so many rules that never match.
    AcceptAfter(u32),
}

fn rule(index: u32, tests: Vec<Test>, ops: Vec<Op>, flow: Flow) -> Rule {
    Rule {
        id: RuleId(0),
        origin: Origin {
            source: SourceId(0),
            line: index,
            column: 1,
        },
        index,
        tests,
        ops,
        flow,
        preset: Counters::default(),
    }
}

fn rules_of(all: &All) -> Vec<Rule> {
    let test = |cond| {
        vec![Test {
            negate: false,
            cond,
        }]
    };
    let verdict = |v| Flow::Verdict(v);
    match all {
        All::Accept => vec![rule(1, vec![], vec![], verdict(Verdict::Accept))],
        All::Drop => vec![rule(1, vec![], vec![], verdict(Verdict::Drop))],
        All::Reject(kind) => {
            let related = test(Cond::State(StateMask(CtState::Related as u8)));
            vec![
                rule(1, related, vec![], verdict(Verdict::Accept)),
                rule(2, vec![], vec![], verdict(Verdict::Reject(*kind))),
            ]
        }
        All::LogAccept => vec![rule(1, vec![], vec![Op::Log(LogOp::default())], Flow::Next)],
        All::Do(op) => vec![rule(1, vec![], vec![op.clone()], Flow::Next)],
        All::AcceptAfter(count) => (0..*count)
            .map(|i| {
                let range = RangeSet::one(u128::from(0xc000_0000 + i * 2));
                let tests = test(Cond::Src(AddrMatch::Ranges(range)));
                rule(i + 1, tests, vec![], verdict(Verdict::Drop))
            })
            .chain([rule(count + 1, vec![], vec![], verdict(Verdict::Accept))])
            .collect(),
    }
}

/// The policy that does this at a hook of both families.
pub fn model_of(all: &All, hook: Hook) -> model::Policy {
    let mut policy = model::Policy {
        sources: vec!["test".into()],
        ..model::Policy::default()
    };
    for family in [Family::V4, Family::V6] {
        let mut rules = rules_of(all);
        for rule in &mut rules {
            rule.id = RuleId(policy.rule_count);
            policy.rule_count += 1;
        }
        let id = ChainId(policy.chains.len() as u32);
        policy.chains.push(Chain {
            name: "TEST".into(),
            family,
            table: Table::Filter,
            rules,
            policy: Some(ChainPolicy {
                id: RuleId(policy.rule_count),
                origin: Origin {
                    source: SourceId(0),
                    line: 1,
                    column: 1,
                },
                verdict: Verdict::Accept,
                preset: Counters::default(),
            }),
        });
        policy.rule_count += 1;
        policy.roots.push(Root {
            family,
            hook,
            table: Table::Filter,
            chain: id,
        });
    }
    policy
}

/// A compiled policy.
pub struct Made {
    pub model: model::Policy,
    pub compiled: Compiled,
}

impl Made {
    pub fn policy(&self) -> Policy<'_> {
        Policy::of(&self.model, &self.compiled)
    }
}

/// Compile the policy that does this at a hook of both families.
pub fn made_at(all: All, hook: Hook) -> Made {
    let model = model_of(&all, hook);
    let compiled = compile(&model, &Options::default()).expect("it compiles");
    Made { model, compiled }
}

/// The same at INPUT.
pub fn made(all: All) -> Made {
    made_at(all, Hook::Input)
}

/// Put a policy in force.
pub fn apply(plane: &mut weir_plane::Plane, made: &Made) -> weir_plane::Applied {
    plane
        .apply(&made.policy(), weir_plane::ApplyOptions::default())
        .unwrap_or_else(|e| panic!("{e}"))
}
