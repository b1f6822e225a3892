//! The vectors of `testdata/vectors/ipf` through the compiled image and the kernel.
//!
//! Each packet is judged by IPFilter's own evaluator (whose words `tests/ipf_vectors.rs` compares
//! with the file's), by the rule model, by the image and by the programs in the kernel: same
//! verdict, same rules matched, same deciding rule, same counters. What the policy side can't have
//! is left out by a named reason, and both counts are asserted: nothing is left out unseen.

#[path = "../../tests/ipf/case.rs"]
mod case;

use super::files::{Reading, Rules};
use super::packets::TestPacket;
use super::{hex, text, tunables};
use case::Case;
use std::collections::BTreeMap;
use weir_engine::compile::{Options, compile};
use weir_engine::packet::ipf::ipf_packet;
use weir_engine::packet::{Arrival, packet};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipf::Language;
use weir_policy::dialect::ipf::lower::{InterfaceNet, InterfaceNets, LowerOptions, lower};
use weir_policy::dialect::ipf::words::attribute;
use weir_policy::eval::ipf::{Evaluator as Meaning, IpfPacket, Settings};
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{Family, Hook, PacketType, Policy, RuleId, Verdict};

/// The clock of the test program: it stands still.
const NOW_MS: u64 = 1_000_000_000_000;

const FILES: [&str; 6] = [
    "evaluation.txt",
    "addresses.txt",
    "fields.txt",
    "with.txt",
    "state.txt",
    "hpux.txt",
];

/// What was run and what was left out, and why.
#[derive(Debug, Default)]
struct Tally {
    run: u32,
    as_the_file_says: u32,
    left_out: BTreeMap<String, u32>,
    /// Verdicts that differ from the file's, each for a known reason.
    otherwise: BTreeMap<&'static str, u32>,
}

/// A case, read as the test program reads it.
struct Read {
    rules: Rules,
    settings: Settings,
    packets: Vec<TestPacket>,
}

fn read(case: &Case) -> Read {
    let has = |word: &str| case.options.iter().any(|option| option == word);
    let behind = |word: &str| {
        let at = case.options.iter().position(|option| option == word)?;
        case.options.get(at + 1).map(String::as_str)
    };
    let hpux = behind("--dialect") == Some("hpux");
    let reading = Reading {
        language: if hpux { Language::Hpux } else { Language::Ipf },
        family: match (has("-6"), hpux) {
            (true, _) => Some(Family::V6),
            (false, true) => Some(Family::V4),
            (false, false) => None,
        },
        no_names: true,
        told: true,
        ..Reading::default()
    };
    let mut rules = Rules::default();
    rules.file.language = reading.language;
    rules.add_pools("pools", &case.pools);
    rules.add_rules("rules", &case.rules, &reading);
    rules.load();
    let mut settings = Settings::of(reading.language);
    for setting in rules.settings() {
        let _ = tunables::set(&mut settings, &setting.name, setting.value);
    }
    for list in case.options.iter().zip(case.options.iter().skip(1)) {
        if list.0 == "-T" {
            tunables::set_list(&mut settings, list.1).unwrap();
        }
    }
    let mut packets = match case.hex {
        true => hex::packets(&case.packets),
        false => text::packets(&case.packets, false),
    };
    let source = behind("-S").map(|address| address.parse::<std::net::Ipv4Addr>().unwrap());
    for packet in &mut packets {
        if packet.interface.as_deref().unwrap_or_default().is_empty() {
            packet.interface = Some(behind("-I").unwrap_or("anon0").to_owned());
        }
        let four = packet.bytes.first().is_some_and(|byte| byte >> 4 == 4);
        if four && has("-C") {
            text::fix_checksums(&mut packet.bytes);
        }
        if let (true, Some(source), Some(own)) = (four, source, packet.bytes.get(12..16)) {
            packet.out = own != source.octets();
        }
    }
    Read {
        rules,
        settings,
        packets,
    }
}

/// The addresses of interfaces that the packets' lines say; the evaluator takes each for all that
/// an interface can have.
fn interfaces(packets: &[TestPacket]) -> InterfaceNets {
    let mut nets = InterfaceNets::new();
    for packet in packets {
        if let (Some(address), Some(name)) = (packet.address, &packet.interface) {
            let address = u128::from(address);
            let net = InterfaceNet {
                family: Family::V4,
                address,
                prefix: 32,
                broadcast: Some(address),
                peer: Some(address),
            };
            nets.0.insert(name.clone(), vec![net]);
        }
    }
    nets
}

/// The policy of a case, or the reason why there is none.
fn lowered(read: &Read) -> Result<Policy, String> {
    let plain = Settings {
        state_max: read.settings.state_max,
        default_block: read.settings.default_block,
        log_quick_ends: read.settings.log_quick_ends,
        exact_headers: read.settings.exact_headers,
        limits_on: read.settings.limits_on,
        limit_fails_closed: read.settings.limit_fails_closed,
        min_ttl: read.settings.min_ttl,
        checks_source: read.settings.checks_source,
        lifetimes: read.settings.lifetimes,
        tick_ms: read.settings.tick_ms,
        discovery_bypasses: read.settings.discovery_bypasses,
        ..Settings::default()
    };
    if plain != read.settings {
        return Err("a tunable that the kernel's side does not have".to_owned());
    }
    let options = LowerOptions {
        default_block: read.settings.default_block,
        log_quick_ends: read.settings.log_quick_ends,
        states_live: false,
        states_max: read.settings.state_max,
        exact_headers: read.settings.exact_headers,
        limits_on: read.settings.limits_on,
        limit_fails_closed: read.settings.limit_fails_closed,
        min_ttl: read.settings.min_ttl,
        checks_source: read.settings.checks_source,
        lifetimes: read.settings.lifetimes,
        discovery_bypasses: read.settings.discovery_bypasses,
        now: NOW_MS / 1000,
        interfaces: interfaces(&read.packets),
    };
    let rules = &read.rules;
    let (policy, found) = lower(&rules.set, &rules.tables, &rules.sources, options);
    policy.ok_or_else(|| found[0].message.clone())
}

/// Why a packet can't come to the kernel's programs as the evaluator sees it.
fn missing(packet: &TestPacket, facts: &IpfPacket, interface: &str) -> Option<&'static str> {
    if packet.link.many {
        return Some("no kernel says that a frame went to many, but not how");
    }
    if packet.out && facts.attributes & (attribute::BCAST | attribute::MCAST) != 0 {
        let plain = ipf_packet(&packet.bytes, packet.out, interface, Default::default());
        if plain.attributes != facts.attributes {
            return Some("frames that leave have no link class yet");
        }
    }
    None
}

struct Judges<'p> {
    case: &'p Case,
    read: &'p Read,
    policy: &'p Policy,
    /// As the test program: closing connections are forgotten behind each packet.
    told: Meaning<'p>,
    /// As on a host: they are not.
    meaning: Meaning<'p>,
    model: Evaluator<'p>,
    runner: Runner<'p>,
    live: Reference,
    kernel: &'p TestRun,
}

impl Judges<'_> {
    fn judge(&mut self, at: usize, tally: &mut Tally) -> Result<(), String> {
        let given = &self.read.packets[at];
        let interface = given.interface.as_deref().unwrap_or_default();
        if let Some(address) = given.address {
            let own = vec![(Family::V4, u128::from(address))];
            for meaning in [&mut self.told, &mut self.meaning] {
                meaning.interfaces.insert(interface.to_owned(), own.clone());
            }
        }
        let facts = ipf_packet(&given.bytes, given.out, interface, given.link);
        let told = self.told.judge(&facts, NOW_MS);
        self.told.flush_closing(NOW_MS);
        if let Some(why) = missing(given, &facts, interface) {
            *tally.left_out.entry(why.to_owned()).or_default() += 1;
            return Ok(());
        }
        let hook = match given.out {
            true => Hook::Output,
            false => Hook::Prerouting,
        };
        let mut arrival = Arrival::at(hook);
        *(match given.out {
            true => &mut arrival.out_iface,
            false => &mut arrival.in_iface,
        }) = interface.to_owned();
        if given.link.multicast {
            arrival.packet_type = PacketType::Multicast;
        } else if given.link.broadcast {
            arrival.packet_type = PacketType::Broadcast;
        }
        let Some(met) = packet(
            &given.bytes,
            given.bytes.len() as u32,
            &arrival,
            self.policy.reading,
        ) else {
            let why = "the kernel drops it before the rules";
            *tally.left_out.entry(why.to_owned()).or_default() += 1;
            return Ok(());
        };
        tally.run += 1;
        let meant = self.meaning.judge(&facts, NOW_MS);
        match meant.outcome.words() == self.case.expected[at] {
            true => tally.as_the_file_says += 1,
            false => {
                assert_ne!(meant.outcome, told.outcome, "{}", self.case.name);
                let why = "the test program forgets closing connections behind each packet";
                *tally.otherwise.entry(why).or_default() += 1;
            }
        }
        let mut passage = Passage::of(&met);
        passage.facts = Some(Box::new(facts.clone()));
        let found = self.model.judge(&met, &mut passage.clone(), NOW_MS);
        let rules = self.read.rules.set.rules.len() as u32;
        let of_text = |rule: &RuleId| (rule.0 < rules).then_some(rule.0 as usize);
        let matched: Vec<usize> = found.matched.iter().filter_map(of_text).collect();
        let decided = found.decided_by.as_ref().and_then(of_text);
        let meant_all = (meant.passes, &meant.matched, meant.rule);
        let found_all = (found.verdict == Verdict::Accept, &matched, decided);
        if meant_all != found_all {
            return Err(format!("meant {meant_all:?}, model {found_all:?}"));
        }
        self.live.begin();
        let ran = self
            .runner
            .judge(&met, &mut passage, &mut self.live, NOW_MS);
        let model_all = (found.verdict, found.decided_by, &found.matched);
        if model_all != (ran.verdict, ran.decided_by, &ran.matched) {
            return Err(format!("model {model_all:?}, image {ran:?}"));
        }
        let seen = self
            .kernel
            .judge(met.family, &given.bytes, &arrival, 0)
            .map_err(|error| error.to_string())?;
        let number = match found.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        let model = (number, found.decided_by.map(|rule| rule.0));
        if model != (seen.verdict, seen.deciding) {
            return Err(format!(
                "model {model:?}, kernel {seen:?}\n{:?}",
                self.kernel.states(NOW_MS)
            ));
        }
        self.counted()
    }

    /// Whether the kernel counted what the model did.
    fn counted(&self) -> Result<(), String> {
        let counted = self.kernel.counters(self.policy.rule_count);
        let meant = self.model.counters.iter();
        let mut meant = meant.map(|c| (c.packets, c.bytes));
        match meant.by_ref().eq(counted.iter().copied()) {
            true => Ok(()),
            false => Err(format!("{:?}, kernel {counted:?}", self.model.counters)),
        }
    }
}

/// Runs a case; what differs is an error.
fn run(case: &Case, kernel: &TestRun, tally: &mut Tally) -> Result<(), String> {
    let read = read(case);
    let policy = match lowered(&read) {
        Ok(policy) => policy,
        Err(why) => {
            *tally.left_out.entry(why).or_default() += case.expected.len() as u32;
            return Ok(());
        }
    };
    assert_eq!(read.packets.len(), case.expected.len(), "{}", case.name);
    let compiled = compile(&policy, &Options::default()).expect("it compiles");
    kernel.set_clock(NOW_MS);
    kernel
        .install(&weir_plane::Policy::of(&policy, &compiled))
        .unwrap();
    let (set, tables) = (&read.rules.set, &read.rules.tables);
    let mut judges = Judges {
        case,
        read: &read,
        policy: &policy,
        told: Meaning::new(set, tables.clone(), read.settings.clone()),
        meaning: Meaning::new(set, tables.clone(), read.settings.clone()),
        model: Evaluator::new(&policy, 0),
        runner: Runner::new(&compiled.image, 0).expect("its own image"),
        live: Reference::new(&policy),
        kernel,
    };
    for at in 0..read.packets.len() {
        let place = |found| format!("{} packet {}: {found}\n{}", case.name, at + 1, case.rules);
        judges.judge(at, tally).map_err(place)?;
    }
    Ok(())
}

#[test]
fn vectors_mean_the_same_in_the_kernel() {
    let Some(()) = weir_plane::kernel_or_skip("vectors_mean_the_same_in_the_kernel") else {
        return;
    };
    let capacity = Capacity::for_policy(1 << 20, 4096, 1 << 16, 4096).expect("it fits");
    let kernel = TestRun::learning(capacity).unwrap_or_else(|error| panic!("{error}"));
    kernel.set_sums_unknown(true);
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for name in FILES {
        for case in case::cases(&case::text(name)) {
            if let Err(found) = run(&case, &kernel, &mut tally) {
                wrong.push(format!("{name}: {found}"));
            }
        }
    }
    println!("{tally:#?}");
    let left_out: u32 = tally.left_out.values().sum();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(tally.run + left_out, 1_507);
    assert_eq!((tally.run, tally.as_the_file_says), (1_474, 1_470));
}
