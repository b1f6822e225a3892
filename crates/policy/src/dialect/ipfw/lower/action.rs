//! What a matched rule does, as operations and control flow of the model.
//!
//! In: a rule's action, the value of its `tablearg`. Out: [`Tail`]s: further conditions,
//! operations, and where it leads; or why it can't be enforced.

use super::formula::{Conjunction, is};
use super::frames::Layer;
use super::literal::{Refused, refused};
use super::{Options, Piped};
use crate::dialect::ipfw::ast::{Action, Argument, Reject, Rule};
use crate::dialect::ipfw::command::{DummynetConfig, DummynetKind};
use crate::dialect::ipfw::{DEFAULT_RULE, Ruleset, shaping};
use crate::eval::ipfw::{Pass, proto};
use crate::model::{Cond, Family, MssOp, Op, RangeSet, RejectKind, Verdict};

const SYN: u8 = 2;
const RST: u8 = 4;

/// Where a rule leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To the next rule.
    Next,
    /// To the next rule, without an action and uncounted; logging and tags come before that.
    Nothing,
    /// The pass is decided.
    Verdict(Verdict),
    /// To the rule at a position.
    Position(usize),
    /// There, to come back behind the rule's number.
    Call(usize),
    /// Back from a call.
    Return,
}

/// One way in which an action ends.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    /// Further conditions.
    pub tests: Conjunction,
    /// Operations.
    pub ops: Vec<Op>,
    /// Where it leads.
    pub to: To,
}

fn to(to: To) -> Vec<Tail> {
    vec![Tail {
        tests: Vec::new(),
        ops: Vec::new(),
        to,
    }]
}

fn operation(op: Op) -> Vec<Tail> {
    vec![Tail {
        tests: Vec::new(),
        ops: vec![op],
        to: To::Next,
    }]
}

/// A rule whose action is looked at.
pub(super) struct Acting<'r> {
    /// The rule set.
    pub set: &'r Ruleset,
    /// The rule.
    pub rule: &'r Rule,
    /// What remembers packets of its pipe, where that is there.
    pub piped: Option<Piped>,
    /// Family of the packets.
    pub family: Family,
    /// Pass of the packets.
    pub pass: Pass,
    /// What `tablearg` is.
    pub value: u128,
    /// Inside a called range.
    pub called: bool,
    /// How to lower.
    pub options: Options,
    /// Of which layer the pass is.
    pub layer: Layer,
}

/// The position of the first rule with a number, or of the default rule.
pub(super) fn position(set: &Ruleset, number: u32) -> usize {
    let last = set.rules.len() - 1;
    set.position(number.min(DEFAULT_RULE)).min(last)
}

impl Acting<'_> {
    fn argument(&self, argument: Argument) -> u32 {
        match argument {
            Argument::Number(number) => number,
            Argument::TableArg => self.value as u32,
        }
    }

    /// The ends of an action, in the order in which they are tried.
    pub fn tails(&self, action: &Action) -> Result<Vec<Tail>, Refused> {
        if let Some(tails) = self.of_frames(action) {
            return Ok(tails);
        }
        Ok(match action {
            Action::Allow => to(To::Verdict(Verdict::Accept)),
            Action::Deny => to(To::Verdict(Verdict::Drop)),
            Action::Reject(kind) => self.reject(*kind)?,
            Action::Count => to(To::Next),
            // The look is made in front.
            Action::CheckState(_) => to(To::Nothing),
            Action::Skipto(number) => {
                let number = self.argument(*number).max(self.rule.number + 1);
                to(To::Position(position(self.set, number)))
            }
            Action::Call(number) => to(To::Call(position(self.set, self.argument(*number)))),
            Action::Return if self.called => to(To::Return),
            // Nobody called.
            Action::Return => to(To::Nothing),
            Action::SetDscp(code) => operation(Op::SetDscp(self.argument(*code) as u8 & 0x3f)),
            Action::SetMark(mark) => operation(Op::SetMark {
                value: self.argument(*mark),
                mask: u32::MAX,
            }),
            Action::TcpSetMss(mss) => self.segment_size(*mss),
            Action::Reass => match self.family {
                Family::V4 => to(To::Next),
                Family::V6 => to(To::Nothing),
            },
            Action::Pipe(number) => self.pipe(self.argument(*number))?,
            Action::Queue(number) => self.queue(self.argument(*number))?,
            // Refused where they are read. With leave to go on they do what the reference does.
            Action::Divert(_) | Action::Netgraph(_) | Action::Nat(_) => {
                to(To::Verdict(Verdict::Drop))
            }
            Action::Tee(_) | Action::Ngtee(_) | Action::SetFib(_) => to(To::Next),
            Action::Forward { .. } => to(To::Verdict(Verdict::Accept)),
            Action::External(..) => to(To::Nothing),
        })
    }

    /// What an action does with frames, where that is something else than with packets.
    fn of_frames(&self, action: &Action) -> Option<Vec<Tail>> {
        let bare = self.layer == Layer::Bare;
        match action {
            _ if self.layer == Layer::Network => None,
            // Such rules don't match at all.
            Action::Divert(_) | Action::Tee(_) | Action::Forward { .. } => Some(to(To::Nothing)),
            Action::SetDscp(_) | Action::TcpSetMss(_) | Action::Reass if bare => {
                Some(to(To::Nothing))
            }
            Action::Reject(_) if bare => Some(to(To::Verdict(Verdict::Drop))),
            _ => None,
        }
    }

    /// Only a SYN with the option is counted.
    fn segment_size(&self, mss: u16) -> Vec<Tail> {
        let mut tails = vec![Tail {
            tests: vec![
                is(Cond::Proto(RangeSet::one(proto::TCP))),
                is(Cond::TcpFlags {
                    mask: SYN,
                    value: SYN,
                }),
                is(Cond::TcpMss(RangeSet::range(0, u16::MAX))),
            ],
            ops: vec![Op::TcpMss(MssOp::Set(mss))],
            to: To::Next,
        }];
        tails.extend(to(To::Nothing));
        tails
    }

    /// Which answer a packet of this family gets. What is never answered (errors of ICMP, later
    /// fragments, multicasts) is the answering process's to know.
    fn reject(&self, kind: Reject) -> Result<Vec<Tail>, Refused> {
        let drop = || to(To::Verdict(Verdict::Drop));
        let icmp6 = |code| to(To::Verdict(Verdict::Reject(RejectKind::Icmp6(code))));
        Ok(match (kind, self.family) {
            (Reject::Unreach(_, Some(mtu)), Family::V4) if mtu > RejectKind::MTU_MAX => {
                return refused(
                    "an MTU above 32767 in `unreach needfrag`",
                    "write one that a packet can be too long for, or none",
                );
            }
            (Reject::Unreach(_, Some(mtu)), Family::V4) => to(To::Verdict(Verdict::Reject(
                RejectKind::FragmentationNeeded(mtu),
            ))),
            (Reject::Unreach(code, None), Family::V4) => {
                to(To::Verdict(Verdict::Reject(RejectKind::Icmp(code))))
            }
            // That ICMPv6 message tells of no MTU.
            (Reject::Unreach(code, _), Family::V6) => icmp6(code_of_six(code)),
            (Reject::Unreach6(code), Family::V6) => icmp6(code),
            (Reject::Unreach6(_) | Reject::Reset6, Family::V4) => drop(),
            (Reject::Reset, _) | (Reject::Reset6, Family::V6) => {
                let mut tails = vec![Tail {
                    tests: vec![
                        is(Cond::Proto(RangeSet::one(proto::TCP))),
                        is(Cond::TcpFlags {
                            mask: RST,
                            value: 0,
                        }),
                    ],
                    ops: Vec::new(),
                    to: To::Verdict(Verdict::Reject(RejectKind::TcpReset)),
                }];
                tails.extend(drop());
                tails
            }
            (Reject::Abort | Reject::Abort6, _) => {
                return refused("`abort` of SCTP", "use `deny`, or `unreach` with a code");
            }
        })
    }

    /// Into a pipe: what finds no room in its queue is dropped, what passes may have to wait.
    fn pipe(&self, number: u32) -> Result<Vec<Tail>, Refused> {
        let drop = to(To::Verdict(Verdict::Drop));
        let config = self.set.dummynet.get(&(DummynetKind::Pipe, number));
        let (Some(config), Some(piped)) = (config, self.piped) else {
            return Ok(drop);
        };
        self.refuse(shaping::check_pipe(config))?;
        let mut tails = Vec::new();
        if let Some(loss) = piped.loss {
            tails.push(Tail {
                tests: vec![is(Cond::History(loss))],
                ops: Vec::new(),
                to: To::Verdict(Verdict::Drop),
            });
        }
        tails.push(Tail {
            tests: vec![is(Cond::History(piped.queue))],
            ..self.waiting(config)
        });
        tails.extend(drop);
        Ok(tails)
    }

    /// Into a queue: it waits in a class, and is dropped there.
    fn queue(&self, number: u32) -> Result<Vec<Tail>, Refused> {
        let Some(config) = self.set.dummynet.get(&(DummynetKind::Queue, number)) else {
            return Ok(to(To::Verdict(Verdict::Drop)));
        };
        let shared = shaping::check_shared(self.set, config);
        let place = shared.and_then(|pipe| {
            shaping::check_place(self.set, pipe.number)?;
            match self.pass {
                Pass::Out => Ok(()),
                Pass::In => Err((
                    "a `queue` on the input pass, where nothing waits,".to_owned(),
                    "write `out xmit IF` in the rule",
                )),
            }
        });
        self.refuse(place)?;
        Ok(vec![self.waiting(config)])
    }

    /// Out of a pipe or queue.
    fn waiting(&self, config: &DummynetConfig) -> Tail {
        let class = shaping::class(config).filter(|_| self.pass == Pass::Out);
        Tail {
            tests: Vec::new(),
            ops: class.map(Op::Classify).into_iter().collect(),
            to: match self.set.settings.one_pass {
                true => To::Verdict(Verdict::Accept),
                false => To::Next,
            },
        }
    }

    fn refuse(&self, found: Result<(), shaping::Cannot>) -> Result<(), Refused> {
        match found {
            Err((what, help)) if !self.options.allow_unsupported => refused(what, help),
            _ => Ok(()),
        }
    }
}

/// RFC 7915 section 4.2: codes of unreachable messages from ICMP to ICMPv6.
fn code_of_six(code: u8) -> u8 {
    const NO_ROUTE: u8 = 0;
    const ADMINISTRATIVELY_PROHIBITED: u8 = 1;
    const PORT: u8 = 4;
    match code {
        0 | 1 | 5 | 6 | 7 | 11 | 12 => NO_ROUTE,
        3 => PORT,
        _ => ADMINISTRATIVELY_PROHIBITED,
    }
}
