//! Watching packets at every netfilter hook of the gateway, in the order of the kernel's work.
//!
//! In: a laboratory. Out: a list of [`Sighting`]s: hook, interfaces, mark, owner, packet bytes,
//! each as the packet was before any table of iptables saw it at that hook (after reassembly,
//! where connection tracking asks for it), and when: a thread reads as packets come, since what
//! counts packets by time can't be judged by when somebody found time to ask. It rests on nft log
//! rules of priority -350 and on nfnetlink_log, and changes nothing about the packets. Source: uapi
//! linux/netfilter/nfnetlink_log.h and nfnetlink_conntrack.h.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use weir_policy::model::{CtState, Hook, PacketType};

use crate::netns::{Lab, Node};
use crate::sys;

const GROUP: u16 = 77;
const STATES: [(&str, CtState); 5] = [
    ("invalid", CtState::Invalid),
    ("new", CtState::New),
    ("established", CtState::Established),
    ("related", CtState::Related),
    ("untracked", CtState::Untracked),
];
const NETLINK_NETFILTER: i32 = 12;
const SUBSYSTEM_LOG: u16 = 4 << 8;
const MESSAGE_CONFIG: u16 = SUBSYSTEM_LOG | 1;
const MESSAGE_PACKET: u16 = SUBSYSTEM_LOG;

/// One packet at one hook.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// When it was read, at once after the kernel told.
    pub at: Instant,
    /// The hook.
    pub hook: Hook,
    /// Receiving interface; empty when there is none.
    pub in_interface: String,
    /// Sending interface; empty when there is none.
    pub out_interface: String,
    /// Packet mark on arrival at the hook.
    pub mark: u32,
    /// User and group of the local socket.
    pub owner: Option<(u32, u32)>,
    /// Source hardware address, where there is a link header.
    pub source_mac: Option<[u8; 6]>,
    /// Link-layer type.
    pub packet_type: PacketType,
    /// The packet from its network header on.
    pub bytes: Vec<u8>,
    /// Connection state as the kernel's own tracking sees it, where the tap asks for it.
    pub state: Option<CtState>,
}

/// What a tap asks the kernel about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing that would wake connection tracking.
    Packet,
    /// Also its connection state, at INPUT, FORWARD and POSTROUTING. This wakes tracking.
    PacketAndState,
}

/// An open tap.
pub struct Tap {
    log: Arc<Mutex<Log>>,
    is_closed: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    interfaces: Vec<(u32, String)>,
}

/// The kernel's log of packets, and what of it was read.
struct Log {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Datagrams of netlink messages.
    read: Vec<(Instant, Vec<u8>)>,
    failed: Option<std::io::Error>,
}

/// How long the reader waits before it looks whether the tap is closed.
const READER_WAIT_MS: i32 = 100;

impl Tap {
    /// Puts the log rules on the gateway and listens to them.
    pub fn open(lab: &Lab, asked: Asked) -> Result<Self> {
        let socket = lab.inside(Node::Gateway, || {
            sys::open(libc::AF_NETLINK, libc::SOCK_RAW, NETLINK_NETFILTER)
        })??;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 32 << 20)?;
        let mut log = Log {
            socket,
            buffer: vec![0; 1 << 20],
            read: Vec::new(),
            failed: None,
        };
        // NFULNL_CFG_CMD_BIND; NFULNL_COPY_PACKET of everything; one message per packet.
        log.configure(1, &[1])?;
        log.configure(2, &[0, 0, 0xff, 0xff, 2, 0])?;
        log.configure(5, &1u32.to_be_bytes())?;
        let mut rules = String::from("table inet tap {\n");
        for hook in ["prerouting", "input", "forward", "output", "postrouting"] {
            rules += &format!("chain {hook} {{ type filter hook {hook} priority -350;\n");
            // At the other two hooks tracking has not looked yet.
            if asked == Asked::PacketAndState && !matches!(hook, "prerouting" | "output") {
                for (name, _) in STATES {
                    rules += &format!("ct state {name} log prefix {name:?} group {GROUP}\n");
                }
            } else {
                rules += &format!("log group {GROUP}\n");
            }
            rules += "}\n";
        }
        let output = lab.run(Node::Gateway, "nft", &["-f", "-"], &(rules + "}\n"))?;
        ensure!(
            output.status.success(),
            "nft: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut interfaces = Vec::new();
        let links = lab.run(Node::Gateway, "ip", &["-o", "link"], "")?;
        for line in String::from_utf8(links.stdout)?.lines() {
            let mut words = line.split(": ");
            let (index, name) = (words.next().context("link")?, words.next().context("link")?);
            let name = name.split('@').next().unwrap_or(name);
            interfaces.push((index.trim().parse()?, name.to_owned()));
        }
        let descriptor = log.socket.as_raw_fd();
        let log = Arc::new(Mutex::new(log));
        let is_closed = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (log, is_closed) = (Arc::clone(&log), Arc::clone(&is_closed));
            move || follow(descriptor, &log, &is_closed)
        });
        Ok(Self {
            log,
            is_closed,
            reader: Some(reader),
            interfaces,
        })
    }

    /// What was seen since the last call.
    pub fn take(&mut self) -> Result<Vec<Sighting>> {
        let read = {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            log.drain();
            if let Some(error) = log.failed.take() {
                return Err(error).context("read the packet log");
            }
            std::mem::take(&mut log.read)
        };
        let mut sightings = Vec::new();
        for (at, datagram) in &read {
            let mut rest = datagram.as_slice();
            while rest.len() >= 16 {
                let size = u32::from_ne_bytes(rest[..4].try_into()?) as usize;
                let kind = u16::from_ne_bytes(rest[4..6].try_into()?);
                ensure!(
                    (16..=rest.len()).contains(&size),
                    "malformed netlink message"
                );
                if kind == MESSAGE_PACKET {
                    sightings.push(self.sighting(*at, &rest[20..size])?);
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        Ok(sightings)
    }

    fn sighting(&self, at: Instant, mut rest: &[u8]) -> Result<Sighting> {
        let mut sighting = Sighting {
            at,
            hook: Hook::Prerouting,
            in_interface: String::new(),
            out_interface: String::new(),
            mark: 0,
            owner: None,
            source_mac: None,
            packet_type: PacketType::Unicast,
            bytes: Vec::new(),
            state: None,
        };
        let (mut user, mut group) = (None, None);
        while rest.len() >= 4 {
            let size = usize::from(u16::from_ne_bytes(rest[..2].try_into()?));
            let kind = u16::from_ne_bytes(rest[2..4].try_into()?) & 0x7fff;
            let value = rest.get(4..size).context("malformed netlink attribute")?;
            let number = || value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            match kind {
                1 => sighting.hook = hook(value[2])?,
                2 => sighting.mark = number().context("mark")?,
                4 => sighting.in_interface = self.interface(number()),
                5 => sighting.out_interface = self.interface(number()),
                9 => sighting.bytes = value.to_vec(),
                10 => {
                    let prefix = value.strip_suffix(&[0]).unwrap_or(value);
                    let found = STATES.iter().find(|(name, _)| name.as_bytes() == prefix);
                    sighting.state = found.map(|(_, state)| *state);
                }
                11 => user = number(),
                14 => group = number(),
                16 if value.len() >= 14 => {
                    sighting.source_mac = value[6..12].try_into().ok();
                    sighting.packet_type = match value[0] {
                        0xff => PacketType::Broadcast,
                        first if first & 1 == 1 => PacketType::Multicast,
                        _ => PacketType::Unicast,
                    };
                }
                _ => {}
            }
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
        // Answers of a listener carry no owner in the log, though the owner match knows it: every
        // listener of the scripts is root's.
        let is_answer = sighting.bytes.get(9) == Some(&6) && sighting.bytes.get(33) == Some(&0x12);
        sighting.owner = user.zip(group).or(is_answer.then_some((0, 0)));
        if matches!(sighting.hook, Hook::Output | Hook::Postrouting) {
            sighting.packet_type = PacketType::Outgoing;
            sighting.source_mac = None;
        }
        Ok(sighting)
    }

    fn interface(&self, index: Option<u32>) -> String {
        let found = self
            .interfaces
            .iter()
            .find(|(number, _)| Some(*number) == index);
        found.map_or_else(String::new, |(_, name)| name.clone())
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Log {
    fn configure(&mut self, attribute: u16, value: &[u8]) -> Result<()> {
        let mut body = vec![0, 0];
        body.extend(GROUP.to_be_bytes());
        body.extend((4 + value.len() as u16).to_ne_bytes());
        body.extend(attribute.to_ne_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(MESSAGE_CONFIG.to_ne_bytes());
        // NLM_F_REQUEST | NLM_F_ACK
        message.extend(5u16.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        sys::send(&self.socket, &message, None).context("configure the packet log")?;
        sys::wait_readable(&[self.socket.as_raw_fd()], 1000)?;
        let (length, _) = sys::receive(&self.socket, &mut self.buffer)?;
        ensure!(length >= 20, "short answer of the packet log");
        let error = i32::from_ne_bytes(self.buffer[16..20].try_into()?);
        ensure!(
            error == 0,
            "packet log: {}",
            std::io::Error::from_raw_os_error(-error)
        );
        Ok(())
    }

    /// Reads all that is there.
    fn drain(&mut self) {
        loop {
            match sys::receive(&self.socket, &mut self.buffer) {
                Ok((length, _)) => {
                    let datagram = self.buffer[..length].to_vec();
                    self.read.push((Instant::now(), datagram));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }
}

/// The reader: whatever comes is read and stamped, until the tap is closed or reading fails.
fn follow(descriptor: RawFd, log: &Mutex<Log>, is_closed: &AtomicBool) {
    while !is_closed.load(Ordering::Relaxed) {
        // A wait that fails is one that saw nothing; reading tells what is wrong.
        let _ = sys::wait_readable(&[descriptor], READER_WAIT_MS);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.failed.is_some() {
            return;
        }
        log.drain();
    }
}

/// enum nf_inet_hooks.
fn hook(number: u8) -> Result<Hook> {
    Ok(match number {
        0 => Hook::Prerouting,
        1 => Hook::Input,
        2 => Hook::Forward,
        3 => Hook::Output,
        4 => Hook::Postrouting,
        other => anyhow::bail!("hook {other}"),
    })
}
