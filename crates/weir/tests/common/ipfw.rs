//! What tests ask of enforced rules of ipfw.

use super::{Folder, Namespace};

/// What a command of ipfw prints of the enforced rules.
pub fn ipfw(folder: &Folder, netns: &Namespace, words: &str) -> String {
    let mut args = vec!["ipfw", "--netns", &netns.0];
    args.extend(words.split(' '));
    folder.weir(&args).expect(0).out
}

/// Packets of a rule, by its number.
pub fn counted(folder: &Folder, netns: &Namespace, rule: u64) -> u64 {
    let args = ["counters", "--rules", "--json", "--netns", &netns.0];
    let lines = folder.weir(&args).expect(0).json();
    let all = lines.as_array().unwrap().iter();
    let mut own = all.filter(|line| line["index"] == rule);
    own.next().unwrap()["packets"].as_u64().unwrap()
}
