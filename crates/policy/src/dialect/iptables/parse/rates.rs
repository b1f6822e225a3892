//! Rates and bursts: `3/second`, `512kb/s`, `1mb`.

use super::super::value::Value;
use super::address::Fault;
use super::values::bounded;

/// The unit of a rate, in seconds; any beginning of a unit's name.
fn unit_seconds(text: &str) -> Option<u64> {
    let units = [
        ("second", 1),
        ("minute", 60),
        ("hour", 3600),
        ("day", 86_400),
    ];
    let fits = |row: &&(&str, u64)| {
        !text.is_empty()
            && row
                .0
                .get(..text.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(text))
    };
    units.iter().find(fits).map(|row| row.1)
}

/// `n[/unit]` as the time for one packet; `second` is a second in the unit of the answer.
pub(super) fn rate(text: &str, second: u64) -> Result<u32, Fault> {
    let (amount, unit) = text.split_once('/').unwrap_or((text, "second"));
    let help = "a number and a unit: `3/second`, `10/minute`, `5/hour`, `1/day`";
    let bad = || Fault::new(format!("bad rate `{text}`")).help(help);
    let seconds = unit_seconds(unit).ok_or_else(bad)?;
    if !amount.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let amount: u64 = amount.parse().map_err(|_| bad())?;
    if amount == 0 {
        return Err(Fault::new("a rate of 0 never matches").help("write 1 or more"));
    }
    match u32::try_from(seconds * second / amount) {
        Ok(period) if period > 0 => Ok(period),
        Ok(_) => Err(Fault::new(format!("the rate `{text}` is too fast"))
            .help(format!("{second} packets a second at most"))),
        Err(_) => {
            Err(Fault::new(format!("the rate `{text}` is too slow")).help("one a day at least"))
        }
    }
}

/// A number with `b`, `kb`, `mb` or `gb`.
fn byte_amount(text: &str) -> Option<u64> {
    let body = text.strip_suffix('b')?;
    let (digits, unit) = match body.as_bytes().last()? {
        b'k' => (&body[..body.len() - 1], 1 << 10),
        b'm' => (&body[..body.len() - 1], 1 << 20),
        b'g' => (&body[..body.len() - 1], 1 << 30),
        _ => (body, 1u64),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|&bytes| bytes <= u64::from(u32::MAX))
}

pub(super) fn hash_rate(text: &str) -> Result<Value, Fault> {
    if let Some((amount, unit)) = text.split_once('/')
        && amount.ends_with('b')
    {
        let bytes = byte_amount(amount).filter(|&bytes| bytes > 0);
        return match (bytes, unit_seconds(unit)) {
            (Some(bytes), Some(1)) => Ok(Value::Bytes(bytes)),
            _ => Err(Fault::new(format!("bad rate `{text}`"))
                .help("bytes are counted a second: `512kb/s`, `1mb/s`, 4 GiB at most")),
        };
    }
    // The unit decides how long an unused key is kept; `finish` turns that into its own option.
    let unit = text
        .split_once('/')
        .and_then(|(_, unit)| unit_seconds(unit))
        .unwrap_or(1);
    Ok(Value::Range(rate(text, 1_000_000)?, unit as u32))
}

pub(super) fn hash_burst(text: &str) -> Result<Value, Fault> {
    if text.ends_with('b') {
        return byte_amount(text)
            .filter(|&bytes| bytes > 0)
            .map(Value::Bytes)
            .ok_or_else(|| {
                Fault::new(format!("bad burst `{text}`")).help("packets, or bytes such as `1mb`")
            });
    }
    bounded(text, 1, 1_000_000).map(Value::Number)
}
