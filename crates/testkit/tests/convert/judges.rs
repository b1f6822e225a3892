//! A packet's way through the host, judged in the words of one language.

use super::texts::{Rules, Texts};
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{Arrival, build, packet};
use weir_policy::convert::Language;
use weir_policy::dialect::ipfw::ast::Reject;
use weir_policy::eval::ipf::{Evaluator as Ipf, Outcome, Settings};
use weir_policy::eval::ipfw::{Carried, Evaluator as Ipfw, Outcome as Acted, Pass};
use weir_policy::eval::{Evaluator, Passage, Path};
use weir_policy::model::{Family, Packet, Reading, RejectKind, Transport, Verdict};

/// The RST flag.
const RST: u8 = 4;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It passes.
    Accepts,
    /// It is dropped.
    Drops,
    /// It is answered with a reset.
    Resets,
    /// It is answered with ICMP.
    Unreachable,
    /// It doesn't pass, and is no packet that anybody answers (RFC 1122, 3.2.2): an ICMP error, a
    /// multicast, a reset, a later fragment. Of ICMP answers only ipfw's evaluator says so itself.
    Refuses,
}

impl Said {
    /// Whether two languages say the same.
    pub fn agrees(self, other: Said) -> bool {
        match (self, other) {
            (Said::Refuses, other) | (other, Said::Refuses) => other != Said::Accepts,
            (one, other) => one == other,
        }
    }
}

/// The evaluator of a language.
pub enum Judges<'t> {
    /// IPFilter's.
    Ipf(Box<Ipf<'t>>),
    /// ipfw's.
    Ipfw(Box<Ipfw<'t>>, &'t Texts),
    /// The model's.
    Iptables(Box<Evaluator<'t>>),
}

impl<'t> Judges<'t> {
    /// For some texts.
    pub fn new(texts: &'t Texts) -> Self {
        match &texts.rules {
            Rules::Ipf(set, tables) => {
                Judges::Ipf(Box::new(Ipf::new(set, tables.clone(), Settings::default())))
            }
            Rules::Ipfw(set) => Judges::Ipfw(Box::new(Ipfw::new(set)), texts),
            Rules::Iptables => {
                assert_eq!(texts.language, Language::Iptables);
                Judges::Iptables(Box::new(Evaluator::new(&texts.policy, 0)))
            }
        }
    }

    /// What becomes of a packet on a way; `None` where the language reads it otherwise.
    pub fn judge(&mut self, made: &Packet, path: Path) -> Option<Said> {
        let said = self.outcome(made, path)?;
        let may_be_reset =
            matches!(made.transport, Transport::Tcp { flags, .. } if flags & RST == 0);
        Some(match said {
            Said::Resets if !may_be_reset => Said::Refuses,
            said => said,
        })
    }

    fn outcome(&mut self, made: &Packet, path: Path) -> Option<Said> {
        match self {
            Judges::Iptables(evaluator) => Some(by_chains(evaluator, made, path)),
            Judges::Ipf(_) | Judges::Ipfw(..) => {
                let (passes, none): (&[Pass], _) = match path {
                    Path::Input => (&[Pass::In], Said::Accepts),
                    Path::Forward => (&[Pass::In, Pass::Out], Said::Accepts),
                    Path::Output => (&[Pass::Out], Said::Accepts),
                };
                for &pass in passes {
                    let said = self.pass(made, pass, path)?;
                    if said != none {
                        return Some(said);
                    }
                }
                Some(none)
            }
        }
    }

    fn pass(&mut self, made: &Packet, pass: Pass, path: Path) -> Option<Said> {
        let bytes = build(made, usize::MAX).ok()?;
        let met = packet(
            &bytes,
            bytes.len() as u32,
            &Arrival::of(made),
            Reading::Linux,
        )?;
        let interface = match pass {
            Pass::In => &met.in_iface,
            Pass::Out => &met.out_iface,
        };
        match self {
            Judges::Ipf(evaluator) => {
                let own = ipf_packet(&bytes, pass == Pass::Out, interface, LinkClass::default());
                let judged = evaluator.judge(&own, 1_000);
                Some(match (judged.outcome, judged.passes) {
                    (Outcome::BadPacket, _) => return None,
                    (_, true) => Said::Accepts,
                    (Outcome::BlockReturnRst, _) if own.proto == 6 && pass == Pass::In => {
                        Said::Resets
                    }
                    (Outcome::BlockReturnIcmp, _) if pass == Pass::In => Said::Unreachable,
                    _ => Said::Drops,
                })
            }
            Judges::Ipfw(evaluator, texts) => {
                let Rules::Ipfw(set) = &texts.rules else {
                    return None;
                };
                let place = Met {
                    pass,
                    recv: if path == Path::Output {
                        String::new()
                    } else {
                        met.in_iface.clone()
                    },
                    xmit: if pass == Pass::Out {
                        met.out_iface.clone()
                    } else {
                        String::new()
                    },
                    frame: None,
                    to_many: false,
                };
                let Read::Packet(own) = read(&bytes, bytes.len() as u32, &place, &set.settings)
                else {
                    return None;
                };
                let mut carried = Carried::of(&own);
                let judged = evaluator.judge(&own, &mut carried, 1_000);
                Some(match judged.outcome {
                    Acted::Accept => Said::Accepts,
                    Acted::Deny => Said::Drops,
                    Acted::Reject { kind, answered } => match (kind, answered) {
                        (Reject::Abort | Reject::Abort6, _) => return None,
                        (_, false) => Said::Refuses,
                        (Reject::Reset | Reject::Reset6, true) => Said::Resets,
                        _ => Said::Unreachable,
                    },
                })
            }
            Judges::Iptables(_) => None,
        }
    }
}

fn by_chains(evaluator: &mut Evaluator<'_>, made: &Packet, path: Path) -> Said {
    let bytes = build(made, usize::MAX).expect("a settled packet can be built");
    let met = packet(
        &bytes,
        bytes.len() as u32,
        &Arrival::of(made),
        Reading::Linux,
    )
    .expect("it parses");
    let mut passage = Passage::of(&met);
    for &hook in Evaluator::hooks(path) {
        let judged = evaluator.judge(&met.at(hook), &mut passage, 1_000);
        match (judged.verdict, met.family) {
            (Verdict::Accept, _) => {}
            (Verdict::Drop, _) => return Said::Drops,
            (Verdict::Reject(RejectKind::TcpReset), _) if met.proto == 6 => return Said::Resets,
            (Verdict::Reject(_), Family::V4 | Family::V6) => return Said::Unreachable,
        }
    }
    Said::Accepts
}
