//! IPFilter rules that keep states, three or four ways: their own evaluator (the meaning), the rule
//! model, the compiled image in user space, and the programs in the kernel. Same verdicts, same
//! deciding rules, same counters, packet by packet, over conversations with gaps in time.

#[path = "states/heads.rs"]
mod heads;
#[path = "states/talk.rs"]
mod talk;

use fastrand::Rng;
use talk::{Sent, Talks};
use weir_engine::compile::{Options, compile};
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::dialect::ipf::words::attribute;
use weir_policy::dialect::ipf::{Language, ParseOptions, parse};
use weir_policy::eval::ipf::{Evaluator as Meaning, IpfPacket, Outcome, Settings, Tables};
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{Hook, Lifetimes, Packet, Policy, Reading, Verdict, handling};
use weir_policy::syntax::Sources;
use weir_testkit::seeds::{seeds, setting};

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

/// What `with` asks for.
const WITH: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "",
    " with oow",
    " with not oow",
    " with frag",
    " with frag-body",
    " with not frag",
    " with short",
    " with not short",
    " with ipopts",
    " with opt lsrr",
    " with not opt rr",
    " with opt sec-class secret",
    " with lowttl",
    " with bad",
    " with not bad",
    " with bad-src",
    " with not bad-src",
    " with mcast",
    " with not mbcast",
    " with v6hdrs",
];

/// Options of `keep state`.
fn keep(rng: &mut Rng, tcp: bool) -> String {
    let mut options = Vec::new();
    if rng.u8(..4) == 0 {
        options.push(one(rng, &["limit 1", "limit 2", "limit 5"]));
    }
    if rng.u8(..5) == 0 {
        options.push(one(rng, &["age 10", "age 30/5", "age 1/600"]));
    }
    if tcp && rng.u8(..6) == 0 {
        options.push(one(rng, &["strict", "loose"]));
    }
    if rng.u8(..5) == 0 {
        options.push("no-icmp-err");
    }
    if rng.u8(..4) == 0 {
        options.push(one(
            rng,
            &["icmp-head in1", "icmp-head out1", "icmp-head e"],
        ));
    }
    if rng.u8(..4) == 0 {
        let sources = [
            "max-srcs 1",
            "max-srcs 2",
            "max-srcs 3, max-per-src 1",
            "max-per-src 1",
            "max-per-src 2/16",
            "max-srcs 1, max-per-src 3/24",
        ];
        options.push(one(rng, &sources));
    }
    match options.is_empty() {
        true => " keep state".to_owned(),
        false => format!(" keep state ({})", options.join(", ")),
    }
}

/// A rule set of HP-UX, with limits of connections.
fn hpux_text(rng: &mut Rng) -> String {
    let mut out = HPUX.to_owned();
    for _ in 0..rng.usize(1..6) {
        let limits = rng.u8(..3) > 0;
        let quick = if limits {
            " quick"
        } else {
            one(rng, &["", " quick"])
        };
        let source = one(
            rng,
            &["any", "any", "10.1.2.3", "10.1.0.0/16", "10.1.2.3-10.1.3.3"],
        );
        let destination = one(rng, &["any", "any", "10.1.0.0/16", "any port = 80"]);
        if limits {
            let answer = one(rng, &["", "", " return-rst"]);
            let log = one(rng, &["", "", " log", " log limit", " log limit freq 2"]);
            let most = one(rng, &["1", "1", "2", "3"]);
            let cumulative = one(rng, &["", "", " cumulative"]);
            let flags = one(rng, &["", "", " flags S"]);
            out += &format!(
                "pass{answer} in{log} quick proto tcp from {source} to {destination}{flags} \
                 keep limit {most}{cumulative}\n"
            );
            continue;
        }
        let action = one(rng, &["pass", "block"]);
        let direction = one(rng, &["in", "in", "out"]);
        let keep = one(rng, &["", " keep state"]);
        out += &format!(
            "{action} {direction}{quick} proto tcp from {source} to {destination}{keep}\n"
        );
    }
    out += one(rng, &["", "block in from any to any\n"]);
    out
}

/// The first line of rule sets of HP-UX.
const HPUX: &str = "# hpux\n";

fn text(rng: &mut Rng) -> String {
    if rng.u8(..4) == 0 {
        return hpux_text(rng);
    }
    let mut out = String::new();
    for _ in 0..rng.usize(1..9) {
        let direction = one(rng, &["in", "out"]);
        let action = one(
            rng,
            &[
                "pass",
                "pass",
                "pass",
                "block",
                "block return-rst",
                "block return-icmp",
            ],
        );
        let log = one(rng, &["", "", "", " log", " log first"]);
        let quick = one(rng, &["", " quick", " quick"]);
        let on = one(rng, &["", "", " on eth0", " on eth1"]);
        let proto = one(
            rng,
            &[
                "",
                "",
                " proto tcp",
                " proto tcp",
                " proto udp",
                " proto icmp",
                " proto tcp/udp",
            ],
        );
        let addresses = match proto {
            "" => one(rng, &["all", "all"]),
            _ => one(
                rng,
                &[
                    "all",
                    "from any to any",
                    "from 10.1.0.0/16 to any",
                    "from any to 10.1.2.0/24",
                ],
            ),
        };
        let tcp = proto == " proto tcp";
        let flags = if tcp {
            one(rng, &["", "", " flags S", " flags S/SA"])
        } else {
            ""
        };
        let with = one(rng, WITH);
        let mut keeps = match rng.u8(..3) {
            0 => String::new(),
            _ => keep(rng, tcp),
        };
        keeps += one(rng, &["", "", " keep frags", " keep frags (strict)"]);
        let group = one(rng, &["", "", "", "", " head", " group"]);
        let group = match group {
            " head" if quick.is_empty() || keeps.is_empty() => format!(" head {direction}1"),
            " group" => format!(" group {direction}1"),
            _ => String::new(),
        };
        let rate = one(rng, &["", "", "", "", "", " pps 1", " pps 3"]);
        out += &format!(
            "{action} {direction}{log}{quick}{on}{proto} {addresses}{flags}{with}{keeps}{group}{rate}\n"
        );
    }
    if out.contains("icmp-head e") {
        out += &heads::members(rng);
    }
    out += one(
        rng,
        &["", "", "block in all\nblock out all\n", "block in all\n"],
    );
    out
}

/// Reads and lowers a text.
fn lowered(text: &str, settings: &Settings) -> Option<(RuleSet, Policy)> {
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let language = match text.starts_with(HPUX) {
        true => Language::Hpux,
        false => Language::Ipf,
    };
    let reading = ParseOptions {
        language,
        ..ParseOptions::default()
    };
    let (file, found) = parse(text, id, &reading);
    if found.iter().any(|found| found.is_error()) {
        return None;
    }
    let (set, _) = RuleSet::of(&file);
    let options = LowerOptions {
        states_max: settings.state_max,
        default_block: settings.default_block,
        log_quick_ends: settings.log_quick_ends,
        lifetimes: settings.lifetimes,
        checks_source: settings.checks_source,
        ..LowerOptions::default()
    };
    let (policy, found) = lower(&set, &Tables::default(), &sources, options);
    let policy = policy.unwrap_or_else(|| panic!("{found:?} in\n{text}"));
    Some((set, policy))
}

/// The usual lifetimes, or some that conversations of the test outlive.
fn lifetimes(rng: &mut Rng) -> Lifetimes {
    let mut lifetimes = Lifetimes::default();
    if rng.bool() {
        return lifetimes;
    }
    let mut seconds = || 1000 * u64::from(*rng.choice(&[1_u32, 5, 30, 120, 600]).unwrap_or(&1));
    lifetimes.tcp = lifetimes.tcp.map(|_| seconds());
    (lifetimes.udp, lifetimes.udp_reply) = (seconds(), seconds());
    (lifetimes.icmp, lifetimes.icmp_reply) = (seconds(), seconds());
    (lifetimes.other, lifetimes.fragment) = (seconds(), seconds());
    lifetimes
}

/// The packet as its bytes say it, and the bytes.
fn on_the_wire(sent: &Sent) -> (Packet, Vec<u8>) {
    let mut made = sent.packet.clone();
    settle(&mut made);
    let mut bytes = build(&made, usize::MAX).expect("a settled packet can be built");
    sent.put_into(&mut bytes);
    let met = packet(
        &bytes,
        bytes.len() as u32,
        &Arrival::of(&made),
        Reading::Ipf,
    )
    .expect("it parses");
    (met, bytes)
}

/// How often what happened.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    hits: u64,
    fragments: u64,
    made: u64,
    out_of_window: u64,
    passed: u64,
    blocked: u64,
    /// In the kernel: packets that went the short way.
    short_ways: u64,
    /// With a checksum that is wrong, and nothing else.
    wrong_sums: u64,
    /// Packets of a state that met rules: ICMP errors that a group passed.
    judged: u64,
    /// Of rule sets of HP-UX: connections above a limit, and those within one.
    above: u64,
    within: u64,
}

struct Judges<'p> {
    set: &'p RuleSet,
    meaning: Meaning<'p>,
    model: Evaluator<'p>,
    runner: Runner<'p>,
    live: Reference,
    kernel: Option<&'p TestRun>,
}

/// The packet with what the kernel's routes say of its source.
fn routed(facts: &IpfPacket, met: &Packet) -> IpfPacket {
    let mut facts = facts.clone();
    if met.handling & handling::REVERSE_PATH == 0 {
        facts.attributes |= attribute::BAD_SRC;
    }
    facts
}

impl Judges<'_> {
    /// Judges a packet by all; what differs is an error.
    fn judge(&mut self, sent: Sent, tally: &mut Tally) -> Result<(), String> {
        let (now_ms, spoiled) = (sent.now_ms, sent.spoiled);
        let (met, bytes) = on_the_wire(&sent);
        let out = met.hook != Hook::Prerouting;
        let interface = if out { &met.out_iface } else { &met.in_iface };
        let facts = ipf_packet(&bytes, out, interface, LinkClass::default());
        let before = self.meaning.states.entries().len();
        let exceeded = |m: &Meaning<'_>| m.limits.entries().map(|l| l.exceeded).sum::<u64>();
        let limits = (exceeded(&self.meaning), self.meaning.limits.added);
        let meant = self.meaning.judge(&routed(&facts, &met), now_ms);
        if meant.outcome == Outcome::BadPacket {
            return Ok(());
        }
        tally.packets += 1;
        tally.fragments += u64::from(meant.by_fragment);
        tally.wrong_sums += u64::from(spoiled && facts.attributes & attribute::BAD != 0);
        tally.hits += u64::from(meant.state.is_some() && meant.matched.is_empty());
        let error = facts.icmp.as_ref().is_some_and(|icmp| icmp.error);
        let met_rules = meant.state.is_some() && !meant.matched.is_empty();
        tally.judged += u64::from(error && met_rules);
        tally.made += u64::from(self.meaning.states.entries().len() > before);
        tally.above += u64::from(exceeded(&self.meaning) > limits.0);
        tally.within += u64::from(self.meaning.limits.added > limits.1);
        tally.out_of_window += u64::from(meant.attributes & 1 << 9 != 0);
        *(if meant.passes {
            &mut tally.passed
        } else {
            &mut tally.blocked
        }) += 1;
        let mut passage = Passage::of(&met);
        passage.facts = Some(Box::new(facts.clone()));
        let found = self.model.judge(&met, &mut passage.clone(), now_ms);
        let rules = self.set.rules.len() as u32;
        let of_text =
            |rule: &weir_policy::model::RuleId| (rule.0 < rules).then_some(rule.0 as usize);
        let matched: Vec<usize> = found.matched.iter().filter_map(of_text).collect();
        let decided = found.decided_by.as_ref().and_then(of_text);
        let meant_all = (meant.passes, &meant.matched, meant.rule);
        let found_all = (found.verdict == Verdict::Accept, &matched, decided);
        if meant_all != found_all {
            return Err(format!(
                "meant {meant_all:?}, model {found_all:?}\n{met:?}\n{meant:?}"
            ));
        }
        self.live.begin();
        let ran = self
            .runner
            .judge(&met, &mut passage, &mut self.live, now_ms);
        let model_all = (found.verdict, found.decided_by, &found.matched);
        let ran_all = (ran.verdict, ran.decided_by, &ran.matched);
        if model_all != ran_all {
            return Err(format!("model {model_all:?}, image {ran_all:?}\n{met:?}"));
        }
        if let Some(kernel) = self.kernel {
            kernel.set_clock(now_ms);
            let seen = kernel
                .judge(met.family, &bytes, &Arrival::of(&met), 0)
                .map_err(|e| e.to_string())?;
            tally.short_ways += u64::from(seen.short_way);
            let number = match found.verdict {
                Verdict::Accept => 1,
                Verdict::Drop => 2,
                Verdict::Reject(_) => 3,
            };
            let model = (number, found.decided_by.map(|rule| rule.0));
            if model != (seen.verdict, seen.deciding) {
                return Err(format!(
                    "model {model:?}, kernel {:?}\n{met:?}\n{facts:?}\n{:?}\n{:?}",
                    (seen.verdict, seen.deciding),
                    self.meaning.states.entries(),
                    kernel.states(now_ms)
                ));
            }
            let counted = kernel.counters(self.model.policy().rule_count);
            let meant = self.model.counters.iter();
            if !meant
                .map(|c| (c.packets, c.bytes))
                .eq(counted.iter().copied())
            {
                return Err(format!(
                    "model counted {:?}, kernel {counted:?}\n{met:?}\n{meant_all:?} {:?}\n{:?}\n{:?}",
                    self.model.counters,
                    self.meaning.states.entries(),
                    kernel.states(now_ms),
                    kernel.state_statistics()
                ));
            }
        }
        Ok(())
    }
}

/// Judges a conversation by a text; whether anybody could.
fn play(
    what: &str,
    text: &str,
    settings: Settings,
    packets: impl Iterator<Item = Sent>,
    kernel: Option<&TestRun>,
    tally: &mut Tally,
) -> bool {
    let Some((set, policy)) = lowered(text, &settings) else {
        return false;
    };
    let compiled = compile(&policy, &Options::default()).expect("it compiles");
    if let Some(kernel) = kernel {
        kernel.set_clock(talk::BEGIN_MS);
        kernel
            .install(&weir_plane::Policy::of(&policy, &compiled))
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let mut judges = Judges {
        set: &set,
        meaning: Meaning::new(&set, Tables::default(), settings),
        model: Evaluator::new(&policy, 0),
        runner: Runner::new(&compiled.image, 0).expect("its own image"),
        live: Reference::new(&policy),
        kernel,
    };
    for (number, sent) in packets.enumerate() {
        let now_ms = sent.now_ms;
        if let Err(found) = judges.judge(sent, tally) {
            panic!("{what} packet {number} at {now_ms}: {found}\n{text}");
        }
    }
    assert_eq!(judges.model.counters, judges.runner.counters, "{what}");
    for (rule, counters) in judges.meaning.counters.iter().enumerate() {
        assert_eq!(
            *counters, judges.model.counters[rule],
            "{what} rule {rule}\n{text}"
        );
    }
    true
}

fn compare(seeds: std::ops::Range<u64>, packets: usize, kernel: Option<&TestRun>) -> Tally {
    let (mut policies, mut tally) = (0, Tally::default());
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let text = text(&mut rng);
        let settings = Settings {
            state_max: [3, 8, 1000][rng.usize(..3)],
            lifetimes: lifetimes(&mut rng),
            checks_source: rng.u8(..3) == 0,
            ..Settings::default()
        };
        let mut talks = Talks::new(seed);
        // Of half of the policies nobody else looks at checksums, so that packets can be spoiled.
        let unknown = rng.bool();
        if let Some(kernel) = kernel {
            kernel.set_sums_unknown(unknown);
        }
        let sent = std::iter::repeat_with(|| {
            let sent = talks.packet();
            let spoiled = sent.spoiled && unknown;
            Sent { spoiled, ..sent }
        });
        let sent = sent.take(packets);
        let what = format!("seed {seed}");
        policies += u32::from(play(&what, &text, settings, sent, kernel, &mut tally));
    }
    println!("{policies} policies: {tally:?}");
    tally
}

/// A table for learned states in the kernel.
fn learning() -> TestRun {
    let capacity = Capacity::for_policy(1 << 20, 4096, 1 << 16, 4096).expect("it fits");
    TestRun::learning(capacity).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn states_mean_the_same_in_the_model_and_the_image() {
    let tally = compare(0..2_000, 150, None);
    let all = [
        tally.hits,
        tally.made,
        tally.out_of_window,
        tally.passed,
        tally.blocked,
    ];
    assert!(all.iter().all(|count| *count > 2_000), "{tally:?}");
}

#[test]
fn states_mean_the_same_in_the_kernel() {
    let Some(()) = weir_plane::kernel_or_skip("states_mean_the_same_in_the_kernel") else {
        return;
    };
    let kernel = learning();
    // A million packets, which take 45 s.
    let policies = setting("WEIR_KERNEL_POLICIES", 2_500);
    let tally = compare(seeds(policies), 400, Some(&kernel));
    let all = [
        tally.hits,
        tally.made,
        tally.out_of_window,
        tally.blocked,
        tally.above,
        tally.within,
        tally.wrong_sums,
    ];
    assert!(all.iter().all(|count| *count > policies), "{tally:?}");
    assert!(tally.short_ways > policies, "{tally:?}");
    // Rarer: not every text has a state made for a first fragment.
    assert!(tally.fragments * 4 > policies, "{tally:?}");
}

#[test]
fn conversations_that_go_on_in_the_kernel() {
    let name = "conversations_that_go_on_in_the_kernel";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let kernel = learning();
    let mut tally = Tally::default();
    for seed in seeds(200) {
        let mut rng = Rng::with_seed(seed);
        let keep = one(
            &mut rng,
            &["", "", " (age 30/5)", " (strict)", " (loose)", " (limit 2)"],
        );
        let mut text = String::new();
        for direction in ["in", "out"] {
            let log = one(&mut rng, &["", "", "", " log", " log first"]);
            text += &format!("pass {direction}{log} quick proto tcp all keep state{keep}\n");
            text += &format!("pass {direction} quick proto udp all keep state\n");
        }
        text += "block in all\nblock out all\n";
        let settings = Settings {
            state_max: 1000,
            lifetimes: lifetimes(&mut rng),
            ..Settings::default()
        };
        let sent = talk::steady(seed, 150).into_iter();
        let what = format!("{name} {seed}");
        assert!(play(
            &what,
            &text,
            settings,
            sent,
            Some(&kernel),
            &mut tally
        ));
    }
    println!("{tally:?}");
    assert!(tally.hits * 2 > tally.packets, "{tally:?}");
    // Where only one state has the conversation's name.
    assert!(tally.short_ways > 500, "{tally:?}");
}

#[test]
fn ports_used_again_leave_what_lives_in_the_kernel() {
    let name = "ports_used_again_leave_what_lives_in_the_kernel";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let kernel = learning();
    let text = "block out quick all keep state (age 1/600)\n";
    let mut tally = Tally::default();
    let sent = talk::used_again(40).into_iter();
    let settings = Settings {
        state_max: 1000,
        ..Settings::default()
    };
    assert!(play(name, text, settings, sent, Some(&kernel), &mut tally));
    // The reset, and one error.
    assert_eq!(tally.hits, 2, "{tally:?}");
}
