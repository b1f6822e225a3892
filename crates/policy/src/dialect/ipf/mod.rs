//! The `ipf` and `hpux` dialects: IPFilter 4.1 and 5.1 rule files, and HP-UX IPFilter's.
//!
//! In: the text of an `ipf.conf`. Out: its rules as they are loaded, that is with variables put in,
//! lists multiplied out and bodies flattened ([`parse`]), their canonical text ([`print()`]), and
//! the lists in the order in which packets meet them ([`load`]). `ippool.conf` is the module [`pool`].
//!
//! Both bracket styles of lists, both spellings of words that changed between versions, and address
//! ranges are read everywhere; what only HP-UX has (`keep limit`, `log limit`, `return-icmpv6`) is
//! refused in `ipf`, as upstream refuses it. Nothing here resolves names or reads files.
//!
//! Original semantics: `ipf(5)`, `ippool(5)`, `ipnat(5)`, and the behaviour of 5.1.2 and 4.1.34;
//! HP-UX: the administrator's guides A.03.05.13 to 18.21.

pub mod ast;
mod lex;
pub mod load;
mod parse;
pub mod pool;
mod print;
pub mod words;

pub use ast::{File, Item, Language, Rule};
pub use parse::{Names, ParseOptions, parse};
pub use print::{Form, PrintOptions, print, print_rule};
