//! Any bytes as ipfw commands: nothing crashes, and what is kept of them prints back.
//!
//! `cargo +nightly fuzz run parse_ipfw -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_policy::dialect::ipfw::print::listing;
use weir_policy::dialect::ipfw::{self, NoNames, Settings};
use weir_policy::syntax::Sources;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut sources = Sources::new();
    let id = sources.add("rules", text.clone());
    let program = ipfw::read(&text, id, &NoNames, Settings::default());
    for diagnostic in &program.diagnostics {
        assert!(diagnostic.span.end as usize <= text.len() && diagnostic.help.is_some());
    }
    let printed = listing::commands(&program.ruleset);
    let again = ipfw::read(&printed, id, &NoNames, Settings::default());
    assert_eq!(printed, listing::commands(&again.ruleset));
});
