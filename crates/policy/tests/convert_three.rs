//! The policies of `testdata/three` converted from each language to each other.
//!
//! Every one has to come out, and what comes out has been compared with the source for every
//! packet by the conversion itself; here it is compared once more with what people wrote in that
//! language. `WEIR_SHOW=name` prints what one policy becomes.

mod three;

use three::{Case, names};
use weir_policy::compare::{Options as Exact, compare};
use weir_policy::convert::{Converted, Language, Options, Source, convert};
use weir_policy::model::Family;

/// What IPv6 has no words for in the other language: these convert for IPv4 alone.
const ONLY_IPV4: &[(&str, Language, Language)] = &[
    ("hop-counts", Language::Ipf, Language::Ipfw),
    ("later-fragments", Language::Ipf, Language::Iptables),
    ("later-fragments", Language::Ipfw, Language::Iptables),
];

const LANGUAGES: [Language; 3] = [Language::Iptables, Language::Ipf, Language::Ipfw];

fn converted(case: &Case, to: Language, families: &[Family]) -> Result<Converted, String> {
    let source = Source {
        policy: &case.policy,
        sources: &case.sources,
        language: case.language,
    };
    let options = Options {
        host: false,
        tracked: false,
        families: families.to_vec(),
        describe: |packet| format!("{packet:?}"),
    };
    convert(source, to, &options).map_err(|found| {
        found
            .iter()
            .map(|one| format!("{} {:?}\n", one.line(&case.sources), one.help))
            .collect()
    })
}

#[test]
fn every_policy_converts_from_each_language_to_each() {
    let show = std::env::var("WEIR_SHOW").unwrap_or_default();
    let (mut wrong, mut done) = (String::new(), 0);
    for (name, families) in names() {
        let cases = LANGUAGES.map(|language| Case::read(&name, language));
        for from in &cases {
            for to in LANGUAGES.into_iter().filter(|to| *to != from.language) {
                // ipf and ipfw files speak about both families, those of iptables about one each.
                let only_four = ONLY_IPV4.contains(&(&name, from.language, to));
                let families = match from.language {
                    _ if only_four => vec![Family::V4],
                    Language::Iptables => families.clone(),
                    _ => vec![Family::V4, Family::V6],
                };
                if only_four {
                    assert!(
                        converted(from, to, &[Family::V4, Family::V6]).is_err(),
                        "{name}"
                    );
                }
                match converted(from, to, &families) {
                    Ok(found) => {
                        done += 1;
                        let files = found
                            .files
                            .iter()
                            .map(|file| (file.kind, file.text.as_str()));
                        let again = Case::of_texts(to, files.collect());
                        for other in &cases {
                            let exact = Exact {
                                families: vec![Family::V4],
                                whole_headers: true,
                                ..Exact::default()
                            };
                            let same = compare(&again.policy, &other.policy, &exact)
                                .unwrap()
                                .same();
                            assert!(same, "{name}: {:?} to {to:?}", from.language);
                        }
                        if name == show {
                            for file in &found.files {
                                println!(
                                    "== {name} {:?} to {to:?}, {:?}\n{}",
                                    from.language, file.kind, file.text
                                );
                            }
                        }
                    }
                    Err(why) => wrong += &format!("{name}: {:?} to {to:?}\n{why}", from.language),
                }
            }
        }
    }
    println!("{done} converted\n{wrong}");
    assert!(wrong.is_empty());
    assert_eq!(done, names().len() * 6);
}
