//! What the packet has in the field that a test asked about.
//!
//! In: a condition and the packet as it was at that moment. Out: a phrase for "because ...": the
//! value, or that the packet has no such field.

use super::condition::{address_type, packet_type};
use super::values::{ip, mac};
use crate::spec::{flag_names, protocol, state_name};
use weir_policy::eval::{Locals, tcp_option};
use weir_policy::model::{
    Cond, CtState, Fragment, Owner, Packet, ReversePath, SctpChunk, Transport, handling,
};

/// What the packet carried when a rule was tried.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Connection state, once tracking had looked.
    pub state: Option<CtState>,
}

/// The value of the field that a condition asks about; `None` where no single value decided (sets,
/// histories, flow fields, marks that rules may have changed on the way).
pub fn observed(cond: &Cond, packet: &Packet, moment: Moment, locals: &Locals) -> Option<String> {
    let family = packet.family;
    Some(match cond {
        Cond::Src(_) => format!("it is {}", ip(family, packet.src)),
        Cond::Dst(_) => format!("it is {}", ip(family, packet.dst)),
        Cond::InIface(_) => interface(&packet.in_iface),
        Cond::OutIface(_) => interface(&packet.out_iface),
        Cond::Proto(_) => format!("it is {}", protocol(packet.proto)),
        Cond::State(_) => match moment.state {
            Some(state) => format!("it is {}", state_name(state)),
            None => "tracking has not looked yet".to_owned(),
        },
        Cond::Ipsec { out } => {
            let bit = if *out {
                handling::IPSEC_OUT
            } else {
                handling::IPSEC_IN
            };
            let told = if packet.handling & bit != 0 {
                "it does"
            } else {
                "it does not"
            };
            told.to_owned()
        }
        Cond::RouteBack { loose, .. } => {
            let bit = match loose {
                true => handling::ROUTE_BACK_LOOSE,
                false => handling::ROUTE_BACK,
            };
            let told = match packet.handling & bit {
                0 => "none is known (`kernel=route-back` says that there is one)",
                _ => "there is one",
            };
            told.to_owned()
        }
        Cond::ReversePath(asked) => match (packet.handling & asked.bit(), asked) {
            (0, ReversePath::Verified) => "that is not known (`kernel=verrevpath` says it is)",
            (0, ReversePath::NotSpoofed) => "that is not known (`kernel=antispoof` says it is)",
            (0, ReversePath::Reached) => "none is known (`kernel=versrcreach` says there is one)",
            _ => "it is so",
        }
        .to_owned(),
        Cond::Mac(_) => match packet.mac {
            Some(address) => format!("it is {}", mac(address)),
            None => "it has none".to_owned(),
        },
        Cond::PacketType(_) => format!("it is {}", packet_type(packet.packet_type)),
        Cond::SrcType(_) => format!("it is {}", address_type(locals.kind(family, packet.src))),
        Cond::DstType(_) => format!("it is {}", address_type(locals.kind(family, packet.dst))),
        Cond::Owner(owner) => match (owner, packet.owner) {
            (_, None) => "no owner is known".to_owned(),
            (Owner::Gid(_), Some((_, gid))) => format!("it is {gid}"),
            (_, Some((uid, _))) => format!("it is {uid}"),
        },
        Cond::Aside(asked) => return super::aside::observed(asked, packet),
        Cond::Length(_) => format!("it is {}", packet.length),
        Cond::Ttl(_) => format!("it is {}", packet.ttl),
        Cond::RoutingHeader { .. } => match packet.routing {
            Some((kind, left)) => format!("it has type {kind} with {left} segments left"),
            None => "it has none".to_owned(),
        },
        Cond::Never
        | Cond::Mark { .. }
        | Cond::Connmark { .. }
        | Cond::Dscp(_)
        | Cond::Tos { .. }
        | Cond::EcnIp(_)
        | Cond::Set { .. }
        | Cond::Ct(_)
        | Cond::Any(_)
        | Cond::Fragments(_)
        | Cond::CutShort
        | Cond::ProposedBy(_)
        | Cond::Learned
        | Cond::Learn(_)
        | Cond::OutOfWindow
        | Cond::IcmpHead(_)
        | Cond::IpfWith(_)
        | Cond::Dynamic(_)
        | Cond::History(_) => return None,
        _ => return transport(cond, packet),
    })
}

fn interface(name: &str) -> String {
    match name {
        "" => "there is none".to_owned(),
        name => format!("it is {name}"),
    }
}

fn transport(cond: &Cond, packet: &Packet) -> Option<String> {
    if packet.transport == Transport::Short && cond.needs_transport() {
        return Some("the transport header is cut short".to_owned());
    }
    Some(match (cond, &packet.transport) {
        (Cond::LaterFragment, _) => match packet.fragment {
            Fragment::Whole => "it is whole".to_owned(),
            Fragment::First => "it is the first fragment".to_owned(),
            Fragment::Later(offset) => format!("it is at offset {offset}"),
        },
        (Cond::SrcPort(_) | Cond::DstPort(_) | Cond::AnyPort(_), _) => {
            match (cond, packet.ports()) {
                (_, None) => "it has no ports".to_owned(),
                (Cond::SrcPort(_), Some((port, _))) => format!("it is {port}"),
                (Cond::DstPort(_), Some((_, port))) => format!("it is {port}"),
                (_, Some((src, dst))) => format!("they are {src} and {dst}"),
            }
        }
        (Cond::TcpFlags { .. } | Cond::EcnTcp(_), Transport::Tcp { flags, .. }) => {
            format!("they are {}", flag_names(*flags))
        }
        (Cond::TcpMss(_), Transport::Tcp { options, .. }) => match tcp_option(options, 2) {
            Some(&[high, low]) => format!("it is {}", u16::from_be_bytes([high, low])),
            _ => "it has no such option".to_owned(),
        },
        (Cond::TcpOption(_), Transport::Tcp { .. }) => "it has no such option".to_owned(),
        (Cond::Icmp { .. }, Transport::Icmp { kind, code, .. }) => format!("it is {kind}/{code}"),
        (Cond::AhSpi(_) | Cond::EspSpi(_), Transport::Spi(spi)) => format!("it is {spi}"),
        (Cond::SctpChunks { .. }, Transport::Sctp { chunks, broken, .. }) => {
            let mut words: Vec<String> = chunks.iter().map(chunk_word).collect();
            if *broken {
                words.push("then no whole one".to_owned());
            }
            format!("they are {}", words.join(", "))
        }
        _ => "it has no such header".to_owned(),
    })
}

/// A chunk by its number, with the flags that are set.
fn chunk_word(chunk: &SctpChunk) -> String {
    match chunk.flags {
        0 => chunk.kind.to_string(),
        flags => format!("{} with flags {flags:#x}", chunk.kind),
    }
}
