//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Sum of 16-bit big-endian words, not yet folded.
pub fn sum(bytes: &[u8], start: u32) -> u32 {
    let mut total = u64::from(start);
    let words = bytes.chunks_exact(2);
    if let [last] = words.remainder() {
        total += u64::from(*last) << 8;
    }
    for word in words {
        total += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    while total >> 32 != 0 {
        total = (total & 0xffff_ffff) + (total >> 32);
    }
    total as u32
}

/// Fold a sum and complement it: the value of the checksum field.
pub fn finish(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sum of the pseudo header of TCP, UDP and ICMPv6.
pub fn pseudo(src: &[u8], dst: &[u8], proto: u8, length: u32) -> u32 {
    let mut total = sum(src, 0);
    total = sum(dst, total);
    total = sum(&length.to_be_bytes(), total);
    sum(&[0, proto], total)
}

/// The checksum after one 16-bit word changed (RFC 1624, equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    finish(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        assert_eq!(
            !finish(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0)),
            0xddf2
        );
    }

    #[test]
    fn an_update_equals_summing_anew() {
        let mut bytes = [0x45u8, 0, 0x12, 0x34, 0xff, 0xff, 0x80, 0x01];
        let before = finish(sum(&bytes, 0));
        let old = u16::from_be_bytes([bytes[2], bytes[3]]);
        for new in [0u16, 1, 0xffff, 0x8000, 0x1234] {
            bytes[2..4].copy_from_slice(&new.to_be_bytes());
            assert_eq!(update(before, old, new), finish(sum(&bytes, 0)), "{new:#x}");
        }
    }
}
