//! What the commands of IPFilter users share: rule files with pools, packets in the test program's
//! formats, and its way to print them.
//!
//! In: files as typed. Out: rule sets, packets, text. Nothing here judges: that is
//! `weir_policy::eval::ipf`.

pub mod change;
pub mod check;
pub mod enforce;
pub mod files;
pub mod hex;
pub mod judge;
pub mod limits;
pub mod live;
pub mod names;
pub mod packets;
pub mod parts;
pub mod pools;
pub mod records;
pub mod sent;
pub mod show;
pub mod snoop;
pub mod state_records;
pub mod states;
pub mod statistics;
pub mod test_log;
pub mod text;
pub mod tunables;
#[cfg(test)]
mod vectors;

use crate::input::{ReadingArgs, read_files};
use crate::state::SavedSource;
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf;

/// Whether files are in this family of languages: said by `--dialect`, else told by the first one.
pub fn is_meant(files: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<bool> {
    let first = &files[..files.len().min(1)];
    let texts = match reading.dialect {
        Some(_) => Vec::new(),
        None => read_files(first)?,
    };
    Ok(are_meant(&texts, reading.dialect.as_deref()))
}

/// The same of texts that are already read.
pub fn are_meant(texts: &[SavedSource], dialect: Option<&str>) -> bool {
    match dialect {
        Some(name) => ["ipf", "hpux"].contains(&name),
        None => texts
            .first()
            .is_some_and(|text| ipf::detect(&text.text).is_some()),
    }
}

/// Whether an interface exists on this machine.
pub fn interface_exists(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && Path::new("/sys/class/net").join(name).exists()
}
