//! Shapes of rule files that tools and people write (`testdata/shapes`): each is read, lowered and
//! printed back. What weir cannot honour has to be refused, by these words and no others.
//!
//! What the rules mean is not judged here: `against_iptables` in the test kit does that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_policy::dialect::iptables::{Input, LowerOptions, lower, parse_as, print};
use weir_policy::dialect::{family_of, ipset};
use weir_policy::model::{Family, SourceId};
use weir_policy::syntax::Diagnostic;

/// Files that are not taken whole, and the messages of their errors.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "cilium.v4",
        &[
            "`-j TPROXY` is not supported",
            "`-m socket` is not supported",
        ],
    ),
    (
        "crowdsec.v4",
        &["a set of type hash:net,iface (`kube-bridge`) is not supported"],
    ),
    ("gce-azure.v4", &["the table security is not supported"]),
    ("neutron.v4", &["`--zone` of `-j CT` is not supported"]),
    (
        "no-commit.v4",
        &["this table has no COMMIT, so nothing of it would be loaded"],
    ),
    (
        "restore-commands.v4",
        &["renaming `allowed` after a rule has used it"],
    ),
    (
        "snort-inline.v4",
        &[
            "`-j NFQUEUE` is not supported",
            "`-j QUEUE` is not supported",
        ],
    ),
    ("synproxy.v4", &["`-j SYNPROXY` is not supported"]),
];

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/shapes");
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|end| end == "v4" || end == "v6")
    });
    files.sort();
    files
}

fn errors(found: &[Diagnostic], into: &mut Vec<String>) {
    let messages = found.iter().filter(|found| found.is_error());
    into.extend(messages.map(|found| found.message.clone()));
}

/// The errors of a file with its sets, each once and sorted.
fn errors_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("text");
    let name = path.file_name().unwrap().to_str().unwrap();
    let (file, found) = parse_as(&text, SourceId(0), family_of(name, &text));
    let mut messages = Vec::new();
    errors(&found, &mut messages);
    let again = parse_as(&print(&file), SourceId(0), file.family);
    assert_eq!(again.0, file, "{name}: what is printed reads otherwise");
    let sets = std::fs::read_to_string(path.with_extension("ipset")).ok();
    let sets = sets.map(|text| ipset::parse(&text, SourceId(1)));
    let mut inputs = vec![Input::Rules { name, file: &file }];
    if let Some((file, found)) = &sets {
        errors(found, &mut messages);
        inputs.push(Input::Sets { name: "sets", file });
    }
    let (_, report) = lower(&inputs, &LowerOptions::default());
    errors(&report.diagnostics, &mut messages);
    messages.sort();
    messages.dedup();
    messages
}

#[test]
fn every_shape_is_taken_or_refused_by_name() {
    let refused: BTreeMap<&str, &[&str]> = REFUSED.iter().copied().collect();
    let files = files();
    assert!(files.len() >= 40, "only {} shapes", files.len());
    for path in &files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = refused.get(name).copied().unwrap_or_default();
        assert_eq!(errors_of(path), expected, "{name}");
    }
    for (name, _) in REFUSED {
        assert!(files.iter().any(|path| path.ends_with(name)), "{name}");
    }
}

#[test]
fn saves_of_both_families_in_one_text_are_both_lowered() {
    let path = files()
        .into_iter()
        .find(|path| path.ends_with("two-saves.v4"));
    let text = std::fs::read_to_string(path.expect("the file")).unwrap();
    let (file, found) = parse_as(&text, SourceId(0), Family::V4);
    assert!(!found.iter().any(Diagnostic::is_error), "{found:?}");
    assert_eq!(file.families(), [Family::V4, Family::V6]);
    let inputs = [Input::Rules {
        name: "both",
        file: &file,
    }];
    let (policy, report) = lower(&inputs, &LowerOptions::default());
    let policy = policy.expect("no errors");
    let roots = |family| {
        policy
            .roots
            .iter()
            .filter(|root| root.family == family)
            .count()
    };
    assert_eq!((roots(Family::V4), roots(Family::V6)), (3, 3));
    assert_eq!(report.nat_rules, 1);
}
