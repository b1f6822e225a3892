//! One packet of a test, and how packets of all formats are read.
//!
//! In: a file and its format. Out: packets in order, each with its direction and interface.

use super::{hex, snoop, text};
use crate::exit::{Exit, OrExit, failure};
use std::io::Read;
use std::path::Path;
use weir_engine::packet::ipf::LinkClass;

/// A packet to judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestPacket {
    /// From the IP header on.
    pub bytes: Vec<u8>,
    /// Outbound.
    pub out: bool,
    /// The interface, when the input says one.
    pub interface: Option<String>,
    /// The interface's own address, when the input says one.
    pub address: Option<u32>,
    /// To whom the frame was addressed.
    pub link: LinkClass,
    /// Checksums are to be put right.
    pub fix: bool,
}

/// Formats of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line in words each.
    #[default]
    Text,
    /// Hexadecimal digits.
    Hex,
    /// A capture file.
    Pcap,
    /// A capture of Solaris' snoop.
    Snoop,
}

/// Reads all packets. Lines that can't be read are told on standard error and left out, as the
/// original leaves them out.
pub fn read(path: Option<&Path>, format: Format, names: bool) -> anyhow::Result<Vec<TestPacket>> {
    let bytes = match path.filter(|path| *path != Path::new("-")) {
        Some(path) => std::fs::read(path).or_exit(
            Exit::Usage,
            format!("can't read packets from {}", path.display()),
        )?,
        None => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .or_exit(Exit::Usage, "can't read packets from standard input")?;
            bytes
        }
    };
    match format {
        Format::Text => Ok(text::packets(&String::from_utf8_lossy(&bytes), names)),
        Format::Hex => Ok(hex::packets(&String::from_utf8_lossy(&bytes))),
        Format::Pcap => pcap(bytes),
        Format::Snoop => {
            let why = |why| failure(Exit::Usage, format!("can't read the packets: {why}"));
            pcap(snoop::to_pcap(&bytes).map_err(why)?)
        }
    }
}

fn pcap(bytes: Vec<u8>) -> anyhow::Result<Vec<TestPacket>> {
    let mut capture = crate::capture::Capture::of_bytes("the packets", bytes)?;
    let mut packets = Vec::new();
    while let Some(frame) = capture.next() {
        let frame = frame?;
        match frame.content {
            Ok(network) => packets.push(TestPacket {
                bytes: network.bytes,
                ..TestPacket::default()
            }),
            Err(reason) => eprintln!("weir: packet {} is left out: {reason}", frame.number),
        }
    }
    Ok(packets)
}
