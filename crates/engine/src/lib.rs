//! weir-engine: from the rule model to a flat image, and from a packet to a verdict through it.
//!
//! Data flow: [`weir_policy::model::Policy`] --[`compile`]--> bytes of an [`image`] --[`lookup`]-->
//! ordered trail of entries --[`run`]--> verdict, marks, counters. The eBPF programs of
//! `weir-plane` walk the same bytes with C twins of `lookup` and `run`. The crate is pure: no I/O,
//! no unsafe code; what remembers packets is asked through [`run::Live`].
#![forbid(unsafe_code)]

pub mod compile;
pub mod image;
pub mod lookup;
pub mod run;
