//! What tests ask of enforced rules of ipfw.

use super::{Folder, Namespace, Run, counters};
use std::collections::BTreeMap;

/// A command of ipfw on the enforced rules.
pub fn run(folder: &Folder, netns: &Namespace, words: &str) -> Run {
    let mut args = vec!["ipfw", "--netns", &netns.0];
    args.extend(words.split(' '));
    folder.weir(&args)
}

/// What a command of ipfw prints of the enforced rules.
pub fn ipfw(folder: &Folder, netns: &Namespace, words: &str) -> String {
    run(folder, netns, words).expect(0).out
}

/// Puts rules in force.
pub fn apply(folder: &Folder, netns: &Namespace, rules: &str) {
    try_apply(folder, netns, rules).expect(0);
}

/// Puts rules in force that may be refused.
pub fn try_apply(folder: &Folder, netns: &Namespace, rules: &str) -> Run {
    folder.file("rules.ipfw", rules);
    folder.weir(&["apply", "--netns", &netns.0, "rules.ipfw"])
}

/// Packets by the rules' numbers.
pub fn packets(folder: &Folder, netns: &Namespace) -> BTreeMap<u64, u64> {
    let all = counters(folder, &netns.0).into_iter();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    all.map(|line| (number(&line["index"]), number(&line["packets"])))
        .collect()
}

/// Packets of a rule, by its number.
pub fn counted(folder: &Folder, netns: &Namespace, rule: u64) -> u64 {
    packets(folder, netns)[&rule]
}
