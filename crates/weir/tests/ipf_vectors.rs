//! The vectors of `testdata/vectors/ipf`, run through `weir ipftest`.
//!
//! Each file is a text that another implementation can run: rules, packets, expected words. The
//! words were computed from the statements of the language, not taken from this program.

mod common;

use common::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One case of a file.
#[derive(Default)]
struct Case {
    name: String,
    options: Vec<String>,
    pools: String,
    rules: String,
    packets: String,
    hex: bool,
    expected: Vec<String>,
}

fn cases(text: &str) -> Vec<Case> {
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

fn run(folder: &Path, case: &Case) -> Vec<String> {
    fs::write(folder.join("rules"), &case.rules).unwrap();
    fs::write(folder.join("packets"), &case.packets).unwrap();
    fs::write(folder.join("pools"), &case.pools).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .current_dir(folder)
        .arg("ipftest")
        .args(["-R", "-br", "rules", "-i", "packets"]);
    command.args(&case.options);
    if case.hex {
        command.args(["-F", "hex"]);
    }
    if !case.pools.is_empty() {
        command.args(["-P", "pools"]);
    }
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{}: {}",
        case.name,
        String::from_utf8_lossy(&done.stderr)
    );
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Runs a file and reports all cases that went another way; gives how many verdicts were compared.
fn file(name: &str) -> usize {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/ipf");
    let text = fs::read_to_string(path.join(name)).unwrap();
    let folder = Folder::new();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in cases(&text) {
        let found = run(&folder.0, &case);
        compared += case.expected.len();
        if found != case.expected {
            wrong.push(format!(
                "{}\n{}expected {:?}\n   found {found:?}",
                case.name, case.rules, case.expected
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {name}:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    compared
}

#[test]
fn evaluation() {
    assert!(file("evaluation.txt") > 80);
}

#[test]
fn addresses() {
    assert!(file("addresses.txt") > 300);
}

#[test]
fn fields() {
    assert!(file("fields.txt") > 400);
}

#[test]
fn with() {
    assert!(file("with.txt") > 150);
}

#[test]
fn state() {
    assert!(file("state.txt") > 150);
}

#[test]
fn hpux() {
    assert!(file("hpux.txt") > 40);
}
