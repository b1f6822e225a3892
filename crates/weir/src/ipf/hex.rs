//! Packets in hexadecimal digits.
//!
//! In: text; a packet is one or more lines of digits, ended by an empty line. Out: packets. A line
//! may begin with `[in,e0]`, `[e0]` or `[]` and then `+mcast`, `+bcast`, `+mbcast`.

use super::packets::TestPacket;

/// All packets of a text.
pub fn packets(text: &str) -> Vec<TestPacket> {
    let mut packets = Vec::new();
    let mut packet = TestPacket::default();
    let mut begun = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_end_matches('\r').is_empty() {
            if begun {
                packets.push(std::mem::take(&mut packet));
            }
            (packet, begun) = (TestPacket::default(), false);
            continue;
        }
        let line = line.split('#').next().unwrap_or("");
        let digits = prefix(line, &mut packet);
        let before = packet.bytes.len();
        if let Some(other) = read_digits(digits, &mut packet.bytes) {
            let line = number + 1;
            eprintln!("weir: line {line} is not looked at from `{other}` on: no hexadecimal digit");
        }
        begun |= packet.bytes.len() > before;
    }
    if begun {
        packets.push(packet);
    }
    packets
}

/// Reads what may stand before the digits, and gives the digits.
fn prefix<'l>(line: &'l str, packet: &mut TestPacket) -> &'l str {
    let Some((inside, mut rest)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) else {
        return line;
    };
    match inside.split_once(',') {
        Some((direction, name)) => {
            packet.out = direction.trim_start().starts_with('o');
            packet.interface = Some(name.trim().to_owned());
        }
        None if !inside.is_empty() => packet.interface = Some(inside.trim().to_owned()),
        None => {}
    }
    while let Some(word) = rest.trim_start().strip_prefix('+') {
        let begins = |name: &str| {
            word.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        rest = match () {
            () if begins("mcast") => {
                packet.link.multicast = true;
                &word[5..]
            }
            () if begins("bcast") => {
                packet.link.broadcast = true;
                &word[5..]
            }
            () if begins("mbcast") => {
                packet.link.many = true;
                &word[6..]
            }
            () => word,
        };
    }
    rest
}

/// Digits up to the first other character, which is given back; a blank ends a byte.
fn read_digits(text: &str, bytes: &mut Vec<u8>) -> Option<char> {
    let (mut high, mut other): (Option<u8>, _) = (None, None);
    for character in text.chars() {
        if character.is_whitespace() {
            bytes.extend(high.take().map(|high| high << 4));
            continue;
        }
        let Some(digit) = character.to_digit(16) else {
            other = Some(character);
            break;
        };
        let digit = u8::try_from(digit).unwrap_or_default();
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    bytes.extend(high.map(|high| high << 4));
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_end_with_an_empty_line() {
        let found = packets("# a\n\n[out,e0] +mcast 45 00 # x\n00ff\n\n\n4\n[e1] 60\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].bytes, [0x45, 0, 0, 0xff]);
        assert!(found[0].out && found[0].link.multicast);
        assert_eq!(found[0].interface.as_deref(), Some("e0"));
        assert_eq!(found[1].bytes, [0x40, 0x60]);
        assert_eq!(found[1].interface.as_deref(), Some("e1"));
    }
}
