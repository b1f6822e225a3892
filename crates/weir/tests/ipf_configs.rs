//! Rule files of IPFilter as people write them: checked, compiled, printed, and asked about
//! packets. What each is to give stands in itself, see `testdata/configs/ipf/README.md`.

mod common;

use common::{Folder, configs};
use std::path::{Path, PathBuf};

/// What a file says about itself.
#[derive(Debug, Default)]
struct Wanted {
    check: i32,
    options: Vec<String>,
    packets: String,
    verdicts: Vec<String>,
}

impl Wanted {
    fn of(text: &str) -> Self {
        let mut out = Wanted::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
            let (word, rest) = line.split_once(' ').expect("a word and more");
            match word {
                "exit" => out.check = rest.parse().expect("a status"),
                "option" => out.options.push(rest.to_owned()),
                "packet" => {
                    let (packet, verdict) = rest.split_once(" => ").expect("an answer");
                    out.packets += packet;
                    out.packets.push('\n');
                    out.verdicts.push(verdict.to_owned());
                }
                _ => panic!("no such line: {line}"),
            }
        }
        out
    }
}

fn files() -> Vec<PathBuf> {
    let mut all = configs("ipf");
    let is_rules = |path: &PathBuf| {
        path.extension()
            .is_some_and(|kind| kind == "ipf" || kind == "hpux")
    };
    all.retain(is_rules);
    all
}

fn try_one(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).expect("a text");
    let wanted = Wanted::of(&text);
    let folder = Folder::new();
    let name = path.display().to_string();
    let dialect = path
        .extension()
        .and_then(|kind| kind.to_str())
        .expect("a kind");
    let pools = path.with_extension("pool").display().to_string();
    let tables = path
        .with_extension("pool")
        .exists()
        .then_some(pools.as_str());
    let about = ["--dialect", dialect];

    let mut call = [&["check", "--cost"][..], &about, &[&name]].concat();
    call.extend(tables);
    let run = folder.weir(&call);
    assert_eq!(run.code, Some(wanted.check), "{name}: {}", run.err);
    assert!(run.out.contains("worst packet"), "{name}: {}", run.out);

    let mut call = [&["show"][..], &about, &[&name]].concat();
    call.extend(tables);
    let shown = folder.weir(&call).expect(0);
    folder.file("shown", &shown.out);
    let again = folder
        .weir(&[&["show"][..], &about, &["shown"]].concat())
        .expect(0);
    assert_eq!(shown.out, again.out, "{name}");

    folder.file("packets", &wanted.packets);
    let mut wrong = Vec::new();
    // `ipftest` has tables in a file of their own; `show` prints them in front.
    let texts = [Some(name.as_str()), tables.is_none().then_some("shown")];
    for rules in texts.into_iter().flatten() {
        let mut call = vec!["ipftest", "-R", "-b", "-i", "packets"];
        call.extend(about);
        call.extend(wanted.options.iter().map(String::as_str));
        if let Some(tables) = tables {
            call.extend(["-P", tables]);
        }
        call.extend(["-r", rules]);
        let run = folder.weir(&call).expect(0);
        let found: Vec<&str> = run.out.lines().collect();
        assert_eq!(found.len(), wanted.verdicts.len(), "{name}: {}", run.err);
        let asked = wanted.packets.lines().zip(&wanted.verdicts).zip(found);
        for ((packet, verdict), found) in asked.filter(|((_, verdict), found)| verdict != found) {
            wrong.push(format!("{rules}: {packet}: {found}, not {verdict}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    wanted.verdicts.len()
}

#[test]
fn files_give_what_they_say() {
    let all = files();
    assert!(all.len() >= 18, "{}", all.len());
    let packets: usize = all.iter().map(|path| try_one(path)).sum();
    assert!(packets >= 140, "{packets}");
}
