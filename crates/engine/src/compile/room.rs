//! Room for changes in place: free positions between the rules of a root, tests that switch entries
//! off, numbers for the counters of new rules, bytes behind everything.
//!
//! In: a flattened root. Out: the same with free positions spread over it, and what
//! [`crate::update`] must know of the image to change it. Without a [`Plan`] the compiler makes
//! none of this. A root has room when its chain has rules and is entered nowhere else.

use super::flatten::{Entry, Flat};
use super::layers::Spare;
use super::reduce;
use super::service::Services;
use super::term::Term;
use crate::image::layout::{self, TESTS_MAX, Test};
use crate::image::write::Writer;
use weir_policy::model::{ChainId, Family, Policy, Root};
use zerocopy::IntoBytes;

/// Free positions in front of the first rule of a chain, and behind its last.
const EDGE: usize = 256;
/// Free positions in front of every other rule.
const BETWEEN: usize = 1;
/// Bytes of room: for each image, and for each rule.
const BYTES: usize = 1 << 20;
const BYTES_A_RULE: usize = 64;
/// So many times all chunks fit the room beside that: rows are written anew for single terms.
const LEAVES: usize = 3;
const LEAVES_BYTES: usize = 16 << 20;

/// What no packet passes.
pub const NEVER: Test = Test {
    kind: layout::TEST_MARK,
    negate: 0,
    small: 0,
    a: 1,
    b: 0,
    at: 0,
    count: 0,
    padding: [0; 3],
};

/// What stands at a position.
#[derive(Clone, Debug)]
pub enum Slot {
    /// Nothing: free for a rule.
    Free,
    /// Nothing any more: packets under way may still read what was.
    Leaving,
    /// A rule with one entry that goes on with the next position or ends the walk.
    Plain(Vec<Term>),
    /// The same, but nothing leads to it: the rule at this position takes all its packets.
    Covered(Vec<Term>, u32),
    /// An entry that can't be changed in place.
    Fixed,
}

/// A root with room.
#[derive(Debug)]
pub struct RoomyRoot {
    /// Number of the root in the header.
    pub number: usize,
    /// Whether it is the list for packets cut short.
    pub short: bool,
    /// Family of its packets.
    pub family: Family,
    /// Its chain.
    pub chain: ChainId,
    /// Offset of its record.
    pub at: u32,
    /// Offset of its entries.
    pub entries_at: u32,
    /// What stands where; the last is the chain policy.
    pub slots: Vec<Slot>,
    /// Positions to which entries go on over others.
    pub landed: Vec<bool>,
    /// The first entry of each rule of the chain, where it has one.
    pub starts: Vec<Option<u32>>,
    /// Last position with a say in the list for established flows; `None`: there is no such list.
    pub known_end: Option<u32>,
    /// Tables and services.
    pub spare: Spare,
    /// Services that terms name.
    pub services: Services,
}

/// What changes in place need to know of an image.
#[derive(Debug, Default)]
pub struct Plan {
    /// Roots with room.
    pub roots: Vec<RoomyRoot>,
    /// Offset of a test that no packet passes.
    pub never_at: u32,
    /// Offset of the room behind everything.
    pub room_at: u32,
    /// Bytes of it.
    pub room: u32,
    /// First number of a counter for a new rule.
    pub first_rule: u32,
    /// How many there are.
    pub rules: u32,
    /// Roots, by number, whose packets cut short get a list of their own even where no rule reads
    /// the transport header: one may come.
    pub shorts: Vec<usize>,
    policy_rules: usize,
}

impl Plan {
    /// For so many more rules than the policy has counters.
    pub fn of(rules: u32) -> Self {
        Plan {
            rules,
            ..Plan::default()
        }
    }

    /// Writes what comes first.
    pub fn begin(&mut self, policy: &Policy, writer: &mut Writer) {
        self.never_at = writer.section(NEVER.as_bytes());
        self.first_rule = policy.rule_count;
        self.policy_rules = policy.rule_count as usize;
    }

    /// Writes the room. Returns how many counters rules can name.
    pub fn finish(&mut self, writer: &mut Writer) -> u32 {
        let leaves: usize = self.roots.iter().map(|root| root.spare.leaf_bytes).sum();
        let leaves = (LEAVES * leaves).min(LEAVES_BYTES);
        let bytes = BYTES + BYTES_A_RULE * self.policy_rules + leaves;
        self.room = bytes.next_multiple_of(64) as u32;
        self.room_at = writer.section(&vec![0; self.room as usize]);
        self.first_rule + self.rules
    }

    /// Begins a root; `None` when it gets no room.
    pub fn place(
        &self,
        policy: &Policy,
        root: &Root,
        short: bool,
        number: usize,
    ) -> Option<Placing> {
        let entered = policy.roots.iter().filter(|r| r.chain == root.chain);
        if entered.count() > 1 || policy.chain(root.chain).rules.is_empty() {
            return None;
        }
        Some(Placing {
            number,
            short,
            family: root.family,
            chain: root.chain,
            never_at: self.never_at,
            known_end: None,
            slots: Vec::new(),
            landed: Vec::new(),
            starts: Vec::new(),
        })
    }
}

/// A root on its way.
pub struct Placing {
    number: usize,
    short: bool,
    family: Family,
    chain: ChainId,
    /// Offset of a test that no packet passes.
    pub never_at: u32,
    /// See [`RoomyRoot::known_end`].
    pub known_end: Option<u32>,
    slots: Vec<Slot>,
    landed: Vec<bool>,
    starts: Vec<Option<u32>>,
}

/// Whether an entry can be switched off and taken away without anything else.
fn is_plain(entry: &Entry, at: usize) -> bool {
    let on = at as u32 + 1;
    let pure = |test: &Test| {
        !matches!(
            test.kind,
            layout::TEST_HISTORY | layout::TEST_LEARNED
                ..=layout::TEST_IPF_WITH | layout::TEST_ICMP_HEAD
        )
    };
    entry.flags == 0
        && (entry.verdict != 0 || entry.next_match == on)
        && entry.next_fail == on
        && entry.rules.len() <= 1
        && entry.tests.len() < TESTS_MAX
        && entry.tests.iter().all(pure)
}

impl Placing {
    /// Puts free positions between the rules of the root's own chain. An edge to a rule leads to
    /// the free positions in front of it, so that a rule put in there is met.
    pub fn spread(&mut self, flat: Flat) -> Flat {
        let count = flat.entries.len();
        let rules = flat.starts.len() - 1;
        let mut free_before = vec![0usize; count];
        for (number, start) in flat.starts.iter().enumerate() {
            free_before[*start as usize] += match number {
                0 => EDGE,
                last if last == rules => EDGE,
                _ => BETWEEN,
            };
        }
        // Where the free positions in front of an entry begin.
        let mut first = Vec::with_capacity(count + 1);
        let mut next = 0;
        for free in &free_before {
            first.push(next as u32);
            next += free + 1;
        }
        // Entries that are all of a rule.
        let mut alone = vec![false; count];
        for pair in flat.starts.windows(2) {
            let start = pair[0] as usize;
            let place = first[start] + free_before[start] as u32;
            self.starts.push((pair[1] > pair[0]).then_some(place));
            if pair[1] == pair[0] + 1 {
                alone[start] = true;
            }
        }
        let shadowed = reduce::shadowed(&flat);
        // What comes to stand in front of the entry that ends the list has a say in it.
        let end = |end: u32| first[end as usize] + free_before[end as usize] as u32;
        self.known_end = self.known_end.map(end);
        self.landed = vec![false; next];
        let mut out = Flat {
            reads_transport: flat.reads_transport,
            ..Flat::default()
        };
        for (at, entry) in flat.entries.iter().enumerate() {
            for _ in 0..free_before[at] {
                self.free(&mut out);
            }
            let terms = flat.terms_of(at);
            let plain = alone[at] && is_plain(entry, at) && !terms.is_empty();
            let cover = shadowed[at].filter(|_| plain).map(|by| by as usize);
            self.slots.push(match (plain, cover) {
                (true, Some(by)) => {
                    Slot::Covered(terms.to_vec(), first[by] + free_before[by] as u32)
                }
                (true, None) => Slot::Plain(terms.to_vec()),
                (false, _) => Slot::Fixed,
            });
            let to = |old: u32| match (old as usize) < count {
                true => first[old as usize],
                false => 0,
            };
            let leaves = flat.leaves.contains(&at);
            for old in [entry.next_match, entry.next_fail] {
                if old as usize > at + 1 && (old as usize) < count && !leaves {
                    self.landed[to(old) as usize] = true;
                }
            }
            out.entries.push(Entry {
                terms_from: out.terms.len(),
                next_match: match leaves {
                    // Not to rules that come to stand in front of the chain policy.
                    true => next as u32 - 1,
                    false => to(entry.next_match),
                },
                next_fail: to(entry.next_fail),
                ..entry.clone()
            });
            if cover.is_none() {
                out.terms.extend_from_slice(terms);
            }
        }
        out
    }

    fn free(&mut self, out: &mut Flat) {
        let next = out.entries.len() as u32 + 1;
        out.entries.push(Entry {
            terms_from: out.terms.len(),
            next_match: next,
            next_fail: next,
            ..Entry::default()
        });
        self.slots.push(Slot::Free);
    }

    /// Adds the test that switches an entry off, and says how many are run as long as it is on. A
    /// free position is off.
    pub fn tests(&self, at: usize, tests: &mut Vec<Test>) -> usize {
        let count = tests.len();
        if matches!(self.slots[at], Slot::Free) {
            return 1;
        }
        if count > 0 && count < TESTS_MAX {
            tests.push(NEVER);
        }
        count
    }

    /// The root, written.
    pub fn done(self, at: u32, root: &layout::Root, spare: Spare, services: Services) -> RoomyRoot {
        RoomyRoot {
            number: self.number,
            short: self.short,
            family: self.family,
            chain: self.chain,
            at,
            entries_at: root.entries_at,
            slots: self.slots,
            landed: self.landed,
            starts: self.starts,
            known_end: self.known_end,
            spare,
            services,
        }
    }
}
