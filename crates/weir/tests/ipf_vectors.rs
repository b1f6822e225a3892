//! The vectors of `testdata/vectors/ipf`, run through `weir ipftest`.
//!
//! Each file is a text that another implementation can run: rules, packets, expected words. The
//! words were computed from the statements of the language, not taken from this program.

#[path = "ipf/case.rs"]
mod case;
mod common;

use case::{Case, cases};
use common::Folder;
use std::fs;
use std::path::Path;
use std::process::Command;

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
    let text = case::text(name);
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
