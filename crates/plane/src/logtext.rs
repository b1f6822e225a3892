//! A record as the text of the kernel's packet log: `IN=eth0 OUT= MAC=... SRC=... DST=...`, so that
//! programs which read that log (fail2ban, fwlogwatch, people) read ours.
//!
//! In: an [`Event`] and the options of its LOG rule. Out: one line without its end. Format: what
//! the kernel prints, fields in its order (nf_log(8) has none; observed from iptables' LOG).

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_engine::packet::parse::proto;
use weir_policy::model::LogOp;

use crate::events::Event;

/// Bytes at an offset, or nothing when the capture ends before.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_be_bytes)
}

/// The line of a record.
pub fn line(event: &Event, options: &LogOp) -> String {
    let mut out = format!(
        "{}IN={} OUT={} ",
        options.prefix, event.in_iface, event.out_iface
    );
    if !event.in_iface.is_empty() {
        out.push_str("MAC=");
        for (i, byte) in event.link.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            let _ = write!(out, "{colon}{byte:02x}");
        }
        out.push(' ');
    }
    let text = Text {
        options,
        total: event.length as usize,
    };
    if event.key.family == 4 {
        text.ipv4(&mut out, &event.bytes, true);
    } else {
        text.ipv6(&mut out, &event.bytes, true);
    }
    if let (true, Some((uid, gid))) = (options.uid, event.owner) {
        let _ = write!(out, "UID={uid} GID={gid} ");
    }
    if event.mark != 0 {
        let _ = write!(out, "MARK=0x{:x} ", event.mark);
    }
    out.truncate(out.trim_end().len());
    out
}

struct Text<'a> {
    options: &'a LogOp,
    /// Bytes of the whole packet.
    total: usize,
}

/// Where a transport header is.
struct Place {
    offset: usize,
    later_fragment: bool,
    /// The packet itself, not one quoted in an ICMP error.
    outer: bool,
}

impl Text<'_> {
    fn ipv4(&self, out: &mut String, bytes: &[u8], outer: bool) {
        let Some(header) = at::<20>(bytes, 0) else {
            out.push_str("TRUNCATED");
            return;
        };
        let word = |i: usize| u16::from_be_bytes([header[i], header[i + 1]]);
        let address =
            |i: usize| Ipv4Addr::new(header[i], header[i + 1], header[i + 2], header[i + 3]);
        let tos = header[1];
        let _ = write!(
            out,
            "SRC={} DST={} LEN={} TOS=0x{:02X} PREC=0x{:02X} TTL={} ID={} ",
            address(12),
            address(16),
            word(2),
            tos & 0x1e,
            tos & 0xe0,
            header[8],
            word(4)
        );
        let fragment = word(6);
        for (bit, name) in [(0x8000, "CE "), (0x4000, "DF "), (0x2000, "MF ")] {
            if fragment & bit != 0 {
                out.push_str(name);
            }
        }
        let offset = fragment & 0x1fff;
        if offset != 0 {
            let _ = write!(out, "FRAG:{offset} ");
        }
        let length = usize::from(header[0] & 15) * 4;
        if self.options.ip_options && length > 20 {
            self.hex(out, bytes.get(20..length));
        }
        let place = Place {
            offset: length.max(20),
            later_fragment: offset != 0,
            outer,
        };
        self.transport(out, bytes, header[9], &place, true);
    }

    fn ipv6(&self, out: &mut String, bytes: &[u8], outer: bool) {
        let Some(header) = at::<40>(bytes, 0) else {
            out.push_str("TRUNCATED");
            return;
        };
        let word = u32_at(bytes, 0).unwrap_or(0);
        let address = |i: usize| {
            let octets: [u8; 16] = header[i..i + 16].try_into().expect("sixteen bytes");
            let groups = Ipv6Addr::from(octets)
                .segments()
                .map(|s| format!("{s:04x}"));
            groups.join(":")
        };
        let _ = write!(
            out,
            "SRC={} DST={} LEN={} TC={} HOPLIMIT={} FLOWLBL={} ",
            address(8),
            address(24),
            u32::from(u16::from_be_bytes([header[4], header[5]])) + 40,
            word >> 20 & 0xff,
            header[7],
            word & 0xf_ffff
        );
        let mut place = Place {
            offset: 40,
            later_fragment: false,
            outer,
        };
        if let Some(protocol) = self.extensions(out, bytes, header[6], &mut place) {
            self.transport(out, bytes, protocol, &place, false);
        }
    }

    /// The upper-layer protocol; `None` when the line ends before it.
    fn extensions(
        &self,
        out: &mut String,
        bytes: &[u8],
        mut next: u8,
        place: &mut Place,
    ) -> Option<u8> {
        while matches!(
            next,
            proto::HOPOPTS | proto::ROUTING | proto::FRAGMENT | proto::AH | proto::DSTOPTS
        ) {
            let Some(header) = at::<8>(bytes, place.offset) else {
                out.push_str("TRUNCATED");
                return None;
            };
            if self.options.ip_options {
                out.push_str("OPT ( ");
            }
            let mut size = (usize::from(header[1]) + 1) * 8;
            if next == proto::FRAGMENT {
                let word = u16::from_be_bytes([header[2], header[3]]);
                let _ = write!(out, "FRAG:{} ", word & 0xfff8);
                if word & 1 != 0 {
                    out.push_str("INCOMPLETE ");
                }
                let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let _ = write!(out, "ID:{id:08x} ");
                place.later_fragment |= word & 0xfff8 != 0;
                size = 8;
            } else if next == proto::AH {
                size = (usize::from(header[1]) + 2) * 4;
                if self.options.ip_options {
                    let spi = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                    let _ = write!(out, "AH SPI=0x{spi:x} ");
                }
            } else if place.later_fragment {
                return None;
            }
            if self.options.ip_options {
                out.push_str(") ");
            }
            next = header[0];
            place.offset += size;
        }
        Some(next)
    }

    fn transport(&self, out: &mut String, bytes: &[u8], protocol: u8, place: &Place, v4: bool) {
        let name = match (protocol, v4) {
            (proto::TCP, _) => "TCP",
            (proto::UDP, _) => "UDP",
            (proto::UDPLITE, _) => "UDPLITE",
            (proto::ICMP, true) => "ICMP",
            (proto::ICMPV6, false) => "ICMPv6",
            (proto::AH, true) => "AH",
            (proto::ESP, _) => "ESP",
            _ => {
                let _ = write!(out, "PROTO={protocol} ");
                return;
            }
        };
        let _ = write!(out, "PROTO={name} ");
        if place.later_fragment {
            return;
        }
        let header = bytes.get(place.offset..).unwrap_or_default();
        let done = match protocol {
            proto::TCP => self.tcp(out, header),
            proto::UDP | proto::UDPLITE => udp(out, header),
            proto::ICMP | proto::ICMPV6 => self.icmp(out, header, place.outer, v4),
            _ => spi(out, header, protocol),
        };
        if done.is_none() {
            let left = self.total.saturating_sub(place.offset);
            let _ = write!(out, "INCOMPLETE [{left} bytes] ");
        }
    }

    fn tcp(&self, out: &mut String, header: &[u8]) -> Option<()> {
        let fixed = at::<20>(header, 0)?;
        let (from, to) = (u16_at(header, 0)?, u16_at(header, 2)?);
        let _ = write!(out, "SPT={from} DPT={to} ");
        if self.options.tcp_sequence {
            let _ = write!(
                out,
                "SEQ={} ACK={} ",
                u32_at(header, 4)?,
                u32_at(header, 8)?
            );
        }
        let _ = write!(
            out,
            "WINDOW={} RES=0x{:02x} ",
            u16_at(header, 14)?,
            (fixed[12] & 15) << 2
        );
        let names = [
            "CWR ", "ECE ", "URG ", "ACK ", "PSH ", "RST ", "SYN ", "FIN ",
        ];
        for (i, name) in names.iter().enumerate() {
            if fixed[13] << i & 0x80 != 0 {
                out.push_str(name);
            }
        }
        let _ = write!(out, "URGP={} ", u16_at(header, 18)?);
        let length = usize::from(fixed[12] >> 4) * 4;
        if self.options.tcp_options && length > 20 {
            self.hex(out, header.get(20..length));
        }
        Some(())
    }

    fn hex(&self, out: &mut String, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else {
            out.push_str("TRUNCATED");
            return;
        };
        out.push_str("OPT (");
        bytes.iter().for_each(|byte| {
            let _ = write!(out, "{byte:02X}");
        });
        out.push_str(") ");
    }

    fn icmp(&self, out: &mut String, header: &[u8], outer: bool, v4: bool) -> Option<()> {
        let [kind, code] = at::<2>(header, 0)?;
        let _ = write!(out, "TYPE={kind} CODE={code} ");
        let word = u32_at(header, 4);
        let quoted = header.get(8..).unwrap_or_default();
        match (v4, kind) {
            (true, 0 | 8) | (false, 128 | 129) => {
                let word = word?;
                let _ = write!(out, "ID={} SEQ={} ", word >> 16, word & 0xffff);
            }
            (true, 12) => {
                let _ = write!(out, "PARAMETER={} ", word? >> 24);
                self.quoted(out, quoted, outer, v4);
            }
            (true, 5) => {
                let _ = write!(out, "GATEWAY={} ", Ipv4Addr::from(word?));
                self.quoted(out, quoted, outer, v4);
            }
            (true, 3 | 4 | 11) => {
                self.quoted(out, quoted, outer, v4);
                if kind == 3 && code == 4 {
                    let _ = write!(out, "MTU={} ", word? & 0xffff);
                }
            }
            (false, 4) => {
                let _ = write!(out, "POINTER={:08x} ", word?);
                self.quoted(out, quoted, outer, v4);
            }
            (false, 1..=3) => {
                self.quoted(out, quoted, outer, v4);
                if kind == 2 {
                    let _ = write!(out, "MTU={} ", word?);
                }
            }
            _ => {}
        }
        Some(())
    }

    /// The packet in an ICMP error, in brackets; only one level deep.
    fn quoted(&self, out: &mut String, bytes: &[u8], outer: bool, v4: bool) {
        if !outer {
            return;
        }
        out.push('[');
        let inner = Text {
            options: self.options,
            total: bytes.len(),
        };
        if v4 {
            inner.ipv4(out, bytes, false);
        } else {
            inner.ipv6(out, bytes, false);
        }
        out.push_str("] ");
    }
}

fn udp(out: &mut String, header: &[u8]) -> Option<()> {
    let (from, to, length) = (u16_at(header, 0)?, u16_at(header, 2)?, u16_at(header, 4)?);
    u16_at(header, 6)?;
    let _ = write!(out, "SPT={from} DPT={to} LEN={length} ");
    Some(())
}

fn spi(out: &mut String, header: &[u8], protocol: u8) -> Option<()> {
    let offset = if protocol == proto::AH { 4 } else { 0 };
    let spi = u32_at(header, offset)?;
    let _ = write!(out, "SPI=0x{spi:x} ");
    Some(())
}

#[cfg(test)]
mod tests {
    use weir_engine::packet;
    use weir_policy::model::Reading;

    use super::*;
    use crate::events::Kind;

    fn event(hexadecimal: &str) -> Event {
        let digits: Vec<u8> = hexadecimal
            .bytes()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|d| u8::from_str_radix(std::str::from_utf8(d).expect("digits"), 16).expect("hex"))
            .collect();
        Event {
            time_ms: 0,
            kind: Kind::Log,
            rule: 0,
            policy: 1,
            mark: 0,
            owner: None,
            wrong_sum: false,
            in_iface: "eth0".into(),
            out_iface: String::new(),
            link: vec![2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2, 8, 0],
            key: packet::parse(&bytes, bytes.len() as u32, Reading::Linux).expect("a packet"),
            length: bytes.len() as u32,
            bytes,
        }
    }

    const SYN: &str = "45000034 12344000 4006 1435 0a090002 0a090001
        d431 0051 00000001 00000000 8002 faf0 0000 0000 020405b4 01010402 01030307";

    #[test]
    fn a_syn_reads_as_in_the_kernel_log() {
        let plain = LogOp {
            prefix: "in: ".into(),
            ..LogOp::default()
        };
        assert_eq!(
            line(&event(SYN), &plain),
            "in: IN=eth0 OUT= MAC=02:00:00:00:09:01:02:00:00:00:09:02:08:00 SRC=10.9.0.2 \
             DST=10.9.0.1 LEN=52 TOS=0x00 PREC=0x00 TTL=64 ID=4660 DF PROTO=TCP SPT=54321 DPT=81 \
             WINDOW=64240 RES=0x00 SYN URGP=0"
        );
        let all = LogOp {
            tcp_sequence: true,
            tcp_options: true,
            uid: true,
            ..LogOp::default()
        };
        let mut out_event = event(SYN);
        (out_event.in_iface, out_event.out_iface) = (String::new(), "eth1".into());
        (out_event.mark, out_event.owner) = (0x2a, Some((1000, 100)));
        assert_eq!(
            line(&out_event, &all),
            "IN= OUT=eth1 SRC=10.9.0.2 DST=10.9.0.1 LEN=52 TOS=0x00 PREC=0x00 TTL=64 ID=4660 DF \
             PROTO=TCP SPT=54321 DPT=81 SEQ=1 ACK=0 WINDOW=64240 RES=0x00 SYN URGP=0 \
             OPT (020405B40101040201030307) UID=1000 GID=100 MARK=0x2a"
        );
    }

    #[test]
    fn an_icmp_error_quotes_its_packet_in_brackets() {
        let text = line(
            &event(
                "45c00038 00000000 4001 0000 0a090002 0a090001 0303 0000 00000000
                 4500001c 00010000 4011 0000 0a090001 0a090002 1000 0035 0008 0000",
            ),
            &LogOp::default(),
        );
        assert!(
            text.ends_with(
                "LEN=56 TOS=0x00 PREC=0xC0 TTL=64 ID=0 PROTO=ICMP TYPE=3 CODE=3 [SRC=10.9.0.1 \
                 DST=10.9.0.2 LEN=28 TOS=0x00 PREC=0x00 TTL=64 ID=1 PROTO=UDP SPT=4096 DPT=53 LEN=8 ]"
            ),
            "{text}"
        );
    }

    #[test]
    fn ipv6_addresses_are_printed_in_full() {
        let text = line(
            &event(
                "6000000c 0010 3a 40 fd090000000000000000000000000002 fd090000000000000000000000000001
                 8000 0000 0007 0001 0102030405060708",
            ),
            &LogOp::default(),
        );
        assert!(
            text.ends_with(
                "SRC=fd09:0000:0000:0000:0000:0000:0000:0002 \
                 DST=fd09:0000:0000:0000:0000:0000:0000:0001 LEN=56 TC=0 HOPLIMIT=64 FLOWLBL=12 \
                 PROTO=ICMPv6 TYPE=128 CODE=0 ID=7 SEQ=1"
            ),
            "{text}"
        );
    }

    #[test]
    fn cut_headers_are_said_to_be_incomplete() {
        let text = line(
            &event("45000020 00000000 4006 0000 0a090002 0a090001 00500051 00000001 00000000"),
            &LogOp::default(),
        );
        assert!(text.ends_with("PROTO=TCP INCOMPLETE [12 bytes]"), "{text}");
    }
}
