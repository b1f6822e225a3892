//! ipfw's pathname form: `ipfw [options] [-p PREPROCESSOR [its options]] /path`.
//!
//! In: the arguments of a call. Out: the options that stand for every line, and the text of the
//! file, through the preprocessor where one is named. The preprocessor is run with the caller's
//! privileges, the file as its standard input, as ipfw itself runs it. Nothing is parsed here.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A call with a file.
pub struct Pathname<'a> {
    /// Options that stand in front of every line.
    pub switches: &'a [String],
    /// The preprocessor and its options.
    preprocessor: Option<(&'a str, &'a [String])>,
    /// The file.
    pub path: &'a str,
}

/// Whether an option names the preprocessor, which the next word is then.
fn is_preprocessor(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('p')
}

impl<'a> Pathname<'a> {
    /// The call, if its last argument is a file.
    pub fn of(arguments: &'a [String]) -> Option<Self> {
        let (path, before) = arguments.split_last()?;
        if !path.starts_with('/') && path != "-" {
            return None;
        }
        let options = before.iter().take_while(|word| word.starts_with('-'));
        let options = &before[..options.count()];
        let named = options.iter().position(|word| is_preprocessor(word));
        let Some(at) = named.filter(|at| at + 1 < before.len()) else {
            return Some(Pathname {
                switches: before,
                preprocessor: None,
                path,
            });
        };
        Some(Pathname {
            switches: &before[..at],
            preprocessor: Some((&before[at + 1], &before[at + 2..])),
            path,
        })
    }

    /// Whether the text comes from standard input.
    pub fn is_standard_input(&self) -> bool {
        matches!(self.path, "/dev/stdin" | "/dev/fd/0" | "-")
    }

    /// The text of the file as seen from a folder, or what was wrong.
    pub fn read(&self, folder: &Path, input: &[u8]) -> Result<String, String> {
        let bytes = match (self.preprocessor, self.is_standard_input()) {
            (None, true) => Ok(input.to_vec()),
            (None, false) => std::fs::read(folder.join(self.path)),
            (Some(named), _) => return self.preprocessed(named, folder),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        bytes.map(text).map_err(|error| self.wrong(&error))
    }

    fn wrong(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path)
    }

    fn preprocessed(
        &self,
        (program, options): (&str, &[String]),
        folder: &Path,
    ) -> Result<String, String> {
        let file = File::open(folder.join(self.path)).map_err(|error| self.wrong(&error))?;
        let run = Command::new(program)
            .args(options)
            .current_dir(folder)
            .stdin(file)
            .stderr(Stdio::inherit())
            .output();
        let run = run.map_err(|error| format!("preprocessor {program}: {error}"))?;
        match run.status.success() {
            true => Ok(String::from_utf8_lossy(&run.stdout).into_owned()),
            false => Err(format!("preprocessor {program} ended with {}", run.status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_last_argument_tells_and_the_preprocessor_takes_what_is_between() {
        let call = words("-q -p sed -e s/a/b/ /etc/rules");
        let form = Pathname::of(&call).unwrap();
        assert_eq!(form.switches, ["-q"]);
        assert_eq!(form.path, "/etc/rules");
        let (program, options) = form.preprocessor.unwrap();
        assert_eq!((program, options), ("sed", &words("-e s/a/b/")[..]));
        let call = words("-qf /etc/rules");
        assert!(Pathname::of(&call).unwrap().preprocessor.is_none());
        assert!(Pathname::of(&words("add deny ip")).is_none());
        // A rule's words are no options.
        let call = words("table p add /x");
        assert_eq!(Pathname::of(&call).unwrap().switches.len(), 3);
    }

    #[test]
    fn a_file_goes_through_its_preprocessor() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("weir-pathname-{}", std::process::id()));
        std::fs::write(&file, "add 1 WHAT ip from any to any\n").unwrap();
        let path = file.display();
        let call = words(&format!("-p sed -e s/WHAT/allow/ {path}"));
        let read = Pathname::of(&call).unwrap().read(&folder, b"");
        let failing = words(&format!("-p false {path}"));
        let failed = Pathname::of(&failing).unwrap().read(&folder, b"");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), "add 1 allow ip from any to any\n");
        assert!(failed.unwrap_err().contains("preprocessor false"));
    }
}
