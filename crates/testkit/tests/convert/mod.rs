//! Rule texts of three languages, and who judges packets by them.

pub mod judges;
pub mod texts;
