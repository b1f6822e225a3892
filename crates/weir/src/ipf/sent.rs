//! Packets that a test sends: `ipftest -o` writes them to `/tmp/INTERFACE`, one behind the other,
//! from the IP header on.
//!
//! In: packets that pass outbound, or that a rule sends elsewhere. Out: a file for each interface,
//! begun anew by each test. What stands there under that name and is no file is never written to.

use crate::exit::{Exit, OrExit, failure};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the original puts the files.
const FOLDER: &str = "/tmp";

/// The files of a test.
pub struct Sent {
    folder: PathBuf,
    files: HashMap<String, File>,
}

impl Sent {
    /// No packet was sent yet.
    pub fn new() -> Self {
        Self::beneath(Path::new(FOLDER))
    }

    fn beneath(folder: &Path) -> Self {
        Sent {
            folder: folder.to_owned(),
            files: HashMap::new(),
        }
    }

    /// Writes a packet to the file of its interface.
    pub fn packet(&mut self, interface: &str, bytes: &[u8]) -> anyhow::Result<()> {
        if !self.files.contains_key(interface) {
            let file = self.begin(interface)?;
            self.files.insert(interface.to_owned(), file);
        }
        let written = self
            .files
            .get_mut(interface)
            .map(|file| file.write_all(bytes));
        written.unwrap_or(Ok(())).or_exit(
            Exit::Usage,
            format!("-o: can't write a packet of {interface}"),
        )
    }

    fn begin(&self, interface: &str) -> anyhow::Result<File> {
        if interface.is_empty() || interface.contains('/') || interface.starts_with('.') {
            let message = format!("-o: `{interface}` can't be the name of a file");
            return Err(failure(Exit::Usage, message));
        }
        let path = self.folder.join(interface);
        // Never through a link that somebody else put there.
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::TRUNC
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let cannot = || format!("-o: can't write {}", path.display());
        let file = File::from(
            opened
                .map_err(std::io::Error::from)
                .or_exit(Exit::Usage, cannot())?,
        );
        match file.metadata().or_exit(Exit::Usage, cannot())?.is_file() {
            true => Ok(file),
            false => Err(failure(Exit::Usage, format!("{}: it is no file", cannot()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_its_file() {
        let folder = std::env::temp_dir().join(format!("weir-sent-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let place = |name: &str| folder.join(name);
        std::fs::write(place("e0"), "of an earlier test").unwrap();
        std::os::unix::fs::symlink("e0", place("e2")).unwrap();
        let mut sent = Sent::beneath(&folder);
        sent.packet("e0", b"one").unwrap();
        sent.packet("e1", b"two").unwrap();
        sent.packet("e0", b"three").unwrap();
        assert_eq!(std::fs::read(place("e0")).unwrap(), b"onethree");
        assert_eq!(std::fs::read(place("e1")).unwrap(), b"two");
        for name in ["e2", "", "../x", "a/b", ".."] {
            assert!(sent.packet(name, b"x").is_err(), "{name}");
        }
        assert_eq!(std::fs::read(place("e0")).unwrap(), b"onethree");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
