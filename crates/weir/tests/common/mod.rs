//! What the transcripts share: the program, a folder that goes away, packets and captures.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod ipfw;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a run of the program gave.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Standard output as one JSON value a line.
    pub fn records(&self) -> Vec<Value> {
        let parse = |line| {
            let record: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            // Every object of a stream says of which shape it is.
            assert_eq!(record["schema"], 1, "{line}");
            record
        };
        self.out.lines().map(parse).collect()
    }

    /// The same, after checking the exit code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

/// A temporary folder.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file and gives its name in the folder.
    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        name.to_owned()
    }

    /// Runs the program in the folder.
    pub fn weir(&self, args: &[&str]) -> Run {
        weir_in(&self.0, args)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program, ready to start.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("SSH_CONNECTION")
        .stdin(Stdio::null());
    command
}

/// Runs the program.
pub fn weir_in(folder: &Path, args: &[&str]) -> Run {
    let output = command(folder, args).output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A frame of a capture: interface number, milliseconds, direction (1 in, 2 out), comment, bytes.
pub struct Shot {
    pub interface: u32,
    pub time_ms: u64,
    pub way: u32,
    pub comment: Option<&'static str>,
    pub bytes: Vec<u8>,
}

/// Writes a pcapng file with raw IP frames.
pub fn pcapng(path: &Path, interfaces: &[&str], shots: &[Shot]) {
    let mut writer = PcapNgWriter::new(File::create(path).unwrap()).unwrap();
    for name in interfaces {
        let mut block = InterfaceDescriptionBlock::new(DataLink::RAW, 0);
        block.options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned((*name).to_owned())),
            InterfaceDescriptionOption::IfTsResol(3),
        ];
        writer.write_pcapng_block(block).unwrap();
    }
    for shot in shots {
        let mut options = vec![EnhancedPacketOption::Flags(shot.way)];
        options.extend(
            shot.comment
                .map(|c| EnhancedPacketOption::Comment(Cow::Borrowed(c))),
        );
        let block = EnhancedPacketBlock {
            interface_id: shot.interface,
            // The library writes nanoseconds as they are; the interfaces count milliseconds.
            timestamp: Duration::from_nanos(shot.time_ms),
            original_len: shot.bytes.len() as u32,
            data: Cow::Borrowed(&shot.bytes),
            options,
        };
        writer.write_pcapng_block(block).unwrap();
    }
}

fn ipv4(proto: u8, src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut out = vec![0x45, 0];
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0, 1, 0x40, 0, 64, proto, 0, 0]);
    out.extend_from_slice(&src);
    out.extend_from_slice(&dst);
    let mut sum: u32 = out
        .chunks(2)
        .map(|p| u32::from(u16::from_be_bytes([p[0], p[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !(sum as u16);
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// A TCP segment. `at` is (sequence, acknowledgement).
pub fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8, at: (u32, u32)) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&src.1.to_be_bytes());
    segment.extend_from_slice(&dst.1.to_be_bytes());
    segment.extend_from_slice(&at.0.to_be_bytes());
    segment.extend_from_slice(&at.1.to_be_bytes());
    segment.extend_from_slice(&[0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    ipv4(6, src.0, dst.0, &segment)
}

/// A UDP datagram with 4 bytes of data.
pub fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend_from_slice(&src.1.to_be_bytes());
    datagram.extend_from_slice(&dst.1.to_be_bytes());
    datagram.extend_from_slice(&[0, 12, 0, 0, 1, 2, 3, 4]);
    ipv4(17, src.0, dst.0, &datagram)
}

/// An ICMP message with identifier 7.
pub fn icmp(src: [u8; 4], dst: [u8; 4], kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 7, 0, 1];
    message.extend_from_slice(rest);
    ipv4(1, src, dst, &message)
}

/// A network namespace that goes away with the test.
pub struct Namespace(pub String);

impl Namespace {
    pub fn new(label: &str) -> Self {
        let name = format!("cli-{label}-{}", std::process::id());
        let made = Command::new("ip")
            .args(["netns", "add", &name])
            .status()
            .unwrap();
        assert!(made.success(), "ip netns add {name}");
        Namespace(name)
    }

    /// The same with its loopback interface up.
    pub fn with_loopback(label: &str) -> Self {
        let netns = Namespace::new(label);
        ip(&format!("-n {} link set lo up", netns.0));
        netns
    }

    /// Runs a command inside; its exit status and output.
    pub fn run(&self, words: &[&str]) -> Run {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.0])
            .args(words)
            .output()
            .unwrap();
        Run {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Starts a command inside, whose standard input stays open.
    pub fn start(&self, words: &[&str]) -> Background {
        let child = Command::new("ip")
            .args(["netns", "exec", &self.0])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Background(child)
    }
}

/// A process that is ended with its test.
pub struct Background(pub Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds.
pub fn until(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        let waited = begin.elapsed();
        assert!(waited < Duration::from_secs(seconds), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let folder = std::env::temp_dir();
        let _ = weir_in(&folder, &["unload", "--netns", &self.0]);
        // Children of what was started here outlive it: who listens forks for each connection.
        let left = Command::new("ip").args(["netns", "pids", &self.0]).output();
        let left = left.map_or_else(|_| Vec::new(), |done| done.stdout);
        for pid in String::from_utf8_lossy(&left).split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Whether kernel tests can run; says loudly when not.
pub fn kernel(test: &str) -> bool {
    weir_plane::kernel_or_skip(test).is_some()
}

/// Runs `ip` with these words.
pub fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(done.success(), "ip {words}");
}

/// A cable between two namespaces, with a name and an address at each end.
pub fn cable(a: (&Namespace, &str, &str), b: (&Namespace, &str, &str)) {
    let (first, second) = (&a.0.0, &b.0.0);
    ip(&format!(
        "link add {} netns {first} type veth peer name {} netns {second}",
        a.1, b.1
    ));
    for (netns, name, address) in [a, b] {
        let netns = &netns.0;
        ip(&format!("-n {netns} addr add {address} dev {name}"));
        ip(&format!("-n {netns} link set {name} up"));
        ip(&format!("-n {netns} link set lo up"));
    }
}

/// Gives both ends of a cable addresses of IPv6 as well: `net`::1 and `net`::2.
pub fn cable6(ends: [&Namespace; 2], device: &str, net: &str) {
    for (netns, last) in ends.into_iter().zip(1..) {
        let address = format!("{net}::{last}/64 dev {device} nodad");
        ip(&format!("-n {} addr add {address}", netns.0));
    }
}

/// A client and a host with a cable (`veth0`): `net`.1 and `net`.2, of a network as 10.77.0.
pub fn client_and_host(label: &str, net: &str) -> [Namespace; 2] {
    let [client, host] = ["c", "h"].map(|end| Namespace::new(&[label, end].concat()));
    cable(
        (&client, "veth0", &format!("{net}.1/24")),
        (&host, "veth0", &format!("{net}.2/24")),
    );
    [client, host]
}

/// The files of a folder of `testdata/configs`, in order.
pub fn configs(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs");
    let entries = fs::read_dir(root.join(folder)).expect("the files are there");
    let path = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").path();
    let mut all: Vec<PathBuf> = entries.map(path).collect();
    all.sort();
    all
}

/// Whether one request is answered.
pub fn reached(from: &Namespace, to: &str) -> bool {
    let run = from.run(&["ping", "-n", "-q", "-c", "1", "-W", "1", to]);
    run.code == Some(0)
}

/// Waits until somebody listens on a port of TCP.
pub fn until_heard(netns: &Namespace, port: u16) {
    let listening = format!("ss -Hltn sport = :{port} | grep -q LISTEN");
    until("a listener", 20, || {
        netns.run(&["sh", "-c", &listening]).code == Some(0)
    });
}

/// Somebody who says back what he hears on a port, in both families.
pub fn echoing(netns: &Namespace, port: u16) -> Background {
    let listen = format!("TCP6-LISTEN:{port},fork,reuseaddr");
    let started = netns.start(&["socat", &listen, "EXEC:cat"]);
    until_heard(netns, port);
    started
}

/// The counters of the enforced rules, in the program's order.
pub fn counters(folder: &Folder, netns: &str) -> Vec<Value> {
    let args = ["counters", "--rules", "--json", "--netns", netns];
    let lines = folder.weir(&args).expect(0).json();
    lines.as_array().unwrap().clone()
}

/// Packets of the enforced rules by chain and number.
pub fn packets(folder: &Folder, netns: &Namespace) -> BTreeMap<(String, u64), u64> {
    let one = |line: &Value| {
        let chain = line["chain"].as_str().unwrap().to_owned();
        let number = |key: &str| line[key].as_u64().unwrap();
        ((chain, number("index")), number("packets"))
    };
    counters(folder, &netns.0).iter().map(one).collect()
}

/// What a script of bash meets that connects or sends: `open`, `refused` (an answer came), or
/// `silent` after three seconds.
pub fn tried(from: &Namespace, script: &str) -> &'static str {
    let run = from.run(&["timeout", "3", "bash", "-c", script]);
    match run.code {
        Some(0) => "open",
        Some(124) => "silent",
        _ if run.err.contains("refused") => "refused",
        _ => panic!("{run:?}"),
    }
}

/// A client, a gateway that forwards (`inside0`, `outside0`), and a server, in 10.`net`.1.0/24 and
/// 10.`net`.2.0/24: the ends are .1, the gateway is .2.
pub fn client_gateway_server(label: &str, net: u8) -> [Namespace; 3] {
    let [client, gateway, server] =
        ["c", "g", "s"].map(|end| Namespace::new(&[label, end].concat()));
    let address = |side: u8, host: u8| format!("10.{net}.{side}.{host}/24");
    cable(
        (&client, "veth0", &address(1, 1)),
        (&gateway, "inside0", &address(1, 2)),
    );
    cable(
        (&gateway, "outside0", &address(2, 2)),
        (&server, "veth0", &address(2, 1)),
    );
    for (end, side) in [(&client, 1), (&server, 2)] {
        ip(&format!(
            "-n {} route add default via 10.{net}.{side}.2",
            end.0
        ));
    }
    let forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"];
    gateway.run(&forward).expect(0);
    [client, gateway, server]
}
