//! The laboratory of the kernel tests: three network namespaces, client - gateway - server.
//!
//! In: nothing. Out: a [`Lab`] whose namespaces carry no traffic but the test's own: neighbour
//! entries are fixed, IPv6 says nothing by itself, offloads are off, ICMP is not rate-limited,
//! TCP acknowledges every segment at once. It filters nothing; that is the engine's part.
//!
//! ```text
//! client eth0 10.77.1.2-9    -- eth0 gateway eth1 --    eth0 server 10.77.2.2-9
//!             fd77:1::2-9       10.77.1.1  10.77.2.1                fd77:2::2-9
//! 203.0.113.0/24, 2001:db8:1::/48 are routed to the client (nobody owns them there),
//! 198.51.100.0/24, 2001:db8:2::/48 to the server, for scripts that play both ends themselves.
//! ```
//!
//! The namespaces go away on every exit, kill -9 included: a shell waits for the end of a pipe
//! that only this process holds, then removes them. Source: ip-netns(8), ip-sysctl of the kernel.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::sys;

/// One of the three hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Sends most of the traffic.
    Client,
    /// Filters.
    Gateway,
    /// Answers.
    Server,
}

impl Node {
    /// All hosts in the order of the line.
    pub const ALL: [Node; 3] = [Node::Client, Node::Gateway, Node::Server];

    /// The name in traffic scripts and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Node::Client => "client",
            Node::Gateway => "gw",
            Node::Server => "server",
        }
    }
}

/// A link end: host, interface, hardware address.
pub struct LinkEnd {
    /// The host that has the interface.
    pub node: Node,
    /// Its name there.
    pub interface: &'static str,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// The four link ends; neighbours are 0-1 and 2-3.
pub const LINK_ENDS: [LinkEnd; 4] = [
    LinkEnd {
        node: Node::Client,
        interface: "eth0",
        mac: [2, 0x77, 1, 0, 0, 2],
    },
    LinkEnd {
        node: Node::Gateway,
        interface: "eth0",
        mac: [2, 0x77, 1, 0, 0, 1],
    },
    LinkEnd {
        node: Node::Gateway,
        interface: "eth1",
        mac: [2, 0x77, 2, 0, 0, 1],
    },
    LinkEnd {
        node: Node::Server,
        interface: "eth0",
        mac: [2, 0x77, 2, 0, 0, 2],
    },
];

/// The three namespaces, alive until dropped.
pub struct Lab {
    names: [String; 3],
    files: Vec<File>,
    watchdog: Child,
    watchdog_line: Option<ChildStdin>,
}

static NEXT_LAB: AtomicU32 = AtomicU32::new(0);

impl Lab {
    /// Builds the three namespaces.
    pub fn create() -> Result<Self> {
        Self::create_with(None)
    }

    /// Builds the three namespaces; when they go, `filter unload --netns GATEWAY` is run first, so
    /// that nothing of a weir policy outlives them.
    pub fn create_with(filter: Option<&Path>) -> Result<Self> {
        let number = NEXT_LAB.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("corpus-{}-{number}", std::process::id());
        let names = ["c", "g", "s"].map(|end| format!("{prefix}-{end}"));
        let mut watchdog = start_watchdog(&names, filter)?;
        let watchdog_line = watchdog.stdin.take();
        let mut lab = Self {
            names,
            files: Vec::new(),
            watchdog,
            watchdog_line,
        };
        let adds: String = lab
            .names
            .iter()
            .map(|name| format!("netns add {name}\n"))
            .collect();
        run_batch(None, &adds)?;
        for name in &lab.names {
            let path = format!("/run/netns/{name}");
            lab.files
                .push(File::open(&path).with_context(|| path.clone())?);
        }
        for node in Node::ALL {
            lab.inside(node, || set_quiet(node))??;
        }
        run_batch(None, &links(&lab.names))?;
        for node in Node::ALL {
            run_batch(Some(lab.file(node)), &addresses(node))?;
        }
        for end in &LINK_ENDS {
            lab.inside(end.node, || sys::disable_offloads(end.interface))?
                .with_context(|| format!("offloads of {} {}", end.node.name(), end.interface))?;
        }
        Ok(lab)
    }

    /// The system-wide name of a host's namespace.
    #[must_use]
    pub fn name(&self, node: Node) -> &str {
        &self.names[node as usize]
    }

    fn file(&self, node: Node) -> &File {
        &self.files[node as usize]
    }

    /// Runs `work` on this thread inside a host's namespace.
    pub fn inside<R>(&self, node: Node, work: impl FnOnce() -> R) -> Result<R> {
        sys::inside(self.file(node), work).with_context(|| format!("enter {}", self.name(node)))
    }

    /// Runs a program inside a host's namespace with `input` on its standard input.
    pub fn run(&self, node: Node, program: &str, args: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(program);
        command.args(args);
        self.inside(node, || feed(&mut command, input))?
            .with_context(|| program.to_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.files.clear();
        self.watchdog_line.take();
        if let Err(error) = self.watchdog.wait() {
            eprintln!("{}: namespaces may be left over: {error}", self.names[0]);
        }
    }
}

/// Starts a program, writes its input, waits for its end and takes what it printed.
pub fn feed(command: &mut Command, input: &str) -> Result<Output> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut pipe = child.stdin.take().context("no pipe to the program")?;
    // A program that refuses its input early closes the pipe; its own message says why.
    let _refused = pipe.write_all(input.as_bytes());
    drop(pipe);
    Ok(child.wait_with_output()?)
}

fn start_watchdog(names: &[String; 3], filter: Option<&Path>) -> Result<Child> {
    let script = "filter=$1; shift; cat >/dev/null; \
                  [ -z \"$filter\" ] || \"$filter\" unload --netns $2 >/dev/null 2>&1; \
                  for name in \"$@\"; do \
                  [ ! -e /run/netns/$name ] || ip netns delete $name; done";
    Command::new("sh")
        .args(["-c", script, "watchdog"])
        .arg(filter.unwrap_or(Path::new("")))
        .args(names)
        .stdin(Stdio::piped())
        // Its own group: Ctrl-C at the terminal must not end the cleaner before its work.
        .process_group(0)
        .spawn()
        .context("start the shell that removes the namespaces")
}

fn run_batch(namespace: Option<&File>, lines: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]);
    let output = match namespace {
        Some(file) => sys::inside(file, || feed(&mut command, lines))??,
        None => feed(&mut command, lines)?,
    };
    if !output.status.success() {
        bail!(
            "ip -batch failed: {}\n{lines}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn links(names: &[String; 3]) -> String {
    let end = |index: usize| {
        let LinkEnd {
            node,
            interface,
            mac,
        } = &LINK_ENDS[index];
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        format!(
            "name {interface} netns {} address {mac}",
            names[*node as usize]
        )
    };
    format!(
        "link add {} type veth peer {}\nlink add {} type veth peer {}\n",
        end(1),
        end(0),
        end(2),
        end(3)
    )
}

/// Switches everything off by which a host would speak, or fall silent, on its own account.
fn set_quiet(node: Node) -> Result<()> {
    let forward = if node == Node::Gateway { "1" } else { "0" };
    let mut settings: Vec<(String, &str)> = vec![
        ("ipv4/ip_forward".into(), forward),
        ("ipv4/icmp_ratelimit".into(), "0"),
        ("ipv4/icmp_ratemask".into(), "0"),
        ("ipv6/icmp/ratelimit".into(), "0"),
        ("ipv6/auto_flowlabels".into(), "0"),
        ("ipv4/tcp_ecn".into(), "0"),
        ("ipv4/tcp_early_retrans".into(), "0"),
        ("ipv4/tcp_no_metrics_save".into(), "1"),
        ("ipv4/tcp_invalid_ratelimit".into(), "0"),
        ("ipv4/tcp_challenge_ack_limit".into(), "1000000"),
        ("ipv4/tcp_syncookies".into(), "0"),
    ];
    for scope in ["all", "default"] {
        for (name, value) in [
            ("rp_filter", "0"),
            ("send_redirects", "0"),
            ("accept_redirects", "0"),
            ("secure_redirects", "0"),
        ] {
            settings.push((format!("ipv4/conf/{scope}/{name}"), value));
        }
        for (name, value) in [
            ("accept_dad", "0"),
            ("dad_transmits", "0"),
            ("router_solicitations", "0"),
            ("accept_ra", "0"),
            ("accept_redirects", "0"),
            ("mldv2_unsolicited_report_interval", "1"),
            ("forwarding", forward),
        ] {
            settings.push((format!("ipv6/conf/{scope}/{name}"), value));
        }
    }
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        std::fs::write(&path, value).with_context(|| path.clone())?;
    }
    // Only there on some kernels, and only some keep it per namespace.
    let _absent = std::fs::write("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000");
    Ok(())
}

/// Addresses, routes and neighbours of one host. `quickack` makes TCP acknowledge every segment
/// at once, so that the number of acknowledgements does not hang on timers.
fn addresses(node: Node) -> String {
    let mut lines = String::from("link set lo up\n");
    let ends: Vec<usize> = (0..4)
        .filter(|&index| LINK_ENDS[index].node == node)
        .collect();
    for &index in &ends {
        let interface = LINK_ENDS[index].interface;
        let peer = LINK_ENDS[index ^ 1]
            .mac
            .map(|byte| format!("{byte:02x}"))
            .join(":");
        let net = index / 2 + 1;
        lines += &format!("link set {interface} up\n");
        let own = if node == Node::Gateway { 1..=1 } else { 2..=9 };
        for host in own {
            lines += &format!(
                "address add 10.77.{net}.{host}/24 broadcast 10.77.{net}.255 dev {interface} \
                 noprefixroute\naddress add fd77:{net}::{host}/64 dev {interface} nodad \
                 noprefixroute\n"
            );
        }
        lines += &format!(
            "route add 10.77.{net}.0/24 dev {interface} quickack 1 rto_min 5s\n\
             route add fd77:{net}::/64 dev {interface} quickack 1 rto_min 5s\n"
        );
        let others = if node == Node::Gateway { 2..=9 } else { 1..=1 };
        for host in others {
            lines += &format!(
                "neighbour replace 10.77.{net}.{host} lladdr {peer} dev {interface} nud permanent\n\
                 neighbour replace fd77:{net}::{host} lladdr {peer} dev {interface} nud permanent\n"
            );
        }
        let link_local = if node == Node::Gateway { 2 } else { 1 };
        lines += &format!(
            "neighbour replace fe80::77:{net}ff:fe00:{link_local} lladdr {peer} dev {interface} \
             nud permanent\n"
        );
        let (far4, far6) = match (node, net) {
            (Node::Gateway, 1) => (
                format!("203.0.113.0/24 via 10.77.{net}.2"),
                "2001:db8:1::/48",
            ),
            (Node::Gateway, _) => (
                format!("198.51.100.0/24 via 10.77.{net}.2"),
                "2001:db8:2::/48",
            ),
            _ => (format!("default via 10.77.{net}.1"), "default"),
        };
        let via6 = if node == Node::Gateway { 2 } else { 1 };
        lines += &format!(
            "route add {far4} quickack 1 rto_min 5s\n\
             route add {far6} via fd77:{net}::{via6} quickack 1 rto_min 5s\n"
        );
    }
    if node == Node::Gateway {
        lines += "route replace table local local 127.0.0.0/8 dev lo src 127.0.0.1 quickack 1\n";
    }
    lines
}
