//! `weir explain FILES... PACKET|PCAP`: what happens to a packet, rule by rule.
//!
//! In: rule files, then a packet in words or a capture. Out: every rule tried, why it matched or
//! not, the verdict and the marks, from the evaluator that defines the meaning. No privilege.

use super::capturing::{CaptureArgs, packet_of};
use crate::capture::{Capture, is_capture};
use crate::exit::{Exit, failure};
use crate::explain::{Explanation, Shown, explain, print};
use crate::input::{self, Loaded, ReadingArgs};
use crate::output::{Output, report};
use crate::rules::Places;
use crate::spec::{self, GRAMMAR, Spec};
use std::path::{Path, PathBuf};
use weir_policy::eval::Evaluator;

/// Options of `weir explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = GRAMMAR)]
pub struct Args {
    /// Rule files, and last the packet in words or a pcap or pcapng file.
    #[arg(required = true, num_args = 2.., value_name = "FILES... PACKET|PCAP")]
    words: Vec<String>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    capturing: CaptureArgs,
    #[command(flatten)]
    facts: crate::ipfw::FactArgs,
    /// Show only rules that matched.
    #[arg(long)]
    matched: bool,
    /// Exit with status 1 unless every packet is accepted.
    #[arg(long)]
    exit_verdict: bool,
    /// Print JSON: one object, or one per packet of a capture.
    #[arg(long)]
    pub json: bool,
}

/// Explains.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let (subject, files) = subject(&args.words)?;
    if crate::ipf::is_meant(&files, &args.reading)? {
        return ipf(args, &subject, &files, out);
    }
    if crate::ipfw::is_meant(&files, &args.reading)? {
        return ipfw(args, &subject, &files, out);
    }
    let loaded = input::load_files(&files, &args.reading)?;
    let policy = loaded.policy()?;
    let places = Places::of(policy);
    let mut run = Run {
        args,
        loaded: &loaded,
        places: &places,
        refused: false,
    };
    let start = match &subject {
        Subject::Packet(_) => 0,
        Subject::Capture(path) => first_time(path)?,
    };
    let mut evaluator = Evaluator::new(policy, start);
    evaluator.locals = args.capturing.locals()?;
    match subject {
        Subject::Packet(spec) => run.one(&mut evaluator, &spec, None, 0, out)?,
        Subject::Capture(path) => run.capture(&mut evaluator, &path, out)?,
    }
    match args.exit_verdict && run.refused {
        true => Ok(Exit::Negative),
        false => Ok(Exit::Done),
    }
}

fn ipf(
    args: &Args,
    subject: &Subject,
    files: &[PathBuf],
    out: &mut Output,
) -> anyhow::Result<Exit> {
    use crate::ipf::judge;
    let wanted = judge::Wanted {
        files,
        reading: &args.reading,
        subject: match subject {
            Subject::Packet(spec) => judge::Subject::Packet(spec),
            Subject::Capture(path) => judge::Subject::Capture(path),
        },
        given: args.capturing.given()?,
        explain: true,
        quiet: false,
        exit_verdict: args.exit_verdict,
    };
    judge::run(&wanted, out)
}

fn ipfw(
    args: &Args,
    subject: &Subject,
    files: &[PathBuf],
    out: &mut Output,
) -> anyhow::Result<Exit> {
    use crate::ipfw::explain as language;
    let wanted = language::Wanted {
        files,
        subject: match subject {
            Subject::Packet(spec) => language::Subject::Packet(spec),
            Subject::Capture(path) => language::Subject::Capture(path),
        },
        given: args.capturing.given()?,
        local: &args.capturing.local,
        facts: &args.facts,
        reading: &args.reading,
        matched: args.matched,
        exit_verdict: args.exit_verdict,
    };
    language::run(&wanted, out)
}

enum Subject {
    Packet(Box<Spec>),
    Capture(PathBuf),
}

/// The files and what is to be explained. Words that begin a packet and are no files are joined, so
/// that quoting the packet is not needed.
fn subject(words: &[String]) -> anyhow::Result<(Subject, Vec<PathBuf>)> {
    let is_file = |word: &String| word == "-" || Path::new(word).exists();
    let files = words.iter().take_while(|word| is_file(word)).count();
    let paths = |count: usize| words[..count].iter().map(PathBuf::from).collect();
    if files == words.len() {
        let last = PathBuf::from(&words[files - 1]);
        if is_capture(&last) {
            return Ok((Subject::Capture(last), paths(files - 1)));
        }
        let message = format!("the last argument is the packet or a capture\n{GRAMMAR}");
        return Err(failure(Exit::Usage, message));
    }
    if files == 0 {
        let message = format!("can't read {}: no such file", words[0]);
        return Err(failure(Exit::Usage, message));
    }
    let text = words[files..].join(" ");
    match spec::parse(&text) {
        Ok(spec) => Ok((Subject::Packet(Box::new(spec)), paths(files))),
        Err(error) => Err(failure(Exit::Usage, error.to_string())),
    }
}

/// The time of a capture's first frame.
fn first_time(path: &Path) -> anyhow::Result<u64> {
    match Capture::open(path)?.next() {
        Some(frame) => Ok(frame?.time.as_millis() as u64),
        None => Ok(0),
    }
}

struct Run<'a> {
    args: &'a Args,
    loaded: &'a Loaded,
    places: &'a Places<'a>,
    refused: bool,
}

impl Run<'_> {
    fn one(
        &mut self,
        evaluator: &mut Evaluator<'_>,
        spec: &Spec,
        number: Option<u64>,
        now_ms: u64,
        out: &mut Output,
    ) -> anyhow::Result<()> {
        let mut explanation = explain(evaluator, spec, self.places, self.loaded, now_ms);
        explanation.number = number;
        self.refused |= explanation.verdict != "accept";
        self.show(&explanation, out)
    }

    fn show(&self, explanation: &Explanation, out: &mut Output) -> anyhow::Result<()> {
        if out.is_json() {
            return match explanation.number {
                None => out.object(&report(explanation)),
                Some(_) => out.record(&report(explanation)),
            };
        }
        let shown = if self.args.matched {
            Shown::Matched
        } else {
            Shown::All
        };
        print(out, explanation, shown)
    }

    fn capture(
        &mut self,
        evaluator: &mut Evaluator<'_>,
        path: &Path,
        out: &mut Output,
    ) -> anyhow::Result<()> {
        let given = self.args.capturing.given()?;
        let mut capture = Capture::open(path)?;
        while let Some(frame) = capture.next() {
            let frame = frame?;
            match packet_of(&frame, &given, evaluator.policy().reading) {
                Ok(packet) => {
                    let spec = Spec {
                        hook: Some(packet.hook),
                        packet,
                        state: None,
                        connmark: None,
                    };
                    let now_ms = frame.time.as_millis() as u64;
                    self.one(evaluator, &spec, Some(frame.number), now_ms, out)?;
                }
                Err(reason) if !out.is_json() => {
                    out.line(format!("packet #{}: not judged: {reason}", frame.number))?;
                }
                Err(_) => {}
            }
            if !out.is_json() {
                out.line("")?;
            }
        }
        Ok(())
    }
}
