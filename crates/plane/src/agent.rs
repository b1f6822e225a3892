//! The work that goes on while a policy is in force: answering rejected packets, asking the ends of
//! TCP states whether they are still there, and keeping the table of local addresses. Enforcement
//! does not need it.

use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use weir_policy::eval::Locals;
use weir_policy::model::{AddrType, Hook};

use crate::abi::Control;
use crate::alive::{Rounds, Segment};
use crate::answers::{self, Answer};
use crate::error::{Result, system};
use crate::events::{Event, Reader};
use crate::load::random_seed;
use crate::locals;
use crate::pace::Pace;
use crate::plane::Plane;
use crate::swap;
use crate::sys::socket;

/// Records handled before anything else is looked at again.
const BATCH: usize = 256;

/// The agent of one namespace. It answers as long as it lives.
#[derive(Debug)]
pub struct Agent {
    plane: Plane,
    rejects: Option<Reader>,
    v4: OwnedFd,
    v6: Option<OwnedFd>,
    /// For keep-alives: programs know these by their socket.
    keep_v4: OwnedFd,
    keep_v6: Option<OwnedFd>,
    rounds: Rounds,
    changes: OwnedFd,
    locals: Locals,
    pace: Pace,
    answered: u64,
    changed: u64,
}

impl Agent {
    /// Start to answer in a namespace. There may be no policy there yet.
    pub fn open(netns: Option<&str>) -> Result<Agent> {
        let plane = Plane::open(netns)?;
        let made = plane.space.enter(|| {
            let raw_v4 = || socket::raw_v4().map_err(system("opening a raw IPv4 socket"));
            let v4 = (raw_v4()?, raw_v4()?);
            let changes =
                socket::address_changes().map_err(system("listening for address changes"))?;
            // A host without IPv6 has nothing to answer there.
            let v6 = (socket::raw_v6().ok(), socket::raw_v6().ok());
            Ok((v4, v6, changes, locals::read()?, Pace::of_namespace()))
        })?;
        let (v4, v6, changes, locals, pace) = made;
        let mut agent = Agent {
            plane,
            rejects: None,
            v4: v4.0,
            v6: v6.0,
            keep_v4: v4.1,
            keep_v6: v6.1,
            rounds: Rounds::new(random_seed()[0]),
            changes,
            locals,
            pace,
            answered: 0,
            changed: 0,
        };
        agent.adopt()?;
        Ok(agent)
    }

    /// The plane that the agent works for.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The plane that the agent works for, to change it.
    pub fn plane_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }

    /// Answers sent.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// How often interfaces or addresses changed.
    pub fn changes(&self) -> u64 {
        self.changed
    }

    /// Take up the instance in force: announce the sockets, forget rejects that are too old.
    fn adopt(&mut self) -> Result<()> {
        let Ok(instance) = self.plane.instance() else {
            self.rejects = None;
            return Ok(());
        };
        let reader = Reader::open(instance, "rejects")?;
        if instance.control().load32(offset_of!(Control, answering)) == 0 {
            reader.discard();
        }
        let cookie = |fd: &OwnedFd| {
            socket::cookie(fd.as_fd()).map_err(system("asking for a socket's number"))
        };
        let place = offset_of!(Control, answer_cookie);
        instance.control().store64(place, cookie(&self.v4)?);
        if let Some(v6) = &self.v6 {
            instance.control().store64(place + 8, cookie(v6)?);
        }
        let place = offset_of!(Control, keep_cookie);
        instance.control().store64(place, cookie(&self.keep_v4)?);
        if let Some(v6) = &self.keep_v6 {
            instance.control().store64(place + 8, cookie(v6)?);
        }
        instance
            .control()
            .store32(offset_of!(Control, own_mark), self.rounds.mark());
        instance
            .control()
            .store32(offset_of!(Control, answering), 1);
        locals::write(instance, &self.locals);
        self.rejects = Some(reader);
        Ok(())
    }

    /// Work for at most `wait`, less when something came up. Tells whether a policy is in force.
    pub fn serve(&mut self, wait: Duration) -> Result<bool> {
        if self.plane.is_outdated()? {
            self.plane.refresh()?;
            self.adopt()?;
        }
        let milliseconds = wait.as_millis().min(60_000) as i32;
        let mut descriptors = vec![self.changes.as_fd()];
        descriptors.extend(self.rejects.as_ref().map(Reader::descriptor));
        let ready =
            socket::wait(&descriptors, milliseconds).map_err(system("waiting for rejects"))?;
        if ready[0] {
            self.read_locals()?;
        }
        self.answer_rejects();
        self.keep_alive()?;
        Ok(self.plane.number().is_some())
    }

    fn read_locals(&mut self) -> Result<()> {
        let mut buffer = [0; 8192];
        while socket::receive(self.changes.as_fd(), &mut buffer).is_ok() {}
        self.changed += 1;
        // One that came and is gone again, or a policy that was just replaced, is nobody's fault.
        let _ = self.plane.take_up_interfaces();
        self.locals = self.plane.space.enter(locals::read)?;
        if let Ok(instance) = self.plane.instance() {
            locals::write(instance, &self.locals);
        }
        Ok(())
    }

    fn answer_rejects(&mut self) {
        let Some(mut reader) = self.rejects.take() else {
            return;
        };
        let marks = self.plane.instance().is_ok_and(swap::answers_pass);
        reader.consume(BATCH, |event| {
            // What a program of this host sent: its answer comes in past the lists, too.
            let mark = match marks && event.key.hook == Hook::Output as u8 {
                true => self.rounds.mark(),
                false => 0,
            };
            if let Some(answer) = answers::answer(&event, &self.locals, mark)
                && (!answer.icmp || self.pace.allows(answer.to, Instant::now()))
            {
                self.send(&event, answer);
            }
            true
        });
        self.rejects = Some(reader);
    }

    /// Asks ends of states that are about to end, where the policy in force wants that.
    fn keep_alive(&mut self) -> Result<()> {
        let Ok(instance) = self.plane.instance() else {
            return Ok(());
        };
        if !swap::keeps_alive(instance) {
            return Ok(());
        }
        let locals = &self.locals;
        let is_local = |family, address| locals.kind(family, address) == AddrType::Local;
        for segment in self.rounds.due(instance, is_local)? {
            self.ask(&segment);
        }
        Ok(())
    }

    /// A question that cannot be sent now is asked again in the next round.
    fn ask(&self, segment: &Segment) {
        let _ = match (segment.to, &self.keep_v6) {
            (IpAddr::V4(to), _) => socket::send_v4(self.keep_v4.as_fd(), &segment.bytes, to),
            (IpAddr::V6(to), Some(v6)) => {
                socket::send_v6(v6.as_fd(), &segment.bytes, to, segment.scope)
            }
            (IpAddr::V6(_), None) => Ok(()),
        };
    }

    /// A packet that cannot be sent now is lost, as it would be in the kernel.
    fn send(&mut self, event: &Event, mut answer: Answer) {
        let sent = match answer.to {
            IpAddr::V4(to) => socket::send_v4(self.v4.as_fd(), &answer.bytes, to),
            IpAddr::V6(to) => {
                let Some(v6) = &self.v6 else { return };
                let scope = self.scope(event, to);
                if answers::needs_source6(&answer) {
                    let Some(source) = self.source6(to, scope) else {
                        return;
                    };
                    answers::set_source6(&mut answer, source);
                }
                socket::send_v6(v6.as_fd(), &answer.bytes, to, scope)
            }
        };
        self.answered += u64::from(sent.is_ok());
    }

    /// The interface of a link-local destination.
    fn scope(&self, event: &Event, to: Ipv6Addr) -> u32 {
        if to.segments()[0] & 0xffc0 != 0xfe80 {
            return 0;
        }
        let name = if event.in_iface.is_empty() {
            &event.out_iface
        } else {
            &event.in_iface
        };
        let index = self.plane.space.enter(|| Ok(socket::interface_index(name)));
        index.ok().flatten().unwrap_or(0)
    }

    /// The address that the kernel would send from.
    fn source6(&self, to: Ipv6Addr, scope: u32) -> Option<Ipv6Addr> {
        // A new socket each time: one that was connected before keeps its source address.
        let bind =
            || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).map_err(system("asking for a route"));
        let route = self.plane.space.enter(bind).ok()?;
        route.connect(SocketAddrV6::new(to, 9, 0, scope)).ok()?;
        match route.local_addr().ok()?.ip() {
            IpAddr::V6(source) if !source.is_unspecified() => Some(source),
            _ => None,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Ok(instance) = self.plane.instance() {
            for place in [
                offset_of!(Control, answering),
                offset_of!(Control, own_mark),
            ] {
                instance.control().store32(place, 0);
            }
        }
    }
}
