//! `pipe`, `queue` and `sched` commands.
//!
//! In: the words after the object's kind. Out: a [`DummynetCommand`]. Values out of range are
//! clipped as the original clips them, with a warning.

use super::super::command::{
    Command, DummynetCommand, DummynetConfig, DummynetKind, FlowMask, QueueManagement, QueueSize,
};
use super::super::fault::{Fault, Notes};
use super::super::numbers;
use super::super::words::Word;
use super::rule::leading_float;
use super::{Reader, command};

const SLOTS_MAX: u32 = 100;
const QUEUE_BYTES_MAX: u32 = 1024 * 1024;
const DELAY_MS_MAX: u32 = 10_000;
const WEIGHT_MAX: i64 = 100;

/// Reads what follows `pipe`, `queue` or `sched`.
pub fn dummynet(reader: &mut Reader<'_>, kind: DummynetKind) -> Result<Command, Fault> {
    let number = reader.peek().filter(|word| word.is_digit());
    if number.is_some() {
        reader.take();
    }
    let verb = reader.need(&format!("a {} command", kind.name()))?;
    let is = |name: &str| name.starts_with(&verb.text);
    let done = if is("config") {
        let number = match number {
            Some(number) => Some(number),
            None => reader.take().filter(|word| word.is_digit()),
        };
        let value = number.map_or(0, |word| numbers::atoi(&word.text));
        let Some(word) = number.filter(|_| (1..65535).contains(&value)) else {
            return Err(Fault::usage(
                "missing-word",
                number.map_or(reader.here(), |word| word.span),
                "need a pipe/flowset/sched number",
            )
            .help("write a number from 1 to 65534"));
        };
        DummynetCommand::Config(Box::new(config(reader, kind, value as u32, word)?))
    } else if is("show") || is("list") {
        let mut ranges = command::ranges(reader)?;
        if let Some(word) = number {
            let value = numbers::u32_of(&word.text, 10);
            ranges.insert(0, (value, value));
        }
        DummynetCommand::List(kind, ranges)
    } else if is("delete") {
        let mut list: Vec<u32> = number
            .iter()
            .map(|w| numbers::u32_of(&w.text, 10))
            .collect();
        list.extend(reader.rest().iter().map(|w| numbers::u32_of(&w.text, 10)));
        if list.is_empty() {
            return Err(
                Fault::usage("missing-word", reader.here(), "missing rule specification")
                    .help("write the number"),
            );
        }
        DummynetCommand::Delete(kind, list)
    } else if is("flush") {
        DummynetCommand::Flush(kind)
    } else {
        return Err(Fault::usage(
            "unknown-command",
            verb.span,
            format!("bad command `{}'", verb.text),
        )
        .nearest(
            &verb.text,
            ["config", "show", "list", "delete", "flush"],
            "write config, show, list, delete or flush",
        ));
    };
    Ok(Command::Dummynet(done))
}

fn wrong(word: &Word, message: impl Into<String>) -> Fault {
    Fault::data("dummynet", word.span, message).help("see ipfw(8), TRAFFIC SHAPER CONFIGURATION")
}

fn config(
    reader: &mut Reader<'_>,
    kind: DummynetKind,
    number: u32,
    word: &Word,
) -> Result<DummynetConfig, Fault> {
    let mut config = DummynetConfig {
        kind,
        number,
        bandwidth: None,
        delay: None,
        burst: None,
        profile: None,
        queue: None,
        loss: Vec::new(),
        buckets: None,
        no_error: false,
        weight: None,
        lmax: None,
        priority: None,
        parent: None,
        mask: None,
        management: QueueManagement::default(),
        scheduler: None,
    };
    let mut ecn = None;
    while let Some(option) = reader.take() {
        if !link_option(reader, &mut config, option)?
            && !flow_option(reader, &mut config, option, &mut ecn)?
        {
            let known = [
                "bw",
                "delay",
                "burst",
                "profile",
                "queue",
                "plr",
                "buckets",
                "noerror",
                "weight",
                "pipe",
                "sched",
                "mask",
                "red",
                "gred",
                "ecn",
                "codel",
                "pie",
                "type",
                "droptail",
                "lmax",
                "pri",
                "flowset",
                "link",
                "flow_mask",
                "sched_mask",
            ];
            return Err(Fault::data(
                "dummynet",
                option.span,
                format!("unrecognised option `{}`", option.text),
            )
            .nearest(
                &option.text,
                known,
                "see ipfw(8), TRAFFIC SHAPER CONFIGURATION",
            ));
        }
    }
    finish(&mut config, ecn, word)?;
    Ok(config)
}

fn finish(config: &mut DummynetConfig, ecn: Option<&Word>, word: &Word) -> Result<(), Fault> {
    if let Some(option) = ecn {
        match &mut config.management {
            QueueManagement::Red { ecn, .. } => *ecn = true,
            _ => {
                return Err(Fault::usage(
                    "dummynet",
                    option.span,
                    "ECN can be used with red/gred/codel/fq_codel only",
                )
                .help("write it after red or gred"));
            }
        }
    }
    if let QueueManagement::Red { min, max, ecn, .. } = config.management {
        if max == 0 {
            return Err(wrong(word, "max_th must be > 0"));
        }
        if min > max || (min == max && !ecn) {
            return Err(wrong(
                word,
                format!("min_th {min} must be < than max_th {max}"),
            ));
        }
    }
    Ok(())
}

fn value<'a>(reader: &mut Reader<'a>, option: &Word) -> Result<&'a Word, Fault> {
    reader.need(&format!("an argument of {}", option.text))
}

fn only(config: &DummynetConfig, kinds: &[DummynetKind], option: &Word) -> Result<(), Fault> {
    if kinds.contains(&config.kind) {
        return Ok(());
    }
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    Err(Fault::usage(
        "dummynet",
        option.span,
        format!("{} is only for {}", option.text, names.join(", ")),
    )
    .help("configure it on the right object"))
}

const PIPE: &[DummynetKind] = &[DummynetKind::Pipe];
const WITH_SCHEDULER: &[DummynetKind] = &[DummynetKind::Pipe, DummynetKind::Sched];

/// Options of the link and the scheduler; `false` when the word is none of them.
fn link_option(
    reader: &mut Reader<'_>,
    config: &mut DummynetConfig,
    option: &Word,
) -> Result<bool, Fault> {
    match option.text.as_str() {
        "bw" | "bandwidth" => {
            only(config, PIPE, option)?;
            let word = value(reader, option)?;
            config.bandwidth = Some(bandwidth(reader, word)?);
        }
        "delay" => {
            only(config, PIPE, option)?;
            let word = value(reader, option)?;
            let delay = numbers::u32_of(&word.text, 0);
            if delay > DELAY_MS_MAX {
                return Err(wrong(word, "delay must be < 10000"));
            }
            config.delay = Some(delay);
        }
        "burst" => {
            only(config, PIPE, option)?;
            let word = value(reader, option)?;
            config.burst = Some(burst(word)?);
        }
        "profile" => {
            only(config, PIPE, option)?;
            config.profile = Some(value(reader, option)?.text.clone());
        }
        "type" => {
            only(config, WITH_SCHEDULER, option)?;
            let name = value(reader, option)?;
            config.scheduler = Some(scheduler(reader, name)?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn scheduler(reader: &mut Reader<'_>, name: &Word) -> Result<(String, Vec<String>), Fault> {
    let known = ["fifo", "wf2q+", "rr", "qfq", "prio", "fq_codel", "fq_pie"];
    let lower = name.text.to_ascii_lowercase();
    if !known.contains(&lower.as_str()) {
        return Err(Fault::data(
            "dummynet",
            name.span,
            format!("unknown scheduler `{}`", name.text),
        )
        .nearest(
            &lower,
            known,
            "write fifo, wf2q+, rr, qfq, prio, fq_codel or fq_pie",
        ));
    }
    let words = match lower.as_str() {
        "fq_codel" | "fq_pie" => swallow(reader, &lower),
        _ => Vec::new(),
    };
    Ok((lower, words))
}

/// Everything after an active queue management belongs to it; what it doesn't know is dropped
/// by the original with a word on standard output.
fn swallow(reader: &mut Reader<'_>, name: &str) -> Vec<String> {
    const VALUED: [&str; 10] = [
        "target",
        "interval",
        "quantum",
        "limit",
        "flows",
        "tupdate",
        "alpha",
        "beta",
        "max_burst",
        "max_ecnth",
    ];
    const PLAIN: [&str; 11] = [
        "ecn",
        "noecn",
        "capdrop",
        "nocapdrop",
        "drand",
        "nodrand",
        "onoff",
        "dre",
        "ts",
        "derand",
        "noderand",
    ];
    let mut words = Vec::new();
    while let Some(word) = reader.take() {
        if VALUED.contains(&word.text.as_str()) {
            words.push(word.text.clone());
            words.extend(reader.take().map(|value| value.text.clone()));
        } else if PLAIN.contains(&word.text.as_str()) {
            words.push(word.text.clone());
        } else {
            reader.notes.warn(
                "swallowed-option",
                word.span,
                format!("`{}` after {name} is dropped", word.text),
                "ipfw drops it; write it before",
            );
        }
    }
    words
}

/// Options of the flow set; `false` when the word is none of them.
fn flow_option<'a>(
    reader: &mut Reader<'a>,
    config: &mut DummynetConfig,
    option: &'a Word,
    ecn: &mut Option<&'a Word>,
) -> Result<bool, Fault> {
    match option.text.as_str() {
        "noerror" => config.no_error = true,
        "plr" => {
            let word = value(reader, option)?;
            let parts = word.text.split(',').take(4);
            config.loss = parts.map(|p| leading_float(p).clamp(0.0, 1.0)).collect();
            if config.loss.len() == 1 && leading_float(&word.text) > 1.0 {
                reader.notes.warn(
                    "value-clipped",
                    word.span,
                    format!("a loss of `{}` is taken as 1", word.text),
                    "ipfw takes it so; losses are 0 to 1",
                );
            }
        }
        "queue" => {
            let word = value(reader, option)?;
            config.queue = Some(queue_size(word)?);
        }
        "buckets" => {
            let word = value(reader, option)?;
            config.buckets = Some(numbers::u32_of(&word.text, 0));
        }
        "mask" | "flow_mask" | "sched_mask" => config.mask = Some(mask(reader, option)?),
        "red" | "gred" => {
            let word = value(reader, option)?;
            config.management = red(word, option.text == "gred")?;
        }
        "ecn" => *ecn = Some(option),
        "droptail" => config.management = QueueManagement::DropTail,
        "codel" | "pie" => {
            let name = option.text.clone();
            let words = swallow(reader, &name);
            config.management = QueueManagement::Active { name, words };
        }
        "weight" => {
            let word = value(reader, option)?;
            let given = numbers::strtol(&word.text, 0).0;
            let weight = given.clamp(1, WEIGHT_MAX);
            if weight != given {
                reader.notes.warn(
                    "clipped-weight",
                    word.span,
                    format!("weight {given} is clipped to {weight}"),
                    "weights are 1 to 100",
                );
            }
            config.weight = Some(weight);
        }
        "lmax" => config.lmax = Some(numbers::strtol(&value(reader, option)?.text, 0).0),
        "pri" | "priority" => {
            config.priority = Some(numbers::strtol(&value(reader, option)?.text, 0).0);
        }
        "pipe" | "sched" | "link" | "flowset" => {
            let word = value(reader, option)?;
            config.parent = Some(numbers::u32_of(&word.text, 0));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A rate in bits a second. An interface as clock is refused: Linux has no such thing.
fn bandwidth(reader: &mut Reader<'_>, word: &Word) -> Result<u64, Fault> {
    if word.first().is_some_and(|byte| byte.is_ascii_lowercase()) {
        let mut fault = wrong(word, format!("`bw {}`: an interface as clock", word.text))
            .help("write the rate as a number, such as 10Mbit/s");
        fault.unsupported = true;
        return Err(fault);
    }
    let (value, rest) = numbers::strtol(&word.text, 0);
    let (factor, unit) = match rest.as_bytes().first() {
        Some(b'K' | b'k') => (1000i64, &rest[1..]),
        Some(b'M' | b'm') => (1_000_000, &rest[1..]),
        Some(b'G' | b'g') => (1_000_000_000, &rest[1..]),
        _ => (1, rest),
    };
    let bytes = (unit.starts_with('B') && !unit.starts_with("Bi")) || unit.starts_with("by");
    let factor = if bytes { factor * 8 } else { factor };
    // What is printed is read again, so no more than is read.
    let value = value.checked_mul(factor).map(u64::try_from);
    let Some(Ok(value)) = value else {
        return Err(wrong(word, "bandwidth too large"));
    };
    let plain = [
        "", "bit/s", "Bit/s", "Byte/s", "bytes", "Byte", "bit", "b/s", "bps", "B",
    ];
    if !plain.contains(&unit) {
        reader.notes.warn(
            "bandwidth-unit",
            word.span,
            format!("`{}` is read as {value} bit/s", word.text),
            "write a number with K, M or G, and bit/s or Byte/s",
        );
    }
    Ok(value)
}

fn burst(word: &Word) -> Result<u64, Fault> {
    let (value, rest) = numbers::strtol(&word.text, 10);
    let shift = match rest.bytes().next().map(|byte| byte.to_ascii_lowercase()) {
        None | Some(b'b') => 0,
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(_) => return Err(wrong(word, "burst: invalid argument")),
    };
    let bytes = u64::try_from(value)
        .ok()
        .map(|v| v.saturating_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes < 1 << 48)
        .ok_or_else(|| wrong(word, "burst: out of range (0..2^48-1)"))
}

fn queue_size(word: &Word) -> Result<QueueSize, Fault> {
    let (value, rest) = numbers::strtol(&word.text, 0);
    let mut value = value.clamp(0, i64::from(u32::MAX)) as u32;
    let kilo = rest.starts_with(['K', 'k']);
    if kilo {
        value = value.saturating_mul(1024);
    }
    if kilo || rest.starts_with('B') || rest.starts_with("by") {
        if value > QUEUE_BYTES_MAX {
            return Err(wrong(
                word,
                format!("queue size must be < {QUEUE_BYTES_MAX}B"),
            ));
        }
        return Ok(QueueSize::Bytes(value));
    }
    if value > SLOTS_MAX {
        return Err(wrong(word, format!("2 <= queue size <= {SLOTS_MAX}")));
    }
    Ok(QueueSize::Slots(value))
}

fn red(word: &Word, gentle: bool) -> Result<QueueManagement, Fault> {
    let parts: Vec<&str> = word.text.split('/').collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or("0");
    let weight = leading_float(part(0));
    if weight <= 0.0 || weight > 1.0 {
        return Err(wrong(word, "0 < w_q <= 1"));
    }
    let threshold = |text: &str| {
        let (value, rest) = numbers::strtol(text, 0);
        let factor = if rest.starts_with(['K', 'k']) {
            1024
        } else {
            1
        };
        (value.max(0) as u32).saturating_mul(factor)
    };
    let probability = leading_float(part(3));
    if !(0.0..=1.0).contains(&probability) {
        return Err(wrong(word, "0 <= max_p <= 1"));
    }
    Ok(QueueManagement::Red {
        gentle,
        weight,
        min: threshold(part(1)),
        max: threshold(part(2)),
        probability,
        ecn: false,
    })
}

fn mask(reader: &mut Reader<'_>, option: &Word) -> Result<FlowMask, Fault> {
    if reader.peek().is_none() {
        return Err(wrong(option, "mask needs mask specifier"));
    }
    let mut mask = FlowMask::default();
    while let Some(field) = reader.peek() {
        match field.text.as_str() {
            "all" => {
                reader.take();
                return Ok(FlowMask {
                    dst: u32::MAX,
                    src: u32::MAX,
                    dst6: Some(128),
                    src6: Some(128),
                    dst_port: u16::MAX,
                    src_port: u16::MAX,
                    proto: u8::MAX,
                    flow_id: 0xf_ffff,
                });
            }
            "dst-ip" | "src-ip" | "dst-ip6" | "src-ip6" | "dst-ipv6" | "src-ipv6" | "dst-port"
            | "src-port" | "proto" | "flow-id" => {
                reader.take();
                let Some(word) = reader.take() else {
                    return Err(
                        Fault::usage("missing-word", field.span, "mask: value missing")
                            .help("write a mask such as 0xffffffff or /24"),
                    );
                };
                mask_field(reader.notes, &mut mask, &field.text, word)?;
            }
            _ => break,
        }
    }
    Ok(mask)
}

fn mask_field(
    notes: &mut Notes,
    mask: &mut FlowMask,
    field: &str,
    word: &Word,
) -> Result<(), Fault> {
    let six = field.contains('6');
    let length = word.text.strip_prefix('/');
    let number = super::number(notes, word, length.unwrap_or(&word.text), 0);
    let value = match length {
        // Such a length counts the low bits.
        Some(_) if !six => match number {
            32.. => u32::MAX,
            bits => (1u32 << bits) - 1,
        },
        _ => number,
    };
    let narrow = |limit: u32, what: &str| match value <= limit {
        true => Ok(value),
        false => Err(wrong(word, what)),
    };
    match field {
        "dst-ip" => mask.dst = value,
        "src-ip" => mask.src = value,
        "dst-ip6" | "dst-ipv6" => {
            mask.dst6 = Some(narrow(128, "in6addr invalid mask len")? as u8);
        }
        "src-ip6" | "src-ipv6" => {
            mask.src6 = Some(narrow(128, "in6addr invalid mask len")? as u8);
        }
        "dst-port" => mask.dst_port = narrow(0xffff, "port mask must be 16 bit")? as u16,
        "src-port" => mask.src_port = narrow(0xffff, "port mask must be 16 bit")? as u16,
        "flow-id" => mask.flow_id = narrow(0xf_ffff, "flow_id mask must be 20 bit")?,
        _ => mask.proto = narrow(0xff, "proto mask must be 8 bit")? as u8,
    }
    Ok(())
}
