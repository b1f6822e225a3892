//! Tests of what the kernel knows beside headers, of bytes, and of what few ask of headers, for the
//! image.
//!
//! Steps on words become one flat list; a text becomes the automaton of Knuth, Morris and Pratt
//! with all its transitions written out, so that a byte costs two reads whatever the text is.

use super::residual::Blob;
use crate::image::aside::{
    ASIDE_CLASS, ASIDE_CONTROL_GROUP, ASIDE_CPU, ASIDE_ETHERNET_AMONG, ASIDE_ETHERNET_BARE,
    ASIDE_ETHERNET_MASKED, ASIDE_ETHERNET_TYPE, ASIDE_EXTENSIONS, ASIDE_GROUP_IN, ASIDE_GROUP_OUT,
    ASIDE_GROUPS, ASIDE_HEADER, ASIDE_HEADERS, ASIDE_IP_OPTIONS, ASIDE_NAME_IN, ASIDE_NAME_OUT,
    ASIDE_PORT_IN, ASIDE_PORT_OUT, ASIDE_REALM, ASIDE_SOCKET, ASIDE_TCP, ASIDE_TEXT, ASIDE_WORDS,
    Glob, PortName, TCP_ACKNOWLEDGEMENT, TCP_DATA, TCP_SEQUENCE, TCP_WINDOW, TEXT_MAX, TextTable,
    WORD_AND, WORD_AT, WORD_IN, WORD_IN_LAST, WORD_LEFT, WORD_OPS_MAX, WORD_READ, WORD_RIGHT,
    WordOp,
};
use crate::image::layout::{self, Test};
use weir_policy::eval::ipfw::glob;
use weir_policy::model::{
    Aside, BROKEN_OPTIONS, Ethernet, IfPattern, TcpNumber, TextSearch, WordStep, WordTest,
};
use zerocopy::IntoBytes;

/// Writes a test; an error says what does not fit.
pub fn test(aside: &Aside, out: &mut Test, blob: &mut Blob) -> Result<(), &'static str> {
    out.kind = layout::TEST_ASIDE;
    match aside {
        Aside::Socket => out.small = ASIDE_SOCKET,
        Aside::Groups(range) => {
            (out.small, out.a, out.b) = (ASIDE_GROUPS, range.first, range.last);
        }
        Aside::Class(class) => (out.small, out.a) = (ASIDE_CLASS, *class),
        Aside::Group { id, level } => {
            (out.small, out.count) = (ASIDE_CONTROL_GROUP, *level);
            (out.a, out.b) = (*id as u32, (id >> 32) as u32);
        }
        Aside::Cpu(cpu) => (out.small, out.a) = (ASIDE_CPU, *cpu),
        Aside::DeviceGroup {
            out: way,
            value,
            mask,
        } => {
            out.small = if *way {
                ASIDE_GROUP_OUT
            } else {
                ASIDE_GROUP_IN
            };
            (out.a, out.b) = (*value, *mask);
        }
        Aside::Realm { value, mask } => (out.small, out.a, out.b) = (ASIDE_REALM, *value, *mask),
        Aside::Port { out: way, name } => {
            out.small = if *way { ASIDE_PORT_OUT } else { ASIDE_PORT_IN };
            if let Some(pattern) = name {
                out.at = blob.add(port_name(pattern).as_bytes());
            }
        }
        Aside::Ethernet(asked) => ethernet(asked, out, blob),
        Aside::Name { out: way, pattern } => {
            out.small = if *way { ASIDE_NAME_OUT } else { ASIDE_NAME_IN };
            let Some(places) = glob::automaton(pattern) else {
                return Err("a pattern that no name is long enough for");
            };
            let record = Glob {
                stars: places.stars,
                length: places.length,
                padding: 0,
                masks: places.masks,
            };
            out.at = blob.add(record.as_bytes());
        }
        Aside::Words(tests) => {
            let ops = word_ops(tests);
            if ops.len() > WORD_OPS_MAX {
                return Err("so many steps on words");
            }
            out.small = match aside.reads_payload() {
                true => ASIDE_WORDS,
                false => ASIDE_HEADER,
            };
            (out.at, out.count) = (blob.add(ops.as_bytes()), ops.len() as u32);
        }
        Aside::Text(search) => {
            if !(1..=TEXT_MAX).contains(&search.pattern.len()) {
                return Err("a text of this length");
            }
            (out.small, out.at) = (ASIDE_TEXT, blob.add(&text_table(search)));
        }
        Aside::Tcp(number, ranges) => {
            (out.small, out.a) = (ASIDE_TCP, tcp_number(*number));
            (out.at, out.count) = blob.pairs(ranges);
        }
        Aside::IpOptions { value, mask } => {
            out.small = ASIDE_IP_OPTIONS;
            (out.a, out.b) = (u32::from(*value), u32::from(mask | BROKEN_OPTIONS));
        }
        Aside::Headers { value, mask } => {
            out.small = ASIDE_HEADERS;
            (out.a, out.b) = (u32::from(*value), u32::from(*mask));
        }
        Aside::Extensions(bits) => (out.small, out.a) = (ASIDE_EXTENSIONS, u32::from(*bits)),
    }
    Ok(())
}

fn tcp_number(number: TcpNumber) -> u32 {
    match number {
        TcpNumber::Sequence => TCP_SEQUENCE,
        TcpNumber::Acknowledgement => TCP_ACKNOWLEDGEMENT,
        TcpNumber::Window => TCP_WINDOW,
        TcpNumber::Data => TCP_DATA,
    }
}

fn port_name(pattern: &IfPattern) -> PortName {
    let mut name = PortName::default();
    let bytes = &pattern.name.as_bytes()[..pattern.name.len().min(15)];
    name.value[..bytes.len()].copy_from_slice(bytes);
    let counted = if pattern.prefix { bytes.len() } else { 16 };
    name.mask[..counted].fill(0xff);
    name
}

fn ethernet(asked: &Ethernet, out: &mut Test, blob: &mut Blob) {
    match asked {
        Ethernet::Bare => out.small = ASIDE_ETHERNET_BARE,
        Ethernet::Type(kinds) => {
            out.small = ASIDE_ETHERNET_TYPE;
            (out.at, out.count) = blob.pairs(kinds);
        }
        Ethernet::Masked {
            source,
            value,
            mask,
        } => {
            (out.small, out.a) = (ASIDE_ETHERNET_MASKED, u32::from(*source));
            out.at = blob.add([*value, *mask].as_bytes());
        }
        Ethernet::Among { source, addresses } => {
            (out.small, out.a) = (ASIDE_ETHERNET_AMONG, u32::from(*source));
            let pairs = addresses.ranges().iter();
            let pairs: Vec<[u64; 2]> = pairs.map(|r| [r.0 as u64, r.1 as u64]).collect();
            (out.at, out.count) = (blob.add(pairs.as_bytes()), pairs.len() as u32);
        }
    }
}

fn word_ops(tests: &[WordTest]) -> Vec<WordOp> {
    let op = |kind, a, b| WordOp {
        kind,
        a,
        b,
        padding: 0,
    };
    let mut ops = Vec::new();
    for test in tests {
        ops.push(op(WORD_READ, test.start, 0));
        ops.extend(test.steps.iter().map(|step| match *step {
            WordStep::And(a) => op(WORD_AND, a, 0),
            WordStep::Left(a) => op(WORD_LEFT, a, 0),
            WordStep::Right(a) => op(WORD_RIGHT, a, 0),
            WordStep::At(a) => op(WORD_AT, a, 0),
        }));
        ops.extend(
            test.ranges
                .iter()
                .map(|range| op(WORD_IN, range.0, range.1)),
        );
        if let Some(last) = ops.last_mut() {
            last.kind = match test.ranges.is_empty() {
                // No range at all: none holds.
                true => return vec![op(WORD_IN_LAST, 1, 0)],
                false => WORD_IN_LAST,
            };
        }
    }
    ops
}

/// The automaton of a text: its head, classes of bytes, rows.
fn text_table(search: &TextSearch) -> Vec<u8> {
    let fold = |byte: u8| match search.ignore_case {
        true => byte.to_ascii_lowercase(),
        false => byte,
    };
    let pattern: Vec<u8> = search.pattern.iter().map(|byte| fold(*byte)).collect();
    let mut letters = pattern.clone();
    letters.sort_unstable();
    letters.dedup();
    // Class 0: bytes that are not in the pattern.
    let class = |byte: u8| letters.binary_search(&fold(byte)).map_or(0, |at| at + 1);
    let classes = letters.len() + 1;
    let mut rows = vec![0u8; pattern.len() * classes];
    // Where a state falls back to; the state behind it is worked out before.
    let mut back = 0;
    for state in 0..pattern.len() {
        let wanted = class(pattern[state]);
        for next in 0..classes {
            rows[state * classes + next] = match (next == wanted, state) {
                (true, _) => state as u8 + 1,
                (false, 0) => 0,
                (false, _) => rows[back * classes + next],
            };
        }
        if state > 0 {
            back = usize::from(rows[back * classes + wanted]);
        }
    }
    let head = TextTable {
        from: search.from,
        to: search.to,
        length: pattern.len() as u32,
        classes: classes as u32,
    };
    let mut out = head.as_bytes().to_vec();
    out.extend((0..=255u8).map(|byte| class(byte) as u8));
    out.extend(rows);
    out
}
