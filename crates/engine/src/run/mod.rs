//! A packet through an image in user space: verdict, marks, operations, counters.
//!
//! In: a checked image, a packet, what earlier hooks left ([`weir_policy::eval::Passage`]), and
//! what remembers ([`Live`]). Out: an [`Outcome`]. The same steps as `plane/bpf/walk.h`; the
//! meaning is `policy::eval`'s.

mod aside;
mod matching;
mod reference;
mod test;

pub use matching::{Matched, Matcher, Matching};
pub use reference::Reference;

use crate::image::layout::{self, Entry, Op, REJECT_MTU, VERDICT_HOT_DROP, root_number};
use crate::image::{Error, Image};
use crate::lookup::{Key, Lookup};
use test::Answer;
use weir_policy::eval::Passage;
use weir_policy::model::{
    Counters, CtState, Direction, DynamicTest, Family, Hook, IcmpHeadTest, IpfWith, Packet,
    RejectKind, Root, RuleId, Table, Transport, Verdict,
};

/// The flow of the packet being judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Protocol.
    pub proto: u8,
    /// Addresses and ports by direction (original, reply): source, destination.
    pub address: [[u128; 2]; 2],
    /// Ports in the same order.
    pub port: [[u16; 2]; 2],
    /// Status bits: 1 EXPECTED, 2 SEEN_REPLY, 4 ASSURED, 8 CONFIRMED.
    pub status: u8,
    /// Seconds to expiry.
    pub expires: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Mark.
    pub mark: u32,
}

/// What a state says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The rule that made it.
    pub rule: RuleId,
    /// Its verdict.
    pub verdict: Verdict,
    /// The packet counts at that rule.
    pub counts: bool,
    /// The packet is logged.
    pub logs: bool,
}

/// What remembers packets, and what only the host knows.
pub trait Live {
    /// Connection tracking looks at a packet before the rules.
    fn look(&mut self, packet: &Packet, now_ms: u64) -> CtState;
    /// The packet was accepted by the last hook.
    fn confirm(&mut self, packet: &Packet, now_ms: u64);
    /// The flow of the packet last looked at.
    fn flow(&self, now_ms: u64) -> Option<Flow>;
    /// Sets that flow's mark.
    fn set_connmark(&mut self, mark: u32);
    /// Tests, and so touches, a history.
    fn history(&mut self, id: u32, packet: &Packet, now_ms: u64) -> bool;
    /// Whether the packet belongs to a learned state, which notes it.
    fn learned(&mut self, packet: &Packet, passage: &Passage, now_ms: u64) -> bool;
    /// Whether the last look found a state but for its window.
    fn is_out_of_window(&self) -> bool;
    /// Whether a packet has what IPFilter's `with` asks for.
    fn ipf_with(&self, with: &IpfWith, packet: &Packet, passage: &Passage) -> Option<bool>;
    /// Answers a question about an ICMP error that a group judges, but for the verdict that stands.
    fn icmp_head(
        &mut self,
        test: IcmpHeadTest,
        packet: &Packet,
        passage: &Passage,
        now_ms: u64,
    ) -> bool;
    /// Makes a state of a learner; whether that was possible.
    fn learn(&mut self, id: u32, packet: &Packet, passage: &Passage, now_ms: u64) -> bool;
    /// Answers a question about ipfw's states.
    fn dynamic(&mut self, test: DynamicTest, packet: &Packet, now_ms: u64) -> bool;
    /// What the learner says of the packet whose state was found.
    fn as_learned(&self, packet: &Packet) -> Option<Learned>;
    /// The routing type of an address: 1 local, 2 broadcast, 4 multicast, 8 unicast.
    fn address_type(&self, family: Family, address: u128) -> u32;
}

/// What one hook decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The verdict; accept where the policy has no root.
    pub verdict: Verdict,
    /// The rule or chain policy that gave it.
    pub decided_by: Option<RuleId>,
    /// Whether the packet was dropped for a transport header cut short.
    pub hot_drop: bool,
    /// Rules that counted, in order.
    pub matched: Vec<RuleId>,
    /// Operations carried out: rule and number within the rule.
    pub ops: Vec<(RuleId, u16)>,
    /// Packet mark afterwards.
    pub mark: u32,
    /// TOS byte afterwards.
    pub tos: u8,
    /// Connection state as the last table saw it.
    pub state: CtState,
    /// Entries met.
    pub steps: u32,
}

/// Runs packets through an image.
#[derive(Debug)]
pub struct Runner<'b> {
    image: Image<'b>,
    patterns: Vec<layout::Pattern>,
    /// Counters by rule.
    pub counters: Vec<Counters>,
    /// When the image was loaded; entries of sets live from then.
    pub loaded_ms: u64,
}

impl<'b> Runner<'b> {
    /// A runner with zero counters over image bytes.
    pub fn new(bytes: &'b [u8], now_ms: u64) -> Result<Self, Error> {
        let image = Image::from_bytes(bytes)?;
        let header = image.header();
        let pattern =
            |at: u32| image.read(header.patterns_at + at * size_of::<layout::Pattern>() as u32);
        Ok(Runner {
            patterns: (0..header.patterns).map(pattern).collect(),
            counters: vec![Counters::default(); header.rule_count as usize],
            loaded_ms: now_ms,
            image,
        })
    }

    /// The image.
    pub fn image(&self) -> &Image<'b> {
        &self.image
    }

    /// The class of an interface name.
    pub fn interface_class(&self, name: &str) -> u16 {
        let mut padded = [0u8; 16];
        let name = &name.as_bytes()[..name.len().min(15)];
        padded[..name.len()].copy_from_slice(name);
        let matches = |pattern: &layout::Pattern| {
            let bytes = padded.iter().zip(&pattern.mask);
            bytes
                .zip(&pattern.name)
                .all(|((byte, mask), own)| byte & mask == *own)
        };
        self.patterns
            .iter()
            .position(matches)
            .map_or(0, |at| at as u16 + 1)
    }

    /// Judges a packet at its hook.
    pub fn judge(
        &mut self,
        packet: &Packet,
        passage: &mut Passage,
        live: &mut impl Live,
        now_ms: u64,
    ) -> Outcome {
        let mut out = Outcome {
            verdict: Verdict::Accept,
            decided_by: None,
            hot_drop: false,
            matched: Vec::new(),
            ops: Vec::new(),
            mark: passage.mark,
            tos: passage.tos,
            state: CtState::Invalid,
            steps: 0,
        };
        for table in [Table::Raw, Table::Mangle, Table::Filter] {
            if table != Table::Raw && passage.state.is_none() {
                passage.state = Some(match passage.untracked {
                    true => CtState::Untracked,
                    false => live.look(packet, now_ms),
                });
            }
            let number = root_number(packet.family, packet.hook, table);
            let header = self.image.header();
            let roots = match packet.transport {
                Transport::Short => &header.shorts,
                _ => &header.roots,
            };
            let root = number.map_or(0, |number| roots[number]);
            let of_frames =
                [Root::FRAMES_RECEIVED, Root::FRAMES_SENT].contains(&(packet.hook, table));
            if root == 0 || of_frames != packet.aside.frame.is_some() {
                continue;
            }
            self.walk(root, packet, passage, live, now_ms, &mut out);
            if out.verdict != Verdict::Accept {
                break;
            }
        }
        out.mark = passage.mark;
        out.tos = passage.tos;
        out.state = passage.state.unwrap_or(CtState::Invalid);
        let last = matches!(packet.hook, Hook::Input | Hook::Forward | Hook::Output);
        if out.verdict == Verdict::Accept && last && out.state != CtState::Untracked {
            live.confirm(packet, now_ms);
        }
        out
    }

    fn walk(
        &mut self,
        root: u32,
        packet: &Packet,
        passage: &mut Passage,
        live: &mut impl Live,
        now_ms: u64,
        out: &mut Outcome,
    ) {
        let state = passage.state.unwrap_or(CtState::Invalid);
        let key = Key::of(packet, state, |name| self.interface_class(name));
        let image = self.image.clone();
        let mut lookup = Lookup::new(&image, root, key);
        let entries = *lookup.root();
        let mut position = 0;
        // A verdict that stands until another is proposed, and whose it is.
        let mut standing = None;
        loop {
            position = lookup.next(position);
            out.steps += 1;
            let entry = image.entry(&entries, position);
            let context = test::Context {
                image: &image,
                packet,
                passage,
                now_ms,
                loaded_ms: self.loaded_ms,
                standing,
            };
            match context.all(&entry, live) {
                Answer::Holds => {}
                Answer::Fails => {
                    position = entry.next_fail;
                    continue;
                }
                Answer::HotDrop => return hot_drop(out),
            }
            if entry.verdict == VERDICT_HOT_DROP {
                return hot_drop(out);
            }
            if entry.flags & layout::FLAG_STANDING != 0
                && let Some((verdict, rule)) = standing
            {
                out.verdict = verdict;
                out.decided_by = Some(RuleId(rule));
                return;
            }
            self.count(&entry, packet, out);
            for at in 0..u32::from(entry.ops) {
                let op: Op = image.read(entry.ops_at + at * size_of::<Op>() as u32);
                operate(&op, passage, live, now_ms);
                out.ops.push((RuleId(op.rule), op.index));
            }
            if entry.flags & layout::FLAG_PROPOSE != 0 {
                let proposed = entry.flags & layout::FLAG_VERDICT;
                // Without one, what stood is withdrawn.
                let stands = || (verdict(proposed, entry.reject), entry.rule);
                standing = (proposed != 0).then(stands);
            }
            if entry.flags & layout::FLAG_REFUSE != 0 {
                standing.iter_mut().for_each(|s| s.0 = Verdict::Drop);
            }
            if entry.flags & layout::FLAG_AS_LEARNED != 0 {
                return self.as_learned(packet, live, out);
            }
            if entry.verdict != 0 {
                out.verdict = verdict(entry.verdict, entry.reject);
                out.decided_by = out.matched.last().copied();
                return;
            }
            position = entry.next_match;
        }
    }

    /// Does what the learner says whose state was found.
    fn as_learned(&mut self, packet: &Packet, live: &impl Live, out: &mut Outcome) {
        let Some(learned) = live.as_learned(packet) else {
            // A fragment that overlaps the first one.
            return hot_drop(out);
        };
        let rule = learned.rule;
        if learned.counts {
            let counters = &mut self.counters[rule.0 as usize];
            counters.packets += 1;
            counters.bytes += u64::from(packet.length);
            out.matched.push(rule);
        }
        if learned.logs {
            out.ops.push((rule, 0));
        }
        (out.verdict, out.decided_by) = (learned.verdict, Some(rule));
    }

    fn count(&mut self, entry: &Entry, packet: &Packet, out: &mut Outcome) {
        for at in 0..entry.rules {
            let rule = match entry.rules {
                1 => entry.rule,
                _ => self.image.read(entry.rule + at * 4),
            };
            let counters = &mut self.counters[rule as usize];
            counters.packets += 1;
            counters.bytes += u64::from(packet.length);
            out.matched.push(RuleId(rule));
        }
    }
}

fn hot_drop(out: &mut Outcome) {
    out.verdict = Verdict::Drop;
    out.decided_by = None;
    out.hot_drop = true;
}

fn verdict(number: u8, reject: u16) -> Verdict {
    match (number, reject >> 8) {
        (1, _) => Verdict::Accept,
        (3, 0) => Verdict::Reject(RejectKind::TcpReset),
        (3, 1) => Verdict::Reject(RejectKind::Icmp(reject as u8)),
        (3, 2) => Verdict::Reject(RejectKind::Icmp6(reject as u8)),
        (3, 3) => Verdict::Reject(RejectKind::IcmpAsDestination(reject as u8)),
        (3, 0x80..) => Verdict::Reject(RejectKind::FragmentationNeeded(reject & !REJECT_MTU)),
        (3, _) => Verdict::Reject(RejectKind::Icmp6AsDestination(reject as u8)),
        _ => Verdict::Drop,
    }
}

/// The flow of the packet, once tracking has looked at it.
fn flow(passage: &Passage, live: &impl Live, now_ms: u64) -> Option<Flow> {
    let tracked = passage
        .state
        .is_some_and(|state| state != CtState::Untracked);
    if tracked { live.flow(now_ms) } else { None }
}

/// A mark moved as an operation says.
fn shifted(op: &Op, mark: u32) -> u32 {
    let bits = u32::from(op.small & 31);
    match op.small & layout::SHIFT_RIGHT {
        0 => mark << bits,
        _ => mark >> bits,
    }
}

fn operate(op: &Op, passage: &mut Passage, live: &mut impl Live, now_ms: u64) {
    match op.kind {
        layout::OP_MARK => passage.mark = (passage.mark & !op.b) ^ op.a,
        layout::OP_TOS => passage.tos = (passage.tos & !(op.b as u8)) ^ op.a as u8,
        layout::OP_NOTRACK => passage.untracked |= passage.state.is_none(),
        layout::OP_CONNMARK => {
            if let Some(flow) = flow(passage, live, now_ms) {
                live.set_connmark(shifted(op, (flow.mark & !op.b) ^ op.a));
            }
        }
        layout::OP_SAVE_MARK => {
            if let Some(flow) = flow(passage, live, now_ms) {
                live.set_connmark((flow.mark & !op.b) ^ shifted(op, passage.mark & op.a));
            }
        }
        layout::OP_RESTORE_MARK => {
            if let Some(flow) = flow(passage, live, now_ms) {
                passage.mark = (passage.mark & !op.a) ^ shifted(op, flow.mark & op.b);
            }
        }
        _ => {}
    }
}
