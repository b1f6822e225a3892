//! Random rule files of three languages, converted: what comes out is judged packet by packet as
//! its source is, each by the reference evaluator of its own language.
//!
//! ipf's and ipfw's evaluators work on their own rules and packets, without the rule model;
//! iptables' is the evaluator of the model. Packets sit on the edges of the rules of both sides and
//! go the whole way: received, forwarded, sent. Left out is what a conversion says it leaves out:
//! packets whose transport header is cut short, IPv6 that ipfw can't read, forwarded packets where
//! `host` was asked for. `WEIR_CONVERT=N` makes N.

mod convert;

use convert::judges::{Judges, Said};
use convert::texts::{self, Texts};
use weir_engine::packet::{build, settle};
use weir_policy::convert::{Converted, Language, Options, Source, convert};
use weir_policy::eval::Path;
use weir_policy::model::{Family, Hook, Packet, Policy, Transport};
use weir_testkit::random::PacketSource;
use weir_testkit::seeds::{seeds, setting};

const LANGUAGES: [Language; 3] = [Language::Iptables, Language::Ipf, Language::Ipfw];
const PACKETS: usize = 240;

/// What came of all of them.
#[derive(Debug, Default)]
struct Sums {
    converted: [u32; 9],
    refused: [u32; 9],
    unproved: u32,
    packets: u64,
    accepted: u64,
    answered: u64,
}

fn at(from: Language, to: Language) -> usize {
    let number = |language| {
        LANGUAGES
            .iter()
            .position(|one| *one == language)
            .unwrap_or(0)
    };
    number(from) * 3 + number(to)
}

fn hook_of(path: Path) -> Hook {
    match path {
        Path::Input => Hook::Input,
        Path::Forward => Hook::Forward,
        Path::Output => Hook::Output,
    }
}

/// Packets on the edges of a policy's rules.
fn packets(policy: &Policy, seed: u64, family: Family, paths: &[Path]) -> Vec<(Path, Packet)> {
    let mut source = PacketSource::new(policy, seed);
    let mut out = Vec::new();
    for number in 0..PACKETS {
        let path = paths[number % paths.len()];
        let mut made = source.packet(family, hook_of(path));
        settle(&mut made);
        let malformed = matches!(
            made.transport,
            Transport::Tcp {
                malformed: true,
                ..
            }
        );
        if made.transport != Transport::Short && !malformed && build(&made, usize::MAX).is_ok() {
            out.push((path, made));
        }
    }
    out
}

fn compare(from: &Texts, to: &Texts, proof: (&[Family], &[Path]), seed: u64, sums: &mut Sums) {
    let (mut old, mut new) = (Judges::new(from), Judges::new(to));
    for &family in proof.0 {
        for policy in [&from.policy, &to.policy] {
            for (path, made) in packets(policy, seed, family, proof.1) {
                let said = [old.judge(&made, path), new.judge(&made, path)];
                let [Some(before), Some(after)] = said else {
                    continue;
                };
                sums.packets += 1;
                sums.accepted += u64::from(before == Said::Accepts);
                sums.answered += u64::from(before == Said::Resets);
                assert!(
                    before.agrees(after),
                    "{before:?}, then {after:?}: seed {seed} {path:?} {made:?}\n{}\nbecame\n{}",
                    from.shown(),
                    to.shown()
                );
            }
        }
    }
}

fn tried(from: &Texts, to: Language, host: bool) -> Result<Converted, String> {
    let families = from.families.clone();
    let source = Source {
        policy: &from.policy,
        sources: &from.sources,
        language: from.language,
    };
    let options = Options {
        host,
        tracked: false,
        families,
        describe: |packet| format!("{packet:?}"),
    };
    convert(source, to, &options).map_err(|found| {
        assert!(found.iter().all(|one| one.is_unsupported()), "{found:?}");
        found
            .iter()
            .map(|one| format!("{}\n", one.line(&from.sources)))
            .collect()
    })
}

#[test]
fn what_converts_is_judged_alike_by_both_languages() {
    let mut sums = Sums::default();
    for seed in seeds(setting("WEIR_CONVERT", 400)) {
        for language in LANGUAGES {
            let Some(from) = texts::random(language, seed) else {
                continue;
            };
            for to in LANGUAGES.into_iter().filter(|to| *to != language) {
                let found = tried(&from, to, false).or_else(|_| tried(&from, to, true));
                let found = match found {
                    Ok(found) => found,
                    Err(why) => {
                        sums.refused[at(language, to)] += 1;
                        sums.unproved += u32::from(why.contains("with the same meaning: a "));
                        assert!(
                            !why.contains("can't read the result"),
                            "{why}{}",
                            from.shown()
                        );
                        continue;
                    }
                };
                sums.converted[at(language, to)] += 1;
                let files = found
                    .files
                    .iter()
                    .map(|file| (file.kind, file.text.clone()));
                let again = texts::read(to, files.collect(), &from.families)
                    .unwrap_or_else(|| panic!("seed {seed} {language:?} to {to:?}"));
                let proof = (&*found.proof.families, &*found.proof.paths);
                compare(&from, &again, proof, seed, &mut sums);
            }
        }
    }
    println!("{sums:?}");
    if std::env::var("WEIR_CONVERT").is_ok() {
        return;
    }
    let pairs = LANGUAGES
        .iter()
        .flat_map(|a| LANGUAGES.iter().map(move |b| (*a, *b)));
    for (a, b) in pairs.filter(|(a, b)| a != b) {
        assert!(sums.converted[at(a, b)] > 20, "{a:?} to {b:?}: {sums:?}");
    }
    assert!(
        sums.packets > 300_000 && sums.accepted > 50_000 && sums.answered > 100,
        "{sums:?}"
    );
}
