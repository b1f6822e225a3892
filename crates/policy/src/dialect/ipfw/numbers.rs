//! Numbers as C reads them: strtol(3) with its bases and its habit of stopping early, atoi(3),
//! inet_aton(3), inet_pton(3).
//!
//! In: text. Out: a value and what is left of the text. Nothing here fails: what an unread rest
//! means is the caller's business, as it is in the original.

use std::net::{Ipv4Addr, Ipv6Addr};

/// `strtol`: the value, saturated at 64 bits, and the rest. Base 0 knows `0x` and a leading `0`.
/// Without digits the whole text is the rest and the value 0.
#[must_use]
pub fn strtol(text: &str, base: u32) -> (i64, &str) {
    let trimmed = text.trim_start_matches([' ', '\t']);
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let (base, digits) = radix(digits, base);
    let end = digits
        .bytes()
        .position(|byte| !(byte as char).is_digit(base))
        .unwrap_or(digits.len());
    if end == 0 {
        return (0, text);
    }
    let mut value: i64 = 0;
    for byte in digits[..end].bytes() {
        let digit = i64::from((byte as char).to_digit(base).unwrap_or(0));
        value = value.saturating_mul(i64::from(base)).saturating_add(digit);
    }
    let value = if negative { -value } else { value };
    (value, &digits[end..])
}

fn radix(digits: &str, base: u32) -> (u32, &str) {
    let bytes = digits.as_bytes();
    let hex = bytes.len() > 2
        && bytes[0] == b'0'
        && (bytes[1] | 0x20) == b'x'
        && bytes[2].is_ascii_hexdigit();
    match base {
        0 | 16 if hex => (16, &digits[2..]),
        0 if bytes.first() == Some(&b'0') => (8, digits),
        0 => (10, digits),
        base => (base, digits),
    }
}

/// `atoi`: decimal, the rest ignored.
#[must_use]
pub fn atoi(text: &str) -> i64 {
    strtol(text, 10).0
}

/// `strtoul` into 32 bits, the rest ignored.
#[must_use]
pub fn u32_of(text: &str, base: u32) -> u32 {
    strtol(text, base).0 as u32
}

/// `inet_aton`: one to four parts, each decimal, octal or hexadecimal, the last filling the rest
/// of the address; blanks may follow.
#[must_use]
pub fn inet_aton(text: &str) -> Option<u32> {
    let text = text.trim_end();
    let mut parts = [0u64; 4];
    let mut count = 0;
    for part in text.split('.') {
        if count == 4 || !part.bytes().next().is_some_and(|b| b.is_ascii_digit()) {
            return None;
        }
        let (value, rest) = strtol(part, 0);
        if !rest.is_empty() || value < 0 {
            return None;
        }
        parts[count] = value as u64;
        count += 1;
    }
    let (last, heads) = parts[..count].split_last()?;
    if heads.iter().any(|part| *part > 255) {
        return None;
    }
    let width = 32 - 8 * heads.len() as u32;
    if width < 64 && *last >= 1u64 << width {
        return None;
    }
    let mut address = *last as u32;
    for (index, part) in heads.iter().enumerate() {
        address |= (*part as u32) << (24 - 8 * index as u32);
    }
    Some(address)
}

/// `inet_pton` for IPv4: four decimal parts.
#[must_use]
pub fn ipv4(text: &str) -> Option<u32> {
    text.parse::<Ipv4Addr>().ok().map(u32::from)
}

/// `inet_pton` for IPv6.
#[must_use]
pub fn ipv6(text: &str) -> Option<u128> {
    text.parse::<Ipv6Addr>().ok().map(u128::from)
}

/// Length of a mask of `width` bits whose ones are all on the left.
#[must_use]
pub fn mask_length(mask: u128, width: u32) -> Option<u32> {
    let shifted = mask << (128 - width);
    let ones = shifted.leading_ones();
    (shifted == prefix_mask(ones.min(width), 128)).then_some(ones.min(width))
}

/// The mask of `width` bits whose first `length` are ones.
#[must_use]
pub fn prefix_mask(length: u32, width: u32) -> u128 {
    let all = if width == 128 {
        u128::MAX
    } else {
        (1u128 << width) - 1
    };
    match length {
        0 => 0,
        length if length >= width => all,
        length => all & !((1u128 << (width - length)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_integers() {
        assert_eq!(strtol("0x50", 0), (80, ""));
        assert_eq!(strtol("010", 0), (8, ""));
        assert_eq!(strtol("010", 10), (10, ""));
        assert_eq!(strtol("80-90", 0), (80, "-90"));
        assert_eq!(strtol("x", 0), (0, "x"));
        assert_eq!(strtol("-5", 0), (-5, ""));
        assert_eq!(strtol("08", 0), (0, "8"));
        assert_eq!(strtol("99999999999999999999", 0).0, i64::MAX);
        assert_eq!(strtol("0x", 0), (0, "x"));
    }

    #[test]
    fn old_addresses() {
        assert_eq!(inet_aton("10"), Some(10));
        assert_eq!(inet_aton("10.0.0"), Some(0x0a00_0000));
        assert_eq!(inet_aton("1.2.3.4"), Some(0x0102_0304));
        assert_eq!(inet_aton("0x7f.1"), Some(0x7f00_0001));
        assert_eq!(inet_aton("1.2.3.256"), None);
        assert_eq!(inet_aton("1.2.3.4.5"), None);
        assert_eq!(inet_aton("host"), None);
        assert_eq!(inet_aton(""), None);
    }

    #[test]
    fn masks() {
        assert_eq!(mask_length(0xffff_ff00, 32), Some(24));
        assert_eq!(mask_length(0, 32), Some(0));
        assert_eq!(mask_length(0xffff_ffff, 32), Some(32));
        assert_eq!(mask_length(0xff00_ff00, 32), None);
        assert_eq!(mask_length(u128::MAX, 128), Some(128));
        assert_eq!(prefix_mask(24, 32), 0xffff_ff00);
        assert_eq!(prefix_mask(0, 128), 0);
    }
}
