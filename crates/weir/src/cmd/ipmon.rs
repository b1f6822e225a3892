//! `weir ipmon`: what IPFilter rules log, in the words of IPFilter's `ipmon`.
//!
//! In: the kernel's events of an enforced policy, or records that `-B` saved. Out: one line a
//! record, on standard output, in a file or to syslog. Packets (I) and states (S) are recorded;
//! translations (N) are never made. It ends when the policy is unloaded. One process at a time can
//! read, and records of states are written only while it does.

use crate::enforce::nothing_enforced;
use crate::exit::{Exit, OrExit, failure};
use crate::input;
use crate::ipf::live::Live;
use crate::ipf::names::Names;
use crate::ipf::records::Saved;
use crate::ipf::state_records::{self, Line};
use crate::kernel::{Kernel, plane_error};
use crate::output::Output;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_policy::dialect::ipf::words;
use weir_policy::eval::ipf::log::{Style, date};
use weir_policy::model::Policy;

/// Options of `weir ipmon`.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the original's flags"
)]
pub struct Args {
    /// All kinds of records: those of packets, states and translations.
    #[arg(short = 'a')]
    all: bool,
    /// Print the bytes behind the headers of packets whose rules log the body.
    #[arg(short = 'b')]
    body: bool,
    /// Save records to a file, to be read with -f.
    #[arg(short = 'B', value_name = "FILE")]
    save: Option<PathBuf>,
    /// Go on in the background; needs -s, -B or a log file.
    #[arg(short = 'D')]
    background: bool,
    /// Print the records of a file that -B or `weir ipftest -l` wrote.
    #[arg(short = 'f', value_name = "FILE")]
    from: Option<PathBuf>,
    /// Forget the records that wait.
    #[arg(short = 'F')]
    flush: bool,
    /// The facility of lines whose rule says none.
    #[arg(short = 'L', value_name = "FACILITY")]
    facility: Option<String>,
    /// Names for addresses and ports, of /etc/hosts and /etc/services.
    #[arg(short = 'n')]
    names: bool,
    /// Only these kinds: N translations, S states, I packets (the default).
    #[arg(short = 'o', value_name = "NSI")]
    only: Option<String>,
    /// All kinds but these.
    #[arg(short = 'O', value_name = "NSI")]
    but: Option<String>,
    /// Ports as numbers: they are, without -n.
    #[arg(short = 'p')]
    numbers: bool,
    /// Write the number of the process to a file.
    #[arg(short = 'P', value_name = "FILE")]
    pid_file: Option<PathBuf>,
    /// HP-UX: the summaries of limits that connections were above, which begin to count these
    /// anew; then ends.
    #[arg(short = 'r')]
    summaries: bool,
    /// Send the lines to syslog, without their date.
    #[arg(short = 's')]
    syslog: bool,
    /// Only what comes from now on: as -F.
    #[arg(short = 't')]
    tail: bool,
    /// Sequence, acknowledgement and window of TCP.
    #[arg(short = 'v')]
    verbose: bool,
    /// Print the packet in hexadecimal digits.
    #[arg(short = 'x')]
    hex: bool,
    /// Append the lines to a file.
    #[arg(value_name = "LOG")]
    log: Option<PathBuf>,
    /// Network namespace.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Stop after so many records.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Stop after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

/// How long to wait for records before looking whether the policy is still the same.
const TICK: Duration = Duration::from_millis(200);
/// Where syslog listens.
const SYSLOG: &str = "/dev/log";
/// The facility of lines whose rule says none: local0 (RFC 5424 section 6.2.1).
const LOCAL0: u8 = 16;
/// The priority of records about states.
const NOTICE: u8 = 5;

/// Prints.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let kinds = args.but.as_ref().or(args.only.as_ref());
    if let Some(letter) = kinds.and_then(|k| k.chars().find(|c| !"NSI".contains(*c))) {
        let message = format!("`{letter}` is no kind of record: N, S and I are");
        return Err(failure(Exit::Usage, message));
    }
    if args.background {
        return go_on_behind(args);
    }
    let mut writer = Writer::of(args, out)?;
    if let Some(path) = &args.pid_file {
        note_process(path, std::process::id())?;
    }
    if let Some(path) = &args.from {
        return saved(path, &mut writer);
    }
    if args.summaries {
        return summaries(args, &mut writer);
    }
    follow(args, &mut writer)
}

fn note_process(path: &Path, number: u32) -> anyhow::Result<()> {
    let written = std::fs::write(path, format!("{number}\n"));
    written.or_exit(Exit::Usage, format!("can't write {}", path.display()))
}

/// The words of the same monitor, in the foreground.
fn again(args: &Args) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["ipmon".into()];
    for (wanted, word) in [
        (args.all, "-a"),
        (args.body, "-b"),
        (args.flush || args.tail, "-F"),
        (args.names, "-n"),
        (args.syslog, "-s"),
        (args.verbose, "-v"),
        (args.hex, "-x"),
    ] {
        words.extend(wanted.then(|| word.into()));
    }
    let text = |value: &Option<String>| value.as_ref().map(OsString::from);
    let number = |value: Option<u64>| value.map(|value| OsString::from(value.to_string()));
    for (word, value) in [
        ("-B", args.save.clone().map(PathBuf::into_os_string)),
        ("-L", text(&args.facility)),
        ("-o", text(&args.only)),
        ("-O", text(&args.but)),
        ("--netns", text(&args.netns)),
        ("--count", number(args.count)),
        ("--seconds", number(args.seconds)),
    ] {
        words.extend(value.into_iter().flat_map(|value| [word.into(), value]));
    }
    words.extend(args.log.clone().map(PathBuf::into_os_string));
    words
}

/// Starts itself again without -D, in a group of its own, and doesn't wait for it.
fn go_on_behind(args: &Args) -> anyhow::Result<Exit> {
    if !args.syslog && args.log.is_none() && args.save.is_none() {
        let message = "-D: nobody would see the lines; give -s, -B FILE or a log file";
        return Err(failure(Exit::Usage, message));
    }
    let own = std::env::current_exe().or_exit(Exit::Kernel, "-D: can't find the program")?;
    let child = std::process::Command::new(own)
        .args(again(args))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .or_exit(Exit::Kernel, "-D: can't start the monitor")?;
    match &args.pid_file {
        Some(path) => note_process(path, child.id()).map(|()| Exit::Done),
        None => Ok(Exit::Done),
    }
}

/// A saved record.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Kept {
    Packet(Saved),
    State(Line),
}

/// The summaries of limits that connections were above.
fn summaries(args: &Args, writer: &mut Writer<'_>) -> anyhow::Result<Exit> {
    let live = Live::open(args.netns.as_deref())?;
    if live.kernel.generation().is_none() {
        return Err(nothing_enforced());
    }
    let plane = &live.kernel.plane;
    for limit in plane.report_limits().map_err(plane_error)? {
        let age = plane.age(limit.first_ms).map_err(plane_error)?;
        let now_ms = wall_clock();
        let first_ms = now_ms.saturating_sub(age.as_millis() as u64);
        writer.state(&Line {
            time_ms: now_ms,
            state: state_records::summary(&limit, &live, first_ms),
        })?;
    }
    writer.out.flush()?;
    Ok(Exit::Done)
}

/// Records of a file.
fn saved(path: &Path, writer: &mut Writer<'_>) -> anyhow::Result<Exit> {
    let cannot = || format!("can't read {}", path.display());
    let file = File::open(path).or_exit(Exit::Usage, cannot())?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.or_exit(Exit::Usage, cannot())?;
        let record: Kept = serde_json::from_str(&line).or_exit(
            Exit::Usage,
            format!("{}:{}: not a saved record", path.display(), number + 1),
        )?;
        let last = match record {
            Kept::Packet(record) => writer.write(&record)?,
            Kept::State(line) => writer.state(&line)?,
        };
        if last {
            break;
        }
    }
    writer.out.flush()?;
    Ok(Exit::Done)
}

/// Records of the kernel, as they come.
fn follow(args: &Args, writer: &mut Writer<'_>) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let is_over = || {
        let limit = args.seconds.map(Duration::from_secs);
        limit.is_some_and(|limit| started.elapsed() >= limit)
    };
    let mut live = Live::open(args.netns.as_deref())?;
    if live.kernel.generation().is_none() {
        return Err(nothing_enforced());
    }
    let Some(_reader) = live.kernel.store.lock_log()? else {
        let message = "another `weir log` or `weir ipmon` reads the records of this namespace";
        return Err(failure(Exit::Kernel, message));
    };
    let mut flush = args.flush || args.tail;
    while let Some(generation) = live.kernel.generation() {
        let policy = policy_of(&live.kernel)?;
        let mut reader = live.kernel.plane.events().map_err(plane_error)?;
        let mut states = match writer.states || writer.packets {
            true => live.kernel.plane.state_records().map_err(plane_error)?,
            false => None,
        };
        if std::mem::take(&mut flush) {
            reader.discard();
        }
        loop {
            let mut events = Vec::new();
            let keep = |event| {
                events.push(event);
                true
            };
            reader.read(TICK, keep).map_err(plane_error)?;
            for event in events.iter().filter(|event| event.policy == generation) {
                let record = Saved::of(event, &live, &policy, wall_clock());
                if writer.write(&record)? {
                    return Ok(Exit::Done);
                }
            }
            if let Some(reader) = &mut states {
                for line in lines(&live, reader, generation)? {
                    if writer.state(&line)? {
                        return Ok(Exit::Done);
                    }
                }
            }
            writer.out.flush()?;
            if is_over() {
                return Ok(Exit::Done);
            }
            let outdated = live.kernel.plane.is_outdated().map_err(plane_error)?;
            if outdated || live.kernel.generation() != Some(generation) {
                break;
            }
        }
        drop(states);
        live = Live::open(None)?;
    }
    Ok(Exit::Done)
}

/// The records about states that are there.
fn lines(
    live: &Live,
    reader: &mut weir_plane::records::Reader<'_>,
    generation: u32,
) -> anyhow::Result<Vec<Line>> {
    let plane = &live.kernel.plane;
    // Asking for the time takes states out that are over, which is recorded.
    plane.age(0).map_err(plane_error)?;
    let mut records = Vec::new();
    reader.read(|record| {
        records.push(record);
        true
    });
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let names = plane.interfaces().map_err(plane_error)?;
    let now_ms = wall_clock();
    let wall = |time_ms| -> anyhow::Result<u64> {
        let age = plane.age(time_ms).map_err(plane_error)?;
        Ok(now_ms.saturating_sub(age.as_millis() as u64))
    };
    let mut out = Vec::new();
    for record in &records {
        let first_ms = wall(record.first_ms)?;
        if let Some(state) = state_records::line(record, live, generation, first_ms, &names) {
            let time_ms = wall(record.time_ms)?;
            out.push(Line { time_ms, state });
        }
    }
    Ok(out)
}

fn policy_of(kernel: &Kernel) -> anyhow::Result<Policy> {
    let saved = kernel.active_texts()?.ok_or_else(nothing_enforced)?;
    Ok(input::load_saved(&saved)?.policy()?.clone())
}

fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// Where lines go.
struct Writer<'a> {
    args: &'a Args,
    out: &'a mut Output,
    syslog: Option<UnixDatagram>,
    log: Option<File>,
    save: Option<File>,
    names: Names,
    facility: u8,
    written: u64,
    packets: bool,
    states: bool,
}

impl<'a> Writer<'a> {
    fn of(args: &'a Args, out: &'a mut Output) -> anyhow::Result<Self> {
        let append = |path: &PathBuf| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.or_exit(Exit::Usage, format!("can't write {}", path.display()))
        };
        let syslog = match args.syslog {
            true => {
                let socket = UnixDatagram::unbound();
                let connected = socket.and_then(|s| s.connect(SYSLOG).map(|()| s));
                let message = format!("can't reach syslog at {SYSLOG}");
                Some(connected.or_exit(Exit::Kernel, message)?)
            }
            false => None,
        };
        let wants = |letter: char| {
            let has = |kinds: &String| kinds.contains(letter);
            // As the original: packets, unless more is asked for.
            let usual = letter == 'I' || args.but.is_some();
            let wanted = args.all || args.only.as_ref().map_or(usual, has);
            wanted && !args.but.as_ref().is_some_and(has)
        };
        Ok(Writer {
            syslog,
            log: args.log.as_ref().map(append).transpose()?,
            save: args.save.as_ref().map(append).transpose()?,
            names: Names::of(args.names),
            facility: facility(args.facility.as_deref())?,
            written: 0,
            packets: wants('I'),
            states: wants('S'),
            args,
            out,
        })
    }

    /// Writes a record; whether it was the last one that was asked for.
    fn write(&mut self, saved: &Saved) -> anyhow::Result<bool> {
        if !self.packets {
            return Ok(false);
        }
        if let Some(file) = &mut self.save {
            let line = serde_json::to_string(saved)? + "\n";
            let written = file.write_all(line.as_bytes());
            written.or_exit(Exit::Usage, "can't save a record")?;
        }
        let record = saved.record();
        let style = Style {
            syslog: self.args.syslog,
            verbose: self.args.verbose,
        };
        let mut text = self.names.put(record.line(style), &record);
        let bytes = saved.packet();
        if self.args.hex {
            text += &dump(&bytes);
        } else if self.args.body && saved.body {
            let headers = record.packet.length - record.packet.data.min(record.packet.length);
            text += &dump(bytes.get(headers as usize..).unwrap_or_default());
        }
        let facility = record.level.map_or(self.facility, |level| level.0);
        self.line(&text, facility * 8 + record.priority())?;
        self.is_last()
    }

    /// Counts a record; whether it was the last one that was asked for.
    fn is_last(&mut self) -> anyhow::Result<bool> {
        self.written += 1;
        Ok(self.args.count.is_some_and(|count| self.written >= count))
    }

    /// Writes a record about a state or a limit; whether it was the last one that was asked for.
    fn state(&mut self, line: &Line) -> anyhow::Result<bool> {
        // What HP-UX says of limits stands among the records of packets.
        let of_state = line.state.starts_with("STATE:");
        if !self.states && (of_state || !self.packets) {
            return Ok(false);
        }
        if let Some(file) = &mut self.save {
            let line = serde_json::to_string(line)? + "\n";
            let written = file.write_all(line.as_bytes());
            written.or_exit(Exit::Usage, "can't save a record")?;
        }
        let text = match self.args.syslog {
            true => line.state.clone(),
            false => format!("{} {}", date(line.time_ms), line.state),
        };
        self.line(&text, self.facility * 8 + NOTICE)?;
        self.is_last()
    }

    fn line(&mut self, text: &str, priority: u8) -> anyhow::Result<()> {
        if let Some(socket) = &self.syslog {
            let message = format!("<{priority}>ipmon[{}]: {text}", std::process::id());
            let sent = socket.send(message.as_bytes());
            return sent.map(drop).or_exit(Exit::Kernel, "can't send to syslog");
        }
        if let Some(file) = &mut self.log {
            let written = file.write_all(format!("{text}\n").as_bytes());
            return written.or_exit(Exit::Usage, "can't write the log");
        }
        self.out.line(text)
    }
}

/// The number of a facility, by its name.
fn facility(name: Option<&str>) -> anyhow::Result<u8> {
    let Some(name) = name else { return Ok(LOCAL0) };
    let known = words::position(&words::FACILITIES, name);
    known.ok_or_else(|| failure(Exit::Usage, format!("-L {name}: no such facility")))
}

/// Sixteen bytes a line, with what of them can be printed.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in bytes.chunks(16) {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = line.iter().map(|byte| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        });
        let shown: String = shown.collect();
        out += &format!("\n{:<47}        {shown}", digits.join(" "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let mut bytes = vec![
            0x45, 0, 0, 40, 0, 7, 0, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        bytes.extend([
            4, 0, 0, 80, 0, 0, 0, 9, 0, 0, 0, 8, 0x50, 2, 16, 0, 0, 0, 0, 0,
        ]);
        Saved {
            time_ms: 951_782_400_123,
            interface: "e0".to_owned(),
            out: false,
            group: Some("10".to_owned()),
            rule: Some(2),
            act: 'b',
            keep_state: false,
            keep_frags: false,
            body: false,
            tag: None,
            level: Some((16, 4)),
            link: '-',
            bytes: bytes.iter().map(|b| format!("{b:02x}")).collect(),
            wrong_sum: false,
            attributes: None,
            reason: None,
        }
    }

    #[test]
    fn a_saved_record_is_the_line_of_the_original() {
        let line = serde_json::to_string(&saved()).unwrap();
        let again: Saved = serde_json::from_str(&line).unwrap();
        let record = again.record();
        let style = Style {
            verbose: true,
            ..Style::default()
        };
        assert_eq!(
            record.line(style),
            "29/02/2000 00:00:00.123000 e0 @10:3 b 10.0.0.1,1024 -> 10.0.0.2,80 PR tcp len 20 40 \
             -S 9 8 4096 IN"
        );
        assert_eq!(record.priority(), 4);
    }

    #[test]
    fn bytes_are_printed_sixteen_a_line() {
        let text = dump(b"0123456789abcdef\x01~");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines[0],
            "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66        0123456789abcdef"
        );
        assert_eq!(lines[1].trim_end(), format!("{:<47}        .~", "01 7e"));
    }
}
