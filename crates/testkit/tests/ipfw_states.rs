//! ipfw's rules that note flows, three or four ways: their own evaluator (the meaning), the rule
//! model, the compiled image in user space, and the programs in the kernel. Same verdicts, same
//! rules in the same order, same counters, packet by packet, over conversations with gaps in time.

#[path = "states/ipfw_text.rs"]
mod ipfw_text;
#[path = "states/talk.rs"]
mod talk;

use fastrand::Rng;
use talk::Talks;
use weir_engine::compile::{Options, compile};
use weir_engine::packet::ipfw::{Met, Read, read};
use weir_engine::packet::{Arrival, build, packet, settle};
use weir_engine::run::{Reference, Runner};
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipfw::ast::Action;
use weir_policy::dialect::ipfw::lower::tags_in_mark;
use weir_policy::dialect::ipfw::{Ruleset, Settings};
use weir_policy::eval::ipfw::{
    Carried, Effect, Evaluator as Meaning, Judgement as Meant, Outcome, Pass, Way,
};
use weir_policy::eval::{Evaluator, Judgement, Passage};
use weir_policy::model::{Family, Hook, Op, Packet, Reading, RuleId, Transport, Verdict};
use weir_testkit::random::ipfw::lowered;
use weir_testkit::seeds::{seeds, setting};

/// How often what happened.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    hits: u64,
    made: u64,
    refused: u64,
    passed: u64,
    blocked: u64,
    /// Packets of a state whose rule calls or returns.
    called: u64,
    /// Lines of `check-state` rules.
    lines: u64,
    /// ICMP errors that a state of what they quote was found for.
    errors: u64,
    /// Rule sets with `tablearg` beside states.
    by_table: u64,
}

/// Some addresses that mean nothing without their interface.
fn with_local(mut packet: Packet) -> Packet {
    let local = |address: &mut u128| {
        if *address >> 64 == 0x2001_0db8_0000_0001 {
            *address = 0xfe80 << 112 | *address & 0xff;
        }
    };
    if packet.family == Family::V6 {
        local(&mut packet.src);
        local(&mut packet.dst);
    }
    if let Transport::Icmp {
        about: Some(about), ..
    } = &mut packet.transport
    {
        **about = with_local((**about).clone());
    }
    packet
}

struct Judges<'p> {
    set: &'p Ruleset,
    meaning: Meaning<'p>,
    model: Evaluator<'p>,
    runner: Runner<'p>,
    live: Reference,
    kernel: Option<&'p TestRun>,
}

impl Judges<'_> {
    /// What ipfw makes of a packet.
    fn meant(&mut self, met: &Packet, bytes: &[u8], now_ms: u64) -> Option<(Meant, Carried)> {
        let place = Met {
            pass: match met.hook {
                Hook::Prerouting => Pass::In,
                _ => Pass::Out,
            },
            recv: met.in_iface.clone(),
            xmit: met.out_iface.clone(),
            frame: None,
            to_many: false,
        };
        let length = bytes.len() as u32;
        let mut carried = Carried {
            mark: met.mark,
            tags: tags_in_mark(self.set, met.mark).into_iter().collect(),
            tos: met.tos,
            ..Carried::default()
        };
        let meant = match read(bytes, length, &place, &self.set.settings) {
            Read::NotIp => return None,
            Read::Dropped(_) if met.transport == Transport::None => return None,
            Read::Dropped(why) => Meant::dropped(why),
            Read::Packet(own) => self.meaning.judge(&own, &mut carried, now_ms),
        };
        Some((meant, carried))
    }

    /// Judges a packet by all; what differs is an error.
    fn judge(&mut self, sent: talk::Sent, tally: &mut Tally) -> Result<(), String> {
        let now_ms = sent.now_ms;
        let mut made = with_local(sent.packet.clone());
        settle(&mut made);
        let mut bytes = build(&made, usize::MAX).expect("a settled packet can be built");
        sent.put_into(&mut bytes);
        let met = packet(
            &bytes,
            bytes.len() as u32,
            &Arrival::of(&made),
            Reading::Ipfw,
        )
        .expect("it parses");
        let before = self.meaning.states.len();
        let Some((meant, carried)) = self.meant(&met, &bytes, now_ms) else {
            return Ok(());
        };
        tally.packets += 1;
        tally.hits += u64::from(meant.state.is_some());
        let errs = matches!(&met.transport, Transport::Icmp { about: Some(_), .. });
        tally.errors += u64::from(
            errs && self.set.settings.dyn_icmp_errors && meant.state == Some(Way::Reverse),
        );
        tally.made += u64::from(self.meaning.states.len() > before);
        let refused = |acted: &weir_policy::eval::ipfw::Acted| acted.effect == Effect::StateRefused;
        tally.refused += u64::from(meant.trail.iter().any(refused));
        let calls = |acted: &weir_policy::eval::ipfw::Acted| {
            let is = |action: &Action| matches!(action, Action::Call(_) | Action::Return);
            let own = &self.set.rules.iter().find(|one| one.id == acted.rule);
            matches!(&acted.effect, Effect::Action(action) if is(action))
                && own.is_some_and(|one| one.rule.state.is_some())
        };
        tally.called += u64::from(meant.state.is_some() && meant.trail.iter().any(calls));
        let lines = meant.log.iter().filter(|line| !line.contains("limit"));
        tally.lines += lines.filter(|line| line.contains(" CheckState ")).count() as u64;
        let accepts = meant.outcome == Outcome::Accept;
        *(match accepts {
            true => &mut tally.passed,
            false => &mut tally.blocked,
        }) += 1;
        let mut passage = Passage::of(&met);
        let found = self.model.judge(&met, &mut passage.clone(), now_ms);
        let rules = self.set.rule_count();
        let visible = |rule: &RuleId| rule.0 < rules;
        let trail: Vec<RuleId> = meant.trail.iter().map(|acted| acted.rule).collect();
        let matched: Vec<RuleId> = found.matched.iter().copied().filter(visible).collect();
        let meant_all = (accepts, &trail, meant.rule);
        let decided = found.decided_by.filter(visible);
        let found_all = (found.verdict == Verdict::Accept, &matched, decided);
        if meant_all != found_all {
            return Err(format!("meant {meant_all:?}, model {found_all:?}\n{met:?}"));
        }
        self.same_changes(&meant, &carried, &found)?;
        self.live.begin();
        let ran = self
            .runner
            .judge(&met, &mut passage, &mut self.live, now_ms);
        let model_all = (found.verdict, found.decided_by, &found.matched);
        let ran_all = (ran.verdict, ran.decided_by, &ran.matched);
        if model_all != ran_all {
            return Err(format!("model {model_all:?}, image {ran_all:?}\n{met:?}"));
        }
        self.in_kernel(&met, &bytes, &found, now_ms)
    }

    /// Compares the lines, the tags and the DSCP.
    fn same_changes(
        &self,
        meant: &Meant,
        carried: &Carried,
        found: &Judgement,
    ) -> Result<(), String> {
        let lines = meant.log.len();
        let is_line = |(_, op): &&(RuleId, Op)| matches!(op, Op::Log(_));
        let logged = found.ops.iter().filter(is_line).count();
        if lines != logged {
            return Err(format!("lines {:?}, model {:?}", meant.log, found.ops));
        }
        let tags = tags_in_mark(self.set, found.mark);
        match carried.tags.iter().copied().eq(tags) && carried.tos == found.tos {
            true => Ok(()),
            false => Err(format!("{carried:?}, model {found:?}")),
        }
    }

    fn in_kernel(
        &self,
        met: &Packet,
        bytes: &[u8],
        found: &Judgement,
        now_ms: u64,
    ) -> Result<(), String> {
        let Some(kernel) = self.kernel else {
            return Ok(());
        };
        kernel.set_clock(now_ms);
        let seen = kernel
            .judge(met.family, bytes, &Arrival::of(met), 0)
            .map_err(|e| e.to_string())?;
        let number = match found.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        let model = (number, found.decided_by.map(|rule| rule.0));
        if model != (seen.verdict, seen.deciding) {
            return Err(format!(
                "model {model:?}, kernel {:?}\n{met:?}\n{:#?}\n{:#?}",
                (seen.verdict, seen.deciding),
                self.meaning.states.lines(now_ms / 1000),
                kernel.states(now_ms)
            ));
        }
        let counted = kernel.counters(self.model.policy().rule_count);
        let meant = self.model.counters.iter();
        let mut pairs = meant.map(|c| (c.packets, c.bytes)).zip(counted);
        match pairs.all(|(meant, counted)| meant == counted) {
            true => Ok(()),
            false => Err(format!("counters differ\n{met:?}\n{found:?}")),
        }
    }
}

/// Judges a conversation by a text; whether anybody could.
fn play(
    what: &str,
    (text, settings): (&str, Settings),
    packets: impl Iterator<Item = talk::Sent>,
    kernel: Option<&TestRun>,
    tally: &mut Tally,
) -> bool {
    let Some((set, policy)) = lowered(text, settings) else {
        return false;
    };
    let compiled = compile(&policy, &Options::default()).expect("it compiles");
    if let Some(kernel) = kernel {
        kernel.forget_states();
        kernel.set_clock(talk::BEGIN_MS);
        kernel
            .install(&weir_plane::Policy::of(&policy, &compiled))
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let mut judges = Judges {
        set: &set,
        meaning: Meaning::new(&set),
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
    let counted = &judges.model.counters[..set.rule_count() as usize];
    assert_eq!(judges.meaning.counters, counted, "{what}\n{text}");
    true
}

fn compare(seeds: std::ops::Range<u64>, packets: usize, kernel: Option<&TestRun>) -> (u64, Tally) {
    let (mut policies, mut tally) = (0, Tally::default());
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let text = ipfw_text::text(&mut rng);
        let settings = ipfw_text::settings(&mut rng);
        let mut talks = Talks::new(seed);
        let sent = match seed % 8 {
            0 => talk::steady(seed, packets),
            _ => (0..packets).map(|_| talks.packet()).collect(),
        };
        let what = format!("seed {seed}");
        let given = (text.as_str(), settings);
        let played = play(&what, given, sent.into_iter(), kernel, &mut tally);
        policies += u64::from(played);
        tally.by_table += u64::from(played && text.contains(" tablearg"));
    }
    println!("{policies} policies: {tally:?}");
    (policies, tally)
}

#[test]
fn states_of_ipfw_mean_the_same_in_the_model_and_the_image() {
    let (policies, tally) = compare(0..2_000, 150, None);
    let all = [
        tally.hits,
        tally.made,
        tally.refused,
        tally.passed,
        tally.blocked,
        tally.lines,
    ];
    assert!(tally.called > 1_000 && tally.errors > 300, "{tally:?}");
    assert!(
        policies > 1_300 && tally.by_table > 300,
        "{policies} {tally:?}"
    );
    assert!(all.iter().all(|count| *count > 2_000), "{tally:?}");
}

/// Programs that note flows.
fn dynamic() -> TestRun {
    let capacity = Capacity::for_policy(1 << 20, 4096, 1 << 16, 4096).expect("it fits");
    TestRun::dynamic(capacity).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn states_of_ipfw_mean_the_same_in_the_kernel() {
    let name = "states_of_ipfw_mean_the_same_in_the_kernel";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let kernel = dynamic();
    // Three of four make a policy: a million packets, which take 45 s.
    let count = setting("WEIR_KERNEL_POLICIES", 3_500);
    let (policies, tally) = compare(seeds(count), 400, Some(&kernel));
    assert!(
        tally.called > count / 2 && tally.errors > count / 4,
        "{tally:?}"
    );
    let all = [tally.hits, tally.made, tally.refused, tally.blocked];
    assert!(
        policies > count / 2 && tally.by_table > count / 8,
        "{policies} {tally:?}"
    );
    assert!(all.iter().all(|one| *one > count), "{tally:?}");
}

#[test]
fn ports_used_again_are_one_flow_in_the_kernel() {
    let name = "ports_used_again_are_one_flow_in_the_kernel";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let kernel = dynamic();
    let text = "add allow tcp from any to any setup limit src-addr 1\n";
    let mut tally = Tally::default();
    let sent = talk::used_again(40).into_iter();
    let given = (text, Settings::default());
    assert!(play(name, given, sent, Some(&kernel), &mut tally));
    // The reset, and all beginnings but the first and the one after the reset's second is over.
    let all = (tally.hits, tally.passed, tally.blocked);
    assert_eq!(all, (39, 41, 8), "{tally:?}");
}

#[test]
fn what_a_jump_looked_up_is_not_kept_for_states() {
    let text = |look: &str| {
        format!(
            "table T create type addr valtype skipto,dscp\n\
             table T add 10.0.0.0/8 100,46\n\
             add 10 skipto tablearg ip from table(T) to any\n\
             add 20 setdscp tablearg udp from table(T) to any keep-state\n\
             {look}\n\
             add 200 allow ip from any to any\n"
        )
    };
    let lowers = |look| lowered(&text(look), Settings::default()).is_some();
    assert!(!lowers("add 100 check-state"));
    assert!(lowers(
        "add 100 count ip from any to any\nadd 110 check-state"
    ));
}

#[test]
fn calls_by_states_of_two_names_may_lead_to_themselves() {
    let text = |second: &str, checks: &str| {
        format!(
            "add 10 call 100 udp from any to any 53 keep-state :A\n\
             add 20 call 100 udp from any to any keep-state{second}\n\
             add 30 deny ip from any to any\n\
             {checks}\n\
             add 120 return ip from any to any\n"
        )
    };
    let lowers = |text: String| lowered(&text, Settings::default()).is_some();
    let both = "add 100 check-state :A\nadd 110 check-state :B";
    // Each look finds what makes the other one needed again, in a further call.
    assert!(!lowers(text(" :B", both)));
    assert!(lowers(text(" :A", both)));
    assert!(lowers(text(" :B", "add 100 check-state :any")));
    // Whoever is called here has just looked for the name.
    assert!(lowers(text(" :A", "add 100 check-state :A")));
}
