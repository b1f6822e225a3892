//! `weir log`: follow the records of LOG and NFLOG rules.
//!
//! In: the kernel's ring buffer, the texts of the policy. Out: one line a record in the words of
//! the kernel's packet log, or one JSON object in the shape of Suricata's EVE. It ends when the
//! policy is unloaded. One process at a time can read.

use crate::enforce::nothing_enforced;
use crate::exit::{Exit, failure};
use crate::input::{self, Loaded};
use crate::kernel::{Kernel, plane_error};
use crate::output::{Output, utc};
use crate::rules::Places;
use crate::spec::{address, protocol};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant, SystemTime};
use weir_engine::packet::Key;
use weir_plane::events::{Event, Kind};
use weir_plane::logtext::line;
use weir_policy::model::{Family, LogOp, NflogOp, Op, RuleId};

/// Options of `weir log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Stop after so many records.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Print JSON: one object per record.
    #[arg(long)]
    pub json: bool,
}

/// How long to wait for records before looking whether the policy is still the same.
const TICK: Duration = Duration::from_millis(200);

/// Follows.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let mut kernel = Kernel::open(args.netns.as_deref())?;
    if kernel.generation().is_none() {
        return Err(nothing_enforced());
    }
    let Some(_reader) = kernel.store.lock_log()? else {
        let message = "another `weir log` reads the records of this namespace";
        return Err(failure(Exit::Kernel, message));
    };
    let mut follower = Follower {
        args,
        started: Instant::now(),
        written: 0,
        lost: lost(&kernel),
        policy: None,
    };
    while kernel.generation().is_some() {
        let mut records = kernel.plane.events().map_err(plane_error)?;
        while !kernel.plane.is_outdated().map_err(plane_error)? {
            let mut events = Vec::new();
            records
                .read(TICK, |event| {
                    events.push(event);
                    true
                })
                .map_err(plane_error)?;
            if !events.is_empty() {
                follower.forget_what_changed(&kernel);
            }
            for event in &events {
                follower.write(&kernel, event, out)?;
                if follower.is_done() {
                    return Ok(Exit::Done);
                }
            }
            out.flush()?;
            follower.tell_losses(&kernel);
            if follower.is_done() {
                return Ok(Exit::Done);
            }
        }
        kernel.refresh()?;
    }
    Ok(Exit::Done)
}

/// Records that the kernel could not hand over, and those over the rate.
fn lost(kernel: &Kernel) -> (u64, u64) {
    kernel
        .plane
        .status()
        .map_or((0, 0), |status| (status.reasons[6], status.reasons[7]))
}

struct Follower<'a> {
    args: &'a Args,
    started: Instant,
    written: u64,
    lost: (u64, u64),
    /// The policy of the last record.
    policy: Option<Known>,
}

impl Follower<'_> {
    fn is_done(&self) -> bool {
        let limit = self.args.seconds.map(Duration::from_secs);
        self.args.count.is_some_and(|count| self.written >= count)
            || limit.is_some_and(|limit| self.started.elapsed() >= limit)
    }

    /// Rules that came in place have numbers that the texts read before don't know.
    fn forget_what_changed(&mut self, kernel: &Kernel) {
        let same = |known: &mut Known| known.stamp == kernel.store.stamp(known.number);
        if !self.policy.as_mut().is_none_or(same) {
            self.policy = None;
        }
    }

    /// Says on standard error how many records were lost since the last time.
    fn tell_losses(&mut self, kernel: &Kernel) {
        let now = lost(kernel);
        let before = std::mem::replace(&mut self.lost, now);
        for (count, why) in [
            (
                now.0.saturating_sub(before.0),
                "lost: the reader was too slow",
            ),
            (now.1.saturating_sub(before.1), "left out: over the rate"),
        ] {
            if count > 0 {
                eprintln!("weir: {count} records {why}");
            }
        }
    }

    /// What the policy of a record says about its rule. The texts may be gone by now; then nothing.
    fn find(&mut self, kernel: &Kernel, event: &Event) -> anyhow::Result<&Found> {
        if self
            .policy
            .as_ref()
            .is_none_or(|known| known.number != event.policy)
        {
            let stamp = kernel.store.stamp(event.policy);
            let saved = kernel.store.load(event.policy)?;
            self.policy = Some(Known {
                number: event.policy,
                stamp,
                loaded: saved.map(|saved| input::load_saved(&saved)).transpose()?,
                found: HashMap::new(),
            });
        }
        let Some(known) = &mut self.policy else {
            unreachable!("it was just set");
        };
        let found = match known.found.entry(event.rule) {
            Entry::Occupied(found) => return Ok(found.into_mut()),
            Entry::Vacant(place) => place,
        };
        Ok(found.insert(match &known.loaded {
            Some(loaded) => Found::of(loaded, RuleId(event.rule))?,
            None => Found::default(),
        }))
    }

    fn write(&mut self, kernel: &Kernel, event: &Event, out: &mut Output) -> anyhow::Result<()> {
        self.written += 1;
        let found = self.find(kernel, event)?;
        let text = match found.is_ipfw {
            true => crate::ipfw::log::line(event, &found.options().prefix),
            false => line(event, &found.options()),
        };
        match out.is_json() {
            true => out.record(&record(event, found, text)),
            false => out.line(text),
        }
    }
}

/// The policy that records speak of.
struct Known {
    number: u32,
    /// How often, and how far, its texts were changed.
    stamp: Option<(u32, u64)>,
    loaded: Option<Loaded>,
    /// What was found about its rules.
    found: HashMap<u32, Found>,
}

/// What the policy says about the rule of a record.
#[derive(Default)]
struct Found {
    /// Lines are written as ipfw writes them.
    is_ipfw: bool,
    rule: Option<String>,
    chain: Option<String>,
    log: Option<LogOp>,
    nflog: Option<NflogOp>,
}

impl Found {
    fn of(loaded: &Loaded, id: RuleId) -> anyhow::Result<Self> {
        let policy = loaded.policy()?;
        let places = Places::of(policy);
        let mut found = Found {
            rule: places.location(id),
            chain: places.name(id),
            ..Found::default()
        };
        let chain = places.get(id).map(|place| policy.chain(place.chain));
        // A rule that nobody wrote has no place, but may log for one that somebody did.
        let all = || policy.chains.iter().flat_map(|chain| &chain.rules);
        let rule = match chain {
            Some(chain) => chain.rules.iter().find(|rule| rule.id == id),
            None => all().find(|rule| rule.id == id),
        };
        found.is_ipfw = loaded.ruleset.is_some();
        for op in rule.map_or(&[][..], |rule| &rule.ops) {
            match op {
                Op::Log(log) => found.log = Some(log.clone()),
                Op::Nflog(log) => found.nflog = Some(log.clone()),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The options of the text form; NFLOG has only a prefix.
    fn options(&self) -> LogOp {
        match (&self.log, &self.nflog) {
            (Some(log), _) => log.clone(),
            (None, nflog) => LogOp {
                prefix: nflog
                    .as_ref()
                    .map_or_else(String::new, |log| log.prefix.clone()),
                ..LogOp::default()
            },
        }
    }
}

/// One record in the shape of EVE, with our own part under `weir`.
#[derive(Serialize)]
struct Record {
    schema: u32,
    timestamp: String,
    event_type: &'static str,
    in_iface: Option<String>,
    out_iface: Option<String>,
    src_ip: String,
    src_port: Option<u16>,
    dest_ip: String,
    dest_port: Option<u16>,
    proto: String,
    weir: Details,
}

#[derive(Serialize)]
struct Details {
    kind: &'static str,
    rule: Option<String>,
    chain: Option<String>,
    policy: u32,
    prefix: String,
    level: Option<u8>,
    group: Option<u16>,
    mark: u32,
    length: u32,
    text: String,
}

fn record(event: &Event, found: &Found, text: String) -> Record {
    let key = &event.key;
    let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let ports = ports(key);
    Record {
        schema: 1,
        timestamp: utc(SystemTime::now()),
        event_type: "weir",
        in_iface: some(&event.in_iface),
        out_iface: some(&event.out_iface),
        src_ip: ip(key, key.src),
        src_port: ports.map(|ports| ports.0),
        dest_ip: ip(key, key.dst),
        dest_port: ports.map(|ports| ports.1),
        proto: protocol(key.proto),
        weir: Details {
            kind: match event.kind {
                Kind::Log => "log",
                Kind::Nflog => "nflog",
                Kind::Reject(_) => "reject",
            },
            prefix: found.options().prefix,
            level: found.log.as_ref().map(|log| log.level),
            group: found.nflog.as_ref().map(|log| log.group),
            rule: found.rule.clone(),
            chain: found.chain.clone(),
            policy: event.policy,
            mark: event.mark,
            length: event.length,
            text,
        },
    }
}

fn ip(key: &Key, halves: [u64; 2]) -> String {
    let family = if key.family == 6 {
        Family::V6
    } else {
        Family::V4
    };
    let value = u128::from(halves[0]) << 64 | u128::from(halves[1]);
    address(family, value).to_string()
}

/// Ports of protocols that have them.
fn ports(key: &Key) -> Option<(u16, u16)> {
    use weir_engine::packet::key::transport;
    [transport::TCP, transport::UDP, transport::SCTP]
        .contains(&key.transport)
        .then_some((key.src_port, key.dst_port))
}
