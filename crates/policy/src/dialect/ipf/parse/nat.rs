//! The grammar of `ipnat.conf`.

use super::super::ast::{Name, PoolEntry, Rule, Side, bits};
use super::super::lex::Kind;
use super::super::nat::{Extra, NatRule, Packets, Target, Verb};
use super::matching::side;
use super::{Parsed, Parser};
use crate::dialect::ipf::words;
use crate::dialect::iptables::names::protocols;
use crate::model::Family;
use crate::syntax::{Diagnostic, Place};
use std::net::IpAddr;

const VERBS: [(&str, Verb); 6] = [
    ("map", Verb::Map),
    ("map-block", Verb::MapBlock),
    ("rdr", Verb::Rdr),
    ("bimap", Verb::Bimap),
    ("rewrite", Verb::Rewrite),
    ("divert", Verb::Divert),
];

impl Parser<'_, '_, '_> {
    /// A translation rule.
    pub(in super::super) fn nat_rule(&mut self) -> Parsed<NatRule> {
        let start = self.here();
        let no = self.take_word("no");
        let found = VERBS.iter().find(|(word, _)| self.is(word));
        let Some((_, verb)) = found.copied() else {
            return Err(self.expected("`map`, `rdr`, `bimap`, `map-block`, `rewrite` or `divert`"));
        };
        self.take();
        let both = matches!(verb, Verb::Rewrite | Verb::Divert);
        if no && both {
            let found = Diagnostic::error("syntax", start, "`no` goes with map, rdr and bimap");
            return Err(Box::new(found.help("take `no` out")));
        }
        let mut out = None;
        if both {
            out = match self.take_one_of(&["in", "out"]) {
                Some(word) => Some(word == "out"),
                None => return Err(self.expected("`in` or `out`")),
            };
            if !self.take_word("on") {
                return Err(self.expected("`on`"));
            }
        }
        let mut interfaces = vec![self.name("the name of an interface")?];
        if self.take_sign(",") {
            interfaces.push(self.name("the name of an interface")?);
        }
        let family = match self.take_one_of(&["inet", "inet6"]) {
            Some("inet") => Some(Family::V4),
            Some(_) => Some(Family::V6),
            None => None,
        };
        let mut proto = None;
        if both && self.take_word("proto") {
            proto = self.nat_protocol();
            if proto.is_none() {
                return Err(self.expected("a protocol"));
            }
        }
        let packets = self.nat_packets(verb)?;
        let mut targets = Vec::new();
        if !no {
            self.expect_sign("->", "before the new address")?;
            self.nat_targets(verb, &mut targets)?;
        }
        if verb == Verb::Divert && !self.take_word("udp") {
            return Err(self.expected("`udp`"));
        }
        let mut extras = Vec::new();
        while let Some(extra) = self.nat_extra()? {
            extras.push(extra);
        }
        let ended = self.take_sign(";");
        let at_end = self.peek().is_none_or(|token| token.first);
        if !ended && !at_end {
            return Err(self.expected("`;` or the end of the line"));
        }
        Ok(NatRule {
            at: Place(self.since(start)),
            verb,
            no,
            out,
            interfaces,
            family,
            proto,
            packets,
            targets,
            extras,
        })
    }

    fn nat_packets(&mut self, verb: Verb) -> Parsed<Packets> {
        let start = self.here();
        let negated = self.is_sign("!") && self.is_at(1, "from");
        if !negated && !self.is("from") {
            let entry = self.pool_entry(false)?;
            let mut ports = None;
            if verb == Verb::Rdr && self.take_word("port") {
                ports = Some(self.nat_ports()?);
            }
            return Ok(Packets::Address(entry, ports));
        }
        if negated {
            self.take();
            if verb != Verb::Rdr {
                let found = Diagnostic::error("syntax", start, "only `rdr` excepts sources");
                return Err(Box::new(found.help("write `from` without `!`")));
            }
        }
        self.take();
        let mut product = vec![Rule::default()];
        self.object(&mut product, true)?;
        let not_to = self.is_sign("!") && self.is_at(1, "to");
        if not_to {
            if verb == Verb::Rdr {
                let at = self.here();
                let found = Diagnostic::error("syntax", at, "`rdr` can't except destinations");
                return Err(Box::new(found.help("write `to` without `!`")));
            }
            self.take();
        }
        if !self.take_word("to") {
            return Err(self.expected("`to`"));
        }
        self.object(&mut product, false)?;
        let Some(rule) = product.first_mut() else {
            return Err(self.expected("an address"));
        };
        let mut from: Side = side(rule, true).clone();
        let mut to: Side = side(rule, false).clone();
        from.negate |= negated;
        to.negate |= not_to;
        let wrong = match verb {
            Verb::Rdr => to.negate,
            _ => from.negate,
        };
        if wrong {
            let message = "`rdr` can except sources only, the others destinations only";
            let found = Diagnostic::error("syntax", self.since(start), message);
            return Err(Box::new(found.help("take this `!` out")));
        }
        if product.len() > 1 {
            let found = Diagnostic::error("syntax", self.since(start), "no lists here");
            return Err(Box::new(found.help("write one rule for each")));
        }
        Ok(Packets::Ends(Box::new((from, to))))
    }

    fn nat_targets(
        &mut self,
        verb: Verb,
        targets: &mut Vec<(Target, Option<(u16, u16)>)>,
    ) -> Parsed<()> {
        if !matches!(verb, Verb::Rewrite | Verb::Divert) {
            let target = self.nat_target(verb == Verb::Rdr)?;
            let mut ports = None;
            if verb == Verb::Rdr && self.take_word("port") {
                self.take_sign("=");
                ports = Some(self.nat_ports()?);
            }
            targets.push((target, ports));
            return Ok(());
        }
        for word in ["src", "dst"] {
            if !self.take_word(word) {
                return Err(self.expected(if word == "src" { "`src`" } else { "`dst`" }));
            }
            let target = self.nat_target(false)?;
            let mut ports = None;
            if self.take_sign(",") {
                ports = Some(self.nat_ports()?);
            } else if self.take_word("port") {
                self.expect_sign("=", "behind `port`")?;
                ports = Some(self.nat_ports()?);
            }
            targets.push((target, ports));
        }
        Ok(())
    }

    fn nat_target(&mut self, two: bool) -> Parsed<Target> {
        if self.take_word("dstlist") {
            self.expect_sign("/", "before the name of the list")?;
            return Ok(Target::List(self.name("the name of a list")?));
        }
        let word = self.take_word("range");
        let Some(token) = self.peek() else {
            return Err(self.expected("the new address"));
        };
        if let Some((first, last)) = token.text.split_once('-') {
            let parse = |text: &str| text.parse::<IpAddr>().map(bits).ok();
            let at = token.at;
            return match (parse(first), parse(last)) {
                (Some((one, first)), Some((two, last))) if one == two && first <= last => {
                    self.take();
                    Ok(Target::Range(one, first, last))
                }
                _ => {
                    let message = format!("`{}` is no range of addresses", token.text);
                    let found = Diagnostic::error("bad-address", at, message);
                    Err(Box::new(found.help("write FIRST-LAST, the smaller first")))
                }
            };
        }
        if word {
            return Err(self.expected("a range of addresses"));
        }
        let entry = self.pool_entry(false)?;
        if two && self.take_sign(",") {
            let other: PoolEntry = self.pool_entry(false)?;
            return Ok(Target::Two(entry.family, entry.value, other.value));
        }
        Ok(Target::Net(entry))
    }

    /// `port [- port]`
    fn nat_ports(&mut self) -> Parsed<(u16, u16)> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("a port"));
        };
        // `80-90` is one word here, `ftp-data` too.
        if let Some((first, last)) = token.text.split_once('-')
            && let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>())
        {
            self.take();
            return Ok((first, last));
        }
        let first = self.nat_port()?;
        if self.peek().is_some_and(|token| token.text == "-") {
            self.take();
            return Ok((first, self.nat_port()?));
        }
        Ok((first, first))
    }

    fn nat_port(&mut self) -> Parsed<u16> {
        let Some(token) = self.peek().filter(|token| token.kind == Kind::Word) else {
            return Err(self.expected("a port"));
        };
        if token.text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number("a port", 65535)?;
            return Ok(u16::try_from(number).unwrap_or(u16::MAX));
        }
        self.take();
        words::service(&token.text, None).ok_or_else(|| {
            let message = format!("unknown service `{}`", token.text);
            let found = Diagnostic::error("unknown-service", token.at, message);
            Box::new(found.help("write its number"))
        })
    }

    /// tcp, udp, tcp/udp, another name or a number.
    fn nat_protocol(&mut self) -> Option<Name> {
        if self.is("tcp") && self.is_sign_at(1, "/") && self.is_at(2, "udp") {
            self.next += 3;
            return Some(Name::from("tcp/udp"));
        }
        if self.take_word("tcpudp") || self.take_word("tcp-udp") {
            return Some(Name::from("tcp/udp"));
        }
        let token = self
            .peek()
            .filter(|token| token.kind == Kind::Word && !token.first)?;
        let number = token.text.parse::<u8>().is_ok();
        if !number && protocols::number(&token.text).is_none() {
            return None;
        }
        self.take();
        Some(Name::from(token.text.to_ascii_lowercase()))
    }

    fn nat_extra(&mut self) -> Parsed<Option<Extra>> {
        if self.peek().is_none_or(|token| token.first) {
            return Ok(None);
        }
        let words = ["round-robin", "sticky", "frag", "purge"];
        if let Some(word) = self.take_one_of(&words) {
            return Ok(Some(Extra::Word(word)));
        }
        let all = [
            "portmap",
            "icmpidmap",
            "proxy",
            "ports",
            "age",
            "mssclamp",
            "tag",
        ];
        let extra = match self.take_one_of(&all) {
            Some("portmap") => self.portmap()?,
            Some("icmpidmap") => {
                if !self.take_word("icmp") {
                    return Err(self.expected("`icmp`"));
                }
                let first = self.number("the first identifier", 65535)?;
                self.expect_sign(":", "between the identifiers")?;
                Extra::IcmpIdMap(first, self.number("the last identifier", 65535)?)
            }
            Some("proxy") => self.proxy()?,
            Some("ports") => match self.take_word("auto") {
                true => Extra::Ports(None),
                false => Extra::Ports(Some(self.number("a number of ports", 65535)?)),
            },
            Some("age") => {
                let forward = self.number("a lifetime", u32::MAX)?;
                match self.take_sign("/") {
                    true => Extra::Age(forward, Some(self.number("a lifetime", u32::MAX)?)),
                    false => Extra::Age(forward, None),
                }
            }
            Some("mssclamp") => Extra::Mssclamp(self.number("a segment size", 65535)?),
            Some(_) => Extra::Tag(self.name("a tag")?),
            None => return Ok(self.nat_protocol().map(Extra::Protocol)),
        };
        Ok(Some(extra))
    }

    fn portmap(&mut self) -> Parsed<Extra> {
        let Some(proto) = self.nat_protocol() else {
            return Err(self.expected("a protocol: tcp, udp or tcp/udp"));
        };
        let mut ports = None;
        if !self.take_word("auto") {
            let first = self.nat_port()?;
            self.expect_sign(":", "between the ports")?;
            ports = Some((first, self.nat_port()?));
        }
        let sequential = self.take_word("sequential");
        Ok(Extra::Portmap(proto, ports, sequential))
    }

    fn proxy(&mut self) -> Parsed<Extra> {
        if !self.take_word("port") {
            return Ok(Extra::Proxy(self.name("the name of a proxy")?));
        }
        let port = self.nat_port()?;
        let name = self.name("the name of a proxy")?;
        self.expect_sign("/", "behind the proxy")?;
        let Some(proto) = self.nat_protocol() else {
            return Err(self.expected("a protocol"));
        };
        let mut config = None;
        if self.take_word("config") {
            config = Some(self.name("the name of a configuration")?);
        }
        Ok(Extra::ProxyPort(port, name, proto, config))
    }
}
