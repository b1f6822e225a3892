//! Numbers as iptables reads them: decimal, `0x` hexadecimal, and octal after a leading zero.

/// A number in any of the three notations; `None` when it is none or does not fit 64 bits.
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => (&text[2..], 16),
        [b'0', rest @ ..] if !rest.is_empty() => (&text[1..], 8),
        _ => (text, 10),
    };
    // from_str_radix takes a leading sign, which is no digit here.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// A number that is at most `max`.
#[must_use]
pub fn number_up_to(text: &str, max: u64) -> Option<u64> {
    number(text).filter(|&value| value <= max)
}

/// A 32-bit number.
#[must_use]
pub fn number32(text: &str) -> Option<u32> {
    number(text).and_then(|value| u32::try_from(value).ok())
}

/// A decimal fraction from 0 to 1, scaled by 10^11; more than eleven decimals are cut.
#[must_use]
pub fn fraction(text: &str) -> Option<u128> {
    const DIGITS: usize = 11;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut scaled = whole.checked_mul(10u128.pow(11))?;
    for (index, digit) in part.bytes().take(DIGITS).enumerate() {
        scaled += u128::from(digit - b'0') * 10u128.pow(10 - u32::try_from(index).ok()?);
    }
    (scaled <= 10u128.pow(11)).then_some(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_notations_and_nothing_else() {
        assert_eq!(number("22"), Some(22));
        assert_eq!(number("0x16"), Some(22));
        assert_eq!(number("026"), Some(22));
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "08",
            "0x",
            "-1",
            "+1",
            "1a",
            " 1",
            "0x+1",
            "0-1",
            "18446744073709551616",
        ] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(number_up_to("256", 255), None);
        assert_eq!(number32("4294967296"), None);
    }

    #[test]
    fn fractions_end_at_one() {
        assert_eq!(fraction("0.5"), Some(50_000_000_000));
        assert_eq!(fraction("1"), Some(100_000_000_000));
        assert_eq!(fraction(".25"), Some(25_000_000_000));
        for wrong in ["1.1", "", ".", "-0.5", "0.5x", "1e-3"] {
            assert_eq!(fraction(wrong), None, "{wrong}");
        }
    }
}
