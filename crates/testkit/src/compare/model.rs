//! The evaluator beside the original: the packets that the kernel showed at each hook go through
//! `weir_policy::eval`, and its counters must become those of iptables.
//!
//! In: a policy and [`Sighting`]s in the kernel's order. Out: counters in the common form, and
//! remarks where the mark or the TOS byte on the way differs, or a packet goes on that the
//! evaluator has dropped. The compiled image judges every packet in step with the evaluator.

use anyhow::{Context, Result};
use weir_engine::compile::{Options, compile};
use weir_engine::packet::{Arrival, packet};
use weir_engine::run::{Reference, Runner};
use weir_policy::dialect::ipset;
use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::eval::{Evaluator, Judgement, Locals, Passage};
use weir_policy::model::{
    CtState, Facts, Family as ModelFamily, Hook, Packet, Policy, RangeSet, Reading, Table, Verdict,
};

use weir_policy::syntax::Sources;

use super::case::{Case, Family};
use super::counters::{Count, Counters, Key};
use super::engine::{Observed, Run};
use super::tap::Sighting;

/// The policy that a case's files mean; an error lists every message.
pub fn policy_of(case: &Case) -> Result<Policy> {
    let mut sources = Sources::new();
    let mut messages = Vec::new();
    let mut rules = Vec::new();
    for file in &case.rules {
        let name = file.path.display().to_string();
        let source = sources.add(name.clone(), file.text.as_str());
        let family = match file.family {
            Family::V4 => ModelFamily::V4,
            Family::V6 => ModelFamily::V6,
        };
        let (tree, found) = iptables::parse_as(&file.text, source, family);
        messages.extend(found);
        rules.push((name, tree));
    }
    let mut sets = Vec::new();
    if let Some((path, text)) = &case.sets {
        let name = path.display().to_string();
        let source = sources.add(name.clone(), text.as_str());
        let (tree, found) = ipset::parse(text, source);
        messages.extend(found);
        sets.push((name, tree));
    }
    let inputs: Vec<Input> = rules
        .iter()
        .map(|(name, file)| Input::Rules { name, file })
        .chain(sets.iter().map(|(name, file)| Input::Sets { name, file }))
        .collect();
    let (policy, report) = iptables::lower(&inputs, &LowerOptions::default());
    messages.extend(report.diagnostics);
    let errors = messages.iter().filter(|message| message.is_error());
    let errors: Vec<String> = errors.map(|message| message.line(&sources)).collect();
    // Lowering sees only what could be read, so a fault of reading has to be asked for here.
    policy
        .filter(|_| errors.is_empty())
        .with_context(|| errors.join("\n"))
}

/// The evaluator's run over what the kernel showed; packets are the kernel's own.
pub fn evaluate(case: &Case, policy: &Policy, observed: &Observed) -> Result<(Run, Vec<String>)> {
    let compiled = compile(policy, &Options::default()).context("compile")?;
    let mut follower =
        Follower::new(policy, observed.start_ms).with_image(&compiled.image, observed.start_ms)?;
    let mut after_steps = Vec::new();
    let mut remarks = Vec::new();
    for (step, now_ms, sighting) in &observed.sightings {
        while after_steps.len() < *step {
            after_steps.push(follower.counters());
        }
        follower.follow(sighting, observed.start_ms + now_ms);
        let line = case.steps.get(*step).map_or(0, |step| step.line);
        let place = format!("{}.traffic:{line}: ", case.name);
        remarks.extend(
            follower
                .remarks
                .drain(..)
                .map(|remark| place.clone() + &remark),
        );
    }
    let counters = follower.counters();
    while after_steps.len() < case.steps.len() {
        after_steps.push(counters.clone());
    }
    let records = observed.run.records.clone();
    let run = Run {
        records,
        counters,
        after_steps,
    };
    Ok((run, remarks))
}

/// An evaluator that follows a kernel.
pub struct Follower<'p> {
    evaluator: Evaluator<'p>,
    passage: Passage,
    verdict: Verdict,
    /// Whom a rule has just rejected: what is sent to it next is the answer.
    rejected: Option<u128>,
    /// The compiled form of the same policy, judging in step.
    image: Option<Twin<'p>>,
    /// What went differently on the way, at most a few lines.
    pub remarks: Vec<String>,
}

const REMARKS_MAX: usize = 12;

/// The compiled form of a policy with memory of its own.
struct Twin<'p> {
    runner: Runner<'p>,
    live: Reference,
    passage: Passage,
}

impl Twin<'_> {
    /// Judges a packet and says whether it comes to the same as the evaluator.
    fn agrees(
        &mut self,
        packet: &Packet,
        before: &Passage,
        begins: bool,
        expected: &Judgement,
        now_ms: u64,
    ) -> bool {
        if begins {
            self.live.begin();
            self.passage = before.clone();
        }
        (self.passage.mark, self.passage.tos) = (before.mark, before.tos);
        let found = self
            .runner
            .judge(packet, &mut self.passage, &mut self.live, now_ms);
        found.verdict == expected.verdict
            && found.matched == expected.matched
            && (found.mark, found.tos, found.state) == (expected.mark, expected.tos, expected.state)
    }
}

impl<'p> Follower<'p> {
    /// A fresh evaluator with the gateway's addresses.
    #[must_use]
    pub fn new(policy: &'p Policy, now_ms: u64) -> Self {
        let mut evaluator = Evaluator::new(policy, now_ms);
        evaluator.locals = gateway_addresses();
        Self {
            evaluator,
            passage: Passage::default(),
            verdict: Verdict::Accept,
            rejected: None,
            image: None,
            remarks: Vec::new(),
        }
    }

    /// Has the compiled image of the policy judge every packet too.
    pub fn with_image(mut self, image: &'p [u8], now_ms: u64) -> Result<Self> {
        let runner = Runner::new(image, now_ms).context("the image")?;
        let mut live = Reference::new(self.evaluator.policy());
        live.locals = gateway_addresses();
        let passage = Passage::default();
        self.image = Some(Twin {
            runner,
            live,
            passage,
        });
        Ok(self)
    }

    /// Judges one sighting.
    pub fn follow(&mut self, sighting: &Sighting, now_ms: u64) {
        let arrival = Arrival {
            hook: sighting.hook,
            in_iface: sighting.in_interface.clone(),
            out_iface: sighting.out_interface.clone(),
            mark: sighting.mark,
            mac: sighting.source_mac,
            packet_type: sighting.packet_type,
            owner: sighting.owner,
            handling: 0,
            aside: Facts::default(),
        };
        let Some(packet) = packet(
            &sighting.bytes,
            sighting.bytes.len() as u32,
            &arrival,
            Reading::Linux,
        ) else {
            self.remark(sighting, "is no IP packet to the parser");
            return;
        };
        let packet = packet.at(sighting.hook);
        let again = sighting.hook == Hook::Prerouting && sighting.in_interface == "lo";
        match sighting.hook {
            // What comes back over the loopback is still tracked and marked.
            Hook::Prerouting if again => {}
            Hook::Prerouting | Hook::Output => {
                self.passage = Passage::of(&packet);
                // The kernel hands the connection of a rejected packet on to the answer
                // (nf_ct_attach); weir's data plane knows its own answers by their socket.
                if self.rejected == Some(packet.dst) && sighting.hook == Hook::Output {
                    self.passage.state = Some(CtState::Related);
                }
            }
            _ if self.verdict != Verdict::Accept => {
                let text = format!("goes on to {:?} after {:?}", sighting.hook, self.verdict);
                self.remark(sighting, &text);
                self.passage = Passage::of(&packet);
            }
            _ => {}
        }
        if self.passage.mark != sighting.mark {
            let text = format!(
                "has mark {:#x}, not {:#x}",
                sighting.mark, self.passage.mark
            );
            self.remark(sighting, &text);
            self.passage.mark = sighting.mark;
        }
        if self.passage.tos != packet.tos {
            let text = format!("has TOS {:#x}, not {:#x}", packet.tos, self.passage.tos);
            self.remark(sighting, &text);
            self.passage.tos = packet.tos;
        }
        let begins = matches!(sighting.hook, Hook::Prerouting | Hook::Output) && !again;
        let before = self.passage.clone();
        let expected = self.evaluator.judge(&packet, &mut self.passage, now_ms);
        self.verdict = expected.verdict;
        if let Some(twin) = &mut self.image {
            let same = twin.agrees(&packet, &before, begins, &expected, now_ms);
            if !same {
                self.remark(sighting, "is judged otherwise by the compiled image");
            }
        }
        self.rejected = matches!(self.verdict, Verdict::Reject(_)).then_some(packet.src);
        if sighting.state.is_some() && sighting.state != self.passage.state {
            let text = format!("is {:?}, not {:?}", sighting.state, self.passage.state);
            self.remark(sighting, &text);
        }
    }

    fn remark(&mut self, sighting: &Sighting, text: &str) {
        if self.remarks.len() < REMARKS_MAX {
            let what = crate::traffic::describe::network(&sighting.bytes);
            self.remarks
                .push(format!("at {:?}: {what} {text}", sighting.hook));
        }
    }

    /// Counters so far, without the nat table.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        let chains = &self.evaluator.policy().chains;
        for chain in chains.iter().filter(|chain| chain.table != Table::Nat) {
            let key = |index: usize| Key {
                family: match chain.family {
                    ModelFamily::V4 => Family::V4,
                    ModelFamily::V6 => Family::V6,
                },
                table: table_name(chain.table).to_owned(),
                chain: chain.name.clone(),
                index,
            };
            let count = |id: u32, line: u32| {
                let counted = self.evaluator.counters[id as usize];
                let rule = format!("source line {line}");
                Count {
                    packets: counted.packets,
                    bytes: counted.bytes,
                    rule,
                }
            };
            for rule in &chain.rules {
                let place = key(rule.index as usize);
                counters.insert(place, count(rule.id.0, rule.origin.line));
            }
            if let Some(policy) = &chain.policy {
                counters.insert(key(0), count(policy.id.0, policy.origin.line));
            }
        }
        counters
    }
}

fn table_name(table: Table) -> &'static str {
    match table {
        Table::Raw => "raw",
        Table::Mangle => "mangle",
        Table::Nat => "nat",
        Table::Filter => "filter",
        Table::Security => "security",
    }
}

/// The addresses that `netns` gives the gateway.
fn gateway_addresses() -> Locals {
    let v4 = |a: u8, b: u8, c: u8, d: u8| u128::from(u32::from_be_bytes([a, b, c, d]));
    let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().map_or(0, u128::from);
    let one = |address: u128| (address, address);
    Locals {
        local: RangeSet::from_ranges([
            (v4(127, 0, 0, 0), v4(127, 255, 255, 254)),
            one(v4(10, 77, 1, 1)),
            one(v4(10, 77, 2, 1)),
        ]),
        broadcast: RangeSet::from_ranges([
            one(v4(10, 77, 1, 255)),
            one(v4(10, 77, 2, 255)),
            one(v4(127, 255, 255, 255)),
        ]),
        local6: RangeSet::from_ranges([
            one(v6("::1")),
            one(v6("fd77:1::1")),
            one(v6("fd77:2::1")),
            one(v6("fe80::77:1ff:fe00:1")),
            one(v6("fe80::77:2ff:fe00:1")),
        ]),
        ..Locals::default()
    }
}
