//! Rule files to a policy, for tests: what `weir check` does, without a program around it.

use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::dialect::{Dialect, detect, family_of, ipset};
use weir_policy::model::Policy;
use weir_policy::syntax::Sources;

/// Lowers texts with their names (`rules.v4`, `rules.v6`, `sets.ipset`) as one policy.
///
/// # Errors
/// The messages, one a line.
pub fn policy_of(texts: &[(String, String)]) -> Result<Policy, String> {
    let (mut rules, mut sets, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let mut sources = Sources::new();
    for (name, text) in texts {
        let source = sources.add(name, text.as_str());
        let found = match detect(text) {
            Some(Dialect::Ipset) => {
                let (file, found) = ipset::parse(text, source);
                sets.push((name, file));
                found
            }
            _ => {
                let (file, found) = iptables::parse_as(text, source, family_of(name, text));
                rules.push((name, file));
                found
            }
        };
        messages.extend(found);
    }
    let sets = sets.iter().map(|(name, file)| Input::Sets { name, file });
    let rules = rules.iter().map(|(name, file)| Input::Rules { name, file });
    let inputs: Vec<Input<'_>> = sets.chain(rules).collect();
    let (policy, report) = iptables::lower(&inputs, &LowerOptions::default());
    messages.extend(report.diagnostics);
    let errors = messages.iter().filter(|message| message.is_error());
    let errors: Vec<String> = errors.map(|message| message.line(&sources)).collect();
    match policy {
        Some(policy) if errors.is_empty() => Ok(policy),
        _ => Err(errors.join("\n")),
    }
}

/// The rule files of `testdata/configs/iptables` by stem: `(stem, texts)`, sorted.
pub fn corpus() -> Vec<(String, Vec<(String, String)>)> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/configs/iptables"
    );
    let mut out: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the rule files are in the repository")
        .map(|entry| entry.expect("readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e != "traffic"))
        .collect();
    paths.sort();
    for path in paths {
        let stem = path
            .file_stem()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).expect("readable file");
        match out.last_mut() {
            Some((last, texts)) if *last == stem => texts.push((name, text)),
            _ => out.push((stem, vec![(name, text)])),
        }
    }
    out
}
