//! Two namespaces with a cable between them, for the kernel tests. They go away with the value.
#![allow(dead_code)]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_plane::space::Space;
use weir_plane::{Policy, hooks};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A host under test (10.9.0.1, fd09::1 on eth0) and a neighbour (10.9.0.2, fd09::2 on eth0).
pub struct Pair {
    pub host: String,
    pub neighbour: String,
}

fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .expect("ip runs");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Pair {
    pub fn new() -> Pair {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("plane-{}-{number}{end}", std::process::id());
        let pair = Pair {
            host: name("h"),
            neighbour: name("n"),
        };
        let (h, n) = (&pair.host, &pair.neighbour);
        ip(&format!("netns add {h}"));
        ip(&format!("netns add {n}"));
        ip(&format!(
            "link add eth0 netns {h} type veth peer name eth0 netns {n}"
        ));
        for (name, last) in [(h, 1), (n, 2)] {
            for knob in ["accept_dad=0", "dad_transmits=0", "accept_ra=0"] {
                sysctl(name, &format!("net.ipv6.conf.all.{knob}"));
            }
            sysctl(name, "net.ipv4.icmp_ratelimit=0");
            sysctl(name, "net.ipv6.icmp.ratelimit=0");
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("-n {name} addr add 10.9.0.{last}/24 dev eth0"));
            ip(&format!(
                "-n {name} -6 addr add fd09::{last}/64 dev eth0 nodad"
            ));
            ip(&format!(
                "-n {name} link set eth0 address 02:00:00:00:09:0{last}"
            ));
            ip(&format!("-n {name} link set eth0 up"));
        }
        for (name, last) in [(h, 2), (n, 1)] {
            // Policies that drop everything drop neighbour discovery too.
            for address in ["10.9.0.", "fd09::"] {
                let to = format!("{address}{last} lladdr 02:00:00:00:09:0{last}");
                ip(&format!(
                    "-n {name} neigh replace {to} dev eth0 nud permanent"
                ));
            }
        }
        pair
    }

    /// Do something in the host under test.
    pub fn in_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.host, work)
    }

    /// Do something in the neighbour.
    pub fn in_neighbour<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.neighbour, work)
    }
}

fn sysctl(namespace: &str, setting: &str) {
    // Not every kernel has every knob.
    let _ = Command::new("ip")
        .args(["netns", "exec", namespace, "sysctl", "-qw", setting])
        .output();
}

/// Do something in a namespace.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let space = Space::open(Some(name)).expect("the namespace exists");
    space
        .enter(|| Ok(work()))
        .expect("the namespace can be entered")
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.host, &self.neighbour] {
            if let Ok(mut plane) = weir_plane::Plane::open(Some(name)) {
                let _ = plane.unload();
            }
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// What the stand-in policies do with every packet of INPUT, FORWARD and OUTPUT.
#[derive(Clone, Copy)]
pub enum All {
    Accept,
    Drop,
    Reject(u32),
    LogAccept,
}

/// The image of a stand-in policy.
pub fn image(all: All) -> Vec<u8> {
    let words: [u32; 16] = match all {
        All::Accept => [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        All::Drop => [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        All::Reject(kind) => [3, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        All::LogAccept => [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

/// INPUT of both families.
pub fn input() -> u32 {
    at(weir_policy::model::Hook::Input)
}

/// A hook of both families.
pub fn at(hook: weir_policy::model::Hook) -> u32 {
    use weir_policy::model::Family;
    hooks::bit(Family::V4, hook) | hooks::bit(Family::V6, hook)
}

pub fn policy(image: &[u8], hooks: u32) -> Policy<'_> {
    Policy {
        image,
        rules: 16,
        history: 0,
        hooks,
    }
}
