//! What actions do: verdicts, jumps, changes to the packet, log lines.
//!
//! In: a rule whose patterns hold. Out: where evaluation goes on, or the outcome.

use super::judgement::{Effect, Outcome};
use super::packet::{Packet, Upper, proto};
use super::{CALLS_MAX, Carried, Evaluator, Found, Looked, Next, Walk, patterns};
use crate::dialect::ipfw::ast::{Action, Argument, Reject, ValueType};
use crate::dialect::ipfw::command::{DummynetConfig, DummynetKind};
use crate::dialect::ipfw::log::{self, LogFragment, LogPacket};
use crate::dialect::ipfw::{DEFAULT_RULE, LoadedRule, shaping};
use crate::eval::history::flow_of;
use crate::model::Family;

const SYN: u8 = 2;
const RST: u8 = 4;

/// `tag` and `untag`.
pub(super) fn tag(carried: &mut Carried, loaded: &LoadedRule, found: &Found) {
    if let Some(tag) = loaded.rule.tag {
        let number = found.argument(tag.tag, ValueType::Tag);
        match tag.remove {
            true => carried.tags.remove(&number),
            false => carried.tags.insert(number),
        };
    }
}

impl Evaluator<'_> {
    /// Carries out the action of the rule at a position.
    pub(super) fn act(&mut self, walk: &mut Walk<'_>, position: usize) -> Next {
        let ruleset = self.ruleset;
        let loaded = &ruleset.rules[position];
        let action = &loaded.rule.action;
        match action {
            Action::Allow => self.done(walk, loaded, Outcome::Accept),
            Action::Deny | Action::Netgraph(_) | Action::Nat(_) => {
                self.done(walk, loaded, Outcome::Deny)
            }
            Action::Reject(kind) => {
                let outcome = Outcome::Reject {
                    kind: *kind,
                    answered: answered(walk, *kind),
                };
                self.done(walk, loaded, outcome)
            }
            Action::Count | Action::Ngtee(_) => self.go_on(walk, loaded),
            Action::CheckState(name) => match self.look(walk, name.as_deref()) {
                Some(parent) => Next::State(parent),
                None => Next::Rule,
            },
            Action::Skipto(to) => self.skip_to(walk, loaded, *to),
            Action::Call(to) => self.call(walk, loaded, *to),
            Action::Return => self.come_back(walk, loaded),
            Action::Divert(_) if walk.packet.layer2 => Next::Rule,
            // Nobody listens at divert sockets here.
            Action::Divert(_) => self.done(walk, loaded, Outcome::Deny),
            Action::Tee(_) | Action::Forward { .. } if walk.packet.layer2 => Next::Rule,
            Action::Tee(_) => self.go_on(walk, loaded),
            Action::Forward { .. } => self.done(walk, loaded, Outcome::Accept),
            Action::Pipe(number) => self.shape(walk, loaded, DummynetKind::Pipe, *number),
            Action::Queue(number) => self.shape(walk, loaded, DummynetKind::Queue, *number),
            Action::SetFib(fib) => {
                let fib = walk.found.argument(*fib, ValueType::Fib) & 0x7fff;
                walk.carried.fib = if fib >= ruleset.settings.fibs { 0 } else { fib };
                self.go_on(walk, loaded)
            }
            Action::SetDscp(code) => {
                if walk.packet.ip.is_none() {
                    return Next::Rule;
                }
                let code = walk.found.argument(*code, ValueType::Dscp) as u8 & 0x3f;
                walk.carried.tos = code << 2 | walk.carried.tos & 3;
                self.go_on(walk, loaded)
            }
            Action::SetMark(mark) => {
                walk.carried.mark = walk.found.argument(*mark, ValueType::Mark);
                self.go_on(walk, loaded)
            }
            Action::TcpSetMss(mss) => self.set_mss(walk, loaded, *mss),
            Action::Reass => match walk.packet.ip.as_ref().map(|ip| ip.family) {
                Some(Family::V4) => self.go_on(walk, loaded),
                _ => Next::Rule,
            },
            Action::External(..) => Next::Rule,
        }
    }

    fn done(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, outcome: Outcome) -> Next {
        self.count(walk, loaded, Effect::Action(loaded.rule.action.clone()));
        walk.judgement.rule = Some(loaded.id);
        Next::Done(outcome)
    }

    fn go_on(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule) -> Next {
        self.count(walk, loaded, Effect::Action(loaded.rule.action.clone()));
        Next::Rule
    }

    /// The position of a rule by number; behind the last there is the default rule.
    fn target(&self, number: u32) -> usize {
        let last = self.ruleset.rules.len() - 1;
        self.ruleset.position(number.min(DEFAULT_RULE)).min(last)
    }

    fn skip_to(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, to: Argument) -> Next {
        self.count(walk, loaded, Effect::Action(loaded.rule.action.clone()));
        let number = walk.found.argument(to, ValueType::Skipto);
        // Never back, and never to itself.
        Next::Jump(self.target(number.max(loaded.rule.number + 1)))
    }

    fn call(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, to: Argument) -> Next {
        if walk.carried.calls.len() >= CALLS_MAX {
            return Next::Rule;
        }
        self.count(walk, loaded, Effect::Action(loaded.rule.action.clone()));
        let number = walk.found.argument(to, ValueType::Skipto);
        let behind = loaded.rule.number.max(walk.looked_at);
        walk.carried.calls.push(behind);
        Next::Jump(self.target(number))
    }

    fn come_back(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule) -> Next {
        let Some(caller) = walk.carried.calls.pop() else {
            return Next::Rule;
        };
        self.count(walk, loaded, Effect::Action(loaded.rule.action.clone()));
        Next::Jump(self.target(caller + 1))
    }

    /// A pipe or queue takes the packet. One that isn't configured drops it.
    fn shape(
        &mut self,
        walk: &mut Walk<'_>,
        loaded: &LoadedRule,
        kind: DummynetKind,
        number: Argument,
    ) -> Next {
        let number = walk.found.argument(number, ValueType::Pipe);
        let ruleset = self.ruleset;
        let Some(config) = ruleset.dummynet.get(&(kind, number)) else {
            return self.done(walk, loaded, Outcome::Deny);
        };
        walk.judgement.shaped = Some((kind == DummynetKind::Pipe, number));
        if kind == DummynetKind::Pipe && !self.finds_room(walk, config) {
            return self.done(walk, loaded, Outcome::Deny);
        }
        if self.ruleset.settings.one_pass {
            return self.done(walk, loaded, Outcome::Accept);
        }
        // It comes out of the pipe as a packet that nobody has looked states up for.
        walk.looked = Looked::default();
        self.go_on(walk, loaded)
    }

    /// Whether a pipe takes a packet: it is not lost, and its queue has room.
    fn finds_room(&mut self, walk: &Walk<'_>, config: &DummynetConfig) -> bool {
        let units = shaping::loss(config).unwrap_or(0);
        if units != 0 && self.next_random() & 0x7fff_ffff < u64::from(units) {
            return false;
        }
        let packet = walk.packet;
        let ip = packet.ip.as_ref();
        let (src, dst) = packet.ports().unwrap_or((0, 0));
        let meter = shaping::meter(config);
        let flow = flow_of(
            &meter,
            ip.map_or(Family::V4, |ip| ip.family),
            ip.map_or([0; 2], |ip| [ip.src, ip.dst]),
            [src, dst],
            packet.proto(),
        );
        let queues = self.pipes.entry(config.number).or_default();
        queues.take(&meter, flow, packet.bytes, walk.now_ms)
    }

    fn set_mss(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule, mss: u16) -> Next {
        let tcp = walk.packet.tcp().filter(|tcp| tcp.flags & SYN != 0);
        let options = tcp.and_then(|tcp| tcp.options.as_deref());
        let Some(current) = options.and_then(|options| patterns::tcp_options(options).1) else {
            return Next::Rule;
        };
        let current = walk.carried.mss.unwrap_or(current);
        if current > mss {
            walk.carried.mss = Some(mss);
        }
        // The original forgets the result of looking states up after such an action.
        walk.looked = Looked::default();
        self.go_on(walk, loaded)
    }

    pub(super) fn log(&mut self, walk: &mut Walk<'_>, loaded: &LoadedRule) {
        let default = self.ruleset.settings.verbose_limit;
        let Some(log) = &loaded.rule.log else {
            return;
        };
        let limit = log.amount.unwrap_or(default);
        let logged = &mut self.logged[loaded.id.0 as usize];
        if limit != 0 && *logged >= limit {
            return;
        }
        *logged = logged.saturating_add(1);
        let reached = *logged == limit;
        let number = loaded.rule.number;
        let tablearg = walk.found.of_action(&loaded.rule.action);
        let packet = log_packet(walk.packet);
        walk.judgement
            .log
            .push(log::line(number, &loaded.rule.action, tablearg, &packet));
        if limit != 0 && reached {
            walk.judgement.log.push(log::limit_line(number, limit));
        }
    }

    /// Lets all rules log again.
    pub fn reset_log(&mut self) {
        self.logged.fill(0);
    }
}

/// What a log line needs of a packet.
#[must_use]
pub fn log_packet(packet: &Packet) -> LogPacket {
    let ip = packet.ip.as_ref();
    let whole = ip.filter(|ip| ip.offset == 0);
    LogPacket {
        family: ip.map(|ip| ip.family),
        src: ip.map_or(0, |ip| ip.src),
        dst: ip.map_or(0, |ip| ip.dst),
        proto: packet.proto(),
        ports: whole.and_then(|_| packet.ports()),
        icmp: whole.and_then(|ip| match ip.upper {
            Upper::Icmp(kind, code) => Some((kind, code)),
            _ => None,
        }),
        fragment: ip
            .filter(|ip| ip.offset != 0 || ip.more)
            .map(|ip| LogFragment {
                id: ip.id,
                payload: u32::from(ip.length.saturating_sub(ip.header)),
                offset: u32::from(ip.offset) * 8,
                more: ip.more,
            }),
        out: packet.pass == super::Pass::Out,
        interface: packet.interface().to_owned(),
    }
}

/// Whether a rejected packet is answered: not ICMP errors, later fragments, multicasts and
/// broadcasts, and no reset for a reset.
fn answered(walk: &Walk<'_>, kind: Reject) -> bool {
    let packet = walk.packet;
    let Some(ip) = &packet.ip else {
        return false;
    };
    let multicast = match ip.family {
        Family::V4 => ip.dst >> 28 == 0xe,
        Family::V6 => ip.dst >> 120 == 0xff,
    };
    if ip.offset != 0 || multicast || packet.to_many {
        return false;
    }
    let six_only = matches!(kind, Reject::Unreach6(_) | Reject::Reset6 | Reject::Abort6);
    if six_only && ip.family == Family::V4 {
        return false;
    }
    let unreachable = matches!(kind, Reject::Unreach(..) | Reject::Unreach6(_));
    if let (Upper::Icmp(icmp, _), true) = (&ip.upper, unreachable) {
        let icmp = *icmp;
        return match ip.proto {
            proto::ICMP => matches!(icmp, 8 | 10 | 13 | 15 | 17),
            _ => matches!(icmp, 128 | 130 | 139),
        };
    }
    match kind {
        Reject::Reset | Reject::Reset6 => packet.tcp().is_some_and(|tcp| tcp.flags & RST == 0),
        Reject::Abort | Reject::Abort6 => ip.proto == proto::SCTP,
        Reject::Unreach(..) | Reject::Unreach6(_) => true,
    }
}
