//! What the commands of IPFilter users share: rule files with pools, packets in the test program's
//! formats, and its way to print them.
//!
//! In: files as typed. Out: rule sets, packets, text. Nothing here judges: that is
//! `weir_policy::eval::ipf`.

pub mod files;
pub mod hex;
pub mod packets;
pub mod show;
pub mod text;
pub mod tunables;
