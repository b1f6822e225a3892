//! Playing a script: one step after the other, with a record of what arrived where.
//!
//! In: steps and a wire. Out: one [`Record`] per step: what the sockets said and, as text, every
//! IP packet that arrived at the client and at the server. It judges nothing.

use std::time::Duration;

use anyhow::{Context, Result};

use super::describe::{self, Detail};
use super::script::{Action, Step};
use super::talk::Conversations;
use super::wire::Wire;
use crate::netns::Node;

/// What one step led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The step's line in the script.
    pub line: usize,
    /// The step itself.
    pub text: String,
    /// What the sockets said, or which sends were refused.
    pub outcome: String,
    /// Packets in order of arrival, the client's first.
    pub arrived: Vec<String>,
}

/// Plays `steps`. `expected` is an earlier run to wait for, frame count by frame count;
/// `after_step` is called with the step's index (to read counters while searching for a cause).
pub fn play(
    wire: &mut Wire,
    steps: &[Step],
    expected: Option<&[Record]>,
    mut after_step: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<Record>> {
    let mut conversations = Conversations::default();
    let mut records: Vec<Record> = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let earlier = expected.and_then(|records| records.get(index));
        wire.expect(earlier.map(|record| record.outcome.as_str()));
        let (outcome, detail) = act(wire, &mut conversations, &step.action)
            .with_context(|| format!("traffic line {}: {}", step.line, step.text))?;
        if let Some(earlier) = earlier {
            wire.wait_for_frames(earlier.arrived.len())?;
        }
        records.push(Record {
            line: step.line,
            text: step.text.clone(),
            outcome,
            arrived: take_arrived(wire, detail),
        });
        after_step(index)?;
    }
    wire.expect(None);
    conversations.end_all(wire)?;
    if let Some(last) = records.last_mut() {
        last.arrived.extend(take_arrived(wire, Detail::Sockets));
    }
    Ok(records)
}

fn act(
    wire: &mut Wire,
    conversations: &mut Conversations,
    action: &Action,
) -> Result<(String, Detail)> {
    Ok(match action {
        Action::Send(packet) => {
            let mut refusals = wire.send(packet)?;
            refusals.dedup();
            (refusals.join(", "), Detail::Crafted)
        }
        Action::Talk(talk) => (conversations.hold(wire, talk)?, Detail::Sockets),
        Action::More { name, exchanges } => {
            (conversations.more(wire, name, *exchanges)?, Detail::Sockets)
        }
        Action::End { name, reset } => (conversations.end(wire, name, *reset)?, Detail::Sockets),
        Action::Wait { milliseconds } => {
            std::thread::sleep(Duration::from_millis(*milliseconds));
            wire.settle()?;
            (String::new(), Detail::Sockets)
        }
    })
}

fn take_arrived(wire: &mut Wire, detail: Detail) -> Vec<String> {
    let arrivals = wire.take_arrivals();
    [Node::Client, Node::Server]
        .into_iter()
        .flat_map(|node| {
            arrivals
                .iter()
                .filter(move |arrival| arrival.node == node)
                .filter_map(|arrival| describe::frame(&arrival.bytes, detail))
                .map(move |text| format!("{} got {text}", node.name()))
        })
        .collect()
}
