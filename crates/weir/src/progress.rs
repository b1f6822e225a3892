//! Progress of long work, on standard error, only when that is a terminal.
//!
//! In: names of stages and counts. Out: one line that rewrites itself and is gone at the end.
//! Nothing appears in the first 300 ms, so short work stays silent.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_millis(300);
const BETWEEN: Duration = Duration::from_millis(100);

/// A line about what is going on; removed when dropped.
pub struct Progress {
    visible: bool,
    shown: bool,
    started: Instant,
    last: Instant,
}

impl Progress {
    /// Starts the clock.
    pub fn new() -> Self {
        let now = Instant::now();
        Progress {
            visible: std::io::stderr().is_terminal(),
            shown: false,
            started: now,
            last: now,
        }
    }

    /// A new stage of the work; always shown once the quiet time is over.
    pub fn stage(&mut self, text: &str) {
        if self.visible && self.started.elapsed() >= QUIET {
            self.show(text);
        }
    }

    /// A count within a stage; shown at most ten times a second.
    pub fn count(&mut self, text: impl FnOnce() -> String) {
        if self.visible && self.started.elapsed() >= QUIET && self.last.elapsed() >= BETWEEN {
            self.show(&text());
        }
    }

    fn show(&mut self, text: &str) {
        self.last = Instant::now();
        self.shown = true;
        // The line is a courtesy: when it can't be written, the work goes on.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text} ...");
        let _ = std::io::stderr().flush();
    }
}

impl Progress {
    /// Takes the line away, so that something else can be written.
    pub fn clear(&mut self) {
        if std::mem::replace(&mut self.shown, false) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
