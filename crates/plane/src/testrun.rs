//! Judge packets without a network: `BPF_PROG_TEST_RUN` of the real programs, loaded once more
//! with `testing` set, so that interfaces, owner, state and clock come from the test.
//!
//! One packet costs one system call (1 to 3 microseconds), so equality tests can try millions.

use std::cell::Cell;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use weir_engine::image::layout::{FEATURE_DYNAMIC, FEATURE_LEARNED};
use weir_engine::packet::{Arrival, convert};
use weir_policy::model::{Family, Hook};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::abi::{Control, Facts, Key, Test};
use crate::error::{Result, system};
use crate::load::{Capacity, FRAMES, Instance, TRACKS, load};
use crate::swap::{self, Policy};
use crate::sys::bpf::{RunResult, test_run};

/// Programs loaded for test runs.
#[derive(Debug)]
pub struct TestRun {
    instance: Arc<Instance>,
    whole_way: Cell<bool>,
    summed: Cell<u32>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `enum weir_verdict`: 1 accept, 2 drop, 3 reject; 0 when the programs did not get that far.
    pub verdict: u32,
    /// What netfilter was told.
    pub accepted: bool,
    /// The rule that decided.
    pub deciding: Option<u32>,
    /// Packet mark at the end.
    pub mark: u32,
    /// The packet as it was parsed and tracked.
    pub key: Key,
    /// Whether it went the short way (`lane.h`).
    pub short_way: bool,
}

/// `WEIR_SUMMED_NONE`.
const SUMMED_NONE: u32 = 0;
/// `WEIR_SUMMED_RIGHT`.
const SUMMED_RIGHT: u32 = 1;
/// `WEIR_TEST_PARSE`.
const WAY_PARSE: u8 = 2;
const TEST: usize = offset_of!(Control, test);

impl TestRun {
    /// Load the programs with maps of these sizes.
    pub fn new(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        Ok(TestRun {
            instance: Arc::new(load(capacity, true, !(FEATURE_LEARNED | FRAMES), None)?),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// Load the programs for policies that keep no flows.
    pub fn without_flows(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        Ok(TestRun {
            instance: Arc::new(load(
                capacity,
                true,
                !(FEATURE_LEARNED | TRACKS | FRAMES),
                None,
            )?),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// Load the programs for policies whose rules make states, which keep no flows.
    pub fn learning(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        Ok(TestRun {
            instance: Arc::new(load(
                capacity,
                true,
                !(FEATURE_DYNAMIC | TRACKS | FRAMES),
                None,
            )?),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// Load the programs for policies whose rules note flows as ipfw does, and that keep none as
    /// iptables does.
    pub fn dynamic(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        Ok(TestRun {
            instance: Arc::new(load(capacity, true, !(TRACKS | FRAMES), None)?),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// Load the programs for policies of ipfw that judge frames, too: [`TestRun::judge_frame`].
    pub fn frames(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        Ok(TestRun {
            instance: Arc::new(load(capacity, true, !TRACKS, None)?),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// Load the programs as they are for real traffic: only for [`TestRun::time`], as they tell
    /// nothing and pretend nothing.
    pub fn as_deployed(capacity: Capacity) -> Result<TestRun> {
        crate::features::check()?;
        let instance = load(capacity, false, !(FEATURE_LEARNED | FRAMES), None)?;
        Ok(TestRun {
            instance: Arc::new(instance),
            whole_way: Cell::new(false),
            summed: Cell::new(SUMMED_RIGHT),
        })
    }

    /// The loaded programs.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Put a policy in force: counters, histories, flows and states start at zero.
    pub fn install(&self, policy: &Policy<'_>) -> Result<()> {
        self.replace(policy)?;
        let flows = self.instance.map("flows");
        flows.memory().zero(0, flows.entry);
        if let Some(learned) = &self.instance.learned {
            crate::learned::clear(learned);
            crate::shares::clear(&self.instance);
        }
        Ok(())
    }

    /// Put another policy in force; flows and states stay, as when rules are loaded again.
    pub fn replace(&self, policy: &Policy<'_>) -> Result<()> {
        let number = swap::generation(&self.instance, swap::active(&self.instance)) + 1;
        swap::write_spare(&self.instance, policy, number)?;
        swap::flip(&self.instance);
        Ok(())
    }

    /// Send the next packets the whole way, even those that could go the short way.
    pub fn set_whole_way(&self, whole: bool) {
        self.whole_way.set(whole);
    }

    /// Let no device have checked the transport checksums of the next packets, so that the programs
    /// do where it matters. Otherwise they are taken to be right.
    pub fn set_sums_unknown(&self, unknown: bool) {
        self.summed.set(match unknown {
            true => SUMMED_NONE,
            false => SUMMED_RIGHT,
        });
    }

    /// Put the addresses of a host in force.
    pub fn set_locals(&self, locals: &weir_policy::eval::Locals) {
        crate::locals::write(&self.instance, locals);
    }

    /// Let the packet clock stand at `milliseconds` (0: the kernel's clock).
    pub fn set_clock(&self, milliseconds: u64) {
        self.instance
            .control()
            .store64(offset_of!(Control, clock_ms), milliseconds);
    }

    fn set_test(&self, test: &Test) {
        let given = offset_of!(Test, packet);
        self.instance
            .control()
            .write(TEST, &test.as_bytes()[..given]);
    }

    fn result(&self) -> Test {
        let mut test = Test::new_zeroed();
        self.instance.control().read(TEST, test.as_mut_bytes());
        test
    }

    /// Run a program over the packet's bytes (from the network header on).
    fn execute(&self, hook: Hook, family: Family, packet: &[u8], repeat: u32) -> Result<RunResult> {
        // struct nf_hook_state: hook, family, and pointers that must be null.
        let mut state = [0u8; 48];
        state[0] = convert::hook_number(hook);
        state[1] = if family == Family::V4 { 2 } else { 10 };
        let mut data = [0u8; 4096];
        // Outside OUTPUT the kernel wants an Ethernet header, and takes it off again.
        let link = if hook == Hook::Output { 0 } else { 14 };
        if link != 0 {
            let kind: u16 = if family == Family::V4 { 0x0800 } else { 0x86dd };
            data[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        let length = packet.len().min(Self::LIMIT);
        data[link..link + length].copy_from_slice(&packet[..length]);
        test_run(
            self.instance.program(crate::attach::judge(family)),
            &data[..link + length],
            &state,
            repeat,
        )
        .map_err(system("running a program over a test packet"))
    }

    /// Bytes of a packet that a test run takes; more is cut off.
    pub const LIMIT: usize = 3400;

    /// Judge one packet. `state`: a bit of `model::CtState` to take instead of the flow table's
    /// answer, or 0.
    pub fn judge(
        &self,
        family: Family,
        packet: &[u8],
        arrival: &Arrival,
        state: u8,
    ) -> Result<Outcome> {
        let mut test = test_of(arrival, state);
        test.way = u8::from(self.whole_way.get());
        test.summed = self.summed.get();
        self.set_test(&test);
        let run = self.execute(arrival.hook, family, packet, 1)?;
        Ok(self.outcome(run.value == 1))
    }

    /// Judge one frame, from its Ethernet header on: a sent one at POSTROUTING, a received one at
    /// any other hook. Only for what [`TestRun::frames`] made.
    pub fn judge_frame(&self, frame: &[u8], arrival: &Arrival) -> Result<Outcome> {
        let program = match arrival.hook {
            Hook::Postrouting => "weir_frames_out",
            _ => "weir_frames_in",
        };
        self.set_test(&test_of(arrival, 0));
        let frame = &frame[..frame.len().min(Self::LIMIT)];
        let run = test_run(self.instance.program(program), frame, &[], 1)
            .map_err(system("running a program over a test frame"))?;
        // TCX_NEXT is -1.
        Ok(self.outcome(run.value == u32::MAX))
    }

    fn outcome(&self, accepted: bool) -> Outcome {
        let test = self.result();
        Outcome {
            verdict: test.verdict,
            accepted,
            deciding: (test.deciding != u32::MAX).then_some(test.deciding),
            mark: test.result_mark,
            key: test.packet,
            short_way: test.short_way != 0,
        }
    }

    /// Only parse: the packet, and the one inside an ICMP error.
    pub fn parse(&self, family: Family, packet: &[u8]) -> Result<(Option<Key>, Option<Key>)> {
        let mut test = test_of(&Arrival::at(Hook::Output), 0);
        (test.way, test.packet_type) = (WAY_PARSE, 0);
        self.set_test(&test);
        self.execute(Hook::Output, family, packet, 1)?;
        let test = self.result();
        if test.parse_result != 0 {
            return Ok((None, None));
        }
        Ok((
            Some(test.packet),
            (test.inner_result == 0).then_some(test.inner),
        ))
    }

    /// Nanoseconds of one judgement, averaged over `repeat` runs.
    pub fn time(
        &self,
        family: Family,
        packet: &[u8],
        arrival: &Arrival,
        state: u8,
        repeat: u32,
    ) -> Result<u32> {
        let mut test = test_of(arrival, state);
        test.summed = self.summed.get();
        self.set_test(&test);
        Ok(self
            .execute(arrival.hook, family, packet, repeat)?
            .nanoseconds)
    }

    /// Packets and bytes of the first `rules` rules of the policy in force.
    pub fn counters(&self, rules: u32) -> Vec<(u64, u64)> {
        crate::counters::read(&self.instance, swap::active(&self.instance), rules)
    }

    /// Descriptor of a map, for tests that look into it.
    pub fn map_descriptor(&self, name: &str) -> i32 {
        self.instance.map(name).fd.as_fd().as_raw_fd()
    }

    /// The control block as it is.
    pub fn control(&self) -> Control {
        let mut bytes = vec![0u8; size_of::<Control>()];
        self.instance.control().read(0, &mut bytes);
        Control::read_from_bytes(&bytes).expect("the size is right")
    }
}

fn facts_of(known: &weir_policy::model::Facts) -> Facts {
    let mut facts = Facts::new_zeroed();
    let members = &known.groups[..known.groups.len().min(facts.groups.len())];
    facts.groups[..members.len()].copy_from_slice(members);
    facts.group_count = members.len() as u32;
    let groups = &known.control_groups[..known.control_groups.len().min(3)];
    facts.control_groups[..groups.len()].copy_from_slice(groups);
    facts.control_group_count = groups.len() as u32;
    facts.known = u32::from(known.socket)
        | u32::from(known.class.is_some()) << 1
        | u32::from(known.ports.is_some()) << 2;
    facts.class = known.class.unwrap_or(0);
    (facts.cpu, facts.device_groups, facts.realm) = (known.cpu, known.device_groups, known.realm);
    for (to, from) in facts.ports.iter_mut().zip(known.ports.iter().flatten()) {
        put_name(to, from);
    }
    facts
}

fn put_name(to: &mut [u8; 16], name: &str) {
    let length = name.len().min(15);
    to[..length].copy_from_slice(&name.as_bytes()[..length]);
}

fn test_of(arrival: &Arrival, state: u8) -> Test {
    let mut test = Test::new_zeroed();
    put_name(&mut test.in_name, &arrival.in_iface);
    put_name(&mut test.out_name, &arrival.out_iface);
    test.mac = arrival.mac.map_or(u64::MAX, |m| {
        m.iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    });
    test.mark = arrival.mark;
    if let Some((uid, gid)) = arrival.owner {
        (test.has_owner, test.uid, test.gid) = (1, uid, gid);
    }
    test.packet_type = convert::packet_type_number(arrival.packet_type);
    test.state = state;
    test.handling = u32::from(arrival.handling);
    test.facts = facts_of(&arrival.aside);
    test
}
