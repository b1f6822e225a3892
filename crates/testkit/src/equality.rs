//! One policy, one stream of packets, three ways to judge it: the evaluator (the meaning), the
//! compiled image in user space, and the programs in the kernel. All of it must be equal: verdict,
//! deciding rule, matched rules, operations, mark, TOS, connection state, and in the end every
//! counter.

use fastrand::Rng;
use weir_engine::compile::{Options, compile};
use weir_engine::packet::{Arrival, build, settle};
use weir_engine::run::{Reference, Runner};
use weir_plane::testrun::TestRun;
use weir_policy::eval::{Evaluator, Judgement, Passage};
use weir_policy::model::{Family, Hook, Op, Packet, Policy, Reading, RuleId, Transport, Verdict};

use crate::dress::Dress;
use crate::random::PacketSource;

/// What is compared.
pub struct Comparison<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Packets tried.
    pub packets: usize,
    /// Seed of the packets.
    pub seed: u64,
    /// Hooks at which packets are met.
    pub hooks: &'a [Hook],
    /// How the policy is compiled.
    pub options: Options,
    /// The programs in the kernel, where there are any.
    pub kernel: Option<&'a TestRun>,
    /// Whether packets get what rules of ipfw ask for, see [`Dress`].
    pub dressed: bool,
}

/// What happened while comparing, so that a test can see that it was worth something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets judged.
    pub packets: u64,
    /// By verdict: accepted, dropped, rejected.
    pub verdicts: [u64; 3],
    /// By state: INVALID, NEW, ESTABLISHED, RELATED, UNTRACKED.
    pub states: [u64; 5],
    /// Rules that matched at least once.
    pub rules_hit: u64,
    /// Packets that went the kernel's short way (`lane.h`).
    pub short_ways: u64,
    /// Of these, ICMP.
    pub short_icmp: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.rules_hit += other.rules_hit;
        self.short_ways += other.short_ways;
        self.short_icmp += other.short_icmp;
        self.verdicts
            .iter_mut()
            .zip(other.verdicts)
            .for_each(|(a, b)| *a += b);
        self.states
            .iter_mut()
            .zip(other.states)
            .for_each(|(a, b)| *a += b);
    }

    fn note(&mut self, judgement: &Judgement) {
        self.packets += 1;
        let verdict = match judgement.verdict {
            Verdict::Accept => 0,
            Verdict::Drop => 1,
            Verdict::Reject(_) => 2,
        };
        self.verdicts[verdict] += 1;
        self.states[(judgement.state as u8).trailing_zeros() as usize] += 1;
    }
}

/// Where the evaluator and another engine disagree, with everything needed to repeat it.
#[derive(Clone)]
pub struct Mismatch(pub String);

impl std::fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The evaluator, and the walk of an image in user space, of one policy.
pub struct Both<'a> {
    policy: &'a Policy,
    /// The meaning.
    pub evaluator: Evaluator<'a>,
    /// The walk.
    pub runner: Runner<'a>,
    live: Reference,
}

impl<'a> Both<'a> {
    /// Both at a time, in milliseconds.
    pub fn new(policy: &'a Policy, image: &'a [u8], now_ms: u64) -> Result<Self, Mismatch> {
        Ok(Both {
            policy,
            evaluator: Evaluator::new(policy, now_ms),
            runner: Runner::new(image, now_ms)
                .map_err(|e| Mismatch(format!("the image is refused: {e}")))?,
            live: Reference::new(policy),
        })
    }

    /// Judges a packet both ways; all that is said of it must be equal.
    pub fn judge(
        &mut self,
        packet: &Packet,
        now_ms: u64,
        place: &dyn Fn() -> String,
    ) -> Result<Judgement, Mismatch> {
        let (mut left, mut right) = (Passage::of(packet), Passage::of(packet));
        self.live.begin();
        let meant = self.evaluator.judge(packet, &mut left, now_ms);
        let found = self
            .runner
            .judge(packet, &mut right, &mut self.live, now_ms);
        same("matched rules", &meant.matched, &found.matched, place)?;
        same("verdict", &meant.verdict, &found.verdict, place)?;
        same("deciding rule", &meant.decided_by, &found.decided_by, place)?;
        same("hot drop", &meant.hot_drop, &found.hot_drop, place)?;
        same("mark", &meant.mark, &found.mark, place)?;
        same("tos", &meant.tos, &found.tos, place)?;
        same("state", &meant.state, &found.state, place)?;
        let mut ops = meant.ops.iter().zip(&found.ops);
        let is_same = meant.ops.len() == found.ops.len() && ops.all(|(a, b)| self.is_op(a, *b));
        if !is_same {
            let (ops, found) = (&meant.ops, &found.ops);
            let place = place();
            return Err(Mismatch(format!(
                "operations: meant {ops:?}, found {found:?} at {place}"
            )));
        }
        Ok(meant)
    }

    /// Whether the operation of this number is the one that is meant. Branches of one rule of ipfw
    /// share its id.
    fn is_op(&self, (rule, meant): &(RuleId, Op), (found, index): (RuleId, u16)) -> bool {
        let mut rules = self.policy.chains.iter().flat_map(|chain| &chain.rules);
        let index = usize::from(index);
        *rule == found && rules.any(|one| one.id == found && one.ops.get(index) == Some(meant))
    }

    /// The counters of all rules must be equal.
    pub fn compare_counters(&self, place: &dyn Fn() -> String) -> Result<(), Mismatch> {
        let (meant, found) = (&self.evaluator.counters, &self.runner.counters);
        same("counters", meant, found, place)
    }
}

/// The clock at the first packet; away from zero, as real clocks are.
const START_MS: u64 = 1_000_000;

impl Comparison<'_> {
    /// Runs the comparison.
    pub fn run(&self) -> Result<Tally, Mismatch> {
        let compiled = compile(self.policy, &self.options)
            .map_err(|e| Mismatch(format!("the policy does not compile: {e}")))?;
        let mut both = Both::new(self.policy, &compiled.image, START_MS)?;
        if let Some(kernel) = self.kernel {
            self.install(kernel, &compiled)?;
        }
        let mut source = PacketSource::new(self.policy, self.seed);
        let mut rng = Rng::with_seed(self.seed ^ 0xd7e5);
        let (mut tally, mut now_ms) = (Tally::default(), START_MS);
        for number in 0..self.packets {
            now_ms += [0, 1, 1, 40, 700][number % 5];
            let family = if number % 2 == 0 {
                Family::V4
            } else {
                Family::V6
            };
            let hook = self.hooks[number / 2 % self.hooks.len()];
            let dress = self.dressed.then(|| Dress::new(&mut rng));
            let (packet, bytes) = on_the_wire(
                source.conversation(family, hook),
                dress,
                self.policy.reading,
            )?;
            let place = || format!("packet {number} (seed {}) {packet:?}", self.seed);
            let meant = both.judge(&packet, now_ms, &place)?;
            tally.note(&meant);
            if let Some(kernel) = self.kernel {
                // Some go the whole way though the short way is open to them.
                kernel.set_whole_way(!self.is_short_open() || number / 2 % 4 == 3);
                let seen = (&packet, &*bytes);
                let short = self.kernel_packet(kernel, seen, &meant, now_ms, &place)?;
                tally.short_ways += u64::from(short);
                let icmp = matches!(packet.transport, Transport::Icmp { .. });
                tally.short_icmp += u64::from(short && icmp);
            }
        }
        let counters = &both.evaluator.counters;
        tally.rules_hit = counters.iter().filter(|c| c.packets > 0).count() as u64;
        let place = || format!("after {} packets (seed {})", self.packets, self.seed);
        both.compare_counters(&place)?;
        if let Some(kernel) = self.kernel {
            let counted = kernel.counters(self.policy.rule_count);
            for (rule, (meant, found)) in counters.iter().zip(counted).enumerate() {
                let what = format!("kernel counters of rule {rule}");
                same(&what, &(meant.packets, meant.bytes), &found, &place)?;
            }
        }
        Ok(tally)
    }

    /// Whether packets may go the kernel's short way. On it nothing is tracked for a policy that
    /// does not ask about states; so half of these policies go the whole way, states compared.
    fn is_short_open(&self) -> bool {
        self.is_tracked() || self.seed % 8 < 4
    }

    /// Whether the policy asks about states.
    fn is_tracked(&self) -> bool {
        weir_plane::needs::of(self.policy) & weir_plane::hooks::TRACK != 0
    }

    fn install(
        &self,
        kernel: &TestRun,
        compiled: &weir_engine::compile::Compiled,
    ) -> Result<(), Mismatch> {
        let policy = weir_plane::Policy::of(self.policy, compiled);
        kernel.set_clock(START_MS);
        kernel
            .install(&policy)
            .map_err(|e| Mismatch(format!("the kernel refuses it: {e}")))
    }

    /// Judges a packet in the kernel; tells whether it went the short way.
    fn kernel_packet(
        &self,
        kernel: &TestRun,
        (packet, bytes): (&Packet, &[u8]),
        meant: &Judgement,
        now_ms: u64,
        place: &dyn Fn() -> String,
    ) -> Result<bool, Mismatch> {
        kernel.set_clock(now_ms);
        let outcome = kernel
            .judge(packet.family, bytes, &Arrival::of(packet), 0)
            .map_err(|e| Mismatch(format!("{e} at {}", place())))?;
        let (verdict, deciding, mark) = (outcome.verdict, outcome.deciding, outcome.mark);
        if self.is_tracked() || !self.is_short_open() {
            same(
                "kernel state",
                &(meant.state as u8),
                &outcome.key.state,
                place,
            )?;
        }
        let number = match meant.verdict {
            Verdict::Accept => 1,
            Verdict::Drop => 2,
            Verdict::Reject(_) => 3,
        };
        same("kernel verdict", &number, &verdict, place)?;
        same(
            "kernel deciding rule",
            &meant.decided_by.map(|r| r.0),
            &deciding,
            place,
        )?;
        same("kernel mark", &meant.mark, &mark, place)?;
        Ok(outcome.short_way)
    }
}

/// The packet as its bytes say it, and these: what cannot be written is put right first.
fn on_the_wire(
    mut packet: Packet,
    dress: Option<Dress>,
    reading: Reading,
) -> Result<(Packet, Vec<u8>), Mismatch> {
    settle(&mut packet);
    let mut bytes = build(&packet, usize::MAX).map_err(|e| Mismatch(format!("{e}: {packet:?}")))?;
    if let Some(dress) = dress {
        let before = bytes.len();
        dress.put_on(&mut bytes);
        packet.length += (bytes.len() - before) as u32;
    }
    match weir_engine::packet::packet(&bytes, packet.length, &Arrival::of(&packet), reading) {
        Some(read) => Ok((read, bytes)),
        None => Err(Mismatch(format!("its bytes are refused: {packet:?}"))),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    meant: &T,
    found: &T,
    place: &dyn Fn() -> String,
) -> Result<(), Mismatch> {
    if meant == found {
        return Ok(());
    }
    Err(Mismatch(format!(
        "{what}: meant {meant:?}, found {found:?} at {}",
        place()
    )))
}
