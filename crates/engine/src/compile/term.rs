//! Terms: products of sets, one set per classified field. A rule's static tests are a few terms.

use super::service::{ServiceId, Services};
use super::span::Span;
use weir_policy::model::Family;

/// A product of sets of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Source and destination address.
    pub address: [Span<u128>; 2],
    /// Source and destination port; of ICMP: type and code in place of the source port.
    pub port: [Span<u16>; 2],
    /// Protocol, transport kind, fragment, state, TCP flags, interfaces.
    pub service: ServiceId,
}

impl Term {
    /// Every packet.
    pub const ANY: Term = Term {
        address: [Span::Any, Span::Any],
        port: [Span::Any, Span::Any],
        service: 0,
    };

    /// Packets of both; `None` when there are none.
    pub fn and(&self, other: &Self, top: u128, services: &mut Services) -> Option<Self> {
        let address = |at: usize| self.address[at].and(&other.address[at], top);
        let port = |at: usize| self.port[at].and(&other.port[at], u16::MAX);
        Some(Term {
            service: services.and(self.service, other.service)?,
            address: [address(0)?, address(1)?],
            port: [port(0)?, port(1)?],
        })
    }
}

/// The last address of a family.
pub fn address_last(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}
