//! Appending sections to an image under construction.

use super::layout::{ALIGN, Header};
use zerocopy::IntoBytes;

/// An image that grows. Offsets that it hands out are final.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Offset of the first of them: not 0 for what is added to an image later.
    base: usize,
}

impl Default for Writer {
    fn default() -> Self {
        let mut writer = Writer {
            bytes: vec![0; size_of::<Header>()],
            base: 0,
        };
        writer.align(ALIGN);
        writer
    }
}

impl Writer {
    /// What is added to an image at an offset, a multiple of [`ALIGN`].
    pub fn at(base: u32) -> Self {
        Writer {
            bytes: Vec::new(),
            base: base as usize,
        }
    }

    /// What was added.
    pub fn added(&self) -> &[u8] {
        &self.bytes
    }

    /// Pads to a multiple of `to`.
    pub fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    /// Adds a section that begins at a multiple of [`ALIGN`].
    pub fn section(&mut self, bytes: &[u8]) -> u32 {
        self.align(ALIGN);
        self.piece(bytes)
    }

    /// Adds bytes at a multiple of 8.
    pub fn piece(&mut self, bytes: &[u8]) -> u32 {
        self.align(8);
        let at = self.base + self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        // Checked against the budget, which is below 4 GiB, before the image is used.
        at as u32
    }

    /// A number of two bytes that was written before.
    pub fn number(&self, at: u32) -> u16 {
        let at = at as usize - self.base;
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// A number of four bytes that was written before.
    pub fn cell(&self, at: u32) -> u32 {
        u32::from(self.number(at)) | u32::from(self.number(at + 2)) << 16
    }

    /// Bytes so far.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Puts the header in front and the checksum into it.
    pub fn finish(mut self, mut header: Header) -> Vec<u8> {
        self.align(ALIGN);
        header.length = self.bytes.len() as u32;
        header.checksum = 0;
        self.bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        header.checksum = super::checksum(&self.bytes);
        self.bytes[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        self.bytes
    }
}
