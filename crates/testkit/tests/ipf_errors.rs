//! IPFilter's `icmp-head` in the kernel over a change of rules: a state outlives the policy that
//! made it, its group doesn't, and ICMP errors about its packets meet the list then.

use weir_engine::compile::{Options, compile};
use weir_engine::packet::Arrival;
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::dialect::ipf::{ParseOptions, parse};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{Family, Hook, Policy};
use weir_policy::syntax::Sources;

/// A datagram from 10.0.0.1 to 10.0.0.2, and the answer that its port is closed.
const DATAGRAM: &str = "4500001c00010000401166ce0a0000010a00000203e800350008e7be";
const ERROR: &str = "4500003800010000400166c20a0000020a0000010300111c00000000\
                     4500001c00010000401166ce0a0000010a00000203e800350008e7be";

/// Whether a member of the group passes errors about states.
fn rules(action: &str) -> Policy {
    let text = format!(
        "block in all\nblock out all\npass in quick proto udp all keep state (icmp-head g)\n\
         {action} out proto icmp all group g\n"
    );
    let mut sources = Sources::new();
    let id = sources.add("rules", text.as_str());
    let (file, found) = parse(&text, id, &ParseOptions::default());
    assert!(found.is_empty(), "{found:?}");
    let (set, _) = RuleSet::of(&file);
    let (policy, found) = lower(&set, &Tables::default(), &sources, LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{found:?}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// The verdict about a packet that comes in or leaves by eth0: 1 is to accept.
fn verdict(kernel: &TestRun, hook: Hook, hex: &str) -> u32 {
    let mut arrival = Arrival::at(hook);
    *(match hook {
        Hook::Prerouting => &mut arrival.in_iface,
        _ => &mut arrival.out_iface,
    }) = "eth0".to_owned();
    let seen = kernel.judge(Family::V4, &bytes(hex), &arrival, 0);
    seen.unwrap_or_else(|error| panic!("{error}")).verdict
}

#[test]
fn groups_of_an_earlier_policy_judge_no_errors() {
    let Some(()) = weir_plane::kernel_or_skip("groups_of_an_earlier_policy_judge_no_errors") else {
        return;
    };
    let capacity = Capacity::for_policy(1 << 20, 4096, 1 << 16, 4096).expect("it fits");
    let kernel = TestRun::learning(capacity).unwrap_or_else(|error| panic!("{error}"));
    kernel.set_clock(1_000_000_000_000);
    let (passes, blocks) = (rules("pass"), rules("block"));
    for (policy, error) in [(&passes, 1), (&blocks, 2)] {
        let compiled = compile(policy, &Options::default()).expect("it compiles");
        let policy = weir_plane::Policy::of(policy, &compiled);
        kernel.install(&policy).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verdict(&kernel, Hook::Prerouting, DATAGRAM), 1);
        assert_eq!(verdict(&kernel, Hook::Output, ERROR), error);
        // The same rules again: the state goes on, and the group is another one.
        kernel.replace(&policy).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verdict(&kernel, Hook::Output, ERROR), 2);
        assert_eq!(verdict(&kernel, Hook::Prerouting, DATAGRAM), 1);
        assert_eq!(kernel.states(1_000_000_000_000).len(), 1);
    }
}
