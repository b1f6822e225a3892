//! pcapng files: packets with interface names, directions and comments.
//!
//! In: a reader at the file's start. Out: frames. Simple and enhanced packet blocks, several
//! sections and interfaces. pcap-file 2.0 hands timestamps on as if every interface counted in
//! nanoseconds, so if_tsresol and if_tsoffset are applied here.

use super::{Frame, Way, link};
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use std::io::Read;
use std::time::Duration;

/// The frames of a pcapng file.
pub struct Frames<R: Read> {
    reader: PcapNgReader<R>,
    interfaces: Vec<Interface>,
    number: u64,
}

/// What frames need to know of their interface.
#[derive(Clone, Debug)]
struct Interface {
    name: Option<String>,
    link: pcap_file::DataLink,
    clock: Clock,
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// Units in a second.
    per_second: u64,
    /// Seconds added to every timestamp.
    offset: i64,
}

impl<R: Read> Frames<R> {
    /// Reads the first section header.
    pub fn new(reader: R) -> Result<Self, PcapError> {
        Ok(Frames {
            reader: PcapNgReader::new(reader)?,
            interfaces: Vec::new(),
            number: 0,
        })
    }

    /// The next frame; blocks that are not packets are taken in on the way.
    pub fn next(&mut self) -> Option<Result<Frame, PcapError>> {
        loop {
            let block = match self.reader.next_block()? {
                Ok(block) => block,
                Err(error) => return Some(Err(error)),
            };
            match block {
                // Interfaces are numbered within their section.
                Block::SectionHeader(_) => self.interfaces.clear(),
                Block::InterfaceDescription(block) => self.interfaces.push(Interface::of(&block)),
                Block::EnhancedPacket(packet) => {
                    self.number += 1;
                    let id = packet.interface_id;
                    let Some(interface) = self.interfaces.get(id as usize) else {
                        return Some(Err(PcapError::InvalidInterfaceId(id)));
                    };
                    // The crate read the units as nanoseconds; this takes them back.
                    let units = packet.timestamp.as_nanos() as u64;
                    let length = packet.original_len;
                    let content = link::network(interface.link, &packet.data, length);
                    let mut frame = Frame {
                        number: self.number,
                        time: interface.clock.time(units),
                        interface: interface.name.clone(),
                        way: None,
                        received_on: None,
                        bare: link::bare(interface.link, &packet.data, length, &content),
                        content,
                    };
                    options(&mut frame, &packet.options);
                    return Some(Ok(frame));
                }
                Block::SimplePacket(packet) => {
                    self.number += 1;
                    let Some(interface) = self.interfaces.first() else {
                        return Some(Err(PcapError::InvalidInterfaceId(0)));
                    };
                    let length = packet.original_len;
                    let content = link::network(interface.link, &packet.data, length);
                    return Some(Ok(Frame {
                        number: self.number,
                        time: Duration::ZERO,
                        interface: interface.name.clone(),
                        way: None,
                        received_on: None,
                        bare: link::bare(interface.link, &packet.data, length, &content),
                        content,
                    }));
                }
                _ => {}
            }
        }
    }
}

/// Direction (the two lowest bits of epb_flags) and the receiving interface in a comment.
fn options(frame: &mut Frame, options: &[EnhancedPacketOption<'_>]) {
    for option in options {
        match option {
            EnhancedPacketOption::Flags(flags) => {
                frame.way = match flags & 3 {
                    1 => Some(Way::In),
                    2 => Some(Way::Out),
                    _ => None,
                };
            }
            EnhancedPacketOption::Comment(comment) => {
                let name = comment
                    .split_whitespace()
                    .find_map(|word| word.strip_prefix("recv="));
                frame.received_on = name.map(str::to_owned).or(frame.received_on.take());
            }
            _ => {}
        }
    }
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Interface {
            name: None,
            link: block.linktype,
            clock: Clock {
                per_second: 1_000_000,
                offset: 0,
            },
        };
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfName(name) => {
                    interface.name = Some(name.to_string());
                }
                InterfaceDescriptionOption::IfTsResol(code) => {
                    interface.clock.per_second = resolution(*code);
                }
                InterfaceDescriptionOption::IfTsOffset(offset) => {
                    interface.clock.offset = *offset as i64;
                }
                _ => {}
            }
        }
        interface
    }
}

/// Units in a second: a negative power of ten, or of two when the high bit is set. Finer than
/// 64 bits can count is taken as the finest that can.
fn resolution(code: u8) -> u64 {
    let power = u32::from(code & 0x7f);
    match code & 0x80 {
        0 => 10u64.saturating_pow(power),
        _ => 1u64.checked_shl(power).unwrap_or(u64::MAX),
    }
}

impl Clock {
    fn time(self, units: u64) -> Duration {
        let whole = (units / self.per_second).saturating_add_signed(self.offset);
        let rest = u128::from(units % self.per_second) * 1_000_000_000;
        let fraction = Duration::from_nanos((rest / u128::from(self.per_second)) as u64);
        Duration::from_secs(whole) + fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_powers_of_ten_or_two() {
        assert_eq!(resolution(6), 1_000_000);
        assert_eq!(resolution(9), 1_000_000_000);
        assert_eq!(resolution(0), 1);
        assert_eq!(resolution(0x80 | 10), 1024);
        assert_eq!(resolution(0xff), u64::MAX);
        let clock = Clock {
            per_second: 1024,
            offset: -1,
        };
        assert_eq!(clock.time(3 * 1024 + 512), Duration::from_millis(2500));
    }
}
