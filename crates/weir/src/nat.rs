//! The kernel's own nat table, handed over to and taken back from the installed iptables.
//!
//! In: the text of a nat table. Out: the kernel has exactly that table, or still the old one. weir
//! translates no addresses; `apply --nat=kernel` gives that table to `iptables-restore` or
//! `ip6tables-restore`, which replace a table at once. The table that was there is kept, for a
//! failed load, for the end of a trial, and for `unload`.

use crate::exit::{Exit, OrExit, failure};
use std::io::Write;
use std::process::{Command, Stdio};
use weir_policy::model::Family;

/// A nat table as text, `*nat` to `COMMIT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatTable {
    /// Its family.
    pub family: Family,
    /// The text; empty stands for a table without rules.
    pub text: String,
}

const EMPTY: &str = "*nat\nCOMMIT\n";

fn program(family: Family, verb: &str) -> String {
    match family {
        Family::V4 => format!("iptables-{verb}"),
        Family::V6 => format!("ip6tables-{verb}"),
    }
}

/// The kernel's nat table as it is now.
pub fn present(family: Family) -> anyhow::Result<NatTable> {
    let name = program(family, "save");
    let output = Command::new(&name)
        .args(["-t", "nat"])
        .stdin(Stdio::null())
        .output()
        .or_exit(
            Exit::Kernel,
            format!("can't run {name}, which --nat=kernel needs"),
        )?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failure(Exit::Kernel, format!("{name}: {}", said.trim())));
    }
    Ok(NatTable {
        family,
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

impl NatTable {
    /// Has the installed iptables read the table without loading it.
    pub fn test(&self) -> anyhow::Result<()> {
        self.feed(&["--test"])
    }

    /// Makes this the kernel's nat table.
    pub fn load(&self) -> anyhow::Result<()> {
        self.feed(&[])
    }

    fn feed(&self, options: &[&str]) -> anyhow::Result<()> {
        let name = program(self.family, "restore");
        let text = match self.text.contains("*nat") {
            true => self.text.as_str(),
            false => EMPTY,
        };
        let mut child = Command::new(&name)
            .args(["--table", "nat"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .or_exit(
                Exit::Kernel,
                format!("can't run {name}, which --nat=kernel needs"),
            )?;
        let written = match child.stdin.take() {
            Some(mut input) => input.write_all(text.as_bytes()),
            None => Ok(()),
        };
        let output = child
            .wait_with_output()
            .or_exit(Exit::Kernel, format!("{name} was lost"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let message = format!("{name} refuses the nat table: {}", said.trim());
            return Err(failure(Exit::Kernel, message));
        }
        written.or_exit(Exit::Kernel, format!("{name} didn't read the whole table"))
    }
}
