//! Modules that ask what the kernel knows of a packet beside its headers, or look into its bytes.

use super::super::ast::{Instance, Opt};
use super::super::value::Value;
use super::matches::Tests;
use crate::model::{Aside, Cond, IfPattern, Owner, OwnerRange, TextSearch};
use crate::syntax::Diagnostic;

/// The kernel looks for no more bytes than this.
const TO_MAX: u32 = 65_535;

impl Tests<'_, '_> {
    fn aside(&mut self, negate: bool, aside: Aside) {
        self.push(negate, Cond::Aside(aside));
    }

    /// A module of this kind; whether it is one.
    pub(super) fn is_aside(&mut self, instance: &Instance) -> bool {
        match instance.spec.name {
            "owner" => self.owner(instance),
            "string" => self.text(instance),
            "ipv6header" => self.headers(instance),
            "u32" | "cpu" | "devgroup" | "realm" | "cgroup" | "physdev" => {
                for option in &instance.options {
                    self.aside_option(instance.spec.name, option);
                }
            }
            _ => return false,
        }
        true
    }

    fn aside_option(&mut self, module: &str, option: &Opt) {
        let port = |out, value: Option<&Value>| {
            let name = value.and_then(|value| match value {
                Value::Interface(name) => Some(IfPattern {
                    name: name.name.to_string(),
                    prefix: name.prefix,
                }),
                _ => None,
            });
            Aside::Port { out, name }
        };
        let aside = match (option.spec.name, &option.value) {
            ("u32", Value::U32(words)) => Aside::Words(words.tests.clone()),
            ("cpu", &Value::Number(cpu)) => Aside::Cpu(cpu as u32),
            ("src-group", &Value::Masked(value, mask)) => Aside::DeviceGroup {
                out: false,
                value: value & mask,
                mask,
            },
            ("dst-group", &Value::Masked(value, mask)) => Aside::DeviceGroup {
                out: true,
                value: value & mask,
                mask,
            },
            ("realm", &Value::Masked(value, mask)) => Aside::Realm { value, mask },
            ("cgroup", &Value::Number(class)) => Aside::Class(class as u32),
            ("path", Value::Text(path)) => match self.cgroup(option, path) {
                Some(aside) => aside,
                None => return,
            },
            ("physdev-in", value) => port(false, Some(value)),
            ("physdev-out", value) => port(true, Some(value)),
            ("physdev-is-in", _) => port(false, None),
            // Both ask whether the bridge knows where the packet leaves.
            ("physdev-is-out" | "physdev-is-bridged", _) => port(true, None),
            _ => return self.not_taken_up(module, option),
        };
        self.aside(option.negated, aside);
    }

    /// The control group of this path, as it is now: like iptables, a rule means the group that is
    /// there when it is loaded.
    fn cgroup(&mut self, option: &Opt, path: &str) -> Option<Aside> {
        let names = self.lowering.options.names;
        match names.map(|names| names.control_group(path)) {
            Some(Some((id, level))) => Some(Aside::Group { id, level }),
            Some(None) => {
                let message = format!("there is no control group `{path}` here");
                let found = Diagnostic::error("unknown-name", option.at.0, message);
                let help = "make it before: a path below the mount of cgroup2";
                self.refused.push(found.help(help));
                None
            }
            None => {
                let help = "where rules are enforced, it is looked up";
                self.unsupported(option.at.0, "a control group by its path", help);
                None
            }
        }
    }

    /// `-m ipv6header`: these headers and no others, or with `--soft` all of these (negated: none).
    fn headers(&mut self, instance: &Instance) {
        let soft = instance.option("soft").is_some();
        for option in &instance.options {
            let Value::Number(bits) = option.value else {
                continue;
            };
            let (value, mask) = match (soft, option.negated) {
                (false, _) => (bits as u8, 0xff),
                (true, false) => (bits as u8, bits as u8),
                (true, true) => (0, bits as u8),
            };
            self.aside(option.negated && !soft, Aside::Headers { value, mask });
        }
    }

    fn owner(&mut self, instance: &Instance) {
        let all_groups = instance.option("suppl-groups").is_some();
        for option in &instance.options {
            let cond = match option.spec.name {
                "suppl-groups" => continue,
                "socket-exists" => Cond::Aside(Aside::Socket),
                _ => {
                    let Some(range) = self.ids(option) else {
                        continue;
                    };
                    match option.spec.name {
                        "uid-owner" => Cond::Owner(Owner::Uid(range)),
                        _ if all_groups => Cond::Aside(Aside::Groups(range)),
                        _ => Cond::Owner(Owner::Gid(range)),
                    }
                }
            };
            if all_groups && option.negated && matches!(cond, Cond::Aside(Aside::Groups(_))) {
                // xt_owner takes `--suppl-groups` for an option that must hold itself, which it
                // doesn't for a packet without a socket.
                self.aside(false, Aside::Socket);
            }
            self.push(option.negated, cond);
        }
    }

    /// The users or groups of an option of `-m owner`.
    fn ids(&mut self, option: &Opt) -> Option<OwnerRange> {
        let is_user = option.spec.name == "uid-owner";
        match &option.value {
            &Value::Range(first, last) => Some(OwnerRange { first, last }),
            Value::Text(name) => {
                let names = self.lowering.options.names;
                let root = (&**name == "root").then_some(0);
                let id = match (is_user, names) {
                    (_, None) => root,
                    (true, Some(names)) => names.user(name),
                    (false, Some(names)) => names.group(name),
                };
                if id.is_none() {
                    let kind = if is_user { "user" } else { "group" };
                    let message = format!("there is no {kind} `{name}` here");
                    let found = Diagnostic::error("unknown-name", option.at.0, message);
                    self.refused.push(found.help("write the number instead"));
                }
                id.map(|id| OwnerRange {
                    first: id,
                    last: id,
                })
            }
            _ => {
                self.not_taken_up("owner", option);
                None
            }
        }
    }

    /// `-m string`: by either algorithm the same is found.
    fn text(&mut self, instance: &Instance) {
        let bound = |name: &str, missing| match instance.option(name).map(|option| &option.value) {
            Some(&Value::Number(number)) => number as u32,
            _ => missing,
        };
        let pattern = ["string", "hex-string"]
            .iter()
            .find_map(|name| instance.option(name));
        let Some(option) = pattern else { return };
        let Value::Pattern(pattern) = &option.value else {
            return self.not_taken_up("string", option);
        };
        let search = TextSearch {
            pattern: pattern.to_vec(),
            ignore_case: instance.option("icase").is_some(),
            from: bound("from", 0),
            to: bound("to", TO_MAX),
        };
        self.aside(option.negated, Aside::Text(search));
    }
}
