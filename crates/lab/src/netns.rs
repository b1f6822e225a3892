//! Network namespaces of the lab: made, wired with a veth pair, entered, and always removed.
//!
//! In: a label. Out: a [`Namespace`] whose `v0` owns the lab's destination space (every address of
//! it is local), routes everything else to a neighbour that does not exist, and is deleted when the
//! value is dropped. Names hold the process number, so that [`remove_stale`] can clear up after a
//! run that was killed outright. It never touches a namespace that this prefix does not name.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::space::Family;

/// All namespaces of the lab start with this.
pub const PREFIX: &str = "wtlab-";
/// The hardware address of `v0` in every namespace, so that one frame fits all.
pub const FILTER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
/// A hardware address that nobody has: what is sent there leaves and is thrown away by the peer.
pub const NOBODY_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0f];
const NETNS_DIRECTORY: &str = "/run/netns";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A namespace that lives as long as this value.
#[derive(Debug)]
pub struct Namespace {
    /// Its name, as `ip netns` shows it.
    pub name: String,
    link: File,
    /// Index of the interface that traffic comes in by, zero until it is wired.
    pub interface: u32,
    /// The hardware address of that interface.
    pub hardware_address: [u8; 6],
    /// Whether the namespace goes when this value goes.
    owned: bool,
}

impl Namespace {
    /// Makes an empty namespace (a loopback interface that is up, nothing else).
    ///
    /// # Errors
    /// When `ip` fails, usually for want of privilege.
    pub fn empty(label: &str) -> Result<Namespace> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        run(Command::new("ip").args(["netns", "add", &name]), None)?;
        let link = File::open(Path::new(NETNS_DIRECTORY).join(&name))
            .with_context(|| format!("cannot open namespace {name}"))?;
        let namespace = Namespace {
            name,
            link,
            interface: 0,
            hardware_address: FILTER_MAC,
            owned: true,
        };
        namespace.batch("link set lo up\n")?;
        Ok(namespace)
    }

    /// Opens a namespace that somebody else made, to push packets into one of its interfaces. It
    /// stays when this value is dropped.
    ///
    /// # Errors
    /// When there is no such namespace or interface.
    pub fn open(name: &str, interface: &str) -> Result<Namespace> {
        let link = File::open(Path::new(NETNS_DIRECTORY).join(name))
            .with_context(|| format!("there is no namespace {name}"))?;
        let mut show = Command::new("ip");
        show.args(["-n", name, "-json", "link", "show", "dev", interface]);
        let links: serde_json::Value = serde_json::from_str(&run(&mut show, None)?)?;
        let address = links[0]["address"].as_str().and_then(mac_from_text);
        let hardware_address =
            address.with_context(|| format!("{interface} in {name} has no hardware address"))?;
        let mut namespace = Namespace {
            name: name.to_owned(),
            link,
            interface: 0,
            hardware_address,
            owned: false,
        };
        namespace.interface = namespace.index_of(interface)?;
        Ok(namespace)
    }

    /// Makes a namespace in which `v0` receives the lab's traffic, IPv4 and IPv6.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn receiver(label: &str) -> Result<Namespace> {
        let mut namespace = Namespace::empty(label)?;
        let [filter, nobody] = [FILTER_MAC, NOBODY_MAC].map(mac_text);
        // Duplicate address detection and router discovery would only send stray packets.
        namespace.enter(|| {
            // IPv6 lets a socket have a routed local address only with this.
            std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1")?;
            for name in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{name}/");
                std::fs::write(format!("{path}accept_dad"), "0")?;
                std::fs::write(format!("{path}accept_ra"), "0")?;
                std::fs::write(format!("{path}router_solicitations"), "0")?;
            }
            Ok(())
        })?;
        let mut lines = format!(
            "link add v0 address {filter} type veth peer name v1 address 02:00:00:00:00:02\n\
             link set v0 up\nlink set v1 up\n\
             addr add 192.0.2.1/24 dev v0\naddr add 2001:db8:2::1/64 dev v0 nodad\n\
             neigh add 192.0.2.254 lladdr {nobody} dev v0\n\
             neigh add 2001:db8:2::fe lladdr {nobody} dev v0\n\
             route add default via 192.0.2.254 dev v0\n\
             route add default via 2001:db8:2::fe dev v0\n"
        );
        for family in [Family::V4, Family::V6] {
            let space = family.destinations().text(family);
            lines += &format!("route add local {space} dev v0\n");
        }
        namespace.batch(&lines)?;
        namespace.interface = namespace.index_of("v0")?;
        Ok(namespace)
    }

    /// The index of an interface inside.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn index_of(&self, interface: &str) -> Result<u32> {
        self.enter(|| {
            let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            Ok(name_to_index(&any, interface)?)
        })
    }

    /// Runs `ip` commands inside, one per line.
    ///
    /// # Errors
    /// When one of them fails.
    pub fn batch(&self, lines: &str) -> Result<()> {
        run(
            Command::new("ip").args(["-n", &self.name, "-batch", "-"]),
            Some(lines.as_bytes()),
        )
        .map(drop)
    }

    /// Runs a closure with the calling thread inside the namespace, then returns to where it was.
    /// Children started inside stay inside.
    ///
    /// # Errors
    /// Those of the closure, and when a namespace cannot be entered.
    pub fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let home = File::open("/proc/thread-self/ns/net").context("cannot open own namespace")?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(self.link.as_fd(), network)
            .with_context(|| format!("cannot enter namespace {}", self.name))?;
        let result = work();
        move_into_link_name_space(home.as_fd(), network).context("cannot leave a namespace")?;
        result
    }

    /// Runs a program inside with the given input and returns what it printed.
    ///
    /// # Errors
    /// When it cannot be started or does not end with status 0; the message holds its own words.
    pub fn run(&self, command: &mut Command, input: Option<&[u8]>) -> Result<String> {
        self.enter(|| run(command, input))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if let Err(error) = run(Command::new("ip").args(["netns", "del", &self.name]), None) {
            eprintln!(
                "weir-lab: namespace {} is left behind: {error:#}",
                self.name
            );
        }
    }
}

/// Removes namespaces of lab processes that are gone, with what the weir program pinned for them.
///
/// # Errors
/// When one cannot be removed.
pub fn remove_stale(weir: Option<&Path>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(NETNS_DIRECTORY) else {
        return Ok(()); // no namespace was ever made on this machine
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let Some(Ok(pid)) = rest.split('-').next().map(str::parse::<u32>) else {
            continue;
        };
        if Path::new(&format!("/proc/{pid}")).exists() {
            continue;
        }
        if let Some(weir) = weir {
            // Most leftovers never held weir, and then it has nothing to unload.
            run(Command::new(weir).args(["unload", "--netns", &name]), None).ok();
        }
        run(Command::new("ip").args(["netns", "del", &name]), None)?;
    }
    Ok(())
}

/// Runs a program with the given input and returns what it printed.
///
/// # Errors
/// When it cannot be started or does not end with status 0; the message holds its own words.
pub fn run(command: &mut Command, input: Option<&[u8]>) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let stdin = if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let pipe = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // A thread of its own: a program that prints before it has read all must not stall us.
        if let (Some(mut pipe), Some(input)) = (pipe, input) {
            // A program that stops reading says why on its standard error.
            scope.spawn(move || pipe.write_all(input).ok());
        }
        child.wait_with_output()
    })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words: Vec<_> = words.lines().take(3).map(|line| line.trim()).collect();
        bail!("{name}: {} ({})", words.join(" / "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn mac_from_text(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_as_text() {
        assert_eq!(mac_from_text(&mac_text(NOBODY_MAC)), Some(NOBODY_MAC));
        assert_eq!(mac_from_text("02:00:00:00:00"), None);
        assert_eq!(mac_from_text("02:00:00:00:00:0g"), None);
    }
}
