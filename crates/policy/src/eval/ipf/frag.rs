//! The fragment cache: the verdict of a first fragment, remembered for the rest.
//!
//! In: fragments. Out: the rule whose verdict holds. Source: behaviour of 5.1.2.

use super::packet::IpfPacket;
use crate::dialect::ipf::words::attribute;
use crate::model::Family;

/// Options that every fragment repeats (the copied bit, RFC 791).
const COPIED: u8 = 0x80;

/// What all fragments of a datagram share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    family: Family,
    interface: String,
    source: u128,
    destination: u128,
    proto: u8,
    id: u32,
    options: u32,
    classes: u8,
}

impl Key {
    fn of(packet: &IpfPacket) -> Self {
        let copied = |bit: &usize| {
            let option = &crate::dialect::ipf::words::IP_OPTIONS[*bit];
            option.number & COPIED != 0
        };
        let options = (0..24).filter(copied).fold(0, |set, bit| set | 1 << bit);
        Self {
            family: packet.family,
            interface: packet.interface.clone(),
            source: packet.source,
            destination: packet.destination,
            proto: packet.proto,
            id: packet.id,
            options: packet.options & options,
            classes: packet.classes,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    rule: usize,
    rule_number: u32,
    strict: bool,
    first_seen: bool,
    /// Where the first fragment's data ends, in units of 8 bytes.
    first_end: u32,
    /// Where the next fragment should begin, in units of 8 bytes.
    next: u32,
    expires_ms: u64,
}

/// All datagrams whose fragments are expected.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    entries: Vec<Entry>,
}

/// What the cache says of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The verdict of this rule, and its number in its list.
    Rule(usize, u32),
    /// It overlaps the first fragment: never let through.
    Overlap,
}

impl Fragments {
    /// Remembers a datagram; whether that was possible.
    pub fn add(
        &mut self,
        packet: &IpfPacket,
        rule: (usize, u32),
        strict: bool,
        now_ms: u64,
        lifetime_ms: u64,
    ) -> bool {
        let fragment = packet.is(attribute::FRAG) && !packet.is(attribute::BAD);
        if !fragment || strict && packet.offset != 0 {
            return false;
        }
        let key = Key::of(packet);
        if self.entries.iter().any(|entry| entry.key == key) {
            return false;
        }
        let first = packet.offset == 0;
        self.entries.push(Entry {
            key,
            rule: rule.0,
            rule_number: rule.1,
            strict,
            first_seen: first,
            first_end: if first { packet.data / 8 } else { 0 },
            next: packet.offset / 8 + packet.data / 8,
            expires_ms: now_ms.saturating_add(lifetime_ms),
        });
        true
    }

    /// Takes out what is over.
    pub fn expire(&mut self, now_ms: u64) {
        self.entries.retain(|entry| entry.expires_ms > now_ms);
    }

    /// What is known of a fragment.
    pub fn find(&mut self, packet: &IpfPacket) -> Option<Known> {
        if packet.is(attribute::SHORT | attribute::BAD) {
            return None;
        }
        let key = Key::of(packet);
        let at = packet.offset / 8;
        let entry = self
            .entries
            .iter_mut()
            .rev()
            .find(|entry| entry.key == key)?;
        if entry.first_seen {
            if at == 0 {
                return None;
            }
            if entry.first_end != 0 && at < entry.first_end {
                return Some(Known::Overlap);
            }
        } else if at == 0 {
            entry.first_seen = true;
        }
        if at == entry.next {
            entry.next = at + packet.data / 8;
        } else if entry.strict {
            return None;
        }
        Some(Known::Rule(entry.rule, entry.rule_number))
    }
}
