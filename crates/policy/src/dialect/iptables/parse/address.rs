//! Addresses, masks, ranges, Ethernet addresses and interface names.

use super::super::value::{Address, InterfaceName};
use super::numbers::{number, number_up_to};
use crate::model::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest interface name of the kernel (IFNAMSIZ less its zero).
pub const INTERFACE_NAME_MAX: usize = 15;

/// What is wrong with a text, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Fault {
    /// A fault without advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
        }
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// An IPv4 address as iptables reads it: one to four parts, missing ones zero, octal after a zero.
#[must_use]
pub fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let mut parts = text.split('.');
    for (index, part) in parts.by_ref().enumerate() {
        *bytes.get_mut(index)? = u8::try_from(number_up_to(part, 255)?).ok()?;
    }
    Some(Ipv4Addr::from(bytes))
}

/// Whether the text can only be meant as an IPv4 address, so that it is no host name.
fn looks_like_ipv4(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// One address of the family, without mask.
///
/// # Errors
/// What is wrong with it.
pub fn ip(text: &str, family: Family) -> Result<IpAddr, Fault> {
    match family {
        Family::V4 => match ipv4(text) {
            Some(address) if !text.is_empty() => Ok(IpAddr::V4(address)),
            _ if text.parse::<Ipv6Addr>().is_ok() => Err(other_family(text, family)),
            _ => Err(Fault::new(format!("`{text}` is not an IPv4 address"))
                .help("four numbers from 0 to 255, such as 192.0.2.1")),
        },
        Family::V6 => match text.parse::<Ipv6Addr>() {
            Ok(address) => Ok(IpAddr::V6(address)),
            Err(_) if text.parse::<Ipv4Addr>().is_ok() => Err(other_family(text, family)),
            Err(_) => Err(Fault::new(format!("`{text}` is not an IPv6 address"))
                .help("hexadecimal groups, such as 2001:db8::1")),
        },
    }
}

fn other_family(text: &str, family: Family) -> Fault {
    let (this, tool) = match family {
        Family::V4 => ("IPv4", "ip6tables-save"),
        Family::V6 => ("IPv6", "iptables-save"),
    };
    Fault::new(format!("`{text}` is not an {this} address")).help(format!(
        "this file holds {this} rules; put the rule into an `{tool}` file"
    ))
}

/// `address[/mask]` with the mask applied when `apply` says so.
///
/// # Errors
/// What is wrong with it.
pub fn address(text: &str, family: Family, apply: bool) -> Result<Address, Fault> {
    let (host, mask) = match text.split_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (text, None),
    };
    if is_host_name(host) {
        if let Some(mask) = mask {
            mask_bits(mask, family)?;
        }
        return Ok(Address::Name(text.into()));
    }
    let bits = mask.map(|mask| mask_bits(mask, family)).transpose()?;
    Ok(match ip(host, family)? {
        IpAddr::V4(address) => {
            let mask = bits.map_or(u32::MAX, |bits| bits as u32);
            let address = if apply {
                address.to_bits() & mask
            } else {
                address.to_bits()
            };
            Address::V4(Ipv4Addr::from_bits(address), Ipv4Addr::from_bits(mask))
        }
        IpAddr::V6(address) => {
            let mask = bits.unwrap_or(u128::MAX);
            let address = if apply {
                address.to_bits() & mask
            } else {
                address.to_bits()
            };
            Address::V6(Ipv6Addr::from_bits(address), Ipv6Addr::from_bits(mask))
        }
    })
}

/// Letters, digits, dots, hyphens, and at least one letter; hexadecimal numbers are no names.
fn is_host_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !looks_like_ipv4(text)
        && ipv4(text).is_none()
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// The bits of a mask, as a prefix length or as an address (IPv4 in the low 32 bits).
///
/// # Errors
/// What is wrong with it.
pub fn mask_bits(text: &str, family: Family) -> Result<u128, Fault> {
    let (width, example) = match family {
        Family::V4 => (32, "255.255.255.0"),
        Family::V6 => (128, "ffff:ffff::"),
    };
    if let Some(length) = number(text) {
        if length > width {
            return Err(Fault::new(format!("bad mask `{text}`"))
                .help(format!("a prefix length is 0 to {width}")));
        }
        let ones = u128::MAX.checked_shl(128 - length as u32).unwrap_or(0);
        return Ok(ones >> (128 - width));
    }
    let parsed = match family {
        Family::V4 => text
            .parse::<Ipv4Addr>()
            .ok()
            .map(|mask| u128::from(mask.to_bits())),
        Family::V6 => text.parse::<Ipv6Addr>().ok().map(|mask| mask.to_bits()),
    };
    parsed.ok_or_else(|| {
        Fault::new(format!("bad mask `{text}`")).help(format!(
            "write a prefix length (0 to {width}) or a mask such as {example}"
        ))
    })
}

/// `from[-to]`
///
/// # Errors
/// What is wrong with it.
pub fn range(text: &str, family: Family) -> Result<(IpAddr, IpAddr), Fault> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (ip(first, family)?, ip(last, family)?);
    if first > last {
        return Err(Fault::new(format!("the range `{text}` is reversed"))
            .help("write the lower address first; a reversed range never matches"));
    }
    Ok((first, last))
}

/// An Ethernet address: six hexadecimal bytes.
#[must_use]
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 2 || part.starts_with('+') {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

/// An interface name; `+` at its end stands for any ending.
///
/// # Errors
/// What is wrong with it.
pub fn interface(text: &str) -> Result<InterfaceName, Fault> {
    if text.is_empty() {
        return Err(Fault::new("the interface name is empty")
            .help("leave the option out to mean every interface"));
    }
    if text.len() > INTERFACE_NAME_MAX {
        return Err(
            Fault::new(format!("the interface name `{text}` is too long"))
                .help(format!("{INTERFACE_NAME_MAX} characters at most")),
        );
    }
    if text.contains(['/', ' ', '\t', '"']) || text == "." || text == ".." {
        return Err(Fault::new(format!("no interface can be called `{text}`"))
            .help("a name has no blanks, slashes or quotes"));
    }
    Ok(match text.strip_suffix('+') {
        Some(name) => InterfaceName {
            name: name.into(),
            prefix: true,
        },
        None => InterfaceName {
            name: text.into(),
            prefix: false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::value::{MaskText, address_text};
    use super::*;

    fn v4(text: &str) -> Option<String> {
        address(text, Family::V4, true)
            .ok()
            .map(|found| address_text(&found, MaskText::Always))
    }

    fn v6(text: &str) -> Option<String> {
        address(text, Family::V6, true)
            .ok()
            .map(|found| address_text(&found, MaskText::Always))
    }

    #[test]
    fn ipv4_spellings() {
        for (written, meant) in [
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10/8", "10.0.0.0/8"),
            ("10.1", "10.1.0.0/32"),
            ("010.0.0.1", "8.0.0.1/32"),
            ("1.2.3.4/255.255.255.0", "1.2.3.0/24"),
            ("10.1.2.3/255.0.255.0", "10.0.2.0/255.0.255.0"),
            ("1.2.3.4/0", "0.0.0.0/0"),
            ("www.example.org", "www.example.org"),
            ("host-1/24", "host-1/24"),
        ] {
            assert_eq!(v4(written).as_deref(), Some(meant), "{written}");
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.256",
            "1.2.3.4.5",
            "1.2.3.4/255.255",
            "::1",
            "a b",
            "1.2.3.4/",
            "1.2.3.4/x",
            "1..2",
            "-a",
            "host/99",
            "1.2.3.4/24/3",
        ] {
            assert_eq!(v4(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ipv6_spellings() {
        for (written, meant) in [
            ("2001:db8::1", "2001:db8::1/128"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("fe80::1/ffff:ffff::", "fe80::/32"),
            ("1:2:3::/ffff::ffff", "1::/ffff::ffff"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
        ] {
            assert_eq!(v6(written).as_deref(), Some(meant), "{written}");
        }
        for wrong in [
            "1.2.3.4",
            "::1/129",
            "2001:db8::g",
            "1::2::3",
            ":",
            "::1/255.0.0.0",
        ] {
            assert_eq!(v6(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_other_family_is_named() {
        let fault = ip("::1", Family::V4).unwrap_err();
        assert!(fault.help.unwrap().contains("ip6tables-save"));
        let fault = ip("1.2.3.4", Family::V6).unwrap_err();
        assert!(fault.help.unwrap().contains("`iptables-save`"));
    }

    #[test]
    fn ethernet_addresses_and_interfaces() {
        assert_eq!(mac("00:aA:b:1:2:3"), Some([0, 0xaa, 0xb, 1, 2, 3]));
        for wrong in [
            "",
            "00:11:22:33:44",
            "00:11:22:33:44:55:66",
            "00:11:22:33:44:gg",
            "001122334455",
            "00:11:22:33:44:+5",
        ] {
            assert_eq!(mac(wrong), None, "{wrong}");
        }
        assert!(interface("eth+").unwrap().prefix);
        assert_eq!(&*interface("+").unwrap().name, "");
        for wrong in ["", "1234567890123456", "a/b", "a b", ".."] {
            assert!(interface(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_go_upwards() {
        assert!(range("1.2.3.4-1.2.3.9", Family::V4).is_ok());
        assert!(range("1.2.3.4", Family::V4).is_ok());
        assert!(range("1.2.3.9-1.2.3.4", Family::V4).is_err());
        assert!(range("1.2.3.9-", Family::V4).is_err());
        assert!(range("::1-::2", Family::V6).is_ok());
    }
}
