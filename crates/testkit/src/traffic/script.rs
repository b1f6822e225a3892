//! What a traffic script says, as values: steps, packets, conversations.
//!
//! `parse` makes them from text; `craft`, `talk` and `play` carry them out.

use std::net::{IpAddr, SocketAddr};

pub use parse::parse;

use crate::netns::Node;

mod parse;

/// Where a packet or a conversation starts or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host on which it happens.
    pub node: Node,
    /// The address used there, perhaps one that the host does not own.
    pub address: IpAddr,
    /// The port, where the protocol has ports.
    pub port: u16,
}

/// What follows the network header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp,
    /// An ICMP or ICMPv6 message that is no error.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes after the checksum.
        rest: u32,
    },
    /// An ICMP or ICMPv6 error that quotes another packet.
    IcmpError {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The packet quoted.
        about: Box<Packet>,
    },
    /// Any other protocol.
    Other {
        /// The protocol number.
        protocol: u8,
        /// The leading bytes of its header.
        head: Vec<u8>,
    },
}

/// The TCP part of a crafted segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Flag bits, FIN lowest.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledge: u32,
    /// Window, unscaled.
    pub window: u16,
    /// Option bytes, padded to words when written.
    pub options: Vec<u8>,
}

/// One crafted packet and how it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// What it carries.
    pub transport: Transport,
    /// Payload bytes after the transport header.
    pub payload: usize,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// TOS byte or traffic class.
    pub tos: u8,
    /// IPv4 option bytes; IPv6 extension headers as (next-header number, bytes after the number).
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// Whether the transport checksum is made wrong.
    pub bad_checksum: bool,
    /// Cut the packet after that many bytes of network payload (a header that ends too early).
    pub cut: Option<usize>,
    /// Split into fragments of that many bytes; which of them to send, in which order.
    pub fragments: Option<(usize, Vec<usize>)>,
    /// Source hardware address, where it is not the host's own.
    pub source_mac: Option<[u8; 6]>,
    /// Link-layer destination: the neighbour, everybody, or the group of the address.
    pub link: Link,
    /// User and group that own the socket (gateway only).
    pub owner: Option<(u32, u32)>,
    /// How often it is sent.
    pub times: usize,
}

/// Link-layer destination of a crafted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The neighbour on the link.
    Neighbour,
    /// ff:ff:ff:ff:ff:ff.
    Broadcast,
    /// The group address that belongs to the destination.
    Multicast,
}

/// A conversation of real sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talk {
    /// The end that connects.
    pub from: Endpoint,
    /// The end that listens.
    pub to: Endpoint,
    /// Where it connects to instead, on the way to the end that listens: something translates.
    pub via: Option<SocketAddr>,
    /// TCP or UDP.
    pub is_tcp: bool,
    /// Requests, each answered.
    pub exchanges: usize,
    /// Bytes of a request.
    pub request: usize,
    /// Bytes of an answer.
    pub answer: usize,
    /// Under which name it stays open.
    pub hold: Option<String>,
    /// User and group of the connecting socket.
    pub owner: Option<(u32, u32)>,
    /// IP_TOS of the connecting socket.
    pub tos: u8,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a crafted packet.
    Send(Packet),
    /// Hold a conversation.
    Talk(Talk),
    /// More exchanges on a conversation held open.
    More {
        /// Its name.
        name: String,
        /// How many.
        exchanges: usize,
    },
    /// Orderly end of a conversation held open, or a reset.
    End {
        /// Its name.
        name: String,
        /// Whether by a reset.
        reset: bool,
    },
    /// Let time pass.
    Wait {
        /// How much of it.
        milliseconds: u64,
    },
}

/// A step with the line that it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line number in the script, from 1.
    pub line: usize,
    /// The line itself.
    pub text: String,
    /// What to do.
    pub action: Action,
}
