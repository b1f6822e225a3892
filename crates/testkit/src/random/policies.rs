//! Random policies.

use fastrand::Rng;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cmp, Cond, Counters, CtState, Family, Flow, HistoryId,
    HistoryKind, HistoryObject, Hook, IfPattern, Limit, LogOp, NamedSet, Op, Origin, PacketType,
    Policy, RangeSet, RejectKind, ReversePath, Root, Rule, RuleId, SetDimension, SetEntry,
    SetField, SetId, SetPart, SourceId, StateMask, Statistic, Table, Test, Verdict,
};

use super::{Shape, chance, pick};

/// All hooks, in netfilter's order.
pub const HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

/// Interface names that random policies and packets use.
pub const INTERFACES: [&str; 5] = ["eth0", "eth1", "eth10", "wg0", "ppp-office12345"];

/// Makes the policy of this seed.
pub fn policy(seed: u64, shape: Shape) -> Policy {
    let mut rng = Rng::with_seed(seed);
    let families: &[Family] = match rng.u8(..4) {
        0 => &[Family::V4],
        1 => &[Family::V6],
        _ => &[Family::V4, Family::V6],
    };
    let mut maker = Maker {
        rng,
        shape,
        policy: Policy {
            short_goes_on: shape.lists && seed.is_multiple_of(2),
            ..Policy::default()
        },
        line: 0,
    };
    maker.policy.sources.push(format!("seed-{seed}"));
    for &family in families {
        maker.sets(family);
    }
    for &family in families {
        maker.tables(family);
    }
    maker
        .policy
        .roots
        .sort_by_key(|r| (r.family, r.hook, r.table));
    maker.policy
}

struct Maker {
    rng: Rng,
    shape: Shape,
    policy: Policy,
    line: u32,
}

impl Maker {
    fn origin(&mut self) -> Origin {
        self.line += 1;
        Origin {
            source: SourceId(0),
            line: self.line,
            column: 1,
        }
    }

    fn id(&mut self) -> RuleId {
        self.policy.rule_count += 1;
        RuleId(self.policy.rule_count - 1)
    }

    fn sets(&mut self, family: Family) {
        for kind in 0..self.rng.usize(..4) {
            let dimensions = match kind {
                0 | 2 => vec![SetDimension::Address],
                1 => vec![SetDimension::Address, SetDimension::ProtoPort],
                _ => vec![SetDimension::Port],
            };
            let entries = (0..self.rng.usize(..12))
                .map(|_| SetEntry {
                    parts: dimensions
                        .iter()
                        .map(|d| self.set_part(*d, family))
                        .collect(),
                    nomatch: false,
                    timeout: None,
                })
                .collect();
            let address = dimensions.contains(&SetDimension::Address);
            self.policy.sets.push(NamedSet {
                name: format!("set{}", self.policy.sets.len()),
                family: address.then_some(family),
                dimensions,
                entries,
                members: Vec::new(),
                changes: false,
            });
        }
    }

    fn set_part(&mut self, dimension: SetDimension, family: Family) -> SetPart {
        let rng = &mut self.rng;
        match dimension {
            SetDimension::Address => {
                let (first, last) = prefix(rng, family);
                SetPart::Addresses(first, last)
            }
            SetDimension::ProtoPort => {
                let (first, last) = ports(rng);
                SetPart::ProtoPorts(*pick(rng, &[6, 17, 132]), first, last)
            }
            SetDimension::Port => {
                let (first, last) = ports(rng);
                SetPart::Ports(first, last)
            }
        }
    }

    fn tables(&mut self, family: Family) {
        let filter: &[Hook] = match self.shape.lists {
            true => &HOOKS,
            false => &[Hook::Input, Hook::Forward, Hook::Output],
        };
        let mut tables = vec![(Table::Filter, filter)];
        if self.shape.changes && chance(&mut self.rng, 40) {
            tables.push((Table::Mangle, &HOOKS));
        }
        if self.shape.changes && chance(&mut self.rng, 30) {
            tables.push((Table::Raw, &[Hook::Prerouting, Hook::Output]));
        }
        for (table, hooks) in tables {
            // User chains first, each calling only chains made before it: no cycles.
            let mut callable = Vec::new();
            for _ in 0..self.rng.usize(..=self.shape.chains_max) {
                let chain = self.chain(family, table, None, &callable);
                callable.push(chain);
            }
            for &hook in hooks {
                if table != Table::Filter && chance(&mut self.rng, 50) {
                    continue;
                }
                let chain = self.chain(family, table, Some(hook), &callable);
                self.policy.roots.push(Root {
                    family,
                    hook,
                    table,
                    chain,
                });
            }
        }
    }

    fn chain(
        &mut self,
        family: Family,
        table: Table,
        hook: Option<Hook>,
        callable: &[ChainId],
    ) -> ChainId {
        let origin = self.origin();
        let count = self.rng.usize(..=self.shape.rules_max);
        let mut rules: Vec<Rule> = (0..count)
            .map(|at| self.rule(family, table, callable, at as u32 + 1))
            .collect();
        if self.shape.plain && self.shape.state && count > 0 && chance(&mut self.rng, 60) {
            let cond = Cond::State(StateMask(
                CtState::Established as u8 | CtState::Related as u8,
            ));
            let rule = &mut rules[self.rng.usize(..count.min(3))];
            rule.flow = Flow::Verdict(Verdict::Accept);
            rule.tests = vec![Test {
                negate: false,
                cond,
            }];
        }
        if self.shape.lists {
            super::lists::change(&mut self.rng, &mut rules, callable);
        }
        let name = match hook {
            Some(hook) => format!("{hook:?}"),
            None => format!("user{}", self.policy.chains.len()),
        };
        let policy = hook.map(|_| ChainPolicy {
            id: self.id(),
            origin,
            verdict: *pick(&mut self.rng, &[Verdict::Accept, Verdict::Drop]),
            preset: Counters::default(),
        });
        self.policy.chains.push(Chain {
            name,
            family,
            table,
            rules,
            policy,
        });
        ChainId(self.policy.chains.len() as u32 - 1)
    }

    fn rule(&mut self, family: Family, table: Table, callable: &[ChainId], index: u32) -> Rule {
        let (origin, id) = (self.origin(), self.id());
        let mut tests = self.tests(family, table);
        if self.shape.histories && chance(&mut self.rng, 15) {
            let cond = self.history();
            let at = if chance(&mut self.rng, 70) {
                tests.len()
            } else {
                self.rng.usize(..=tests.len())
            };
            tests.insert(
                at,
                Test {
                    negate: false,
                    cond,
                },
            );
        }
        let flow = match self.rng.u8(..20) {
            0..=5 => Flow::Verdict(Verdict::Accept),
            6..=9 => Flow::Verdict(Verdict::Drop),
            10 if table == Table::Filter && !self.shape.plain => {
                Flow::Verdict(Verdict::Reject(self.reject(family)))
            }
            11 | 12 => Flow::Return,
            13..=15 if !callable.is_empty() => Flow::Jump(*pick(&mut self.rng, callable)),
            16 if !callable.is_empty() => Flow::Goto(*pick(&mut self.rng, callable)),
            _ => Flow::Next,
        };
        // A verdict on everything would hide the rest of the chain.
        if tests.is_empty() && matches!(flow, Flow::Verdict(_)) && chance(&mut self.rng, 90) {
            let (first, last) = prefix(&mut self.rng, family);
            let values = AddrMatch::Ranges(RangeSet::range(first, last));
            tests.push(Test {
                negate: false,
                cond: Cond::Src(values),
            });
        }
        // A reset answers only TCP, and languages insist that the rule says so.
        if flow == Flow::Verdict(Verdict::Reject(RejectKind::TcpReset)) {
            let cond = Cond::Proto(RangeSet::one(6));
            tests.insert(
                0,
                Test {
                    negate: false,
                    cond,
                },
            );
        }
        let ops = self.ops(table);
        Rule {
            id,
            origin,
            index,
            tests,
            ops,
            flow,
            preset: Counters::default(),
        }
    }

    fn reject(&mut self, family: Family) -> RejectKind {
        match (self.rng.u8(..3), family) {
            (0, _) => RejectKind::TcpReset,
            (1, Family::V4) => RejectKind::FragmentationNeeded(*pick(&mut self.rng, &[0, 1280])),
            (_, Family::V4) => RejectKind::Icmp(*pick(&mut self.rng, &[0, 1, 2, 3, 9, 10, 13])),
            (_, Family::V6) => RejectKind::Icmp6(*pick(&mut self.rng, &[0, 1, 3, 4, 5, 6])),
        }
    }

    fn ops(&mut self, table: Table) -> Vec<Op> {
        let mut ops = Vec::new();
        if self.shape.plain {
            return ops;
        }
        if chance(&mut self.rng, 6) {
            ops.push(Op::Log(LogOp {
                level: 4,
                prefix: "seen: ".into(),
                ..LogOp::default()
            }));
        }
        if self.shape.changes && chance(&mut self.rng, 6) && table != Table::Filter {
            let (value, mask) = (
                self.rng.u32(..16),
                *pick(&mut self.rng, &[0xff, u32::MAX, 0x3]),
            );
            ops.push(Op::SetMark { value, mask });
        }
        if self.shape.changes && chance(&mut self.rng, 6) && table == Table::Raw {
            ops.push(Op::Notrack);
        }
        if self.shape.changes && self.shape.state && chance(&mut self.rng, 4) {
            ops.push(match (table, self.rng.u8(..3)) {
                (Table::Mangle, 0) => Op::SetConnmark {
                    value: self.rng.u32(..8),
                    mask: 0xf,
                    shift: super::aside::mark_shift(&mut self.rng),
                },
                (Table::Mangle, 1) => Op::SaveConnmark {
                    nf_mask: 0xff,
                    ct_mask: 0xff,
                    shift: super::aside::mark_shift(&mut self.rng),
                },
                (Table::Mangle, _) => Op::RestoreConnmark {
                    nf_mask: 0xf,
                    ct_mask: 0xf,
                    shift: super::aside::mark_shift(&mut self.rng),
                },
                _ => Op::Log(LogOp {
                    level: 6,
                    prefix: "note".into(),
                    ..LogOp::default()
                }),
            });
        }
        if self.shape.changes && chance(&mut self.rng, 4) && table == Table::Mangle {
            ops.push(Op::SetDscp(self.rng.u8(..64)));
        }
        ops
    }

    fn history(&mut self) -> Cond {
        let kind = match self.rng.u8(..2) {
            0 => HistoryKind::Limit(Limit {
                cost: *pick(&mut self.rng, &[10, 1_000, 10_000, 600_000]),
                burst: *pick(&mut self.rng, &[1, 2, 5, 20]),
            }),
            _ => {
                let every = self.rng.u32(1..6);
                HistoryKind::Statistic(Statistic::Nth {
                    every,
                    packet: self.rng.u32(..every),
                })
            }
        };
        self.policy
            .histories
            .push(HistoryObject { shared: None, kind });
        Cond::History(HistoryId(self.policy.histories.len() as u32 - 1))
    }

    fn tests(&mut self, family: Family, table: Table) -> Vec<Test> {
        let mut tests = Vec::new();
        let mut push = |rng: &mut Rng, cond: Cond, negatable: u32| {
            tests.push(Test {
                negate: chance(rng, negatable),
                cond,
            });
        };
        let rng = &mut self.rng;
        if chance(rng, 40) {
            let values = address(rng, family);
            push(rng, Cond::Src(values), 12);
        }
        if chance(rng, 40) {
            let values = address(rng, family);
            push(rng, Cond::Dst(values), 12);
        }
        if chance(rng, 20) {
            let pattern = interface(rng);
            push(rng, Cond::InIface(pattern), 20);
        }
        if chance(rng, 12) {
            let pattern = interface(rng);
            push(rng, Cond::OutIface(pattern), 20);
        }
        let mut conds = transport(rng, family);
        // Chunks are asked of SCTP alone, and by iptables alone.
        let of_chunks = |cond: &Cond| matches!(cond, Cond::SctpChunks { .. });
        conds.retain(|cond| !self.shape.lists || !of_chunks(cond));
        let chunks = conds.iter().any(of_chunks);
        for cond in conds {
            let negated = match cond {
                Cond::Proto(_) if chunks => 0,
                _ => 8,
            };
            push(rng, cond, negated);
        }
        if self.shape.state && chance(rng, 20) && table != Table::Raw {
            let mut mask = StateMask(rng.u8(1..32));
            if chance(rng, 15) {
                mask.0 = rng.u8(1..128);
            }
            push(rng, Cond::State(mask), 10);
        }
        if family == Family::V4 && chance(rng, 3) {
            push(rng, Cond::LaterFragment, 30);
        }
        if self.shape.lists && chance(rng, 4) {
            let bits = rng.u8(1..8);
            push(rng, Cond::Fragments(bits), 30);
            if chance(rng, 20) {
                push(rng, Cond::CutShort, 60);
            }
        }
        if !self.shape.plain && chance(rng, 12) {
            let cond = rare(rng, &self.policy.sets, self.shape.state);
            push(rng, cond, 15);
        }
        tests
    }
}

/// A prefix from a small tree of them: nested, adjacent, and single addresses.
pub(crate) fn prefix(rng: &mut Rng, family: Family) -> (u128, u128) {
    let (base, bits) = match family {
        Family::V4 => (0x0a00_0000_u128, 32u32),
        Family::V6 => (0x2001_0db8_u128 << 96, 128),
    };
    let length = match family {
        Family::V4 => *pick(rng, &[0u32, 8, 9, 16, 23, 24, 29, 30, 31, 32, 32, 32]),
        Family::V6 => *pick(rng, &[0u32, 10, 32, 48, 63, 64, 65, 120, 126, 128, 128]),
    };
    let noise = u128::from(*pick(
        rng,
        &[0u32, 1, 2, 3, 4, 0x100, 0x101, 0x1_0000, 0x2_0100],
    ));
    let high = if family == Family::V6 && chance(rng, 40) {
        u128::from(rng.u8(..4)) << 64
    } else {
        0
    };
    let all: u128 = if family == Family::V4 {
        0xffff_ffff
    } else {
        u128::MAX
    };
    let host = if length == bits { 0 } else { all >> length };
    let first = (base | high | noise) & !host & all;
    (first, first | host)
}

fn address(rng: &mut Rng, family: Family) -> AddrMatch {
    match rng.u8(..10) {
        0 if family == Family::V4 => AddrMatch::Masked {
            value: 0x0a00_0001,
            mask: 0xff00_00ff,
        },
        1 | 2 => {
            // An arbitrary range, as iprange gives.
            let (first, _) = prefix(rng, family);
            AddrMatch::Ranges(RangeSet::range(first, first + u128::from(rng.u16(..700))))
        }
        3 => AddrMatch::Ranges(RangeSet::from_ranges((0..4).map(|_| prefix(rng, family)))),
        _ => {
            let (first, last) = prefix(rng, family);
            AddrMatch::Ranges(RangeSet::range(first, last))
        }
    }
}

fn interface(rng: &mut Rng) -> IfPattern {
    let name = *pick(rng, &INTERFACES);
    if chance(rng, 30) {
        IfPattern {
            name: name[..rng.usize(..=3)].to_string(),
            prefix: true,
        }
    } else {
        IfPattern {
            name: name.to_string(),
            prefix: false,
        }
    }
}

pub(crate) fn ports(rng: &mut Rng) -> (u16, u16) {
    let first = *pick(
        rng,
        &[0u16, 1, 22, 25, 53, 80, 443, 1023, 1024, 8080, 32768, 65535],
    );
    let width = *pick(rng, &[0u16, 0, 0, 0, 1, 9, 1000, 65535]);
    (first, first.saturating_add(width))
}

fn port_set(rng: &mut Rng) -> RangeSet<u16> {
    let count = if chance(rng, 20) { rng.usize(2..15) } else { 1 };
    RangeSet::from_ranges((0..count).map(|_| ports(rng)))
}

/// A protocol and, perhaps, conditions on its header.
fn transport(rng: &mut Rng, family: Family) -> Vec<Cond> {
    let icmp = if family == Family::V4 { 1 } else { 58 };
    let mut out = Vec::new();
    let proto = match rng.u8(..10) {
        0..=3 => 6,
        4 | 5 => 17,
        6 => icmp,
        7 => *pick(rng, &[132, 47, 50]),
        _ => return out,
    };
    out.push(Cond::Proto(RangeSet::one(proto)));
    if proto == icmp {
        if chance(rng, 70) {
            let (kind, code) = (*pick(rng, &[0, 3, 8, 11, 128, 129, 1]), rng.u8(..3));
            let codes = if chance(rng, 60) {
                (0, 255)
            } else {
                (code, code)
            };
            out.push(Cond::Icmp {
                kind: chance(rng, 90).then_some(kind),
                codes,
            });
        }
        return out;
    }
    if !matches!(proto, 6 | 17 | 132) {
        return out;
    }
    if chance(rng, 60) {
        out.push(Cond::DstPort(port_set(rng)));
    }
    if chance(rng, 15) {
        out.push(Cond::SrcPort(port_set(rng)));
    }
    if chance(rng, 6) {
        out.push(Cond::AnyPort(port_set(rng)));
    }
    if proto == 6 && chance(rng, 25) {
        let (mask, value) = *pick(
            rng,
            &[
                (0x17, 2),
                (0x3f, 0),
                (0x3f, 0x29),
                (0x06, 0x06),
                (0x10, 0x10),
            ],
        );
        out.push(Cond::TcpFlags { mask, value });
    }
    if proto == 132 && chance(rng, 70) {
        out.push(super::aside::chunks(rng));
    }
    out
}

/// Conditions that real files use now and then.
fn rare(rng: &mut Rng, sets: &[NamedSet], state: bool) -> Cond {
    let (a, b) = (rng.u16(20..200), rng.u16(20..1500));
    match rng.u8(..10) {
        9 => Cond::Aside(super::aside::condition(rng)),
        7 if rng.bool() => Cond::RouteBack {
            loose: rng.bool(),
            marked: rng.bool(),
        },
        7 if rng.bool() => Cond::ReversePath(*pick(
            rng,
            &[
                ReversePath::Verified,
                ReversePath::NotSpoofed,
                ReversePath::Reached,
            ],
        )),
        7 => Cond::Ipsec { out: rng.bool() },
        0 => Cond::Length(RangeSet::range(a.min(b), a.max(b))),
        1 => Cond::Ttl(*pick(rng, &[Cmp::Eq(64), Cmp::Lt(64), Cmp::Gt(1)])),
        2 => Cond::Dscp(*pick(rng, &[0, 10, 46])),
        3 => Cond::Tos {
            value: 0x10,
            mask: 0x3f,
        },
        4 => Cond::Mark {
            value: rng.u32(..4),
            mask: *pick(rng, &[3, 0xff]),
        },
        6 if state => Cond::Connmark {
            value: rng.u32(..4),
            mask: 3,
        },
        5 => Cond::PacketType(*pick(rng, &[PacketType::Unicast, PacketType::Broadcast])),
        _ if !sets.is_empty() => {
            let set = rng.usize(..sets.len());
            let fields = sets[set]
                .dimensions
                .iter()
                .map(|_| *pick(rng, &[SetField::Src, SetField::Dst]));
            let fields = fields.collect();
            Cond::Set {
                set: SetId(set as u32),
                fields,
            }
        }
        _ => Cond::Mark { value: 0, mask: 1 },
    }
}
