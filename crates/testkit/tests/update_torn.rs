//! Packets under way while a rule is replaced, or one that covers others goes: they have asked some
//! tables before the change and ask the others after it, and must meet the policy of before or the
//! one after. What they see is put together here: slots of some tables as they were, all else as it
//! is. Behind an entry that is off a packet asks anew, and sees what is there then.

use fastrand::Rng;
use weir_engine::compile::Options;
use weir_engine::image::layout::{Entry, FLAG_AGAIN, HashTable, Root, root_number};
use weir_engine::image::{Image, checksum, layout, read};
use weir_engine::lookup::{Key, Lookup};
use weir_engine::update::{Live, Store, Waiter};
use weir_policy::eval::{Evaluator, Passage};
use weir_policy::model::{
    AddrMatch, ChainId, Cond, CtState, Family, Flow, Hook, Packet, Policy, RangeSet, Rule, RuleId,
    Table, Test, Transport, Verdict,
};
use weir_testkit::random::{PacketSource, boxes};

const CHAIN: ChainId = ChainId(0);

/// An image in use, and what it was whenever packets under way were waited for.
struct Moments {
    image: Vec<u8>,
    all: Vec<Vec<u8>>,
}

impl Store for Moments {
    fn write(&mut self, at: u32, bytes: &[u8]) {
        self.image.write(at, bytes);
    }

    fn store32(&mut self, at: u32, value: u32) {
        self.image.store32(at, value);
    }

    fn store64(&mut self, at: u32, value: u64) {
        self.image.store64(at, value);
    }

    fn zero(&mut self, _: RuleId) {}

    fn waiter(&self) -> Option<Waiter> {
        None
    }

    fn wait(&mut self) {
        self.all.push(sealed(&self.image));
    }

    fn whole(&mut self) {}
}

/// An image with the checksum that fits it.
fn sealed(image: &[u8]) -> Vec<u8> {
    let mut out = image.to_vec();
    let sum = checksum(&out);
    out[layout::CHECKSUM_AT..layout::CHECKSUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
    out
}

fn test(cond: Cond) -> Test {
    let negate = false;
    Test { cond, negate }
}

fn prefix(value: u32, free: u32) -> AddrMatch {
    let low = u64::from(value) >> free << free;
    let last = low | ((1 << free) - 1);
    AddrMatch::Ranges(RangeSet::range(low.into(), last.into()))
}

/// A rule about a source and a destination: how many low bits of each don't count.
fn rule(like: &Rule, [src, dst]: [u32; 2], free: [u32; 2], verdict: Verdict) -> Rule {
    Rule {
        tests: vec![
            test(Cond::Src(prefix(src, free[0]))),
            test(Cond::Dst(prefix(dst, free[1]))),
        ],
        flow: Flow::Verdict(verdict),
        ..like.clone()
    }
}

/// Rules of sources and of destinations, a table for each. None reads ports, so that packets cut
/// short have no list of their own.
fn addresses(seed: u64) -> Policy {
    let mut model = boxes::sources(seed, 4000);
    for rule in model.chains[0].rules.iter_mut().skip(1).step_by(2) {
        if let Cond::Src(set) = &rule.tests[0].cond {
            rule.tests[0].cond = Cond::Dst(set.clone());
        }
    }
    model
}

/// What a policy says: `enum weir_verdict`.
fn judged(policy: &Policy, packet: &Packet) -> u8 {
    let mut evaluator = Evaluator::new(policy, 1000);
    let meant = evaluator.judge(packet, &mut Passage::of(packet), 1000);
    match meant.verdict {
        Verdict::Accept => 1,
        Verdict::Drop => 2,
        Verdict::Reject(_) => 3,
    }
}

/// What a packet meets that first asks `torn`, and `now` from the first entry on that is off.
fn met(torn: &[u8], now: &[u8], packet: &Packet) -> u8 {
    let number = root_number(Family::V4, packet.hook, Table::Filter).expect("filter has roots");
    let [first, later] = [torn, now].map(|bytes| Image::from_bytes(bytes).expect("valid"));
    let mut image = &first;
    let key = Key::of(packet, CtState::New, |_| 0);
    let at = image.header().roots[number];
    let root: Root = read(now, at).expect("it has a root");
    let mut from = 0;
    loop {
        let position = Lookup::new(image, at, key).next(from);
        let place = root.entries_at + position * size_of::<Entry>() as u32;
        let entry: Entry = read(now, place).expect("it has an entry");
        // Rules here have no tests but the one that switches them off.
        match (entry.tests, entry.verdict) {
            (0, 1..) => return entry.verdict,
            (0, 0) => {}
            // What it has looked up stays, unless it is told.
            _ if entry.flags & FLAG_AGAIN != 0 => image = &later,
            _ => {}
        }
        from = position + 1;
    }
}

/// The tables of the root for forwarded packets.
fn tables(image: &[u8]) -> Vec<HashTable> {
    let checked = Image::from_bytes(image).expect("valid");
    let number = root_number(Family::V4, Hook::Forward, Table::Filter).expect("there is one");
    let root: Root = read(image, checked.header().roots[number]).expect("it has a root");
    let at = |number: u32| root.tables_at + number * size_of::<HashTable>() as u32;
    let each = (0..root.tables).map(|number| read(image, at(number)));
    each.map(|table| table.expect("it has tables")).collect()
}

/// Where the slots of a table are, and their filters.
fn slots(table: &HashTable) -> [std::ops::Range<usize>; 2] {
    let count = 1usize << (64 - table.shift);
    let (slots, filters) = (table.slots_at as usize, table.filters_at as usize);
    let half = if filters > 0 { count / 2 } else { 0 };
    [slots..slots + 4 * count, filters..filters + half]
}

/// The tables whose slots are not what they were.
fn changed(was: &[u8], now: &[u8]) -> u32 {
    let differs = |table: &HashTable| was[slots(table)[0].clone()] != now[slots(table)[0].clone()];
    let each = tables(now)
        .iter()
        .map(differs)
        .enumerate()
        .collect::<Vec<_>>();
    each.into_iter()
        .filter(|(_, is)| *is)
        .fold(0, |all, (at, _)| all | 1 << at)
}

/// What is in use now, but for the slots of some tables (a bit for each), which are as they were.
fn torn(was: &[u8], now: &[u8], which: u32) -> Vec<u8> {
    let mut out = now.to_vec();
    for (number, table) in tables(now).iter().enumerate() {
        for own in slots(table)
            .into_iter()
            .filter(|_| which >> number & 1 != 0)
        {
            out[own.clone()].copy_from_slice(&was[own]);
        }
    }
    sealed(&out)
}

/// Packets at the corners of a rule.
fn packets(model: &Policy, rule: &Rule, seed: u64) -> Vec<Packet> {
    let mut alone = model.clone();
    alone.chains[0].rules = vec![rule.clone()];
    let mut source = PacketSource::new(&alone, seed);
    let all = (0..200).map(|_| source.packet(Family::V4, Hook::Forward));
    let whole = |packet: &Packet| matches!(packet.transport, Transport::Tcp { .. });
    all.filter(whole).collect()
}

/// Compares what packets meet with both policies, and says how many differ between those.
fn compare([was, now]: [&[u8]; 2], models: [&Policy; 2], packets: &[Packet], seed: u64) -> usize {
    let mut differ = 0;
    let tables = changed(was, now);
    let some = (0..12).map(|table| 1 << table).chain([0x555, 0xaaa]);
    let some = some.filter(|which| tables & which != 0);
    // Who asked all tables, and who has asked for bits too.
    let mut seen: Vec<Vec<u8>> = some.chain([0xfff]).map(|all| torn(was, now, all)).collect();
    seen.push(was.to_vec());
    for (view, torn) in seen.iter().enumerate() {
        for packet in packets {
            let [old, new] = models.map(|model| judged(model, packet));
            let own = met(torn, now, packet);
            let fits = own == old || own == new;
            assert!(
                fits,
                "seed {seed}, view {view}: {own}, {old} or {new}; {packet:?}"
            );
            differ += usize::from(old != new);
        }
    }
    differ
}

#[test]
fn packets_that_asked_some_tables_before_a_change_meet_one_policy() {
    let (mut differ, mut tables) = (0, 0);
    for seed in 0..16 {
        let mut rng = Rng::with_seed(seed);
        // In tables; in bit vectors; where ports are read, so that packets cut short have a list.
        let mut model = match seed / 4 {
            0 | 1 => addresses(seed),
            2 => boxes::wide(seed, 200),
            _ => boxes::kinds(seed, 3000, 1),
        };
        let like = model.chains[0].rules[0].clone();
        let address = [0x0a00_0000 | rng.u32(..4000), 0x0a00_0000 | rng.u32(..4000)];
        let mut made = |free, verdict| {
            let id = RuleId(model.rule_count);
            model.rule_count += 1;
            Rule {
                id,
                ..rule(&like, address, free, verdict)
            }
        };
        // By source, by destination, by both, and one behind them that shows if none is met.
        let source = made([0, 32], Verdict::Drop);
        let destination = made([32, 0], Verdict::Drop);
        let both = made([0, 0], Verdict::Drop);
        let end = made([0, 0], Verdict::Accept);
        let [goes, comes] = match seed % 4 {
            0 => [&source, &destination],
            1 => [&destination, &source],
            2 => [&source, &both],
            _ => [&destination, &both],
        };
        let covers = seed % 4 > 1;
        let mut own = vec![goes.clone(), end];
        if covers {
            own.insert(1, comes.clone());
        }
        model.chains[0].rules.splice(0..0, own);
        let mut live = Live::new(&model, &Options::default()).expect("it can be built");
        let mut moments = Moments {
            image: live.image().to_vec(),
            all: vec![live.image().to_vec()],
        };
        let mut after = model.clone();
        if covers {
            // The wide rule goes, and the narrow one is met.
            live.delete(&mut moments, CHAIN, 0).expect("it can go");
            after.chains[0].rules.remove(0);
        } else {
            let id = live.replace(&mut moments, CHAIN, 0, comes);
            let id = id.expect("it can be replaced");
            after.chains[0].rules[0] = Rule {
                id,
                ..comes.clone()
            };
        }
        after.rule_count = live.counters();
        moments.wait();
        let packets = packets(&model, &both, seed);
        // Who began before packets were waited for has ended before what comes then.
        for pair in moments.all.windows(2) {
            let pair = [&*pair[0], &*pair[1]];
            tables += changed(pair[0], pair[1]).count_ones();
            differ += compare(pair, [&model, &after], &packets, seed);
        }
    }
    println!("{tables} tables changed, {differ} answers were another before and after");
    assert!(tables > 8, "changes were made in tables: {tables}");
}
