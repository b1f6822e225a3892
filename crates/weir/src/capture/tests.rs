//! Reading captures that the tests write themselves.

use super::*;
use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, TsResolution};
use std::borrow::Cow;
use std::path::PathBuf;

/// A file in the temporary folder that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let file = format!("weir-capture-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(file))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const PACKET: [u8; 20] = [
    0x45, 0, 0, 20, 0, 0, 0, 0, 64, 47, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7,
];

fn all(path: &Path) -> Vec<Frame> {
    let mut capture = Capture::open(path).unwrap();
    std::iter::from_fn(|| capture.next())
        .map(Result::unwrap)
        .collect()
}

#[test]
fn pcap_times_and_truncated_frames() {
    for (resolution, fraction) in [
        (TsResolution::MicroSecond, 250_000),
        (TsResolution::NanoSecond, 250_000_000),
    ] {
        let scratch = Scratch::new(&format!("{fraction}.pcap"));
        let header = PcapHeader {
            snaplen: 20,
            datalink: DataLink::RAW,
            ts_resolution: resolution,
            ..PcapHeader::default()
        };
        let file = File::create(&scratch.0).unwrap();
        let mut writer = PcapWriter::with_header(file, header).unwrap();
        let packet = RawPcapPacket {
            ts_sec: 1_700_000_000,
            ts_frac: fraction,
            incl_len: 20,
            orig_len: 1500,
            data: Cow::Borrowed(&PACKET),
        };
        writer.write_raw_packet(&packet).unwrap();
        drop(writer);
        let frames = all(&scratch.0);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].time, Duration::new(1_700_000_000, 250_000_000));
        assert_eq!((frames[0].number, frames[0].way), (1, None));
        let network = frames[0].content.as_ref().unwrap();
        assert_eq!(
            (network.bytes.as_slice(), network.wire),
            (&PACKET[..], 1500)
        );
    }
}

fn interface(name: &str, resolution: u8) -> InterfaceDescriptionBlock<'static> {
    let mut block = InterfaceDescriptionBlock::new(DataLink::RAW, 0);
    block.options = vec![
        InterfaceDescriptionOption::IfName(Cow::Owned(name.to_owned())),
        InterfaceDescriptionOption::IfTsResol(resolution),
    ];
    block
}

fn packet(
    interface: u32,
    units: u64,
    options: Vec<EnhancedPacketOption<'static>>,
) -> EnhancedPacketBlock<'static> {
    EnhancedPacketBlock {
        interface_id: interface,
        timestamp: Duration::from_nanos(units),
        original_len: 20,
        data: Cow::Borrowed(&PACKET),
        options,
    }
}

#[test]
fn pcapng_interfaces_directions_comments_and_clocks() {
    let scratch = Scratch::new("a.pcapng");
    let mut writer = PcapNgWriter::new(File::create(&scratch.0).unwrap()).unwrap();
    writer.write_pcapng_block(interface("lan0", 6)).unwrap();
    writer.write_pcapng_block(interface("wan0", 9)).unwrap();
    let inbound = vec![EnhancedPacketOption::Flags(1)];
    let comment = Cow::Borrowed("seen by hand, recv=lan0");
    let outbound = vec![
        EnhancedPacketOption::Flags(2),
        EnhancedPacketOption::Comment(comment),
    ];
    writer
        .write_pcapng_block(packet(0, 5_000_001, inbound))
        .unwrap();
    writer
        .write_pcapng_block(packet(1, 5_000_000_002, outbound))
        .unwrap();
    writer
        .write_pcapng_block(packet(1, 6_000_000_000, vec![]))
        .unwrap();
    drop(writer);
    let frames = all(&scratch.0);
    let seen: Vec<_> = frames
        .iter()
        .map(|f| {
            (
                f.number,
                f.interface.as_deref(),
                f.way,
                f.received_on.as_deref(),
                f.time,
            )
        })
        .collect();
    let second = |nanos| Duration::new(5, nanos);
    assert_eq!(
        seen,
        [
            (1, Some("lan0"), Some(Way::In), None, second(1000)),
            (2, Some("wan0"), Some(Way::Out), Some("lan0"), second(2)),
            (3, Some("wan0"), None, None, Duration::from_secs(6)),
        ]
    );
}

#[test]
fn what_is_no_capture_or_is_cut_off_is_refused() {
    let scratch = Scratch::new("rules");
    std::fs::write(&scratch.0, "*filter\nCOMMIT\n").unwrap();
    assert!(!is_capture(&scratch.0));
    let error = Capture::open(&scratch.0).err().unwrap();
    assert_eq!(crate::exit::code(&error), Exit::Usage);

    let cut = Scratch::new("cut.pcapng");
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    writer.write_pcapng_block(interface("a", 6)).unwrap();
    writer.write_pcapng_block(packet(0, 1, vec![])).unwrap();
    let bytes = writer.into_inner();
    std::fs::write(&cut.0, &bytes[..bytes.len() - 6]).unwrap();
    assert!(is_capture(&cut.0));
    let mut capture = Capture::open(&cut.0).unwrap();
    assert!(capture.next().unwrap().is_err());
}
