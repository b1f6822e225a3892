//! Pipes, queues and schedulers as `show` prints them, and as commands.
//!
//! In: configurations. Out: text.

use super::super::command::{
    DummynetConfig, DummynetKind, FlowMask, NumberRanges, QueueManagement, QueueSize,
};
use super::super::ruleset::Ruleset;
use super::super::shaping::SLOTS;
use crate::dialect::ipfw::names::protocols;
use std::fmt::Write;

/// Numbers of the scheduler and the queue that a pipe owns.
const HIDDEN: (u32, u32) = (65536, 131_072);
/// Weight, largest packet and priority where nobody named them.
const PARAMETERS: (i64, i64, i64) = (0, 0, 0);

/// One flow of a pipe or queue, as `show` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowLine {
    /// IPv6.
    pub v6: bool,
    /// Protocol, source and destination as far as the mask keeps them apart.
    pub proto: u8,
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Packets and bytes that came.
    pub came: (u64, u64),
    /// Packets and bytes that wait.
    pub waiting: (u64, u64),
    /// Packets that found no room.
    pub dropped: u64,
}

const FLOWS: &str =
    "BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp\n";

/// Flows under a heading.
fn flow_lines(flows: &[FlowLine]) -> String {
    if flows.is_empty() {
        return String::new();
    }
    let mut out = FLOWS.to_owned();
    for (number, flow) in flows.iter().enumerate() {
        let proto = match protocols::name(flow.proto) {
            _ if flow.proto == 0 => "ip".to_owned(),
            Some(name) => name.to_owned(),
            None => flow.proto.to_string(),
        };
        let end = |address: u128, port: u16| match flow.v6 {
            true => format!("{:>15}/{port:<5}", super::ipv6(address)),
            false => format!("{:>15}/{port:<5}", super::ipv4(address as u32)),
        };
        let _ = writeln!(
            out,
            "{number:3} {proto:4} {} {} {:4} {:8} {:2} {:4} {:3}",
            end(flow.src, flow.ports.0),
            end(flow.dst, flow.ports.1),
            flow.came.0,
            flow.came.1,
            flow.waiting.0,
            flow.waiting.1,
            flow.dropped
        );
    }
    out
}

/// A new configuration over an old one: what isn't named stays.
#[must_use]
pub fn merged(old: &DummynetConfig, new: &DummynetConfig) -> DummynetConfig {
    let mut out = new.clone();
    out.weight = new.weight.or(old.weight);
    out.lmax = new.lmax.or(old.lmax);
    out.priority = new.priority.or(old.priority);
    out.parent = new.parent.or(old.parent);
    out.scheduler = new.scheduler.clone().or_else(|| old.scheduler.clone());
    out
}

/// A rate as `pipe show` writes it.
#[must_use]
pub fn rate(bits: u64) -> String {
    let value = bits as f64;
    match bits {
        0 => "unlimited     ".to_owned(),
        1_000_000_000.. => format!("{:7.3} Gbit/s", value / 1e9),
        1_000_000.. => format!("{:7.3} Mbit/s", value / 1e6),
        1000.. => format!("{:7.3} Kbit/s", value / 1e3),
        _ => format!("{value:7.3} bit/s "),
    }
}

fn queue_size(size: Option<QueueSize>) -> String {
    match size {
        None | Some(QueueSize::Slots(0)) => format!("{SLOTS:3} sl."),
        Some(QueueSize::Slots(slots)) => format!("{slots:3} sl."),
        Some(QueueSize::Bytes(bytes)) if bytes >= 8192 => format!("{} KB", bytes / 1024),
        Some(QueueSize::Bytes(bytes)) => format!("{bytes} B"),
    }
}

fn management(config: &DummynetConfig) -> String {
    match &config.management {
        QueueManagement::DropTail => "droptail".to_owned(),
        QueueManagement::Red {
            gentle,
            weight,
            min,
            max,
            probability,
            ecn,
        } => {
            let kind = if *gentle { 'G' } else { ' ' };
            let ecn = if *ecn { " (ecn)" } else { "" };
            format!(
                "\n\t {kind}RED w_q {weight:.6} min_th {min} max_th {max} max_p \
                 {probability:.6}{ecn}"
            )
        }
        QueueManagement::Active { name, words } => {
            let words: String = words.iter().map(|word| format!(" {word}")).collect();
            format!("AQM type {}{words}", name.to_ascii_uppercase())
        }
    }
}

fn mask(mask: &FlowMask) -> String {
    if mask.dst6.is_some() || mask.src6.is_some() || mask.flow_id != 0 {
        let six = |length: Option<u8>| {
            let bits = super::super::numbers::prefix_mask(u32::from(length.unwrap_or(0)), 128);
            super::ipv6(bits)
        };
        return format!(
            "\n        mask: proto: {:#04x}, flow_id: {:#010x},  {}/{:#06x} -> {}/{:#06x}\n",
            mask.proto,
            mask.flow_id,
            six(mask.src6),
            mask.src_port,
            six(mask.dst6),
            mask.dst_port
        );
    }
    format!(
        "    mask:  {:#04x} {:#010x}/{:#06x} -> {:#010x}/{:#06x}\n",
        mask.proto, mask.src, mask.src_port, mask.dst, mask.dst_port
    )
}

fn queue_line(config: &DummynetConfig, number: u32, sched: u32, flows: Option<usize>) -> String {
    let loss = match config.loss[..] {
        [] => String::new(),
        ref list => {
            let list: Vec<String> = list.iter().map(|value| format!("{value:.6}")).collect();
            format!("plr {}", list.join(","))
        }
    };
    let mut out = format!(
        "q{number:05} {}{loss} {} flows ({} buckets) sched {sched} weight {} lmax {} pri {} {}\n",
        queue_size(config.queue),
        flows.unwrap_or(0),
        config.buckets.unwrap_or(1),
        config.weight.unwrap_or(PARAMETERS.0),
        config.lmax.unwrap_or(PARAMETERS.1),
        config.priority.unwrap_or(PARAMETERS.2),
        management(config)
    );
    if let Some(flow) = config.mask.as_ref().filter(|_| flows.is_some()) {
        out += &mask(flow);
    }
    out
}

fn scheduler_line(config: &DummynetConfig, number: u32, usual: &str, active: usize) -> String {
    let (name, words) = match &config.scheduler {
        Some((name, words)) => (name.to_ascii_uppercase(), words.clone()),
        None => (usual.to_owned(), Vec::new()),
    };
    let masked = u32::from(config.mask.is_some());
    let mut out = format!(
        " sched {number} type {name} flags {masked:#x} {} buckets {active} active\n",
        config.buckets.unwrap_or(if masked == 1 { 64 } else { 0 })
    );
    if !words.is_empty() {
        let _ = writeln!(out, "  {}", words.join(" "));
    }
    if let Some(flow) = &config.mask {
        out += &mask(flow);
    }
    out
}

/// What `pipe show`, `queue show` and `sched show` print.
#[must_use]
pub fn list(ruleset: &Ruleset, kind: DummynetKind, ranges: &NumberRanges) -> String {
    let mut out = String::new();
    for ((found, number), config) in &ruleset.dummynet {
        let inside = ranges.is_empty()
            || ranges
                .iter()
                .any(|(first, last)| (first..=last).contains(&number));
        if *found != kind || !inside {
            continue;
        }
        let flows = ruleset.flows.get(&(*found, *number));
        let flows = flows.map_or(&[][..], Vec::as_slice);
        match kind {
            DummynetKind::Pipe => {
                let rate = rate(config.bandwidth.unwrap_or(0));
                let (delay, burst) = (config.delay.unwrap_or(0), config.burst.unwrap_or(0));
                let _ = writeln!(out, "{number:05}: {rate} {delay:4} ms burst {burst}");
                out += &queue_line(config, number + HIDDEN.1, number + HIDDEN.0, None);
                out += &scheduler_line(config, number + HIDDEN.0, "FIFO", flows.len());
                out += &flow_lines(flows);
            }
            DummynetKind::Queue => {
                let sched = config.parent.unwrap_or(0);
                let mut config = config.clone();
                config.weight = config.weight.or(Some(1));
                out += &queue_line(&config, *number, sched, Some(flows.len()));
                out += &flow_lines(flows);
            }
            DummynetKind::Sched => {
                let pipe = ruleset.dummynet.get(&(DummynetKind::Pipe, *number));
                let rate = rate(pipe.and_then(|pipe| pipe.bandwidth).unwrap_or(0));
                let delay = pipe.and_then(|pipe| pipe.delay).unwrap_or(0);
                let _ = writeln!(out, "{number:05}: {rate} {delay:4} ms burst 0");
                out += &scheduler_line(config, *number, "WF2Q+", 0);
                let fed = ruleset.dummynet.iter().filter(|((of, _), queue)| {
                    *of == DummynetKind::Queue && queue.parent == Some(*number)
                });
                let fed: String = fed.map(|((_, queue), _)| format!("{queue} ")).collect();
                if !fed.is_empty() {
                    let _ = writeln!(out, "   Children flowsets: {fed}");
                }
            }
        }
    }
    out
}

/// The command that makes an object, or two of them.
#[must_use]
pub fn command(config: &DummynetConfig) -> String {
    let head = format!("{} {} config", config.kind.name(), config.number);
    let kind = scheduler_words(config);
    let mut out = match &config.management {
        // Takes all words behind it, as some schedulers do.
        QueueManagement::Active { .. } if !kind.is_empty() => format!("{head}{kind}\n{head}"),
        _ => head,
    };
    if let Some(parent) = config.parent {
        let _ = write!(out, " pipe {parent}");
    }
    if let Some(bits) = config.bandwidth {
        let _ = write!(out, " bw {bits}bit/s");
    }
    if let Some(delay) = config.delay {
        let _ = write!(out, " delay {delay}");
    }
    if let Some(burst) = config.burst {
        let _ = write!(out, " burst {burst}");
    }
    if let Some(profile) = &config.profile {
        let _ = write!(out, " profile {profile}");
    }
    match config.queue {
        Some(QueueSize::Slots(slots)) => {
            let _ = write!(out, " queue {slots}");
        }
        Some(QueueSize::Bytes(bytes)) => {
            let _ = write!(out, " queue {bytes}bytes");
        }
        None => {}
    }
    if !config.loss.is_empty() {
        let list: Vec<String> = config.loss.iter().map(f64::to_string).collect();
        let _ = write!(out, " plr {}", list.join(","));
    }
    if let Some(buckets) = config.buckets {
        let _ = write!(out, " buckets {buckets}");
    }
    if config.no_error {
        out += " noerror";
    }
    let numbers = [
        ("weight", config.weight),
        ("lmax", config.lmax),
        ("pri", config.priority),
    ];
    for (word, value) in numbers {
        if let Some(value) = value {
            let _ = write!(out, " {word} {value}");
        }
    }
    if let Some(mask) = &config.mask {
        out += &mask_words(mask);
    }
    out += &management_words(&config.management);
    if !matches!(config.management, QueueManagement::Active { .. }) {
        out += &kind;
    }
    out.push('\n');
    out
}

fn scheduler_words(config: &DummynetConfig) -> String {
    let Some((name, words)) = &config.scheduler else {
        return String::new();
    };
    let words: String = words.iter().map(|word| format!(" {word}")).collect();
    format!(" type {name}{words}")
}

fn management_words(management: &QueueManagement) -> String {
    match management {
        QueueManagement::DropTail => String::new(),
        QueueManagement::Red {
            gentle,
            weight,
            min,
            max,
            probability,
            ecn,
        } => {
            let word = if *gentle { "gred" } else { "red" };
            let ecn = if *ecn { " ecn" } else { "" };
            format!(" {word} {weight}/{min}/{max}/{probability}{ecn}")
        }
        QueueManagement::Active { name, words } => {
            let words: String = words.iter().map(|word| format!(" {word}")).collect();
            format!(" {name}{words}")
        }
    }
}

fn mask_words(mask: &FlowMask) -> String {
    let mut out = " mask".to_owned();
    let mut any = false;
    let mut put = |word: &str, value: String, wanted: bool| {
        if wanted {
            let _ = write!(out, " {word} {value}");
            any = true;
        }
    };
    put("proto", format!("{:#x}", mask.proto), mask.proto != 0);
    put("src-ip", format!("{:#x}", mask.src), mask.src != 0);
    put(
        "src-port",
        format!("{:#x}", mask.src_port),
        mask.src_port != 0,
    );
    put("dst-ip", format!("{:#x}", mask.dst), mask.dst != 0);
    put(
        "dst-port",
        format!("{:#x}", mask.dst_port),
        mask.dst_port != 0,
    );
    let six = |length: Option<u8>| length.unwrap_or(0).to_string();
    put("src-ip6", six(mask.src6), mask.src6.is_some());
    put("dst-ip6", six(mask.dst6), mask.dst6.is_some());
    put("flow-id", format!("{:#x}", mask.flow_id), mask.flow_id != 0);
    if !any {
        out += " proto 0";
    }
    out
}
