//! Canonical printing of IPFilter's rules, and that reading it again changes nothing.

mod lists;

use weir_policy::dialect::ipf::{Language, ParseOptions, nat, parse, pool, print};
use weir_policy::model::Family;
use weir_policy::syntax::SourceId;

fn options(language: Language) -> ParseOptions<'static> {
    ParseOptions {
        language,
        family: match language {
            Language::Ipf => None,
            Language::Hpux => Some(Family::V4),
        },
        ..ParseOptions::default()
    }
}

/// Prints a text, checks that reading it again gives the same, and gives what was printed.
fn printed(text: &str, language: Language) -> String {
    let options = options(language);
    let (file, found) = parse(text, SourceId(0), &options);
    assert!(
        !found.iter().any(|found| found.is_error()),
        "{text}: {found:#?}"
    );
    let first = print(&file);
    let (again, found) = parse(&first, SourceId(0), &options);
    assert!(
        !found.iter().any(|found| found.is_error()),
        "{first}: {found:#?}"
    );
    assert_eq!(file, again, "{text}\nprinted as\n{first}");
    assert_eq!(first, print(&again));
    first
}

/// The spellings of a file: a line each, behind ` => ` the printed rules, separated by ` | `.
fn run(list: &str, language: Language) -> usize {
    lists::check(list, |line| {
        let (text, wanted) = line.split_once(" => ").expect("an arrow");
        let found = printed(text, language);
        let found = found.trim_end().replace('\n', " | ");
        let wanted = if wanted == "=" { text } else { wanted };
        (found != wanted).then(|| format!("{text}\n   wanted {wanted}\n    found {found}"))
    })
}

#[test]
fn spellings_are_printed_canonically() {
    let list = include_str!("../../../testdata/vectors/ipf/printed.txt");
    assert!(run(list, Language::Ipf) >= 150);
}

#[test]
fn spellings_of_hpux_are_printed_canonically() {
    let list = include_str!("../../../testdata/vectors/ipf/printed_hpux.txt");
    assert!(run(list, Language::Hpux) >= 10);
}

#[test]
fn tables_print_back() {
    let text = "table role = ipf type = tree number = 100 { 10/8; !10.1.0.0/16; ::1; };\n\
                table role=ipf type=hash name=bad size=31 seed=7 { 1.1.1.1; 2.2.2.0/24 };\n\
                group-map in role = ipf number = 3 group = g { 1.1.1.1, group = h; 2.0.0.0/8; };\n\
                pool ipf/tree (name x; ) { 1.1.1.1; \"file:///etc/list\"; };\n\
                pool nat/dstlist (name d; policy round-robin;) { e0:1.1.1.1; \"e 1\":1.1.1.2; 2.2.2.2; };\n";
    let (file, found) = pool::parse(text, SourceId(0));
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(file.tables.len(), 5);
    let first = pool::print(&file);
    let (again, found) = pool::parse(&first, SourceId(0));
    assert!(found.is_empty(), "{first}: {found:#?}");
    assert_eq!(file, again, "{first}");
}

#[test]
fn translation_rules_print_back() {
    let text = "map e0 10.0.0.0/8 -> 0/32 portmap tcp/udp 10000:20000\n\
                map e0 10.0.0.0/8 -> 0/32 proxy port ftp ftp/tcp\n\
                map e0 10.0.0.0/8 -> 1.1.1.1-1.1.1.9 portmap tcp auto sequential\n\
                map e0 from 10.0.0.0/8 port = 5 ! to 10.1.0.0/16 -> 1.1.1.1/32 mssclamp 1400\n\
                map-block e0 10.0.0.0/16 -> 1.1.1.0/24 ports auto\n\
                bimap e0,e1 10.0.0.1/32 -> 1.1.1.1/32\n\
                rdr e0 1.1.1.1/32 port 80-90 -> 10.0.0.1,10.0.0.2 port 8080 tcp round-robin sticky\n\
                rdr e0 ! from 9.0.0.0/8 to any port = 53 -> 10.0.0.1 port 53 udp age 5/6\n\
                no map e0 10.0.0.0/8;\n\
                no rdr e0 inet from any to 1.1.1.1/32 tcp;\n\
                rewrite out on e0 proto tcp from any to any port = 80 -> src 0/32,1000-2000 \
                dst 10.0.0.1,8080;\n\
                divert in on e0 proto udp from any to any -> src 1.1.1.1,5 dst 2.2.2.2,6 udp;\n";
    let (file, found) = nat::parse(text, SourceId(0));
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(file.rules.len(), 12);
    let first = nat::print(&file);
    let (again, found) = nat::parse(&first, SourceId(0));
    assert!(found.is_empty(), "{first}: {found:#?}");
    assert_eq!(file, again, "{first}");
}

#[test]
fn wrong_tables_and_translations_are_placed() {
    for text in [
        "table role = foo type = tree { };",
        "table role = ipf type = list { };",
        "table role = ipf type = tree number = 1 { 1.1.1 x; };",
        "table role = ipf type = hash number = 1 { !1.1.1.1; };",
        "table role = ipf type = tree number = 1 { 1.1.1.1;",
        "pool ipf/tree () { };",
        "group-map foo role = ipf number = 1 { };",
        "foo",
    ] {
        let (_, found) = pool::parse(text, SourceId(0));
        assert!(
            found.iter().any(|f| f.is_error() && f.help.is_some()),
            "{text}: {found:?}"
        );
    }
    for text in [
        "map e0 10.0.0.0/8",
        "map e0 10.0.0.0/8 -> x",
        "map e0 10.0.0.0/8 -> 0/32 portmap tcp 5",
        "map e0 10.0.0.0/8 -> 0/32 foo",
        "rdr e0 1.1.1.1 port x -> 1.1.1.1",
        "rdr e0 from any ! to any -> 1.1.1.1",
        "map e0 ! from any to any -> 1.1.1.1",
        "rewrite e0 from any to any -> src 1.1.1.1 dst 2.2.2.2;",
        "no rewrite in on e0 from any to any;",
        "bimap",
    ] {
        let (_, found) = nat::parse(text, SourceId(0));
        assert!(
            found.iter().any(|f| f.is_error() && f.help.is_some()),
            "{text}: {found:?}"
        );
    }
}

/// Words that rules are made of, and words that confuse.
const SOUP: &str = "pass block log count skip auth call in out quick on e0 all from to any 10/8 \
    10.0.0.1 ::1 2001:db8::/32 port = 80 { } ( ) , ; ! < > <> >< : / keep state frags head group 5 \
    proto tcp udp tcp/udp icmp ipv6-icmp flags S/SA icmp-type echo code 3 with short opt rr not \
    v6hdr frag pool/5 pool= hash= limit age 5/6 return-rst return-icmp inet inet6 family tos 0x10 \
    ttl level info dup-to reply-to fastroute out-via in-via set-tag ( log=5 ) pps comment \"x y\" \
    'a\"b' 100 @1 \\all $x x=\"e1\"; exp { \"ip.p=6;\" } bpf-v4 { \"0x6\" } srcgrpmap/1 mask \
    255.0.255.0 e0/32 (e1)/broadcast 10.0.0.1-10.0.0.9 cumulative freq rule-ttl map rdr -> 0/32 \
    portmap 1:2 bimap no table role ipf type tree number name pool group-map 1.1.1.1; #\n \n";

#[test]
fn any_words_print_back() {
    let words: Vec<&str> = SOUP.split(' ').filter(|word| !word.is_empty()).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let starts = [
        "pass in ",
        "block out ",
        "log in ",
        "map e0 ",
        "table role = ipf ",
        "",
    ];
    for round in 0..60_000 {
        let mut text = starts[next(starts.len())].to_owned();
        for _ in 0..next(14) {
            text += words[next(words.len())];
            text += if next(5) == 0 { "" } else { " " };
        }
        let options = ParseOptions {
            lenient: round % 3 == 0,
            ..options(if round % 2 == 0 {
                Language::Ipf
            } else {
                Language::Hpux
            })
        };
        let (file, found) = parse(&text, SourceId(0), &options);
        for one in &found {
            assert!(
                one.span.end as usize <= text.len() && one.help.is_some(),
                "{text}: {one:?}"
            );
        }
        let first = print(&file);
        let (again, _) = parse(&first, SourceId(0), &options);
        assert_eq!(file, again, "{text}\nprinted as\n{first}");
        let (file, _) = pool::parse(&text, SourceId(0));
        assert_eq!(
            pool::parse(&pool::print(&file), SourceId(0)).0,
            file,
            "{text}"
        );
        let (file, _) = nat::parse(&text, SourceId(0));
        assert_eq!(
            nat::parse(&nat::print(&file), SourceId(0)).0,
            file,
            "{text}"
        );
    }
}
