//! One run: a fresh laboratory, the rules in one of the two engines, the script, the counters.
//!
//! In: a case and an engine. Out: a [`Run`]. State of earlier runs (connections, recent lists,
//! token buckets, sets) is gone because the namespaces are new.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::case::{Case, Family, RuleFile};
use super::counters::{self, Counters};
use super::tap::{Asked, Sighting, Tap};
use crate::netns::{Lab, Node};
use crate::traffic::play::{self, Record};
use crate::traffic::wire::Wire;

/// Which filter stands on the gateway.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The original.
    Iptables,
    /// The weir program at a path, and options of its `apply`.
    Weir(PathBuf, &'static [&'static str]),
}

impl Engine {
    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Iptables => "iptables",
            Engine::Weir(..) => "weir",
        }
    }
}

/// When counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Once, at the end.
    AtEnd,
    /// Also after every step, to find the one that moved a counter differently.
    AfterEveryStep,
}

/// What a run showed.
pub struct Run {
    /// One record per step.
    pub records: Vec<Record>,
    /// Counters after the last step.
    pub counters: Counters,
    /// Counters after each step, if asked for.
    pub after_steps: Vec<Counters>,
}

/// How long what a filter sends from user space may take to be counted, and how often to look.
const LATE_LIMIT: Duration = Duration::from_secs(2);
const LATE_STEP: Duration = Duration::from_millis(20);

/// Runs a case through an engine. `expected` is a run of the other engine to be patient for: an
/// answer that is counted and dropped by the filter's own rules arrives nowhere, so nothing else
/// tells when it was sent.
pub fn run(case: &Case, engine: &Engine, expected: Option<&Run>, reading: Reading) -> Result<Run> {
    let filter = match engine {
        Engine::Iptables => None,
        Engine::Weir(program, _) => Some(program.as_path()),
    };
    let lab = Lab::create_with(filter).context("build the laboratory")?;
    let mut wire = Wire::open(&lab)?;
    load(&lab, case, engine)
        .with_context(|| format!("load {} into {}", case.name, engine.name()))?;
    // From here on the policy must go before the namespace does.
    let _unload = Unload { lab: &lab, engine };
    let read = || read_counters(&lab, case, engine);
    let (mut after_steps, mut patience) = (Vec::new(), LATE_LIMIT);
    let records = expected.map(|run| run.records.as_slice());
    let records = play::play(&mut wire, &case.steps, records, |step| {
        if reading == Reading::AfterEveryStep {
            let expected = expected.and_then(|run| run.after_steps.get(step));
            after_steps.push(read_late(read, expected, &mut patience)?);
        }
        Ok(())
    })?;
    let counters = read_late(read, expected.map(|run| &run.counters), &mut patience)?;
    Ok(Run {
        records,
        counters,
        after_steps,
    })
}

/// What the kernel showed under iptables: the run, and every packet at every hook with the step
/// it belongs to and the time since the rules were loaded.
pub struct Observed {
    /// Packets and counters, as from [`run`].
    pub run: Run,
    /// When the rules were loaded, in milliseconds since 1970.
    pub start_ms: u64,
    /// Step index, milliseconds, packet.
    pub sightings: Vec<(usize, u64, Sighting)>,
}

/// Runs a case through iptables with a tap on every hook.
pub fn observe(case: &Case, asked: Asked) -> Result<Observed> {
    let lab = Lab::create().context("build the laboratory")?;
    let mut wire = Wire::open(&lab)?;
    load(&lab, case, &Engine::Iptables)?;
    let mut tap = Tap::open(&lab, asked)?;
    let start_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let (start, mut sightings, mut after_steps) = (Instant::now(), Vec::new(), Vec::new());
    let stamped = |step, seen: Sighting| {
        let since = seen.at.saturating_duration_since(start);
        (step, since.as_millis() as u64, seen)
    };
    let records = play::play(&mut wire, &case.steps, None, |step| {
        sightings.extend(tap.take()?.into_iter().map(|seen| stamped(step, seen)));
        after_steps.push(read_counters(&lab, case, &Engine::Iptables)?);
        Ok(())
    })?;
    let last = case.steps.len();
    sightings.extend(tap.take()?.into_iter().map(|seen| stamped(last, seen)));
    let counters = read_counters(&lab, case, &Engine::Iptables)?;
    Ok(Observed {
        run: Run {
            records,
            counters,
            after_steps,
        },
        start_ms,
        sightings,
    })
}

/// Takes weir's policy off the gateway when the run is over, however it ended.
struct Unload<'a> {
    lab: &'a Lab,
    engine: &'a Engine,
}

impl Drop for Unload<'_> {
    fn drop(&mut self) {
        if let Engine::Weir(program, _) = self.engine {
            let name = self.lab.name(Node::Gateway);
            let output = Command::new(program)
                .args(["unload", "--netns", name])
                .output();
            match output {
                Ok(output) if output.status.success() => {}
                Ok(output) => eprintln!("weir unload: {}", message(&output)),
                Err(error) => eprintln!("weir unload: {error}"),
            }
        }
    }
}

fn message(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}: {} {}", output.status, out.trim(), err.trim())
}

/// Fails with what the program printed if it failed.
fn must(what: &str, output: &Output) -> Result<()> {
    ensure!(output.status.success(), "{what}: {}", message(output));
    Ok(())
}

fn load(lab: &Lab, case: &Case, engine: &Engine) -> Result<()> {
    match engine {
        Engine::Iptables => load_iptables(lab, case),
        Engine::Weir(program, options) => load_weir(lab, case, program, options),
    }
}

fn load_iptables(lab: &Lab, case: &Case) -> Result<()> {
    if let Some((_, text)) = &case.sets {
        must(
            "ipset restore",
            &lab.run(Node::Gateway, "ipset", &["restore"], text)?,
        )?;
    }
    for file in case.rules.iter().filter(|file| !file.text.is_empty()) {
        let program = file.family.program("restore");
        // Other tests of this machine may hold the lock of the legacy tools.
        let output = lab.run(Node::Gateway, &program, &["--wait", "20"], &file.text)?;
        must(&program, &output)?;
    }
    Ok(())
}

fn load_weir(lab: &Lab, case: &Case, program: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["apply", "--netns", lab.name(Node::Gateway)]);
    if case.has_nat {
        command.arg("--nat=kernel");
    }
    command.args(options);
    command.args(case.rules.iter().map(|file| &file.path));
    command.args(case.sets.iter().map(|(path, _)| path));
    must("weir apply", &command.output().context("start weir")?)
}

/// Counters, read until they are as expected or it is too late to wait; then nothing is waited for
/// again.
fn read_late(
    read: impl Fn() -> Result<Counters>,
    expected: Option<&Counters>,
    patience: &mut Duration,
) -> Result<Counters> {
    let start = Instant::now();
    loop {
        let counters = read()?;
        match expected {
            Some(expected) if !counters::equal(expected, &counters) => {
                if start.elapsed() >= *patience {
                    *patience = Duration::ZERO;
                    return Ok(counters);
                }
                std::thread::sleep(LATE_STEP);
            }
            _ => return Ok(counters),
        }
    }
}

fn read_counters(lab: &Lab, case: &Case, engine: &Engine) -> Result<Counters> {
    let mut all = Counters::new();
    match engine {
        Engine::Iptables => {
            for family in [Family::V4, Family::V6] {
                let has_rules = |file: &RuleFile| file.family == family && !file.text.is_empty();
                if !case.rules.iter().any(has_rules) {
                    continue;
                }
                let program = family.program("save");
                let output = lab.run(Node::Gateway, &program, &["-c"], "")?;
                must(&program, &output)?;
                all.extend(counters::from_save(
                    &String::from_utf8(output.stdout)?,
                    family,
                )?);
            }
        }
        Engine::Weir(program, _) => {
            let name = lab.name(Node::Gateway);
            let output = Command::new(program)
                .args(["counters", "--netns", name, "--rules", "--json"])
                .output()
                .context("start weir")?;
            must("weir counters", &output)?;
            all = counters::from_json(&String::from_utf8(output.stdout)?)?;
        }
    }
    // Translation is the kernel's work under either engine; weir does not count it.
    all.retain(|key, _| key.table != "nat");
    Ok(all)
}

/// The weir program: `WEIR_BIN`, or beside this test's own target folder, the newer of both builds.
pub fn find_weir() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WEIR_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "WEIR_BIN: {} is no file", path.display());
        return Ok(path);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let built = |profile: &str| {
        let path = target.join(profile).join("weir");
        Some((path.metadata().ok()?.modified().ok()?, path))
    };
    let newest = ["debug", "release"].into_iter().filter_map(built).max();
    let (_, path) = newest.with_context(|| {
        format!(
            "no weir in {}/{{debug,release}}: cargo build -p weir",
            target.display()
        )
    })?;
    Ok(path)
}
