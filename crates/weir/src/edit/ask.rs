//! Asking the agent of a namespace for a change.

use super::wire::{Answer, Request, SOCKET, Way};
use crate::exit::{Exit, OrExit, failure};
use crate::netns;
use crate::output::{Output, report};
use crate::state::Store;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// What came of asking.
pub enum Asked {
    /// The change was made.
    Done(Report),
    /// There is no such rule, chain or member: what the tool says.
    Fault(String),
    /// It can't be made there, and why: the caller puts changed texts in force.
    Elsewhere(String),
}

/// How a change was made, for scripts.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// How.
    pub way: Way,
    /// Why it took a new image.
    pub why: Option<String>,
    /// Until packets met it, in the process that made it.
    pub microseconds: f64,
}

impl Report {
    /// Of a change that was made by putting changed texts in force.
    pub fn of_texts(why: String, began: Instant) -> Self {
        Report {
            way: Way::Rebuilt,
            why: Some(why),
            microseconds: began.elapsed().as_nanos() as f64 / 1000.0,
        }
    }

    /// Prints it, where JSON was asked for; the tools say nothing.
    pub fn print(&self, out: &mut Output) -> anyhow::Result<Exit> {
        if out.is_json() {
            out.object(&report(self))?;
        }
        Ok(Exit::Done)
    }
}

/// A connection to the agent of a namespace.
pub struct Asking(BufReader<UnixStream>);

impl Asking {
    /// Begins. Afterwards this thread is in the namespace. `None`: nobody is there to be asked.
    pub fn begin(netns: Option<&str>) -> anyhow::Result<Option<Self>> {
        netns::enter(netns)?;
        netns::leave_private_mounts()?;
        let store = Store::of(netns::identity()?);
        let stream = UnixStream::connect(store.root().join(SOCKET)).ok();
        Ok(stream.map(|stream| Asking(BufReader::new(stream))))
    }

    /// Asks for a change.
    ///
    /// # Errors
    /// The agent ended before it answered: whether the change was made, its rules tell.
    pub fn ask(&mut self, request: &Request) -> anyhow::Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // A request that isn't whole is not carried out.
        let nobody = "the agent is ending; nothing was changed";
        let sent = self.0.get_mut().write_all(&line);
        sent.or_exit(Exit::Kernel, nobody)?;
        let mut answer = String::new();
        if !matches!(self.0.read_line(&mut answer), Ok(1..)) {
            let message =
                "the agent ended during the change: `weir show` tells whether it was made";
            return Err(failure(Exit::Kernel, message));
        }
        let other = "the agent's answer can't be read: it is of another version";
        serde_json::from_str(&answer).or_exit(Exit::Kernel, other)
    }
}

/// Asks for one change. Afterwards this thread is in the namespace.
pub fn ask(netns: Option<&str>, request: &Request) -> anyhow::Result<Asked> {
    let Some(mut asking) = Asking::begin(netns)? else {
        let why = "nobody is there who keeps the policy open";
        return Ok(Asked::Elsewhere(why.to_owned()));
    };
    Ok(match asking.ask(request)? {
        Answer::Done {
            way,
            why,
            microseconds,
        } => Asked::Done(Report {
            way,
            why,
            microseconds,
        }),
        Answer::Fault(words) => Asked::Fault(words),
        Answer::Unable(why) => Asked::Elsewhere(why),
    })
}
