//! Captures of Solaris' `snoop`, as the same capture in libpcap's format.
//!
//! In: the bytes of a file (RFC 1761, version 2). Out: the bytes of a pcap file with the same
//! frames, times in microseconds. Drops and padding are left out; a file that ends in the middle of
//! a record is an error.

/// How a file begins, with its version.
const MAGIC: &[u8] = b"snoop\0\0\0\0\0\0\x02";
/// Bytes of a record before its frame.
const RECORD: usize = 24;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// The link type of libpcap for one of snoop.
fn link(kind: u32) -> Option<u32> {
    match kind {
        // IEEE 802.3 and Ethernet.
        0 | 4 => Some(1),
        // FDDI.
        8 => Some(10),
        _ => None,
    }
}

/// Whether a file is a capture of snoop.
pub fn is_snoop(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The same capture as a pcap file.
pub fn to_pcap(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !is_snoop(bytes) {
        return Err("not a capture of snoop, version 2".to_owned());
    }
    let kind = word(bytes, 12).ok_or("the header of the file is cut off")?;
    let link =
        link(kind).ok_or_else(|| format!("link type {kind} is neither Ethernet nor FDDI"))?;
    let mut out = Vec::with_capacity(bytes.len() + 24);
    for field in [0xa1b2_c3d4, 0x0002_0004, 0, 0, 1 << 18, link] {
        out.extend(u32::to_be_bytes(field));
    }
    let mut at = 16;
    let mut number = 0;
    while at < bytes.len() {
        number += 1;
        let cut = || format!("record {number} is cut off");
        let field = |index: usize| word(bytes, at + index * 4).ok_or_else(cut);
        let (original, included, record) = (field(0)?, field(1)?, field(2)?);
        let (seconds, microseconds) = (field(4)?, field(5)?);
        let frame = bytes
            .get(at + RECORD..)
            .and_then(|rest| rest.get(..included as usize))
            .ok_or_else(cut)?;
        for field in [seconds, microseconds, included, original] {
            out.extend(field.to_be_bytes());
        }
        out.extend(frame);
        if (record as usize) < RECORD + included as usize {
            return Err(format!("record {number} is shorter than its frame"));
        }
        at += record as usize;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(frames: &[&[u8]]) -> Vec<u8> {
        let mut out = [MAGIC, &[0, 0, 0, 4]].concat();
        for frame in frames {
            let padded = frame.len().next_multiple_of(4);
            let length = frame.len() as u32;
            let record = (RECORD + padded) as u32;
            for field in [length, length, record, 0, 7, 8] {
                out.extend(field.to_be_bytes());
            }
            out.extend(*frame);
            out.resize(out.len() + padded - frame.len(), 0);
        }
        out
    }

    #[test]
    fn frames_and_times_are_kept() {
        let found = to_pcap(&file(&[b"abcde", b"fgh"])).unwrap();
        let mut wanted = Vec::new();
        for field in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 1 << 18, 1, 7, 8, 5, 5] {
            wanted.extend(field.to_be_bytes());
        }
        wanted.extend(b"abcde");
        for field in [7u32, 8, 3, 3] {
            wanted.extend(field.to_be_bytes());
        }
        wanted.extend(b"fgh");
        assert_eq!(found, wanted);
    }

    #[test]
    fn broken_files_are_told() {
        let good = file(&[b"abcde"]);
        for length in [0, 11, 14, 17, 30, 42] {
            assert!(to_pcap(&good[..length]).is_err(), "{length}");
        }
        let mut endless = good.clone();
        endless[16 + 8..16 + 12].fill(0);
        assert!(to_pcap(&endless).unwrap_err().contains("shorter"));
        let mut other = good;
        other[15] = 2;
        assert!(to_pcap(&other).unwrap_err().contains("link type 2"));
    }
}
