//! Checking an image once, so that walkers need no checks.
//!
//! Every offset that a walker follows is inside the image with all that it reads there, every class
//! has its row, every edge of the trail goes forward, every count is within the maximum that the
//! kernel's programs are verified for. The checksum only tells damage; this is checked anyway.

mod aside;
mod dynamic;
mod vectors;
mod walk;

use super::brief::entry_at;
use super::layout::{ALIGN, Entry, Header, MAGIC, Root, VERSION};
use super::read;
use zerocopy::FromBytes;

/// Why bytes are not an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too short, too long, or not a multiple of 64 bytes.
    #[error("the length does not fit an image")]
    Length,
    /// Not an image at all.
    #[error("not an image of weir")]
    Magic,
    /// Of another version of weir.
    #[error("image version {0}, this program reads {VERSION}")]
    Version(u32),
    /// Damaged.
    #[error("the checksum does not fit")]
    Checksum,
    /// An offset, count or number points outside.
    #[error("{0} is out of bounds")]
    Bounds(&'static str),
}

/// A checked image.
#[derive(Clone, Debug)]
pub struct Image<'b> {
    bytes: &'b [u8],
    header: Header,
}

impl<'b> Image<'b> {
    /// Checks everything.
    pub fn from_bytes(bytes: &'b [u8]) -> Result<Self, Error> {
        let header: Header = read(bytes, 0).ok_or(Error::Length)?;
        if header.magic != MAGIC {
            return Err(Error::Magic);
        }
        if header.version != VERSION {
            return Err(Error::Version(header.version));
        }
        if header.length as usize != bytes.len() || !bytes.len().is_multiple_of(ALIGN) {
            return Err(Error::Length);
        }
        if header.checksum != super::checksum(bytes) {
            return Err(Error::Checksum);
        }
        let image = Image { bytes, header };
        walk::everything(&image)?;
        Ok(image)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All bytes.
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Reads a structure; zero beyond the end, which checked offsets never reach.
    pub fn read<T: FromBytes + Copy>(&self, at: u32) -> T {
        read(self.bytes, at).unwrap_or_else(T::new_zeroed)
    }

    /// The entry of a root at a position.
    pub fn entry(&self, root: &Root, position: u32) -> Entry {
        entry_at(self.bytes, root, position).unwrap_or_default()
    }
}
