//! Targets of address translation: `[address[-address]][:port[-port[/base]]]`.
//!
//! weir does not translate; these are read so that they print back and that mistakes are found.

use super::super::names::services;
use super::super::value::{NatTo, Value};
use super::address::{self, Fault};
use super::numbers::number;
use crate::model::Family;

fn port(text: &str) -> Result<u16, Fault> {
    let fault = || Fault::new(format!("bad port `{text}`")).help("a number from 1 to 65535");
    match number(text) {
        Some(value) => u16::try_from(value)
            .ok()
            .filter(|&port| port > 0)
            .ok_or_else(fault),
        None => services::port(text, None).ok_or_else(fault),
    }
}

fn port_range(text: &str) -> Result<(u16, u16), Fault> {
    // Service names may hold hyphens, so a whole name comes first.
    if services::port(text, None).is_some() || !text.contains('-') {
        let value = port(text)?;
        return Ok((value, value));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(Fault::new(format!("the port range `{text}` is reversed"))
            .help("write the lower port first"));
    }
    Ok((first, last))
}

/// `port[-port]` of REDIRECT and MASQUERADE.
///
/// # Errors
/// What is wrong with it.
pub(super) fn ports(text: &str) -> Result<Value, Fault> {
    let (first, last) = port_range(text)?;
    Ok(Value::Range(u32::from(first), u32::from(last)))
}

/// The value of `--to-source` and `--to-destination`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn to(text: &str, family: Family) -> Result<Value, Fault> {
    if text.is_empty() {
        return Err(Fault::new("the translation is empty").help("an address, or `:` and a port"));
    }
    let (addresses, ports) = split_ports(text, family)?;
    let mut nat = NatTo {
        addresses: None,
        ports: None,
        base: None,
    };
    if !addresses.is_empty() {
        let plain: String = addresses
            .chars()
            .filter(|c| !matches!(c, '[' | ']'))
            .collect();
        nat.addresses = Some(address::range(&plain, family)?);
    }
    if let Some(text) = ports {
        let (range, base) = match text.split_once('/') {
            Some((range, base)) => (range, Some(port(base)?)),
            None => (text, None),
        };
        nat.ports = Some(port_range(range)?);
        nat.base = base;
    }
    Ok(Value::Nat(Box::new(nat)))
}

/// Splits the ports off; IPv6 addresses with ports are in brackets.
fn split_ports(text: &str, family: Family) -> Result<(&str, Option<&str>), Fault> {
    match family {
        Family::V4 => Ok(match text.split_once(':') {
            Some((addresses, ports)) => (addresses, Some(ports)),
            None => (text, None),
        }),
        Family::V6 => {
            if let Some(ports) = text.strip_prefix(':').filter(|rest| !rest.starts_with(':')) {
                return Ok(("", Some(ports)));
            }
            if !text.starts_with('[') {
                return Ok((text, None));
            }
            let close = text.rfind(']').ok_or_else(|| {
                Fault::new(format!("no `]` in `{text}`")).help("`[address]:port`")
            })?;
            let (addresses, rest) = text.split_at(close + 1);
            match rest.strip_prefix(':') {
                Some(ports) => Ok((addresses, Some(ports))),
                None if rest.is_empty() => Ok((addresses, None)),
                None => Err(Fault::new(format!("unexpected `{rest}`")).help("`[address]:port`")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::value::{Kind, print};
    use super::*;

    fn again(text: &str, family: Family) -> Option<String> {
        let value = to(text, family).ok()?;
        let mut out = String::new();
        print(&mut out, Kind::NatTo, &value);
        Some(out.trim_start().to_owned())
    }

    #[test]
    fn translations_print_back() {
        for (written, printed) in [
            ("1.2.3.4", "1.2.3.4"),
            ("1.2.3.4-1.2.3.9", "1.2.3.4-1.2.3.9"),
            ("1.2.3.4:80", "1.2.3.4:80"),
            ("1.2.3.4-1.2.3.9:80-90", "1.2.3.4-1.2.3.9:80-90"),
            (":8080", ":8080"),
            ("1.2.3.4:ftp-data", "1.2.3.4:20"),
            ("1.2.3.4:1000-2000/3000", "1.2.3.4:1000-2000/3000"),
        ] {
            assert_eq!(
                again(written, Family::V4).as_deref(),
                Some(printed),
                "{written}"
            );
        }
        for (written, printed) in [
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            (
                "[2001:db8::1]-[2001:db8::2]:80-81",
                "[2001:db8::1]-[2001:db8::2]:80-81",
            ),
            (":80", ":80"),
        ] {
            assert_eq!(
                again(written, Family::V6).as_deref(),
                Some(printed),
                "{written}"
            );
        }
        for wrong in [
            "",
            "1.2.3.4:0",
            "1.2.3.4:70000",
            "1.2.3.4:90-80",
            "x",
            "1.2.3.9-1.2.3.4",
        ] {
            assert_eq!(again(wrong, Family::V4), None, "{wrong}");
        }
        for wrong in ["[::1", "[::1]80", "1.2.3.4"] {
            assert_eq!(again(wrong, Family::V6), None, "{wrong}");
        }
    }
}
