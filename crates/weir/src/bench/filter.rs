//! What ClassBench's files say: filters over five fields and flags, and packets.
//!
//! In: nothing. Out: plain types that the readers, generators, the linear search and the way to a
//! policy share. Ports are fields of every packet here, whatever its protocol: that is what these
//! files mean, unlike a firewall's rules.

/// Which addresses a file has; one file has one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// Bits of an address.
    pub fn width(self) -> u8 {
        match self {
            Version::V4 => 32,
            Version::V6 => 128,
        }
    }

    /// The highest address.
    pub fn last(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.width()))
    }

    /// `ipv4` or `ipv6`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V4 => "ipv4",
            Version::V6 => "ipv6",
        }
    }
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The lowest of them.
    pub first: u128,
    /// How many leading bits are alike.
    pub length: u8,
}

impl Prefix {
    /// The addresses that agree with this one in `length` bits.
    pub fn around(address: u128, length: u8, version: Version) -> Self {
        let rest = Self::rest(length, version);
        Prefix {
            first: address & !rest & version.last(),
            length,
        }
    }

    fn rest(length: u8, version: Version) -> u128 {
        let free = u32::from(version.width() - length);
        1u128.checked_shl(free).map_or(u128::MAX, |bit| bit - 1)
    }

    /// The highest of them.
    pub fn last(self, version: Version) -> u128 {
        self.first | Self::rest(self.length, version)
    }
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The lowest.
    pub first: u16,
    /// The highest, not below the lowest.
    pub last: u16,
}

impl Ports {
    /// All of them.
    pub const ANY: Ports = Ports {
        first: 0,
        last: u16::MAX,
    };

    /// One of them.
    pub fn one(port: u16) -> Self {
        Ports {
            first: port,
            last: port,
        }
    }

    /// From one to the other, in whichever order.
    pub fn span(a: u16, b: u16) -> Self {
        Ports {
            first: a.min(b),
            last: a.max(b),
        }
    }

    /// Whether it is one of them.
    pub fn contain(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// Values whose bits under a mask are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Masked<T> {
    /// The bits.
    pub value: T,
    /// Which of them count.
    pub mask: T,
}

impl Masked<u8> {
    /// Every protocol.
    pub const ANY: Masked<u8> = Masked { value: 0, mask: 0 };

    /// One protocol.
    pub fn one(value: u8) -> Self {
        Masked { value, mask: 0xff }
    }

    /// Whether it is one of the values.
    pub fn contains(self, value: u8) -> bool {
        value & self.mask == self.value
    }
}

/// One filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Source addresses.
    pub src: Prefix,
    /// Destination addresses.
    pub dst: Prefix,
    /// Source ports.
    pub src_port: Ports,
    /// Destination ports.
    pub dst_port: Ports,
    /// Protocols.
    pub proto: Masked<u8>,
    /// The flags column: the flag byte of TCP is the high byte (0x1000 is ACK, 0x0200 is SYN).
    pub flags: Masked<u16>,
}

impl Filter {
    /// The flags as a byte of TCP and its mask; `None` when the filter does not look at them.
    pub fn tcp_flags(&self) -> Option<Masked<u8>> {
        let mask = (self.flags.mask >> 8) as u8;
        (self.flags.mask != 0).then_some(Masked {
            value: (self.flags.value >> 8) as u8,
            mask,
        })
    }
}

/// A set of filters in order of priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSet {
    /// Kind of their addresses.
    pub version: Version,
    /// The filters.
    pub filters: Vec<Filter>,
}

/// The fields of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
    /// The flag byte of TCP, 0 where the trace does not say.
    pub flags: u8,
}

/// The packets of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The packets.
    pub packets: Vec<Packet>,
    /// The filter that each was made for, counted from 0; empty where the trace does not say.
    /// It holds for the packet, but an earlier one may hold too.
    pub made_for: Vec<u32>,
}

/// Whether flags are a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// Five fields: the flags column is not looked at, as in the literature.
    Ignored,
    /// A filter with a flag mask holds for TCP packets with these flags.
    Matched,
}

impl Filter {
    /// Whether it holds for a packet: the meaning, written as plainly as it can be.
    pub fn holds(&self, packet: &Packet, version: Version, flags: Flags) -> bool {
        let within = |prefix: Prefix, address: u128| {
            (prefix.first..=prefix.last(version)).contains(&address)
        };
        let flags_hold = match (flags, self.tcp_flags()) {
            (Flags::Matched, Some(wanted)) => packet.proto == 6 && wanted.contains(packet.flags),
            _ => true,
        };
        within(self.src, packet.src)
            && within(self.dst, packet.dst)
            && self.src_port.contain(packet.src_port)
            && self.dst_port.contain(packet.dst_port)
            && self.proto.contains(packet.proto)
            && flags_hold
    }
}
