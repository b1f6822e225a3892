//! Interfaces that rules name and the host doesn't have.
//!
//! In: a policy and its language, the names of `/proc/net/dev` (proc(5)). Out: the names that match
//! nothing now. Rules that come from BSD, Solaris or HP-UX name that host's interfaces (`lo0`,
//! `em0`, `lan0`): here such a rule would match nothing, and nobody would say so.

use std::collections::BTreeSet;
use weir_policy::convert::Language;
use weir_policy::model::{Cond, IfPattern, Policy, Test};

/// The interfaces of the calling thread's namespace.
fn present() -> BTreeSet<String> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let name = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
    text.lines().filter_map(name).collect()
}

/// Those of some names that no interface here has.
pub fn absent_among<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let present = present();
    let names: BTreeSet<&str> = names.collect();
    let missing = |name: &&str| !present.contains(*name);
    names
        .into_iter()
        .filter(missing)
        .map(str::to_owned)
        .collect()
}

/// Names in rules from other systems that no interface here has.
pub fn absent(policy: &Policy, language: Language) -> Vec<String> {
    match language {
        Language::Iptables => Vec::new(),
        Language::Ipf | Language::Ipfw => absent_of(policy, &present()),
    }
}

fn absent_of(policy: &Policy, present: &BTreeSet<String>) -> Vec<String> {
    let mut named = BTreeSet::new();
    for rule in policy.chains.iter().flat_map(|chain| &chain.rules) {
        collect(&rule.tests, &mut named);
    }
    let missing = |pattern: &&&IfPattern| {
        !pattern.name.is_empty() && !present.iter().any(|name| pattern.matches(name))
    };
    named
        .iter()
        .filter(missing)
        .map(|pattern| pattern.name.clone() + if pattern.prefix { "*" } else { "" })
        .collect()
}

fn collect<'a>(tests: &'a [Test], named: &mut BTreeSet<&'a IfPattern>) {
    for test in tests {
        match &test.cond {
            Cond::InIface(pattern) | Cond::OutIface(pattern) => drop(named.insert(pattern)),
            Cond::Any(tests) => collect(tests, named),
            _ => {}
        }
    }
}

/// What to say about them.
pub fn remark(absent: &[String]) -> Option<String> {
    if absent.is_empty() {
        return None;
    }
    let names: Vec<String> = absent.iter().map(|name| format!("`{name}`")).collect();
    let how = match absent.iter().any(|name| name == "lo0") {
        true => " (`--interface lo0=lo`)",
        false => " (`--interface OLD=NEW`)",
    };
    Some(format!(
        "no interface here is called {}: rules that name it match as if no packet used it{how}",
        names.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{ReadingArgs, load_texts};
    use crate::state::SavedSource;

    #[test]
    fn names_of_another_system_are_told() {
        let text = "add 100 allow ip from any to any via lo0\n\
                    add 200 deny ip from any to any { recv em0 or xmit eth0 }\n";
        let texts = [SavedSource {
            name: "r".to_owned(),
            text: text.to_owned(),
        }];
        let reading = ReadingArgs {
            dialect: Some("ipfw".to_owned()),
            ..ReadingArgs::default()
        };
        let loaded = load_texts(&texts, &reading).unwrap();
        let policy = loaded.policy().unwrap();
        let present = BTreeSet::from(["lo".to_owned(), "eth0".to_owned()]);
        assert_eq!(absent_of(policy, &present), ["em0", "lo0"]);
        let told = remark(&absent_of(policy, &present)).unwrap();
        assert!(told.contains("`em0` or `lo0`") && told.contains("`--interface lo0=lo`"));
        assert_eq!(remark(&[]), None);
    }
}
