//! The one writer that every command prints through: text or JSON, with colours or without.
//!
//! In: lines, tables or serialisable values. Out: standard output. Colours only on a terminal and
//! only without `NO_COLOR` (no-color.org). Errors of writing go up; `main` treats a broken pipe as
//! success. Diagnostics and progress do not come here: they belong to standard error.

mod json;
mod text;

pub use json::report;
pub use text::{Align, Paint, Table, bytes, count, number, utc, utc_in_words};

use crate::exit::OutputFailed;
use std::io::{IsTerminal, Write};

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object, or one per line for streams.
    Json,
}

/// The answer of a command that failed.
#[derive(serde::Serialize)]
struct Failed {
    error: String,
    exit: u8,
}

/// Where a command's answer goes.
pub struct Output {
    writer: Box<dyn Write>,
    format: Format,
    colour: bool,
}

impl Output {
    /// Standard output.
    pub fn stdout(format: Format) -> Self {
        let stdout = std::io::stdout();
        let colour = format == Format::Text && stdout.is_terminal() && colours_wanted();
        Output {
            writer: Box::new(std::io::BufWriter::with_capacity(1 << 16, stdout)),
            format,
            colour,
        }
    }

    /// Whether JSON was asked for.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Writes one line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> anyhow::Result<()> {
        self.raw(text.as_ref().as_bytes())?;
        self.raw(b"\n")
    }

    /// Writes text as it is.
    pub fn raw(&mut self, text: &[u8]) -> anyhow::Result<()> {
        Ok(self.writer.write_all(text).map_err(OutputFailed)?)
    }

    /// Writes a table.
    pub fn table(&mut self, table: &Table) -> anyhow::Result<()> {
        for line in table.lines() {
            self.line(line)?;
        }
        Ok(())
    }

    /// Writes one value as one JSON document over several lines.
    pub fn object(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let written = serde_json::to_writer_pretty(&mut self.writer, value);
        written.map_err(|error| OutputFailed(error.into()))?;
        self.raw(b"\n")
    }

    /// Writes one value as one line of JSON, for streams.
    pub fn record(&mut self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let written = serde_json::to_writer(&mut self.writer, value);
        written.map_err(|error| OutputFailed(error.into()))?;
        self.raw(b"\n")
    }

    /// Hands everything to the reader now; streams call it after each piece.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.writer.flush().map_err(OutputFailed)?)
    }

    /// The last words of a command that failed: as JSON the error, so that a program that reads our
    /// answer finds one.
    pub fn failed(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        if self.is_json() {
            self.record(&report(Failed {
                error: format!("{error:#}"),
                exit: crate::exit::code(error) as u8,
            }))?;
        }
        self.flush()
    }

    /// Text in a colour, where colours are on.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        text::paint(self.colour, paint, text)
    }
}

/// Whether standard error may have colours.
pub fn stderr_colours() -> bool {
    std::io::stderr().is_terminal() && colours_wanted()
}

fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
