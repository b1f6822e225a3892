//! Cases of `testdata/vectors/ipf`: rules, packets, expected words.
//!
//! In: the text of a file. Out: its cases, in order.

use std::path::PathBuf;

/// One case of a file.
#[derive(Default)]
pub struct Case {
    pub name: String,
    pub options: Vec<String>,
    pub pools: String,
    pub rules: String,
    pub packets: String,
    pub hex: bool,
    pub expected: Vec<String>,
}

/// The text of a file of vectors.
pub fn text(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/ipf");
    std::fs::read_to_string(path.join(name)).unwrap()
}

/// The cases of a file.
pub fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut section = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case {
                name: name.to_owned(),
                ..Case::default()
            });
            section = "";
            continue;
        }
        if let Some(name) = line.strip_prefix("-- ") {
            section = name;
            continue;
        }
        let Some(case) = cases.last_mut() else {
            continue;
        };
        case.hex |= section == "hex";
        match section {
            "options" => case.options.extend(line.split(' ').map(str::to_owned)),
            "pools" => case.pools += &format!("{line}\n"),
            "rules" => case.rules += &format!("{line}\n"),
            "packets" | "hex" => case.packets += &format!("{line}\n"),
            "expect" if !line.is_empty() => case.expected.push(line.to_owned()),
            _ => assert!(line.is_empty(), "`{line}` in section `{section}`"),
        }
    }
    cases
}
