//! Answers of the other tools that firewall scripts call on FreeBSD.
//!
//! In: a call. Out: what FreeBSD would say, from the settings and facts of the recording. What
//! nobody told is remembered, so that the user learns what to give.

use super::recording::Recording;
use super::wire::{Reply, Request};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_policy::dialect::ipfw::Settings;
use weir_policy::eval::ipfw::HostAddress;
use weir_policy::model::Family;

/// Settings that scripts read, as a FreeBSD host without anything has them.
const KNOWN: [(&str, &str); 10] = [
    ("hw.ncpu", "1"),
    ("kern.osrelease", "13.0-RELEASE"),
    ("kern.ostype", "FreeBSD"),
    ("kern.securelevel", "-1"),
    ("net.inet.ip.forwarding", "0"),
    ("net.inet.ip.fw.dyn_count", "0"),
    ("net.inet6.ip6.forwarding", "0"),
    ("net.inet6.ip6.fw.enable", "1"),
    ("security.jail.jailed", "0"),
    ("net.inet.ip.dummynet.io_fast", "0"),
];
/// Trees whose settings can be set although they do nothing here.
const TREES: [&str; 6] = ["net.", "kern.", "hw.", "security.", "vm.", "dev."];

fn say(out: impl Into<String>) -> Reply {
    Reply {
        out: out.into(),
        ..Reply::default()
    }
}

fn fail(err: impl Into<String>) -> Reply {
    Reply {
        status: 1,
        err: err.into() + "\n",
        ..Reply::default()
    }
}

/// Answers a call.
pub fn answer(recording: &mut Recording, request: &Request) -> Reply {
    let arguments = &request.arguments;
    match request.tool.as_str() {
        "ipfw" => recording.ipfw(&request.folder, arguments, &request.input),
        "dnctl" => recording.ipfw(&request.folder, arguments, &request.input),
        "sysctl" => sysctl(recording, arguments),
        "kldload" => {
            let modules = arguments.iter().filter(|word| !word.starts_with('-'));
            for module in modules {
                let name = module.rsplit('/').next().unwrap_or(module);
                let name = name.strip_suffix(".ko").unwrap_or(name);
                recording.modules.insert(name.to_owned());
            }
            Reply::default()
        }
        "kldstat" => kldstat(recording, arguments),
        "ifconfig" => ifconfig(recording, arguments),
        "route" => route(recording, arguments),
        "jls" => jls(arguments),
        "sysrc" => sysrc(recording, arguments),
        // They act on what is not here: other modules, daemons, the system log.
        _ => Reply::default(),
    }
}

fn read_setting(recording: &Recording, name: &str) -> Option<String> {
    if let Some(value) = recording.ruleset.settings.get(name) {
        return Some(value.to_string());
    }
    if let Some(value) = recording.others.get(name) {
        return Some(value.clone());
    }
    if name == "net.inet.ip.fw.static_count" {
        return Some(recording.ruleset.rules.len().to_string());
    }
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map(|(_, value)| (*value).to_owned())
}

/// The settings of a tree, by name.
fn settings_below(recording: &Recording, tree: &str) -> BTreeMap<String, String> {
    let own = Settings::names().iter().copied();
    let known = KNOWN.iter().map(|(name, _)| *name);
    let others = recording.others.keys().map(String::as_str);
    let tree = format!("{}.", tree.trim_end_matches('.'));
    let below = own.chain(known).chain(others);
    below
        .filter(|name| name.starts_with(&tree))
        .filter_map(|name| Some((name.to_owned(), read_setting(recording, name)?)))
        .collect()
}

fn sysctl(recording: &mut Recording, arguments: &[String]) -> Reply {
    let switches: String = arguments
        .iter()
        .filter_map(|word| word.strip_prefix('-'))
        .collect();
    let (bare, quiet) = (switches.contains('n'), switches.contains('q'));
    let ignore = switches.contains('i');
    let mut reply = Reply::default();
    for word in arguments.iter().filter(|word| !word.starts_with('-')) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.trim_matches('"'))),
            None => (word.as_str(), None),
        };
        let before = read_setting(recording, name);
        if before.is_none() && value.is_none() {
            let below = settings_below(recording, name);
            for (name, value) in &below {
                match bare {
                    true => reply.out += &format!("{value}\n"),
                    false => reply.out += &format!("{name}: {value}\n"),
                }
            }
            if !below.is_empty() {
                continue;
            }
        }
        let known = before.is_some() || value.is_some_and(|_| is_in_tree(name));
        if !known {
            if !ignore {
                reply.status = 1;
                recording.missing.insert(format!("sysctl {name}"));
                let _ = writeln!(reply.err, "sysctl: unknown oid '{name}'");
            }
            continue;
        }
        let before = before.unwrap_or_default();
        let Some(value) = value else {
            match bare {
                true => reply.out += &format!("{before}\n"),
                false => reply.out += &format!("{name}: {before}\n"),
            }
            continue;
        };
        let number = value.parse().ok();
        let set = number.is_some_and(|number| recording.ruleset.settings.set(name, number));
        if !set {
            if recording.ruleset.settings.get(name).is_some() {
                reply.status = 1;
                let _ = writeln!(reply.err, "sysctl: {name}={value}: Invalid argument");
                continue;
            }
            recording.others.insert(name.to_owned(), value.to_owned());
        }
        match (quiet, bare) {
            (true, _) => {}
            (false, true) => reply.out += &format!("{value}\n"),
            (false, false) => reply.out += &format!("{name}: {before} -> {value}\n"),
        }
    }
    reply
}

fn is_in_tree(name: &str) -> bool {
    TREES.iter().any(|tree| name.starts_with(tree))
}

fn kldstat(recording: &Recording, arguments: &[String]) -> Reply {
    let named = arguments
        .iter()
        .position(|word| word.starts_with('-') && (word.ends_with('m') || word.ends_with('n')));
    if let Some(name) = named.and_then(|at| arguments.get(at + 1)) {
        let name = name.strip_suffix(".ko").unwrap_or(name);
        let mut switches = arguments.iter().filter_map(|word| word.strip_prefix('-'));
        let quiet = switches.any(|letters| letters.contains('q'));
        if recording.modules.contains(name) {
            return match quiet {
                true => Reply::default(),
                false => say(format!("Id  Refs Name\n 2    1 {name}\n")),
            };
        }
        if quiet {
            return Reply {
                status: 1,
                ..Reply::default()
            };
        }
        return fail(format!(
            "kldstat: can't find module {name}: No such file or directory"
        ));
    }
    let mut out = "Id Refs Address                Size Name\n".to_owned();
    for (index, module) in recording.modules.iter().enumerate() {
        let suffix = if module == "kernel" { "" } else { ".ko" };
        let at = 0xffff_ffff_8020_0000_u64 + index as u64 * 0x10_0000;
        let _ = writeln!(
            out,
            "{:>2}    1 0x{at:x}    10000 {module}{suffix}",
            index + 1
        );
    }
    say(out)
}

fn address_line(address: &HostAddress) -> String {
    match address.family {
        Family::V4 => {
            let value = address.address as u32;
            let mask = u32::MAX
                .checked_shl(32 - u32::from(address.length))
                .unwrap_or(0);
            let own = Ipv4Addr::from(value);
            let all = Ipv4Addr::from(value | !mask);
            format!("\tinet {own} netmask 0x{mask:08x} broadcast {all}\n")
        }
        Family::V6 => {
            let own = Ipv6Addr::from(address.address);
            format!("\tinet6 {own} prefixlen {}\n", address.length)
        }
    }
}

fn ifconfig(recording: &mut Recording, arguments: &[String]) -> Reply {
    let mut known: Vec<String> = Vec::new();
    for address in &recording.host.addresses {
        if !address.interface.is_empty() && !known.contains(&address.interface) {
            known.push(address.interface.clone());
        }
    }
    if !known.contains(&"lo0".to_owned()) {
        known.push("lo0".to_owned());
    }
    let options = arguments.iter().filter_map(|word| word.strip_prefix('-'));
    let option = |letter: char| options.clone().any(|letters| letters.contains(letter));
    if option('l') {
        // Of all that are told none is down, and the loopback is no Ethernet.
        let ether = arguments.iter().any(|word| word == "ether");
        known.retain(|name| !(option('d') || ether && name == "lo0"));
        return say(known.join(" ") + "\n");
    }
    let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
    let wanted = words.next().cloned();
    // More than a family behind the name changes the interface; that is not the filter's.
    if words.any(|word| !matches!(word.as_str(), "inet" | "inet6" | "link" | "ether")) {
        return Reply::default();
    }
    if let Some(name) = &wanted
        && !known.contains(name)
    {
        recording
            .missing
            .insert(format!("--local {name}=ADDRESS/LENGTH"));
        return fail(format!("ifconfig: interface {name} does not exist"));
    }
    let family = |text: &str| arguments.iter().any(|word| word == text);
    let (only4, only6) = (family("inet"), family("inet6"));
    let mut out = String::new();
    for name in known
        .iter()
        .filter(|name| wanted.as_ref().is_none_or(|w| w == *name))
    {
        let kind = match name.as_str() {
            "lo0" => "8049<UP,LOOPBACK,RUNNING,MULTICAST> metric 0 mtu 16384",
            _ => "8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500",
        };
        let _ = writeln!(out, "{name}: flags={kind}");
        if name == "lo0" && !only6 {
            out += "\tinet 127.0.0.1 netmask 0xff000000\n";
        }
        let own = recording.host.addresses.iter();
        for address in own.filter(|address| address.interface == *name) {
            let four = address.family == Family::V4;
            if !(only4 && !four || only6 && four) {
                out += &address_line(address);
            }
        }
    }
    say(out)
}

fn route(recording: &mut Recording, arguments: &[String]) -> Reply {
    if !arguments.iter().any(|word| word == "get") {
        return Reply::default();
    }
    let six = arguments
        .iter()
        .any(|word| word == "-inet6" || word == "-6");
    let family = if six { Family::V6 } else { Family::V4 };
    let routes = &recording.host.routes;
    let default = routes.iter().find(|r| r.length == 0 && r.family == family);
    match default {
        Some(route) => say(format!(
            "   route to: default\ndestination: default\n  interface: {}\n",
            route.interface
        )),
        None => {
            recording
                .missing
                .insert("--route default=INTERFACE".to_owned());
            fail("route: route has not been found")
        }
    }
}

fn jls(arguments: &[String]) -> Reply {
    match arguments.iter().position(|word| word == "-j") {
        Some(at) => {
            let name = arguments.get(at + 1).map_or("", String::as_str);
            fail(format!("jls: jail \"{name}\" not found"))
        }
        None if arguments.is_empty() => say("   JID  IP Address      Hostname    Path\n"),
        None => Reply::default(),
    }
}

fn sysrc(recording: &mut Recording, arguments: &[String]) -> Reply {
    let mut reply = Reply::default();
    let bare = arguments.iter().any(|word| word == "-n" || word == "-nq");
    let quiet = arguments
        .iter()
        .any(|word| word.starts_with('-') && word.contains('i'));
    for word in arguments.iter().filter(|word| !word.starts_with('-')) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let key = format!("rc.conf {name}");
        let before = recording.others.get(&key).cloned();
        let before = before.or_else(|| std::env::var(name).ok());
        match (value, before) {
            (Some(value), before) => {
                let before = before.unwrap_or_default();
                reply.out += &format!("{name}: {before} -> {value}\n");
                recording.others.insert(key, value.to_owned());
            }
            (None, Some(before)) if bare => reply.out += &format!("{before}\n"),
            (None, Some(before)) => reply.out += &format!("{name}: {before}\n"),
            (None, None) if quiet => {}
            (None, None) => {
                reply.status = 1;
                recording.missing.insert(format!("variable {name}"));
                let _ = writeln!(reply.err, "sysrc: unknown variable '{name}'");
            }
        }
    }
    reply
}
