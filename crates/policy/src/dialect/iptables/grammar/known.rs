//! Modules that are known by name and options and that weir cannot honour.
//!
//! Their words are kept as written, so that printing is the identity; lowering refuses them by
//! name.

use super::super::value::Kind;
use super::{ModuleSpec, OptionSpec, Role, module, option};
use crate::model::{Family, Hook, Table};

const fn km(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Match, options).known()
}

const fn kt(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Target, options).known()
}

/// An option without value.
const fn f(name: &'static str) -> OptionSpec {
    option(name, Kind::Flag)
}

/// An option with one word.
const fn w(name: &'static str) -> OptionSpec {
    option(name, Kind::Words(1))
}

/// All of them.
#[rustfmt::skip]
pub static KNOWN: &[ModuleSpec] = &[
    km("string", &[
        w("string").not(), w("hex-string").not(), w("algo"), w("from"), w("to"), f("icase"),
    ]),
    km("u32", &[w("u32").not()]),
    km("bpf", &[w("object-pinned"), w("bytecode")]),
    km("cgroup", &[w("path").not(), w("cgroup").not()]),
    km("cluster", &[
        w("cluster-total-nodes"), w("cluster-local-node").not(), w("cluster-local-nodemask").not(),
        w("cluster-hash-seed"),
    ]),
    km("connbytes", &[w("connbytes").not(), w("connbytes-mode"), w("connbytes-dir")]),
    km("connlabel", &[w("label").not(), f("set")]),
    km("cpu", &[w("cpu").not()]),
    km("devgroup", &[w("src-group").not(), w("dst-group").not()]),
    km("helper", &[w("helper").not()]),
    km("ipcomp", &[w("ipcompspi").not(), f("compres")]),
    km("ipvs", &[
        f("ipvs").not(), w("vproto").not(), w("vaddr").not(), w("vport").not(), w("vdir"),
        w("vmethod").not(), w("vportctl").not(),
    ]),
    km("l2tp", &[w("tid"), w("sid"), w("pversion"), w("type")]),
    km("nfacct", &[w("nfacct-name")]),
    km("osf", &[w("genre").not(), w("ttl"), w("log")]),
    km("quota", &[w("quota").not()]),
    km("rateest", &[
        w("rateest1"), w("rateest"), f("rateest-delta"), w("rateest-bps"), w("rateest-pps"),
        w("rateest-bps1"), w("rateest-pps1"), f("rateest-lt").not(), f("rateest-gt").not(),
        f("rateest-eq").not(), w("rateest2"), w("rateest-bps2"), w("rateest-pps2"),
    ]),
    km("realm", &[w("realm").not()]).only(Family::V4),
    km("socket", &[f("transparent"), f("nowildcard"), f("restore-skmark")])
        .at_hooks(&[Hook::Prerouting, Hook::Input]),
    km("dst", &[w("dst-len").not(), w("dst-opts")]).only(Family::V6),
    km("hbh", &[w("hbh-len").not(), w("hbh-opts")]).only(Family::V6),
    km("frag", &[
        w("fragid").not(), w("fraglen").not(), f("fragres"), f("fragfirst"), f("fragmore"),
        f("fraglast"),
    ]).only(Family::V6),
    km("mh", &[w("mh-type").not()]).only(Family::V6),
    km("srh", &[
        w("srh-next-hdr").not(), w("srh-hdr-len-eq").not(), w("srh-hdr-len-gt").not(),
        w("srh-hdr-len-lt").not(), w("srh-segs-left-eq").not(), w("srh-segs-left-gt").not(),
        w("srh-segs-left-lt").not(), w("srh-last-entry-eq").not(), w("srh-last-entry-gt").not(),
        w("srh-last-entry-lt").not(), w("srh-tag").not(), w("srh-psid").not(), w("srh-nsid").not(),
        w("srh-lsid").not(),
    ]).only(Family::V6),
    km("ipv6header", &[w("header").not(), f("soft")]).only(Family::V6),
    km("eui64", &[])
        .only(Family::V6)
        .at_hooks(&[Hook::Prerouting, Hook::Input, Hook::Forward]),

    kt("AUDIT", &[w("type")]),
    kt("CLUSTERIP", &[
        f("new"), w("hashmode"), w("clustermac"), w("total-nodes"), w("local-node"), w("hash-init"),
    ]).only(Family::V4),
    kt("CONNSECMARK", &[f("save"), f("restore")]).in_tables(&[Table::Mangle, Table::Security]),
    kt("DNPT", &[w("src-pfx"), w("dst-pfx")]).only(Family::V6).in_tables(&[Table::Mangle]),
    kt("SNPT", &[w("src-pfx"), w("dst-pfx")]).only(Family::V6).in_tables(&[Table::Mangle]),
    kt("ECN", &[f("ecn-tcp-remove"), w("ecn-tcp-cwr"), w("ecn-tcp-ece"), w("ecn-ip-ect")])
        .only(Family::V4)
        .in_tables(&[Table::Mangle]),
    // OpenWrt's: what follows for an established connection is left to the network card.
    kt("FLOWOFFLOAD", &[f("hw")]).in_tables(&[Table::Filter]).at_hooks(&[Hook::Forward]),
    kt("HMARK", &[
        w("hmark-tuple"), w("hmark-mod"), w("hmark-offset"), w("hmark-src-prefix"),
        w("hmark-dst-prefix"), w("hmark-sport-mask"), w("hmark-dport-mask"), w("hmark-spi-mask"),
        w("hmark-sport"), w("hmark-dport"), w("hmark-spi"), w("hmark-proto-mask"), w("hmark-rnd"),
    ]),
    kt("IDLETIMER", &[w("timeout"), w("label"), f("alarm"), f("send_nl_msg")]),
    kt("LED", &[w("led-trigger-id"), w("led-delay"), f("led-always-blink")]),
    kt("NFQUEUE", &[
        w("queue-num"), w("queue-balance"), f("queue-bypass"), f("queue-cpu-fanout"),
    ]),
    kt("QUEUE", &[]),
    kt("MIRROR", &[]).only(Family::V4),
    kt("RATEEST", &[w("rateest-name"), w("rateest-interval"), w("rateest-ewmalog")]),
    kt("SECMARK", &[w("selctx")]).in_tables(&[Table::Mangle, Table::Security]),
    kt("TCPOPTSTRIP", &[w("strip-options")]).in_tables(&[Table::Mangle]),
    kt("TEE", &[w("gateway"), w("oif")]),
    kt("TPROXY", &[w("on-port"), w("on-ip"), w("tproxy-mark")])
        .in_tables(&[Table::Mangle])
        .at_hooks(&[Hook::Prerouting]),
    kt("ULOG", &[w("ulog-nlgroup"), w("ulog-prefix"), w("ulog-cprange"), w("ulog-qthreshold")])
        .only(Family::V4),
];
