//! Trace files: one packet a line, decimal numbers between tabs or blanks.
//!
//! Columns: source address, destination address, source port, destination port, protocol; then,
//! by how many columns there are:
//!
//! | columns | after the protocol |
//! |---|---|
//! | 5 | nothing |
//! | 6 | the filter that the packet was made for |
//! | 7 and more | the flags column, extra fields, the filter last |
//!
//! The filter is counted from 0, as trace_generator does. Its flags column is one number,
//! `flags << 16 | mask` of the filter, or all zeros or all ones for a filter without flags. Every
//! line has as many columns as the first. Addresses may also be written as addresses.

use super::{Fault, Messages, Word, fault, lines, words};
use crate::bench::filter::{Packet, Trace, Version};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_policy::model::SourceId;
use weir_policy::syntax::Span;

const FORM: &str = "a packet is `SRC DST SPORT DPORT PROTOCOL [FLAGS [EXTRA...]] [FILTER]`, \
                    decimal numbers";
/// More columns than any generator writes.
const COLUMNS_MAX: usize = 32;

/// Reads a trace for filters of this kind; `filters` is how many there are.
pub fn parse(
    text: &str,
    source: SourceId,
    version: Version,
    filters: usize,
) -> Result<Trace, Messages> {
    let mut messages = Messages::default();
    let mut trace = Trace::default();
    let mut columns = None;
    let mut line_words = Vec::with_capacity(COLUMNS_MAX);
    for (start, line) in lines(text) {
        line_words.clear();
        line_words.extend(words(start, line).take(COLUMNS_MAX));
        let reader = Reader {
            source,
            version,
            filters,
            end: Span::new(source, start, start + line.trim_end().len()),
        };
        let expected = *columns.get_or_insert(line_words.len());
        match reader.packet(&line_words, expected) {
            Ok((packet, made_for)) => {
                trace.packets.push(packet);
                trace.made_for.extend(made_for);
            }
            Err(message) => messages.add(*message),
        }
    }
    if trace.packets.is_empty() && messages.count == 0 {
        let span = Span::new(source, 0, 0);
        messages.add(*fault(span, "empty", "no packet in the file".into(), FORM));
    }
    match messages.count {
        0 => Ok(trace),
        _ => Err(messages),
    }
}

struct Reader {
    source: SourceId,
    version: Version,
    filters: usize,
    /// The whole line.
    end: Span,
}

impl Reader {
    fn packet(&self, words: &[Word], expected: usize) -> Result<(Packet, Option<u32>), Fault> {
        if words.len() < 5 || words.len() != expected {
            let message = match words.len() {
                count if count < 5 => format!("{count} columns, and a packet has at least 5"),
                count => format!("{count} columns, and the lines before have {expected}"),
            };
            return Err(fault(self.end, "columns", message, FORM));
        }
        let packet = Packet {
            src: self.address(words[0])?,
            dst: self.address(words[1])?,
            src_port: self.number(words[2], u64::from(u16::MAX), "port")? as u16,
            dst_port: self.number(words[3], u64::from(u16::MAX), "port")? as u16,
            proto: self.number(words[4], 255, "protocol")? as u8,
            flags: match words.len() {
                0..7 => 0,
                _ => (self.number(words[5], u64::from(u32::MAX), "flags column")? >> 24) as u8,
            },
        };
        let most = self.filters.saturating_sub(1) as u64;
        let made_for = match words {
            [_, _, _, _, _] => None,
            [.., last] => Some(self.number(*last, most, "filter of the file")? as u32),
            [] => None,
        };
        for word in words.get(6..words.len() - 1).unwrap_or_default() {
            self.number(*word, u64::from(u32::MAX), "extra field")?;
        }
        Ok((packet, made_for))
    }

    fn number(&self, word: Word, most: u64, what: &str) -> Result<u64, Fault> {
        match word.text.parse::<u64>() {
            Ok(value) if value <= most => Ok(value),
            _ => {
                let message = format!("`{}` is no {what}: 0 to {most}", word.text);
                Err(fault(word.span(self.source), "bad-number", message, FORM))
            }
        }
    }

    fn address(&self, word: Word) -> Result<u128, Fault> {
        let text = word.text;
        let found = match self.version {
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            Version::V4 => text.parse().map(|v4: Ipv4Addr| u32::from(v4).into()).ok(),
            Version::V6 => text.parse().map(|v6: Ipv6Addr| u128::from(v6)).ok(),
        };
        found
            .filter(|address| *address <= self.version.last())
            .ok_or_else(|| {
                let message = format!("`{text}` is no {} address", self.version.name());
                fault(word.span(self.source), "bad-address", message, FORM)
            })
    }
}
