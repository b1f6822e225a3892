//! Rule files and scripts of ipfw as people write them: recorded, checked, shown, explained, and
//! taken by `apply` as far as the kernel isn't needed. What each is to give stands in itself, see
//! `testdata/configs/ipfw/README.md`.

mod common;

use common::{Folder, configs};
use std::path::{Path, PathBuf};

/// What a file says about itself.
#[derive(Debug, Default)]
struct Wanted {
    check: i32,
    apply: Option<i32>,
    facts: Vec<String>,
    locals: Vec<String>,
    arguments: Vec<String>,
    per_command: bool,
    packets: Vec<(String, String, u64)>,
}

impl Wanted {
    fn of(text: &str) -> Self {
        let mut out = Wanted {
            apply: Some(0),
            ..Wanted::default()
        };
        for line in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "exit" => out.check = rest.parse().expect("a status"),
                "apply" => out.apply = rest.parse().ok(),
                "local" => out.locals.extend(["--local".to_owned(), rest.to_owned()]),
                "route" => out.facts.extend(["--route".to_owned(), rest.to_owned()]),
                "argument" => out.arguments.push(rest.to_owned()),
                "per-command" => out.per_command = true,
                "packet" => {
                    let (packet, answer) = rest.split_once(" => ").expect("an answer");
                    let (verdict, number) = answer.split_once(' ').expect("a rule number");
                    let number = number.trim().parse().expect("a rule number");
                    out.packets
                        .push((packet.to_owned(), verdict.to_owned(), number));
                }
                _ => panic!("no such line: {line}"),
            }
        }
        out
    }
}

fn files() -> Vec<PathBuf> {
    let mut all = configs("ipfw");
    all.retain(|path| path.extension().is_some_and(|kind| kind != "md"));
    all
}

fn words<'w>(fixed: &[&'w str], more: &[&'w [String]]) -> Vec<&'w str> {
    let more = more.iter().flat_map(|part| part.iter().map(String::as_str));
    fixed.iter().copied().chain(more).collect()
}

/// The rule file: the file itself, or what a script's calls come to.
fn recorded(folder: &Folder, path: &Path, wanted: &Wanted) -> String {
    let name = path.display().to_string();
    if path.extension().is_none_or(|kind| kind != "sh") {
        return name;
    }
    let mut call = words(&["ipfw-record", "-o", "recorded"], &[&wanted.locals]);
    call.extend(wanted.per_command.then_some("--per-command"));
    call.push(&name);
    call.extend(wanted.arguments.iter().map(String::as_str));
    let run = folder.weir(&call);
    assert_eq!(run.code, Some(wanted.check), "{name}: {}", run.err);
    "recorded".to_owned()
}

fn try_one(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).expect("a text");
    let wanted = Wanted::of(&text);
    let folder = Folder::new();
    let rules = recorded(&folder, path, &wanted);
    let name = path.display();
    let about = ["--dialect", "ipfw"];
    let run = folder.weir(&[&["check"][..], &about, &[&rules]].concat());
    assert_eq!(run.code, Some(wanted.check), "{name}: {}", run.err);
    let shown = folder
        .weir(&[&["show"][..], &about, &[&rules]].concat())
        .expect(0);
    folder.file("shown", &shown.out);
    let again = folder
        .weir(&[&["show"][..], &about, &["shown"]].concat())
        .expect(0);
    assert_eq!(shown.out, again.out, "{name}");
    for (packet, verdict, number) in &wanted.packets {
        let mut call = words(
            &[
                "explain",
                "--json",
                "--dialect",
                "ipfw",
                "--allow-unsupported",
            ],
            &[&wanted.locals, &wanted.facts],
        );
        call.extend([rules.as_str(), packet]);
        let told = folder.weir(&call).expect(0).json();
        assert_eq!(
            (told["verdict"].as_str(), told["rule"].as_u64()),
            (Some(verdict.as_str()), Some(*number)),
            "{name}: {packet}"
        );
    }
    if let Some(status) = wanted.apply {
        let run = folder.weir(&[&["apply", "--dry-run"][..], &about, &[&rules]].concat());
        assert_eq!(run.code, Some(status), "{name}: {}", run.err);
    }
    wanted.packets.len()
}

#[test]
fn files_and_scripts_give_what_they_say() {
    let all = files();
    assert!(all.len() >= 60, "{}", all.len());
    let packets: usize = all.iter().map(|path| try_one(path)).sum();
    assert!(packets >= 130, "{packets}");
}
