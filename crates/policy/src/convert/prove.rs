//! The result read again and compared with the source, and what that proves in words.
//!
//! In: the source's policy and the files. Out: the files with the proof in their head, or messages
//! about what differs. A result that isn't the same is never handed out.

use super::{Kind, Language, Options, Source, Written, span_of};
use crate::compare::{Compared, Comparison, Options as Exact, Refusal, compare};
use crate::dialect::{ipf, ipfw, ipset, iptables};
use crate::eval::Path;
use crate::eval::ipf::Tables;
use crate::model::{CtState, Family, Origin, Policy, RuleId};
use crate::syntax::{Diagnostic, Sources, Span};

/// What was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Families.
    pub families: Vec<Family>,
    /// Ways through the host.
    pub paths: Vec<Path>,
    /// Packets whose transport header is cut short get the same, too.
    pub cut_short: bool,
    /// Records are the same, too.
    pub records: bool,
    /// Conditions taken to be the same for having the same text.
    pub assumed: Vec<String>,
    /// The proof in words, a line each.
    pub words: Vec<String>,
}

/// The ways that are compared.
pub fn paths(options: &Options) -> Vec<Path> {
    let all = crate::compare::PATHS.into_iter();
    all.filter(|path| !(options.host && *path == Path::Forward))
        .collect()
}

pub(super) fn too_large(error: &Refusal) -> Diagnostic {
    let message = format!("this can't be proved: {error}");
    Diagnostic::unsupported(Span::default(), message).help("convert part of the rules")
}

/// Where a rule or the policy of a chain was written.
pub(super) fn origin_of(policy: &Policy, id: Option<RuleId>) -> Option<Origin> {
    let id = id?;
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let mut rules = rules.filter(|rule| rule.index != crate::model::Rule::HIDDEN);
    let rule = rules.find(|rule| rule.id == id).map(|rule| rule.origin);
    let mut ends = policy.chains.iter().filter_map(|chain| chain.policy);
    rule.or_else(|| ends.find(|end| end.id == id).map(|end| end.origin))
}

/// Proves the result, and writes that into it.
pub fn finished(
    source: Source<'_>,
    to: Language,
    options: &Options,
    mut files: Vec<Written>,
) -> Result<(Vec<Written>, Proof), Vec<Diagnostic>> {
    let again = read(to, &files).map_err(|message| {
        let message = format!("weir can't read the result again: {message}");
        vec![
            Diagnostic::unsupported(Span::default(), message)
                .help("this is a fault of weir's; please tell us"),
        ]
    })?;
    let with_ipfw = Language::Ipfw == to || Language::Ipfw == source.language;
    let exact = Exact {
        families: options.families.clone(),
        paths: paths(options),
        whole_headers: true,
        known_headers: with_ipfw,
        states: options.tracked.then(|| match source.language {
            Language::Iptables => vec![CtState::New],
            _ => vec![CtState::New, CtState::Invalid, CtState::Untracked],
        }),
        compared: Compared {
            memory: !options.tracked,
            ..Compared::default()
        },
        listed: 16,
        ..Exact::default()
    };
    let compared =
        |exact: &Exact| compare(source.policy, &again, exact).map_err(|e| vec![too_large(&e)]);
    let found = compared(&exact)?;
    if !found.same() {
        return Err(differences(source, to, options, &found));
    }
    let also =
        |exact: Exact| compare(source.policy, &again, &exact).is_ok_and(|found| found.same());
    let mut proof = Proof {
        families: options.families.clone(),
        paths: exact.paths.clone(),
        cut_short: also(Exact {
            whole_headers: false,
            ..exact.clone()
        }),
        records: also(Exact {
            compared: Compared {
                logs: true,
                ..exact.compared
            },
            ..exact.clone()
        }),
        assumed: found.assumed,
        words: Vec::new(),
    };
    proof.words = words(&proof, options, with_ipfw);
    let head = head(source, &proof);
    for file in &mut files {
        file.text = match file.kind {
            // `ipset restore` takes comments, and ippool too.
            Kind::Rules(family) => {
                let tool = match family {
                    Some(Family::V4) => "# for iptables-restore\n",
                    Some(Family::V6) => "# for ip6tables-restore\n",
                    None => "",
                };
                format!("{tool}{head}{}", file.text)
            }
            Kind::Sets | Kind::Pools => format!(
                "# sets of addresses: load them in front of the rules\n{}",
                file.text
            ),
        };
    }
    Ok((files, proof))
}

fn head(source: Source<'_>, proof: &Proof) -> String {
    let names = source.sources.names().join(", ");
    let mut out = format!(
        "# weir convert: from {names} ({})\n",
        source.language.name()
    );
    out.retain(|c| c == '\n' || !c.is_control());
    for line in &proof.words {
        out += &format!("# {line}\n");
    }
    out
}

fn words(proof: &Proof, options: &Options, with_ipfw: bool) -> Vec<String> {
    let families: Vec<&str> = proof
        .families
        .iter()
        .map(|family| {
            if *family == Family::V4 {
                "IPv4"
            } else {
                "IPv6"
            }
        })
        .collect();
    let ways: Vec<&str> = proof
        .paths
        .iter()
        .map(|path| match path {
            Path::Input => "received",
            Path::Forward => "forwarded",
            Path::Output => "sent",
        })
        .collect();
    let what = if options.tracked {
        "packet that begins something"
    } else {
        "packet"
    };
    let mut out = vec![format!(
        "proved: every {} {what} that is {} gets the same verdict and answer as before",
        families.join(" and "),
        ways.join(" or ")
    )];
    if !proof.cut_short {
        out.push(
            "except: packets whose transport header is cut short; languages differ there"
                .to_owned(),
        );
    }
    if with_ipfw && proof.families.contains(&Family::V6) {
        out.push("except: IPv6 extension headers that ipfw doesn't know; it drops them".to_owned());
    }
    if options.host {
        out.push(
            "--host: forwarded packets were not compared; this host must forward none".to_owned(),
        );
    }
    if options.tracked {
        out.push(
            "--states=tracked: what follows a passed packet is up to connection tracking"
                .to_owned(),
        );
    }
    if !proof.records {
        out.push("records of the log are written otherwise".to_owned());
    }
    for one in &proof.assumed {
        out.push(format!("taken to be the same on both sides: {one}"));
    }
    out
}

/// What differs, at the rules of the source.
fn differences(
    source: Source<'_>,
    to: Language,
    options: &Options,
    found: &Comparison,
) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    for journey in &found.journeys {
        for one in journey.differences.iter().take(4) {
            let origin = origin_of(source.policy, one.old.by);
            let span =
                origin.map_or_else(Span::default, |origin| span_of(origin, &[], source.sources));
            let way = match journey.path {
                Path::Input => "received",
                Path::Forward => "forwarded",
                Path::Output => "sent",
            };
            let (old, new) = (one.old.verdict, one.new.verdict);
            let words = crate::compare::verdict_word;
            let message = format!(
                "{} can't say this with the same meaning: a {way} packet would get {} instead of {}",
                to.name(),
                words(new),
                words(old)
            );
            if out.iter().any(|known| known.span == span) {
                continue;
            }
            let help = match (journey.path, options.host, source.language) {
                (Path::Forward, false, Language::Iptables) => {
                    "forwarded packets meet the rules for received and for sent ones there: \
                     --host leaves them out, for a host that forwards nothing"
                }
                _ => "write this part by hand, and compare with `weir diff`",
            };
            let packet = format!("for example {}", (options.describe)(&one.packet));
            let told = Diagnostic::unsupported(span, message).help(help);
            out.push(told.related(span, packet));
        }
    }
    out
}

/// Reads the result as the program would.
fn read(language: Language, files: &[Written]) -> Result<Policy, String> {
    match language {
        Language::Iptables => read_iptables(files),
        Language::Ipf => read_ipf(files),
        Language::Ipfw => read_ipfw(files),
    }
}

fn sound(found: &[Diagnostic], sources: &Sources) -> Result<(), String> {
    match found.iter().find(|one| one.is_error()) {
        None => Ok(()),
        Some(error) => {
            let line = sources
                .position(error.span)
                .map_or(0, |position| position.line);
            let text = sources
                .get(error.span.source)
                .map_or("", |one| one.line_text(line.max(1)));
            Err(format!("{}: `{}`", error.message, text.trim()))
        }
    }
}

fn read_iptables(files: &[Written]) -> Result<Policy, String> {
    enum Read {
        Rules(iptables::File),
        Sets(ipset::File),
    }
    let mut sources = Sources::new();
    let mut parsed = Vec::new();
    for file in files {
        let (name, id);
        match file.kind {
            Kind::Rules(family) => {
                let family = family.unwrap_or(Family::V4);
                name = if family == Family::V4 {
                    "result.v4"
                } else {
                    "result.v6"
                };
                id = sources.add(name, file.text.as_str());
                let (file, found) = iptables::parse_as(&file.text, id, family);
                sound(&found, &sources)?;
                parsed.push((name, Read::Rules(file)));
            }
            _ => {
                name = "result.ipset";
                id = sources.add(name, file.text.as_str());
                let (file, found) = ipset::parse(&file.text, id);
                sound(&found, &sources)?;
                parsed.push((name, Read::Sets(file)));
            }
        }
    }
    let inputs: Vec<iptables::Input<'_>> = parsed
        .iter()
        .map(|(name, read)| match read {
            Read::Rules(file) => iptables::Input::Rules { name, file },
            Read::Sets(file) => iptables::Input::Sets { name, file },
        })
        .collect();
    let (policy, report) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    sound(&report.diagnostics, &sources)?;
    policy.ok_or_else(|| "it makes no policy".to_owned())
}

fn read_ipf(files: &[Written]) -> Result<Policy, String> {
    let mut sources = Sources::new();
    let mut tables = Tables::default();
    let mut rules = None;
    for file in files {
        let id = sources.add("result", file.text.as_str());
        if file.kind == Kind::Pools {
            let (pools, found) = ipf::pool::parse(&file.text, id);
            sound(&found, &sources)?;
            for table in &pools.tables {
                if let Some((kind, name)) = table.lookup() {
                    tables.add(kind, &name, &table.entries());
                }
            }
            continue;
        }
        let (file, found) = ipf::parse(&file.text, id, &ipf::ParseOptions::default());
        sound(&found, &sources)?;
        let (set, found) = ipf::load::RuleSet::of(&file);
        sound(&found, &sources)?;
        rules = Some(set);
    }
    let set = rules.ok_or("there are no rules")?;
    let (policy, found) =
        ipf::lower::lower(&set, &tables, &sources, ipf::lower::LowerOptions::default());
    sound(&found, &sources)?;
    policy.ok_or_else(|| "it makes no policy".to_owned())
}

fn read_ipfw(files: &[Written]) -> Result<Policy, String> {
    let mut sources = Sources::new();
    let text = files.first().map_or("", |file| file.text.as_str());
    let id = sources.add("result", text);
    let program = ipfw::read(text, id, &ipfw::NoNames, ipfw::Settings::default());
    sound(&program.diagnostics, &sources)?;
    let (policy, found) =
        ipfw::lower::lower(&program.ruleset, &sources, ipfw::lower::Options::default());
    sound(&found, &sources)?;
    policy.ok_or_else(|| "it makes no policy".to_owned())
}
