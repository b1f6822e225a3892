//! Membership in named sets, entry by entry (ipset(8)).
//!
//! The most specific entry that covers the packet decides: a `nomatch` entry takes out what a wider
//! entry put in. Sets that rules change keep their entries here, with the time at which each ends.

use crate::model::{
    Family, Fragment, NamedSet, Op, Packet, SetDimension, SetEntry, SetField, SetId, SetPart,
};

/// The sets of a policy as they are now.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    sets: Vec<NamedSet>,
    /// For each set, for each entry: the time (ms) at which it ends.
    ends: Vec<Vec<Option<u64>>>,
}

impl Sets {
    /// Sets as written; entries with a timeout live from `now_ms`.
    pub fn new(sets: &[NamedSet], now_ms: u64) -> Self {
        let end = |e: &SetEntry| {
            e.timeout
                .filter(|t| *t > 0)
                .map(|t| now_ms + u64::from(t) * 1000)
        };
        let ends = sets
            .iter()
            .map(|s| s.entries.iter().map(end).collect())
            .collect();
        Sets {
            sets: sets.to_vec(),
            ends,
        }
    }

    /// Whether the packet is in the set.
    pub fn contains(&self, id: SetId, fields: &[SetField], packet: &Packet, now_ms: u64) -> bool {
        let set = &self.sets[id.0 as usize];
        if set.dimensions.is_empty() {
            return set.members.iter().any(|m| {
                self.sets[m.0 as usize].dimensions.len() <= fields.len()
                    && self.contains(*m, fields, packet, now_ms)
            });
        }
        let Some(values) = values(set, fields, packet) else {
            return false;
        };
        let mut best: Option<(u128, bool)> = None;
        for (entry, end) in set.entries.iter().zip(&self.ends[id.0 as usize]) {
            let alive = end.is_none_or(|e| now_ms < e);
            if alive
                && entry
                    .parts
                    .iter()
                    .zip(&values)
                    .all(|(part, value)| part_has(part, *value))
            {
                let size = entry.parts.iter().map(part_size).max().unwrap_or(0);
                if best.is_none_or(|(smallest, _)| size < smallest) {
                    best = Some((size, entry.nomatch));
                }
            }
        }
        best.is_some_and(|(_, nomatch)| !nomatch)
    }

    /// Carries out `SetAdd` and `SetDelete`; other operations are none of its business.
    pub fn apply(&mut self, op: &Op, packet: &Packet, now_ms: u64) {
        let (id, fields, add) = match op {
            Op::SetAdd {
                set,
                fields,
                timeout,
                exist,
            } => (set, fields, Some((*timeout, *exist))),
            Op::SetDelete { set, fields } => (set, fields, None),
            _ => return,
        };
        let set = &mut self.sets[id.0 as usize];
        let ends = &mut self.ends[id.0 as usize];
        let Some(values) = values(set, fields, packet) else {
            return;
        };
        let parts: Vec<SetPart> = values.iter().map(|value| value.exact()).collect();
        let found = set.entries.iter().position(|e| e.parts == parts);
        match (add, found) {
            (None, Some(at)) => {
                set.entries.remove(at);
                ends.remove(at);
            }
            (Some((timeout, exist)), found) => {
                let end = timeout
                    .filter(|t| *t > 0)
                    .map(|t| now_ms + u64::from(t) * 1000);
                match found {
                    Some(at) if exist || ends[at].is_some_and(|e| e <= now_ms) => ends[at] = end,
                    Some(_) => {}
                    None => {
                        set.entries.push(SetEntry {
                            parts,
                            nomatch: false,
                            timeout,
                        });
                        ends.push(end);
                    }
                }
            }
            (None, None) => {}
        }
    }
}

/// The packet's value in one dimension.
#[derive(Clone, Copy, Debug)]
enum Value {
    Address(u128),
    ProtoPort(u8, u16),
    Port(u16),
}

impl Value {
    fn exact(self) -> SetPart {
        match self {
            Value::Address(address) => SetPart::Addresses(address, address),
            Value::ProtoPort(proto, port) => SetPart::ProtoPorts(proto, port, port),
            Value::Port(port) => SetPart::Ports(port, port),
        }
    }
}

fn part_has(part: &SetPart, value: Value) -> bool {
    match (part, value) {
        (SetPart::Addresses(first, last), Value::Address(address)) => {
            (first..=last).contains(&&address)
        }
        (SetPart::ProtoPorts(proto, first, last), Value::ProtoPort(is, port)) => {
            *proto == is && (first..=last).contains(&&port)
        }
        (SetPart::Ports(first, last), Value::Port(port)) => (first..=last).contains(&&port),
        _ => false,
    }
}

fn part_size(part: &SetPart) -> u128 {
    match part {
        SetPart::Addresses(first, last) => last - first,
        SetPart::ProtoPorts(..) | SetPart::Ports(..) => 0,
    }
}

/// The packet's values in all dimensions; `None` when it lacks one.
fn values(set: &NamedSet, fields: &[SetField], packet: &Packet) -> Option<Vec<Value>> {
    let has_address = set.dimensions.contains(&SetDimension::Address);
    if has_address && set.family.is_some_and(|f| f != packet.family) {
        return None;
    }
    if fields.len() < set.dimensions.len() {
        return None;
    }
    let mut out = Vec::with_capacity(set.dimensions.len());
    for (dimension, field) in set.dimensions.iter().zip(fields) {
        let source = *field == SetField::Src;
        out.push(match dimension {
            SetDimension::Address => Value::Address(if source { packet.src } else { packet.dst }),
            SetDimension::ProtoPort => Value::ProtoPort(packet.proto, port_of(packet, source)?),
            SetDimension::Port => match packet.proto {
                6 | 17 => Value::Port(port_of(packet, source)?),
                _ => return None,
            },
        });
    }
    Some(out)
}

/// The port that ipset takes from a packet: ICMP type and code, and 0 for protocols without ports.
fn port_of(packet: &Packet, source: bool) -> Option<u16> {
    use crate::model::Transport;
    let icmp = if packet.family == Family::V4 { 1 } else { 58 };
    let with_ports = matches!(packet.proto, 6 | 17 | 132 | 136) || packet.proto == icmp;
    if matches!(packet.fragment, Fragment::Later(_)) {
        return (!with_ports).then_some(0);
    }
    if !with_ports {
        return Some(0);
    }
    match &packet.transport {
        Transport::Icmp { kind, code, .. } => Some(u16::from(*kind) << 8 | u16::from(*code)),
        _ => packet
            .ports()
            .map(|(src, dst)| if source { src } else { dst }),
    }
}
