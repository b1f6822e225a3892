//! Any bytes as a file of saved sets: nothing crashes, and what is kept of it prints back.
//!
//! `cargo +nightly fuzz run parse_ipset -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::dialect::ipset;
use weir_policy::syntax::Sources;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut sources = Sources::new();
    let id = sources.add("sets", text.clone());
    let (file, found) = ipset::parse(&text, id);
    for diagnostic in &found {
        assert!(diagnostic.span.end as usize <= text.len() && diagnostic.help.is_some());
    }
    let printed = ipset::print(&file);
    let (again, _) = ipset::parse(&printed, id);
    assert_eq!(file, again, "printed as {printed}");
    let input = Input::Sets { name: "sets", file: &file };
    let _ = iptables::lower(&[input], &LowerOptions::default());
});
