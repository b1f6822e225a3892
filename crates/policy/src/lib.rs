//! weir-policy: rule files of several languages to one rule model, and what the model means.
//!
//! Data flow: text --`dialect::*::parse`--> AST --`dialect::*::lower`--> [`model::Policy`].
//! [`eval`] runs a policy over packets rule by rule: slow, plain, and the definition of what every
//! faster form must do. The crate is pure: no I/O, no unsafe code, no knowledge of packet bytes.
#![forbid(unsafe_code)]

pub mod compare;
pub mod convert;
pub mod dialect;
pub mod eval;
pub mod model;
pub mod syntax;
