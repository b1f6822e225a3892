//! Requests to the kernel's routing netlink socket (rtnetlink(7)).
//!
//! In: a message's kind, flags, fixed part and attributes. Out: the answers, or the kernel's error
//! with its words where it gives some (NETLINK_EXT_ACK).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{check, socket};

/// Flag of a request: for all there are.
pub const DUMP: u16 = libc::NLM_F_DUMP as u16;
/// Flag: make it where it isn't there.
pub const CREATE: u16 = libc::NLM_F_CREATE as u16;
/// Flag: put it in the place of what is there.
pub const REPLACE: u16 = libc::NLM_F_REPLACE as u16;
/// Flag: fail where something is there.
pub const EXCLUSIVE: u16 = libc::NLM_F_EXCL as u16;

const HEADER: usize = 16;
const ALIGN: usize = 4;
const BUFFER: usize = 1 << 16;
const NESTED: u16 = 0x8000;

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// A message of a kind, with its fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = flags | libc::NLM_F_REQUEST as u16 | libc::NLM_F_ACK as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        Message(bytes)
    }

    /// With an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Message {
        put(&mut self.0, kind, value);
        self
    }

    /// With an attribute that holds others.
    #[must_use]
    pub fn with_nested(self, kind: u16, inner: &[(u16, &[u8])]) -> Message {
        let mut bytes = Vec::new();
        for (kind, value) in inner {
            put(&mut bytes, *kind, value);
        }
        self.with(kind | NESTED, &bytes)
    }
}

fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// The attributes of bytes, as far as they are whole.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((kind & !NESTED, value))
    })
}

/// A socket for requests.
#[derive(Debug)]
pub struct Route(OwnedFd);

impl Route {
    /// A socket of the calling thread's network namespace.
    pub fn open() -> io::Result<Route> {
        let route = Route(socket::route()?);
        for name in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let on = 1i32;
            // SAFETY: pointer and size are those of a live value.
            check(unsafe {
                libc::setsockopt(
                    route.0.as_raw_fd(),
                    libc::SOL_NETLINK,
                    name,
                    (&raw const on).cast(),
                    size_of_val(&on) as libc::socklen_t,
                )
            })?;
        }
        Ok(route)
    }

    /// Sends a request, and gives the answers without their headers.
    pub fn ask(&self, message: &Message) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = message.0.clone();
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: pointer and length are those of a live vector.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        check(sent.min(0) as i32)?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let got = socket::receive(self.0.as_fd(), &mut buffer)?;
            if take(&buffer[..got], &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Takes messages out of what was received. Tells whether that was all.
fn take(mut bytes: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let (length, kind) = (word(0) as usize, word(4) as u16 as i32);
        let Some(body) = bytes.get(HEADER..length) else {
            break;
        };
        match kind {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => return refusal(body).map_or(Ok(true), Err),
            _ => answers.push(body.to_vec()),
        }
        bytes = bytes
            .get(length.next_multiple_of(ALIGN)..)
            .unwrap_or_default();
    }
    Ok(false)
}

/// The kernel's error, `None` for an acknowledgement.
fn refusal(body: &[u8]) -> Option<io::Error> {
    const MESSAGE: u16 = 1;
    let code = i32::from_ne_bytes(body.get(..4)?.try_into().ok()?);
    if code == 0 {
        return None;
    }
    let error = io::Error::from_raw_os_error(-code);
    let words = attributes(body.get(4 + HEADER..).unwrap_or_default())
        .find(|(kind, _)| *kind == MESSAGE)
        .map(|(_, text)| {
            String::from_utf8_lossy(text)
                .trim_end_matches('\0')
                .to_owned()
        });
    Some(match words {
        Some(words) => io::Error::new(error.kind(), format!("{error}: {words}")),
        None => error,
    })
}
