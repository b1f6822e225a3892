//! What the options of modules that weir doesn't enforce mean together, and their canonical form.
//!
//! Source: `iptables-extensions(8)`, and what `iptables-legacy-save` 1.8.9 prints for each form.

use super::super::value::{Address, Value, is_readable};
use super::finish::Finish;
use crate::model::Family;
use crate::syntax::Diagnostic;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the kernel's structures hold, without the zero at the end.
const HELPER_MAX: usize = 29;
const LABEL_MAX: usize = 27;
/// Labels of a connection.
const LABELS: u64 = 128;

impl Finish<'_> {
    pub(super) fn lesser_match(&mut self) {
        match self.instance.spec.name {
            "string" => self.pattern(),
            "u32" => self.need_one(&["u32"]),
            "bpf" => self.bytecode(),
            "cgroup" => self.exactly_one(&["path", "cgroup"]),
            "cluster" => self.cluster(),
            "connbytes" => {
                for name in ["connbytes", "connbytes-mode", "connbytes-dir"] {
                    self.need_one(&[name]);
                }
            }
            "connlabel" => self.label(),
            "cpu" => self.need_one(&["cpu"]),
            "devgroup" => self.need_one(&["src-group", "dst-group"]),
            "helper" => {
                self.need_one(&["helper"]);
                self.shorten("helper", HELPER_MAX);
            }
            "nfacct" => self.need_one(&["nfacct-name"]),
            "osf" => self.need_one(&["genre"]),
            "quota" => self.need_one(&["quota"]),
            "realm" => self.need_one(&["realm"]),
            "frag" => {
                self.at_most_one(&["fragmore", "fraglast"]);
                self.drop_default("fragid", &Value::Range(0, u32::MAX));
            }
            "mh" => self.drop_default("mh-type", &Value::Range(0, 255)),
            "ipv6header" => self.need_one(&["header"]),
            _ => {}
        }
    }

    pub(super) fn lesser_target(&mut self) {
        match self.instance.spec.name {
            "AUDIT" => self.need_one(&["type"]),
            "CONNSECMARK" => self.exactly_one(&["save", "restore"]),
            "DNPT" | "SNPT" => {
                self.need_one(&["src-pfx"]);
                self.need_one(&["dst-pfx"]);
            }
            "ECN" => {
                self.need_one(&["ecn-tcp-remove", "ecn-tcp-ece", "ecn-tcp-cwr", "ecn-ip-ect"]);
                for name in ["ecn-tcp-ece", "ecn-tcp-cwr", "ecn-ip-ect"] {
                    self.at_most_one(&["ecn-tcp-remove", name]);
                }
            }
            "HMARK" => self.hash_mark(),
            "IDLETIMER" => {
                self.need_one(&["timeout"]);
                self.need_one(&["label"]);
                self.shorten("label", LABEL_MAX);
            }
            "LED" => self.need_one(&["led-trigger-id"]),
            "NFQUEUE" => self.queue(),
            "RATEEST" => {
                for name in ["rateest-name", "rateest-interval", "rateest-ewmalog"] {
                    self.need_one(&[name]);
                }
            }
            "SECMARK" => self.need_one(&["selctx"]),
            "TEE" => self.need_one(&["gateway"]),
            "TPROXY" => {
                self.need_one(&["on-port"]);
                let nowhere = match self.family {
                    Family::V4 => Address::V4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
                    Family::V6 => {
                        Address::V6(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX))
                    }
                };
                self.default("on-ip", Value::Address(Box::new(nowhere)));
                self.default("tproxy-mark", Value::Masked(0, 0));
            }
            "CT" => self.zones(),
            _ => {}
        }
    }

    fn refuse(&mut self, name: &str, message: String, help: String) {
        let at = self
            .instance
            .option(name)
            .map_or(self.at(), |option| option.at.0);
        let found = Diagnostic::error("bad-number", at, message);
        self.found.push(found.help(help));
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.instance.option(name)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn pattern(&mut self) {
        self.exactly_one(&["string", "hex-string"]);
        self.need_one(&["algo"]);
        for name in ["string", "hex-string"] {
            let Some(option) = self.instance.option(name) else {
                continue;
            };
            let readable = matches!(&option.value, Value::Pattern(bytes) if is_readable(bytes));
            let spec = self
                .instance
                .spec
                .option(if readable { "string" } else { "hex-string" });
            if let Some(option) = self.get_mut(name) {
                option.spec = spec;
            }
            break;
        }
        let (from, to) = (self.number("from"), self.number("to"));
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            let message = format!("`--from {from}` is behind `--to {to}`");
            self.refuse("from", message, "write the lower one first".to_owned());
        }
        self.drop_default("from", &Value::Number(0));
        self.drop_default("to", &Value::Number(65_535));
    }

    /// `count,code jt jf k,...`, blanks at its end cut off.
    fn bytecode(&mut self) {
        self.exactly_one(&["bytecode", "object-pinned"]);
        let Some(option) = self.get_mut("bytecode") else {
            return;
        };
        let at = option.at.0;
        let Value::Text(text) = &mut option.value else {
            return;
        };
        let (count, program) = text.split_once(',').unwrap_or((text, ""));
        let steps: Vec<Vec<&str>> = program
            .trim_end_matches([' ', ','])
            .split(',')
            .map(|step| step.split_whitespace().collect())
            .collect();
        let number = |word: &&str| word.parse::<u32>().is_ok();
        let whole = steps
            .iter()
            .all(|step| step.len() == 4 && step.iter().all(number));
        if !whole || count.trim().parse() != Ok(steps.len()) {
            let message = "this is no program of classic BPF";
            let found = Diagnostic::error("bad-program", at, message);
            let help = "the number of instructions, then four numbers each: `1,6 0 0 65535`";
            return self.found.push(found.help(help));
        }
        let steps: Vec<String> = steps.iter().map(|step| step.join(" ")).collect();
        *text = format!("{},{}", steps.len(), steps.join(",")).into();
    }

    fn cluster(&mut self) {
        let node = ["cluster-local-node", "cluster-local-nodemask"];
        self.exactly_one(&node);
        self.need_one(&["cluster-total-nodes"]);
        self.need_one(&["cluster-hash-seed"]);
        if let Some(number) = self.number(node[0]) {
            let spec = self.instance.spec.option(node[1]);
            if number == 0 {
                let help = "nodes are counted from 1".to_owned();
                return self.refuse(node[0], "there is no node 0".to_owned(), help);
            }
            if let Some(option) = self.get_mut(node[0]) {
                option.spec = spec;
                option.value = Value::Number(1 << (number - 1));
            }
        }
        let (mask, total) = (self.number(node[1]), self.number("cluster-total-nodes"));
        if let (Some(mask), Some(total)) = (mask, total)
            && (mask == 0 || mask >> total != 0)
        {
            let message = format!("the nodes are none of the {total} of the cluster");
            self.refuse(node[1], message, format!("1 to {total}"));
        }
    }

    fn label(&mut self) {
        self.need_one(&["label"]);
        let Some(option) = self.get_mut("label") else {
            return;
        };
        let Value::Text(text) = &mut option.value else {
            return;
        };
        match super::numbers::number(text).filter(|&number| number < LABELS) {
            Some(number) => *text = number.to_string().into(),
            None => {
                let message = format!("unknown label `{text}`");
                let help = format!(
                    "names are in connlabel.conf; write the number, 0 to {}",
                    LABELS - 1
                );
                self.refuse("label", message, help);
            }
        }
    }

    /// What `--hmark-tuple` stands for.
    fn hash_mark(&mut self) {
        self.need_one(&["hmark-mod"]);
        self.need_one(&["hmark-rnd"]);
        let width = self.width();
        let fields = [
            ("hmark-src-prefix", width),
            ("hmark-dst-prefix", width),
            ("hmark-sport-mask", 0xffff),
            ("hmark-dport-mask", 0xffff),
            ("hmark-spi-mask", 0xffff_ffff),
            ("hmark-proto-mask", 0xff),
        ];
        let connection = 1 << fields.len();
        let tuple = self.number("hmark-tuple").unwrap_or(0);
        for (bit, &(name, whole)) in fields.iter().enumerate() {
            if tuple >> bit & 1 == 0 {
                continue;
            }
            if self.has(name) {
                self.at_most_one(&["hmark-tuple", name]);
            } else {
                self.add(name, Value::Number(whole));
            }
        }
        let hashed = |option: &super::super::ast::Opt| {
            !matches!(option.spec.name, "hmark-mod" | "hmark-rnd" | "hmark-offset")
        };
        if !self.instance.options.iter().any(hashed) {
            self.need_one(&["hmark-tuple"]);
        }
        match tuple & connection {
            0 => drop(self.remove("hmark-tuple")),
            bit => {
                if let Some(option) = self.get_mut("hmark-tuple") {
                    option.value = Value::Number(bit);
                }
            }
        }
        for name in ["hmark-src-prefix", "hmark-dst-prefix"] {
            self.prefix(name);
        }
    }

    fn queue(&mut self) {
        self.at_most_one(&["queue-num", "queue-balance"]);
        self.only_with("queue-cpu-fanout", &["queue-balance"]);
        if let Some(option) = self.instance.option("queue-balance") {
            if let Value::Range(first, last) = option.value
                && (first >= last || last - first >= 65_535)
            {
                let message = "these are no queues to balance between".to_owned();
                let help = "the lower number first, at most 65,535 queues: `0:3`";
                self.refuse("queue-balance", message, help.to_owned());
            }
        } else {
            self.default("queue-num", Value::Number(0));
        }
    }

    /// The same zone for both directions is one zone, and zone 0 is what everything is in.
    fn zones(&mut self) {
        let zone = |finish: &Self, name| finish.number(name).filter(|&number| number != 0);
        let (original, reply) = (zone(self, "zone-orig"), zone(self, "zone-reply"));
        if original.is_some() && original == reply {
            self.remove("zone-orig");
            self.remove("zone-reply");
            self.default("zone", Value::Number(original.unwrap_or(0)));
        }
        self.at_most_one(&["zone", "zone-orig"]);
        self.at_most_one(&["zone", "zone-reply"]);
        self.at_most_one(&["zone-orig", "zone-reply"]);
        for name in ["zone", "zone-orig", "zone-reply"] {
            self.drop_default(name, &Value::Number(0));
        }
    }
}
