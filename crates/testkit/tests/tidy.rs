//! The repository lints itself: what style asks for and a machine can check.
//!
//! In: every file of the source tree, as text. Out: one line per offence, all offences at once.
//! Not here: what rustfmt and clippy see (`.ci/run` calls them), and whether a comment is true.
//!
//! The limits are ours (CONTRIBUTING.md). An exception is an entry in one of the lists below, with
//! its reason; an entry that is no longer needed is an offence too, so that the lists stay short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Columns per line, in code and in prose.
const COLUMNS_MAX: usize = 100;
/// The same for C, where a tab counts eight and comments stand behind the code.
const C_COLUMNS_MAX: usize = 120;
/// Lines per source file; typical files have 100 to 300.
const FILE_LINES_MAX: usize = 600;
/// Lines per function, from its `fn` to its closing brace; about 70 is the aim.
const FUNCTION_LINES_MAX: usize = 90;
/// Bytes per file outside `testdata` and `record`.
const BLOB_BYTES_MAX: u64 = 64 * 1024;

/// Source files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[(
    "crates/engine/src/flow/tcp.rs",
    "one state table and its twin in C are read side by side",
)];

/// Functions (file, name) that may be longer, and why.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// Folders that hold other people's words or the machine's output.
const FOLDERS_LEFT_OUT: &[&str] = &[
    ".git",
    "target",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
];

/// One file of the tree: its path from the root, and its text where it is text.
struct Source {
    path: String,
    bytes: u64,
    text: Option<String>,
}

impl Source {
    fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or("")
    }

    fn is_code(&self) -> bool {
        matches!(self.extension(), "rs" | "c" | "h" | "sh") || self.has_shebang()
    }

    /// Configurations, captures and records are data: their lines and sizes are what they are.
    fn is_data(&self) -> bool {
        let path = &self.path;
        path.starts_with("examples/")
            || path
                .split('/')
                .any(|part| part == "testdata" || part == "record")
            || path.starts_with("LICENSE")
            || self.extension() == "txt"
            || path == "Cargo.lock"
    }

    fn has_shebang(&self) -> bool {
        self.text
            .as_deref()
            .is_some_and(|text| text.starts_with("#!/"))
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .as_deref()
            .unwrap_or("")
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("workspace root")
}

fn sources() -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    found.sort_by(|left, right| left.path.cmp(&right.path));
    assert!(
        found.len() > 20,
        "the tree wasn't found: {} files",
        found.len()
    );
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("readable folder") {
        let entry = entry.expect("readable entry");
        let path = entry.path();
        let relative = path.strip_prefix(root).expect("below the root");
        let relative = relative.to_str().expect("UTF-8 path").to_owned();
        if FOLDERS_LEFT_OUT.contains(&relative.as_str()) {
            continue;
        }
        if entry.file_type().expect("file type").is_dir() {
            collect(root, &path, found);
            continue;
        }
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let text = fs::read(&path)
            .ok()
            .and_then(|raw| String::from_utf8(raw).ok());
        found.push(Source {
            path: relative,
            bytes,
            text,
        });
    }
}

/// Fails with all offences, one per line.
fn report(offences: Vec<String>) {
    assert!(
        offences.is_empty(),
        "{} offences:\n{}",
        offences.len(),
        offences.join("\n")
    );
}

#[test]
fn lines_fit_and_hold_no_control_characters() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| !source.is_data()) {
        let tabs_allowed = matches!(source.extension(), "c" | "h") || source.path == "Makefile";
        let columns_max = if matches!(source.extension(), "c" | "h") {
            C_COLUMNS_MAX
        } else {
            COLUMNS_MAX
        };
        let mut fenced = false;
        for (line, text) in source.lines() {
            let at = format!("{}:{line}", source.path);
            if source.extension() == "md" && text.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            // Tables, quoted output, messages and addresses can't be broken.
            let unbreakable = source.extension() == "md" && (fenced || text.starts_with('|'))
                || text.contains("https://")
                || source.extension() == "rs" && is_inside_a_string(text);
            // A tab of C stands for eight columns.
            let columns: usize = text.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum();
            if columns > columns_max && !unbreakable {
                offences.push(format!("{at}: {columns} columns, {columns_max} fit"));
            }
            if text
                .chars()
                .any(|c| c.is_control() && !(c == '\t' && tabs_allowed))
            {
                offences.push(format!("{at}: tab or control character"));
            }
            if text.ends_with(' ') && source.is_code() {
                offences.push(format!("{at}: space at the end"));
            }
        }
    }
    report(offences);
}

/// Whether a long line is long because of a message or a test's text: rustfmt leaves them whole.
fn is_inside_a_string(line: &str) -> bool {
    let line = line.trim();
    !line.starts_with("//") && (line.contains('"') || line.ends_with('\\'))
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let mut offences = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.is_code() && !source.is_data())
    {
        let text = source.text.as_deref().unwrap_or("");
        let opens_well = match source.extension() {
            "rs" => text.starts_with("//!"),
            "c" | "h" => text.starts_with("//") || text.starts_with("/*"),
            _ => text
                .lines()
                .nth(usize::from(source.has_shebang()))
                .is_some_and(is_shell_comment),
        };
        if !opens_well {
            offences.push(format!("{}: doesn't open with what it is for", source.path));
        }
    }
    report(offences);
}

fn is_shell_comment(line: &str) -> bool {
    line.starts_with("# ") && !line.starts_with("# shellcheck")
}

#[test]
fn files_and_functions_stay_readable() {
    let mut offences = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources()
        .iter()
        .filter(|source| source.is_code() && !source.is_data())
    {
        let count = source.lines().count();
        if count > FILE_LINES_MAX {
            if LONG_FILES.iter().any(|(path, _)| *path == source.path) {
                used.insert(source.path.clone());
            } else {
                offences.push(format!(
                    "{}: {count} lines, {FILE_LINES_MAX} fit",
                    source.path
                ));
            }
        }
        if source.extension() != "rs" {
            continue;
        }
        for (line, name, length) in functions(source) {
            if length <= FUNCTION_LINES_MAX {
                continue;
            }
            if LONG_FUNCTIONS
                .iter()
                .any(|(path, known, _)| *path == source.path && *known == name)
            {
                used.insert(format!("{}:{name}", source.path));
            } else {
                let at = format!("{}:{line}", source.path);
                offences.push(format!(
                    "{at}: {name} has {length} lines, {FUNCTION_LINES_MAX} fit"
                ));
            }
        }
    }
    let listed = LONG_FILES.iter().map(|(path, _)| (*path).to_owned());
    let listed = listed.chain(
        LONG_FUNCTIONS
            .iter()
            .map(|(path, name, _)| format!("{path}:{name}")),
    );
    for entry in listed.filter(|entry| !used.contains(entry)) {
        offences.push(format!("{entry}: listed as long, and isn't"));
    }
    report(offences);
}

/// First line, name and length of each function. rustfmt puts the closing brace of a function in
/// the column of its first line, which is all that this relies on.
fn functions(source: &Source) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = source.lines().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = match lines[at..].iter().position(|below| *below == closing) {
            Some(below) if !one_line => below + 1,
            _ => 1,
        };
        found.push((at + 1, name, length));
    }
    found
}

/// The name of the function that a line begins, if it begins one.
fn function_name(line: &str) -> Option<String> {
    const BEFORE: &[&str] = &["const", "unsafe", "async", "extern", "\"C\""];
    let mut words = line.split_whitespace();
    loop {
        let word = words.next()?;
        if word == "fn" {
            let rest = words.next()?;
            return Some(rest.split(['(', '<']).next().unwrap_or(rest).to_owned());
        }
        if !word.starts_with("pub") && !BEFORE.contains(&word) {
            return None;
        }
    }
}

#[test]
fn function_lengths_are_counted_right() {
    let text = "\
//! x
impl A {
    pub(crate) const fn first<T>(a: T) {
        b();
    }

    fn second() -> u8 { 1 }
}
let fn_like = 3;
";
    let source = Source {
        path: "a.rs".into(),
        bytes: 0,
        text: Some(text.into()),
    };
    let expected = vec![(3, "first".to_owned(), 3), (7, "second".to_owned(), 1)];
    assert_eq!(functions(&source), expected);
}

#[test]
fn nothing_is_left_for_later() {
    // Written in halves, so that this file passes its own test.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("HA", "CK:"),
    ];
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| !source.is_data()) {
        for (line, text) in source.lines() {
            if let Some(word) = words.iter().find(|word| text.contains(**word)) {
                offences.push(format!("{}:{line}: {word}", source.path));
            }
        }
    }
    report(offences);
}

#[test]
fn nothing_depends_on_one_machine() {
    let places = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("../sha", "red"),
        concat!("sha", "red/docs"),
        concat!("sha", "red/data"),
    ];
    let mut offences = Vec::new();
    for source in &sources() {
        for (line, text) in source.lines() {
            if let Some(place) = places.iter().find(|place| text.contains(**place)) {
                offences.push(format!("{}:{line}: mentions {place}", source.path));
            }
        }
    }
    report(offences);
}

#[test]
fn large_files_are_test_data_or_records() {
    let mut offences = Vec::new();
    for source in sources() {
        let parts: Vec<&str> = source.path.split('/').collect();
        let may_be_large = parts
            .iter()
            .any(|part| matches!(*part, "testdata" | "record"))
            || source.path == "Cargo.lock";
        if source.bytes > BLOB_BYTES_MAX && !may_be_large {
            offences.push(format!("{}: {} bytes", source.path, source.bytes));
        }
        if source.text.is_none() && !may_be_large {
            offences.push(format!("{}: not text", source.path));
        }
    }
    report(offences);
}

/// A folder of test data that no program names is data that tests nothing.
#[test]
fn every_folder_of_test_data_is_used() {
    let sources = sources();
    let mut folders = BTreeSet::new();
    for source in &sources {
        let parts: Vec<&str> = source.path.split('/').collect();
        let Some(at) = parts.iter().position(|part| *part == "testdata") else {
            continue;
        };
        // The last part is the file; a folder counts when it holds a file itself.
        if parts.len() > at + 2 {
            folders.insert(parts[at + 1..parts.len() - 1].join("/"));
        }
    }
    let users = |folder: &str| {
        sources
            .iter()
            .filter(|source| !source.is_data())
            .any(|source| {
                let last = folder.rsplit('/').next().unwrap_or(folder);
                let named = [format!("/{last}"), format!("\"{last}"), format!("{last}/")];
                matches!(source.extension(), "rs" | "sh" | "toml")
                    && source
                        .text
                        .as_deref()
                        .is_some_and(|text| named.iter().any(|name| text.contains(name.as_str())))
            })
    };
    report(
        folders
            .iter()
            .filter(|folder| !users(folder))
            .map(|folder| format!("testdata/{folder}: no code names it"))
            .collect(),
    );
}

#[test]
fn every_page_has_one_title() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| source.extension() == "md") {
        let mut fenced = false;
        let mut titles = Vec::new();
        for (line, text) in source.lines() {
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if !fenced && text.starts_with("# ") {
                titles.push(line);
            }
        }
        if titles != [1] {
            offences.push(format!(
                "{}: titles on lines {titles:?}, wanted [1]",
                source.path
            ));
        }
    }
    report(offences);
}
