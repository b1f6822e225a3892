//! Lowering: what files become in the rule model.

mod lowering;

use lowering::{chain, filter, lower_files};
use weir_policy::dialect::iptables::LowerOptions;
use weir_policy::model::{
    AddrMatch, ChainId, Cond, Family, Flow, HistoryKind, Hook, MarkShift, Op, Policy, RangeSet,
    RecentAction, RejectKind, SetPart, SourceId, Table, Test, Verdict,
};

fn policy(text: &str) -> Policy {
    let (policy, report) = lower_files(&[(Family::V4, text)], &LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics))
}

/// The tests of the only rule in INPUT.
fn tests(rule: &str) -> Vec<Test> {
    let policy = policy(&filter(&format!("-A INPUT {rule}")));
    chain(&policy, "INPUT").rules[0].tests.clone()
}

fn plain(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

fn net(first: u32, last: u32) -> AddrMatch {
    AddrMatch::Ranges(RangeSet::range(u128::from(first), u128::from(last)))
}

#[test]
fn tests_come_in_the_order_of_the_kernel() {
    let found =
        tests("-m limit --limit 3/min -p tcp -s 10.0.0.0/8 ! -i eth+ -m mark --mark 1 --dport 22");
    let kinds: Vec<_> = found
        .iter()
        .map(|test| match &test.cond {
            Cond::Src(_) => "source",
            Cond::InIface(_) => "interface",
            Cond::Proto(_) => "protocol",
            Cond::History(_) => "limit",
            Cond::Mark { .. } => "mark",
            Cond::DstPort(_) => "port",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        ["source", "interface", "protocol", "limit", "mark", "port"]
    );
    assert!(found[1].negate && !found[0].negate);
    assert_eq!(found[0].cond, Cond::Src(net(0x0a00_0000, 0x0aff_ffff)));
}

#[test]
fn masks_that_are_no_prefixes_stay_masks() {
    let found = tests("-s 10.1.2.3/255.0.255.0 -j DROP");
    let masked = AddrMatch::Masked {
        value: 0x0a00_0200,
        mask: 0xff00_ff00,
    };
    assert_eq!(found, [plain(Cond::Src(masked))]);
    assert_eq!(tests("-s 0.0.0.0/0 -j DROP"), []);
    let all = Test {
        negate: true,
        cond: Cond::Src(net(0, u32::MAX)),
    };
    assert_eq!(tests("! -s 0.0.0.0/0 -j DROP"), [all]);
}

#[test]
fn a_transport_module_without_options_needs_a_readable_header() {
    let found = tests("-p tcp -m tcp -j DROP");
    assert_eq!(found[1], plain(Cond::SrcPort(RangeSet::range(0, 65_535))));
    let found = tests("-p icmp -m icmp --icmp-type any -j DROP");
    assert_eq!(
        found[1],
        plain(Cond::Icmp {
            kind: None,
            codes: (0, 255)
        })
    );
    assert_eq!(tests("-p tcp -j DROP").len(), 1);
}

#[test]
fn lists_of_addresses_become_rules_of_their_own() {
    let text = filter(
        "-A INPUT -j ACCEPT\n-A INPUT -s 1.1.1.1,2.2.2.2 -d 3.3.3.3,4.4.4.4\n-A INPUT -j DROP",
    );
    let policy = policy(&text);
    let rules = &chain(&policy, "INPUT").rules;
    assert_eq!(rules.len(), 6);
    let indices: Vec<_> = rules
        .iter()
        .map(|rule| (rule.index, rule.origin.line))
        .collect();
    assert_eq!(indices, [(1, 2), (2, 3), (3, 3), (4, 3), (5, 3), (6, 4)]);
    let addresses: Vec<_> = rules[1..5].iter().map(|rule| rule.tests.clone()).collect();
    let one = |a: u32| net(a * 0x0101_0101, a * 0x0101_0101);
    let both = |s, d| vec![plain(Cond::Src(one(s))), plain(Cond::Dst(one(d)))];
    assert_eq!(addresses, [both(1, 3), both(1, 4), both(2, 3), both(2, 4)]);
}

#[test]
fn ids_are_dense_and_roots_are_sorted() {
    let text = "*mangle\n-A FORWARD -j MARK --set-mark 1\nCOMMIT\n\
        *filter\n:mine - [0:0]\n-A mine -j DROP\n\
        -A INPUT -j mine\n:INPUT DROP [7:8]\nCOMMIT\n*raw\nCOMMIT\n";
    let policy = policy(text);
    let mut ids: Vec<u32> = Vec::new();
    for chain in &policy.chains {
        ids.extend(chain.rules.iter().map(|rule| rule.id.0));
        ids.extend(chain.policy.iter().map(|policy| policy.id.0));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..policy.rule_count).collect::<Vec<_>>());
    let roots: Vec<_> = policy
        .roots
        .iter()
        .map(|root| (root.family, root.hook, root.table))
        .collect();
    assert!(roots.is_sorted() && roots.len() == 2 + 5 + 3);
    let root = policy.root(Family::V4, Hook::Input, Table::Filter).unwrap();
    let end = policy.chain(root.chain).policy.unwrap();
    assert_eq!(
        (end.verdict, end.preset.packets, end.preset.bytes),
        (Verdict::Drop, 7, 8)
    );
    assert_eq!(end.origin.line, 8);
    let input = policy.chain(root.chain);
    let Flow::Jump(target) = input.rules[0].flow else {
        panic!()
    };
    assert_eq!(
        (
            policy.chain(target).name.as_str(),
            policy.chain(target).policy
        ),
        ("mine", None)
    );
}

#[test]
fn commands_are_carried_out_in_order() {
    let marks = |lines: &str| -> Vec<u32> {
        let policy = policy(&filter(lines));
        let rules = chain(&policy, "INPUT").rules.iter();
        rules
            .map(|rule| match rule.tests[0].cond {
                Cond::Mark { value, .. } => value,
                _ => panic!(),
            })
            .collect()
    };
    let rule = |command: &str, mark: u32| format!("{command} -m mark --mark {mark} -j ACCEPT\n");
    let add = |mark| rule("-A INPUT", mark);
    assert_eq!(marks(&(add(1) + &add(2) + &rule("-I INPUT", 3))), [3, 1, 2]);
    assert_eq!(
        marks(&(add(1) + &add(2) + &rule("-I INPUT 2", 3))),
        [1, 3, 2]
    );
    assert_eq!(
        marks(&(add(1) + &add(2) + &rule("-I INPUT 3", 3))),
        [1, 2, 3]
    );
    assert_eq!(marks(&(add(1) + &add(2) + &rule("-R INPUT 1", 3))), [3, 2]);
    assert_eq!(marks(&(add(1) + &add(2) + "-D INPUT 1\n")), [2]);
    assert_eq!(
        marks(&(add(1) + &add(2) + &add(1) + &rule("-D INPUT", 1))),
        [2, 1]
    );
    assert_eq!(marks(&(add(1) + "-F INPUT\n" + &add(2))), [2]);
    assert_eq!(marks(&(add(1) + "-F\n" + &add(2))), [2]);
    // Elements of a list are put in at the same number, one before the other (iptables 1.8.9).
    let text = add(1) + &rule("-I INPUT -s 1.1.1.1,2.2.2.2", 2);
    let sources = policy(&filter(&text));
    let first = &chain(&sources, "INPUT").rules[0].tests;
    let second = Cond::Src(AddrMatch::Ranges(RangeSet::range(0x0202_0202, 0x0202_0202)));
    assert!(first.iter().any(|test| test.cond == second), "{first:?}");
    let lists = "-A INPUT -m mark --mark 9 -s 1.1.1.1,2.2.2.2\n-I INPUT 2 -m mark --mark 5\n\
        -D INPUT -m mark --mark 9 -s 2.2.2.2\n";
    let policy = policy(&filter(lists));
    assert_eq!(chain(&policy, "INPUT").rules.len(), 2);
}

#[test]
fn counters_preset_rules_and_policies() {
    let text =
        filter("[5:6] -A INPUT -j ACCEPT\n-A INPUT -c 7 8 -j DROP\n[1:1] -A INPUT\n-Z INPUT 3");
    let policy = policy(&text);
    let presets: Vec<_> = chain(&policy, "INPUT")
        .rules
        .iter()
        .map(|rule| (rule.preset.packets, rule.preset.bytes))
        .collect();
    assert_eq!(presets, [(5, 6), (7, 8), (0, 0)]);
}

#[test]
fn two_families_are_one_policy_with_separate_chains() {
    let v4 = filter(":INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT");
    let v6 = filter(":INPUT ACCEPT [0:0]\n-A INPUT -s 2001:db8::/32 -j DROP");
    let (policy, report) = lower_files(
        &[(Family::V4, &v4), (Family::V6, &v6)],
        &LowerOptions::default(),
    );
    let policy = policy.unwrap();
    assert_eq!(report.diagnostics, []);
    let root = |family| {
        policy.chain(
            policy
                .root(family, Hook::Input, Table::Filter)
                .unwrap()
                .chain,
        )
    };
    assert_eq!(root(Family::V4).policy.unwrap().verdict, Verdict::Drop);
    assert_eq!(root(Family::V6).policy.unwrap().verdict, Verdict::Accept);
    assert_eq!(root(Family::V4).rules[0].origin.source, SourceId(0));
    assert_eq!(root(Family::V6).rules[0].origin.source, SourceId(1));
    let first = 0x2001_0db8_u128 << 96;
    let addresses = AddrMatch::Ranges(RangeSet::range(first, first | (u128::MAX >> 32)));
    assert_eq!(
        root(Family::V6).rules[0].tests,
        [plain(Cond::Src(addresses))]
    );
}

#[test]
fn fragments_given_together_are_one_policy() {
    let before = filter(
        ":early - [0:0]\n-A INPUT -j early\n-A INPUT -j late\n\
         -A early -p tcp -j ACCEPT\n:late - [0:0]",
    );
    let after = filter(":late - [0:0]\n-A late -j DROP");
    let files = [(Family::V4, before.as_str()), (Family::V4, after.as_str())];
    let (policy, report) = lower_files(&files, &LowerOptions::default());
    let policy = policy.unwrap();
    assert_eq!(report.diagnostics, []);
    assert_eq!(chain(&policy, "early").rules.len(), 1);
    assert_eq!(chain(&policy, "late").rules.len(), 1);

    let again = filter(":early - [0:0]");
    let files = [(Family::V4, before.as_str()), (Family::V4, again.as_str())];
    let (policy, report) = lower_files(&files, &LowerOptions::default());
    assert_eq!(chain(&policy.unwrap(), "early").rules.len(), 0);
    assert_eq!(report.diagnostics[0].code, "emptied-chain");

    let alone = filter("-A INPUT -j late");
    let (policy, report) = lower_files(&[(Family::V4, &alone)], &LowerOptions::default());
    assert!(policy.is_none() && report.has_faults() && !report.has_unsupported());

    let twice = filter("-A INPUT -j DROP") + &filter("-A INPUT -j ACCEPT");
    let (policy, report) = lower_files(&[(Family::V4, &twice)], &LowerOptions::default());
    assert_eq!(
        chain(&policy.unwrap(), "INPUT").rules.len(),
        1,
        "the second block replaces the first"
    );
    assert_eq!(report.diagnostics[0].code, "replaced-table");
}

#[test]
fn saved_sets_are_found_and_their_ranges_are_prefixes() {
    let text = filter(
        "-A INPUT -m set --match-set one src -j DROP\n\
         -A INPUT -m set ! --match-set two src,dst -j DROP\n\
         -A INPUT -m set --match-set both src,dst -j DROP",
    );
    let policy = policy(&text);
    let rules = &chain(&policy, "INPUT").rules;
    let Cond::Set { set, fields } = &rules[0].tests[0].cond else {
        panic!()
    };
    let one = &policy.sets[set.0 as usize];
    assert_eq!(
        (one.name.as_str(), fields.len(), one.changes),
        ("one", 1, false)
    );
    let timeouts: Vec<_> = one
        .entries
        .iter()
        .map(|entry| (entry.nomatch, entry.timeout))
        .collect();
    assert_eq!(timeouts, [(false, Some(60)), (true, Some(0))]);
    assert!(rules[1].tests[0].negate);
    let two = policy.sets.iter().find(|set| set.name == "two").unwrap();
    let address = |last: u32| 0x0102_0300 + u128::from(last);
    let addresses: Vec<_> = two
        .entries
        .iter()
        .map(|entry| entry.parts[0].clone())
        .collect();
    let expected = [
        SetPart::Addresses(address(4), address(5)),
        SetPart::Addresses(address(6), address(6)),
    ];
    assert_eq!(addresses, expected);
    assert_eq!(two.entries[0].parts[1], SetPart::ProtoPorts(6, 80, 81));
    let both = policy.sets.iter().find(|set| set.name == "both").unwrap();
    assert_eq!(both.members.len(), 2);
    let wide = policy.sets.iter().find(|set| set.name == "wide").unwrap();
    assert_eq!(
        wide.entries[0].parts,
        [SetPart::Addresses(0x0a01_0200, 0x0a01_02ff)]
    );
}

/// A test that remembers: what it does, and for how long.
fn recent(policy: &Policy, cond: &Cond) -> Option<(RecentAction, u32, bool, u128)> {
    let Cond::History(id) = cond else { return None };
    let object = &policy.histories[id.0 as usize];
    let HistoryKind::Recent(recent) = &object.kind else {
        panic!("{object:?}")
    };
    assert!(object.shared.as_ref().unwrap().starts_with("set/v4/"));
    Some((
        recent.action,
        recent.seconds,
        recent.destination,
        recent.mask,
    ))
}

#[test]
fn sets_that_rules_change_remember_addresses() {
    let text = filter(
        "-A INPUT -m set --match-set trap src -j DROP\n\
         -A INPUT -p tcp --dport 23 -j SET --add-set trap src --exist\n\
         -A INPUT -p tcp --dport 24 -j SET --add-set trap dst\n\
         -A INPUT -p tcp --dport 25 -j SET --del-set trap src\n\
         -A INPUT -m set ! --match-set kept src -j DROP\n\
         -A INPUT -j SET --add-set kept src --timeout 30\n\
         -A INPUT -j SET --add-set wide src",
    );
    let policy = policy(&text);
    let rules = &chain(&policy, "INPUT").rules;
    let full = u128::from(u32::MAX);
    let last = |rule: usize| rules[rule].tests.last().unwrap();
    let of = |test: &Test| recent(&policy, &test.cond);
    assert_eq!(of(last(0)), Some((RecentAction::Check, 600, false, full)));
    assert_eq!(of(last(1)), Some((RecentAction::Set, 0, false, full)));
    let alternatives = |rule: usize| match &last(rule).cond {
        Cond::Any(tests) => tests.iter().map(|test| (test.negate, of(test))).collect(),
        _ => vec![],
    };
    let check = |seconds, destination| Some((RecentAction::Check, seconds, destination, full));
    let set = |destination| Some((RecentAction::Set, 0, destination, full));
    let gone = Some((RecentAction::Remove, 0, false, full));
    assert_eq!(
        alternatives(2),
        [(false, check(600, true)), (false, set(true))]
    );
    assert_eq!(alternatives(3), [(false, gone), (true, gone)]);
    // Beside the entries of the file; an entry that is there keeps its time.
    assert!(last(4).negate);
    assert_eq!(alternatives(4), [(false, None), (false, check(30, false))]);
    let added = [
        (false, None),
        (false, check(30, false)),
        (false, set(false)),
    ];
    assert_eq!(alternatives(5), added);
    let cut = Some((RecentAction::Set, 0, false, full & !0xff));
    assert_eq!(alternatives(6), [(false, None), (false, cut)]);
    assert!(rules.iter().all(|rule| rule.ops.is_empty()));
}

#[test]
fn changes_that_have_no_room_are_refused() {
    let cases = [
        ("-A INPUT -j SET --add-set two src,src", "not a hash:ip"),
        ("-A INPUT -j SET --add-set one src", "has networks"),
        ("-A INPUT -j SET --add-set both src", "not a hash:ip"),
        ("-A INPUT -j SET --add-set six src", "other family"),
        ("-A INPUT -j SET --add-set member src", "list of sets"),
        ("-A INPUT -j SET --del-set kept src", "entries in its file"),
        (
            "-A INPUT -j SET --add-set kept src --exist --timeout 9",
            "shortens the life",
        ),
        (
            "-A INPUT -j SET --map-set trap src",
            "`--map-set` of `-j SET`",
        ),
        (
            "-A INPUT -j SET --add-set trap src\n-A INPUT -j SET --add-set trap src --timeout 9",
            "another lifetime",
        ),
    ];
    for (line, wanted) in cases {
        let text = filter(line);
        let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
        let found = report.diagnostics.iter().find(|found| found.is_error());
        let found = found.unwrap_or_else(|| panic!("{line} is accepted"));
        assert!(policy.is_none() && found.is_unsupported(), "{line}");
        assert!(found.message.contains(wanted), "{line}: {}", found.message);
    }
}

#[test]
fn nat_is_counted_and_kept_out() {
    let text = "*nat\n:mine - [0:0]\n-A POSTROUTING -o eth0 -j MASQUERADE\n-A PREROUTING -j mine\n\
        -A mine -p tcp --dport 80 -j DNAT --to-destination 10.0.0.1\nCOMMIT\n";
    let text = text.to_owned() + &filter("-A INPUT -j DROP");
    let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
    let policy = policy.unwrap();
    assert_eq!(report.nat_rules, 3);
    assert!(
        policy
            .chains
            .iter()
            .all(|chain| chain.table == Table::Filter)
    );
    assert!(policy.roots.iter().all(|root| root.table == Table::Filter));
}

#[test]
fn operations_and_verdicts() {
    let found = |table: &str, chain_name: &str, rule: &str| {
        let policy = policy(&format!("*{table}\n-A {chain_name} {rule}\nCOMMIT\n"));
        let rule = chain(&policy, chain_name).rules[0].clone();
        (rule.ops, rule.flow)
    };
    let next = |op| (vec![op], Flow::Next);
    let reject = |kind| (vec![], Flow::Verdict(Verdict::Reject(kind)));
    assert_eq!(
        found("filter", "INPUT", "-j REJECT"),
        reject(RejectKind::Icmp(3))
    );
    assert_eq!(
        found(
            "filter",
            "INPUT",
            "-p tcp -j REJECT --reject-with tcp-reset"
        ),
        reject(RejectKind::TcpReset)
    );
    assert_eq!(
        found(
            "filter",
            "INPUT",
            "-j REJECT --reject-with icmp-admin-prohibited"
        ),
        reject(RejectKind::Icmp(13))
    );
    assert_eq!(
        found("mangle", "INPUT", "-j MARK --set-mark 1/0xf0"),
        next(Op::SetMark {
            value: 1,
            mask: 0xf1
        })
    );
    assert_eq!(
        found("mangle", "INPUT", "-j MARK --and-mark 0xf"),
        next(Op::SetMark {
            value: 0,
            mask: !0xf
        })
    );
    assert_eq!(
        found(
            "mangle",
            "INPUT",
            "-j CONNMARK --restore-mark --nfmask 0xf --ctmask 0xf0"
        ),
        next(Op::RestoreConnmark {
            nf_mask: 0xf,
            ct_mask: 0xf0,
            shift: MarkShift::default(),
        })
    );
    assert_eq!(
        found("mangle", "INPUT", "-j CONNMARK --save-mark"),
        next(Op::SaveConnmark {
            nf_mask: u32::MAX,
            ct_mask: u32::MAX,
            shift: MarkShift::default(),
        })
    );
    assert_eq!(
        found("mangle", "INPUT", "-j TOS --and-tos 0xf0"),
        next(Op::SetTos {
            value: 0,
            mask: 0x0f
        })
    );
    assert_eq!(
        found("mangle", "INPUT", "-j DSCP --set-dscp-class EF"),
        next(Op::SetDscp(46))
    );
    assert_eq!(
        found("mangle", "FORWARD", "-j CLASSIFY --set-class 1:10"),
        next(Op::Classify(0x1_0010))
    );
    assert_eq!(found("raw", "OUTPUT", "-j NOTRACK"), next(Op::Notrack));
    assert_eq!(
        found("filter", "INPUT", "-g mine\n:mine - [0:0]").1,
        Flow::Goto(ChainId(3))
    );
    assert_eq!(found("filter", "INPUT", "-j RETURN").1, Flow::Return);
}

#[test]
fn memory_has_the_numbers_of_the_rule() {
    let kind = |rule: &str| {
        let policy = policy(&filter(&format!("-A INPUT {rule} -j DROP")));
        (
            policy.histories[0].shared.clone(),
            policy.histories[0].kind.clone(),
        )
    };
    let (shared, HistoryKind::Limit(limit)) = kind("-m limit --limit 7/min") else {
        panic!()
    };
    assert_eq!((shared, limit.cost, limit.burst), (None, 85_714, 5));
    let (shared, HistoryKind::Recent(recent)) =
        kind("-m recent --update --seconds 60 --hitcount 4 --name x --rdest")
    else {
        panic!()
    };
    assert_eq!(shared.as_deref(), Some("recent/v4/x"));
    assert_eq!(
        (
            recent.seconds,
            recent.hitcount,
            recent.destination,
            recent.mask
        ),
        (60, 4, true, 0xffff_ffff)
    );
    let (_, HistoryKind::HashLimit(limit)) = kind(
        "-m hashlimit --hashlimit-above 60/min --hashlimit-mode srcip,dstport \
         --hashlimit-srcmask 24 --hashlimit-name x",
    ) else {
        panic!()
    };
    assert_eq!(
        (limit.above, limit.rate, limit.burst, limit.expire_ms),
        (true, 1_000_000, 5, 60_000)
    );
    assert!(limit.key.src && limit.key.dst_port && !limit.key.dst && limit.key.src_prefix == 24);
    let (_, HistoryKind::HashLimit(limit)) = kind(
        "-m hashlimit --hashlimit-upto 50000/sec --hashlimit-burst 20000 --hashlimit-mode dstip \
         --hashlimit-name y",
    ) else {
        panic!()
    };
    assert_eq!((limit.rate, limit.burst), (20, 20_000));
    let (None, HistoryKind::Quota(bytes)) = kind("-m quota --quota 1000") else {
        panic!()
    };
    assert_eq!(bytes, 1000);
    let (_, HistoryKind::ConnLimit(limit)) =
        kind("-m connlimit ! --connlimit-above 4 --connlimit-mask 24")
    else {
        panic!()
    };
    assert_eq!(
        (limit.above, limit.count, limit.prefix, limit.destination),
        (false, 4, 24, false)
    );
    let (_, HistoryKind::Time(window)) =
        kind("-m time --timestart 22:00 --timestop 6:00 ! --weekdays Mon --contiguous")
    else {
        panic!()
    };
    assert_eq!(
        (
            window.day_start,
            window.day_stop,
            window.week_days,
            window.contiguous
        ),
        (79_200, 21_600, 0xfc, true)
    );
    assert_eq!(
        (window.date_start, window.date_stop, window.month_days),
        (0, u64::MAX, 0xffff_fffe)
    );
}
