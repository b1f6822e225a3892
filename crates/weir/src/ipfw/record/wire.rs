//! What a shim and the recorder say to each other over a Unix socket.
//!
//! In: a request (tool, folder, arguments, standard input if it is needed) or a reply (exit
//! status, both outputs). Out: bytes with lengths in front. One exchange a connection.

use std::io::{self, Read, Write};

/// The longest part of a message.
const PART_BYTES_MAX: u32 = 64 << 20;
/// The most arguments of a call.
const ARGUMENTS_MAX: u32 = 1 << 20;

/// A call of a tool.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The tool's name.
    pub tool: String,
    /// The folder that it was called in.
    pub folder: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it was given to read, when an argument says that it reads.
    pub input: Vec<u8>,
}

/// What the tool does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Exit status.
    pub status: u8,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

fn put(to: &mut impl Write, part: &[u8]) -> io::Result<()> {
    let length = u32::try_from(part.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(part)
}

fn length(from: &mut impl Read, most: u32) -> io::Result<u32> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > most {
        return Err(io::Error::other("a part is too long"));
    }
    Ok(length)
}

fn get(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = length(from, PART_BYTES_MAX)?;
    let mut part = vec![0; length as usize];
    from.read_exact(&mut part)?;
    Ok(part)
}

fn text(from: &mut impl Read) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&get(from)?).into_owned())
}

impl Request {
    /// Sends it.
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.tool.as_bytes())?;
        put(&mut bytes, self.folder.as_bytes())?;
        let count = u32::try_from(self.arguments.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&count.to_be_bytes());
        for argument in &self.arguments {
            put(&mut bytes, argument.as_bytes())?;
        }
        put(&mut bytes, &self.input)?;
        to.write_all(&bytes)
    }

    /// Receives one.
    pub fn receive(from: &mut impl Read) -> io::Result<Self> {
        let (tool, folder) = (text(from)?, text(from)?);
        let count = length(from, ARGUMENTS_MAX)?;
        let mut arguments = Vec::new();
        for _ in 0..count {
            arguments.push(text(from)?);
        }
        Ok(Self {
            tool,
            folder,
            arguments,
            input: get(from)?,
        })
    }
}

impl Reply {
    /// Sends it.
    pub fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = vec![self.status];
        put(&mut bytes, self.out.as_bytes())?;
        put(&mut bytes, self.err.as_bytes())?;
        to.write_all(&bytes)
    }

    /// Receives one.
    pub fn receive(from: &mut impl Read) -> io::Result<Self> {
        let mut status = [0];
        from.read_exact(&mut status)?;
        Ok(Self {
            status: status[0],
            out: text(from)?,
            err: text(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let request = Request {
            tool: "ipfw".to_owned(),
            folder: "/tmp".to_owned(),
            arguments: vec!["-q".to_owned(), String::new(), "add".to_owned()],
            input: vec![0, 255],
        };
        let mut bytes = Vec::new();
        request.send(&mut bytes).unwrap();
        assert_eq!(Request::receive(&mut bytes.as_slice()).unwrap(), request);
        bytes.pop();
        assert!(Request::receive(&mut bytes.as_slice()).is_err());
        let reply = Reply {
            status: 69,
            out: "a\n".to_owned(),
            err: String::new(),
        };
        let mut bytes = Vec::new();
        reply.send(&mut bytes).unwrap();
        assert_eq!(Reply::receive(&mut bytes.as_slice()).unwrap(), reply);
    }
}
