//! Modules that few rules use: most are known by name and options and weir cannot honour them.
//!
//! Their options are read and printed as `iptables-save` prints them; lowering refuses by name what
//! isn't honoured. The words of modules that no kernel at hand has are kept as written.

use super::super::names::protocols::{IPCOMP, MOBILITY, TCP, UDP};
use super::super::value::Kind;
use super::{ModuleSpec, OptionSpec, Role, module, option};
use crate::model::{Family, Hook, Table};

const fn km(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Match, options).known()
}

/// A module that weir honours.
const fn tm(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Match, options)
}

const fn kt(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Target, options).known()
}

/// An option without value.
const fn f(name: &'static str) -> OptionSpec {
    option(name, Kind::Flag)
}

/// An option with a number up to this.
const fn n(name: &'static str, most: u64) -> OptionSpec {
    option(name, Kind::Number(0, most))
}

/// An option of a kind.
const fn k(name: &'static str, kind: Kind) -> OptionSpec {
    option(name, kind)
}

const U32: u64 = u32::MAX as u64;
const AUDIT_TYPES: &[&str] = &["accept", "drop", "reject"];
const HMARK_FIELDS: &[&str] = &["src", "dst", "sport", "dport", "spi", "proto", "ct"];

/// An option with one word.
const fn w(name: &'static str) -> OptionSpec {
    option(name, Kind::Words(1))
}

/// All of them.
#[rustfmt::skip]
pub static KNOWN: &[ModuleSpec] = &[
    tm("string", &[
        k("string", Kind::Pattern(false)).not(), k("hex-string", Kind::Pattern(true)).not(),
        k("algo", Kind::Choice(&["bm", "kmp"])), n("from", 65_535), n("to", 65_535), f("icase"),
    ]),
    tm("u32", &[k("u32", Kind::U32).not()]),
    km("bpf", &[w("object-pinned"), k("bytecode", Kind::Quoted(65_535))]),
    tm("cgroup", &[k("path", Kind::Text(0, 511)).not(), n("cgroup", U32).not()]),
    km("cluster", &[
        n("cluster-local-node", 32).not(),
        k("cluster-local-nodemask", Kind::Padded(8)).not(),
        option("cluster-total-nodes", Kind::Number(1, 32)),
        k("cluster-hash-seed", Kind::Padded(8)),
    ]),
    km("connbytes", &[
        k("connbytes", Kind::Wide).not(),
        k("connbytes-mode", Kind::Choice(&["packets", "bytes", "avgpkt"])),
        k("connbytes-dir", Kind::Choice(&["original", "reply", "both"])),
    ]),
    km("connlabel", &[k("label", Kind::Quoted(256)).not(), f("set")]),
    tm("cpu", &[n("cpu", U32).not()]),
    tm("devgroup", &[
        k("src-group", Kind::Named("default")).not(),
        k("dst-group", Kind::Named("default")).not(),
    ]),
    km("helper", &[k("helper", Kind::Text(0, 255)).not()]),
    km("ipcomp", &[k("ipcompspi", Kind::Range(u32::MAX)).not(), f("compres")])
        .with_protocols(&[IPCOMP]),
    km("ipvs", &[
        f("ipvs").not(), w("vproto").not(), w("vaddr").not(), w("vport").not(), w("vdir"),
        w("vmethod").not(), w("vportctl").not(),
    ]).kept_as_written(),
    km("l2tp", &[w("tid"), w("sid"), w("pversion"), w("type")]).kept_as_written(),
    km("nfacct", &[w("nfacct-name")]),
    km("osf", &[w("genre").not(), n("ttl", 2), n("log", 2)]).with_protocols(&[TCP]),
    tm("quota", &[n("quota", u64::MAX).not()]),
    km("rateest", &[
        w("rateest1"), w("rateest"), f("rateest-delta"), w("rateest-bps"), w("rateest-pps"),
        w("rateest-bps1"), w("rateest-pps1"), f("rateest-lt").not(), f("rateest-gt").not(),
        f("rateest-eq").not(), w("rateest2"), w("rateest-bps2"), w("rateest-pps2"),
    ]).kept_as_written(),
    tm("realm", &[k("realm", Kind::Named("cosmos")).not()]).only(Family::V4),
    km("socket", &[f("transparent"), f("nowildcard"), f("restore-skmark")])
        .at_hooks(&[Hook::Prerouting, Hook::Input]),
    km("dst", &[n("dst-len", U32).not(), k("dst-opts", Kind::HeaderOptions)]).only(Family::V6),
    km("hbh", &[n("hbh-len", U32).not(), k("hbh-opts", Kind::HeaderOptions)]).only(Family::V6),
    km("frag", &[
        k("fragid", Kind::Range(u32::MAX)).not(), n("fraglen", U32).not(), f("fragres"),
        f("fragfirst"), f("fragmore"), f("fraglast"),
    ]).only(Family::V6),
    km("mh", &[k("mh-type", Kind::Mobility).not()])
        .only(Family::V6)
        .with_protocols(&[MOBILITY]),
    km("srh", &[
        n("srh-next-hdr", 255).not(), n("srh-hdr-len-eq", 255).not(), n("srh-hdr-len-gt", 255).not(),
        n("srh-hdr-len-lt", 255).not(), n("srh-segs-left-eq", 255).not(),
        n("srh-segs-left-gt", 255).not(), n("srh-segs-left-lt", 255).not(),
        n("srh-last-entry-eq", 255).not(), n("srh-last-entry-gt", 255).not(),
        n("srh-last-entry-lt", 255).not(), n("srh-tag", 65_535).not(),
        k("srh-psid", Kind::Prefix).not(), k("srh-nsid", Kind::Prefix).not(),
        k("srh-lsid", Kind::Prefix).not(),
    ]).only(Family::V6),
    km("eui64", &[])
        .only(Family::V6)
        .at_hooks(&[Hook::Prerouting, Hook::Input, Hook::Forward]),

    kt("AUDIT", &[k("type", Kind::Choice(AUDIT_TYPES))]),
    kt("CLUSTERIP", &[
        f("new"), w("hashmode"), w("clustermac"), w("total-nodes"), w("local-node"), w("hash-init"),
    ]).only(Family::V4).kept_as_written(),
    kt("CONNSECMARK", &[f("save"), f("restore")]).in_tables(&[Table::Mangle, Table::Security]),
    kt("DNPT", &[w("src-pfx"), w("dst-pfx")]).only(Family::V6).in_tables(&[Table::Mangle]),
    kt("SNPT", &[w("src-pfx"), w("dst-pfx")]).only(Family::V6).in_tables(&[Table::Mangle]),
    kt("ECN", &[f("ecn-tcp-remove"), n("ecn-tcp-ece", 1), n("ecn-tcp-cwr", 1), n("ecn-ip-ect", 3)])
        .only(Family::V4)
        .in_tables(&[Table::Mangle]),
    // OpenWrt's: what follows for an established connection is left to the network card.
    kt("FLOWOFFLOAD", &[f("hw")]).in_tables(&[Table::Filter]).at_hooks(&[Hook::Forward]),
    kt("HMARK", &[
        n("hmark-src-prefix", 128), n("hmark-dst-prefix", 128),
        k("hmark-sport-mask", Kind::Padded(4)), k("hmark-dport-mask", Kind::Padded(4)),
        k("hmark-spi-mask", Kind::Padded(8)), k("hmark-sport", Kind::Padded(4)),
        k("hmark-dport", Kind::Padded(4)), k("hmark-spi", Kind::Padded(8)),
        k("hmark-proto-mask", Kind::Padded(2)), k("hmark-rnd", Kind::Padded(8)),
        option("hmark-mod", Kind::Number(1, U32)), n("hmark-offset", U32),
        k("hmark-tuple", Kind::Names(HMARK_FIELDS)),
    ]).in_tables(&[Table::Mangle]),
    kt("IDLETIMER", &[
        option("timeout", Kind::Number(1, U32)), k("label", Kind::Text(1, 255)), f("alarm"),
        f("send_nl_msg"),
    ]),
    kt("LED", &[k("led-trigger-id", Kind::Quoted(26)), w("led-delay"), f("led-always-blink")]),
    kt("NFQUEUE", &[
        n("queue-num", 65_535), k("queue-balance", Kind::Range(65_535)), f("queue-bypass"),
        f("queue-cpu-fanout"),
    ]),
    kt("QUEUE", &[]),
    kt("MIRROR", &[]).only(Family::V4),
    kt("RATEEST", &[
        w("rateest-name"), k("rateest-interval", Kind::Span), k("rateest-ewmalog", Kind::Span),
    ]),
    kt("SECMARK", &[w("selctx")]).in_tables(&[Table::Mangle, Table::Security]),
    kt("TCPOPTSTRIP", &[k("strip-options", Kind::TcpOptions)])
        .in_tables(&[Table::Mangle])
        .with_protocols(&[TCP]),
    kt("TEE", &[k("gateway", Kind::Address), k("oif", Kind::Interface)]),
    kt("TPROXY", &[
        k("on-port", Kind::Port), k("on-ip", Kind::Address), k("tproxy-mark", Kind::FullMark),
    ])
        .in_tables(&[Table::Mangle])
        .at_hooks(&[Hook::Prerouting])
        .with_protocols(&[TCP, UDP]),
    kt("ULOG", &[w("ulog-nlgroup"), w("ulog-prefix"), w("ulog-cprange"), w("ulog-qthreshold")])
        .only(Family::V4)
        .kept_as_written(),
];
