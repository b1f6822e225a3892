//! The texts of a policy as they were applied, by generation.
//!
//! In: texts with their names, and how they were read. Out: the same. Everything that could make a
//! second reading differ from the first (resolved host names, options) is kept with them, so the
//! rule numbers of the kernel's counters can be found again from the texts alone.

use super::Store;
use super::journal::{Changed, part};
use crate::exit::{Exit, OrExit};
use crate::input::Answers;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSource {
    /// Name as the user gave it.
    pub name: String,
    /// Content.
    pub text: String,
}

impl SavedSource {
    /// Whether there is nothing but blank lines and comments.
    pub fn says_nothing(&self) -> bool {
        let mut lines = self.text.lines().map(str::trim);
        lines.all(|line| line.is_empty() || line.starts_with('#'))
    }
}

/// A policy as it was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The texts, in order.
    pub sources: Vec<SavedSource>,
    /// Language that the user named.
    pub dialect: Option<String>,
    /// Whether rules that can't be honoured were left out.
    pub allow_unsupported: bool,
    /// What names in the rules meant.
    pub names: Answers,
    /// Whether the nat table went to the kernel.
    pub kernel_nat: bool,
    /// Seconds since the epoch at which it was applied.
    pub applied_at: u64,
    /// What was changed in place since these texts were written.
    pub changed: Option<Changed>,
}

/// What the manifest file holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) schema: u32,
    pub(super) sources: Vec<String>,
    /// How often the texts were written anew with changes in them.
    #[serde(default)]
    pub(super) base: u32,
    pub(super) dialect: Option<String>,
    pub(super) allow_unsupported: bool,
    pub(super) names: Answers,
    pub(super) kernel_nat: bool,
    pub(super) applied_at: u64,
}

impl Store {
    fn folder(generation: u32) -> String {
        format!("policy-{generation}")
    }

    /// Keeps a policy's texts under a generation. They appear all at once.
    pub fn save(&self, generation: u32, saved: &Saved) -> anyhow::Result<()> {
        self.save_io(generation, saved).or_exit(
            Exit::Kernel,
            format!("can't keep the policy's text in {}", self.root.display()),
        )
    }

    fn save_io(&self, generation: u32, saved: &Saved) -> std::io::Result<()> {
        let folder = self.root.join(Self::folder(generation));
        let fresh = folder.with_extension("new");
        let _ = fs::remove_dir_all(&fresh);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&fresh)?;
        for (number, source) in saved.sources.iter().enumerate() {
            fs::write(fresh.join(number.to_string()), &source.text)?;
        }
        let manifest = Manifest {
            schema: 1,
            sources: saved.sources.iter().map(|s| s.name.clone()).collect(),
            base: 0,
            dialect: saved.dialect.clone(),
            allow_unsupported: saved.allow_unsupported,
            names: saved.names.clone(),
            kernel_nat: saved.kernel_nat,
            applied_at: saved.applied_at,
        };
        fs::write(fresh.join("manifest.json"), serde_json::to_vec(&manifest)?)?;
        fs::rename(&fresh, &folder)
    }

    /// The policy of a generation, if its texts are here, with everything in them that was changed
    /// since.
    pub fn load(&self, generation: u32) -> anyhow::Result<Option<Saved>> {
        let saved = self.load_io(generation).or_exit(
            Exit::Kernel,
            format!("can't read the policy's text in {}", self.root.display()),
        )?;
        saved.map(crate::live::fold).transpose()
    }

    /// What the manifest of a generation says; `None`: there is none.
    pub(super) fn manifest(&self, generation: u32) -> std::io::Result<Option<Manifest>> {
        let manifest = self.read(&format!("{}/manifest.json", Self::folder(generation)))?;
        let read = manifest.map(|text| serde_json::from_slice(&text));
        Ok(read.transpose()?)
    }

    /// What names in the texts of a generation meant.
    pub fn names(&self, generation: u32) -> anyhow::Result<Option<Answers>> {
        let manifest = self.manifest(generation).or_exit(
            Exit::Kernel,
            format!("can't read the policy's text in {}", self.root.display()),
        )?;
        Ok(manifest.map(|manifest| manifest.names))
    }

    fn load_io(&self, generation: u32) -> std::io::Result<Option<Saved>> {
        loop {
            let Some(manifest) = self.manifest(generation)? else {
                return Ok(None);
            };
            let base = manifest.base;
            match self.load_as(generation, manifest) {
                // They were written anew just now, under other names.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let now = self.manifest(generation)?;
                    if now.is_none_or(|now| now.base == base) {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    fn load_as(&self, generation: u32, manifest: Manifest) -> std::io::Result<Option<Saved>> {
        let folder = self.root.join(Self::folder(generation));
        let mut sources = Vec::with_capacity(manifest.sources.len());
        for (number, name) in manifest.sources.into_iter().enumerate() {
            let file = folder.join(part(manifest.base, &number.to_string()));
            let text = fs::read_to_string(file)?;
            sources.push(SavedSource { name, text });
        }
        let changed = self.changed(generation, manifest.base)?;
        if manifest.base > 0 && changed.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(Some(Saved {
            sources,
            dialect: manifest.dialect,
            allow_unsupported: manifest.allow_unsupported,
            names: manifest.names,
            kernel_nat: manifest.kernel_nat,
            applied_at: manifest.applied_at,
            changed,
        }))
    }

    /// Removes the texts of all generations but these.
    pub fn prune(&self, keep: &[Option<u32>]) -> anyhow::Result<()> {
        let kept: Vec<String> = keep.iter().flatten().map(|g| Self::folder(*g)).collect();
        let entries = fs::read_dir(&self.root)
            .or_exit(Exit::Kernel, format!("can't read {}", self.root.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("policy-") && !kept.contains(&name) {
                // What stays behind is only an old text; the next apply tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}
