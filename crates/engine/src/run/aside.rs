//! Tests of what the kernel knows beside headers, of bytes, and of what few ask of headers, on the
//! image.
//!
//! Twin: `plane/bpf/aside.h`.

use super::test::Context;
use crate::image::aside::{
    ASIDE_CLASS, ASIDE_CONTROL_GROUP, ASIDE_CPU, ASIDE_ETHERNET_AMONG, ASIDE_ETHERNET_BARE,
    ASIDE_ETHERNET_MASKED, ASIDE_ETHERNET_TYPE, ASIDE_EXTENSIONS, ASIDE_GROUP_IN, ASIDE_GROUP_OUT,
    ASIDE_GROUPS, ASIDE_HEADER, ASIDE_HEADERS, ASIDE_IP_OPTIONS, ASIDE_NAME_IN, ASIDE_NAME_OUT,
    ASIDE_PORT_IN, ASIDE_PORT_OUT, ASIDE_REALM, ASIDE_SOCKET, ASIDE_TCP, ASIDE_WORDS, Glob,
    PortName, TCP_ACKNOWLEDGEMENT, TCP_SEQUENCE, TCP_WINDOW, TEXT_ROWS, TextTable, WORD_AND,
    WORD_AT, WORD_IN, WORD_IN_LAST, WORD_LEFT, WORD_READ, WORD_RIGHT, WordOp,
};
use crate::image::layout::Test;
use weir_policy::model::TcpNumber;

impl Context<'_, '_> {
    /// Runs such a test; `None` where the packet has no such field.
    pub(super) fn aside(&self, test: &Test) -> Option<bool> {
        let facts = &self.packet.aside;
        let has_owner = self.packet.owner.is_some();
        Some(match test.small {
            ASIDE_SOCKET => facts.socket || has_owner,
            ASIDE_GROUPS => {
                let main = self.packet.owner.map(|owner| owner.1);
                let mut groups = main.iter().chain(&facts.groups);
                has_owner && groups.any(|group| (test.a..=test.b).contains(group))
            }
            ASIDE_CLASS => facts.class? == test.a,
            ASIDE_CONTROL_GROUP => {
                let groups = Some(&facts.control_groups).filter(|groups| !groups.is_empty())?;
                let id = u64::from(test.b) << 32 | u64::from(test.a);
                groups.get(test.count as usize) == Some(&id)
            }
            ASIDE_CPU => facts.cpu == test.a,
            ASIDE_GROUP_IN => facts.device_groups[0] & test.b == test.a,
            ASIDE_GROUP_OUT => facts.device_groups[1] & test.b == test.a,
            ASIDE_REALM => facts.realm & test.b == test.a,
            ASIDE_PORT_IN => self.port(test, 0),
            ASIDE_PORT_OUT => self.port(test, 1),
            ASIDE_WORDS | ASIDE_HEADER => self.words(test),
            ASIDE_TCP => {
                let number = match test.a {
                    TCP_SEQUENCE => TcpNumber::Sequence,
                    TCP_ACKNOWLEDGEMENT => TcpNumber::Acknowledgement,
                    TCP_WINDOW => TcpNumber::Window,
                    _ => TcpNumber::Data,
                };
                self.in_pairs(test, self.packet.tcp_number(number)?)
            }
            ASIDE_IP_OPTIONS => u32::from(facts.ip_options) & test.b == test.a,
            ASIDE_EXTENSIONS => u32::from(facts.extensions) & test.a != 0,
            ASIDE_HEADERS => u32::from(facts.headers?) & test.b == test.a,
            ASIDE_ETHERNET_BARE => facts.frame?.bare,
            ASIDE_ETHERNET_TYPE => self.in_pairs(test, facts.frame?.kind.into()),
            ASIDE_ETHERNET_MASKED => {
                let [value, mask]: [u64; 2] = self.image.read(test.at);
                facts.frame?.address(test.a != 0) & mask == value
            }
            ASIDE_ETHERNET_AMONG => self.among(test, facts.frame?.address(test.a != 0)),
            ASIDE_NAME_IN => self.name(test.at, &self.packet.in_iface),
            ASIDE_NAME_OUT => self.name(test.at, &self.packet.out_iface),
            _ => self.text(test.at),
        })
    }

    fn port(&self, test: &Test, side: usize) -> bool {
        let ports = self.packet.aside.ports.as_ref();
        let Some(port) = ports.map(|ports| &ports[side]).filter(|p| !p.is_empty()) else {
            return false;
        };
        if test.at == 0 {
            return true;
        }
        let name: PortName = self.image.read(test.at);
        let bytes = port.as_bytes();
        (0..16).all(|at| bytes.get(at).unwrap_or(&0) & name.mask[at] == name.value[at])
    }

    fn among(&self, test: &Test, address: u64) -> bool {
        (0..test.count).any(|number| {
            let [first, last]: [u64; 2] = self.image.read(test.at + number * 16);
            (first..=last).contains(&address)
        })
    }

    fn name(&self, at: u32, name: &str) -> bool {
        let glob: Glob = self.image.read(at);
        let step = |places: u32, byte: &u8| {
            let matched = places & u32::from(glob.masks[usize::from(*byte)]);
            matched << 1 | places & u32::from(glob.stars)
        };
        !name.is_empty() && name.as_bytes().iter().fold(1, step) >> glob.length & 1 != 0
    }

    fn words(&self, test: &Test) -> bool {
        let bytes = &self.packet.aside.bytes;
        let word = |place: u32| {
            let four = bytes.get(place as usize..)?.first_chunk()?;
            Some(u32::from_be_bytes(*four))
        };
        let (mut value, mut place, mut held) = (0u32, 0u32, false);
        for number in 0..test.count {
            let op: WordOp = self
                .image
                .read(test.at + number * size_of::<WordOp>() as u32);
            let read = match op.kind {
                WORD_READ => {
                    (place, held) = (0, false);
                    word(op.a)
                }
                WORD_AND => Some(value & op.a),
                WORD_LEFT => Some(value.wrapping_shl(op.a)),
                WORD_RIGHT => Some(value.wrapping_shr(op.a)),
                WORD_AT => place.checked_add(value).and_then(|sum| {
                    place = sum;
                    word(sum.checked_add(op.a)?)
                }),
                WORD_IN | WORD_IN_LAST => {
                    held |= (op.a..=op.b).contains(&value);
                    (held || op.kind == WORD_IN).then_some(value)
                }
                _ => None,
            };
            match read {
                Some(read) => value = read,
                None => return false,
            }
        }
        true
    }

    fn text(&self, at: u32) -> bool {
        let table: TextTable = self.image.read(at);
        let bytes = &self.packet.aside.bytes;
        let end = table.to as usize;
        let Some(part) = bytes.get(table.from as usize..end.min(bytes.len())) else {
            return false;
        };
        let mut state = 0u32;
        for byte in part {
            let class: u8 = self
                .image
                .read(at + size_of::<TextTable>() as u32 + u32::from(*byte));
            let cell = state * table.classes + u32::from(class);
            state = u32::from(self.image.read::<u8>(at + TEXT_ROWS + cell));
            if state == table.length {
                return true;
            }
        }
        false
    }
}
