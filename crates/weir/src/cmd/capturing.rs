//! Options of the commands that read captures, and the packet in a captured frame.
//!
//! In: options and frames. Out: packets of the rule model at the last hook of their way.

use crate::capture::{Frame, Given, journey};
use crate::exit::{Exit, failure};
use crate::spec::hook_of;
use std::net::IpAddr;
use weir_engine::packet::{Arrival, packet};
use weir_policy::eval::Locals;
use weir_policy::model::{Hook, Packet, PacketType, RangeSet, Reading};

/// What the user says of captured packets and of the host.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CaptureArgs {
    /// Receiving interface of captured packets.
    #[arg(long = "in", value_name = "IF")]
    pub in_iface: Option<String>,
    /// Sending interface of captured packets.
    #[arg(long = "out", value_name = "IF")]
    pub out_iface: Option<String>,
    /// Hook that captured packets reach: INPUT, FORWARD, OUTPUT, PREROUTING or POSTROUTING.
    #[arg(long, value_name = "HOOK")]
    pub hook: Option<String>,
    /// An address of the host, for address types; with a prefix length also its broadcast address.
    #[arg(long, value_name = "ADDRESS[/LENGTH]", value_delimiter = ',')]
    pub local: Vec<String>,
}

impl CaptureArgs {
    /// The way of packets, as far as the options tell it.
    pub fn given(&self) -> anyhow::Result<Given> {
        let hook = match &self.hook {
            None => None,
            Some(word) => Some(hook_of(word).ok_or_else(|| {
                let names = "INPUT, FORWARD, OUTPUT, PREROUTING or POSTROUTING";
                failure(Exit::Usage, format!("no hook `{word}`; one of {names}"))
            })?),
        };
        Ok(Given {
            in_iface: self.in_iface.clone(),
            out_iface: self.out_iface.clone(),
            hook,
        })
    }

    /// The host's addresses.
    pub fn locals(&self) -> anyhow::Result<Locals> {
        let (mut local, mut broadcast, mut local6) = (Vec::new(), Vec::new(), Vec::new());
        for text in &self.local {
            let (address, length) = local_of(text)?;
            match address {
                IpAddr::V6(v6) => local6.push((u128::from(v6), u128::from(v6))),
                IpAddr::V4(v4) => {
                    let value = u128::from(u32::from(v4));
                    local.push((value, value));
                    // A network of two addresses has no broadcast address (RFC 3021).
                    if length < 31 {
                        let last = value | (u128::from(u32::MAX) >> length);
                        broadcast.push((last, last));
                    }
                }
            }
        }
        Ok(Locals {
            local: RangeSet::from_ranges(local),
            broadcast: RangeSet::from_ranges(broadcast),
            local6: RangeSet::from_ranges(local6),
            ..Locals::default()
        })
    }
}

fn local_of(text: &str) -> anyhow::Result<(IpAddr, u32)> {
    let wrong = || {
        let message = format!("`{text}` is not ADDRESS or ADDRESS/LENGTH");
        failure(Exit::Usage, message)
    };
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => width,
        Some(length) => length
            .parse()
            .ok()
            .filter(|l| *l <= width)
            .ok_or_else(wrong)?,
    };
    Ok((address, length))
}

/// The packet in a frame, at the last hook of its way; or why there is none. `reading`: that of the
/// policy that judges it.
pub fn packet_of(frame: &Frame, given: &Given, reading: Reading) -> Result<Packet, &'static str> {
    let network = frame.content.as_ref().map_err(|reason| *reason)?;
    let way = journey(frame, given);
    let made_here = way.in_iface.is_empty() && matches!(way.hook, Hook::Output | Hook::Postrouting);
    let arrival = Arrival {
        in_iface: way.in_iface,
        out_iface: way.out_iface,
        // The hardware address in a sent frame is our own, not the sender's.
        mac: match frame.way {
            Some(crate::capture::Way::Out) => None,
            _ => network.link.source,
        },
        packet_type: match made_here {
            true => PacketType::Outgoing,
            false => network.link.kind,
        },
        ..Arrival::at(way.hook)
    };
    packet(&network.bytes, network.wire, &arrival, reading).ok_or("no valid IP header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_bring_their_broadcast_address() {
        let local = [
            "192.0.2.1/24",
            "198.51.100.7",
            "2001:db8::1/64",
            "10.0.0.0/31",
        ];
        let args = CaptureArgs {
            local: local.iter().map(|text| (*text).to_owned()).collect(),
            ..CaptureArgs::default()
        };
        let locals = args.locals().unwrap();
        assert!(locals.local.contains(0xc000_0201) && locals.local.contains(0xc633_6407));
        assert_eq!(locals.broadcast.ranges(), &[(0xc000_02ff, 0xc000_02ff)]);
        assert!(locals.local6.contains(0x2001_0db8 << 96 | 1));
        for wrong in ["192.0.2.1/33", "host", "192.0.2.1/"] {
            let args = CaptureArgs {
                local: vec![wrong.to_owned()],
                ..CaptureArgs::default()
            };
            assert!(args.locals().is_err(), "{wrong}");
        }
    }
}
