//! What of dummynet's objects Linux can do, and how: meters, and classes of a queueing discipline.
//!
//! In: configurations of pipes, queues and schedulers. Out: the [`Meter`] of a pipe; the [`Shape`]
//! of classes in which packets wait on their way out; and what can't be done, by name. A pipe's
//! rate and the size of its queue are the meter's business on either pass, whether or not packets
//! wait in a class. Queues share a pipe by their weights, which takes classes, so they are for the
//! way out of one interface.
//!
//! Source: dummynet(4), ipfw(8) "TRAFFIC SHAPER CONFIGURATION"; tc-htb(8) for what becomes of it.

use super::Ruleset;
use super::ast::{Action, Argument, InterfaceName, Pattern, Rule, Side};
use super::command::{DummynetConfig, DummynetKind, QueueManagement, QueueSize};
use crate::model::{Class, HANDLE, Meter, MeterKey, MeterRoom, Shape};
use std::collections::BTreeSet;

/// Slots of a queue whose size nobody named.
pub const SLOTS: u32 = 50;
/// Class numbers of queues begin here, those of pipes are their own numbers.
const QUEUES: u32 = 0x8000;
/// Units of a probability, as random choices have them.
const UNITS: f64 = 2_147_483_648.0;

/// Why something can't be done, and what to do instead.
pub type Cannot = (String, &'static str);

fn cannot<T>(what: impl Into<String>, help: &'static str) -> Result<T, Cannot> {
    Err((what.into(), help))
}

/// The size of an object's queue.
fn room(config: &DummynetConfig) -> MeterRoom {
    match config.queue {
        Some(QueueSize::Bytes(bytes)) => MeterRoom::Bytes(bytes),
        Some(QueueSize::Slots(slots)) if slots > 0 => MeterRoom::Packets(slots),
        _ => MeterRoom::Packets(SLOTS),
    }
}

/// The meter of a pipe.
#[must_use]
pub fn meter(config: &DummynetConfig) -> Meter {
    let key = config.mask.as_ref().map(|mask| MeterKey {
        src: mask.src,
        dst: mask.dst,
        src6: mask.src6.unwrap_or(0),
        dst6: mask.dst6.unwrap_or(0),
        src_port: mask.src_port,
        dst_port: mask.dst_port,
        proto: mask.proto,
    });
    Meter {
        rate: config.bandwidth.unwrap_or(0),
        room: room(config),
        burst: config.burst.unwrap_or(0),
        key: key.filter(|key| *key != MeterKey::default()),
    }
}

/// The name under which rules of a pipe share its meter.
#[must_use]
pub fn meter_name(number: u32) -> String {
    format!("pipe {number}")
}

/// The probability with which a pipe loses packets, in units of 2^-31.
#[must_use]
pub fn loss(config: &DummynetConfig) -> Option<u32> {
    let [probability] = config.loss[..] else {
        return None;
    };
    (probability > 0.0).then_some((probability * UNITS) as u32)
}

/// What can't be done of a queue in front of a link, whatever it is.
fn check_queue(config: &DummynetConfig) -> Result<(), Cannot> {
    match &config.management {
        QueueManagement::DropTail => {}
        QueueManagement::Red { .. } => {
            return cannot("`red`", "leave it out: what finds no room is dropped");
        }
        QueueManagement::Active { name, .. } => {
            let help = "leave it out, or give the interface an fq_codel or cake of its own with tc";
            return cannot(format!("`{name}`"), help);
        }
    }
    if config.loss.len() > 1 {
        return cannot("`plr` with states", "give one probability");
    }
    if config.mask.is_some_and(|mask| mask.flow_id != 0) {
        return cannot("`mask flow-id`", "mask src-ip6 and dst-ip6");
    }
    Ok(())
}

/// What can't be done of a pipe.
fn check_link(config: &DummynetConfig) -> Result<(), Cannot> {
    if config.delay.is_some_and(|delay| delay != 0) {
        let help = "leave `delay` out; netem delays: tc qdisc add dev IF root netem delay 50ms";
        return cannot("`delay` of a pipe", help);
    }
    if config.profile.is_some() {
        return cannot(
            "`profile`",
            "leave it out; netem of tc has distributions of delay",
        );
    }
    let class = class_number(config.kind, config.number);
    if class.is_none() {
        return cannot("a pipe number above 32767", "use smaller numbers");
    }
    Ok(())
}

/// Whether a pipe that a rule names can be had.
pub fn check_pipe(config: &DummynetConfig) -> Result<(), Cannot> {
    check_link(config)?;
    check_queue(config)?;
    match &config.scheduler {
        Some((name, _)) if !name.eq_ignore_ascii_case("fifo") => {
            let help = "leave `type` out: a pipe sends in order; `queue` has weights";
            cannot(format!("scheduler `{name}` of a pipe"), help)
        }
        _ => Ok(()),
    }
}

/// The pipe that a queue feeds, if both can be had.
pub fn check_shared<'s>(
    set: &'s Ruleset,
    config: &DummynetConfig,
) -> Result<&'s DummynetConfig, Cannot> {
    let object = |kind, number| set.dummynet.get(&(kind, number));
    let parent = config.parent.unwrap_or(0);
    let scheduler = object(DummynetKind::Sched, parent);
    let number = scheduler.and_then(|sched| sched.parent).unwrap_or(parent);
    let Some(pipe) = object(DummynetKind::Pipe, number) else {
        let what = format!("a queue of pipe {number}, which is not there,");
        return cannot(
            what,
            "write `pipe N config bw ...` and `queue N config pipe N`",
        );
    };
    check_link(pipe)?;
    check_queue(config)?;
    if class_number(DummynetKind::Queue, config.number).is_none() {
        return cannot("a queue number above 32766", "use smaller numbers");
    }
    if config.mask.is_some() || scheduler.is_some_and(|sched| sched.mask.is_some()) {
        let help = "give each network a queue of its own; `mask` works for a pipe";
        return cannot("`mask` of a queue", help);
    }
    if !config.loss.is_empty() {
        return cannot("`plr` of a queue", "put a `deny` with `prob` in front");
    }
    if pipe.bandwidth.unwrap_or(0) == 0 {
        return cannot("a queue of a pipe without `bw`", "give the pipe a rate");
    }
    let types = [scheduler, Some(pipe)].into_iter().flatten();
    for (name, _) in types.filter_map(|one| one.scheduler.as_ref()) {
        if !["wf2q+", "qfq", "rr"].contains(&name.to_ascii_lowercase().as_str()) {
            let help = "leave `type` out: queues share by their weights";
            return cannot(format!("scheduler `{name}`"), help);
        }
    }
    Ok(pipe)
}

/// The number of an object's class.
fn class_number(kind: DummynetKind, number: u32) -> Option<u16> {
    let number = match kind {
        _ if number >= QUEUES => return None,
        DummynetKind::Queue => number + QUEUES,
        _ => number,
    };
    // The last number is HTB's word for none.
    u16::try_from(number)
        .ok()
        .filter(|number| *number != u16::MAX)
}

/// What the priority of a packet becomes that waits in an object's class; `None` where packets
/// don't wait: a link that sends all at once, one that keeps flows apart.
#[must_use]
pub fn class(config: &DummynetConfig) -> Option<u32> {
    let waits = config.kind == DummynetKind::Queue || {
        let meter = meter(config);
        meter.rate != 0 && meter.key.is_none()
    };
    let number = class_number(config.kind, config.number).filter(|_| waits)?;
    Some(u32::from(HANDLE) << 16 | u32::from(number))
}

/// Interfaces that a rule's packets can leave by; `None`: any.
#[must_use]
pub fn interfaces(rule: &Rule) -> Option<BTreeSet<String>> {
    // What its states bring comes by any.
    if rule.state.is_some() {
        return None;
    }
    let mut in_block = false;
    let mut found = None;
    for one in &rule.body {
        let alone = !in_block && !one.or_next && !one.negate;
        in_block = one.or_next;
        match &one.pattern {
            Pattern::In if alone => return Some(BTreeSet::new()),
            Pattern::Interface(Side::Via | Side::Xmit, InterfaceName::Name(name)) if alone => {
                found = Some([name.clone()].into());
            }
            _ => {}
        }
    }
    found
}

/// The one interface on which the queues of a pipe are.
pub fn check_place(set: &Ruleset, pipe: u32) -> Result<String, Cannot> {
    let help = "queues share one link: write `out xmit IF` in all rules with queues of the pipe";
    let feeds = |number: u32| {
        let queue = set.dummynet.get(&(DummynetKind::Queue, number));
        let feeds = queue.and_then(|queue| check_shared(set, queue).ok());
        feeds.is_some_and(|fed| fed.number == pipe)
    };
    let mut found = BTreeSet::new();
    for one in &set.rules {
        let uses = match one.rule.action {
            Action::Queue(Argument::Number(number)) => feeds(number),
            Action::Queue(Argument::TableArg) => true,
            _ => false,
        };
        if !uses || !set.is_enabled(one.rule.set) {
            continue;
        }
        match interfaces(&one.rule) {
            Some(names) => found.extend(names),
            None => return cannot("a `queue` on any interface", help),
        }
    }
    match (found.pop_first(), found.is_empty()) {
        (Some(name), true) => Ok(name),
        (None, _) => cannot("a `queue` on the input pass, where nothing waits,", help),
        _ => cannot("queues of a pipe on several interfaces", help),
    }
}

/// A pipe's class is so much faster than its meter, of 256, that its queue is never the longer one.
const HASTE: u64 = 4;
/// Packets that a pipe's class has room for beyond those that its meter lets through.
const SPARE_SLOTS: u32 = 64;

fn class_of_pipe(config: &DummynetConfig, number: u16) -> Class {
    let meter = meter(config);
    let rate = meter.rate.saturating_add(meter.rate / 256 * HASTE);
    Class {
        number,
        parent: 0,
        rate,
        most: rate,
        weight: 1,
        burst: meter.burst,
        queue: Some(match meter.room {
            // The meter is who counts; packets of forty bytes are the smallest.
            MeterRoom::Bytes(bytes) => MeterRoom::Packets(bytes / 40 + SPARE_SLOTS),
            MeterRoom::Packets(slots) => MeterRoom::Packets(slots + SPARE_SLOTS),
        }),
    }
}

/// The number of the class that the queues of a pipe share: beside that of its direct packets.
fn shared_number(pipe: u32, taken: &BTreeSet<u16>) -> u16 {
    let wanted = pipe as u16 ^ 0x4000;
    let mut free = (1..u16::MAX).map(|step| wanted.wrapping_add(step - 1));
    free.find(|number| *number != 0 && *number != u16::MAX && !taken.contains(number))
        .unwrap_or(wanted)
}

fn add_queues(set: &Ruleset, used: &BTreeSet<u32>, shape: &mut Shape) {
    let mut taken: BTreeSet<u16> = shape.classes.iter().map(|class| class.number).collect();
    let queues = set
        .dummynet
        .range((DummynetKind::Queue, 0)..(DummynetKind::Sched, 0));
    let fed = |config: &DummynetConfig| check_shared(set, config).ok();
    let queues: Vec<_> = queues
        .filter(|((_, number), _)| used.contains(number))
        .filter_map(|(_, config)| Some((config, fed(config)?)))
        .collect();
    for (config, _) in &queues {
        taken.extend(class_number(DummynetKind::Queue, config.number));
    }
    let pipes: BTreeSet<u32> = queues.iter().map(|(_, pipe)| pipe.number).collect();
    for pipe in pipes {
        let of_pipe = || queues.iter().filter(|(_, fed)| fed.number == pipe);
        let weight = |config: &DummynetConfig| config.weight.unwrap_or(1).clamp(1, 100) as u64;
        let all: u64 = of_pipe().map(|(config, _)| weight(config)).sum();
        let Some((_, link)) = of_pipe().next() else {
            continue;
        };
        let (rate, burst) = (link.bandwidth.unwrap_or(0), link.burst.unwrap_or(0));
        let shared = shared_number(pipe, &taken);
        taken.insert(shared);
        shape.classes.push(Class {
            number: shared,
            parent: 0,
            rate,
            most: rate,
            weight: 1,
            burst,
            queue: None,
        });
        for (config, _) in of_pipe() {
            let share = u128::from(rate) * u128::from(weight(config)) / u128::from(all.max(1));
            shape.classes.push(Class {
                number: class_number(DummynetKind::Queue, config.number).unwrap_or(u16::MAX),
                parent: shared,
                rate: (share as u64).max(8),
                most: rate,
                weight: weight(config) as u32,
                burst,
                queue: Some(room(config)),
            });
        }
    }
}

/// The classes for a rule set; `None` when no packet waits.
#[must_use]
pub fn shape(set: &Ruleset) -> Option<Shape> {
    let mut places = Some(BTreeSet::new());
    let (mut pipes, mut queues) = (BTreeSet::new(), BTreeSet::new());
    if !set.settings.enable {
        return None;
    }
    for one in set.rules.iter().filter(|one| set.is_enabled(one.rule.set)) {
        let (numbers, kind, argument) = match one.rule.action {
            Action::Pipe(argument) => (&mut pipes, DummynetKind::Pipe, argument),
            Action::Queue(argument) => (&mut queues, DummynetKind::Queue, argument),
            _ => continue,
        };
        let names = interfaces(&one.rule);
        if names.as_ref().is_some_and(BTreeSet::is_empty) {
            continue;
        }
        let all = set.dummynet.values().filter(|config| config.kind == kind);
        let meant = |config: &&DummynetConfig| match argument {
            Argument::Number(number) => config.number == number,
            Argument::TableArg => true,
        };
        let mut any = false;
        for config in all.filter(meant).filter(|config| class(config).is_some()) {
            numbers.insert(config.number);
            any = true;
        }
        if any {
            places = places.zip(names).map(|(mut places, names)| {
                places.extend(names);
                places
            });
        }
    }
    let mut shape = Shape {
        classes: Vec::new(),
        interfaces: places,
    };
    for number in pipes {
        let config = set.dummynet.get(&(DummynetKind::Pipe, number));
        let class = class_number(DummynetKind::Pipe, number);
        if let (Some(config), Some(number)) = (config, class) {
            shape.classes.push(class_of_pipe(config, number));
        }
    }
    add_queues(set, &queues, &mut shape);
    (!shape.classes.is_empty()).then_some(shape)
}
