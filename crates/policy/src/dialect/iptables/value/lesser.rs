//! Values of modules that few rules use: search patterns, tests of words, lists of headers.
//!
//! Types and their text; reading is in `parse::lesser`. Source: iptables-extensions(8), and what
//! `iptables-legacy-save` 1.8.9 prints.

use crate::model::{WordStep, WordTest};
use std::fmt::Write;

/// Tests that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct U32 {
    /// The tests.
    pub tests: Vec<WordTest>,
}

/// IPv6 extension headers as `-m ipv6header` names them: long name, short name, number, bit n is
/// row n. What is left of a packet behind its extension headers has the number 255.
#[rustfmt::skip]
pub static HEADERS: &[(&str, &str, u8)] = &[
    ("hop-by-hop", "hop", 0), ("ipv6-opts", "dst", 60), ("ipv6-route", "route", 43),
    ("ipv6-frag", "frag", 44), ("ah", "auth", 51), ("esp", "esp", 50), ("ipv6-nonxt", "none", 59),
    ("protocol", "prot", 255),
];

/// Types of the mobility header (RFC 6275), by number: long and short name.
#[rustfmt::skip]
pub static MH_TYPES: &[(&str, &str)] = &[
    ("binding-refresh-request", "brr"), ("home-test-init", "hoti"), ("careof-test-init", "coti"),
    ("home-test", "hot"), ("careof-test", "cot"), ("binding-update", "bu"),
    ("binding-acknowledgement", "ba"), ("binding-error", "be"),
];

/// Whether a pattern is printed as a text and not in hexadecimal.
#[must_use]
pub fn is_readable(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("writing to a string cannot fail");
}

pub(super) fn pattern_text(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    if !is_readable(bytes) {
        out.push('|');
        for byte in bytes {
            put(&mut out, format_args!("{byte:02x}"));
        }
        return out + "|\"";
    }
    for &byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            out.push('\\');
        }
        out.push(char::from(byte));
    }
    out.push('"');
    out
}

pub(super) fn u32_text(tests: &U32) -> String {
    let mut out = String::from("\"");
    for (index, test) in tests.tests.iter().enumerate() {
        let and = if index == 0 { "" } else { "&&" };
        put(&mut out, format_args!("{and}{:#x}", test.start));
        for step in &test.steps {
            let (sign, number) = match step {
                WordStep::And(number) => ("&", number),
                WordStep::Left(number) => ("<<", number),
                WordStep::Right(number) => (">>", number),
                WordStep::At(number) => ("@", number),
            };
            put(&mut out, format_args!("{sign}{number:#x}"));
        }
        for (index, &(first, last)) in test.ranges.iter().enumerate() {
            out.push(if index == 0 { '=' } else { ',' });
            match first == last {
                true => put(&mut out, format_args!("{first:#x}")),
                false => put(&mut out, format_args!("{first:#x}:{last:#x}")),
            }
        }
    }
    out.push('"');
    out
}

pub(super) fn headers_text(bits: u64) -> String {
    let named = HEADERS
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1);
    named.map(|(_, row)| row.0).collect::<Vec<_>>().join(",")
}

/// Microseconds in the largest unit that leaves a number of at least 1.
pub(super) fn span_text(microseconds: u64) -> String {
    let (size, unit) = match microseconds {
        1_000_000.. => (1_000_000, "s"),
        1000.. => (1000, "ms"),
        _ => return format!("{microseconds}us"),
    };
    let tenths = (microseconds * 10 + size / 2) / size;
    format!("{}.{}{unit}", tenths / 10, tenths % 10)
}

pub(super) fn bits_text(bits: &[u64; 4]) -> String {
    let set = (0..256usize).filter(|number| bits[number / 64] >> (number % 64) & 1 == 1);
    set.map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(",")
}
