//! Packet captures: pcap and pcapng files to frames with what the file says about each.
//!
//! In: a file. Out: [`Frame`]s in file order, layer 3 bytes cut out of their link layer. Nothing is
//! judged here. Interface names and directions come from pcapng's own options (if_name, epb_flags;
//! draft-ietf-opsawg-pcapng sections 4.2 and 4.3); a packet comment `recv=NAME` names the interface
//! that an outbound packet was received on. Timestamps keep the resolution of the file.

mod journey;
mod link;
mod pcap;
mod pcapng;

pub use journey::{Given, journey};
pub use link::{Bare, LinkAddress, Network};

use crate::exit::{Exit, OrExit, failure};
use crate::input::once;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

/// Which way a frame went over its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// One captured frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Number in the file, from 1, as other tools count.
    pub number: u64,
    /// Time since the epoch.
    pub time: Duration,
    /// Name of the interface, when the file has it.
    pub interface: Option<String>,
    /// Direction, when the file has it.
    pub way: Option<Way>,
    /// Interface that an outbound packet came in on.
    pub received_on: Option<String>,
    /// The packet, or why there is none to judge.
    pub content: Result<Network, &'static str>,
    /// The header of a frame of Ethernet that holds no IP packet.
    pub bare: Option<Bare>,
}

impl Frame {
    /// What the link says, and how many bytes it carried.
    pub fn link(&self) -> Option<(&LinkAddress, u32)> {
        match (&self.content, &self.bare) {
            (Ok(network), _) => Some((&network.link, network.wire)),
            (Err(_), Some(bare)) => Some((&bare.link, bare.wire)),
            (Err(_), None) => None,
        }
    }
}

/// A capture being read.
pub struct Capture {
    name: String,
    reader: Reader,
}

enum Reader {
    Pcap(pcap::Frames<Source>),
    Pcapng(pcapng::Frames<Source>),
}

type Source = Box<dyn Read>;

impl Capture {
    /// Opens a file and tells its format by its first bytes; `-` is standard input. What was read
    /// already and can't be read again is taken from memory.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        if let Some(bytes) = once::kept(path) {
            return Self::of_bytes(&name, bytes);
        }
        let file: std::io::Result<Source> = match once::is_stdin(path) {
            true => Ok(Box::new(std::io::stdin())),
            false => File::open(path).map(|file| Box::new(file) as Source),
        };
        let mut file = file.or_exit(Exit::Usage, format!("can't read capture {name}"))?;
        let mut magic = Vec::with_capacity(4);
        file.by_ref()
            .take(4)
            .read_to_end(&mut magic)
            .or_exit(Exit::Usage, format!("can't read capture {name}"))?;
        let source = std::io::Cursor::new(magic.clone()).chain(BufReader::new(file));
        Self::read(name, &magic, Box::new(source))
    }

    /// A capture that is in memory already.
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> anyhow::Result<Self> {
        let magic: Vec<u8> = bytes.iter().take(4).copied().collect();
        Self::read(
            name.to_owned(),
            &magic,
            Box::new(std::io::Cursor::new(bytes)),
        )
    }

    fn read(name: String, magic: &[u8], source: Source) -> anyhow::Result<Self> {
        let reader = match format_of(magic) {
            Some(Format::Pcap) => Reader::Pcap(
                pcap::Frames::new(source).or_exit(Exit::Usage, format!("can't read {name}"))?,
            ),
            Some(Format::Pcapng) => Reader::Pcapng(
                pcapng::Frames::new(source).or_exit(Exit::Usage, format!("can't read {name}"))?,
            ),
            None => {
                let message = format!("{name} is neither a pcap nor a pcapng file");
                return Err(failure(Exit::Usage, message));
            }
        };
        Ok(Capture { name, reader })
    }

    /// The next frame; `None` at the end. A file that is cut off in the middle is an error.
    pub fn next(&mut self) -> Option<anyhow::Result<Frame>> {
        let next = match &mut self.reader {
            Reader::Pcap(frames) => frames.next(),
            Reader::Pcapng(frames) => frames.next(),
        };
        next.map(|frame| frame.or_exit(Exit::Usage, format!("in capture {}", self.name)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap,
    Pcapng,
}

fn format_of(magic: &[u8]) -> Option<Format> {
    match magic {
        [0xa1, 0xb2, 0xc3, 0xd4]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0xd4, 0xc3, 0xb2, 0xa1]
        | [0x4d, 0x3c, 0xb2, 0xa1] => Some(Format::Pcap),
        [0x0a, 0x0d, 0x0d, 0x0a] => Some(Format::Pcapng),
        _ => None,
    }
}

/// Whether a file is a capture, told by its first bytes. Files that can't be read are not.
/// A pipe is read whole and kept for [`Capture::open`].
pub fn is_capture(path: &Path) -> bool {
    let mut magic = Vec::with_capacity(4);
    let read = match once::is_regular(path) {
        true => File::open(path).and_then(|file| file.take(4).read_to_end(&mut magic)),
        false => once::bytes(path).map(|bytes| {
            magic.extend(bytes.iter().take(4));
            magic.len()
        }),
    };
    read.is_ok() && format_of(&magic).is_some()
}

#[cfg(test)]
mod tests;
