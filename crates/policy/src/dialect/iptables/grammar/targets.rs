//! The target modules whose options are typed, options in the order in which they are printed.

use super::super::names::protocols::TCP;
use super::super::names::small;
use super::super::value::{Kind, MarkForm};
use super::{ModuleSpec, OptionSpec, Role, module, option};
use crate::model::{Family, Hook, Table};

const fn t(name: &'static str, options: &'static [OptionSpec]) -> ModuleSpec {
    module(name, Role::Target, options)
}

const U32: u64 = u32::MAX as u64;

/// All of them.
pub static TARGETS: &[ModuleSpec] = &[
    t("REJECT", &[option("reject-with", Kind::Reject)])
        .in_tables(&[Table::Filter])
        .at_hooks(&[Hook::Input, Hook::Forward, Hook::Output]),
    t("LOG", LOG_OPTIONS),
    t("NFLOG", NFLOG_OPTIONS),
    t("MARK", MARK_OPTIONS),
    t("CONNMARK", CONNMARK_OPTIONS),
    t("CT", CT_OPTIONS).in_tables(&[Table::Raw]),
    t("NOTRACK", &[]).in_tables(&[Table::Raw]),
    t("DSCP", DSCP_OPTIONS).in_tables(&[Table::Mangle]),
    t("TOS", TOS_OPTIONS).in_tables(&[Table::Mangle]),
    t("TTL", TTL_OPTIONS)
        .only(Family::V4)
        .in_tables(&[Table::Mangle]),
    t("HL", HL_OPTIONS)
        .only(Family::V6)
        .in_tables(&[Table::Mangle]),
    t("CLASSIFY", &[option("set-class", Kind::Class)]).at_hooks(&[
        Hook::Forward,
        Hook::Output,
        Hook::Postrouting,
    ]),
    t("TCPMSS", TCPMSS_OPTIONS).with_protocols(&[TCP]),
    t("CHECKSUM", &[option("checksum-fill", Kind::Flag)]).in_tables(&[Table::Mangle]),
    t("TRACE", &[]).in_tables(&[Table::Raw]),
    t("SET", SET_OPTIONS).kept_as_written(),
    t("SYNPROXY", SYNPROXY_OPTIONS)
        .with_protocols(&[TCP])
        .at_hooks(&[Hook::Input, Hook::Forward]),
    t("DNAT", DNAT_OPTIONS)
        .in_tables(&[Table::Nat])
        .at_hooks(&[Hook::Prerouting, Hook::Output]),
    t("SNAT", SNAT_OPTIONS)
        .in_tables(&[Table::Nat])
        .at_hooks(&[Hook::Postrouting, Hook::Input]),
    t("MASQUERADE", MASQUERADE_OPTIONS)
        .in_tables(&[Table::Nat])
        .at_hooks(&[Hook::Postrouting]),
    t("REDIRECT", REDIRECT_OPTIONS)
        .in_tables(&[Table::Nat])
        .at_hooks(&[Hook::Prerouting, Hook::Output]),
    t("NETMAP", &[option("to", Kind::NetmapTo)])
        .in_tables(&[Table::Nat])
        .at_hooks(&[
            Hook::Prerouting,
            Hook::Input,
            Hook::Output,
            Hook::Postrouting,
        ]),
];

/// Longer prefixes are read and then cut, as iptables does (`parse/canonical.rs`); this bound is
/// only against nonsense.
const PREFIX_READ_MAX: usize = 255;

const LOG_OPTIONS: &[OptionSpec] = &[
    option("log-prefix", Kind::Text(1, PREFIX_READ_MAX)),
    option("log-level", Kind::LogLevel),
    option("log-tcp-sequence", Kind::Flag),
    option("log-tcp-options", Kind::Flag),
    option("log-ip-options", Kind::Flag),
    option("log-uid", Kind::Flag),
    option("log-macdecode", Kind::Flag),
];

const NFLOG_OPTIONS: &[OptionSpec] = &[
    option("nflog-prefix", Kind::Text(1, PREFIX_READ_MAX)),
    option("nflog-group", Kind::Number(0, 65_535)),
    option("nflog-range", Kind::Number(0, U32)),
    option("nflog-size", Kind::Number(0, U32)),
    option("nflog-threshold", Kind::Number(0, 65_535)),
];

const MARK_OPTIONS: &[OptionSpec] = &[
    option("set-xmark", Kind::SetMark(MarkForm::Xor)),
    option("set-mark", Kind::SetMark(MarkForm::Set)).for_option("set-xmark"),
    option("and-mark", Kind::SetMark(MarkForm::And)).for_option("set-xmark"),
    option("or-mark", Kind::SetMark(MarkForm::Or)).for_option("set-xmark"),
    option("xor-mark", Kind::SetMark(MarkForm::Flip)).for_option("set-xmark"),
];

const CONNMARK_OPTIONS: &[OptionSpec] = &[
    option("set-xmark", Kind::SetMark(MarkForm::Xor)),
    option("set-mark", Kind::SetMark(MarkForm::Set)).for_option("set-xmark"),
    option("and-mark", Kind::SetMark(MarkForm::And)).for_option("set-xmark"),
    option("or-mark", Kind::SetMark(MarkForm::Or)).for_option("set-xmark"),
    option("xor-mark", Kind::SetMark(MarkForm::Flip)).for_option("set-xmark"),
    option("left-shift-mark", Kind::Number(0, 31)),
    option("right-shift-mark", Kind::Number(0, 31)),
    option("save-mark", Kind::Flag),
    option("restore-mark", Kind::Flag),
    option("nfmask", Kind::Mask),
    option("ctmask", Kind::Mask),
    option("mask", Kind::Mask),
];

const CT_OPTIONS: &[OptionSpec] = &[
    option("notrack", Kind::Flag),
    option("helper", Kind::Text(1, 15)),
    option("timeout", Kind::Text(1, 31)),
    option("ctevents", Kind::Names(small::CT_EVENTS)),
    option("expevents", Kind::Names(&["new"])),
    option("zone-orig", Kind::Zone),
    option("zone-reply", Kind::Zone),
    option("zone", Kind::Zone),
];

const DSCP_OPTIONS: &[OptionSpec] = &[
    option("set-dscp", Kind::Hex(63)),
    option("set-dscp-class", Kind::DscpClass).for_option("set-dscp"),
];

const TOS_OPTIONS: &[OptionSpec] = &[
    option("set-tos", Kind::SetTos(MarkForm::Xor)),
    option("and-tos", Kind::SetTos(MarkForm::And)).for_option("set-tos"),
    option("or-tos", Kind::SetTos(MarkForm::Or)).for_option("set-tos"),
    option("xor-tos", Kind::SetTos(MarkForm::Flip)).for_option("set-tos"),
];

const TTL_OPTIONS: &[OptionSpec] = &[
    option("ttl-set", Kind::Number(0, 255)),
    option("ttl-dec", Kind::Number(1, 255)),
    option("ttl-inc", Kind::Number(1, 255)),
];

const HL_OPTIONS: &[OptionSpec] = &[
    option("hl-set", Kind::Number(0, 255)),
    option("hl-dec", Kind::Number(1, 255)),
    option("hl-inc", Kind::Number(1, 255)),
];

const TCPMSS_OPTIONS: &[OptionSpec] = &[
    option("set-mss", Kind::Number(0, 65_535)),
    option("clamp-mss-to-pmtu", Kind::Flag),
];

const SET_OPTIONS: &[OptionSpec] = &[
    option("add-set", Kind::Set),
    option("del-set", Kind::Set),
    option("map-set", Kind::Set),
    option("timeout", Kind::Number(0, U32)),
    option("exist", Kind::Flag),
    option("map-mark", Kind::Flag),
    option("map-prio", Kind::Flag),
    option("map-queue", Kind::Flag),
];

const SYNPROXY_OPTIONS: &[OptionSpec] = &[
    option("sack-perm", Kind::Flag),
    option("timestamp", Kind::Flag),
    option("wscale", Kind::Number(0, 255)),
    option("mss", Kind::Number(0, 65_535)),
    option("ecn", Kind::Flag),
];

const DNAT_OPTIONS: &[OptionSpec] = &[
    option("to-destination", Kind::NatTo),
    option("random", Kind::Flag),
    option("persistent", Kind::Flag),
];

const SNAT_OPTIONS: &[OptionSpec] = &[
    option("to-source", Kind::NatTo),
    option("random", Kind::Flag),
    option("random-fully", Kind::Flag),
    option("persistent", Kind::Flag),
];

const MASQUERADE_OPTIONS: &[OptionSpec] = &[
    option("to-ports", Kind::NatPorts),
    option("random", Kind::Flag),
    option("random-fully", Kind::Flag),
];

const REDIRECT_OPTIONS: &[OptionSpec] = &[
    option("to-ports", Kind::NatPorts),
    option("random", Kind::Flag),
];
