//! The tools that a recorded script finds: this program under another name.
//!
//! In: the name and arguments that it was called by, and the recorder's socket in the environment.
//! Out: the recorder's answer. Nothing is parsed here, so that a call costs little.

use super::wire::{Reply, Request};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The environment variable that names the recorder's socket.
pub const SOCKET: &str = "WEIR_IPFW_RECORD";

/// The tools.
pub const TOOLS: [&str; 16] = [
    "ipfw",
    "dnctl",
    "sysctl",
    "kldload",
    "kldstat",
    "kldunload",
    "ifconfig",
    "route",
    "jls",
    "service",
    "sysrc",
    "logger",
    "natd",
    "ngctl",
    "sudo",
    "doas",
];

/// Tools that run another command with more rights, which no recorded script needs.
const RUNNERS: [&str; 2] = ["sudo", "doas"];
/// Their options that take the next word.
const WITH_WORD: [&str; 8] = ["-u", "-g", "-C", "-D", "-h", "-p", "-r", "-t"];

/// Exit status when the recorder does not answer (EX_OSERR of sysexits(3)).
const NO_ANSWER: u8 = 71;

/// Acts as a tool, if this program was called as one by a recorded script.
pub fn run() -> Option<ExitCode> {
    let socket = std::env::var_os(SOCKET)?;
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = arguments.next()?;
    let tool = Path::new(&name).file_name()?.to_string_lossy().into_owned();
    if !TOOLS.contains(&tool.as_str()) {
        return None;
    }
    let arguments: Vec<String> = arguments.collect();
    if RUNNERS.contains(&tool.as_str()) {
        return Some(run_plainly(&tool, &arguments));
    }
    Some(match ask(Path::new(&socket), tool, arguments) {
        Ok(reply) => {
            let _ = std::io::stdout().write_all(reply.out.as_bytes());
            let _ = std::io::stderr().write_all(reply.err.as_bytes());
            ExitCode::from(reply.status)
        }
        Err(error) => {
            eprintln!("{name}: the recorder does not answer: {error}");
            ExitCode::from(NO_ANSWER)
        }
    })
}

/// The words of the command behind `sudo`, after the variables that it sets.
fn behind(arguments: &[String]) -> (&[String], &[String]) {
    let mut at = 0;
    while let Some(word) = arguments.get(at).filter(|word| word.starts_with('-')) {
        at += if WITH_WORD.contains(&word.as_str()) {
            2
        } else {
            1
        };
        if word == "--" {
            break;
        }
    }
    let rest = arguments.get(at..).unwrap_or_default();
    let set = rest.iter().take_while(|word| word.contains('=')).count();
    rest.split_at(set)
}

/// Runs the command with the rights that the script has.
fn run_plainly(tool: &str, arguments: &[String]) -> ExitCode {
    let (set, words) = behind(arguments);
    let Some((program, arguments)) = words.split_first() else {
        return ExitCode::SUCCESS;
    };
    let set = set.iter().filter_map(|word| word.split_once('='));
    let error = Command::new(program).args(arguments).envs(set).exec();
    eprintln!("{tool}: {program}: {error}");
    ExitCode::FAILURE
}

fn ask(socket: &Path, tool: String, arguments: Vec<String>) -> std::io::Result<Reply> {
    let mut input = Vec::new();
    let reads = |word: &String| word == "/dev/stdin" || word == "/dev/fd/0" || word == "-";
    if tool == "ipfw" && arguments.iter().any(reads) {
        std::io::stdin().read_to_end(&mut input)?;
    }
    let folder = std::env::current_dir().unwrap_or_default();
    let mut stream = UnixStream::connect(socket)?;
    let request = Request {
        tool,
        folder: folder.to_string_lossy().into_owned(),
        arguments,
        input,
    };
    request.send(&mut stream)?;
    Reply::receive(&mut stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_command_is_known() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (text, set, command) in [
            ("ipfw list", "", "ipfw list"),
            ("-n -u root A=1 ipfw -q flush", "A=1", "ipfw -q flush"),
            (
                "-E -- ipfw add 1 count ip from a=b",
                "",
                "ipfw add 1 count ip from a=b",
            ),
            ("-v", "", ""),
        ] {
            let all = words(text);
            let (variables, rest) = behind(&all);
            assert_eq!(
                (variables.join(" "), rest.join(" ")),
                (set.into(), command.into())
            );
        }
    }
}
