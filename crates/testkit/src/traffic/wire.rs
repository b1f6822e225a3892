//! Sending crafted packets and capturing what arrives at the two outer hosts.
//!
//! In: a [`Lab`]. Out: a [`Wire`] that sends frames from the client's and the server's interface,
//! IP packets from the gateway's own stack, and hands out what came in since the last look.
//!
//! Nothing here sleeps to "be sure". veth, loopback and the stacks hand packets on through one
//! FIFO of this CPU, so a marker frame sent behind a packet arrives behind it: when markers have
//! crossed all four link directions as often as the longest chain of hops, everything has happened
//! that a packet can cause without a timer.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::craft;
use super::script::{Link, Packet};
use crate::netns::{LINK_ENDS, Lab, Node};
use crate::sys::{self, ETHERTYPE_ALL, ETHERTYPE_MARKER};

/// Hops of the longest causal chain: three segments of a handshake over two links, and the answer
/// to a refused last one.
const ROUNDS: usize = 9;
/// A marker that takes longer says that the laboratory itself is broken.
const MARKER_LIMIT: Duration = Duration::from_secs(5);

/// How long an answer from user space may take, and how often to look.
const LATE_LIMIT_MS: i32 = 400;
const LATE_STEP_MS: i32 = 10;

/// A captured frame and where it arrived.
pub struct Arrival {
    /// The host that received it.
    pub node: Node,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// Packet sockets on the four link ends and raw sockets of the gateway.
pub struct Wire<'lab> {
    lab: &'lab Lab,
    ends: Vec<OwnedFd>,
    arrivals: Vec<Arrival>,
    markers_seen: [u32; 4],
    round: u32,
    buffer: Vec<u8>,
    /// What the other engine's run led to at this step, and how long to hope for the same.
    expected: Option<(String, i32)>,
    /// Patience shrinks where it was in vain: a filter that lets nothing through must not take all
    /// day to say so.
    patience_ms: i32,
}

impl<'lab> Wire<'lab> {
    /// Opens the sockets and waits until the hosts have said all they say by themselves.
    pub fn open(lab: &'lab Lab) -> Result<Self> {
        let mut ends = Vec::new();
        for end in &LINK_ENDS {
            let what = if end.node == Node::Gateway {
                ETHERTYPE_MARKER
            } else {
                ETHERTYPE_ALL
            };
            ends.push(lab.inside(end.node, || sys::open_packet_socket(end.interface, what))??);
        }
        let mut wire = Self {
            lab,
            ends,
            arrivals: Vec::new(),
            markers_seen: [0; 4],
            round: 0,
            buffer: vec![0; 65_536],
            expected: None,
            patience_ms: LATE_LIMIT_MS,
        };
        wire.wait_for_silence()?;
        Ok(wire)
    }

    /// IPv6 announces its groups when an interface comes up; the rules must not count that.
    fn wait_for_silence(&mut self) -> Result<()> {
        let limit = Instant::now() + Duration::from_secs(5);
        let descriptors: Vec<_> = self.ends.iter().map(AsRawFd::as_raw_fd).collect();
        while sys::wait_readable(&descriptors, 60)? {
            self.collect()?;
            if Instant::now() > limit {
                bail!("the laboratory does not fall silent");
            }
        }
        self.arrivals.clear();
        Ok(())
    }

    /// Sends a crafted packet from the host it starts at. Only the gateway can be refused by its
    /// own stack; the refusal is part of the outcome.
    pub fn send(&mut self, packet: &Packet) -> Result<Vec<String>> {
        let mut refusals = Vec::new();
        for _ in 0..packet.times {
            for bytes in craft::packets(packet) {
                if packet.from.node == Node::Gateway {
                    if let Err(error) = self.send_from_gateway(packet, &bytes)? {
                        refusals.push(format!("send: {}", error_name(&error)));
                    }
                } else {
                    self.send_frame(packet, &bytes)?;
                }
            }
            self.settle()?;
        }
        Ok(refusals)
    }

    fn send_frame(&self, packet: &Packet, bytes: &[u8]) -> Result<()> {
        let own = if packet.from.node == Node::Client {
            0
        } else {
            3
        };
        let mut frame = link_destination(packet, LINK_ENDS[own ^ 1].mac).to_vec();
        frame.extend(packet.source_mac.unwrap_or(LINK_ENDS[own].mac));
        frame.extend(if packet.from.address.is_ipv4() {
            [8, 0]
        } else {
            [0x86, 0xdd]
        });
        frame.extend(bytes);
        sys::send(&self.ends[own], &frame, None).context("send a frame")?;
        Ok(())
    }

    fn send_from_gateway(&self, packet: &Packet, bytes: &[u8]) -> Result<std::io::Result<usize>> {
        let family = if packet.to.address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let open = || sys::open(family, libc::SOCK_RAW, libc::IPPROTO_RAW);
        let socket = self.lab.inside(Node::Gateway, || match packet.owner {
            Some((user, group)) => sys::as_user(user, group, open),
            None => open(),
        })??;
        let target = SocketAddr::new(packet.to.address, 0);
        Ok(sys::send(&socket, bytes, Some(target)))
    }

    /// Waits until everything that follows from what was sent has happened.
    pub fn settle(&mut self) -> Result<()> {
        for _ in 0..ROUNDS {
            self.round += 1;
            for (index, end) in LINK_ENDS.iter().enumerate() {
                let mut frame = LINK_ENDS[index ^ 1].mac.to_vec();
                frame.extend(end.mac);
                frame.extend(ETHERTYPE_MARKER.to_be_bytes());
                frame.extend(self.round.to_be_bytes());
                frame.resize(60, 0);
                sys::send(&self.ends[index], &frame, None).context("send a marker")?;
            }
            let limit = Instant::now() + MARKER_LIMIT;
            self.collect()?;
            while let Some(late) = self.markers_seen.iter().position(|&seen| seen < self.round) {
                sys::wait_readable(&[self.ends[late].as_raw_fd()], 100)?;
                self.collect()?;
                if Instant::now() > limit {
                    bail!(
                        "a marker frame was lost on the way to {}",
                        LINK_ENDS[late].node.name()
                    );
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        for (index, socket) in self.ends.iter().enumerate() {
            loop {
                let length = match sys::receive(socket, &mut self.buffer) {
                    Ok((length, _)) => length,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("capture"),
                };
                let bytes = &self.buffer[..length];
                if bytes.get(12..14) == Some(&ETHERTYPE_MARKER.to_be_bytes()[..]) {
                    let round = bytes[14..18].try_into().context("short marker")?;
                    self.markers_seen[index] = u32::from_be_bytes(round);
                } else {
                    let node = LINK_ENDS[index].node;
                    self.arrivals.push(Arrival {
                        node,
                        bytes: bytes.to_vec(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Says what the sockets saw at this step in the other engine's run. A filter may answer from
    /// user space, which no marker can wait for.
    pub fn expect(&mut self, outcome: Option<&str>) {
        self.expected = outcome.map(|outcome| (outcome.to_owned(), self.patience_ms));
    }

    /// Whether to look again: what happened so far is not what the other run saw, and there is
    /// time left. Waits a little before it says yes.
    pub fn may_come_later(&mut self, so_far: &str) -> Result<bool> {
        let Some((outcome, left_ms)) = &mut self.expected else {
            return Ok(false);
        };
        let same = outcome
            .strip_prefix(so_far)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
        if same {
            return Ok(false);
        }
        if *left_ms <= 0 {
            self.patience_ms = (self.patience_ms / 2).max(LATE_STEP_MS);
            return Ok(false);
        }
        *left_ms -= LATE_STEP_MS;
        std::thread::sleep(Duration::from_millis(LATE_STEP_MS as u64));
        self.settle()?;
        Ok(true)
    }

    /// What arrived since the last call.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// Gives frames that a filter sends later, from user space, a chance to arrive, until there
    /// are `count` of them.
    pub fn wait_for_frames(&mut self, count: usize) -> Result<()> {
        let descriptors = [self.ends[0].as_raw_fd(), self.ends[3].as_raw_fd()];
        let mut left_ms = self.patience_ms;
        while self.arrivals.len() < count && left_ms > 0 {
            if sys::wait_readable(&descriptors, LATE_STEP_MS)? {
                self.collect()?;
            }
            self.settle()?;
            left_ms -= LATE_STEP_MS;
        }
        if self.arrivals.len() < count {
            self.patience_ms = (self.patience_ms / 2).max(LATE_STEP_MS);
        }
        Ok(())
    }

    /// The laboratory this wire belongs to.
    #[must_use]
    pub fn lab(&self) -> &'lab Lab {
        self.lab
    }
}

fn link_destination(packet: &Packet, neighbour: [u8; 6]) -> [u8; 6] {
    match (packet.link, packet.to.address) {
        (Link::Neighbour, _) => neighbour,
        (Link::Broadcast, _) => [0xff; 6],
        // RFC 1112, RFC 2464.
        (Link::Multicast, IpAddr::V4(ip)) => {
            let [_, b, c, d] = ip.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        (Link::Multicast, IpAddr::V6(ip)) => {
            let octets = ip.octets();
            [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]
        }
    }
}

/// The symbolic name of a system error, as far as a filter can cause it.
#[must_use]
pub fn error_name(error: &std::io::Error) -> String {
    let code = error.raw_os_error().unwrap_or_default();
    let name = match code {
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ECONNRESET => "ECONNRESET",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EPROTO => "EPROTO",
        libc::EPIPE => "EPIPE",
        libc::EAGAIN => "EAGAIN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        _ => return error.to_string(),
    };
    name.to_owned()
}
