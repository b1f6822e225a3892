//! The documents say what is true: every rule that `docs/iptables.md` calls enforced is accepted by
//! `weir check`, every rule that it calls refused is refused, the example files are accepted, and
//! the tour in `README.md` shows what the program prints.
//!
//! In: fenced boxes named `TABLE FAMILY` or `refused TABLE FAMILY` with one rule per line, and
//! boxes named `console` with a command after `$` and its output. Out: exit status and output
//! of `weir`.
//! Not here: what an accepted rule does, and the commands that need a kernel (`console-root`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The construct can't be honoured (`docs/iptables.md`, "Refused").
const EXIT_UNSUPPORTED: i32 = 3;
/// The text is wrong in itself.
const EXIT_FAULTY: i32 = 1;

/// One fenced box of rules.
struct RuleBox {
    line: usize,
    refused: bool,
    table: String,
    family: String,
    rules: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rule_boxes(page: &str) -> Vec<RuleBox> {
    let mut boxes = Vec::new();
    let mut open: Option<RuleBox> = None;
    for (at, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => boxes.extend(open.take()),
            (Some(label), None) => {
                let words: Vec<&str> = label.split_whitespace().collect();
                let refused = words.first() == Some(&"refused");
                let [.., table, family] = words[..] else {
                    panic!(
                        "docs/iptables.md:{}: a box needs a table and a family",
                        at + 1
                    )
                };
                open = Some(RuleBox {
                    line: at + 1,
                    refused,
                    table: table.to_owned(),
                    family: family.to_owned(),
                    rules: Vec::new(),
                });
            }
            (None, Some(open)) => open.rules.push(line.to_owned()),
            (None, None) => {}
        }
    }
    boxes
}

/// Runs `weir check` on a table that holds these lines.
fn check(folder: &Path, table: &str, family: &str, lines: &[&str]) -> Output {
    let path = folder.join(format!("rules.{family}"));
    fs::write(&path, format!("*{table}\n{}\nCOMMIT\n", lines.join("\n"))).expect("write rules");
    weir(&["check", path.to_str().expect("UTF-8 path")])
}

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("weir runs")
}

fn transcript(output: &Output) -> String {
    let status = output.status.code();
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{status:?}\n{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

#[test]
fn rules_in_the_manual_are_accepted_or_refused_as_it_says() {
    let page = fs::read_to_string(root().join("docs/iptables.md")).expect("the page");
    // What follows is carried out by the test of the migration pages.
    let rules = page.split("\n## From a saved file").next().unwrap_or(&page);
    let boxes = rule_boxes(rules);
    assert!(boxes.len() >= 6, "only {} boxes found", boxes.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
    fs::create_dir_all(&folder).expect("scratch folder");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for rule_box in &boxes {
        let chains: Vec<&str> = rule_box
            .rules
            .iter()
            .map(String::as_str)
            .filter(|line| line.starts_with(':'))
            .collect();
        for (at, rule) in rule_box
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| !rule.starts_with(':'))
        {
            let mut lines = chains.clone();
            lines.push(rule);
            let output = check(&folder, &rule_box.table, &rule_box.family, &lines);
            let as_said = match output.status.code() {
                Some(0) => !rule_box.refused,
                Some(EXIT_UNSUPPORTED | EXIT_FAULTY) => rule_box.refused,
                _ => false,
            };
            checked += 1;
            if !as_said {
                let line = rule_box.line + 1 + at;
                wrong.push(format!(
                    "docs/iptables.md:{line}: {rule}\n{}",
                    transcript(&output)
                ));
            }
        }
    }
    assert!(checked > 60, "only {checked} rules found");
    assert!(
        wrong.is_empty(),
        "{} of {checked} rules:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_examples_are_accepted_as_one_policy() {
    let output = weir(&[
        "check",
        "examples/office-gateway.rules.v4",
        "examples/office-gateway.rules.v6",
        "examples/office-gateway.ipset",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
}

/// A command of the tour, its words and what the page says that it prints.
struct Shown {
    line: usize,
    command: String,
    output: String,
}

fn shown_commands(page: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (at, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            shown.push(Shown {
                line: at + 1,
                command: command.to_owned(),
                output: String::new(),
            });
        } else if let Some(last) = shown.last_mut().filter(|_| inside) {
            if let Some(more) = last.command.strip_suffix('\\') {
                last.command = format!("{more}{}", line.trim_start());
            } else {
                last.output.push_str(line);
                last.output.push('\n');
            }
        }
    }
    shown
}

/// Splits a command into words; only single quotes quote.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Lines without what a better compiler may change, and without spaces at the end, which editors
/// take away. The page is right when the words are.
fn without_figures(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut line = line.trim_end().to_owned();
        if line.starts_with("compiled:") || line.starts_with("worst packet:") {
            line.retain(|c| !c.is_ascii_digit() && c != '.');
        }
        line + "\n"
    });
    lines.collect()
}

#[test]
fn the_tour_shows_what_the_program_prints() {
    let page = fs::read_to_string(root().join("README.md")).expect("the page");
    let shown = shown_commands(&page);
    assert!(shown.len() >= 3, "only {} commands found", shown.len());
    for Shown {
        line,
        command,
        output,
    } in shown
    {
        let words = words(&command);
        assert_eq!(
            words.first().map(String::as_str),
            Some("weir"),
            "README.md:{line}"
        );
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let ran = weir(&arguments);
        let printed = format!(
            "{}{}",
            String::from_utf8_lossy(&ran.stderr),
            String::from_utf8_lossy(&ran.stdout)
        );
        let (printed, output) = (without_figures(&printed), without_figures(&output));
        assert_eq!(printed, output, "README.md:{line}: {command}");
    }
}
