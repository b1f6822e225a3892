//! Filter files: one filter a line.
//!
//! `@SRC/LEN DST/LEN LOW : HIGH LOW : HIGH PROTOCOL/MASK [FLAGS/MASK [EXTRA...]]`, separated by
//! tabs or blanks; source ports come first. Protocol, flags and their masks are hexadecimal with
//! `0x` or decimal. Address bits beyond the length do not count. Extra columns must be 0: weir has
//! no such fields.

use super::{Fault, Messages, Word, fault, lines, words};
use crate::bench::filter::{Filter, FilterSet, Masked, Ports, Prefix, Version};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_policy::model::SourceId;
use weir_policy::syntax::{Diagnostic, Span};

const FORM: &str = "a filter is `@SRC/LEN DST/LEN LOW : HIGH LOW : HIGH PROTOCOL/MASK \
                    [FLAGS/MASK]`, source ports first";

/// Reads a filter file.
pub fn parse(text: &str, source: SourceId) -> Result<FilterSet, Messages> {
    let mut messages = Messages::default();
    let mut filters = Vec::with_capacity(text.len() / 64);
    let mut version = None;
    for (start, line) in lines(text) {
        let mut reader = Reader {
            source,
            words: words(start, line).peekable(),
            end: start + line.trim_end().len(),
            rest: None,
        };
        match reader.filter() {
            Ok((filter, given)) => {
                if *version.get_or_insert(given) == given {
                    filters.push(filter);
                } else {
                    let span = Span::new(source, start, reader.end);
                    let message = format!("an {} filter among others", given.name());
                    let help = "put IPv4 and IPv6 filters into files of their own";
                    messages.add(*fault(span, "mixed-families", message, help));
                }
            }
            Err(message) => messages.add(*message),
        }
    }
    if filters.is_empty() && messages.count == 0 {
        let span = Span::new(source, 0, 0);
        messages.add(*fault(span, "empty", "no filter in the file".into(), FORM));
    }
    if messages.count > 0 {
        return Err(messages);
    }
    Ok(FilterSet {
        version: version.unwrap_or(Version::V4),
        filters,
    })
}

struct Reader<'t, I: Iterator<Item = Word<'t>>> {
    source: SourceId,
    words: std::iter::Peekable<I>,
    end: usize,
    /// What is left of a word that was cut at a colon.
    rest: Option<Word<'t>>,
}

impl<'t, I: Iterator<Item = Word<'t>>> Reader<'t, I> {
    fn filter(&mut self) -> Result<(Filter, Version), Fault> {
        let word = self.word("a source prefix")?;
        let Some(text) = word.text.strip_prefix('@') else {
            let message = format!("`{}` does not begin with `@`", word.text);
            return Err(fault(word.span(self.source), "no-filter", message, FORM));
        };
        let word = Word {
            text,
            start: word.start + 1,
        };
        let (src, version) = self.prefix(word)?;
        let word = self.word("a destination prefix")?;
        let (dst, second) = self.prefix(word)?;
        if second != version {
            let message = "source and destination are of different families".into();
            return Err(fault(
                word.span(self.source),
                "mixed-families",
                message,
                FORM,
            ));
        }
        let src_port = self.ports("source")?;
        let dst_port = self.ports("destination")?;
        let word = self.word("a protocol with its mask")?;
        let proto = self.masked(word, 0xff, "protocol")?;
        let flags = match self.next() {
            Some(word) => self.masked(word, 0xffff, "flags")?,
            None => Masked { value: 0, mask: 0 },
        };
        while let Some(word) = self.next() {
            self.extra(word)?;
        }
        let filter = Filter {
            src,
            dst,
            src_port,
            dst_port,
            proto: Masked {
                value: proto.value as u8,
                mask: proto.mask as u8,
            },
            flags,
        };
        Ok((filter, version))
    }

    fn next(&mut self) -> Option<Word<'t>> {
        self.rest.take().or_else(|| self.words.next())
    }

    fn word(&mut self, what: &str) -> Result<Word<'t>, Fault> {
        let end = Span::new(self.source, self.end, self.end);
        let missing = || fault(end, "missing", format!("{what} is missing"), FORM);
        self.next().ok_or_else(missing)
    }

    fn prefix(&self, word: Word) -> Result<(Prefix, Version), Fault> {
        let bad = |message: String| {
            let help = "an address is written as 192.0.2.0/24 or 2001:db8::/32";
            fault(word.span(self.source), "bad-prefix", message, help)
        };
        let Some((address, length)) = word.text.split_once('/') else {
            return Err(bad(format!("`{}` has no prefix length", word.text)));
        };
        let (address, version) = if let Ok(v4) = address.parse::<Ipv4Addr>() {
            (u128::from(u32::from(v4)), Version::V4)
        } else if let Ok(v6) = address.parse::<Ipv6Addr>() {
            (u128::from(v6), Version::V6)
        } else {
            return Err(bad(format!("`{address}` is no address")));
        };
        match length.parse::<u8>() {
            Ok(length) if length <= version.width() => {
                Ok((Prefix::around(address, length, version), version))
            }
            _ => {
                let most = version.width();
                Err(bad(format!(
                    "`{length}` is no prefix length from 0 to {most}"
                )))
            }
        }
    }

    /// `LOW : HIGH`, the colon with or without blanks around it.
    fn ports(&mut self, side: &str) -> Result<Ports, Fault> {
        let low = self.word(&format!("the lowest {side} port"))?;
        let first = self.cut(low);
        let first = self.port(first)?;
        let colon = self.word("the colon of a port range")?;
        if !colon.text.starts_with(':') {
            let message = format!("`{}` stands where a colon belongs", colon.text);
            return Err(fault(colon.span(self.source), "no-colon", message, FORM));
        }
        if colon.text.len() > 1 {
            self.rest = Some(Word {
                text: &colon.text[1..],
                start: colon.start + 1,
            });
        }
        let high = self.word(&format!("the highest {side} port"))?;
        let last = self.port(high)?;
        if first > last {
            let span = low.span(self.source).to(high.span(self.source));
            let message = format!("the range from {first} to {last} is empty");
            return Err(fault(
                span,
                "empty-range",
                message,
                "the lower port comes first",
            ));
        }
        Ok(Ports { first, last })
    }

    /// The part of a word before its colon; the rest is the next word.
    fn cut(&mut self, word: Word<'t>) -> Word<'t> {
        match word.text.find(':') {
            Some(at) if at > 0 => {
                self.rest = Some(Word {
                    text: &word.text[at..],
                    start: word.start + at,
                });
                Word {
                    text: &word.text[..at],
                    ..word
                }
            }
            _ => word,
        }
    }

    fn port(&self, word: Word) -> Result<u16, Fault> {
        word.text.parse().map_err(|_| {
            let message = format!("`{}` is no port", word.text);
            let help = "a port is a decimal number from 0 to 65535";
            fault(word.span(self.source), "bad-port", message, help)
        })
    }

    fn masked(&self, word: Word, most: u16, what: &str) -> Result<Masked<u16>, Fault> {
        let bad = |message: String| {
            let help = "write VALUE/MASK, each as 0x06 or as 6; mask 0x00 means any";
            fault(word.span(self.source), "bad-mask", message, help)
        };
        let number = |text: &str| {
            let value = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
                Some(digits) => u16::from_str_radix(digits, 16),
                None => text.parse::<u16>(),
            };
            value.ok().filter(|value| *value <= most)
        };
        let Some((value, mask)) = word.text.split_once('/') else {
            return Err(bad(format!("`{}` has no mask: no {what}", word.text)));
        };
        let (Some(value), Some(mask)) = (number(value), number(mask)) else {
            let message = format!("`{}` is no {what} up to {most:#x}/{most:#x}", word.text);
            return Err(bad(message));
        };
        if value & !mask != 0 {
            let message = format!("`{}` has bits outside its mask: it never holds", word.text);
            return Err(bad(message));
        }
        Ok(Masked { value, mask })
    }

    fn extra(&self, word: Word) -> Result<(), Fault> {
        let span = word.span(self.source);
        match word.text.parse::<u32>() {
            Ok(0) => Ok(()),
            Ok(_) => {
                let message = "an extra field that is not a wildcard";
                let help = "weir has five fields and flags; generate the set without `-extra`";
                Err(Box::new(Diagnostic::unsupported(span, message).help(help)))
            }
            Err(_) => {
                let message = format!("`{}` after the end of a filter", word.text);
                Err(fault(span, "trailing", message, FORM))
            }
        }
    }
}
