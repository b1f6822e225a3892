//! Module by module: needed options, exclusions, and the canonical form.

use super::super::value::{Address, Value, rate_unit};
use super::clock::{DATE_STOP_MAX, DAY_STOP};
use super::finish::{Finish, option_word};
use crate::model::Family;
use crate::syntax::Diagnostic;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the kernel's structures hold, without the zero at the end.
const LOG_PREFIX_MAX: usize = 29;
const NFLOG_PREFIX_MAX: usize = 63;

impl Finish<'_> {
    pub(super) fn match_module(&mut self) {
        match self.instance.spec.name {
            "tcp" => {
                self.open_ports(&["sport", "dport"]);
                self.drop_default("tcp-flags", &Value::Masked(0, 0));
            }
            "udp" | "udplite" | "sctp" => self.open_ports(&["sport", "dport"]),
            "icmp" => self.need_one(&["icmp-type"]),
            "icmp6" => self.need_one(&["icmpv6-type"]),
            "multiport" => {
                self.need_one(&["sports", "dports", "ports"]);
                self.at_most_one(&["sports", "dports", "ports"]);
            }
            "iprange" => self.need_one(&["src-range", "dst-range"]),
            "mac" => self.need_one(&["mac-source"]),
            "state" => self.need_one(&["state"]),
            "mark" | "connmark" => self.need_one(&["mark"]),
            "conntrack" => self.need_any(),
            "connlimit" => self.connlimit(),
            "limit" => {
                self.default("limit", Value::Period(12_000_000));
                self.drop_default("limit-burst", &Value::Number(5));
            }
            "hashlimit" => self.hashlimit(),
            "recent" => self.recent(),
            "statistic" => self.statistic(),
            "addrtype" => {
                self.need_one(&["src-type", "dst-type"]);
                self.at_most_one(&["limit-iface-in", "limit-iface-out"]);
            }
            "pkttype" => self.need_one(&["pkt-type"]),
            "owner" => {
                self.need_one(&["uid-owner", "gid-owner", "socket-exists"]);
                self.only_with("suppl-groups", &["gid-owner"]);
            }
            "set" => self.set_match(),
            "length" => self.need_one(&["length"]),
            "tcpmss" => self.need_one(&["mss"]),
            "ttl" => {
                self.need_one(&["ttl-eq", "ttl-lt", "ttl-gt"]);
                self.at_most_one(&["ttl-eq", "ttl-lt", "ttl-gt"]);
            }
            "hl" => {
                self.need_one(&["hl-eq", "hl-lt", "hl-gt"]);
                self.at_most_one(&["hl-eq", "hl-lt", "hl-gt"]);
            }
            "tos" => self.need_one(&["tos"]),
            "dscp" => self.need_one(&["dscp"]),
            "ecn" => self.need_any(),
            "physdev" => self.need_any(),
            "policy" => self.ipsec(),
            "time" => self.time(),
            "comment" => self.need_one(&["comment"]),
            _ => self.lesser_match(),
        }
    }

    pub(super) fn target_module(&mut self) {
        match self.instance.spec.name {
            "REJECT" => {
                let kind = match self.family {
                    Family::V4 => "icmp-port-unreachable",
                    Family::V6 => "icmp6-port-unreachable",
                };
                self.default("reject-with", Value::Text(kind.into()));
            }
            "LOG" => {
                self.drop_default("log-level", &Value::Number(4));
                self.shorten("log-prefix", LOG_PREFIX_MAX);
            }
            "NFLOG" => self.nflog(),
            "MARK" => self.need_one(&["set-xmark"]),
            "CONNMARK" => self.connmark(),
            "DSCP" => self.need_one(&["set-dscp"]),
            "TOS" => self.need_one(&["set-tos"]),
            "CLASSIFY" => self.need_one(&["set-class"]),
            "TCPMSS" => self.exactly_one(&["set-mss", "clamp-mss-to-pmtu"]),
            "TTL" => self.exactly_one(&["ttl-set", "ttl-dec", "ttl-inc"]),
            "HL" => self.exactly_one(&["hl-set", "hl-dec", "hl-inc"]),
            "CHECKSUM" => self.need_one(&["checksum-fill"]),
            "SET" => self.need_one(&["add-set", "del-set", "map-set"]),
            "DNAT" => self.need_one(&["to-destination"]),
            "SNAT" => self.need_one(&["to-source"]),
            "NETMAP" => self.need_one(&["to"]),
            _ => self.lesser_target(),
        }
    }

    pub(super) fn exactly_one(&mut self, names: &[&str]) {
        self.need_one(names);
        self.at_most_one(names);
    }

    /// At least one option at all.
    fn need_any(&mut self) {
        if self.instance.options.is_empty() {
            let message = format!("`{}` needs an option", option_word(self.instance));
            let names: Vec<_> = self
                .instance
                .spec
                .options
                .iter()
                .map(|option| option.name)
                .collect();
            let diagnostic = Diagnostic::error("missing-option", self.at(), message);
            self.found
                .push(diagnostic.help(format!("one of {}", Self::list(&names))));
        }
    }

    /// A range of all ports says no more than the module's name does, and is not printed.
    fn open_ports(&mut self, names: &[&str]) {
        for name in names {
            self.drop_default(name, &Value::Range(0, 65_535));
        }
    }

    fn connlimit(&mut self) {
        self.need_one(&["connlimit-upto", "connlimit-above"]);
        self.at_most_one(&["connlimit-upto", "connlimit-above"]);
        self.at_most_one(&["connlimit-saddr", "connlimit-daddr"]);
        self.fold_opposite("connlimit-upto", "connlimit-above");
        self.prefix("connlimit-mask");
        self.default("connlimit-mask", Value::Number(self.width()));
        if !self.has("connlimit-daddr") {
            self.default("connlimit-saddr", Value::Flag);
        }
    }

    fn hashlimit(&mut self) {
        self.need_one(&["hashlimit-upto", "hashlimit-above"]);
        self.at_most_one(&["hashlimit-upto", "hashlimit-above"]);
        self.need_one(&["hashlimit-name"]);
        self.fold_opposite("hashlimit-upto", "hashlimit-above");
        self.only_with("hashlimit-rate-interval", &["hashlimit-rate-match"]);
        self.hashlimit_expiry();
        let rate = ["hashlimit-upto", "hashlimit-above"]
            .into_iter()
            .find_map(|name| self.instance.option(name))
            .map(|option| option.value.clone());
        let burst = self
            .instance
            .option("hashlimit-burst")
            .map(|option| (option.value.clone(), option.at.0));
        match (rate, burst) {
            (Some(Value::Period(_)), None) => self.add("hashlimit-burst", Value::Number(5)),
            (Some(Value::Period(_)), Some((Value::Bytes(_), at))) => {
                let message = "a burst in bytes beside a rate in packets";
                let diagnostic = Diagnostic::error("excludes", at, message);
                self.found
                    .push(diagnostic.help("count both in packets or both in bytes"));
            }
            (Some(Value::Bytes(rate)), Some((burst, at))) => {
                let bytes = match burst {
                    Value::Bytes(bytes) | Value::Number(bytes) => bytes,
                    _ => 0,
                };
                if bytes < rate {
                    let message = "the burst is smaller than a second of the rate";
                    let diagnostic = Diagnostic::error("bad-number", at, message);
                    self.found
                        .push(diagnostic.help("make it at least as large as the rate"));
                }
                if let Some(option) = self.get_mut("hashlimit-burst") {
                    option.value = Value::Bytes(bytes);
                }
            }
            _ => {}
        }
        for name in ["hashlimit-srcmask", "hashlimit-dstmask"] {
            self.prefix(name);
            self.drop_default(name, &Value::Number(self.width()));
        }
    }

    /// An unused key is forgotten after one unit of the rate as written. The unit that is printed
    /// may be another one, and then the time is printed too.
    fn hashlimit_expiry(&mut self) {
        let mut written = None;
        for name in ["hashlimit-upto", "hashlimit-above"] {
            if let Some(option) = self.get_mut(name)
                && let Value::Range(period, unit) = option.value
            {
                option.value = Value::Period(period);
                written = Some((
                    u64::from(unit) * 1000,
                    rate_unit(period, 1_000_000).1 * 1000,
                ));
            }
        }
        let Some((written_ms, printed_ms)) = written else {
            return;
        };
        if written_ms != printed_ms {
            self.default("hashlimit-htable-expire", Value::Number(written_ms));
        }
        self.drop_default("hashlimit-htable-expire", &Value::Number(printed_ms));
    }

    fn recent(&mut self) {
        let actions = ["set", "rcheck", "update", "remove"];
        self.need_one(&actions);
        self.at_most_one(&actions);
        self.at_most_one(&["rsource", "rdest"]);
        for name in ["seconds", "hitcount", "rttl", "reap"] {
            self.only_with(name, &["rcheck", "update"]);
        }
        self.only_with("reap", &["seconds"]);
        self.default("name", Value::Text("DEFAULT".into()));
        let mask = match self.family {
            Family::V4 => Address::V4(Ipv4Addr::BROADCAST, Ipv4Addr::BROADCAST),
            Family::V6 => {
                let ones = Ipv6Addr::from_bits(u128::MAX);
                Address::V6(ones, ones)
            }
        };
        self.default("mask", Value::Address(Box::new(mask)));
        if !self.has("rdest") {
            self.default("rsource", Value::Flag);
        }
    }

    fn statistic(&mut self) {
        self.need_one(&["mode"]);
        let random = Value::Number(0);
        let Some(mode) = self.instance.option("mode") else {
            return;
        };
        if mode.value == random {
            self.need_one(&["probability"]);
            self.at_most_one(&["probability", "every"]);
            self.at_most_one(&["probability", "packet"]);
            return;
        }
        self.need_one(&["every"]);
        self.at_most_one(&["every", "probability"]);
        self.default("packet", Value::Number(0));
        let every = self
            .instance
            .option("every")
            .map(|option| option.value.clone());
        let packet = self
            .instance
            .option("packet")
            .map(|option| (option.value.clone(), option.at.0));
        if let (Some(Value::Number(every)), Some((Value::Number(packet), at))) = (every, packet)
            && packet >= every
        {
            let message = format!("packet {packet} is not one of every {every}");
            let diagnostic = Diagnostic::error("bad-number", at, message);
            self.found
                .push(diagnostic.help(format!("0 to {}", every.saturating_sub(1))));
        }
    }

    fn set_match(&mut self) {
        self.need_one(&["match-set"]);
        self.at_most_one(&["packets-eq", "packets-lt", "packets-gt"]);
        self.at_most_one(&["bytes-eq", "bytes-lt", "bytes-gt"]);
        for name in ["update-counters", "update-subcounters"] {
            self.drop_default(name, &Value::Flag);
        }
    }

    /// IPsec as `iptables-save` prints it: elements behind each other, in each the options in the
    /// order of the table; `none` asks for nothing more.
    fn ipsec(&mut self) {
        self.need_one(&["dir"]);
        self.default("pol", Value::Number(1));
        let none = self
            .instance
            .option("pol")
            .is_some_and(|option| option.value == Value::Number(0));
        if none {
            let kept = |option: &super::super::ast::Opt| matches!(option.spec.name, "dir" | "pol");
            self.instance.options.retain(kept);
            return;
        }
        let spec = self.instance.spec;
        let front = ["dir", "pol", "strict"];
        let mut element = 0;
        let mut options: Vec<_> = std::mem::take(&mut self.instance.options)
            .into_iter()
            .map(|option| {
                let rank = spec.rank(option.spec.name);
                let place = match front.contains(&option.spec.name) {
                    true => (0, rank),
                    false => (1 + element, rank),
                };
                element += usize::from(option.spec.name == "next");
                (place, option)
            })
            .collect();
        options.sort_by_key(|(place, _)| *place);
        for pair in options.windows(2) {
            if pair[0].0 == pair[1].0 {
                let message = format!("`--{}` is given twice", pair[1].1.spec.name);
                let found = Diagnostic::error("given-twice", pair[1].1.at.0, message)
                    .related(pair[0].1.at.0, "here first");
                self.found
                    .push(found.help("`--next` begins another element"));
            }
        }
        let tunnel = |option: &super::super::ast::Opt| {
            option.spec.name == "mode" && option.value == Value::Number(1)
        };
        let tunneled = options.iter().any(|(_, option)| tunnel(option));
        let ends = options
            .iter()
            .find(|(_, option)| matches!(option.spec.name, "tunnel-src" | "tunnel-dst"));
        if let Some((_, option)) = ends.filter(|_| !tunneled) {
            let message = format!("`--{}` needs `--mode tunnel`", option.spec.name);
            let found = Diagnostic::error("missing-option", option.at.0, message);
            self.found
                .push(found.help("add it, or take this option out"));
        }
        if options
            .iter()
            .any(|(_, option)| option.spec.name == "strict")
            && element == 0
        {
            let asks = options.iter().any(|(place, _)| place.0 > 0);
            if !asks {
                let message = "`--strict` without anything that the policy must be";
                let found = Diagnostic::error("missing-option", self.at(), message);
                self.found
                    .push(found.help("add `--reqid`, `--spi`, `--proto` or `--mode`"));
            }
        }
        self.instance.options = options.into_iter().map(|(_, option)| option).collect();
    }

    fn time(&mut self) {
        self.at_most_one(&["kerneltz", "utc"]);
        self.at_most_one(&["kerneltz", "localtz"]);
        self.at_most_one(&["utc", "localtz"]);
        self.remove("utc");
        if let Some(option) = self.remove("localtz") {
            let message = "`--localtz` is the old name of `--kerneltz`";
            self.found.push(
                Diagnostic::warning("old-name", option.at.0, message).help("write the new one"),
            );
            self.add("kerneltz", Value::Flag);
        }
        for (name, all) in [("monthdays", 0xffff_fffe_u64), ("weekdays", 0xfe)] {
            let Some(option) = self.get_mut(name) else {
                continue;
            };
            if let Value::Number(bits) = &mut option.value {
                if option.negated {
                    *bits = !*bits & all;
                }
                // No day at all can only be written as "not every day".
                option.negated = *bits == 0;
                if option.negated {
                    *bits = all;
                    let found = Diagnostic::warning("never-matches", option.at.0, "no day is left");
                    self.found.push(found.help("take the rule out"));
                }
            }
            self.drop_default(name, &Value::Number(all));
        }
        self.contiguous();
        self.drop_default("timestart", &Value::Number(0));
        self.drop_default("timestop", &Value::Number(DAY_STOP));
        self.drop_default("datestart", &Value::Number(0));
        self.drop_default("datestop", &Value::Number(DATE_STOP_MAX));
        let date =
            |finish: &Self, name| match finish.instance.option(name).map(|option| &option.value) {
                Some(Value::Number(seconds)) => Some(*seconds),
                _ => None,
            };
        if let (Some(start), Some(stop)) = (date(self, "datestart"), date(self, "datestop"))
            && stop < start
        {
            let diagnostic = Diagnostic::error(
                "never-matches",
                self.at(),
                "`--datestop` is before `--datestart`",
            );
            self.found.push(diagnostic.help("change one of them"));
        }
    }

    /// `--contiguous` is about windows over midnight.
    fn contiguous(&mut self) {
        let time = |name, missing| match self.instance.option(name).map(|option| &option.value) {
            Some(Value::Number(seconds)) => *seconds,
            _ => missing,
        };
        let (start, stop) = (time("timestart", 0), time("timestop", DAY_STOP));
        if let Some(option) = self.instance.option("contiguous")
            && stop >= start
        {
            let message = "`--contiguous` needs a `--timestop` before `--timestart`";
            let found = Diagnostic::error("missing-option", option.at.0, message);
            self.found
                .push(found.help("it is for windows over midnight: take it out"));
        }
    }

    /// Cuts a text off where the kernel's structure ends, as the original does, but says so.
    pub(super) fn shorten(&mut self, name: &str, most: usize) {
        let Some(option) = self
            .instance
            .options
            .iter_mut()
            .find(|o| o.spec.name == name)
        else {
            return;
        };
        let Value::Text(text) = &option.value else {
            return;
        };
        if text.len() <= most {
            return;
        }
        let kept = (0..=most)
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or(0);
        let message = format!("the value of `--{name}` is too long ({} bytes)", text.len());
        let help = format!("only `{}` is used: {most} bytes at most", &text[..kept]);
        option.value = Value::Text(text[..kept].into());
        self.found
            .push(Diagnostic::warning("bad-length", option.at.0, message).help(help));
    }

    fn nflog(&mut self) {
        // Kept as written, because the original prints it back.
        if let Some(option) = self.instance.option("nflog-range") {
            let message = "`--nflog-range` has never worked";
            let diagnostic = Diagnostic::warning("no-effect", option.at.0, message);
            self.found
                .push(diagnostic.help("write `--nflog-size` to have packets cut"));
        }
        self.shorten("nflog-prefix", NFLOG_PREFIX_MAX);
        self.drop_default("nflog-group", &Value::Number(0));
        self.drop_default("nflog-threshold", &Value::Number(0));
    }

    fn connmark(&mut self) {
        let actions = ["set-xmark", "save-mark", "restore-mark"];
        self.need_one(&actions);
        self.at_most_one(&actions);
        self.at_most_one(&["mask", "nfmask"]);
        self.at_most_one(&["mask", "ctmask"]);
        for name in ["nfmask", "ctmask", "mask"] {
            self.only_with(name, &["save-mark", "restore-mark"]);
        }
        let mask = self.remove("mask").map(|option| option.value);
        if self.has("save-mark") || self.has("restore-mark") {
            let mask = mask.unwrap_or(Value::Number(u64::from(u32::MAX)));
            self.default("nfmask", mask.clone());
            self.default("ctmask", mask);
        }
    }
}
