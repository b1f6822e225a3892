//! Pins: how programs, maps and links outlive the process, and how the next one finds them.
//!
//! `/sys/fs/bpf/weir/net-COOKIE/iN/` holds instance N: its maps and programs by name, and one link
//! for each hook. An instance under construction is `newN` and becomes `iN` by one rename. Which
//! policy is in force is told by the maps alone: the instance with the highest number whose active
//! slot holds a policy. Everything else is left over from a process that died, and is removed.

use std::fs;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::FromBytes;

use crate::abi::{self, Control, Settings};
use crate::attach;
use crate::error::{PlaneError, Result, file, system};
use crate::load::{
    BESIDE_LEARNED, Instance, LEARNED_MAP, Learning, MAPS, Map, PROGRAMS, is_mapped, learns,
};
use crate::swap;
use crate::sys::memory::grace_period;
use crate::sys::{bpf, namespace};

const ROOT: &str = "/sys/fs/bpf";

/// The folder of one network namespace.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// A pinned instance.
#[derive(Debug)]
pub struct Pinned {
    /// Its number.
    pub number: u32,
    /// Its folder.
    pub path: PathBuf,
    /// Its maps and programs.
    pub instance: Arc<Instance>,
}

/// The BPF file system, mounted if it is not.
fn root() -> Result<PathBuf> {
    let root = PathBuf::from(ROOT);
    if !namespace::is_bpf(&root) {
        namespace::mount_bpf(&root).map_err(file("mounting a BPF file system on", &root))?;
    }
    Ok(root)
}

impl Folder {
    /// The folder of a namespace. Must be called inside [`crate::space::Space::enter`], as
    /// everything else here.
    pub fn of(cookie: u64) -> Result<Folder> {
        Ok(Folder {
            path: root()?.join("weir").join(format!("net-{cookie}")),
        })
    }

    fn numbers(&self, prefix: &str) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return Vec::new();
        };
        let mut numbers: Vec<u32> = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Number of the newest instance.
    pub fn newest(&self) -> Option<u32> {
        self.numbers("i").pop()
    }

    /// The instance in force, if any. Changes nothing.
    pub fn current(&self) -> Result<Option<Pinned>> {
        for number in self.numbers("i").into_iter().rev() {
            let pinned = adopt(number, self.path.join(format!("i{number}")))?;
            if let Some(pinned) = pinned
                && swap::generation(&pinned.instance, swap::active(&pinned.instance)) != 0
            {
                return Ok(Some(pinned));
            }
        }
        Ok(None)
    }

    /// Remove what processes that died left over: everything but the instance in force.
    pub fn sweep(&self) -> Result<Option<Pinned>> {
        let current = self.current()?;
        let keep = current.as_ref().map(|c| c.number);
        for number in self.numbers("new") {
            remove(&self.path.join(format!("new{number}")))?;
        }
        for number in self.numbers("i") {
            if Some(number) != keep {
                let path = self.path.join(format!("i{number}"));
                if let (Some(current), Ok(Some(old))) = (&current, adopt(number, path.clone())) {
                    swap::keep_previous(&old.instance, &current.instance)?;
                }
                remove(&path)?;
            }
        }
        if let Some(current) = &current {
            let slot = swap::active(&current.instance);
            attach::detach_others(&current.path, swap::hooks(&current.instance, slot))?;
        }
        Ok(current)
    }

    /// Pin an instance into a folder of its own that [`Folder::finish`] gives its final name.
    pub fn build(&self, instance: &Instance) -> Result<(u32, PathBuf)> {
        let number = self.numbers("i").last().map_or(1, |n| n + 1);
        let path = self.path.join(format!("new{number}"));
        fs::create_dir_all(&path).map_err(file("creating", &path))?;
        let pin = |fd: &OwnedFd, name: &str| {
            let path = path.join(name);
            bpf::pin(fd.as_fd(), &path).map_err(file("pinning", &path))
        };
        for (map, name) in instance.maps.iter().zip(MAPS) {
            pin(&map.fd, name)?;
        }
        if let Some(map) = &instance.learned {
            pin(&map.fd, LEARNED_MAP)?;
        }
        for (map, name) in instance.beside.iter().zip(BESIDE_LEARNED) {
            pin(&map.fd, name)?;
        }
        for (program, name) in instance.programs.iter().zip(PROGRAMS) {
            if let Some(program) = program {
                pin(program, name)?;
            }
        }
        Ok((number, path))
    }

    /// Give a built instance its final name.
    pub fn finish(&self, number: u32, built: &Path) -> Result<PathBuf> {
        let path = self.path.join(format!("i{number}"));
        fs::rename(built, &path).map_err(file("renaming", built))?;
        Ok(path)
    }

    /// Remove everything of this namespace. Tells whether there was anything.
    pub fn clear(&self) -> Result<bool> {
        let existed = self.path.exists();
        for prefix in ["i", "new"] {
            for number in self.numbers(prefix).into_iter().rev() {
                remove(&self.path.join(format!("{prefix}{number}")))?;
            }
        }
        if existed {
            fs::remove_dir(&self.path).map_err(file("removing", &self.path))?;
        }
        if let Some(parent) = self.path.parent() {
            // Others may have policies in force; then it stays.
            let _ = fs::remove_dir(parent);
        }
        Ok(existed)
    }
}

/// Remove an instance: its links first, so that no program runs on when its maps lose their names.
pub fn remove(path: &Path) -> Result<()> {
    let mut names: Vec<PathBuf> = match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(file("reading", path)(e)),
    };
    names.sort_by_key(|p| !is_link(p));
    let mut judging = names.first().is_some_and(|name| is_link(name));
    for name in names {
        if judging && !is_link(&name) {
            // Packets that are being judged still need the program for the whole way, which goes
            // with the map that names it.
            grace_period().map_err(system("waiting for running programs to end"))?;
            judging = false;
        }
        match fs::remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(file("removing", &name)(e));
            }
            _ => {}
        }
    }
    fs::remove_dir(path).map_err(file("removing", path))
}

fn is_link(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|n| n.as_encoded_bytes().starts_with(b"link_"))
}

/// Names of the pinned links of an instance.
pub fn links(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|e| is_link(&e.path()))
        .filter_map(|e| e.file_name().into_string().ok())
        .collect()
}

/// Open the pins of an instance; `None` when some are missing.
fn adopt(number: u32, path: PathBuf) -> Result<Option<Pinned>> {
    let open = |name: &str| -> Result<Option<OwnedFd>> {
        let path = path.join(name);
        match bpf::open_pin(&path) {
            Ok(fd) => Ok(Some(fd)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(file("opening", &path)(e)),
        }
    };
    // First of all the version: another one may have other maps, and is no less in force for that.
    let Some(control) = open("control")? else {
        return Ok(None);
    };
    let at = path.join("control");
    let control = Map::adopt(control, true).map_err(file("mapping", &at))?;
    let found = control.memory().load32(offset_of!(Control, abi));
    if found != abi::VERSION {
        return Err(PlaneError::Version {
            found,
            wanted: abi::VERSION,
        });
    }
    let mut maps = Vec::with_capacity(MAPS.len());
    for name in MAPS {
        let Some(fd) = open(name)? else {
            return Ok(None);
        };
        let map = Map::adopt(fd, is_mapped(name)).map_err(file("mapping", &path.join(name)))?;
        maps.push(map);
    }
    let mut programs = Vec::with_capacity(PROGRAMS.len());
    for name in PROGRAMS {
        programs.push(open(name)?);
    }
    let mut instance = Instance {
        maps,
        learned: None,
        beside: Vec::new(),
        programs,
        settings: Settings::default(),
    };
    let control = instance.control();
    let mut bytes = [0; size_of::<Settings>()];
    control.read(offset_of!(Control, loaded), &mut bytes);
    instance.settings = Settings::read_from_bytes(&bytes).expect("the size is right");
    if learns(instance.settings.features) {
        let Some(fd) = open(LEARNED_MAP)? else {
            return Ok(None);
        };
        let map = Map::adopt(fd, true).map_err(file("mapping", &path.join(LEARNED_MAP)))?;
        instance.learned = Some(map);
        for name in Learning::of(instance.settings.features).beside() {
            let Some(fd) = open(name)? else {
                return Ok(None);
            };
            let map = Map::adopt(fd, is_mapped(name)).map_err(file("mapping", &path.join(name)))?;
            instance.beside.push(map);
        }
    }
    if !instance.is_whole() {
        return Ok(None);
    }
    Ok(Some(Pinned {
        number,
        path,
        instance: Arc::new(instance),
    }))
}
