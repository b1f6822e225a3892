//! Which packets may go the short way (`bpf/lane.h`): told when a policy is put into its slot.
//!
//! In: an image and the bits of its policy ([`crate::hooks`]). Out: a [`Lane`] for each family and
//! each of the hooks INPUT, FORWARD and OUTPUT. A lane is empty, so that all packets go the whole
//! way, where something happens there that `lane.h` does not do: tables before the filter that have
//! rules, marks or states that later hooks must see, rules that make states. Where rules make
//! states as IPFilter does, it is that of their packets (`bpf/lane_learned.h`), at PREROUTING too.

use weir_engine::image::brief::{brief, entry_at};
use weir_engine::image::layout::{self, Entry, Header, Root, Test, root_number};
use weir_engine::image::read;
use weir_policy::model::{Family, Hook, Table};

use crate::abi::{LANE_CLASSES, LANE_STATES, LANE_TRACK, Lane};
use crate::hooks;

/// `enum weir_verdict`.
const ACCEPT: u8 = 1;

/// The only entry of a root, when it does nothing but count one rule and decide. All packets meet
/// it, because the last entry of a root has no conditions.
fn only_entry(image: &[u8], root: u32) -> Option<Entry> {
    let root: Root = read(image, root)?;
    let entry = entry_at(image, &root, 0)?;
    (root.entries == 1 && entry.rules == 1 && brief(&entry).is_some()).then_some(entry)
}

/// The rule of a table that does nothing but count and accept: its chain policy.
fn only_counts(image: &[u8], root: u32) -> Option<u32> {
    let entry = only_entry(image, root)?;
    (entry.verdict == ACCEPT).then_some(entry.rule)
}

/// What one rule decides for all packets that meet a root, as `lane.h` reads it; 0: nothing.
fn decided(image: &[u8], root: u32) -> u32 {
    only_entry(image, root)
        .and_then(|entry| brief(&entry))
        .unwrap_or(0)
}

/// Where a hook has no other list than one of IPFilter that begins with the look at states, as
/// [`weir_policy::dialect::ipf::lower`] makes all of them where any rule makes states.
fn states(image: &[u8], header: &Header, bits: u32, family: Family, hook: Hook) -> Option<Lane> {
    let root = |table| root_number(family, hook, table).map_or(0, |number| header.roots[number]);
    let of_ipf = header.features & (layout::FEATURE_LEARNED | layout::FEATURE_DYNAMIC)
        == layout::FEATURE_LEARNED;
    let more = hooks::HANDOFF | hooks::EARLY_STATE | hooks::TRACK | hooks::INGRESS;
    let alone = root(Table::Raw) == 0 && root(Table::Mangle) == 0;
    // The short way does not ask for routes.
    let checked = header.features & layout::FEATURE_BAD_SRC != 0 && hook == Hook::Prerouting;
    if !of_ipf || checked || !alone || bits & more != 0 || root(Table::Filter) == 0 {
        return None;
    }
    let list: Root = read(image, root(Table::Filter))?;
    let first = entry_at(image, &list, 0)?;
    let test: Test = read(image, first.tests_at)?;
    let looks = (first.tests, first.ops, first.rules) == (1, 0, 1)
        && first.flags == layout::FLAG_AS_LEARNED
        && (test.kind, test.negate) == (layout::TEST_LEARNED, 0);
    looks.then(|| Lane {
        flags: LANE_STATES,
        established: test.at,
        count: [first.rule, 0],
        ..Lane::default()
    })
}

fn lane(image: &[u8], header: &Header, bits: u32, family: Family, hook: Hook) -> Option<Lane> {
    let root = |table| root_number(family, hook, table).map_or(0, |number| header.roots[number]);
    let number = root_number(family, hook, Table::Filter)?;
    let mut lane = Lane {
        root: header.roots[number],
        established: header.established[number],
        ..Lane::default()
    };
    if lane.established == 0 {
        lane.established = lane.root;
    }
    lane.decided = [lane.root, lane.established].map(|root| decided(image, root));
    let learns = header.features & layout::FEATURE_LEARNED != 0;
    if learns || bits & (hooks::HANDOFF | hooks::EARLY_STATE) != 0 {
        return None;
    }
    if bits & hooks::TRACK != 0 {
        lane.flags |= LANE_TRACK;
    }
    if header.patterns != 0 {
        lane.flags |= LANE_CLASSES;
    }
    for table in [Table::Raw, Table::Mangle] {
        let first = root(table);
        if first != 0 {
            lane.count[lane.counts as usize] = only_counts(image, first)?;
            lane.counts += 1;
        }
    }
    Some(lane)
}

/// The lanes of an image, in the order of `weir_control.lanes`.
pub fn of(image: &[u8], bits: u32) -> [Lane; 8] {
    let header: Option<Header> = read(image, 0);
    let mut lanes = [Lane::default(); 8];
    let Some(header) = header else {
        return lanes;
    };
    for family in [Family::V4, Family::V6] {
        for hook in [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output] {
            let rules = (hook != Hook::Prerouting)
                .then(|| lane(image, &header, bits, family, hook))
                .flatten();
            let lane = rules.or_else(|| states(image, &header, bits, family, hook));
            lanes[family as usize * 4 + hook as usize] = lane.unwrap_or_default();
        }
    }
    lanes
}
