//! Text for people: colours, numbers with separators, aligned tables.
//!
//! In: cells. Out: lines without trailing blanks. Widths are counted in characters; nothing is cut.

use std::time::{SystemTime, UNIX_EPOCH};

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Let through.
    Good,
    /// Dropped, or an error.
    Bad,
    /// Worth a look.
    Warn,
    /// Less important.
    Faint,
    /// Headings.
    Strong,
}

/// Wraps text in the sequence of a colour, when `on`.
pub fn paint(on: bool, paint: Paint, text: &str) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "31",
        Paint::Warn => "33",
        Paint::Faint => "2",
        Paint::Strong => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// A number with commas between thousands.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An amount of memory with a binary unit and one decimal.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// A number of things, with the word for one or for many.
pub fn count(value: u64, one: &str, many: &str) -> String {
    match value {
        1 => format!("1 {one}"),
        value => format!("{} {many}", number(value)),
    }
}

/// A time as RFC 3339 in UTC with microseconds. Days to dates by the calendar's 400-year period.
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years begin in March here, so that the odd day is the last one of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{:06}Z",
        era * 400 + year + next,
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_micros()
    )
}

/// A time to the second, as people read it.
pub fn utc_in_words(time: SystemTime) -> String {
    let exact = utc(time);
    format!("{} {} UTC", &exact[..10], &exact[11..19])
}

/// Which side of a column is flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column: its heading and its alignment.
pub type Column = (&'static str, Align);

/// Rows of cells under headings.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Self {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it has one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell a column");
        self.rows.push(cells);
    }

    /// The lines, heading first.
    pub fn lines(&self) -> Vec<String> {
        let heading: Vec<String> = self.columns.iter().map(|c| c.0.to_owned()).collect();
        let all = || std::iter::once(&heading).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| all().map(|row| row[i].chars().count()).max().unwrap_or(0))
            .collect();
        all().map(|row| self.join(row, &widths)).collect()
    }

    fn join(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            let blanks = " ".repeat(widths[i] - cell.chars().count());
            match self.columns[i].1 {
                Align::Left => line.extend([cell.as_str(), &blanks]),
                Align::Right => line.extend([blanks.as_str(), cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_memory_has_units() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_000), "1,000");
        assert_eq!(number(25_600_000), "25,600,000");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    #[test]
    fn times_are_dates_in_utc() {
        let at = |seconds: u64| {
            utc(UNIX_EPOCH + std::time::Duration::from_micros(seconds * 1_000_000 + 7))
        };
        assert_eq!(at(0), "1970-01-01T00:00:00.000007Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000007Z");
        assert_eq!(at(1_795_176_000), "2026-11-20T12:00:00.000007Z");
        assert_eq!(utc_in_words(UNIX_EPOCH), "1970-01-01 00:00:00 UTC");
        assert_eq!(count(1, "rule", "rules"), "1 rule");
        assert_eq!(count(2000, "rule", "rules"), "2,000 rules");
    }

    #[test]
    fn tables_align_and_leave_no_blanks_at_the_end() {
        let mut table = Table::new(&[("chain", Align::Left), ("packets", Align::Right)]);
        table.row(vec!["INPUT".into(), "7".into()]);
        table.row(vec!["a-long-chain".into(), "1,234,567".into()]);
        assert_eq!(
            table.lines(),
            [
                "chain           packets",
                "INPUT                 7",
                "a-long-chain  1,234,567"
            ]
        );
        assert_eq!(paint(false, Paint::Bad, "x"), "x");
        assert_eq!(paint(true, Paint::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
