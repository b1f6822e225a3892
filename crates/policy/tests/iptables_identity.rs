//! Printing and reading again is the identity; and every keyword has accepted and rejected
//! spellings.
//!
//! Random files are made of the spellings in `spellings`, so that every typed option of the
//! grammar takes part. The modules that are only known are tried with the words that their table
//! gives.

mod spellings;

use proptest::prelude::*;
use spellings::random::{Random, fill, network};
use spellings::{SPELLINGS, Spelling};
use weir_policy::dialect::iptables::ast::table_name;
use weir_policy::dialect::iptables::grammar::{self, ModuleSpec, OptionSpec, Role, Tier};
use weir_policy::dialect::iptables::value::Kind;
use weir_policy::dialect::iptables::{parse_as, print};
use weir_policy::model::{Family, SourceId, Table};

const SOURCE: SourceId = SourceId(0);

/// Reads, prints, reads and prints: the trees must be equal, and so must the texts.
fn identity(text: &str, family: Family) -> String {
    let (file, found) = parse_as(text, SOURCE, family);
    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?} in\n{text}");
    let printed = print(&file);
    let (again, found) = parse_as(&printed, SOURCE, family);
    let serious: Vec<_> = found.iter().filter(|found| found.is_error()).collect();
    assert!(serious.is_empty(), "{serious:?} in the printed\n{printed}");
    assert_eq!(file, again, "printed\n{printed}\nof\n{text}");
    assert_eq!(printed, print(&again));
    printed
}

fn in_table(table: Table, line: &str) -> String {
    format!("*{}\n{line}\nCOMMIT\n", table_name(table))
}

fn line(spelling: &Spelling, options: &str, random: &mut Random, family: Family) -> String {
    let Spelling {
        sign,
        module,
        before,
        chain,
        ..
    } = spelling;
    let options = fill(options, random, family);
    format!("-A {chain} {before} {sign} {module} {options}")
}

fn families(spelling: &Spelling) -> Vec<Family> {
    spelling
        .family
        .map_or(vec![Family::V4, Family::V6], |family| vec![family])
}

#[test]
fn every_spelling_reads_and_prints_back() {
    let mut random = Random(7);
    for spelling in SPELLINGS {
        for family in families(spelling) {
            for options in spelling.options {
                for _ in 0..20 {
                    let line = line(spelling, options, &mut random, family);
                    identity(&in_table(spelling.table, &line), family);
                }
            }
        }
    }
}

/// Whether some spelling of the module uses the option.
fn is_spelled(spec: &ModuleSpec, option: &OptionSpec) -> bool {
    let names = || std::iter::once(option.name).chain(option.aliases.iter().copied());
    let of_module = SPELLINGS.iter().filter(|spelling| {
        let role = if spelling.sign == "-m" {
            Role::Match
        } else {
            Role::Target
        };
        spelling.module == spec.name && role == spec.role
    });
    let mut options = of_module.flat_map(|spelling| spelling.options);
    options.any(|text| {
        names().any(|name| {
            text.split(' ')
                .any(|word| word.strip_prefix("--") == Some(name))
        })
    })
}

#[test]
fn covers_every_option() {
    for spec in grammar::all().filter(|spec| spec.tier == Tier::Typed) {
        for option in spec
            .options
            .iter()
            .filter(|option| !matches!(option.name, "mask"))
        {
            assert!(
                is_spelled(spec, option),
                "--{} of {} has no spelling",
                option.name,
                spec.name
            );
        }
    }
}

/// A rule line that loads the module and goes on as told.
fn probe(spec: &ModuleSpec, rest: &str) -> (String, Family) {
    let spelling = SPELLINGS
        .iter()
        .find(|spelling| {
            spelling.module == spec.name && (spelling.sign == "-m") == (spec.role == Role::Match)
        })
        .unwrap();
    let family = spelling.family.unwrap_or(match spec.families {
        grammar::Families::Only(family) => family,
        grammar::Families::Both => Family::V4,
    });
    let Spelling {
        sign,
        module,
        before,
        chain,
        table,
        ..
    } = spelling;
    (
        in_table(
            *table,
            &format!("-A {chain} {before} {sign} {module} {rest}"),
        ),
        family,
    )
}

fn codes(text: &str, family: Family) -> Vec<&'static str> {
    let (_, found) = parse_as(text, SOURCE, family);
    found
        .iter()
        .filter(|found| found.is_error())
        .map(|found| found.code)
        .collect()
}

#[test]
fn every_keyword_has_rejected_spellings() {
    for spec in grammar::all().filter(|spec| spec.tier == Tier::Typed) {
        let (text, family) = probe(spec, "--no-such-option 1");
        assert_eq!(codes(&text, family), ["unknown-option"], "{}", spec.name);
        for option in spec.options {
            let name = option.name;
            let (text, family) = probe(spec, &format!("--{name}x 1"));
            assert_eq!(
                codes(&text, family),
                ["unknown-option"],
                "--{name}x of {}",
                spec.name
            );
            let is_flag = matches!(option.kind, Kind::Flag | Kind::Syn);
            let (text, family) = match is_flag {
                true => probe(spec, &format!("--{name}=1")),
                false => probe(spec, &format!("--{name}")),
            };
            let code = if is_flag {
                "unexpected-word"
            } else {
                "missing-value"
            };
            assert_eq!(codes(&text, family), [code], "--{name} of {}", spec.name);
            let takes_anything = matches!(
                option.kind,
                Kind::Text(..) | Kind::Words(_) | Kind::Flag | Kind::Syn
            );
            if !takes_anything {
                let (text, family) = probe(spec, &format!("--{name} \"\"  src"));
                assert!(
                    !codes(&text, family).is_empty(),
                    "--{name} with nothing, of {}",
                    spec.name
                );
            }
        }
    }
}

#[test]
fn negation_only_where_it_exists() {
    let mut random = Random(3);
    for spelling in SPELLINGS {
        let role = if spelling.sign == "-m" {
            Role::Match
        } else {
            Role::Target
        };
        for family in families(spelling) {
            let spec = grammar::find(role, spelling.module, family).unwrap();
            for option in spec.options.iter().filter(|option| !option.negatable) {
                let own =
                    |text: &&&str| text.split(' ').next() == Some(&format!("--{}", option.name));
                let Some(text) = spelling.options.iter().find(own) else {
                    continue;
                };
                let negated = format!("! {text}");
                let line = line(spelling, &negated, &mut random, family);
                let found = codes(&in_table(spelling.table, &line), family);
                assert!(found.contains(&"stray-negation"), "{line}: {found:?}");
            }
        }
    }
}

#[test]
fn modules_that_are_only_known_are_kept_word_for_word() {
    // The others, whose values are read, are tried by what iptables-save printed of them
    // (iptables_original.rs).
    let in_words = |spec: &&ModuleSpec| {
        let word = |option: &OptionSpec| matches!(option.kind, Kind::Words(_));
        let kept = |option: &OptionSpec| word(option) || matches!(option.kind, Kind::Flag);
        let flags_alone = !spec.options.is_empty() && !spec.options.iter().any(word);
        spec.tier == Tier::Known && spec.options.iter().all(kept) && !flags_alone
    };
    let modules: Vec<&ModuleSpec> = grammar::all().filter(in_words).collect();
    assert!(modules.len() > 10, "{} modules", modules.len());
    for spec in modules {
        let family = match spec.families {
            grammar::Families::Only(family) => family,
            grammar::Families::Both => Family::V4,
        };
        let table = spec.tables.first().copied().unwrap_or(Table::Mangle);
        let sign = if spec.role == Role::Match { "-m" } else { "-j" };
        let protocol = spec
            .protocols
            .first()
            .map_or(String::new(), |number| format!(" -p {number}"));
        let mut words = String::new();
        for option in spec.options {
            let not = if option.negatable { " !" } else { "" };
            words += &format!("{not} --{}", option.name);
            if let Kind::Words(count) = option.kind {
                words += &" \"a b\"".repeat(count);
            }
        }
        let rule = format!("-A PREROUTING{protocol} {sign} {}{words}", spec.name);
        let text = in_table(table, &rule);
        assert_eq!(identity(&text, family), text, "{}", spec.name);
    }
}

/// Basic options of a random rule.
fn basics(random: &mut Random, family: Family, chain: &str) -> String {
    let mut out = String::new();
    for option in ["-s", "-d"] {
        if random.chance(2) {
            let not = if random.chance(5) { "! " } else { "" };
            let more = if not.is_empty() && random.chance(4) {
                format!(",{}", network(random, family))
            } else {
                String::new()
            };
            out += &format!(" {not}{option} {}{more}", network(random, family));
        }
    }
    let received = !matches!(chain, "OUTPUT" | "POSTROUTING");
    if random.chance(3) {
        let option = if received { "-i" } else { "-o" };
        out += &format!(
            " {option} {}",
            random.pick(&["eth0", "eth+", "lo", "+", "br-lan.7"])
        );
    }
    if family == Family::V4 && random.chance(9) {
        out.push_str(if random.chance(2) { " -f" } else { " ! -f" });
    }
    out
}

/// A random file of some rules.
fn file(seed: u64, rules: usize, family: Family) -> String {
    let mut random = Random(seed);
    let mut out = String::from("# made up\n");
    for table in [Table::Raw, Table::Mangle, Table::Nat, Table::Filter] {
        out += &format!("*{}\n", table_name(table));
        if table == Table::Filter {
            out +=
                ":FORWARD DROP [12:3456]\n:INPUT ACCEPT\n:mine - [0:0]\n-N yours\n-P OUTPUT DROP\n";
        }
        let fitting: Vec<&Spelling> = SPELLINGS
            .iter()
            .filter(|spelling| spelling.table == table)
            .filter(|spelling| spelling.family.is_none_or(|only| only == family))
            .collect();
        for _ in 0..rules {
            let spelling = *random.pick(&fitting);
            let options = random.pick(spelling.options);
            let chain = spelling.chain;
            let command = match random.below(8) {
                0 => format!("-I {chain}"),
                1 => format!("-I {chain} {}", 1 + random.below(3)),
                2 => format!("[{}:{}] -A {chain}", random.below(99), random.below(9999)),
                3 => format!("--append {chain}"),
                _ => format!("-A {chain}"),
            };
            let (before, sign, module) = (spelling.before, spelling.sign, spelling.module);
            let basics = basics(&mut random, family, chain);
            let options = fill(options, &mut random, family);
            let target = match (sign, table) {
                ("-m", Table::Filter) => {
                    *random.pick(&[" -j DROP", " -j mine", " -g yours", "", " -c 5 6"])
                }
                ("-m", _) => *random.pick(&[" -j ACCEPT", " -j RETURN", ""]),
                _ => "",
            };
            out += &format!("{command}{basics} {before} {sign} {module} {options}{target}\n");
        }
        out += "COMMIT\n";
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_files_print_back(seed in any::<u64>(), rules in 0usize..20, v6 in any::<bool>()) {
        let family = if v6 { Family::V6 } else { Family::V4 };
        identity(&file(seed, rules, family), family);
    }

    /// No text at all can crash the parser, and what it keeps of a text prints back.
    #[test]
    fn any_text_is_survived(
        seed in any::<u64>(),
        cuts in prop::collection::vec((0usize..4000, 0u8..255), 0..12),
    ) {
        let mut bytes = file(seed, 6, Family::V4).into_bytes();
        for (place, byte) in cuts {
            let at = place % bytes.len();
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, b" !-\",:/#"[usize::from(byte) % 8]),
            }
            if bytes.is_empty() { break; }
        }
        let text = String::from_utf8_lossy(&bytes);
        let (kept, _) = parse_as(&text, SOURCE, Family::V4);
        let printed = print(&kept);
        let (again, _) = parse_as(&printed, SOURCE, Family::V4);
        prop_assert_eq!(kept.statements.len(), again.statements.len(), "{}", printed);
    }
}
