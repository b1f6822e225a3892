//! Packets that end inside their headers, in the two languages that read headers otherwise than
//! Linux does: their own evaluators (the meaning), the rule model that rules are lowered to, the
//! compiled image, and the kernel's programs.

#[path = "ipfw/both.rs"]
mod both;

use both::{Both, ended};
use fastrand::Rng;
use std::collections::BTreeMap;
use weir_engine::compile::{Compiled, Options, compile};
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{Arrival, Key, key_of, packet, parse as parse_bytes};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::compare::field::Field;
use weir_policy::compare::{Names, Notes, Space, States, Valuation, Walk};
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::dialect::ipf::{ParseOptions, parse};
use weir_policy::dialect::{ipfw::Settings, iptables};
use weir_policy::eval::ipf::{Evaluator as Meaning, Settings as IpfSettings, Tables};
use weir_policy::eval::ipfw::{Carried, Judgement as Meant, Pass};
use weir_policy::eval::{Evaluator, Judgement, Passage, Path};
use weir_policy::model::{
    Counters, CtState, Family, Fragment, Hook, Packet, Policy, Reading, Transport, Verdict,
};
use weir_policy::syntax::Sources;
use weir_testkit::cut;
use weir_testkit::random::ipfw::lowered;
use weir_testkit::seeds::seeds;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
const NOW_MS: u64 = 1_000_000;

/// What differed, by kind: how often, and the first.
#[derive(Default)]
struct Wrong(BTreeMap<String, (u32, String)>);

impl Wrong {
    fn note(&mut self, bytes: &[u8], met: &Packet, what: &str, how: &str) {
        let kind = format!("{what} {:?} {} {:?}", met.family, met.proto, met.fragment);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let first = || (0, format!("{hex}\n{met:?}\n{how}"));
        self.0.entry(kind).or_insert_with(first).0 += 1;
    }

    fn none(&self) {
        for (what, (count, first)) in &self.0 {
            println!("{count} of {what}: {first}\n");
        }
        assert!(self.0.is_empty());
    }
}

fn arrival() -> Arrival {
    Arrival {
        in_iface: "eth0".to_owned(),
        ..Arrival::at(Hook::Prerouting)
    }
}

fn packet_of(seed: u64, policy: &Policy) -> Option<(Vec<u8>, Packet)> {
    let bytes = cut::packet(&mut Rng::with_seed(seed), FAMILIES[seed as usize % 2]);
    let met = packet(&bytes, bytes.len() as u32, &arrival(), policy.reading)?;
    Some((bytes, met))
}

/// The walk of the image and the kernel's programs, of one policy.
struct Fast<'p> {
    policy: &'p Policy,
    runner: Runner<'p>,
    live: Reference,
    kernel: Option<&'p TestRun>,
}

/// Fields of headers, as the parser gives them.
fn headers(key: &Key) -> (u8, u8, u8, u16, [u16; 2], u8, u8) {
    (
        key.proto,
        key.transport,
        key.fragment,
        key.fragment_offset,
        [key.src_port, key.dst_port],
        key.tcp_flags,
        key.malformed,
    )
}

impl<'p> Fast<'p> {
    fn new(policy: &'p Policy, compiled: &'p Compiled, kernel: Option<&'p TestRun>) -> Self {
        if let Some(kernel) = kernel {
            kernel.set_clock(NOW_MS);
            let policy = weir_plane::Policy::of(policy, compiled);
            kernel.install(&policy).expect("it fits");
        }
        Fast {
            policy,
            runner: Runner::new(&compiled.image, NOW_MS).expect("its own image"),
            live: Reference::new(policy),
            kernel,
        }
    }

    /// What either says otherwise than the model.
    fn compare(
        &mut self,
        bytes: &[u8],
        met: &Packet,
        mut passage: Passage,
        found: &Judgement,
    ) -> Result<(), String> {
        self.live.begin();
        let ran = self.runner.judge(met, &mut passage, &mut self.live, NOW_MS);
        if (found.verdict, found.decided_by, &found.matched)
            != (ran.verdict, ran.decided_by, &ran.matched)
        {
            return Err(format!("image: {found:?}, {ran:?}"));
        }
        let Some(kernel) = self.kernel else {
            return Ok(());
        };
        let seen = kernel
            .judge(met.family, bytes, &arrival(), 0)
            .map_err(|error| error.to_string())?;
        let verdict = match found.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        if (verdict, found.decided_by.map(|rule| rule.0)) != (seen.verdict, seen.deciding) {
            return Err(format!("kernel: {found:?}, {seen:?}"));
        }
        // The short way fills in no more than it needs.
        match seen.short_way || headers(&seen.key) == headers(&key_of(met)) {
            true => Ok(()),
            false => Err(format!(
                "kernel's headers: {:?}, {:?}",
                seen.key,
                key_of(met)
            )),
        }
    }

    fn compare_counters(&self, meant: &[Counters]) {
        if let Some(kernel) = self.kernel {
            let counted = kernel.counters(self.policy.rule_count);
            let meant = meant.iter().map(|one| (one.packets, one.bytes));
            assert!(meant.eq(counted));
        }
    }
}

fn capacity() -> Capacity {
    Capacity::for_policy(1 << 18, 4096, 1 << 16, 1 << 10).expect("it is small")
}

const IPF: &[&str] = &[
    "pass in all\npass out all\n",
    "block in quick proto tcp from any to any port = 80 flags S\n\
     pass in quick proto tcp/udp from any to any port = 53\n\
     block in quick proto icmp from any to any icmp-type echo\n\
     block in quick proto icmp from any to any icmp-type unreach code 1\n\
     pass in quick proto 47 from any to any\n\
     block in quick proto udp from any port != 22 to any\n\
     pass in quick proto tcp from any to any flags /A\n\
     block in quick proto esp from any to any\n\
     block in from any to any with frag\n\
     pass in from any to any with not frag\n",
    "block in quick from any to any with bad\n\
     pass in quick from any to any with short\n\
     block in quick from any to any with ipopts\n\
     block in quick proto ipv6-icmp from any to any\n\
     block in quick from any to any with v6hdr frag\n\
     pass in quick proto tcp from any to any\n\
     count in from any to any with not short\n\
     block in from any to any\n",
];

#[test]
fn ipf_drops_what_its_own_evaluator_drops() {
    let kernel = weir_plane::kernel_or_skip("ipf_drops_what_its_own_evaluator_drops")
        .map(|()| TestRun::learning(capacity()).expect("it loads"));
    if let Some(kernel) = &kernel {
        kernel.set_sums_unknown(true);
    }
    let mut wrong = Wrong::default();
    let [mut dropped, mut blocked, mut passed] = [0u32; 3];
    for text in IPF {
        let mut sources = Sources::new();
        let id = sources.add("rules", *text);
        let (file, found) = parse(text, id, &ParseOptions::default());
        assert!(!found.iter().any(|one| one.is_error()), "{found:?}");
        let (set, _) = RuleSet::of(&file);
        let (policy, found) = lower(&set, &Tables::default(), &sources, LowerOptions::default());
        let policy = policy.unwrap_or_else(|| panic!("{found:?}"));
        let compiled = compile(&policy, &Options::default()).expect("it compiles");
        let mut fast = Fast::new(&policy, &compiled, kernel.as_ref());
        let mut meaning = Meaning::new(&set, Tables::default(), IpfSettings::default());
        let mut model = Evaluator::new(&policy, NOW_MS);
        for seed in seeds(20_000) {
            let Some((bytes, met)) = packet_of(seed, &policy) else {
                continue;
            };
            let own = ipf_packet(&bytes, false, "eth0", LinkClass::default());
            let meant = meaning.judge(&own, NOW_MS);
            let mut passage = Passage::of(&met);
            passage.facts = Some(Box::new(own.clone()));
            let found = model.judge(&met, &mut passage.clone(), NOW_MS);
            match (own.unreadable, meant.passes) {
                (true, _) => dropped += 1,
                (_, true) => passed += 1,
                (_, false) => blocked += 1,
            }
            let of_text = |rule: &u32| *rule < set.rules.len() as u32;
            let matched = found.matched.iter().map(|rule| rule.0).filter(of_text);
            let same = meant.passes == (found.verdict == Verdict::Accept)
                && meant.matched.iter().map(|rule| *rule as u32).eq(matched);
            if !same {
                let how = format!("{own:?}\n{meant:?}\n{found:?}");
                wrong.note(&bytes, &met, "model", &how);
            }
            if let Err(how) = fast.compare(&bytes, &met, passage, &found) {
                wrong.note(&bytes, &met, "fast", &format!("{own:?}\n{how}"));
            }
        }
        wrong.none();
        fast.compare_counters(&model.counters);
    }
    println!("{dropped} dropped, {blocked} blocked, {passed} passed");
    assert!(dropped > 1_000 && blocked > 1_000 && passed > 1_000);
}

const IPFW: &[&str] = &[
    "add 100 allow ip from any to any\n",
    "add 50 deny icmp from any to any icmptypes 8,13\n\
     add 60 count ip from any to any frag\n\
     add 100 allow icmp from any to any\n\
     add 200 allow tcp from any to any 80 setup\n\
     add 210 deny tcp from any to any established\n\
     add 220 allow udp from any to any not 53\n\
     add 230 deny sctp from any 22 to any\n\
     add 240 allow esp from any to any\n\
     add 250 allow ah from any to any\n\
     add 260 deny ipv6-icmp from any to any icmp6types 128\n\
     add 270 count ip6 from any to any ext6hdr hopopt\n\
     add 280 allow ip from any to any frag\n\
     add 300 deny ip from any to any proto tcp\n\
     add 400 allow ip from any to any\n",
    "add 100 count ip from any to any not 80\n\
     add 200 deny gre from any to any\n\
     add 300 allow ip from any to any not icmptypes 8\n",
];

fn met_in() -> Met {
    Met {
        pass: Pass::In,
        recv: "eth0".to_owned(),
        xmit: String::new(),
        frame: None,
        to_many: false,
    }
}

#[test]
fn ipfw_drops_what_its_own_evaluator_drops() {
    let kernel = weir_plane::kernel_or_skip("ipfw_drops_what_its_own_evaluator_drops")
        .map(|()| TestRun::new(capacity()).expect("it loads"));
    let mut wrong = Wrong::default();
    let mut outcomes = [0u32; 4];
    for (number, text) in IPFW.iter().chain(IPFW).enumerate() {
        let settings = Settings {
            deny_unknown_exthdrs: number < IPFW.len(),
            ..Settings::default()
        };
        let (set, policy) = lowered(text, settings).expect("it lowers");
        let compiled = compile(&policy, &Options::default()).expect("it compiles");
        let mut fast = Fast::new(&policy, &compiled, kernel.as_ref());
        let mut both = Both::new(&set, &policy);
        for seed in seeds(20_000) {
            let Some((bytes, met)) = packet_of(seed, &policy) else {
                continue;
            };
            let mut carried = Carried::default();
            let meant = match read(&bytes, bytes.len() as u32, &met_in(), &set.settings) {
                Read::NotIp => continue,
                Read::Dropped(why) => Meant::dropped(why),
                Read::Packet(own) => {
                    carried = both.carried(&own, 0);
                    both.meaning.judge(&own, &mut carried, NOW_MS)
                }
            };
            let found = both.model.judge(&met, &mut Passage::of(&met), NOW_MS);
            outcomes[ended(&meant)] += 1;
            if let Err(what) = both.compare(&meant, &carried, &found) {
                wrong.note(&bytes, &met, &what, &format!("{meant:?}\n{found:?}"));
            }
            if let Err(how) = fast.compare(&bytes, &met, Passage::of(&met), &found) {
                wrong.note(&bytes, &met, "fast", &how);
            }
        }
        wrong.none();
        both.compare_counters(text);
        fast.compare_counters(&both.model.counters);
    }
    println!("unread, passed, denied, answered: {outcomes:?}");
    assert!(outcomes[..3].iter().all(|count| *count > 1_000));
}

/// Rules of iptables that ask for headers, and pass what they don't ask for.
const IPTABLES: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j DROP\n\
    -A INPUT -p udp -m udp --dport 53 -j ACCEPT\n\
    -A INPUT -p gre -j DROP\n\
    -A INPUT -p sctp -m sctp --sport 22 -j DROP\nCOMMIT\n";

const IP6TABLES: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A INPUT -p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j DROP\n\
    -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP\nCOMMIT\n";

fn of_iptables((text, family): (&str, Family)) -> Policy {
    let mut sources = Sources::new();
    let name = "rules";
    let id = sources.add(name, text);
    let (file, _) = iptables::parse_as(text, id, family);
    let input = iptables::Input::Rules { name, file: &file };
    let (policy, report) = iptables::lower(&[input], &iptables::LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics))
}

/// What the bytes are in a diagram: how each language reads them, and that.
fn valuation(bytes: &[u8], space: &Space) -> Option<([Packet; 3], Valuation)> {
    let length = bytes.len() as u32;
    let read = |reading| packet(bytes, length, &arrival(), reading);
    let [linux, ipf, ipfw] = [Reading::Linux, Reading::Ipf, Reading::Ipfw].map(read);
    let all = [linux?, ipf?, ipfw?].map(|packet| packet.at(Hook::Input));
    let mut v = Valuation::of(space, &all[0], CtState::Invalid, None)?;
    let short = |at: usize| u128::from(all[at].transport == Transport::Short) << at;
    let broken = all[1].proto == 59 && all[0].proto != 59 && short(1) == 0;
    v.set(
        Field::Short,
        short(0) | short(1) | short(2) | u128::from(broken) << 3,
    );
    if let Transport::Icmp { kind, code, .. } = all[2].transport {
        v.set(Field::IcmpType, kind.into());
        v.set(Field::IcmpCode, code.into());
    }
    if all[0].fragment == Fragment::Whole && all[1].fragment == Fragment::First {
        v.set(Field::Fragment, 3);
    }
    if let Transport::Tcp {
        malformed: true, ..
    } = all[0].transport
    {
        let key = parse_bytes(bytes, length, Reading::Linux)?;
        let words = bytes[usize::from(key.transport_offset) + 12] >> 4;
        v.set(Field::Malformed, if words < 5 { 2 } else { 1 });
    }
    Some((all, v))
}

/// Policies of all three languages, compared packet by packet as `diff` sees them.
#[test]
fn a_comparison_sees_what_each_language_reads() {
    let mut policies = Vec::new();
    for text in IPF {
        let mut sources = Sources::new();
        let id = sources.add("rules", *text);
        let (set, _) = RuleSet::of(&parse(text, id, &ParseOptions::default()).0);
        let (policy, _) = lower(&set, &Tables::default(), &sources, LowerOptions::default());
        // `with` asks what a diagram doesn't hold.
        policies.extend(policy.filter(|_| !text.contains("with short")));
    }
    for text in IPFW {
        policies.push(lowered(text, Settings::default()).expect("it lowers").1);
    }
    policies.extend([(IPTABLES, Family::V4), (IP6TABLES, Family::V6)].map(of_iptables));
    let all: Vec<&Policy> = policies.iter().collect();
    let [mut seen, mut cut, mut drops] = [0u32; 3];
    for family in FAMILIES {
        let mut space = Space::new(&all, family, 16_000_000);
        let mut states = States::default();
        let domain = space.domain(Path::Input).expect("it is small");
        let mut ends = Vec::new();
        for policy in &policies {
            let names = Names::of(policy, false);
            let mut walk = Walk::new(&mut space, &mut states, policy, &names, 0, Notes::default());
            ends.push(walk.journey(Path::Input, domain).expect("it is small"));
        }
        for seed in seeds(20_000) {
            let bytes = cut::packet(&mut Rng::with_seed(seed), family);
            let Some((read, v)) = valuation(&bytes, &space) else {
                continue;
            };
            // Behind a mobility header there is nothing, says its RFC, and one routing header is
            // all that a diagram has; bytes say anything.
            let behind = read[0].proto == 135 && read[1].proto != 59;
            if behind || read[0].routing != read[2].routing {
                continue;
            }
            assert_ne!(
                space.diagram.number_at(domain, &v),
                0,
                "no packet: {read:?}\n{v:?}"
            );
            seen += 1;
            cut += u32::from(v.get(Field::Short) != 0);
            for (policy, end) in policies.iter().zip(&ends) {
                let met = &read[policy.reading as usize];
                let mut evaluator = Evaluator::new(policy, NOW_MS);
                let mut passage = Passage::of(met);
                passage.state = Some(CtState::Invalid);
                let hooks = Evaluator::hooks(Path::Input).iter();
                let judged = hooks
                    .map(|hook| {
                        evaluator
                            .judge(&met.at(*hook), &mut passage, NOW_MS)
                            .verdict
                    })
                    .find(|verdict| *verdict != Verdict::Accept);
                let meant = judged.unwrap_or(Verdict::Accept);
                let state = states.get(space.diagram.number_at(*end, &v));
                let said = state.and_then(|state| state.verdict);
                let said = said.unwrap_or(Verdict::Accept);
                drops += u32::from(meant == Verdict::Drop);
                assert_eq!(said, meant, "{:?}: {met:?}\n{v:?}", policy.reading);
            }
        }
    }
    println!("{seen} packets, {cut} cut short for someone, {drops} drops");
    assert!(cut > 5_000 && drops > 10_000);
}
