//! Accepted spellings of every typed option, with holes for random values, and what fills them.
//!
//! Shared by the identity tests (what is printed reads back) and the lowering tests (nothing that
//! is read is forgotten). `covers_every_option` in `iptables_identity.rs` fails when an option of
//! the grammar is missing here.

pub mod random;

use weir_policy::model::{Family, Table};

/// A module in a rule: what must stand before it, its name, and option lists that are right
/// together.
pub struct Spelling {
    /// `-m` or `-j`.
    pub sign: &'static str,
    pub module: &'static str,
    /// `None`: both families.
    pub family: Option<Family>,
    /// Basic options that the module needs.
    pub before: &'static str,
    /// A table and chain where it may stand.
    pub table: Table,
    pub chain: &'static str,
    pub options: &'static [&'static str],
}

const fn spelling(
    sign: &'static str,
    module: &'static str,
    before: &'static str,
    options: &'static [&'static str],
) -> Spelling {
    let (table, chain) = (Table::Filter, "FORWARD");
    Spelling {
        sign,
        module,
        family: None,
        before,
        table,
        chain,
        options,
    }
}

impl Spelling {
    const fn only(mut self, family: Family) -> Self {
        self.family = Some(family);
        self
    }

    const fn at(mut self, table: Table, chain: &'static str) -> Self {
        self.table = table;
        self.chain = chain;
        self
    }
}

const fn m(
    module: &'static str,
    before: &'static str,
    options: &'static [&'static str],
) -> Spelling {
    spelling("-m", module, before, options)
}

const fn j(
    module: &'static str,
    before: &'static str,
    options: &'static [&'static str],
) -> Spelling {
    spelling("-j", module, before, options)
}

const PORTS: &[&str] = &[
    "",
    "--sport {port}",
    "! --dport {range}",
    "--source-port {port} ! --destination-port {range}",
    "--sport :{port} --dport {port}:",
];

/// All of them.
#[rustfmt::skip]
pub static SPELLINGS: &[Spelling] = &[
    m("tcp", "-p tcp", PORTS),
    m("tcp", "-p tcp", &[
        "--syn", "! --syn", "--tcp-flags {flags} {flags}", "! --tcp-flags ALL {flags}",
        "--tcp-option {1-255}", "! --tcp-option {1-255} --dport ssh",
    ]),
    m("udp", "-p udp", PORTS),
    m("udplite", "-p udplite", PORTS),
    m("sctp", "-p sctp", PORTS),
    m("dccp", "-p dccp", PORTS),
    m("dccp", "-p dccp", &["--dccp-types REQUEST,RESPONSE", "! --dccp-option 2"]),
    m("sctp", "-p sctp", &[
        "--chunk-types any DATA,INIT", "! --chunk-types all ABORT:T,DATA:UbE",
        "--chunk-types only ALL", "--chunk-types any NONE",
        "--chunk-types any ASCONF,FORWARD_TSN",
    ]),
    m("icmp", "-p icmp", &[
        "--icmp-type any", "! --icmp-type {0-254}", "--icmp-type {0-254}/{0-255}",
        "--icmp-type echo-request", "--icmp-type host-unreachable",
    ]).only(Family::V4),
    m("icmp6", "-p ipv6-icmp", &[
        "--icmpv6-type {0-255}", "! --icmpv6-type {0-255}/{0-255}",
        "--icmpv6-type neighbor-solicitation",
    ]).only(Family::V6),
    m("esp", "-p esp", &["", "--espspi {0-65535}", "! --espspi {nums}"]),
    m("ah", "-p ah", &["", "--ahspi {0-65535}", "! --ahspi {nums}"]),
    m("ah", "-p ah", &["--ahspi 5 ! --ahlen 12 --ahres"]).only(Family::V6),
    m("multiport", "-p tcp", &[
        "--dports {portlist}", "! --sports {portlist}", "--ports {portlist}",
        "--source-ports http,{port}", "--destination-ports {range}", "--dport {portlist}",
    ]),
    m("iprange", "", &[
        "--src-range {ips}", "! --dst-range {ips}", "--src-range {ip} ! --dst-range {ips}",
    ]),
    m("mac", "", &["--mac-source {mac}", "! --mac-source {mac}"]).at(Table::Filter, "INPUT"),
    m("state", "", &["--state {states}", "! --state {states}", "--state new"]),
    m("conntrack", "", &[
        "--ctstate {states}", "! --ctstate {states}", "--ctproto tcp", "! --ctproto {1-255}",
        "--ctorigsrc {net} ! --ctorigdst {net}", "--ctreplsrc {net} --ctrepldst {ip}",
        "--ctorigsrcport {port} --ctorigdstport {range}",
        "! --ctreplsrcport {range} --ctrepldstport {port}", "--ctstatus NONE",
        "! --ctstatus ASSURED,SEEN_REPLY,EXPECTED,CONFIRMED", "--ctexpire {nums}",
        "--ctexpire {0-65535} --ctdir REPLY", "--ctdir original --ctstate NEW",
        "--ctstate SNAT,DNAT,NEW",
    ]),
    m("mark", "", &["--mark {0-65535}", "! --mark {mark}", "--mark 0xff/0xff"]),
    m("connmark", "", &["--mark {0-65535}", "! --mark {mark}"]),
    m("connlimit", "-p tcp --syn", &[
        "--connlimit-above {0-65535}", "--connlimit-upto 3 --connlimit-mask {0-32}",
        "! --connlimit-above 5 --connlimit-daddr", "! --connlimit-upto 5 --connlimit-saddr",
    ]),
    m("limit", "", &[
        "", "--limit {rate}", "--limit {rate} --limit-burst {1-255}", "--limit-burst 5",
    ]),
    m("hashlimit", "", &[
        "--hashlimit-upto {rate} --hashlimit-name a", "--hashlimit {rate} --hashlimit-name a",
        "! --hashlimit-above {rate} --hashlimit-burst {1-255} --hashlimit-mode srcip,dstport \
            --hashlimit-name b",
        "! --hashlimit-upto 60/min --hashlimit-mode srcip --hashlimit-srcmask {0-32} \
            --hashlimit-name c",
        "--hashlimit-above 512kb/s --hashlimit-mode dstip --hashlimit-dstmask {0-32} \
            --hashlimit-name d",
        "--hashlimit-above 1000b/s --hashlimit-burst 1mb --hashlimit-name e",
        "--hashlimit-upto {rate} --hashlimit-name f --hashlimit-htable-size 9 \
            --hashlimit-htable-max {1-255} --hashlimit-htable-gcinterval 77 \
            --hashlimit-htable-expire {1-255}",
        "--hashlimit-upto 5/sec --hashlimit-rate-match --hashlimit-rate-interval 3 \
            --hashlimit-name g",
    ]),
    m("recent", "", &[
        "--set", "! --set --name {word} --rdest", "--rcheck --seconds {1-255} --hitcount {1-255}",
        "--update --seconds {1-255} --reap --rttl --rsource", "! --update --name {word}",
        "--remove --name {word} --mask {mask}", "! --rcheck", "! --remove",
    ]),
    m("quota", "", &["--quota {0-65535}"]),
    m("statistic", "", &[
        "--mode random --probability 0.5", "--mode random ! --probability 0.{0-65535}",
        "--mode nth --every 7 --packet {0-6}", "--mode nth ! --every {1-255}",
    ]),
    m("addrtype", "", &[
        "--src-type LOCAL", "! --dst-type BROADCAST,MULTICAST",
        "--src-type UNICAST ! --dst-type LOCAL", "--dst-type LOCAL --limit-iface-in",
        "--dst-type LOCAL --limit-iface-out",
        "--src-type ANYCAST,BLACKHOLE,UNREACHABLE,PROHIBIT,THROW,NAT,XRESOLVE,UNSPEC",
    ]),
    m("pkttype", "", &[
        "--pkt-type unicast", "! --pkt-type broadcast", "--pkt-type multicast", "--pkt-type host",
    ]),
    m("owner", "", &[
        "--uid-owner {0-65535}", "! --uid-owner {ids}", "--gid-owner {ids} --suppl-groups",
        "--socket-exists", "! --socket-exists", "--uid-owner root ! --gid-owner {0-65535}",
    ]).at(Table::Filter, "OUTPUT"),
    m("set", "", &[
        "--match-set one src", "! --match-set one dst", "--set two src,dst",
        "--match-set one src --return-nomatch",
        "--match-set one src ! --update-counters ! --update-subcounters",
        "--match-set one src --update-counters", "--match-set one src ! --packets-eq {0-65535}",
        "--match-set one src --packets-lt 5 --bytes-gt 9",
        "--match-set one src --packets-gt 5 --bytes-lt 9", "--match-set one src --bytes-eq 9",
    ]),
    m("length", "", &["--length {0-65535}", "! --length {nums}", "--length :5", "--length 5:"]),
    m("tcpmss", "-p tcp", &["--mss {0-65535}", "! --mss {nums}"]),
    m("ttl", "", &[
        "--ttl-eq {0-255}", "! --ttl-eq {0-255}", "--ttl-lt {0-255}", "--ttl-gt {0-255}",
        "--ttl 5",
    ]).only(Family::V4),
    m("hl", "", &[
        "--hl-eq {0-255}", "! --hl-eq {0-255}", "--hl-lt {0-255}", "--hl-gt {0-255}",
    ]).only(Family::V6),
    m("tos", "", &["--tos {0-255}", "! --tos {0-255}/{0-255}", "--tos Minimize-Delay"]),
    m("dscp", "", &["--dscp {0-63}", "! --dscp {0-63}", "--dscp-class AF21", "! --dscp-class ef"]),
    m("ecn", "-p tcp", &[
        "--ecn-tcp-cwr", "! --ecn-tcp-ece --ecn-ip-ect {0-3}",
        "! --ecn-ip-ect {0-3} ! --ecn-tcp-cwr",
    ]),
    m("rt", "", &[
        "--rt-type {0-255}", "! --rt-segsleft {nums} ! --rt-type 0",
        "! --rt-len {0-255} --rt-0-res", "--rt-type 0 --rt-0-addrs ::1,::2 --rt-0-not-strict",
    ]).only(Family::V6),
    m("ipv6header", "", &[
        "--header hop-by-hop,protocol", "! --header ipv6-frag --soft", "--header esp",
    ]).only(Family::V6),
    m("physdev", "", &[
        "--physdev-in eth+ ! --physdev-out tap0", "--physdev-is-in ! --physdev-is-out",
        "! --physdev-is-bridged",
    ]),
    m("string", "", &[
        "--string {word} --algo bm", "! --string \"a b\" --algo kmp --icase",
        "--hex-string |0a0B|cd --algo bm --from {0-255} --to {256-65535}",
    ]),
    m("u32", "", &[
        "--u32 0>>22&0x3C@12>>26&0x3C@0=0x47455420", "! --u32 6&0xFF=1,5:7&&4<<3=0x1",
    ]),
    m("cgroup", "", &["--cgroup {0-65535}", "! --cgroup 1", "--path a/b", "! --path c"])
        .at(Table::Filter, "OUTPUT"),
    m("cpu", "", &["--cpu {0-255}", "! --cpu 0"]),
    m("devgroup", "", &[
        "--src-group {0-65535}", "! --src-group default ! --dst-group {0-255}/{0-255}",
    ]),
    m("realm", "", &["--realm {0-65535}", "! --realm cosmos", "--realm 5/7"]).only(Family::V4),
    m("rpfilter", "", &[
        "", "--loose --invert", "--validmark --accept-local",
    ]).at(Table::Raw, "PREROUTING"),
    m("policy", "", &[
        "--dir in --pol ipsec", "--dir out --pol none",
        "--dir in --pol ipsec --strict --reqid 1 ! --spi 5 --proto esp --mode tunnel \
            --tunnel-src {ip} ! --tunnel-dst {ip} --next --reqid 2",
    ]),
    m("time", "", &[
        "", "--timestart 8:00 --timestop 17:30:15", "--weekdays Mon,Tu,7 ! --monthdays 1,31",
        "--datestart 2020-01-02T03:04 --datestop 2030",
        "! --weekdays Sa,Su --timestart 22:00 --timestop 6:00 --contiguous",
        "--kerneltz --timestart 22:00 --timestop 6:00", "--utc --timestart 1:00", "--localtz",
        "! --weekdays Mon,Tue,Wed,Thu,Fri,Sat,Sun",
    ]),
    m("comment", "", &["--comment {word}", "--comment {text}", "--comment \"\""]),
    j("REJECT", "-p tcp", &["", "--reject-with tcp-reset"]),
    j("REJECT", "", &[
        "--reject-with icmp-net-unreachable", "--reject-with host-unreach",
        "--reject-with icmp-proto-unreachable", "--reject-with icmp-port-unreachable",
        "--reject-with net-prohib", "--reject-with icmp-host-prohibited",
        "--reject-with icmp-admin-prohibited",
    ]).only(Family::V4),
    j("REJECT", "", &[
        "--reject-with icmp6-no-route", "--reject-with adm-prohibited",
        "--reject-with icmp6-addr-unreachable", "--reject-with icmp6-port-unreachable",
        "--reject-with policy-fail", "--reject-with icmp6-reject-route",
    ]).only(Family::V6),
    j("LOG", "", &[
        "", "--log-prefix {word} --log-level {0-7}", "--log-level debug --log-tcp-sequence",
        "--log-prefix \"a b: \" --log-tcp-options --log-ip-options --log-uid", "--log-macdecode",
    ]),
    j("NFLOG", "", &[
        "", "--nflog-prefix {text} --nflog-group {0-65535}",
        "--nflog-size 64 --nflog-threshold {0-65535}", "--nflog-range 7",
    ]),
    j("MARK", "", &[
        "--set-mark {mark}", "--set-xmark {mark}", "--and-mark {0-65535}", "--or-mark {0-65535}",
        "--xor-mark {0-65535}", "--set-mark {0-65535}",
    ]).at(Table::Mangle, "FORWARD"),
    j("CONNMARK", "", &[
        "--set-mark {mark}", "--set-xmark {mark}", "--and-mark 3", "--or-mark 3", "--xor-mark 3",
        "--save-mark", "--save-mark --mask 0xff", "--restore-mark --nfmask 0xf --ctmask 0xf0",
        "--restore-mark", "--set-xmark {mark} --left-shift-mark {0-31}",
        "--set-xmark {mark} --right-shift-mark {0-31}",
    ]).at(Table::Mangle, "FORWARD"),
    j("CT", "", &[
        "--notrack", "--helper ftp", "--timeout slow", "--ctevents new,mark --expevents new",
        "--zone 3", "--zone-orig mark", "--zone-reply 7",
    ]).at(Table::Raw, "PREROUTING"),
    j("NOTRACK", "", &[""]).at(Table::Raw, "OUTPUT"),
    j("DSCP", "", &["--set-dscp {0-63}", "--set-dscp-class CS3"]).at(Table::Mangle, "FORWARD"),
    j("TOS", "", &[
        "--set-tos {0-255}", "--set-tos {0-255}/{0-255}", "--set-tos Maximize-Throughput",
        "--and-tos {0-255}", "--or-tos {0-255}", "--xor-tos {0-255}",
    ]).at(Table::Mangle, "FORWARD"),
    j("TTL", "", &["--ttl-set {0-255}", "--ttl-inc {1-255}", "--ttl-dec {1-255}"])
        .only(Family::V4)
        .at(Table::Mangle, "POSTROUTING"),
    j("HL", "", &["--hl-set {0-255}", "--hl-inc {1-255}", "--hl-dec {1-255}"])
        .only(Family::V6)
        .at(Table::Mangle, "FORWARD"),
    j("CLASSIFY", "", &["--set-class 1:{0-9}", "--set-class ffff:a"]),
    j("TCPMSS", "-p tcp --syn", &["--set-mss {0-65535}", "--clamp-mss-to-pmtu"]),
    j("CHECKSUM", "", &["--checksum-fill"]).at(Table::Mangle, "POSTROUTING"),
    j("TRACE", "", &[""]).at(Table::Raw, "PREROUTING"),
    j("SET", "", &[
        "--add-set one src --timeout {0-65535} --exist", "--del-set two src,dst",
        "--add-set one dst --del-set two src,src",
        "--map-set one src --map-mark --map-prio --map-queue",
    ]),
    j("SYNPROXY", "-p tcp", &["", "--sack-perm --timestamp --wscale {0-9} --mss 1460 --ecn"]),
    j("DNAT", "-p tcp", &[
        "--to-destination {ip}", "--to-destination {ips} --random --persistent",
        "--to-destination :{1-255}",
    ]).at(Table::Nat, "PREROUTING"),
    j("SNAT", "-p udp", &[
        "--to-source {ip}", "--to-source {ips} --random --random-fully --persistent",
    ]).at(Table::Nat, "POSTROUTING"),
    j("MASQUERADE", "-p udp", &[
        "", "--to-ports {1-255}", "--to-ports 1000-2000 --random --random-fully",
    ]).at(Table::Nat, "POSTROUTING"),
    j("REDIRECT", "-p tcp", &[
        "", "--to-ports {1-255}", "--to-port 1000-2000 --random",
    ]).at(Table::Nat, "PREROUTING"),
    j("NETMAP", "", &["--to {net}"]).at(Table::Nat, "PREROUTING"),
];
