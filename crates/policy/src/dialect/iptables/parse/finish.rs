//! What the options of a module mean together: which are needed, which exclude each other, and the
//! canonical form (defaults that are always printed filled in, defaults that are never printed taken
//! out, negations folded where two options are each other's opposite).
//!
//! Source: `iptables-extensions(8)`, and what `iptables-legacy-save` 1.8.9 prints for each form.

use super::super::ast::{Instance, Name, Opt, Rule, Target, table_name};
use super::super::grammar::Role;
use super::super::names::protocols;
use super::super::value::{Address, Value, rate_unit};
use super::Parser;
use super::clock::{DATE_STOP_MAX, DAY_STOP};
use super::rule::RuleState;
use crate::model::{Family, Table};
use crate::syntax::{Diagnostic, Place, Span};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Completes a rule that was read to its end, and checks what can only be checked then.
pub(super) fn finish_rule(
    parser: &mut Parser,
    state: &mut RuleState,
    chain: &Name,
    table: Option<Table>,
) {
    if state.faulty {
        return;
    }
    let mut found = Vec::new();
    let family = state.rule.only.unwrap_or(parser.family);
    let mut rule = std::mem::take(&mut state.rule);
    for instance in &mut rule.matches {
        finish_instance(instance, family, &mut found);
    }
    if let Some(Target::Module(instance)) = &mut rule.target {
        finish_instance(instance, family, &mut found);
    }
    check_interfaces(&rule, chain, table, &mut found);
    check_protocols(&rule, &mut found);
    check_tables(&rule, table, &mut found);
    check_together(&rule, &mut found);
    state.rule = rule;
    for diagnostic in found {
        state.faulty |= diagnostic.is_error();
        parser.report(diagnostic);
    }
}

/// `-i` where nothing was received, `-o` where nothing is sent.
fn check_interfaces(rule: &Rule, chain: &Name, table: Option<Table>, found: &mut Vec<Diagnostic>) {
    let built_in = table.is_some_and(|t| super::statement::built_in_chains(t).contains(&&**chain));
    if !built_in {
        return;
    }
    let wrong_in = rule
        .in_interface
        .as_ref()
        .filter(|_| matches!(&**chain, "OUTPUT" | "POSTROUTING"));
    if let Some(basic) = wrong_in {
        let message = format!("`-i` cannot be used in {chain}: the packet was not received there");
        found.push(Diagnostic::error("wrong-hook", basic.at.0, message).help("use `-o`"));
    }
    let wrong_out = rule
        .out_interface
        .as_ref()
        .filter(|_| matches!(&**chain, "INPUT" | "PREROUTING"));
    if let Some(basic) = wrong_out {
        let message = format!("`-o` cannot be used in {chain}: the packet is not being sent there");
        found.push(Diagnostic::error("wrong-hook", basic.at.0, message).help("use `-i`"));
    }
}

fn instances(rule: &Rule) -> impl Iterator<Item = &Instance> {
    let target = match &rule.target {
        Some(Target::Module(instance)) => Some(instance),
        _ => None,
    };
    rule.matches.iter().chain(target)
}

fn option_word(instance: &Instance) -> String {
    match instance.spec.role {
        Role::Match => format!("-m {}", instance.spec.name),
        Role::Target => format!("-j {}", instance.spec.name),
    }
}

/// Whether the rule demands one of these protocols.
fn demands(rule: &Rule, protocols: &[u8]) -> bool {
    rule.protocol
        .as_ref()
        .is_some_and(|basic| !basic.negated && protocols.contains(&basic.value))
}

fn protocol_names(numbers: &[u8]) -> String {
    let names = numbers.iter().map(|&number| match protocols::name(number) {
        Some(name) => format!("`-p {name}`"),
        None => format!("`-p {number}`"),
    });
    names.collect::<Vec<_>>().join(" or ")
}

fn check_protocols(rule: &Rule, found: &mut Vec<Diagnostic>) {
    for instance in instances(rule) {
        let needed = instance.spec.protocols;
        if needed.is_empty() || demands(rule, needed) {
            continue;
        }
        let message = format!(
            "`{}` needs {}",
            option_word(instance),
            protocol_names(needed)
        );
        let at = rule
            .protocol
            .as_ref()
            .map_or(instance.at.0, |basic| basic.at.0);
        let mut diagnostic = Diagnostic::error("needs-protocol", instance.at.0, message);
        if rule.protocol.is_some() {
            diagnostic = diagnostic.related(at, "the rule has this instead");
        }
        found.push(diagnostic.help("a module of one protocol works only in a rule for it"));
    }
}

fn check_tables(rule: &Rule, table: Option<Table>, found: &mut Vec<Diagnostic>) {
    let Some(table) = table else { return };
    for instance in instances(rule) {
        let allowed = instance.spec.tables;
        if allowed.is_empty() || allowed.contains(&table) {
            continue;
        }
        let names: Vec<_> = allowed.iter().map(|&table| table_name(table)).collect();
        let word = option_word(instance);
        let message = format!(
            "`{word}` belongs to table {}, and this is table {}",
            names.join(" or "),
            table_name(table)
        );
        let help = format!("move the rule into the block `*{}`", names[0]);
        found.push(Diagnostic::error("wrong-table", instance.at.0, message).help(help));
    }
}

/// Demands across modules.
fn check_together(rule: &Rule, found: &mut Vec<Diagnostic>) {
    const WITH_PORTS: &[u8] = &[
        protocols::TCP,
        protocols::UDP,
        protocols::SCTP,
        protocols::DCCP,
        protocols::UDPLITE,
    ];
    for instance in instances(rule) {
        let options = &instance.options;
        let needs = |names: &[&str]| {
            options
                .iter()
                .find(|option| names.contains(&option.spec.name))
        };
        let (option, needed): (Option<&Opt>, &[u8]) = match (instance.spec.name, instance.spec.role)
        {
            ("ecn", Role::Match) => (needs(&["ecn-tcp-cwr", "ecn-tcp-ece"]), &[protocols::TCP]),
            ("REJECT", _) => {
                let reset = |option: &&Opt| option.value == Value::Text("tcp-reset".into());
                (options.iter().find(reset), &[protocols::TCP])
            }
            ("SNAT" | "DNAT", _) => {
                let with_ports =
                    |option: &&Opt| matches!(&option.value, Value::Nat(nat) if nat.ports.is_some());
                (options.iter().find(with_ports), WITH_PORTS)
            }
            ("MASQUERADE" | "REDIRECT", _) => (needs(&["to-ports"]), WITH_PORTS),
            _ => (None, &[]),
        };
        if let Some(option) = option.filter(|_| !demands(rule, needed)) {
            let message = format!("this needs {}", protocol_names(needed));
            let diagnostic = Diagnostic::error("needs-protocol", option.at.0, message);
            found.push(diagnostic.help("add the protocol to the rule"));
        }
        if instance.spec.name == "TCPMSS" && !tests_syn(rule) {
            let message = "`-j TCPMSS` needs a test for SYN in the same rule";
            let diagnostic = Diagnostic::error("needs-syn", instance.at.0, message);
            found.push(diagnostic.help("add `-m tcp --tcp-flags SYN,RST SYN`"));
        }
    }
}

fn tests_syn(rule: &Rule) -> bool {
    const SYN: u32 = 2;
    rule.matches.iter().any(|instance| {
        instance.spec.name == "tcp"
            && instance.option("tcp-flags").is_some_and(|option| {
                matches!(option.value, Value::Masked(value, _) if value & SYN != 0 && !option.negated)
            })
    })
}

/// One instance with what its checks say.
struct Finish<'f> {
    instance: &'f mut Instance,
    family: Family,
    found: &'f mut Vec<Diagnostic>,
}

fn finish_instance(instance: &mut Instance, family: Family, found: &mut Vec<Diagnostic>) {
    let mut finish = Finish {
        instance,
        family,
        found,
    };
    match finish.instance.spec.role {
        Role::Match => finish.match_module(),
        Role::Target => finish.target_module(),
    }
    let spec = finish.instance.spec;
    if !spec.as_written {
        finish
            .instance
            .options
            .sort_by_key(|option| spec.rank(option.spec.name));
    }
}

impl Finish<'_> {
    fn has(&self, name: &str) -> bool {
        self.instance.option(name).is_some()
    }

    fn at(&self) -> Span {
        self.instance.at.0
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Opt> {
        self.instance
            .options
            .iter_mut()
            .find(|option| option.spec.name == name)
    }

    fn remove(&mut self, name: &str) -> Option<Opt> {
        let index = self
            .instance
            .options
            .iter()
            .position(|option| option.spec.name == name)?;
        Some(self.instance.options.remove(index))
    }

    fn add(&mut self, name: &'static str, value: Value) {
        let spec = self.instance.spec.option(name);
        let at = Place(self.at());
        self.instance.options.push(Opt {
            spec,
            negated: false,
            value,
            at,
        });
    }

    /// Adds an option that is always printed.
    fn default(&mut self, name: &'static str, value: Value) {
        if !self.has(name) {
            self.add(name, value);
        }
    }

    /// Takes out an option that says what would hold without it.
    fn drop_default(&mut self, name: &str, value: &Value) {
        if self
            .instance
            .option(name)
            .is_some_and(|option| option.value == *value && !option.negated)
        {
            self.remove(name);
        }
    }

    fn list(names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(|name| format!("`--{name}`")).collect();
        names.join(", ")
    }

    /// At least one of these must be there.
    fn need_one(&mut self, names: &[&str]) {
        if names.iter().any(|name| self.has(name)) {
            return;
        }
        let message = format!(
            "`{}` needs {}",
            option_word(self.instance),
            match names {
                [name] => format!("`--{name}`"),
                names => format!("one of {}", Self::list(names)),
            }
        );
        let diagnostic = Diagnostic::error("missing-option", self.at(), message);
        self.found
            .push(diagnostic.help("add it after the module's name"));
    }

    /// At most one of these may be there.
    fn at_most_one(&mut self, names: &[&str]) {
        let mut given = self
            .instance
            .options
            .iter()
            .filter(|option| names.contains(&option.spec.name));
        let (Some(first), Some(second)) = (given.next(), given.next()) else {
            return;
        };
        let message = format!(
            "`--{}` cannot be used together with `--{}`",
            second.spec.name, first.spec.name
        );
        let diagnostic = Diagnostic::error("excludes", second.at.0, message)
            .related(first.at.0, "the other one")
            .help("take one of them out");
        self.found.push(diagnostic);
    }

    /// `name` works only beside one of `others`.
    fn only_with(&mut self, name: &str, others: &[&str]) {
        let Some(option) = self.instance.option(name) else {
            return;
        };
        if others.iter().any(|other| self.has(other)) {
            return;
        }
        let message = format!("`--{name}` needs {} beside it", Self::list(others));
        let diagnostic = Diagnostic::error("missing-option", option.at.0, message);
        self.found
            .push(diagnostic.help("add it, or take this option out"));
    }

    /// Two options are opposites: `! --one` becomes `--other`.
    fn fold_opposite(&mut self, one: &'static str, other: &'static str) {
        for (from, to) in [(one, other), (other, one)] {
            if self
                .instance
                .option(from)
                .is_some_and(|option| option.negated)
            {
                let spec = self.instance.spec.option(to);
                if let Some(option) = self.get_mut(from) {
                    option.negated = false;
                    option.spec = spec;
                }
                return;
            }
        }
    }

    /// A mask length above the family's width stands for a single address.
    fn prefix(&mut self, name: &str) {
        let width = self.width();
        let Some(option) = self.get_mut(name) else {
            return;
        };
        if let Value::Number(length) = option.value
            && length > width
        {
            let at = option.at.0;
            let message = format!("a prefix of {length} bits is too long for this family");
            let diagnostic = Diagnostic::error("bad-number", at, message);
            self.found.push(diagnostic.help(format!("0 to {width}")));
        }
    }

    fn width(&self) -> u64 {
        match self.family {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    fn match_module(&mut self) {
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
            "policy" => self.need_one(&["dir"]),
            "time" => self.time(),
            "comment" => self.need_one(&["comment"]),
            _ => {}
        }
    }

    fn target_module(&mut self) {
        match self.instance.spec.name {
            "REJECT" => {
                let kind = match self.family {
                    Family::V4 => "icmp-port-unreachable",
                    Family::V6 => "icmp6-port-unreachable",
                };
                self.default("reject-with", Value::Text(kind.into()));
            }
            "LOG" => self.drop_default("log-level", &Value::Number(4)),
            "NFLOG" => self.nflog(),
            "MARK" => self.need_one(&["set-xmark"]),
            "CONNMARK" => self.connmark(),
            "CT" => self.need_any(),
            "DSCP" => self.need_one(&["set-dscp"]),
            "TOS" => self.need_one(&["set-tos"]),
            "CLASSIFY" => self.need_one(&["set-class"]),
            "TCPMSS" => {
                self.need_one(&["set-mss", "clamp-mss-to-pmtu"]);
                self.at_most_one(&["set-mss", "clamp-mss-to-pmtu"]);
            }
            "CHECKSUM" => self.need_one(&["checksum-fill"]),
            "SET" => self.need_one(&["add-set", "del-set", "map-set"]),
            "DNAT" => self.need_one(&["to-destination"]),
            "SNAT" => self.need_one(&["to-source"]),
            "NETMAP" => self.need_one(&["to"]),
            _ => {}
        }
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

    fn nflog(&mut self) {
        if let Some(option) = self.remove("nflog-range") {
            let message = "`--nflog-range` has never worked";
            let diagnostic = Diagnostic::warning("no-effect", option.at.0, message);
            self.found
                .push(diagnostic.help("write `--nflog-size` to have packets cut"));
        }
        self.drop_default("nflog-group", &Value::Number(0));
        self.drop_default("nflog-threshold", &Value::Number(1));
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
