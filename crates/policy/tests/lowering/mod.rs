//! What the lowering tests share: sets, and files read and lowered.

use weir_policy::dialect::ipset;
use weir_policy::dialect::iptables::{Input, LowerOptions, LowerReport, lower, parse_as};
use weir_policy::model::{Chain, Family, Policy, SourceId};

pub const SETS: &str = "create one hash:net family inet timeout 60\nadd one 10.0.0.0/8\n\
    add one 10.1.0.0/16 nomatch timeout 0\ncreate two hash:ip,port family inet\n\
    add two 1.2.3.4-1.2.3.6,tcp:80-81\ncreate both list:set\nadd both one\nadd both two\n\
    create wide hash:ip family inet netmask 24\nadd wide 10.1.2.0\n\
    create trap hash:ip family inet timeout 600\ncreate kept hash:ip family inet timeout 0\n\
    add kept 10.9.9.9 timeout 20\nadd kept 10.9.9.8\ncreate six hash:ip family inet6\n\
    create member hash:ip family inet\ncreate list list:set\nadd list member\n";

/// Lowers files in the order given: `(family, text)`.
pub fn lower_files(
    files: &[(Family, &str)],
    options: &LowerOptions<'_>,
) -> (Option<Policy>, LowerReport) {
    lower_with(files, SETS, options)
}

/// The same with these sets.
pub fn lower_with(
    files: &[(Family, &str)],
    sets: &str,
    options: &LowerOptions<'_>,
) -> (Option<Policy>, LowerReport) {
    let mut parsed = Vec::new();
    for (index, (family, text)) in files.iter().enumerate() {
        let (file, found) = parse_as(text, SourceId(index as u16), *family);
        let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
        assert!(errors.is_empty(), "{errors:?} in\n{text}");
        parsed.push(file);
    }
    let (sets, found) = ipset::parse(sets, SourceId(files.len() as u16));
    assert!(found.is_empty(), "{found:?}");
    let mut inputs = vec![Input::Sets {
        name: "sets",
        file: &sets,
    }];
    inputs.extend(parsed.iter().map(|file| Input::Rules {
        name: "rules",
        file,
    }));
    lower(&inputs, options)
}

pub fn filter(lines: &str) -> String {
    format!("*filter\n{lines}\nCOMMIT\n")
}

pub fn chain<'p>(policy: &'p Policy, name: &str) -> &'p Chain {
    policy
        .chains
        .iter()
        .find(|chain| chain.name == name)
        .unwrap()
}
