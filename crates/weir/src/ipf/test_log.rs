//! What a test logs: `ipftest -l FILE`, for `ipmon -f FILE`.
//!
//! In: the evaluator behind each packet. Out: a file of saved records, packets first, then states
//! and limits, as the original writes one kind of record after the other.

use super::records::Saved;
use super::state_records::Line;
use crate::exit::{Exit, OrExit};
use std::io::Write;
use std::path::Path;
use weir_policy::dialect::ipf::load::{RuleSet, Unit};
use weir_policy::eval::ipf::Evaluator;
use weir_policy::eval::ipf::log::{Record, Style, state_line};
use weir_policy::eval::ipf::state::{Event, State};

/// The records of a test so far.
#[derive(Default)]
pub struct TestLog {
    packets: Vec<Saved>,
    states: Vec<Line>,
}

/// Whether the rule of a record logs the body of packets.
fn with_body(set: &RuleSet, record: &Record) -> bool {
    let list = match &record.group {
        Some(group) => set.group(Unit::Filter, &group.as_str().into()),
        None => Some(&set.filter[usize::from(record.packet.out)]),
    };
    let number = list.zip(record.rule).and_then(|(l, at)| l.get(at as usize));
    number.is_some_and(|&number| set.rules[number].log.is_some_and(|log| log.body))
}

impl TestLog {
    /// Takes what the evaluator noted about a packet: its bytes, and states that began with it.
    pub fn packet(&mut self, evaluator: &mut Evaluator<'_>, bytes: &[u8], now_ms: u64) {
        for record in std::mem::take(&mut evaluator.log) {
            let body = with_body(evaluator.rules, &record);
            self.packets.push(Saved::of_test(&record, bytes, body));
        }
        for event in &evaluator.states.events {
            let (state, what) = match event {
                Event::New(state) => (state, "NEW"),
                Event::Expire(state) => (state, "EXPIRE"),
            };
            self.state(evaluator, state, what, now_ms);
        }
        self.limits(evaluator, now_ms);
    }

    /// Takes what became of states that are closing, which the test program forgets.
    pub fn flushed(&mut self, evaluator: &mut Evaluator<'_>, now_ms: u64) {
        evaluator.states.events.clear();
        evaluator.states.flush_closing();
        for event in &evaluator.states.events {
            if let Event::Expire(state) = event {
                self.state(evaluator, state, "FLUSH", now_ms);
            }
        }
        evaluator.flush_closing(now_ms);
        self.limits(evaluator, now_ms);
    }

    fn state(&mut self, evaluator: &Evaluator<'_>, state: &State, what: &str, now_ms: u64) {
        let keep = evaluator.rules.rules[state.rule].keep_state.as_ref();
        // A rule that limits connections has records of its limits.
        if keep.is_none_or(|keep| keep.nolog) {
            return;
        }
        let undated = Style {
            syslog: true,
            ..Style::default()
        };
        self.states.push(Line {
            time_ms: now_ms,
            state: state_line(state, what, now_ms, undated),
        });
    }

    fn limits(&mut self, evaluator: &mut Evaluator<'_>, now_ms: u64) {
        for record in std::mem::take(&mut evaluator.limits.records) {
            // Date and time stand in front of it.
            let undated = record.splitn(3, ' ').nth(2).unwrap_or_default();
            self.states.push(Line {
                time_ms: now_ms,
                state: undated.to_owned(),
            });
        }
    }

    /// Writes them to a file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        for record in &self.packets {
            text += &serde_json::to_string(record)?;
            text.push('\n');
        }
        for line in &self.states {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        let written = std::fs::File::create(path).and_then(|mut f| f.write_all(text.as_bytes()));
        written.or_exit(Exit::Usage, format!("can't write {}", path.display()))
    }
}
