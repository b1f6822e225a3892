//! What `weir bench classify` answers: as JSON, and as text.
//!
//! In: everything that was measured. Out: one object, or a table with its preamble. Field names are
//! an interface that scripts lean on.

use crate::bench::filter::{FilterSet, Flags, Trace};
use crate::bench::linear::NONE;
use crate::bench::measure::Measured;
use crate::bench::walk::Absent;
use crate::output::{Align, Output, Table, bytes, count, number};
use serde::Serialize;
use std::path::Path;
use weir_engine::image::layout::Header;

/// The answer.
#[derive(Debug, Serialize)]
pub struct Answer {
    rules_file: String,
    trace_file: String,
    family: &'static str,
    rules: usize,
    packets: usize,
    /// Packets that some filter holds for.
    matched: usize,
    /// Filters whose flags were not looked at.
    flags_ignored: usize,
    build_seconds: f64,
    image_bytes: u32,
    bytes_per_rule: f64,
    /// Loads that the dearest packet can cause before its entries run, entries that it can meet.
    worst_loads: u32,
    worst_entries: u32,
    /// Microseconds of a change of a single rule, the median; null: every change is a rebuild.
    update_us: Option<f64>,
    batch: u16,
    threads: u16,
    linear_ns: f64,
    /// FNV-1a over the filters that the linear search gives: names the workload's right answers.
    answers: String,
    /// Lookups, over all walkers and passes, whose answer is not that of the linear search.
    pub differ: usize,
    /// Packets whose filter by the trace does not hold, or comes before the answer.
    pub misplaced: usize,
    walkers: Vec<WalkerAnswer>,
}

/// One walker.
#[derive(Debug, Serialize)]
pub struct WalkerAnswer {
    name: &'static str,
    available: bool,
    /// Why it is not available.
    why: Option<String>,
    ns_median: Option<f64>,
    ns_p99: Option<f64>,
    /// Answers compared with the linear search.
    compared: usize,
    differ: usize,
    /// The first wrong answer: packet (from 0) and filter, -1 for none.
    first_wrong: Option<(usize, i64)>,
}

impl WalkerAnswer {
    /// Of a walker that ran.
    pub fn measured(measured: &Measured) -> Self {
        let round = |ns: f64| (ns * 100.0).round() / 100.0;
        let filter = |rule: u32| if rule == NONE { -1 } else { i64::from(rule) };
        WalkerAnswer {
            name: measured.name,
            available: true,
            why: None,
            ns_median: Some(round(measured.quantile(0.5))),
            ns_p99: Some(round(measured.quantile(0.99))),
            compared: measured.compared,
            differ: measured.differ,
            first_wrong: measured.first.map(|(packet, rule)| (packet, filter(rule))),
        }
    }

    /// Of one that could not.
    pub fn absent(absent: Absent) -> Self {
        WalkerAnswer {
            name: absent.name,
            available: false,
            why: Some(absent.why),
            ns_median: None,
            ns_p99: None,
            compared: 0,
            differ: 0,
            first_wrong: None,
        }
    }
}

/// What the answer is made of.
pub struct Parts<'a> {
    pub rules: &'a Path,
    pub trace: &'a Path,
    pub set: &'a FilterSet,
    pub packets: &'a Trace,
    pub flags: Flags,
    pub expected: &'a [u32],
    pub misplaced: usize,
    pub build_seconds: f64,
    pub update_us: Option<f64>,
    pub linear_ns: f64,
    pub batch: u16,
    pub threads: u16,
    pub header: &'a Header,
    pub walkers: Vec<WalkerAnswer>,
}

fn fingerprint(answers: &[u32]) -> u64 {
    let bytes = answers.iter().flat_map(|answer| answer.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Answer {
    /// The answer.
    pub fn new(parts: Parts<'_>) -> Self {
        let filters = &parts.set.filters;
        let flagged = filters
            .iter()
            .filter(|filter| filter.flags.mask != 0)
            .count();
        Answer {
            rules_file: parts.rules.display().to_string(),
            trace_file: parts.trace.display().to_string(),
            family: parts.set.version.name(),
            rules: filters.len(),
            packets: parts.packets.packets.len(),
            matched: parts
                .expected
                .iter()
                .filter(|found| **found != NONE)
                .count(),
            flags_ignored: match parts.flags {
                Flags::Ignored => flagged,
                Flags::Matched => 0,
            },
            build_seconds: parts.build_seconds,
            image_bytes: parts.header.length,
            bytes_per_rule: f64::from(parts.header.length) / filters.len() as f64,
            worst_loads: parts.header.worst_loads,
            worst_entries: parts.header.worst_steps,
            update_us: parts.update_us,
            batch: parts.batch,
            threads: parts.threads,
            linear_ns: parts.linear_ns,
            answers: format!("{:016x}", fingerprint(parts.expected)),
            differ: parts.walkers.iter().map(|walker| walker.differ).sum(),
            misplaced: parts.misplaced,
            walkers: parts.walkers,
        }
    }

    /// For people.
    pub fn text(&self, out: &mut Output) -> anyhow::Result<()> {
        out.line(format!(
            "{}: {}, {}; {}: {}, {} matched",
            self.rules_file,
            count(self.rules as u64, "filter", "filters"),
            self.family,
            self.trace_file,
            count(self.packets as u64, "packet", "packets"),
            number(self.matched as u64)
        ))?;
        if self.flags_ignored > 0 {
            let filters = count(self.flags_ignored as u64, "filter", "filters");
            out.line(format!("flags of {filters} not looked at (--flags does)"))?;
        }
        out.line(format!(
            "build {:.4} s; image {}, {:.1} bytes a rule; at most {} loads and {} entries a packet",
            self.build_seconds,
            bytes(self.image_bytes.into()),
            self.bytes_per_rule,
            number(self.worst_loads.into()),
            number(self.worst_entries.into())
        ))?;
        out.line(match self.update_us {
            Some(micros) => format!("a change of a single rule takes {micros:.1} us (median)"),
            None => "a change of a single rule takes a build".to_owned(),
        })?;
        out.line("")?;
        out.table(&self.table())?;
        out.line("")?;
        if self.misplaced > 0 {
            out.line(format!(
                "{} not in the filter that the trace names: it belongs to other filters",
                count(self.misplaced as u64, "packet lies", "packets lie")
            ))?;
        }
        match self.differ {
            0 => out.line("every answer is that of the linear search"),
            differ => {
                let answers = count(differ as u64, "answer differs", "answers differ");
                out.line(format!("{answers} from the linear search"))
            }
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("walker", Align::Left),
            ("ns", Align::Right),
            ("p99", Align::Right),
            ("compared", Align::Right),
            ("differ", Align::Right),
            ("", Align::Left),
        ]);
        let ns = |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| format!("{ns:.1}"));
        for walker in &self.walkers {
            let first = walker
                .first_wrong
                .map(|(packet, rule)| format!("packet {packet} gives {rule}"));
            table.row(vec![
                walker.name.into(),
                ns(walker.ns_median),
                ns(walker.ns_p99),
                number(walker.compared as u64),
                number(walker.differ as u64),
                walker.why.clone().or(first).unwrap_or_default(),
            ]);
        }
        table.row(vec![
            "linear search".into(),
            ns(Some(self.linear_ns)),
            "-".into(),
            number(self.packets as u64),
            "-".into(),
            "on all processors".into(),
        ]);
        table
    }
}
