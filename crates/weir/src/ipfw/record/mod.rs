//! `weir ipfw-record`: runs a firewall script of FreeBSD and keeps what it asks ipfw to do.
//!
//! In: a shell script, facts about the host. Out: the rule set that its calls come to, as text
//! that `check`, `show`, `explain` and `replay` read. The script runs with the caller's
//! privileges, and what it does beside calling ipfw is really done: the recorder is no sandbox.
//! Nothing is put into force here.

mod recording;
mod script;
pub mod shim;
mod tools;
mod wire;

use super::enforce::settings_text;
use super::facts::FactArgs;
use super::show::canonical;
use crate::exit::{Exit, OrExit, failure};
use crate::input::told;
use crate::output::{Output, report};
use recording::Recording;
use serde::Serialize;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_policy::dialect::ipfw::Settings;
use weir_policy::syntax::Severity;

/// How often the end of the script is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// Options of `weir ipfw-record`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The script's own output goes to standard error. Values that it reads from \
rc.conf can be given as environment variables, or with --rc-conf."
)]
pub struct Args {
    /// Write the rules there and not to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the recorded commands as they were called, not the rules that they come to.
    #[arg(long)]
    pub commands: bool,
    /// Keep the rules although some calls failed, as ipfw itself would.
    #[arg(long)]
    pub per_command: bool,
    /// Stands in for /etc/rc.conf.
    #[arg(long, value_name = "FILE")]
    pub rc_conf: Option<PathBuf>,
    /// An address of the host, which ifconfig tells the script.
    #[arg(long, value_name = "IF=ADDRESS/LENGTH")]
    pub local: Vec<String>,
    /// Facts.
    #[command(flatten)]
    pub facts: FactArgs,
    /// End the script after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,
    /// Print JSON: one object.
    #[arg(long)]
    pub json: bool,
    /// The script, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub script: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Recorded {
    script: String,
    /// Exit status of the script; absent when a signal ended it.
    status: Option<i32>,
    calls: u64,
    failed: u64,
    warnings: usize,
    unsupported: usize,
    /// Facts that the script asked for in vain.
    missing: Vec<String>,
    rules: String,
    commands: Vec<String>,
}

/// The folder of the shims; it goes with this value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn io<T>(done: std::io::Result<T>, what: &str) -> anyhow::Result<T> {
    done.or_exit(Exit::Usage, what.to_owned())
}

fn shims(rc_conf: Option<&Path>) -> anyhow::Result<Folder> {
    let name = format!("weir-ipfw-record-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    io(std::fs::create_dir(&folder.0), "no folder for the shims")?;
    let own = std::fs::Permissions::from_mode(0o700);
    io(
        std::fs::set_permissions(&folder.0, own),
        "no folder for the shims",
    )?;
    let program = io(std::env::current_exe(), "this program can't be found")?;
    for tool in shim::TOOLS {
        io(symlink(&program, folder.0.join(tool)), "no shim")?;
    }
    io(
        std::fs::write(folder.0.join("rc.subr"), script::rc_subr(&folder.0)),
        "no shim",
    )?;
    io(
        std::fs::write(folder.0.join("rc.defaults"), script::rc_defaults(&folder.0)),
        "no shim",
    )?;
    let variables = match rc_conf {
        Some(file) => io(
            std::fs::read(file),
            &format!("{}: can't be read", file.display()),
        )?,
        None => Vec::new(),
    };
    io(
        std::fs::write(folder.0.join("rc.conf"), variables),
        "no shim",
    )?;
    Ok(folder)
}

/// Answers calls until told to stop.
fn serve(listener: &UnixListener, recording: &Mutex<Recording>, over: &AtomicBool) {
    for stream in listener.incoming() {
        if over.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        let Ok(request) = wire::Request::receive(&mut stream) else {
            continue;
        };
        let reply = {
            let mut recording = recording.lock().unwrap_or_else(PoisonError::into_inner);
            tools::answer(&mut recording, &request)
        };
        let _ = reply.send(&mut stream);
    }
}

fn start(args: &Args, shims: &Path) -> anyhow::Result<Child> {
    let name = &args.script[0];
    let bytes = io(std::fs::read(name), &format!("{name}: can't be read"))?;
    let text = String::from_utf8_lossy(&bytes);
    let copy = shims.join("script");
    io(
        std::fs::write(&copy, script::rewritten(&text, shims)),
        "no copy of the script",
    )?;
    let program = script::interpreter(&text);
    let (program, options) = match program {
        "sh" => script::shell_of(&text),
        _ => (program, &[][..]),
    };
    let mut command = if script::is_shell(program) {
        let mut command = Command::new(program);
        command.args(options);
        // Read by `.`, so that $0 and the arguments are those of the script.
        command.arg("-c").arg(". \"$WEIR_IPFW_SCRIPT\"").arg(name);
        command
    } else {
        let mut command = Command::new(program);
        command.arg(&copy);
        command
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}:/sbin:/usr/sbin:/bin:/usr/bin", shims.display());
    let out = io(
        std::io::stderr().as_fd().try_clone_to_owned(),
        "no standard error",
    )?;
    command
        .args(&args.script[1..])
        .env("PATH", path)
        .env("WEIR_IPFW_SCRIPT", &copy)
        .env(shim::SOCKET, shims.join("socket"))
        .stdin(Stdio::null())
        .process_group(0)
        .stdout(Stdio::from(out));
    io(command.spawn(), &format!("{program}: can't be run"))
}

/// Waits for the script; past its time it is ended.
fn finish(child: &mut Child, timeout: Duration) -> anyhow::Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = io(child.try_wait(), "the script can't be waited for")? {
            return Ok(status);
        }
        if begun.elapsed() > timeout {
            // Its children too, which make a group with it.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.kill();
            let _ = child.wait();
            let seconds = timeout.as_secs();
            return Err(failure(
                Exit::Negative,
                format!("the script was ended after {seconds} s; nothing is recorded"),
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Records.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let name = args.script[0].clone();
    let settings = args.facts.settings()?;
    let host = args.facts.host(&args.local)?;
    let folder = shims(args.rc_conf.as_deref())?;
    let socket = folder.0.join("socket");
    let listener = io(UnixListener::bind(&socket), "no socket for the shims")?;
    let recording = Arc::new(Mutex::new(Recording::new(&name, settings, host)));
    let over = Arc::new(AtomicBool::new(false));
    let server = {
        let (recording, over) = (Arc::clone(&recording), Arc::clone(&over));
        std::thread::spawn(move || serve(&listener, &recording, &over))
    };
    let done = start(args, &folder.0)
        .and_then(|mut child| finish(&mut child, Duration::from_secs(args.timeout)));
    over.store(true, Ordering::Release);
    let _ = UnixStream::connect(&socket);
    let _ = server.join();
    let status = done?;
    let recording = recording.lock().unwrap_or_else(PoisonError::into_inner);
    tell(&recording, status);
    hand_over(args, out, &name, status, &recording)
}

/// Says what was wrong, and what was missing, on standard error.
fn tell(recording: &Recording, status: ExitStatus) {
    let all = recording.diagnostics.iter();
    let shown: Vec<_> = all
        .filter(|d| d.severity >= Severity::Warning)
        .cloned()
        .collect();
    told::show(&shown, &recording.sources);
    for fact in &recording.missing {
        eprintln!("weir: the script asked for what nobody told: {fact}");
    }
    if !status.success() {
        eprintln!("weir: the script ended with {status}");
    }
}

/// Rules as a file, with the settings that no command of ipfw makes.
fn rules(recording: &Recording) -> String {
    let mut settings = recording.ruleset.settings.clone();
    // Commands of the rule file make these.
    let usual = Settings::default();
    (settings.one_pass, settings.enable) = (usual.one_pass, usual.enable);
    settings_text(&settings) + &canonical(&recording.ruleset)
}

fn hand_over(
    args: &Args,
    out: &mut Output,
    name: &str,
    status: ExitStatus,
    recording: &Recording,
) -> anyhow::Result<Exit> {
    let count = |wanted: fn(&weir_policy::syntax::Diagnostic) -> bool| {
        recording.diagnostics.iter().filter(|d| wanted(d)).count()
    };
    let unsupported = count(|d| d.is_unsupported() && d.is_error());
    let text = match args.commands {
        true => recording
            .commands
            .iter()
            .map(|line| format!("{line}\n"))
            .collect(),
        false => rules(recording),
    };
    // Whoever was killed had more to say. An exit status may be that of a last test, and rules are
    // given; it may also be that of a mistake in the middle, so it is told by ours.
    let ended = status.success() || args.per_command;
    let killed = status.code().is_none() && !args.per_command;
    let whole = (recording.failed == 0 || args.per_command) && !killed;
    if out.is_json() {
        out.object(&report(Recorded {
            script: name.to_owned(),
            status: status.code(),
            calls: recording.calls,
            failed: recording.failed,
            warnings: count(|d| d.severity == Severity::Warning),
            unsupported,
            missing: recording.missing.iter().cloned().collect(),
            rules: if whole { text } else { String::new() },
            commands: recording.commands.clone(),
        }))?;
    } else if whole {
        match &args.output {
            Some(file) => io(std::fs::write(file, text), "the rules can't be written")?,
            None => out.raw(text.as_bytes())?,
        }
    }
    let calls = recording.calls;
    eprintln!(
        "weir: {calls} calls of ipfw recorded, {} failed",
        recording.failed
    );
    if killed {
        let message = "the script was killed, so that no rules are given; --per-command keeps those \
                       that it made";
        return Err(failure(Exit::Negative, message));
    }
    if !whole {
        return Err(failure(
            Exit::Negative,
            "some calls failed, so that no rules are given; --per-command keeps the others",
        ));
    }
    if !ended {
        eprintln!("weir: if that was a mistake, the rules behind it are missing");
        return Ok(Exit::Negative);
    }
    Ok(match unsupported {
        0 => Exit::Done,
        _ => Exit::Unsupported,
    })
}
