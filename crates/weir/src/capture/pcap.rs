//! Classic pcap files: packets in order, without interface or direction.
//!
//! In: a reader at the file's start. Out: frames. Records are read raw, because a frame longer than
//! the snapshot length is ordinary here and pcap-file 2.0 refuses it when it checks them.

use super::{Frame, link};
use pcap_file::{DataLink, PcapError, TsResolution, pcap::PcapReader};
use std::io::Read;
use std::time::Duration;

/// The frames of a pcap file.
pub struct Frames<R: Read> {
    reader: PcapReader<R>,
    link: DataLink,
    nanoseconds: bool,
    number: u64,
}

impl<R: Read> Frames<R> {
    /// Reads the file header.
    pub fn new(reader: R) -> Result<Self, PcapError> {
        let reader = PcapReader::new(reader)?;
        let header = reader.header();
        Ok(Frames {
            reader,
            link: header.datalink,
            nanoseconds: header.ts_resolution == TsResolution::NanoSecond,
            number: 0,
        })
    }

    /// The next frame.
    pub fn next(&mut self) -> Option<Result<Frame, PcapError>> {
        let packet = match self.reader.next_raw_packet()? {
            Ok(packet) => packet,
            Err(error) => return Some(Err(error)),
        };
        self.number += 1;
        let scale = if self.nanoseconds { 1 } else { 1000 };
        let fraction = Duration::from_nanos(u64::from(packet.ts_frac) * scale);
        let content = link::network(self.link, &packet.data, packet.orig_len);
        Some(Ok(Frame {
            number: self.number,
            time: Duration::from_secs(u64::from(packet.ts_sec)) + fraction,
            interface: None,
            way: None,
            received_on: None,
            bare: link::bare(self.link, &packet.data, packet.orig_len, &content),
            content,
        }))
    }
}
