//! From a policy to an image.
//!
//! In: a [`Policy`] and [`Options`]. Out: the bytes of an [`crate::image`], a [`Report`], or an
//! [`Error`] that names rules and limits. The same policy and options give the same bytes. Stages:
//! [`flatten`] (chains to entries, tests to terms), [`reduce`] (what cannot matter), then the
//! classifier over the terms that are left ([`vectors`]).

mod aside;
pub(crate) mod choose;
mod coarse;
mod density;
mod dynamic;
mod error;
pub(crate) mod flatten;
pub(crate) mod fold;
pub(crate) mod hash;
pub(crate) mod interfaces;
pub(crate) mod known;
pub(crate) mod layers;
mod learners;
pub(crate) mod maps;
mod reduce;
pub(crate) mod residual;
pub(crate) mod room;
mod sampled;
pub(crate) mod service;
mod sets;
pub(crate) mod span;
pub(crate) mod splits;
pub(crate) mod spread;
pub(crate) mod statics;
mod steps;
pub(crate) mod tables;
pub(crate) mod term;
pub(crate) mod vectors;

pub use error::Error;

use crate::image::aside::{ASIDE_TEXT, ASIDE_WORDS};
use crate::image::brief;
use crate::image::layout::{self, Header, LENGTH_MAX, root_number};
use crate::image::write::Writer;
use flatten::{Entry, Flat, Limits, flatten};
use interfaces::Interfaces;
use layers::Layers;
use residual::Blob;
use room::{Placing, Plan};
use service::Services;
use statics::Context;
use weir_policy::model::{
    Dynamic, Family, HistoryKind, HistoryObject, Hook, Policy, Root, Table, handling,
};
use zerocopy::{FromZeros, IntoBytes};

/// What the compiler may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the image.
    pub budget: usize,
    /// Entries of one root.
    pub entries_max: usize,
    /// Whether entries that cannot matter are left out (off in tests that compare).
    pub reduce: bool,
    /// Whether large sets get hashed tables and split trees (off in tests that compare).
    pub tables: bool,
    /// Threads that may work. The same rules give the same image with any number.
    pub threads: usize,
    /// Bytes that rows of bits of one root may take; beyond, they are coarse: values that few terms
    /// tell apart share one, and terms are compared.
    pub row_bytes: usize,
    /// Seed of random samples (`statistic --mode random`).
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            budget: LENGTH_MAX,
            entries_max: 1 << 22,
            reduce: true,
            tables: true,
            threads: std::thread::available_parallelism().map_or(1, |all| all.get().min(8)),
            row_bytes: 8 << 20,
            seed: 0,
        }
    }
}

/// What was made of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootReport {
    /// Family of its packets.
    pub family: Family,
    /// Hook.
    pub hook: Hook,
    /// Table.
    pub table: Table,
    /// Entries after flattening.
    pub flattened: usize,
    /// Entries in the image.
    pub entries: usize,
    /// Terms in the image.
    pub terms: usize,
    /// Of these, in hashed tables.
    pub hashed: usize,
    /// Hashed tables.
    pub tables: usize,
    /// Bit-vector chunks of the leaf with most of them.
    pub chunks: usize,
    /// Bytes of the image that are this root's.
    pub bytes: usize,
    /// Loads that the dearest packet can cause before its entries run.
    pub worst_loads: u32,
    /// Entries that the dearest packet can meet.
    pub worst_steps: u32,
}

/// What was made of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each root.
    pub roots: Vec<RootReport>,
    /// Bytes of the image.
    pub bytes: usize,
    /// Bytes of memory that histories need.
    pub history_bytes: usize,
    /// Entries left out because no packet can reach them.
    pub shadowed: usize,
    /// Entries joined to another because they only count.
    pub joined: usize,
}

/// A compiled policy.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The image.
    pub image: Vec<u8>,
    /// What was made of what.
    pub report: Report,
}

/// Terms of one rule together with the jumps to it.
const RULE_TERMS_MAX: usize = 1 << 20;
/// Entries of a set that become terms of the rule that tests it.
const SET_TERMS_MAX: usize = 1 << 16;

/// Compiles a policy.
pub fn compile(policy: &Policy, options: &Options) -> Result<Compiled, Error> {
    build(policy, options, None)
}

/// Compiles a policy to an image with room for changes in place, see [`crate::update`].
pub(crate) fn compile_with_room(
    policy: &Policy,
    options: &Options,
    plan: &mut Plan,
) -> Result<Compiled, Error> {
    build(policy, options, Some(plan))
}

fn build(
    policy: &Policy,
    options: &Options,
    mut plan: Option<&mut Plan>,
) -> Result<Compiled, Error> {
    let interfaces = Interfaces::of(policy)?;
    let memory = crate::history::layout(policy, options.seed)?;
    let mut writer = Writer::default();
    if let Some(plan) = &mut plan {
        plan.begin(policy, &mut writer);
    }
    let mut header = Header::new_zeroed();
    header.magic = layout::MAGIC;
    header.version = layout::VERSION;
    header.rule_count = policy.rule_count;
    header.history_count = policy.histories.len() as u32;
    header.budget = options.budget as u64;
    let patterns = interfaces.records();
    header.patterns = patterns.len() as u32;
    header.patterns_at = writer.section(patterns.as_bytes());
    let mut report = Report {
        history_bytes: memory.bytes,
        ..Report::default()
    };
    // A chain that is entered at several hooks is compiled once.
    let mut known: Vec<(&Root, usize)> = Vec::new();
    for root in &policy.roots {
        let Some(number) = root_number(root.family, root.hook, root.table) else {
            continue;
        };
        let same = |other: &Root| {
            (other.family, other.table, other.chain) == (root.family, root.table, root.chain)
        };
        if let Some(&(_, earlier)) = known.iter().find(|(other, _)| same(other)) {
            header.roots[number] = header.roots[earlier];
            header.established[number] = header.established[earlier];
            header.shorts[number] = header.shorts[earlier];
            continue;
        }
        known.push((root, number));
        let mut maker = RootMaker {
            policy,
            interfaces: &interfaces,
            options,
            writer: &mut writer,
            report: &mut report,
            features: &mut header.features,
            records: &memory.records,
            number,
            plan: plan.as_deref_mut(),
        };
        let plan = maker.plan.as_deref();
        let may_read = plan.is_some_and(|plan| plan.shorts.contains(&number));
        let made = maker.root(root, false)?;
        header.roots[number] = made.at;
        header.established[number] = made.established;
        let reads = made.reads_transport || may_read;
        header.shorts[number] = if reads && !policy.short_goes_on {
            maker.root(root, true)?.at
        } else {
            made.at
        };
    }
    header.features |= of_policy(policy);
    header.worst_loads = report
        .roots
        .iter()
        .map(|r| r.worst_loads)
        .max()
        .unwrap_or(0);
    header.worst_steps = report
        .roots
        .iter()
        .map(|r| r.worst_steps)
        .max()
        .unwrap_or(0);
    if let Some(plan) = plan {
        header.rule_count = plan.finish(&mut writer);
    }
    let image = writer.finish(header);
    check_budget(image.len(), options)?;
    report.bytes = image.len();
    Ok(Compiled { image, report })
}

/// What a policy needs beside what each of its tests and operations does.
pub fn of_policy(policy: &Policy) -> u32 {
    let is_meter = |object: &HistoryObject| matches!(object.kind, HistoryKind::Meter(_));
    let keeps_alive = |dynamic: &Dynamic| dynamic.keep_alive;
    let needs = [
        (policy.histories.iter().any(is_meter), layout::FEATURE_METER),
        (
            policy.dynamic.as_ref().is_some_and(keeps_alive),
            layout::FEATURE_KEEP_ALIVE,
        ),
        (policy.checks_source, layout::FEATURE_BAD_SRC),
        (policy.keeps_times, layout::FEATURE_TIMES),
    ];
    let needed = needs.into_iter().filter(|(needed, _)| *needed);
    needed.map(|(_, feature)| feature).sum()
}

fn check_budget(given: usize, options: &Options) -> Result<(), Error> {
    let limit = options.budget.min(LENGTH_MAX);
    if given > limit {
        Err(Error::Budget { given, limit })
    } else {
        Ok(())
    }
}

struct RootMaker<'a> {
    policy: &'a Policy,
    interfaces: &'a Interfaces,
    options: &'a Options,
    writer: &'a mut Writer,
    report: &'a mut Report,
    features: &'a mut u32,
    /// Parameters of histories.
    records: &'a [crate::history::Record],
    /// Number of the root.
    number: usize,
    /// Where there is to be room for changes.
    plan: Option<&'a mut Plan>,
}

/// What an entry needs of whoever runs it.
pub(crate) fn features(entry: &Entry) -> u32 {
    let test = |test: &layout::Test| match test.kind {
        layout::TEST_CT => layout::FEATURE_FLOW_FIELDS | layout::FEATURE_RARE,
        layout::TEST_HISTORY => layout::FEATURE_HISTORY,
        layout::TEST_LEARNED..=layout::TEST_IPF_WITH => layout::FEATURE_LEARNED,
        layout::TEST_ICMP_HEAD => layout::FEATURE_LEARNED | layout::FEATURE_ICMP_HEAD,
        layout::TEST_DYNAMIC_LOOK..=layout::TEST_DYNAMIC_FORGET => {
            layout::FEATURE_LEARNED | layout::FEATURE_DYNAMIC
        }
        layout::TEST_HANDLING if test.a == u32::from(handling::SOURCE_REACHED) => {
            layout::FEATURE_RARE | layout::FEATURE_ROUTES
        }
        layout::TEST_SCTP => layout::FEATURE_RARE | layout::FEATURE_CHUNKS,
        layout::TEST_UNTIL => layout::FEATURE_LIFETIMES,
        layout::TEST_ASIDE if [ASIDE_WORDS, ASIDE_TEXT].contains(&test.small) => {
            layout::FEATURE_ASIDE | layout::FEATURE_PAYLOAD
        }
        layout::TEST_ASIDE => layout::FEATURE_ASIDE,
        // What headers say, `test_packet` in `plane/bpf/residual.h`.
        layout::TEST_MARK
        | layout::TEST_SRC_MASKED
        | layout::TEST_DST_MASKED
        | layout::TEST_PACKET_TYPE
        | layout::TEST_LENGTH
        | layout::TEST_TTL
        | layout::TEST_TOS
        | layout::TEST_SPI
        | layout::TEST_ROUTING
        | layout::TEST_MALFORMED
        | layout::TEST_PROPOSED => 0,
        // A kind that is forgotten here has programs load too much, never too little.
        _ => layout::FEATURE_RARE,
    };
    let op = |op: &layout::Op| match op.kind {
        layout::OP_LOG | layout::OP_NFLOG => 0,
        _ => layout::FEATURE_CHANGES,
    };
    entry
        .tests
        .iter()
        .map(test)
        .chain(entry.ops.iter().map(op))
        .fold(0, |all, bit| all | bit)
}

/// Where a root was put.
struct MadeRoot {
    at: u32,
    /// Its list for packets of established flows, see [`known`]; 0 without.
    established: u32,
    /// Whether short packets need a list of their own.
    reads_transport: bool,
}

impl RootMaker<'_> {
    /// Makes one root.
    fn root(&mut self, root: &Root, short: bool) -> Result<MadeRoot, Error> {
        let before = self.writer.length();
        let mut context = Context {
            sets: &self.policy.sets,
            interfaces: self.interfaces,
            family: root.family,
            terms_max: SET_TERMS_MAX,
            services: Services::default(),
        };
        let mut blob = Blob {
            records: self.records.to_vec(),
            learners: learners::records(self.policy),
            lifetimes: self.policy.lifetimes,
            dynamic: dynamic::directory(self.policy),
            ..Blob::default()
        };
        let limits = Limits {
            entries: self.options.entries_max,
            terms: RULE_TERMS_MAX,
        };
        let mut flat = flatten(self.policy, root, &mut context, &mut blob, limits, short)?;
        let flattened = flat.entries.len();
        let mut place = match &mut self.plan {
            Some(plan) => plan.place(self.policy, root, short, self.number),
            None => None,
        };
        if self.options.reduce && place.is_none() {
            let (less, reduced) = reduce::reduce(flat);
            flat = less;
            self.report.shadowed += reduced.shadowed;
            self.report.joined += reduced.joined;
        }
        let worst_steps = steps::check(&flat, root.family, &context.services)?;
        let mut known = match (root.table, root.hook) {
            (Table::Filter, _) if !short => known::established(&flat, &mut context.services),
            _ => None,
        };
        let data_at = self.writer.section(&blob.bytes);
        if let Some(place) = &mut place {
            place.known_end = known.as_ref().map(|(_, end)| *end);
            flat = place.spread(flat);
        }
        let (at, record, made) = self.classifier(
            &flat,
            data_at,
            &context.services,
            root.family,
            short,
            place.as_ref(),
        )?;
        let chunks = made.chunks;
        let (hashed, worst_loads) = (made.hashed, made.worst_loads);
        let mut established = 0;
        if let Some((flat, _)) = known.take() {
            let flat = match self.options.reduce {
                true => reduce::reduce(flat).0,
                false => flat,
            };
            let services = &context.services;
            (established, ..) =
                self.classifier(&flat, data_at, services, root.family, false, None)?;
        }
        if let (Some(plan), Some(place), Some(spare)) = (&mut self.plan, place, made.spare) {
            plan.roots
                .push(place.done(at, &record, spare, context.services));
        }
        check_budget(self.writer.length(), self.options)?;
        if !short {
            self.report.roots.push(RootReport {
                family: root.family,
                hook: root.hook,
                table: root.table,
                flattened,
                entries: flat.entries.len(),
                terms: flat.terms.len(),
                hashed,
                tables: record.tables as usize,
                chunks,
                bytes: self.writer.length() - before,
                worst_loads,
                worst_steps,
            });
        }
        Ok(MadeRoot {
            at,
            established,
            reads_transport: flat.reads_transport,
        })
    }

    /// Writes a list of entries and the classifier over it.
    fn classifier(
        &mut self,
        flat: &Flat,
        data_at: u32,
        services: &Services,
        family: Family,
        lean: bool,
        place: Option<&Placing>,
    ) -> Result<(u32, layout::Root, layers::Made), Error> {
        let mut record = self.entries(flat, data_at, place);
        record.family = if family == Family::V4 { 4 } else { 6 };
        let layers = Layers {
            family,
            interfaces: self.interfaces,
            services,
            tables: self.options.tables,
            threads: self.options.threads,
            lean,
            limit: self.options.budget.min(LENGTH_MAX),
            room: place.is_some(),
            row_bytes: self.options.row_bytes,
        };
        let made = layers.build(flat, &mut record, self.writer)?;
        if record.tables > 0 {
            *self.features |= layout::FEATURE_TABLES;
        }
        if made.coarse {
            *self.features |= layout::FEATURE_BOUNDS;
        }
        Ok((self.writer.section(record.as_bytes()), record, made))
    }

    /// Writes entries with their tests, operations and rule lists.
    fn entries(&mut self, flat: &Flat, data_at: u32, place: Option<&Placing>) -> layout::Root {
        let mut entries = Vec::with_capacity(flat.entries.len());
        self.writer.align(layout::ALIGN);
        for (at, entry) in flat.entries.iter().enumerate() {
            let mut tests: Vec<layout::Test> = entry
                .tests
                .iter()
                .map(|test| layout::Test {
                    // Offsets into the blob are one too high, see `residual`.
                    at: if test.at == 0 {
                        0
                    } else {
                        test.at - 1 + data_at
                    },
                    ..*test
                })
                .collect();
            *self.features |= features(entry);
            let count = place.map_or(tests.len(), |place| place.tests(at, &mut tests));
            let rule = match entry.rules.as_slice() {
                [] => 0,
                [one] => one.0,
                many => {
                    let ids: Vec<u32> = many.iter().map(|rule| rule.0).collect();
                    self.writer.piece(ids.as_bytes())
                }
            };
            let mut list = |bytes: &[u8]| match bytes {
                [] => 0,
                bytes => self.writer.piece(bytes),
            };
            entries.push(layout::Entry {
                verdict: entry.verdict,
                flags: entry.flags,
                reject: entry.reject,
                rule,
                rules: entry.rules.len() as u32,
                tests_at: match (place, tests.as_slice()) {
                    (Some(place), []) => place.never_at,
                    (_, tests) => list(tests.as_bytes()),
                },
                ops_at: list(entry.ops.as_bytes()),
                tests: count as u16,
                ops: entry.ops.len() as u16,
                next_match: entry.next_match,
                next_fail: entry.next_fail,
            });
        }
        let count = entries.len() as u32;
        // Where single rules are changed, tests are switched on and off in entries.
        let brief_at = match place {
            None => brief::in_brief(&entries).map_or(0, |(words, written)| {
                entries = written;
                self.writer.section(words.as_bytes())
            }),
            Some(_) => 0,
        };
        layout::Root {
            entries_at: self.writer.section(entries.as_bytes()),
            entries: count,
            brief_at,
            ..layout::Root::default()
        }
    }
}
