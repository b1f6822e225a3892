//! Service demand over TCP: the CPU time of both ends of a transaction, on one CPU.
//!
//! In: a filter loaded in the server's namespace and a client's namespace, joined by a veth pair.
//! Out: CPU nanoseconds per transaction, client thread + server thread + the CPU's softirq thread,
//! so that other load on the machine does not count. CRR: connect, one byte each way, close. RR:
//! one byte each way on one connection. The names and the idea of service demand are netperf's.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::contender::Loaded;
use crate::inject::thread_time;
use crate::measure::Pinned;
use crate::netns::Namespace;

/// The kind of transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Connect, request, response, close.
    Crr,
    /// Request, response.
    Rr,
}

/// How long a sample lasts.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// Wall-clock time at most.
    pub time: Duration,
    /// Transactions at most. Every connection leaves its port in TIME_WAIT, so rounds times this
    /// must stay below the 64,000 ports that there are.
    pub transactions: u32,
}

/// A server behind a filter and its client.
#[derive(Debug)]
pub struct Pair {
    /// The filter and the server's namespace.
    pub server: Loaded,
    client: Namespace,
}

/// When one end hears nothing for so long, the filter has eaten a packet.
const PATIENCE: Duration = Duration::from_secs(5);
const SERVER: &str = "192.0.2.1:7";

/// Makes the two namespaces: `v0` on each side, addresses, a wide range of ports.
///
/// # Errors
/// When `ip` fails.
pub fn wire(label: &str) -> Result<(Namespace, Namespace)> {
    let server = Namespace::empty(&format!("{label}-s"))?;
    let client = Namespace::empty(&format!("{label}-c"))?;
    server.batch(&format!(
        "link add v0 type veth peer name v0 netns {}\naddr add 192.0.2.1/24 dev v0\n\
         link set v0 up\n",
        client.name
    ))?;
    client.batch("addr add 192.0.2.2/24 dev v0\nlink set v0 up\n")?;
    client.enter(|| {
        fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535")?;
        fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "1")?;
        Ok(())
    })?;
    Ok((server, client))
}

impl Pair {
    /// Joins a loaded server with its client.
    pub fn new(server: Loaded, client: Namespace) -> Pair {
        Pair { server, client }
    }

    /// Runs one sample and returns CPU nanoseconds per transaction.
    ///
    /// # Errors
    /// When an end fails or hears nothing.
    pub fn sample(&self, test: Test, length: Length) -> Result<f64> {
        let address: SocketAddr = SERVER.parse()?;
        let listener = self
            .server
            .namespace
            .enter(|| Ok(TcpListener::bind(address)?))?;
        let pinned = Pinned::to_last_cpu()?;
        let softirq = softirq_thread(pinned.cpu)?;
        let before = thread_run_time(&softirq)?;
        let (server, client) = std::thread::scope(|scope| {
            // Both threads inherit the pinning; each enters its namespace by itself.
            let server = scope.spawn(|| serve(&listener, test));
            let client = scope.spawn(|| self.client.enter(|| request(address, test, length)));
            let client = client
                .join()
                .map_err(|_| anyhow::anyhow!("the client panicked"));
            (
                server
                    .join()
                    .map_err(|_| anyhow::anyhow!("the server panicked")),
                client,
            )
        });
        let (client_time, transactions) = client??;
        let server_time = server??;
        ensure!(transactions > 0, "no transaction was completed");
        let softirq_time = thread_run_time(&softirq)? - before;
        let total = client_time + server_time + softirq_time;
        Ok(total.as_nanos() as f64 / f64::from(transactions))
    }
}

/// Answers bytes until a connection says goodbye; returns the CPU time of this thread.
fn serve(listener: &TcpListener, test: Test) -> Result<Duration> {
    let before = thread_time();
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        loop {
            if stream.read(&mut byte).context("the server hears nothing")? == 0 {
                break;
            }
            stream.write_all(&byte)?;
            if byte[0] == GOODBYE {
                return Ok(thread_time() - before);
            }
        }
        if test == Test::Rr {
            bail!("the client broke off");
        }
    }
}

const HELLO: u8 = 1;
const GOODBYE: u8 = 2;

/// Makes transactions; returns the CPU time of this thread and how many there were.
fn request(server: SocketAddr, test: Test, length: Length) -> Result<(Duration, u32)> {
    let (before, start) = (thread_time(), Instant::now());
    let mut done = 0;
    let connect = || -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).context("no connection")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let exchange = |stream: &mut TcpStream, byte: u8| -> Result<()> {
        stream.write_all(&[byte])?;
        let mut answer = [0];
        stream
            .read_exact(&mut answer)
            .context("the client hears nothing")?;
        Ok(())
    };
    let more = |done: u32| done < length.transactions && start.elapsed() < length.time;
    let mut last = match test {
        Test::Crr => {
            while more(done) {
                exchange(&mut connect()?, HELLO)?;
                done += 1;
            }
            connect()?
        }
        Test::Rr => {
            let mut stream = connect()?;
            while more(done) {
                exchange(&mut stream, HELLO)?;
                done += 1;
            }
            stream
        }
    };
    exchange(&mut last, GOODBYE)?;
    Ok((thread_time() - before, done))
}

/// The schedstat file of the kernel thread that runs deferred softirqs of a CPU.
fn softirq_thread(cpu: usize) -> Result<String> {
    let wanted = format!("ksoftirqd/{cpu}");
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim() == wanted {
            return Ok(format!("{}/schedstat", path.display()));
        }
    }
    bail!("there is no {wanted}")
}

/// Time on CPU of a thread: the first number of its schedstat, in nanoseconds.
fn thread_run_time(schedstat: &str) -> Result<Duration> {
    let text = fs::read_to_string(schedstat).with_context(|| format!("cannot read {schedstat}"))?;
    let first = text
        .split_whitespace()
        .next()
        .context("an empty schedstat")?;
    Ok(Duration::from_nanos(first.parse()?))
}
