//! The tools that a recorded script finds: this program under another name.
//!
//! In: the name and arguments that it was called by, and the recorder's socket in the environment.
//! Out: the recorder's answer. Nothing is parsed here, so that a call costs little.

use super::wire::{Reply, Request};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// The environment variable that names the recorder's socket.
pub const SOCKET: &str = "WEIR_IPFW_RECORD";

/// The tools.
pub const TOOLS: [&str; 14] = [
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
];

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
