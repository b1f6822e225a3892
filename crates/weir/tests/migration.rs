//! The migration pages, carried out: every command on them is run as written, in a namespace of its
//! page, and has to say what the page says.
//!
//! A box whose first line is "```file NAME" is a file; in a "```console" box a line that begins
//! with `$ ` is a command, and the lines behind it are what it prints, on both outputs. `...`
//! stands for anything within a line, or on a line of its own for any lines; `[exit N]` at the end
//! for an exit status that isn't 0. Boxes follow each other in one folder.

mod common;

use common::{Folder, Namespace};
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 4] = ["ipf", "hpux", "ipfw", "iptables"];

/// What a page says.
enum Step {
    File(String, String),
    Command {
        line: usize,
        words: String,
        says: Vec<String>,
        status: i32,
    },
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}.md"))
}

fn steps(text: &str) -> Vec<Step> {
    let mut out = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, one)| *one != "```")
            .collect();
        if let Some(name) = kind.strip_prefix("file ") {
            let text: String = body.iter().map(|(_, one)| format!("{one}\n")).collect();
            out.push(Step::File(name.to_owned(), text));
        } else if kind == "console" {
            commands(&body, &mut out);
        }
    }
    out
}

fn commands(body: &[(usize, &str)], out: &mut Vec<Step>) {
    for (number, line) in body {
        if let Some(words) = line.strip_prefix("$ ") {
            out.push(Step::Command {
                line: number + 1,
                words: words.to_owned(),
                says: Vec::new(),
                status: 0,
            });
        } else if let Some(Step::Command { says, status, .. }) = out.last_mut() {
            match line
                .strip_prefix("[exit ")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                Some(number) => *status = number.parse().expect("an exit status"),
                None => says.push((*line).to_owned()),
            }
        }
    }
}

/// Whether a line is what a pattern with `...` in it says.
fn line_fits(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = pattern.split("...").collect();
    for (at, part) in parts.iter().enumerate() {
        let found = match at {
            0 => rest.starts_with(part).then_some(0),
            last if last + 1 == parts.len() && !part.is_empty() => {
                rest.ends_with(part).then(|| rest.len() - part.len())
            }
            _ => rest.find(part),
        };
        let Some(found) = found else { return false };
        rest = &rest[found + part.len()..];
    }
    parts.len() > 1 || rest.is_empty()
}

/// Whether lines are what the page says.
fn fits(says: &[String], lines: &[&str]) -> bool {
    match (says.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, more)), _) if first == "..." => {
            (0..=lines.len()).any(|skipped| fits(more, &lines[skipped..]))
        }
        (Some((first, more)), Some((line, rest))) => {
            line_fits(first, line.trim_end()) && fits(more, rest)
        }
        _ => false,
    }
}

fn carry_out(name: &str) {
    let text = fs::read_to_string(page(name)).expect("the page");
    let folder = Folder::new();
    let namespace = Namespace::with_loopback(name);
    let program = Path::new(env!("CARGO_BIN_EXE_weir"))
        .parent()
        .expect("a folder");
    let mut ran = 0;
    for step in steps(&text) {
        match step {
            Step::File(name, text) => drop(folder.file(&name, &text)),
            Step::Command {
                line,
                words,
                says,
                status,
            } => {
                let script = format!(
                    "cd {} && PATH={}:$PATH && export PATH && unset SSH_CONNECTION && exec 2>&1 && {words}",
                    folder.0.display(),
                    program.display()
                );
                let run = namespace.run(&["sh", "-c", &script]);
                let lines: Vec<&str> = run.out.lines().collect();
                let place = format!("docs/{name}.md:{line}: {words}\n{}", run.out);
                assert_eq!(run.code, Some(status), "{place}");
                assert!(
                    fits(&says, &lines),
                    "{place}\nbut the page says\n{}",
                    says.join("\n")
                );
                ran += 1;
            }
        }
    }
    assert!(ran >= 5, "docs/{name}.md: only {ran} commands");
}

#[test]
fn every_command_of_the_migration_pages_says_what_the_page_says() {
    if weir_plane::kernel_or_skip("migration").is_none() {
        return;
    }
    for name in PAGES {
        carry_out(name);
    }
}

#[test]
fn patterns_fit_what_they_mean() {
    assert!(line_fits(
        "applied: ... in ... ms",
        "applied: 8 rules in 766 ms"
    ));
    assert!(!line_fits("applied: ... in ... ms", "applied: 8 rules"));
    assert!(line_fits("ok", "ok") && !line_fits("ok", "ok, 1 warning"));
    let says = ["a".to_owned(), "...".to_owned(), "z".to_owned()];
    assert!(fits(&says, &["a", "b", "c", "z"]) && fits(&says, &["a", "z"]));
    assert!(!fits(&says, &["a", "b"]));
}
