//! The way back to a source (`-m rpfilter`) and what stands beside the packet (`-m cpu`), which the
//! comparison can't see into, are compared all the same.

use weir_policy::compare::{Options, compare};
use weir_policy::dialect::iptables;
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
    let options = Options {
        families: vec![Family::V4],
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
