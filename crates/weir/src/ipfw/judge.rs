//! Captured frames to passes, and passes to verdicts.
//!
//! In: frames, and what the user said of the capture. Out: for each frame its judgement: one pass
//! in its direction, or the input and the output pass of a forwarded packet whose capture doesn't
//! tell the direction.

use super::index::Index;
use crate::capture::{Frame, Given, Way, journey};
use weir_engine::packet::ipfw::{Met, Read, frame, read};
use weir_policy::eval::ipfw::{
    Among, Carried, Evaluator, Judgement, Outcome, Packet, Pass, Unjudged,
};
use weir_policy::model::{Family, Hook, PacketType};

/// One pass.
pub struct Passed {
    /// Which.
    pub pass: Pass,
    /// That of the link layer, told on its own.
    pub frame: bool,
    /// Its interface.
    pub interface: String,
    /// What became of the packet.
    pub judgement: Judgement,
}

impl Passed {
    fn stops(&self) -> bool {
        self.judgement.outcome != Outcome::Accept
    }
}

/// A frame's way.
pub struct Judged {
    /// Its passes, in order; never empty.
    pub passes: Vec<Passed>,
    /// What the packet carried at the end.
    pub carried: Carried,
}

impl Judged {
    /// The pass that decided.
    pub fn last(&self) -> &Passed {
        match self.passes.last() {
            Some(last) => last,
            None => unreachable!("a packet passes at least once"),
        }
    }
}

/// The word of an outcome in JSON.
pub fn verdict_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accept => "accept",
        Outcome::Deny => "drop",
        Outcome::Reject { .. } => "reject",
    }
}

/// Which passes a frame makes, with its interfaces.
fn passes_of(frame: &Frame, given: &Given) -> (Vec<Pass>, String, String) {
    let way = journey(frame, given);
    let told = frame.way.filter(|_| given.hook.is_none());
    let passes = match (told, way.hook) {
        (Some(Way::In), _) => vec![Pass::In],
        (Some(Way::Out), _) => vec![Pass::Out],
        (None, hook) => Packet::passes(hook).to_vec(),
    };
    let (recv, mut xmit) = (way.in_iface, way.out_iface);
    if xmit.is_empty() && passes == [Pass::Out] {
        xmit = frame.interface.clone().unwrap_or_default();
    }
    (passes, recv, xmit)
}

/// The evaluator, and what knows which rules a packet can match.
pub struct Judge<'j> {
    /// The meaning.
    pub evaluator: Evaluator<'j>,
    /// Leaves rules out that can't match; without it all are walked.
    pub index: Option<Index<'j>>,
}

/// Judges a frame; the error says why there is nothing to judge. One without an IP packet has the
/// frame's pass alone, if frames are judged.
pub fn judge(
    judge: &mut Judge<'_>,
    captured: &Frame,
    given: &Given,
    now_ms: u64,
) -> Result<Judged, &'static str> {
    let (passes, recv, xmit) = passes_of(captured, given);
    let link = captured.link().map(|link| link.0);
    let mut met = Met {
        pass: Pass::In,
        recv,
        xmit,
        frame: None,
        to_many: link
            .is_some_and(|link| matches!(link.kind, PacketType::Broadcast | PacketType::Multicast)),
    };
    let mut walk = Walked {
        now_ms,
        carried: None,
        passes: Vec::new(),
    };
    for pass in &passes {
        met.pass = *pass;
        // What was captured of a forwarded packet is the frame that it came in.
        let told = passes.len() == 1 || *pass == Pass::In;
        met.frame = link.filter(|_| told).and_then(|link| link.frame);
        if !walk.one_pass(judge, captured, &met)? {
            break;
        }
    }
    match walk.passes.is_empty() {
        true => Err("no pass"),
        false => Ok(Judged {
            passes: walk.passes,
            carried: walk.carried.unwrap_or_default(),
        }),
    }
}

/// A captured packet on its way.
struct Walked {
    now_ms: u64,
    carried: Option<Carried>,
    passes: Vec<Passed>,
}

impl Walked {
    /// One pass: of a received packet its frame first, of a sent one last. Whether it goes on.
    fn one_pass(
        &mut self,
        judge: &mut Judge<'_>,
        captured: &Frame,
        met: &Met,
    ) -> Result<bool, &'static str> {
        let settings = &judge.evaluator.ruleset().settings;
        let network = captured.content.as_ref();
        let bytes = captured.link().map_or(0, |link| link.1);
        let inside = match network {
            Ok(network) => match read(&network.bytes, network.wire, met, settings) {
                Read::Packet(packet) => Ok(*packet),
                Read::Dropped(why) => return Ok(self.add(met, false, Judgement::dropped(why))),
                Read::NotIp => Err("no valid IP header"),
            },
            Err(reason) => Err(*reason),
        };
        let link = settings.ether_ipfw && met.frame.is_some();
        let outer = link.then(|| frame(met, bytes, inside.clone().ok()));
        let mut views = match inside {
            Ok(packet) => vec![packet],
            // Nobody forwards what holds no packet.
            Err(_) if outer.is_none() && !self.passes.is_empty() => return Ok(false),
            Err(reason) if outer.is_none() => return Err(reason),
            Err(_) => Vec::new(),
        };
        match met.pass {
            Pass::In => views.splice(0..0, outer).for_each(drop),
            Pass::Out => views.extend(outer),
        }
        for view in &views {
            let carried = self.carried.get_or_insert_with(|| Carried::of(view));
            let index = judge.index.as_mut().filter(|_| !view.layer2);
            let among = index.map_or_else(Among::default, |index| index.among(view));
            let evaluator = &mut judge.evaluator;
            let judgement = evaluator.judge_among(view, carried, self.now_ms, &among);
            if !self.add(met, view.layer2, judgement) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes what became of it; whether it goes on.
    fn add(&mut self, met: &Met, frame: bool, judgement: Judgement) -> bool {
        let passed = Passed {
            pass: met.pass,
            frame,
            interface: match met.pass {
                Pass::In => met.recv.clone(),
                Pass::Out => met.xmit.clone(),
            },
            judgement,
        };
        let goes_on = !passed.stops();
        self.passes.push(passed);
        goes_on
    }
}

/// A packet in words as the link layer sees it. Words give the sender's address alone: the other
/// is that of broadcasts, or 0.
fn frame_of(packet: &weir_policy::model::Packet, seen: &Packet) -> Option<Packet> {
    let source = packet.mac?;
    let destination = match packet.packet_type {
        PacketType::Broadcast => [0xff; 6],
        _ => [0; 6],
    };
    let kind = match packet.family {
        Family::V4 => 0x0800,
        Family::V6 => 0x86dd,
    };
    Some(Packet {
        layer2: true,
        frame: Some((destination, source, kind)),
        ..seen.clone()
    })
}

/// Judges a packet in words at its hook; with `net.link.ether.ipfw=1` the frame that its hardware
/// address is of as well, a received one before it, a sent one behind.
pub fn judge_packet(
    evaluator: &mut Evaluator<'_>,
    packet: &weir_policy::model::Packet,
    hook: Hook,
    now_ms: u64,
) -> Judged {
    let mut passes: Vec<Passed> = Vec::new();
    let mut carried = None;
    let ether = evaluator.ruleset().settings.ether_ipfw;
    for &pass in Packet::passes(hook) {
        let Some(seen) = Packet::of(packet, pass) else {
            passes.push(Passed {
                pass,
                frame: false,
                interface: String::new(),
                judgement: Judgement::dropped(Unjudged::CutShort),
            });
            break;
        };
        let carried = carried.get_or_insert_with(|| {
            let mut carried = Carried::of(&seen);
            carried.mark = packet.mark;
            carried
        });
        // A forwarded packet leaves in a frame whose addresses nobody told.
        let told = ether && (pass == Pass::In || hook == Hook::Output);
        let frame = frame_of(packet, &seen).filter(|_| told);
        let mut views: Vec<Packet> = frame.into_iter().collect();
        views.push(seen);
        if pass == Pass::Out {
            views.reverse();
        }
        for view in views {
            passes.push(Passed {
                pass,
                frame: view.layer2,
                interface: view.interface().to_owned(),
                judgement: evaluator.judge(&view, carried, now_ms),
            });
            if passes.last().is_some_and(Passed::stops) {
                break;
            }
        }
        if passes.last().is_some_and(Passed::stops) {
            break;
        }
    }
    Judged {
        passes,
        carried: carried.unwrap_or_default(),
    }
}
