//! What a policy needs of the kernel plane: hooks, reassembly, tracking, edits on the way out.
//!
//! In: the rule model. Out: bits of [`crate::hooks`]. Every root is attached, also one without
//! rules, because chain policies count. Fragments are put together only where a rule asks about
//! flows: so does iptables, whose port matches see the first fragment alone.

use weir_policy::model::{
    Answers, ChainId, Cond, Family, Flow, HistoryKind, Hook, Op, Policy, Reading, ReversePath,
    Root, Rule, Table, Test,
};

use crate::hooks;

/// The rules that a root can reach.
fn reachable(policy: &Policy, start: ChainId) -> Vec<&Rule> {
    let mut seen = vec![false; policy.chains.len()];
    let mut open = vec![start];
    let mut rules = Vec::new();
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        for rule in &policy.chain(id).rules {
            rules.push(rule);
            if let Flow::Jump(next) | Flow::Goto(next) | Flow::Head { group: next, .. } = rule.flow
            {
                open.push(next);
            }
        }
    }
    rules
}

fn tests_flows(policy: &Policy, test: &Test) -> bool {
    match &test.cond {
        Cond::State(_) | Cond::Ct(_) | Cond::Connmark { .. } => true,
        Cond::Any(tests) => tests.iter().any(|test| tests_flows(policy, test)),
        Cond::History(id) => {
            let kind = &policy.histories[id.0 as usize].kind;
            matches!(kind, HistoryKind::ConnLimit(_))
        }
        _ => false,
    }
}

/// What a test needs of programs on interfaces.
fn bits_of_test(test: &Test) -> u32 {
    match &test.cond {
        Cond::RouteBack { marked: false, .. } => hooks::ROUTE_BACK,
        Cond::RouteBack { marked: true, .. } => hooks::ROUTE_BACK | hooks::ROUTE_BACK_MARKED,
        Cond::ReversePath(ReversePath::Verified) => hooks::REVERSE_PATH,
        Cond::ReversePath(ReversePath::NotSpoofed) => hooks::REVERSE_PATH | hooks::NOT_SPOOFED,
        // Asked where the rule is: reached.h.
        Cond::ReversePath(ReversePath::Reached) => 0,
        Cond::Any(tests) => tests.iter().map(bits_of_test).fold(0, |all, one| all | one),
        _ => 0,
    }
}

/// Whether a rule asks about flows, so that they must be kept.
fn asks_about_flows(policy: &Policy, rule: &Rule) -> bool {
    let by_test = rule.tests.iter().any(|test| tests_flows(policy, test));
    let by_op = rule.ops.iter().any(|op| {
        matches!(
            op,
            Op::SetConnmark { .. } | Op::SaveConnmark { .. } | Op::RestoreConnmark { .. }
        )
    });
    by_test || by_op
}

/// What an operation changes beyond the hook at which it is done.
fn bits_of_op(op: &Op) -> u32 {
    match op {
        Op::Notrack => hooks::HANDOFF,
        Op::SetMark { .. }
        | Op::RestoreConnmark { .. }
        | Op::SetDscp(_)
        | Op::SetTos { .. }
        | Op::Classify(_)
        | Op::Ttl(_)
        | Op::TcpMss(_) => hooks::HANDOFF | hooks::EGRESS,
        _ => 0,
    }
}

/// Whether an operation sets the packet's mark.
fn sets_mark(op: &Op) -> bool {
    matches!(op, Op::SetMark { .. } | Op::RestoreConnmark { .. })
}

/// Whether the calling thread's network namespace forwards IPv4 packets.
fn forwards() -> bool {
    let folder = std::fs::read_dir("/proc/sys/net/ipv4/conf");
    let switches = folder.into_iter().flatten().flatten();
    // What cannot be read is taken for on.
    switches
        .map(|entry| std::fs::read(entry.path().join("forwarding")))
        .any(|value| value.is_ok_and(|value| value.first() != Some(&b'0')))
}

/// The bits with what only the namespace knows: must be called inside it.
///
/// The kernel puts IPv4 fragments together for INPUT anyway. For a policy with rules only there,
/// asking for it earlier would cost every packet 20 ns for nothing, unless the namespace forwards.
/// Should it begin to forward later: FORWARD has nothing but its chain policy then, which says the
/// same about each fragment as about the whole, but counts the fragments.
pub fn settle(bits: u32) -> u32 {
    if bits & hooks::DEFRAGMENT_V4_FORWARDED != 0 && forwards() {
        bits | hooks::DEFRAGMENT_V4
    } else {
        bits
    }
}

/// What the rules of a policy need, so that it can be told what one more would.
#[derive(Clone, Debug)]
pub struct Needs {
    bits: u32,
    /// Families whose flows rules ask about.
    tracked: [bool; 2],
    /// Whether rules see packets that can be fragments when nobody puts them together first.
    fragments: bool,
    /// Where packets enter.
    roots: Vec<Root>,
}

impl Needs {
    /// Of a policy.
    pub fn of(policy: &Policy) -> Self {
        let enforced = |root: &&Root| !matches!(root.table, Table::Nat | Table::Security);
        let mut needs = Needs {
            bits: 0,
            tracked: [false; 2],
            fragments: false,
            roots: policy.roots.iter().filter(enforced).copied().collect(),
        };
        if policy.checks_source {
            needs.bits |= hooks::REVERSE_PATH;
        }
        needs.bits |= match policy.answers {
            Answers::Judged => 0,
            Answers::ResetsPass => hooks::RESETS_PASS,
            Answers::Pass => hooks::ANSWERS_PASS,
        };
        needs.bits |= match policy.reading {
            Reading::Linux => 0,
            Reading::Ipf => hooks::READS_IPF,
            Reading::Ipfw => hooks::READS_IPFW,
        };
        for root in needs.roots.clone() {
            needs.bits |= match root.is_of_frames() {
                true => hooks::FRAMES,
                false => hooks::bit(root.family, root.hook),
            };
            for rule in reachable(policy, root.chain) {
                needs.add(policy, &root, rule);
            }
        }
        needs
    }

    fn add(&mut self, policy: &Policy, root: &Root, rule: &Rule) {
        if root.is_of_frames() {
            // The programs for frames change packets themselves.
            let by_tests = rule.tests.iter().map(bits_of_test);
            self.bits |= by_tests.fold(0, |all, one| all | one);
            return;
        }
        let early = matches!(root.hook, Hook::Prerouting | Hook::Postrouting);
        self.fragments |= root.family == Family::V4 && root.hook != Hook::Input;
        if asks_about_flows(policy, rule) {
            self.tracked[root.family as usize] = true;
            self.bits |= hooks::TRACK | if early { hooks::EARLY_STATE } else { 0 };
        }
        // tcx ingress judges raw and mangle alone: a list of verdicts (ipf, ipfw) must meet its
        // packets at the hook itself.
        let early_table = matches!(root.table, Table::Raw | Table::Mangle);
        let steers = root.hook == Hook::Prerouting && early_table;
        if steers && rule.ops.iter().any(sets_mark) {
            self.bits |= hooks::INGRESS;
        }
        let by_tests = rule.tests.iter().map(bits_of_test);
        let by_ops = rule.ops.iter().map(bits_of_op);
        self.bits |= by_tests.chain(by_ops).fold(0, |all, one| all | one);
    }

    /// The bits, with one more rule in a chain of a family; a chain that is no root's own may be
    /// reached from each of the family's. `policy` is where the rule's histories are.
    pub fn with(&self, policy: &Policy, family: Family, chain: ChainId, rule: &Rule) -> u32 {
        let mut more = self.clone();
        let is_own = |root: &&Root| root.chain == chain;
        let own: Vec<&Root> = self.roots.iter().filter(is_own).collect();
        let of_family = self.roots.iter().filter(|root| root.family == family);
        let all = match own.is_empty() {
            true => of_family.collect(),
            false => own,
        };
        all.iter().for_each(|root| more.add(policy, root, rule));
        more.bits()
    }

    /// The bits.
    pub fn bits(&self) -> u32 {
        let mut bits = self.bits;
        for family in [Family::V4, Family::V6] {
            let everywhere = [Hook::Input, Hook::Forward, Hook::Output]
                .map(|hook| hooks::bit(family, hook))
                .into_iter()
                .fold(0, |all, one| all | one);
            if self.tracked[family as usize] {
                // A conversation is only known when both its directions are seen.
                bits |= everywhere;
                bits |= match family {
                    Family::V4 if self.fragments => hooks::DEFRAGMENT_V4,
                    Family::V4 => hooks::DEFRAGMENT_V4_FORWARDED,
                    Family::V6 => hooks::DEFRAGMENT_V6,
                };
            }
            if bits & hooks::bit(family, Hook::Postrouting) != 0 {
                // POSTROUTING takes up what these leave, and must not mistake it for another
                // packet's.
                bits |= hooks::bit(family, Hook::Forward) | hooks::bit(family, Hook::Output);
            }
        }
        bits | hooks::several(bits)
    }
}

/// The bits of a policy.
pub fn of(policy: &Policy) -> u32 {
    Needs::of(policy).bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts;
    use weir_policy::dialect::ipfw::{self, lower};
    use weir_policy::syntax::Sources;

    fn asked_with(rule: &str, ether_ipfw: bool) -> u32 {
        let mut sources = Sources::new();
        let id = sources.add("rules", rule);
        let settings = ipfw::Settings {
            ether_ipfw,
            ..ipfw::Settings::default()
        };
        let program = ipfw::read(rule, id, &ipfw::NoNames, settings);
        let options = lower::Options {
            frames: true,
            ..lower::Options::default()
        };
        let (policy, found) = lower::lower(&program.ruleset, &sources, options);
        of(&policy.unwrap_or_else(|| panic!("{found:?}")))
    }

    fn asked(rule: &str) -> u32 {
        asked_with(rule, false)
    }

    #[test]
    fn frames_need_their_own_programs_where_they_are_judged() {
        // The mark is set by frames alone: nothing is handed on to the way out.
        let rule = "add 100 setmark 1 ip from any to any layer2";
        let (off, on) = (asked_with(rule, false), asked_with(rule, true));
        assert_eq!(on, off | hooks::FRAMES);
        let places = hooks::places(on);
        assert_eq!(
            places,
            hooks::places(off),
            "frames are no hook of netfilter"
        );
        assert_eq!(parts::families(on) & parts::FRAMES, parts::FRAMES);
        assert_eq!(parts::families(off) & parts::FRAMES, 0);
        let asks = asked_with("add 100 deny ip from any to any layer2 not antispoof", true);
        assert_eq!(asks & hooks::NOT_SPOOFED, hooks::NOT_SPOOFED);
    }

    #[test]
    fn routing_is_asked_where_rules_ask() {
        let ways = hooks::WAY_BACK | hooks::NOT_SPOOFED | hooks::ROUTE_BACK_MARKED;
        for (rule, bits) in [
            ("add 100 deny ip from any to any in", 0),
            ("add 100 deny ip from any to any out not verrevpath", 0),
            (
                "add 100 deny ip from any to any not verrevpath",
                hooks::REVERSE_PATH,
            ),
            (
                "add 100 count udp from any to any { in or not antispoof }\n\
                 add 200 deny ip from any to any { antispoof or tcpflags syn } in",
                hooks::REVERSE_PATH | hooks::NOT_SPOOFED,
            ),
            ("add 100 deny ip from any to any not versrcreach", 0),
        ] {
            let found = asked(rule);
            assert_eq!(found & ways, bits, "{rule}");
            let program = parts::families(found) & parts::ROUTE_BACK != 0;
            assert_eq!(program, bits != 0, "{rule}");
        }
    }
}
