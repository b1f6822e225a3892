//! Conversations between real sockets, both ends driven by one thread.
//!
//! In: a [`Talk`] and the wire. Out: a sentence that says how far the conversation came, with the
//! error names the sockets saw, and the sockets themselves where they stay open. After every call
//! that can send, the wire settles: so the number of segments does not hang on scheduling, and a
//! lost one is known at once, without waiting for a retransmission.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};

use super::script::{Endpoint, Talk};
use super::wire::{Wire, error_name};
use crate::sys;

/// An open conversation.
struct Open {
    client: OwnedFd,
    server: OwnedFd,
    talk: Talk,
    /// Where UDP answers go.
    client_address: Option<SocketAddr>,
}

/// All conversations that stay open, by name.
#[derive(Default)]
pub struct Conversations {
    open: HashMap<String, Open>,
}

/// Why a conversation stopped early.
type Stop = String;

fn name(what: &str, error: &std::io::Error) -> Stop {
    format!("{what}: {}", error_name(error))
}

fn address(end: &Endpoint) -> SocketAddr {
    SocketAddr::new(end.address, end.port)
}

impl Conversations {
    /// Holds a conversation from its start; keeps it open if it has a name.
    pub fn hold(&mut self, wire: &mut Wire, talk: &Talk) -> Result<String> {
        let started = if talk.is_tcp {
            start_tcp(wire, talk)?
        } else {
            start_udp(wire, talk)?
        };
        let mut open = match started {
            Ok(open) => open,
            Err(stop) => return Ok(stop),
        };
        let said = exchange(wire, &mut open, talk.exchanges)?;
        match (&talk.hold, said) {
            (Some(name), Ok(said)) => {
                self.open.insert(name.clone(), open);
                Ok(format!("{said}, left open"))
            }
            (None, Ok(said)) => Ok(format!("{said}, {}", finish(wire, open)?)),
            (_, Err(stop)) => Ok(format!("{stop}, {}", abort(wire, open)?)),
        }
    }

    /// More exchanges on an open conversation.
    pub fn more(&mut self, wire: &mut Wire, name: &str, exchanges: usize) -> Result<String> {
        let Some(mut open) = self.open.remove(name) else {
            return Ok(format!("{name} is not open"));
        };
        match exchange(wire, &mut open, exchanges)? {
            Ok(said) => {
                self.open.insert(name.to_owned(), open);
                Ok(said)
            }
            Err(stop) => Ok(format!("{stop}, {}", abort(wire, open)?)),
        }
    }

    /// Ends an open conversation.
    pub fn end(&mut self, wire: &mut Wire, name: &str, reset: bool) -> Result<String> {
        let Some(open) = self.open.remove(name) else {
            return Ok(format!("{name} is not open"));
        };
        if reset {
            abort(wire, open)
        } else {
            finish(wire, open)
        }
    }

    /// Ends everything that is still open, by name order, with a reset.
    pub fn end_all(&mut self, wire: &mut Wire) -> Result<()> {
        let mut names: Vec<String> = self.open.keys().cloned().collect();
        names.sort();
        for name in names {
            self.end(wire, &name, true)?;
        }
        Ok(())
    }
}

fn open_socket(wire: &Wire, end: &Endpoint, talk: &Talk, connects: bool) -> Result<OwnedFd> {
    let family = if end.address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = if talk.is_tcp {
        libc::SOCK_STREAM
    } else {
        libc::SOCK_DGRAM
    };
    let open = || sys::open(family, kind, 0);
    let socket = wire.lab().inside(end.node, || match talk.owner {
        Some((user, group)) if connects => sys::as_user(user, group, open),
        _ => open(),
    })??;
    sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if talk.is_tcp {
        sys::set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    }
    if connects && talk.tos != 0 {
        let (level, option) = if end.address.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_TOS)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
        };
        sys::set_option(&socket, level, option, i32::from(talk.tos))?;
    }
    sys::bind(&socket, address(end)).with_context(|| format!("bind {end:?}"))?;
    Ok(socket)
}

fn start_tcp(wire: &mut Wire, talk: &Talk) -> Result<std::result::Result<Open, Stop>> {
    let listener = open_socket(wire, &talk.to, talk, false)?;
    sys::listen(&listener)?;
    let client = open_socket(wire, &talk.from, talk, true)?;
    if let Err(error) = sys::connect(&client, talk.via.unwrap_or_else(|| address(&talk.to))) {
        wire.settle()?;
        return Ok(Err(name("connect", &error)));
    }
    wire.settle()?;
    let server = patiently(wire, || answered(&client, &listener))?;
    let server = match server {
        Ok(server) => server,
        Err(stop) => {
            // Closing a half-open client must not retransmit later.
            sys::linger_zero(&client)?;
            drop(client);
            drop(listener);
            wire.settle()?;
            return Ok(Err(stop));
        }
    };
    sys::set_option(&server, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    Ok(Ok(Open {
        client,
        server,
        talk: talk.clone(),
        client_address: None,
    }))
}

/// The server's end of a connection, or how the attempt stands.
fn answered(client: &OwnedFd, listener: &OwnedFd) -> std::result::Result<OwnedFd, Stop> {
    match sys::take_error(client) {
        Ok(0) => {}
        Ok(code) => return Err(name("connect", &std::io::Error::from_raw_os_error(code))),
        Err(error) => return Err(name("connect", &error)),
    }
    sys::accept(listener).map_err(|error| name("connect: no answer; accept", &error))
}

/// Tries again while it fails in another way than in the run to compare with.
fn patiently<T>(
    wire: &mut Wire,
    mut attempt: impl FnMut() -> std::result::Result<T, Stop>,
) -> Result<std::result::Result<T, Stop>> {
    loop {
        match attempt() {
            Ok(value) => return Ok(Ok(value)),
            Err(stop) if wire.may_come_later(&stop)? => {}
            Err(stop) => return Ok(Err(stop)),
        }
    }
}

fn start_udp(wire: &mut Wire, talk: &Talk) -> Result<std::result::Result<Open, Stop>> {
    let server = open_socket(wire, &talk.to, talk, false)?;
    let client = open_socket(wire, &talk.from, talk, true)?;
    // Connected, so that ICMP errors come back as errors of the socket.
    if let Err(error) = sys::connect(&client, talk.via.unwrap_or_else(|| address(&talk.to))) {
        return Ok(Err(name("connect", &error)));
    }
    Ok(Ok(Open {
        client,
        server,
        talk: talk.clone(),
        client_address: None,
    }))
}

/// `count` requests with answers; the sentence says how many came through.
fn exchange(
    wire: &mut Wire,
    open: &mut Open,
    count: usize,
) -> Result<std::result::Result<String, Stop>> {
    for index in 1..=count {
        let request = vec![b'q'; open.talk.request];
        let answer = vec![b'a'; open.talk.answer];
        if let Err(error) = sys::send(&open.client, &request, None) {
            wire.settle()?;
            return Ok(Err(name(&format!("request {index}"), &error)));
        }
        wire.settle()?;
        let mut late = String::new();
        let arrived = patiently(wire, || {
            expect(&open.server, request.len()).map_err(|stop| {
                // Reading the error clears it, so it is kept for the next look.
                late = late_error(&open.client).unwrap_or_else(|| late.clone());
                format!("request {index}{stop}{late}")
            })
        })?;
        match arrived {
            Ok(from) => open.client_address = from,
            Err(stop) => return Ok(Err(stop)),
        }
        let target = if open.talk.is_tcp {
            None
        } else {
            open.client_address
        };
        if let Err(error) = sys::send(&open.server, &answer, target) {
            wire.settle()?;
            return Ok(Err(name(&format!("answer {index}"), &error)));
        }
        wire.settle()?;
        let arrived = patiently(wire, || {
            expect(&open.client, answer.len()).map_err(|stop| format!("answer {index}{stop}"))
        })?;
        if let Err(stop) = arrived {
            return Ok(Err(stop));
        }
    }
    Ok(Ok(format!("{count} exchanges")))
}

/// The error that came back for a request that did not arrive.
fn late_error(client: &OwnedFd) -> Option<String> {
    match sys::take_error(client) {
        Ok(0) | Err(_) => None,
        Ok(code) => Some(format!(
            " ({})",
            error_name(&std::io::Error::from_raw_os_error(code))
        )),
    }
}

fn expect(socket: &OwnedFd, length: usize) -> std::result::Result<Option<SocketAddr>, Stop> {
    let mut buffer = vec![0; length + 1];
    match sys::receive(socket, &mut buffer) {
        Ok((got, from)) if got == length => Ok(from),
        Ok((got, _)) => Err(format!(": {got} bytes instead of {length}")),
        Err(error) => Err(format!(" lost: {}", error_name(&error))),
    }
}

/// FIN from the client, FIN back, both closed.
fn finish(wire: &mut Wire, open: Open) -> Result<String> {
    if !open.talk.is_tcp {
        drop(open);
        wire.settle()?;
        return Ok("closed".to_owned());
    }
    if let Err(error) = sys::shut_down_writing(&open.client) {
        return Ok(name("close", &error));
    }
    wire.settle()?;
    let mut buffer = [0; 1];
    match sys::receive(&open.server, &mut buffer) {
        Ok((0, _)) => {}
        Ok(_) => return Ok(format!("data instead of the end, {}", abort(wire, open)?)),
        Err(error) => return Ok(format!("{}, {}", name("end", &error), abort(wire, open)?)),
    }
    // The side that stays behind must not retransmit its FIN: reset it after settling if the
    // other end never saw it.
    if let Err(error) = sys::shut_down_writing(&open.server) {
        return Ok(name("close back", &error));
    }
    wire.settle()?;
    let ended = matches!(sys::receive(&open.client, &mut buffer), Ok((0, _)));
    if !ended {
        return Ok(format!("end lost on the way back, {}", abort(wire, open)?));
    }
    drop(open);
    wire.settle()?;
    Ok("closed".to_owned())
}

/// Reset from the client, then from the server, if it still has something to reset.
fn abort(wire: &mut Wire, open: Open) -> Result<String> {
    let Open {
        client,
        server,
        talk,
        ..
    } = open;
    if talk.is_tcp {
        sys::linger_zero(&client)?;
        sys::linger_zero(&server)?;
    }
    drop(client);
    wire.settle()?;
    drop(server);
    wire.settle()?;
    Ok("reset".to_owned())
}
