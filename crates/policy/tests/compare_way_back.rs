//! The way back to a source (`-m rpfilter`, `verrevpath`, `antispoof`) and what stands beside the
//! packet (`-m cpu`), which the comparison can't see into, are compared all the same.

use weir_policy::compare::{Options, compare};
use weir_policy::dialect::{ipfw, iptables};
use weir_policy::eval::Path;
use weir_policy::model::{Family, Policy};
use weir_policy::syntax::Sources;

/// A host that drops TCP, and in front of that what `raw` says.
fn policy(raw: &str) -> Policy {
    let text = format!(
        "*raw\n:PREROUTING ACCEPT [0:0]\n{raw}COMMIT\n\
         *filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -j DROP\nCOMMIT\n"
    );
    let mut sources = Sources::new();
    let id = sources.add("rules.v4", text.as_str());
    let (file, found) = iptables::parse_as(&text, id, Family::V4);
    assert!(!found.iter().any(|one| one.is_error()), "{found:?}");
    let inputs = [iptables::Input::Rules {
        name: "rules.v4",
        file: &file,
    }];
    let (policy, report) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics))
}

/// The same asked by ipfw.
fn of_ipfw(rules: &str) -> Policy {
    let text =
        format!("{rules}add 200 deny tcp from any to any\nadd 300 allow ip from any to any\n");
    let mut sources = Sources::new();
    let id = sources.add("rules.ipfw", text.as_str());
    let program = ipfw::read(&text, id, &ipfw::NoNames, ipfw::Settings::default());
    assert!(!program.diagnostics.iter().any(|one| one.is_error()));
    let options = ipfw::lower::Options::default();
    let (policy, found) = ipfw::lower::lower(&program.ruleset, &sources, options);
    policy.unwrap_or_else(|| panic!("{found:?}"))
}

fn each_is_itself_alone(all: &[Policy], families: &[Family]) {
    let options = Options {
        families: families.to_vec(),
        paths: vec![Path::Input],
        whole_headers: true,
        ..Options::default()
    };
    for (number, old) in all.iter().enumerate() {
        for (other, new) in all.iter().enumerate() {
            let found = compare(old, new, &options).expect("a small comparison");
            assert_eq!(found.same(), number == other, "{number}, {other}");
            let differences = found.journeys.iter().flat_map(|way| &way.differences);
            for one in differences {
                assert!(one.confirmed, "{one:#?}");
            }
        }
    }
}

#[test]
fn reverse_paths_of_ipfw_are_compared() {
    let drops = |how: &str| of_ipfw(&format!("add 100 deny ip from any to any {how}\n"));
    let all = [
        of_ipfw(""),
        drops("verrevpath in"),
        drops("not verrevpath in"),
        drops("antispoof in"),
        drops("not antispoof in"),
        drops("{ not antispoof or not verrevpath } in"),
        drops("versrcreach in"),
        drops("not versrcreach in"),
    ];
    each_is_itself_alone(&all, &[Family::V4, Family::V6]);
    // On the output pass there is nothing to ask.
    let options = Options {
        families: vec![Family::V4],
        ..Options::default()
    };
    let found = compare(&of_ipfw(""), &drops("not verrevpath out"), &options);
    assert!(found.expect("a small comparison").same());
}

#[test]
fn what_a_diagram_cannot_see_is_compared() {
    let drops = |how: &str| policy(&format!("-A PREROUTING -m rpfilter{how} -j DROP\n"));
    let all = [
        policy(""),
        drops(""),
        drops(" --invert"),
        drops(" --loose --invert"),
        policy("-A PREROUTING -m cpu --cpu 1 -j DROP\n"),
        policy("-A PREROUTING -m cpu ! --cpu 1 -j DROP\n"),
    ];
    each_is_itself_alone(&all, &[Family::V4]);
}
