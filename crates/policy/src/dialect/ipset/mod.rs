//! The `ipset` dialect: the output of `ipset save`.
//!
//! In: text. Out: a syntax tree that prints back; `dialect::iptables::lower` makes named sets of
//! it. Types whose members weir cannot look up (`hash:mac`, `hash:net,iface`, `hash:ip,mark` and
//! the like) are refused by name. Counters, comments and timeouts are kept as data.
//!
//! Original semantics: ipset(8) 7.17.

pub mod ast;
mod member;
mod parse;
mod print;

pub use ast::File;
pub use parse::parse;
pub use print::print;
