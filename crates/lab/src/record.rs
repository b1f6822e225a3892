//! Records: the samples of a run as a dated CSV file, and tables for people.
//!
//! In: rows of samples. Out: `DATE-TIME-NAME.csv` with the machine in comment lines on top and one
//! row per sample below, so that every printed figure can be recomputed; text tables.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::machine::{Machine, date_and_time};

/// One measured value.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Rule-set family or test.
    pub shape: String,
    /// 4 or 6.
    pub family: char,
    /// Number of rules.
    pub rules: usize,
    /// The contender.
    pub contender: String,
    /// The round; samples of the same round were taken side by side.
    pub round: usize,
    /// What was measured, with its unit: `ns_per_packet`, `load_seconds` ...
    pub metric: &'static str,
    /// The value.
    pub value: f64,
}

/// The text of a record.
pub fn csv(name: &str, arguments: &str, machine: &Machine, samples: &[Sample]) -> String {
    let (date, time) = date_and_time();
    let mut out = format!(
        "# weir-lab {name}, {date} {time} UTC\n# arguments: {arguments}\n# processor: {}\n\
         # processors: {}; hypervisor: {}; memory: {} MiB\n# kernel: {}; BPF JIT: {}\n\
         # spectre_v2: {}\n# load average: {}\n\
         shape,family,rules,contender,round,metric,value\n",
        machine.processor,
        machine.processors,
        machine.hypervisor,
        machine.memory_mebibytes,
        machine.kernel,
        machine.bpf_jit,
        machine.spectre_v2,
        machine.load
    );
    for sample in samples {
        let Sample {
            shape,
            family,
            rules,
            contender,
            round,
            metric,
            value,
        } = sample;
        let _ = writeln!(
            out,
            "{shape},{family},{rules},{contender},{round},{metric},{value:.4}"
        );
    }
    out
}

/// Writes a record into a folder and returns where.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (date, time) = date_and_time();
    let path = folder.join(format!("{date}-{time}-{name}.csv"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// A table with the first column to the left and all others to the right.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[String]) -> Table {
        Table {
            rows: vec![headings.to_vec()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                if column == 0 {
                    let _ = write!(line, "{cell:<width$}");
                } else {
                    let _ = write!(line, "  {cell:>width$}");
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let mut table = Table::new(&["rules".to_owned(), "ns".to_owned()]);
        table.row(vec!["25".to_owned(), "45.0".to_owned()]);
        table.row(vec!["25,600".to_owned(), "9.5".to_owned()]);
        assert_eq!(table.text(), "rules     ns\n25      45.0\n25,600   9.5\n");
    }

    #[test]
    fn a_record_holds_machine_and_samples() {
        let sample = Sample {
            shape: "exp".to_owned(),
            family: '4',
            rules: 25,
            contender: "weir".to_owned(),
            round: 0,
            metric: "ns_per_packet",
            value: 712.5,
        };
        let text = csv("flat", "--quick", &Machine::describe(), &[sample]);
        assert!(text.starts_with("# weir-lab flat, 20"));
        assert!(text.contains("\n# kernel: "));
        assert!(text.ends_with("\nexp,4,25,weir,0,ns_per_packet,712.5000\n"));
    }
}
