//! What ipfw takes without a sound although hardly anybody means it: the warning, and what is
//! underlined. And what it takes that looks wrong, without a warning.

use weir_policy::dialect::ipfw::{NoNames, Settings, read};
use weir_policy::model::SourceId;

/// Codes of messages with the words that they underline.
fn told(line: &str) -> Vec<(&'static str, String)> {
    let program = read(line, SourceId(0), &NoNames, Settings::default());
    let of = |found: &weir_policy::syntax::Diagnostic| {
        let (start, end) = (found.span.start as usize, found.span.end as usize);
        (found.code, line[start..end].to_owned())
    };
    program.diagnostics.iter().map(of).collect()
}

#[test]
fn traps_are_told() {
    for (line, code, underlined) in [
        // As generators wrote it for FreeBSD before 12.
        (
            "add 1 check-state ip from any to any",
            "check-state-body",
            "ip from any to any",
        ),
        (
            "add 1 check-state :web all from any to any",
            "check-state-body",
            "all from any to any",
        ),
        (
            "add 1 allow ip from any to any not { in or out }",
            "not-block",
            "not {",
        ),
        ("add 1 allow not { in or out }", "not-block", "not {"),
        (
            "add 1 deny log logamount foo ip from any to any",
            "number-read-in-part",
            "foo",
        ),
        (
            "add 1 allow ip from table(t,tablearg) to any",
            "number-read-in-part",
            "table(t,tablearg)",
        ),
        (
            "add 1 allow ip from any to any dst-ip table(t,dscp=ef)",
            "number-read-in-part",
            "table(t,dscp=ef)",
        ),
        (
            "pipe 1 config bw 1Mbit/s mask src-ip6 ffff::",
            "number-read-in-part",
            "ffff::",
        ),
        (
            "pipe 1 config bw 1Mbit/s mask src-ip 255.255.255.0",
            "number-read-in-part",
            "255.255.255.0",
        ),
        (
            "add 1 allow tcp from any 8000:0xfff0,22 to any",
            "port-mask",
            "8000:0xfff0,22",
        ),
        (
            "add 1 allow icmp from any to any icmptypes 0-8",
            "icmp-type-range",
            "0-8",
        ),
        (
            "add 1 unreach6 port ip from any to 10.0.0.0/8",
            "no-answer",
            "10.0.0.0/8",
        ),
        ("add 1 reset6 ip4 from any to me", "no-answer", "ip4"),
    ] {
        let found = told(line);
        let wanted = (code, underlined.to_owned());
        assert!(found.contains(&wanted), "{line}: {found:?}");
    }
}

#[test]
fn what_is_meant_is_not() {
    for line in [
        "add 1 deny log logamount 100 ip from any to any",
        "add 1 deny log logamount 0 ip from any to any",
        "pipe 1 config bw 1Mbit/s mask src-ip6 64 dst-ip 0xffffff00 src-port /8",
        "add 1 unreach6 port ip from any to any",
        "add 1 unreach6 port ip6 from any to any",
        "add 1 unreach6 port ip from { 10.0.0.0/8 or 2001:db8::/32 } to any",
        "add 1 unreach6 port ip from not 10.0.0.0/8 to any",
        "add 1 unreach port ip4 from any to any",
        "add 1 count",
        "add 1 return",
        "add 1 allow log",
        "1 add set 3 prob 0.5 skipto 100",
    ] {
        assert_eq!(told(line), [], "{line}");
    }
}

#[test]
fn a_routing_table_is_refused_whatever_its_number() {
    for number in ["0", "1", "99", "tablearg"] {
        let line = format!("add 1 setfib {number} ip from any to any");
        let program = read(&line, SourceId(0), &NoNames, Settings::default());
        let [found] = &program.diagnostics[..] else {
            panic!("{line}: {:?}", program.diagnostics);
        };
        assert!(found.is_unsupported(), "{found:?}");
        assert_eq!(
            &line[found.span.start as usize..found.span.end as usize],
            "setfib"
        );
    }
}
