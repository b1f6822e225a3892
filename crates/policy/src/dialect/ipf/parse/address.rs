//! `from` and `to`: addresses in all spellings, tables, interfaces, lists.

use super::super::ast::{Address, InterfaceAddress, Name, PoolEntry, Rule, TableKind, bits, ones};
use super::super::lex::Kind;
use super::matching::side;
use super::rule::{Product, each};
use super::{Parsed, Parser};
use crate::model::Family;
use crate::syntax::{Diagnostic, Span};
use std::net::{IpAddr, Ipv6Addr};

/// What to do about a rule of the other family.
pub(super) const HPUX_FAMILIES: &str = "HP-UX's IPv6 rules are a file of their own: call it \
    ipf6.conf, give it with -6, or write the line `# --family ipv6` in front of them";

const MASK_WORDS: [&str; 4] = ["broadcast", "network", "netmasked", "peer"];

impl Parser<'_, '_, '_> {
    /// One side: `[!] addresses [ports]`, or ports alone.
    pub(super) fn object(&mut self, product: &mut Product, source: bool) -> Parsed<()> {
        if self.is("port") {
            each(product, |rule| {
                side(rule, source);
            });
            return self.ports(product, source);
        }
        let negate = self.take_sign("!");
        let start = self.here();
        let addresses = match self.is_sign("{") || self.is_sign("(") && !self.is_interface() {
            true => self.address_list(product)?,
            false => self.addresses(product)?,
        };
        let at = self.since(start);
        if negate && addresses.len() > 1 {
            let message = "`!` before a list: each of its rules excludes one entry only, so \
                           together they match everything"
                .to_owned();
            self.warn("negated-list", at, message, "use a pool with `!` before it");
        }
        for address in &addresses {
            self.check_family(product, address, at)?;
        }
        self.multiply(product, &addresses, |rule, address| {
            if let Some(family) = family_of(address) {
                rule.family = Some(family);
            }
            let side = side(rule, source);
            side.negate = negate;
            side.address = address.clone();
        })?;
        self.ports(product, source)
    }

    fn check_family(&self, product: &Product, address: &Address, at: Span) -> Parsed<()> {
        let Some(family) = family_of(address) else {
            return Ok(());
        };
        if product
            .iter()
            .all(|rule| rule.family.is_none_or(|known| known == family))
        {
            return Ok(());
        }
        let message = "addresses of both families in one rule, or of the wrong one";
        let found = Diagnostic::error("family", at, message);
        Err(Box::new(found.help(match self.hpux() {
            true => HPUX_FAMILIES,
            false => "write one rule for IPv4 and one for IPv6",
        })))
    }

    /// `(e0)` or `(e0:1)`: an interface, not a list.
    fn is_interface(&self) -> bool {
        let Some(name) = self.look(1).filter(|token| token.kind != Kind::Sign) else {
            return false;
        };
        let closes = self.is_sign_at(2, ")") || self.is_sign_at(2, ":") && self.is_sign_at(4, ")");
        let address = name.text.starts_with(|c: char| c.is_ascii_digit())
            || ["any", "pool", "hash"]
                .iter()
                .any(|word| self.is_at(1, word));
        closes && !address
    }

    fn address_list(&mut self, product: &Product) -> Parsed<Vec<Address>> {
        let parts = self.list_of("an address", |parser| parser.addresses(product))?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// One written address; a host name may be several.
    fn addresses(&mut self, product: &Product) -> Parsed<Vec<Address>> {
        if self.take_word("any") {
            return Ok(vec![Address::Any]);
        }
        for (word, kind) in [("pool", TableKind::Pool), ("hash", TableKind::Hash)] {
            if self.is(word) && (self.is_sign_at(1, "/") || self.is_sign_at(1, "=")) {
                self.take();
                return Ok(vec![self.table(kind)?]);
            }
        }
        if self.is_sign("<") && self.is_at(1, "thishost") && self.is_sign_at(2, ">") {
            return self.this_host();
        }
        if self.take_sign("(") {
            let name = self.name("the name of an interface")?;
            if self.take_sign(":") {
                let at = self.here();
                // The interface itself has the number 0.
                if self.number("a number of an address", u32::MAX)? != 0 {
                    let message = "Linux doesn't number the addresses of an interface";
                    let found = Diagnostic::unsupported(at, message);
                    return Err(Box::new(found.help("write the address that is meant")));
                }
            }
            self.expect_sign(")", "after the interface")?;
            return Ok(vec![self.interface_address(name)?]);
        }
        let start = self.here();
        let Some(token) = self
            .peek()
            .filter(|t| t.kind != Kind::Sign || t.text == ":")
        else {
            return Err(self.expected("an address"));
        };
        if token.kind == Kind::Word
            && token.text.contains('-')
            && let Some(range) = self.range()?
        {
            return Ok(vec![range]);
        }
        let text = self.glued_address();
        match ip(&text) {
            Some((family, value)) => {
                let mask = self.mask(family)?;
                let mask = mask.unwrap_or_else(|| ones(family));
                self.warn_of_holes(family, mask, self.since(start));
                let value = value & mask;
                Ok(vec![match mask {
                    0 => Address::Any,
                    _ => Address::Net {
                        family,
                        value,
                        mask,
                    },
                }])
            }
            None => self.named(&Name::from(text), product, start),
        }
    }

    /// A word that is no address: an interface of this rule, or a host.
    fn named(&mut self, name: &Name, product: &Product, start: Span) -> Parsed<Vec<Address>> {
        let of_rule = |rule: &Rule| {
            rule.on
                .iter()
                .chain(&rule.via)
                .flatten()
                .any(|on| on == name)
        };
        let word = self.is_sign("/") && MASK_WORDS.iter().any(|word| self.is_at(1, word));
        let slash = self.is_sign("/") && looks_like_interface(name);
        if product.iter().any(of_rule) || word || slash {
            return Ok(vec![self.interface_address(name.clone())?]);
        }
        let looks_wrong = name.starts_with(|c: char| c.is_ascii_digit()) || name.contains(':');
        // Pieces that only together are this word: as a name it would not print back.
        let glued = name.eq_ignore_ascii_case("any");
        if looks_wrong || glued || name.is_empty() {
            let message = format!("`{name}` is no address");
            let found = Diagnostic::error("bad-address", self.since(start), message);
            return Err(Box::new(
                found.help("write a.b.c.d, a.b/16 or an IPv6 address"),
            ));
        }
        self.resolve(name, start)
    }

    fn this_host(&mut self) -> Parsed<Vec<Address>> {
        let start = self.here();
        self.next += 3;
        match self.options.names.and_then(super::Names::this_host) {
            Some(name) => self.resolve(&Name::from(name), start),
            None => self.unresolved(&Name::from("<thishost>"), start, "nobody knows this host"),
        }
    }

    fn resolve(&mut self, name: &Name, start: Span) -> Parsed<Vec<Address>> {
        let found = match self.options.names {
            Some(names) => names.addresses(name),
            None => Err("names are not resolved here".to_owned()),
        };
        let wanted = |address: &IpAddr| match self.family {
            Some(Family::V6) => address.is_ipv6(),
            _ => address.is_ipv4(),
        };
        let addresses: Vec<IpAddr> = match found {
            Ok(addresses) => addresses,
            Err(why) => return self.unresolved(name, start, &why),
        };
        // Like the original: IPv4 where there is a choice.
        let mut chosen: Vec<IpAddr> = addresses.iter().copied().filter(wanted).collect();
        if chosen.is_empty() && self.family.is_none() {
            chosen = addresses;
        }
        let Some(first) = chosen.first() else {
            return self.unresolved(name, start, "it has no address of this family");
        };
        let family = bits(*first).0;
        let mask = self.mask(family)?.unwrap_or_else(|| ones(family));
        let net = |address: IpAddr| Address::Net {
            family,
            value: bits(address).1 & mask,
            mask,
        };
        let same = chosen.iter().copied().filter(|a| bits(*a).0 == family);
        Ok(same.map(net).collect())
    }

    fn unresolved(&mut self, name: &Name, start: Span, why: &str) -> Parsed<Vec<Address>> {
        let _ = self.mask(Family::V4)?;
        let at = self.since(start);
        let message = format!("unknown host `{name}`: {why}");
        if self.options.lenient {
            let help = "the rule is kept and matches nothing";
            self.warn("unknown-host", at, message, help);
            return Ok(vec![Address::Unresolved(name.clone())]);
        }
        let found = Diagnostic::error("unknown-host", at, message);
        let help = match &**name {
            "all" => "write `any` behind `from` and `to`",
            _ => "write its address, or use --lenient",
        };
        Err(Box::new(found.help(help)))
    }

    /// Behind an interface: a length or one of four words; alone its address.
    fn interface_address(&mut self, name: Name) -> Parsed<Address> {
        if !self.take_sign("/") {
            return Ok(Address::Interface(name, InterfaceAddress::Masked(32)));
        }
        let which = match self.take_one_of(&MASK_WORDS) {
            Some("broadcast") => InterfaceAddress::Broadcast,
            Some("network") => InterfaceAddress::Network,
            Some("netmasked") => InterfaceAddress::Netmasked,
            Some(_) => InterfaceAddress::Peer,
            None => {
                let length =
                    self.number("a length, or broadcast, network, netmasked, peer", 128)?;
                InterfaceAddress::Masked(u8::try_from(length).unwrap_or(128))
            }
        };
        Ok(Address::Interface(name, which))
    }

    fn table(&mut self, kind: TableKind) -> Parsed<Address> {
        if self.take_sign("/") {
            let name = self.name("the number or name of a table")?;
            return Ok(Address::Table(kind, name));
        }
        self.expect_sign("=", "or `/` after the kind of table")?;
        self.expect_sign("(", "before the addresses")?;
        let mut entries = Vec::new();
        loop {
            let start = self.here();
            let negate = self.take_sign("!");
            if negate && kind == TableKind::Hash {
                let found = Diagnostic::error("syntax", start, "a hash has no holes");
                return Err(Box::new(found.help("use `pool`")));
            }
            entries.push(self.pool_entry(negate)?);
            if self.take_sign(")") {
                return Ok(Address::Inline(kind, entries));
            }
            self.expect_sign(",", "or `)` after the address")?;
        }
    }

    /// An address with or without a mask, for a table.
    pub(in super::super) fn pool_entry(&mut self, negate: bool) -> Parsed<PoolEntry> {
        let start = self.here();
        if self.take_word("any") {
            let (family, value, mask) = (Family::V4, 0, 0);
            return Ok(PoolEntry {
                negate,
                family,
                value,
                mask,
            });
        }
        let text = self.glued_address();
        let Some((family, value)) = ip(&text) else {
            let message = match text.is_empty() {
                true => "an address is missing".to_owned(),
                false => format!("`{text}` is no address"),
            };
            let found = Diagnostic::error("bad-address", self.since(start), message);
            return Err(Box::new(found.help("write a.b.c.d/n or an IPv6 prefix")));
        };
        let mask = self.mask(family)?.unwrap_or_else(|| ones(family));
        Ok(PoolEntry {
            negate,
            family,
            value: value & mask,
            mask,
        })
    }

    /// Takes words and colons that stand together, as IPv6 addresses do.
    pub(in super::super) fn glued_address(&mut self) -> String {
        let mut text = String::new();
        while let Some(token) = self.peek() {
            let part = token.kind == Kind::Word || token.text == ":";
            if !part || !text.is_empty() && !token.glued {
                break;
            }
            // In `10.0.0.1:80` the colon is not part of the address.
            if token.text == ":" && text.contains('.') && !text.contains(':') {
                break;
            }
            text.push_str(&token.text);
            self.take();
        }
        text
    }

    /// `a-b`, where both are IPv4 addresses.
    fn range(&mut self) -> Parsed<Option<Address>> {
        let Some(token) = self.peek() else {
            return Ok(None);
        };
        let Some((first, last)) = token.text.split_once('-') else {
            return Ok(None);
        };
        let (Some((one, first)), Some((two, last))) = (ip(first), ip(last)) else {
            return Ok(None);
        };
        self.take();
        if one != two || first > last {
            let message = format!("`{}` is no range", token.text);
            let found = Diagnostic::error("bad-address", token.at, message);
            return Err(Box::new(found.help("write the smaller address first")));
        }
        Ok(Some(Address::Range(one, first, last)))
    }

    /// `/mask` or `mask mask`.
    fn mask(&mut self, family: Family) -> Parsed<Option<u128>> {
        if !self.take_sign("/") && !self.take_word("mask") && !self.take_word("netmask") {
            return Ok(None);
        }
        let start = self.here();
        let Some(token) = self
            .peek()
            .filter(|t| t.kind == Kind::Word || t.text == ":")
        else {
            return Err(self.expected("a mask"));
        };
        let length = if family == Family::V4 { 32 } else { 128 };
        let hex = token.text.strip_prefix("0x");
        if token.text.bytes().all(|byte| byte.is_ascii_digit())
            && token.kind == Kind::Word
            && !(self.is_sign_at(1, ":") && self.look(1).is_some_and(|t| t.glued))
        {
            let bits = self.number("the length of a prefix", length)?;
            return Ok(Some(prefix(family, bits)));
        }
        if let Some(digits) = hex.filter(|_| family == Family::V4) {
            self.take();
            if let Ok(mask) = u32::from_str_radix(digits, 16) {
                return Ok(Some(u128::from(mask)));
            }
        }
        let text = match hex {
            Some(_) => token.text.to_string(),
            None => self.glued_address(),
        };
        match text.parse::<IpAddr>().map(bits) {
            Ok((found, mask)) if found == family => Ok(Some(mask)),
            _ => {
                let message = format!("`{text}` is no mask");
                let found = Diagnostic::error("bad-mask", self.since(start), message);
                Err(Box::new(
                    found.help(format!("write a length up to {length}")),
                ))
            }
        }
    }

    fn warn_of_holes(&mut self, family: Family, mask: u128, at: Span) {
        let free = !mask & ones(family);
        if free & free.wrapping_add(1) != 0 {
            let message = "a mask with holes; 5.1 reads it as `any`".to_owned();
            self.warn("differs", at, message, "weir applies it, as 4.1 does");
        }
    }
}

/// The mask of a prefix length.
pub(in super::super) fn prefix(family: Family, length: u32) -> u128 {
    let all = ones(family);
    let width = if family == Family::V4 { 32 } else { 128 };
    match width - length.min(width) {
        128 => 0,
        free => all & (u128::MAX << free),
    }
}

/// The family that an address fixes.
fn family_of(address: &Address) -> Option<Family> {
    match address {
        Address::Net { family, .. } | Address::Range(family, ..) => Some(*family),
        Address::Interface(_, InterfaceAddress::Masked(33..)) => Some(Family::V6),
        _ => None,
    }
}

/// An address: IPv6, dotted with one to four parts, one number or hexadecimal.
fn ip(text: &str) -> Option<(Family, u128)> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some((Family::V6, address.to_bits()));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        let value = u32::from_str_radix(digits, 16).ok()?;
        return Some((Family::V4, u128::from(value)));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 4 || !parts.iter().all(digits) {
        return None;
    }
    let mut value = 0u32;
    for (at, part) in parts.iter().enumerate() {
        let part: u8 = part.parse().ok()?;
        value |= u32::from(part) << (24 - 8 * at);
    }
    Some((Family::V4, u128::from(value)))
}

/// Letters and then digits, as interfaces are called.
pub(in super::super) fn looks_like_interface(name: &str) -> bool {
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    digits.len() < name.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}
