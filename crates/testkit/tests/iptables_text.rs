//! Reading and printing rule files, judged by the original: every file of the corpus is read
//! without an error, and what weir prints of it makes iptables-legacy hold exactly the same rules
//! as the file itself.
//!
//! Needs root for the second part; without, it says so and passes, unless
//! `WEIR_REQUIRE_KERNEL=1`. It does not judge what the rules do; `against_iptables` does.

use std::path::Path;

use weir_policy::dialect::iptables;
use weir_policy::model::{Family as ModelFamily, SourceId};
use weir_policy::syntax::Severity;
use weir_testkit::compare::case::{self, Case, Family, RuleFile};
use weir_testkit::netns::{Lab, Node};
use weir_testkit::sys;

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs/iptables");
    case::find(&folder).expect("the corpus must be readable")
}

/// The file as weir prints it, and the errors it found.
fn printed(file: &RuleFile) -> (String, Vec<String>) {
    let family = match file.family {
        Family::V4 => ModelFamily::V4,
        Family::V6 => ModelFamily::V6,
    };
    let (tree, messages) = iptables::parse_as(&file.text, SourceId(0), family);
    let errors = messages
        .iter()
        .filter(|message| message.severity == Severity::Error)
        .map(|message| {
            let line = file.text[..message.span.start as usize].lines().count();
            format!("{}:{line}: {}", file.path.display(), message.message)
        })
        .collect();
    (iptables::print(&tree), errors)
}

#[test]
fn every_file_is_read_without_error() {
    let mut errors = Vec::new();
    for file in cases().iter().flat_map(|case| &case.rules) {
        errors.extend(printed(file).1);
    }
    assert!(
        errors.is_empty(),
        "{} errors:\n{}",
        errors.len(),
        errors.join("\n")
    );
}

/// What the kernel holds after loading a text: the rule lines of `iptables-legacy-save`.
fn held(lab: &Lab, family: Family, text: &str) -> Result<Vec<String>, String> {
    let restore = family.program("restore");
    let output = lab
        .run(Node::Gateway, &restore, &["--wait", "20"], text)
        .expect(&restore);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let output = lab
        .run(Node::Gateway, &family.program("save"), &[], "")
        .expect("save");
    let text = String::from_utf8(output.stdout).expect("save prints text");
    // Chain lines end with counters, which the laboratory's own start-up may have moved.
    let rules = text.lines().filter(|line| !line.starts_with('#'));
    let kept = rules.map(|line| match line.split_once(" [") {
        Some((chain, _)) if line.starts_with(':') => chain,
        _ => line,
    });
    Ok(kept.map(str::to_owned).collect())
}

#[test]
fn printed_files_mean_the_same_to_iptables() {
    if !sys::is_root() {
        assert!(
            std::env::var("WEIR_REQUIRE_KERNEL").as_deref() != Ok("1"),
            "needs root"
        );
        eprintln!("SKIPPED printed_files_mean_the_same_to_iptables: needs root");
        return;
    }
    let mut wrong = Vec::new();
    for case in &cases() {
        let lab = Lab::create().expect("laboratory");
        if let Some((_, sets)) = &case.sets {
            let output = lab
                .run(Node::Gateway, "ipset", &["restore"], sets)
                .expect("ipset");
            assert!(output.status.success(), "{}: ipset restore", case.name);
        }
        for file in &case.rules {
            let original = held(&lab, file.family, &file.text).expect("the corpus loads");
            let text = printed(file).0;
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            match held(&lab, file.family, &text) {
                Err(message) => wrong.push(format!("{name}: refused as printed: {message}{text}")),
                Ok(lines) if lines == original => {}
                Ok(lines) => {
                    let pairs = original.iter().zip(&lines).filter(|(a, b)| a != b).take(3);
                    let shown: Vec<_> = pairs.map(|(a, b)| format!("  {a}\n  {b}")).collect();
                    wrong.push(format!("{name}: other rules\n{}", shown.join("\n")));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} files differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
