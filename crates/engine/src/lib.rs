//! weir-engine: from the rule model to a flat image, and from a packet to a verdict through it.
//!
//! Data flow: [`weir_policy::model::Policy`] --[`compile`]--> bytes of an [`image`] --[`lookup`]-->
//! ordered trail of entries --[`run`]--> verdict, marks, counters. Pure: no input or output, no
//! system calls, no unsafe code but in one module of `lookup`; what remembers packets is asked
//! through [`run::Live`]. Everything the packet path does here is done by the C headers in
//! `crates/plane/bpf` in the same way; tests hold the two together.

#![deny(unsafe_code)]

pub mod compile;
pub mod flow;
pub mod history;
pub mod image;
pub mod lookup;
pub mod packet;
pub mod run;
pub mod update;
