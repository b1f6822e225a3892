//! Inputs that give their bytes only once: standard input, pipes, `<(command)` of a shell.
//!
//! In: a path as typed. Out: its bytes, the same ones however often they are asked for, because
//! telling a language or a format reads an input before it is read to be used. Regular files are
//! not kept: they can be read again.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static KEPT: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// The bytes of an input; `-` is standard input.
pub fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    if is_regular(path) {
        return std::fs::read(path);
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = kept.get(path) {
        return Ok(bytes.clone());
    }
    let mut bytes = Vec::new();
    match is_stdin(path) {
        true => std::io::stdin().lock().read_to_end(&mut bytes)?,
        false => std::fs::File::open(path)?.read_to_end(&mut bytes)?,
    };
    kept.insert(path.to_owned(), bytes.clone());
    Ok(bytes)
}

/// The bytes of an input that were read already, and can't be read again.
pub fn kept(path: &Path) -> Option<Vec<u8>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get(path).cloned()
}

/// Whether a path names standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether an input can be read again; what is not there is left to the error of reading it.
pub fn is_regular(path: &Path) -> bool {
    !is_stdin(path) && std::fs::metadata(path).is_ok_and(|found| found.is_file())
}
