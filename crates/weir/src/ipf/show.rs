//! Packets as the original's test program prints them.
//!
//! In: bytes, direction, interface. Out: `< e0 ip #0 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 S`, or
//! the packet in groups of four hexadecimal digits.

use std::fmt::Write;

fn half(bytes: &[u8], at: usize) -> u16 {
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    byte(at) << 8 | byte(at + 1)
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("writing to a string cannot fail");
}

/// A packet in hexadecimal digits: a blank behind each group, an empty line behind the packet.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 3);
    for pair in bytes.chunks(2) {
        for byte in pair {
            put(&mut out, format_args!("{byte:02x}"));
        }
        out.push(' ');
    }
    out + "\n\n"
}

/// A packet in words, with a line's end.
pub fn line(bytes: &[u8], out: bool, interface: &str) -> String {
    let sign = if out { '>' } else { '<' };
    let text = match bytes.first().map(|byte| byte >> 4) {
        Some(6) => ipv6(bytes),
        _ => ipv4(bytes),
    };
    format!("{sign} {interface} {text}\n")
}

fn ipv4(bytes: &[u8]) -> String {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let header = usize::from(byte(0) & 0xf) * 4;
    let proto = byte(9);
    let place = half(bytes, 6);
    let mut out = format!(
        "ip #{} {}({header}) {proto}",
        half(bytes, 4),
        half(bytes, 2)
    );
    if place & 0x1fff != 0 {
        // The flags above the offset are not masked out, as in the original: a fragment that
        // others follow has 65536 added.
        put(&mut out, format_args!(" @{}", u32::from(place) * 8));
    }
    let first = place & 0x1fff == 0;
    let ports = first && matches!(proto, 6 | 17);
    for (at, separator) in [(12, " "), (16, " > ")] {
        let [a, b, c, d] = [0, 1, 2, 3].map(|offset| byte(at + offset));
        put(&mut out, format_args!("{separator}{a}.{b}.{c}.{d}"));
        if ports {
            let port = half(bytes, header + if at == 12 { 0 } else { 2 });
            put(&mut out, format_args!(",{port}"));
        }
    }
    let flags = byte(header + 13);
    if first && proto == 6 && flags != 0 {
        out.push(' ');
        let letters = "FSRPAUEC".chars().enumerate();
        out.extend(
            letters
                .filter(|(bit, _)| flags & 1 << bit != 0)
                .map(|(_, l)| l),
        );
    }
    out
}

fn ipv6(bytes: &[u8]) -> String {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let length = half(bytes, 4);
    let flow = u32::from(half(bytes, 0) & 0xf) << 16 | u32::from(half(bytes, 2));
    let proto = byte(6);
    let mut out = format!("ip6/{} {length} ", byte(0) & 0xf);
    match flow {
        0 => out.push('0'),
        flow => put(&mut out, format_args!("{flow:#x}")),
    }
    put(&mut out, format_args!(" {proto}"));
    for (at, separator, port) in [(8, " ", 40), (24, " > ", 42)] {
        let groups: Vec<String> = (0..8)
            .map(|group| format!("{:x}", half(bytes, at + group * 2)))
            .collect();
        put(&mut out, format_args!("{separator}{}", groups.join(":")));
        if length >= 4 && matches!(proto, 6 | 17) {
            put(&mut out, format_args!(",{}", half(bytes, port)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_printed_as_the_original_prints_them() {
        let mut bytes = vec![
            0x45, 0, 0, 40, 0, 7, 0, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        bytes.extend([
            4, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0,
        ]);
        assert_eq!(
            line(&bytes, false, "e0"),
            "< e0 ip #7 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 SA\n"
        );
        bytes[7] = 2;
        assert_eq!(
            line(&bytes, true, "e1"),
            "> e1 ip #7 40(20) 6 @16 10.0.0.1 > 10.0.0.2\n"
        );
        assert_eq!(hex(&[0x45, 0, 1]), "4500 01 \n\n");
        let mut six = vec![0x60, 0, 0, 5, 0, 8, 17, 0];
        six.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        six.extend([0; 15].iter().chain(&[1]));
        six.extend([0, 53, 0, 53, 0, 8, 0, 0]);
        assert_eq!(
            line(&six, false, "e0"),
            "< e0 ip6/0 8 0x5 17 2001:db8:0:0:0:0:0:1,53 > 0:0:0:0:0:0:0:1,53\n"
        );
    }
}
