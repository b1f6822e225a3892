//! What became of packets under a policy of IPFilter, since it was put in force (`bpf/tally.h`).
//!
//! In: the counts of packets that went the whole way, the counters of rules, and the image, which
//! says what these tell of packets that went a short way. Out: numbers by direction; `None` where
//! the counters can't tell one.

use std::collections::BTreeSet;
use std::mem::offset_of;

use weir_engine::image::brief::entry_at;
use weir_engine::image::layout::{
    self, FLAG_STANDING, Header, Root, TEST_PROPOSED, Test, VERDICT_HOT_DROP, root_number,
};
use weir_engine::image::read;
use weir_policy::model::{Family, Hook, Table};
use zerocopy::{FromZeros, IntoBytes};

use crate::abi::{Control, LANE_STATES, Lane, SCRATCH_COUNT, Tally as Raw};
use crate::error::Result;
use crate::hooks;
use crate::load::Instance;
use crate::plane::Plane;
use crate::swap;

/// `enum weir_verdict`.
const ACCEPT: u8 = 1;
/// `enum weir_noted`.
const STOOD: usize = 0;
const LOOKED: usize = 1;
const BAD: usize = 2;
const SHORT: usize = 3;
const RECORD: usize = 5;
const RECORD_LOST: usize = 6;
const STATE: usize = 7;
const STATE_LOST: usize = 8;
const FRAGMENT: usize = 9;
const FRAGMENT_LOST: usize = 10;
const UNLOGGED: usize = 12;
const RESET: usize = 13;
const UNREACHABLE: usize = 14;
const LOOKED_V6: usize = 15;

/// Packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They passed.
    pub passed: Option<u64>,
    /// They were blocked.
    pub blocked: u64,
    /// Of IPv6.
    pub ipv6: Option<u64>,
    /// No rule decided.
    pub nomatch: u64,
    /// They belonged to a state.
    pub looked: u64,
    /// Their network header made no sense.
    pub bad: u64,
    /// Shorter than their protocol needs.
    pub short: Option<u64>,
    /// Logged by the rule that decided: passed, blocked.
    pub logged: (u64, u64),
    /// Log records of all rules: written, lost.
    pub records: (u64, u64),
    /// States: made, not made.
    pub states: (u64, u64),
    /// Datagrams remembered by a fragment, and not.
    pub fragments: (u64, u64),
    /// Blocked above a rate.
    pub rate: u64,
    /// Blocked for want of a state.
    pub stateless: u64,
    /// Blocked because it couldn't be logged.
    pub unlogged: u64,
    /// Blocked fragments that overlap the first one.
    pub overlaps: u64,
    /// Segments of TCP that are bad for their checksum alone.
    pub wrong_tcp_sums: Option<u64>,
    /// Answers handed to who sends them: resets, ICMP.
    pub answers: (u64, u64),
}

/// Both directions; `None` where no list is asked.
pub type Tally = [Option<Counts>; 2];

/// The roots of a direction's lists.
fn hooks_of(out: bool) -> &'static [Hook] {
    match out {
        false => &[Hook::Prerouting],
        true => &[Hook::Forward, Hook::Output],
    }
}

/// What an image's lists of one direction say about counters.
#[derive(Default)]
struct Lists {
    /// Counters of what no rule decided.
    nomatch: BTreeSet<u32>,
    /// Counters of the looks at states, by family.
    looks: [BTreeSet<u32>; 2],
    /// Counters of rules that accept.
    accepts: BTreeSet<u32>,
    /// Counters that count other things.
    others: BTreeSet<u32>,
    any: bool,
}

impl Lists {
    fn of(image: &[u8], out: bool) -> Option<Self> {
        let header: Header = read(image, 0)?;
        let mut lists = Lists::default();
        for family in [Family::V4, Family::V6] {
            for &hook in hooks_of(out) {
                let number = root_number(family, hook, Table::Filter)?;
                for root in [header.roots[number], header.shorts[number]] {
                    if root != 0 {
                        lists.any = true;
                        lists.list(image, root, family)?;
                    }
                }
            }
        }
        Some(lists)
    }

    fn list(&mut self, image: &[u8], root: u32, family: Family) -> Option<()> {
        let root: Root = read(image, root)?;
        for number in 0..root.entries {
            let entry = entry_at(image, &root, number)?;
            let last = number + 1 == root.entries;
            if last {
                self.nomatch.insert(entry.rule);
            }
            if number == 0 && entry.flags == layout::FLAG_AS_LEARNED {
                self.looks[family as usize].insert(entry.rule);
                continue;
            }
            // Behind a head with `quick`: its proposal decides, and nothing counts.
            let test: Option<Test> = read(image, entry.tests_at).filter(|_| entry.tests == 1);
            let standing = entry.flags & FLAG_STANDING != 0 && !last;
            if standing && test.is_some_and(|test| test.kind == TEST_PROPOSED) {
                continue;
            }
            if entry.verdict == VERDICT_HOT_DROP {
                continue;
            }
            for at in 0..entry.rules {
                let rule = match entry.rules {
                    1 => entry.rule,
                    _ => read(image, entry.rule + at * 4)?,
                };
                if entry.verdict == ACCEPT && at + 1 == entry.rules {
                    self.accepts.insert(rule);
                } else {
                    self.others.insert(rule);
                }
            }
        }
        Some(())
    }

    /// The sum of counters that only count what passes; `None` where one counts other things too.
    fn accepted(&self, packets: impl Fn(u32) -> u64) -> Option<u64> {
        let pure = self.accepts.is_disjoint(&self.others);
        pure.then(|| self.accepts.iter().map(|&rule| packets(rule)).sum())
    }
}

/// Remembers what counters begin with.
pub fn begin(instance: &Instance, slot: u32, policy: &swap::Policy<'_>, presets: &[(u64, u64)]) {
    if policy.hooks & hooks::ANSWERS_PASS == 0 {
        return;
    }
    let packets = |rule: u32| presets.get(rule as usize).map_or(0, |preset| preset.0);
    let lists = Lists::of(policy.image, true);
    let passes = lists.and_then(|lists| lists.accepted(packets));
    let at = offset_of!(Control, preset_passes) + slot as usize * 8;
    instance.control().store64(at, passes.unwrap_or(0));
}

/// The counts of all places, for the policy in force.
fn sums(instance: &Instance, generation: u32) -> Raw {
    let map = instance.map("tallies");
    let mut sum = Raw::new_zeroed();
    let words = size_of::<Raw>() / 8;
    let mut total = vec![0u64; words];
    for place in 0..SCRATCH_COUNT {
        let mut one = Raw::new_zeroed();
        map.memory().read(place * map.entry, one.as_mut_bytes());
        if one.generation == generation {
            let own = one.as_bytes().chunks_exact(8);
            for (sum, word) in total.iter_mut().zip(own).skip(1) {
                *sum += u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            }
        }
    }
    sum.as_mut_bytes().copy_from_slice(total.as_bytes());
    sum
}

/// Whether packets of a direction can go the short way of lists without states.
fn is_short(instance: &Instance, slot: u32, out: bool) -> bool {
    let mut lanes = [Lane::new_zeroed(); 8];
    let at = offset_of!(Control, lanes) + slot as usize * size_of_val(&lanes);
    instance.control().read(at, lanes.as_mut_bytes());
    let is = |(number, lane): (usize, &Lane)| {
        let wanted = hooks_of(out)
            .iter()
            .any(|&hook| number % 4 == hook as usize);
        wanted && lane.root != 0 && lane.flags & LANE_STATES == 0
    };
    lanes.iter().enumerate().any(is)
}

impl Plane {
    /// What became of packets since the policy in force was put there; `None`: it is none of
    /// IPFilter.
    pub fn tally(&self) -> Result<Option<Tally>> {
        let instance = self.instance()?;
        let slot = swap::active(instance);
        if !swap::answers_pass(instance) {
            return Ok(None);
        }
        let images = instance.map("images");
        let mut image = vec![0; instance.capacity().image as usize];
        images
            .memory()
            .read(slot as usize * images.entry, &mut image);
        let sums = sums(instance, swap::generation(instance, slot));
        let counters = crate::counters::read(instance, slot, instance.capacity().rules);
        let packets = |rule: u32| counters.get(rule as usize).map_or(0, |count| count.0);
        let word = |at: usize| instance.control().load64(at + slot as usize * 8);
        let of = |out: bool| {
            let lists = Lists::of(&image, out).filter(|lists| lists.any)?;
            let mut counts = counts(instance, &sums, usize::from(out));
            counts.nomatch = lists.nomatch.iter().map(|&rule| packets(rule)).sum();
            let noted = |number: usize| sums.noted[number][usize::from(out)];
            if out {
                counts.blocked += word(offset_of!(Control, short_drops));
            }
            if out && is_short(instance, slot, true) {
                let before = word(offset_of!(Control, preset_passes));
                let passed = lists.accepted(packets);
                counts.passed = passed.map(|sum| noted(STOOD) + sum.saturating_sub(before));
                counts.ipv6 = None;
                return Some(counts);
            }
            // What belongs to a state may have gone the short way, where it counts at the look.
            let looked = [0, 1].map(|family| {
                let looks = lists.looks[family].iter();
                looks.map(|&rule| packets(rule)).sum::<u64>()
            });
            counts.looked = looked[0] + looked[1];
            let short = counts.looked.saturating_sub(noted(LOOKED));
            let short_v6 = looked[1].saturating_sub(noted(LOOKED_V6));
            counts.passed = counts.passed.map(|passed| passed + short);
            counts.ipv6 = counts.ipv6.map(|ipv6| ipv6 + short_v6);
            Some(counts)
        };
        Ok(Some([of(false), of(true)]))
    }
}

/// What is counted on the whole way.
fn counts(instance: &Instance, sums: &Raw, out: usize) -> Counts {
    let noted = |number: usize| sums.noted[number][out];
    let [dropped, accepted] = sums
        .packets
        .map(|verdict| verdict.map(|family| family[out]));
    let learns = crate::load::learns(instance.settings.features);
    Counts {
        passed: Some(accepted[0] + accepted[1]),
        blocked: dropped[0] + dropped[1],
        ipv6: Some(dropped[1] + accepted[1]),
        nomatch: 0,
        looked: 0,
        bad: noted(BAD),
        short: learns.then(|| noted(SHORT)),
        logged: (sums.logged[1][out], sums.logged[0][out]),
        records: (noted(RECORD), noted(RECORD_LOST)),
        states: (noted(STATE), noted(STATE_LOST)),
        fragments: (noted(FRAGMENT), noted(FRAGMENT_LOST)),
        rate: sums.refused[0][out],
        stateless: sums.refused[1][out],
        unlogged: noted(UNLOGGED),
        overlaps: sums.overlaps[out],
        wrong_tcp_sums: learns.then(|| sums.wrong_tcp_sums[out]),
        answers: (noted(RESET), noted(UNREACHABLE)),
    }
}
