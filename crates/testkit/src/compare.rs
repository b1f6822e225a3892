//! The same packets through iptables-legacy and through weir, and what differs.
//!
//! A case is a set of files with one stem in `testdata/configs/iptables`: `NAME.v4`, `NAME.v6`
//! (iptables-save text), `NAME.ipset` (ipset save text), `NAME.traffic` (the script). `case` finds
//! them, `engine` loads them into a fresh laboratory and plays the script, `counters` reads the
//! per-rule counters of either engine, `report` says what differs: packets per step, counters per
//! rule, and which step it was that moved a counter differently.

pub mod case;
pub mod counters;
pub mod engine;
pub mod model;
pub mod report;
pub mod tap;
