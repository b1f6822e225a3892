//! Rule files as bytes: read, named, and told apart.
//!
//! In: paths as typed; `-` is standard input. Out: texts with their names. Nothing is parsed here.

use super::once;
use crate::exit::{Exit, OrExit, failure};
use crate::state::SavedSource;
use std::path::{Path, PathBuf};
use weir_policy::dialect::ipf::families;
use weir_policy::dialect::renamed;

/// Options that every command with rule files has.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// Rule files; together they are one policy. `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// How files are read.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReadingArgs {
    /// Language of the files; guessed from their content when absent.
    #[arg(long, value_name = "DIALECT",
          value_parser = ["iptables", "ipset", "ipf", "hpux", "ipfw"])]
    pub dialect: Option<String>,
    /// Go on without the rules that can't be honoured, as long as that opens nothing.
    #[arg(long)]
    pub allow_unsupported: bool,
    /// Only warn of host names that nobody knows; such rules match nothing (ipf, hpux).
    #[arg(long)]
    pub lenient: bool,
    /// What an interface of the rules is called here, such as em0=eth0 (ipf, hpux, ipfw).
    #[arg(long, value_name = "OLD=NEW", value_parser = interface_pair)]
    pub interface: Vec<String>,
    /// Rules that nothing else fixes are for IPv6, as in HP-UX's ipf6.conf (ipf, hpux).
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// The namespace whose interfaces the rules are about; default: the present one.
    #[arg(skip)]
    pub netns: Option<String>,
    /// When they were applied, in seconds since 1970; default: they are going to be.
    #[arg(skip)]
    pub since: Option<u64>,
}

/// Checks `OLD=NEW`.
pub fn interface_pair(given: &str) -> Result<String, String> {
    renamed::pair(given).map(|_| given.to_owned())
}

impl ReadingArgs {
    /// Reads the files.
    pub fn read_files(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<SavedSource>> {
        let mut texts = read_files(paths)?;
        for text in &mut texts {
            self.name_interfaces(text);
        }
        if self.ipv6 {
            if !crate::ipf::are_meant(&texts, self.dialect.as_deref()) {
                return Err(failure(Exit::Usage, "-6 is for rules of ipf and hpux"));
            }
            for text in &mut texts {
                say_behind(text, [families::WHOLE, "\n"]);
            }
        }
        Ok(texts)
    }

    /// Says in a text how interfaces are called here: as a comment behind its last line, so that
    /// each line keeps its number, and the policy that is kept with the text is the same again.
    pub fn name_interfaces(&self, text: &mut SavedSource) {
        for pair in &self.interface {
            say_behind(text, [renamed::LINE, pair, "\n"]);
        }
    }
}

/// Puts a line behind the last one.
fn say_behind<const N: usize>(text: &mut SavedSource, line: [&str; N]) {
    if !text.text.ends_with('\n') {
        text.text.push('\n');
    }
    text.text.extend(line);
}

/// Reads the files.
pub fn read_files(paths: &[PathBuf]) -> anyhow::Result<Vec<SavedSource>> {
    let mut from_stdin = false;
    let mut sources = Vec::with_capacity(paths.len());
    for path in paths {
        if once::is_stdin(path) && std::mem::replace(&mut from_stdin, true) {
            return Err(failure(Exit::Usage, "standard input can be read only once"));
        }
        sources.push(read_file(path)?);
    }
    Ok(sources)
}

fn read_file(path: &Path) -> anyhow::Result<SavedSource> {
    let name = path.display().to_string();
    let bytes = once::bytes(path).or_exit(Exit::Usage, format!("can't read {name}"))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        let message = format!("{name}:{line}: not UTF-8 text");
        failure(Exit::Usage, message)
    })?;
    let name = if name == "-" {
        "<stdin>".to_owned()
    } else {
        name
    };
    Ok(SavedSource { name, text })
}
