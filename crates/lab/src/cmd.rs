//! The commands of `weir-lab`, one file each, and the options that they share.

pub mod beside;
pub mod classify;
pub mod crr;
pub mod established;
pub mod flat;
pub mod image;
pub mod load;
pub mod peers;
pub mod plot;
pub mod push;
pub mod rules;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::contender::Loader;
use crate::machine::Machine;
use crate::measure::Limits;
use crate::record::{self, Sample};
use crate::space::Family;
use crate::{interrupt, netns};

/// Version of the JSON that commands print.
const SCHEMA: u32 = 1;
/// Where records go, seen from the root of the repository.
const RECORDS: &str = "crates/lab/record";

/// Options of every measuring command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The weir program [default: `weir` beside this program, when there is one]
    #[arg(long, value_name = "PATH")]
    pub weir: Option<PathBuf>,
    /// Rounds; every lane is measured once in each [default: 15, with --quick 3]
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Packets per lane and round, at most [default: 65536, with --quick 40000]
    #[arg(long)]
    pub packets: Option<u32>,
    /// Seed of rules and traces
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Fewer rounds and packets, less choice: under a minute
    #[arg(long)]
    pub quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a dated CSV record [default folder: crates/lab/record]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = RECORDS)]
    pub record: Option<PathBuf>,
}

impl Common {
    /// How much to measure.
    pub fn limits(&self) -> Limits {
        let usual = if self.quick {
            Limits::QUICK
        } else {
            Limits::STANDARD
        };
        Limits {
            rounds: self.rounds.unwrap_or(usual.rounds).max(1),
            packets: self.packets.unwrap_or(usual.packets).max(64),
            turn: if self.quick {
                Duration::from_millis(40)
            } else {
                usual.turn
            },
        }
    }

    /// A loader that knows where weir is.
    pub fn loader(&self) -> Loader {
        let beside = std::env::current_exe()
            .ok()
            .map(|own| own.with_file_name("weir"));
        let weir = self.weir.clone().or(beside.filter(|path| path.exists()));
        Loader { weir, group: None }
    }

    /// Prepares a measuring command: signals, leftovers of killed runs.
    ///
    /// # Errors
    /// When that fails.
    pub fn begin(&self) -> Result<()> {
        interrupt::listen()?;
        let weir = self.loader().weir;
        netns::remove_stale(weir.as_deref()).context("cannot remove namespaces of an earlier run")
    }

    /// Prints the result and writes the record.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn finish<T: Serialize>(
        &self,
        name: &'static str,
        table: &str,
        result: &T,
        samples: &[Sample],
    ) -> Result<()> {
        let machine = Machine::describe();
        if self.json {
            let report = Report {
                schema: SCHEMA,
                command: name,
                machine: &machine,
                result,
            };
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            println!("{table}");
        }
        if let Some(folder) = &self.record {
            let arguments: Vec<_> = std::env::args().skip(1).collect();
            let text = record::csv(name, &arguments.join(" "), &machine, samples);
            let path = record::write(folder, name, &text)?;
            eprintln!("record: {}", path.display());
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Report<'a, T> {
    schema: u32,
    command: &'static str,
    machine: &'a Machine,
    result: &'a T,
}

/// Which address families a command measures.
pub fn families(v6: bool, v4: bool) -> Vec<Family> {
    match (v4, v6) {
        (_, false) => vec![Family::V4],
        (false, true) => vec![Family::V6],
        (true, true) => vec![Family::V4, Family::V6],
    }
}

/// A number with a comma between thousands.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds for a table: one decimal below 100.
pub fn nanoseconds(value: f64) -> String {
    if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
